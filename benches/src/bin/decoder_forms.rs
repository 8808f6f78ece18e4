//! What the rebuilt decoder saves: milliseconds per token, first pass, encoder and loading, for both
//! forms in turn, on one thread, in its CPU time (which other work on the machine disturbs less than
//! the clock on the wall). Needs `firstword model pull` (or FIRSTWORD_HOME).
//!
//! `cargo run --release -p firstword-benches --bin decoder_forms`, pinned to one core
//! (`taskset -c 1`) where others work too.
#![allow(clippy::unwrap_used)] // A measurement: what fails ends it.

#[path = "../../../models/tests/speech/mod.rs"]
mod speech;

use std::time::Duration;

use firstword_models::speech::{Draft, Moonshine};
use firstword_targets::Cpu;
use rustix::time::{ClockId, clock_gettime};
use speech::{Real, SECOND};

const ROUNDS: usize = 15;

#[derive(Default)]
struct Times {
    encode: Vec<Duration>,
    first: Vec<Duration>,
    draft: Vec<Duration>,
    token: Vec<Duration>,
}

impl Times {
    fn round(&mut self, moonshine: &mut Moonshine, sound: &[f32]) {
        let start = now();
        let encoded = moonshine.encode(sound).unwrap();
        self.encode.push(now() - start);
        let mut last = now();
        let mut first = true;
        let found = moonshine.decode(&encoded, Draft::default(), |_| {
            let at = now();
            let list = if first {
                &mut self.first
            } else {
                &mut self.token
            };
            list.push(at - last);
            (first, last) = (false, at);
        });
        let tokens = found.unwrap().tokens;
        let mut last = Some(now());
        let draft = Draft {
            tokens: &tokens,
            forced: 0,
        };
        let again = moonshine.decode(&encoded, draft, |_| {
            self.draft.extend(last.take().map(|last| now() - last));
        });
        again.unwrap();
    }

    fn print(mut self, name: &str) {
        print!("  {name:8}");
        for list in [
            &mut self.encode,
            &mut self.first,
            &mut self.draft,
            &mut self.token,
        ] {
            list.sort();
            let median = list[list.len() / 2];
            print!(
                "{:8.2} (least {:.2})",
                median.as_secs_f64() * 1e3,
                list[0].as_secs_f64() * 1e3
            );
        }
        println!();
    }
}

/// CPU time of this thread.
fn now() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn main() {
    let Some(real) = Real::find() else { return };
    let cpu = Cpu::default();
    let folder = tempfile::tempdir().unwrap();
    let load = |what: &str, how: &dyn Fn() -> Moonshine| {
        let start = now();
        let moonshine = how();
        let ms = (now() - start).as_secs_f64() * 1e3;
        println!("load {what}: {ms:.0} ms, {}", moonshine.decoder_form());
        moonshine
    };
    let lean = || Moonshine::load(real.library, &cpu, &real.model, Some(folder.path())).unwrap();
    let shipped = || Moonshine::load_shipped(real.library, &cpu, &real.model).unwrap();
    drop(load("shipped", &shipped));
    drop(load("lean, cold", &lean));
    drop(load("lean, kept", &lean));
    let mut shipped = load("shipped", &shipped);
    let mut lean = load("lean, kept", &lean);

    println!("ms: encoder, first pass, pass over the whole draft, each further token");
    let clip = real.clip("two_cities.wav");
    for seconds in [2, 5, 10, 15] {
        let sound = &clip[SECOND..(1 + seconds) * SECOND];
        let (mut ours, mut theirs) = (Times::default(), Times::default());
        for _ in 0..ROUNDS {
            theirs.round(&mut shipped, sound);
            ours.round(&mut lean, sound);
        }
        println!(
            "{seconds} s of sound, {} tokens",
            ours.token.len() / ROUNDS + 1
        );
        theirs.print("shipped");
        ours.print("lean");
    }
}
