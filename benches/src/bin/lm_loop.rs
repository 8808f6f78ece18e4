//! What our decoder adds to ONNX Runtime: milliseconds per step of [`Decoder::decode`] against a bare
//! loop of calls on the same session with everything bound beforehand and no logic, in turns; then the
//! tokens per second of a batch of 4 against one sequence, and the prefill of a prompt in chunks.
//!
//! The bare loop has the same prompt in a cache of its own, and must give the same logits bit by bit: the work
//! is the same. It runs on the decoder's session because two sessions of one graph differ among themselves: each
//! has its weights elsewhere in memory, and of two bare loops on two sessions, either is up to a tenth slower, for
//! as long as the process lives. That control is measured and printed as well.
//!
//! `cargo run --release -p firstword-benches --bin lm_loop -- FOLDER [prompt] [steps] [rounds]`, pinned
//! to one core (`taskset -c 1`) where others work too; the library is found as the tests find it.
#![allow(clippy::unwrap_used)] // A measurement: what fails ends it.

#[path = "../../../models/tests/library/mod.rs"]
mod library;

use std::path::Path;
use std::time::Duration;

use firstword_models::language::decoder::{Capacity, Decoder, Slot, Wanted};
use firstword_models::language::folder::{LanguageFolder, Layout};
use firstword_targets::Cpu;
use ort::memory::Allocator;
use ort::session::{IoBinding, Session};
use ort::value::Tensor;
use rustix::time::{ClockId, clock_gettime};

const SLOTS: usize = 4;
const CHUNK: usize = 128;

/// The same graph with its tensors bound, and nothing else.
struct Bare {
    binding: IoBinding,
    prompt: usize,
    ids: Tensor<i64>,
    /// One for each length, made beforehand.
    masks: Vec<Tensor<i64>>,
    name: String,
}

impl Bare {
    /// With the prompt of [`prefill`] in its cache.
    fn new(
        session: &mut Session,
        folder: &LanguageFolder,
        window: usize,
        prompt: usize,
        steps: usize,
    ) -> Self {
        let mut binding = session.create_binding().unwrap();
        let (signature, shape) = (&folder.signature, &folder.shape);
        let allocator = Allocator::default();
        for layer in &signature.layers {
            for part in [0, 1] {
                let size = [1, shape.kv_heads, window, shape.head_dim];
                // Kept alive by the binding, as input and as output.
                let mut cache = Tensor::<f32>::new(&allocator, size).unwrap();
                cache.extract_tensor_mut().1.fill(0.0);
                binding.bind_input(&layer.past[part], &cache).unwrap();
                binding.bind_output(&layer.present[part], cache).unwrap();
            }
        }
        let ids = Tensor::from_array(([1_usize, 1], vec![1_i64])).unwrap();
        binding.bind_input(&signature.input_ids, &ids).unwrap();
        if let Some(name) = &signature.logit_rows {
            let rows = Tensor::from_array(([1_usize], vec![-1_i64])).unwrap();
            binding.bind_input(name, &rows).unwrap();
        }
        let logits = Tensor::<f32>::new(&allocator, [1, 1, shape.vocabulary]).unwrap();
        binding.bind_output(&signature.logits, logits).unwrap();
        let name = signature.attention_mask.clone().unwrap();
        let mask = |total: usize| Tensor::from_array(([1, total], vec![1_i64; total])).unwrap();
        let mut past = 0;
        for chunk in prompt_tokens(prompt).chunks(CHUNK) {
            past += chunk.len();
            let chunk: Vec<i64> = chunk.iter().map(|&token| i64::from(token)).collect();
            let chunk = Tensor::from_array(([1, chunk.len()], chunk)).unwrap();
            binding.bind_input(&signature.input_ids, &chunk).unwrap();
            binding.bind_input(&name, &mask(past)).unwrap();
            raw_run(session, &binding);
        }
        binding.bind_input(&signature.input_ids, &ids).unwrap();
        Self {
            masks: (1..=steps).map(|step| mask(prompt + step)).collect(),
            name,
            binding,
            prompt,
            ids,
        }
    }

    fn step(&mut self, session: &mut Session, step: usize) {
        // The id is written in place, the mask of this length bound.
        self.ids.extract_tensor_mut().1[0] = (self.prompt + step) as i64;
        self.binding
            .bind_input(&self.name, &self.masks[step])
            .unwrap();
        raw_run(session, &self.binding);
    }

    /// The logits of the last step.
    fn logits(&mut self, session: &mut Session, name: &str) -> Vec<f32> {
        let outputs = session.run_binding(&self.binding).unwrap();
        outputs[name]
            .try_extract_tensor::<f32>()
            .unwrap()
            .1
            .to_vec()
    }
}

/// Without the values that `ort` makes of every output at every run: nobody looks at them here.
fn raw_run(session: &mut Session, binding: &IoBinding) {
    use ort::AsPointer;
    // SAFETY: the binding belongs to the session, both are live and used by one thread.
    let status =
        unsafe { (ort::api().RunWithBinding)(session.ptr_mut(), std::ptr::null(), binding.ptr()) };
    // SAFETY: straight from the call.
    unsafe { ort::Error::result_from_status(status) }.unwrap();
}

/// CPU time of this thread, which other work on the machine disturbs less than the clock on the wall;
/// with one thread all of a step is in it.
fn now() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn median(times: &mut [Duration]) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1e3
}

fn mean_of_lower_half(times: &mut [Duration]) -> f64 {
    times.sort();
    let half = &times[..times.len().div_ceil(2)];
    half.iter().sum::<Duration>().as_secs_f64() * 1e3 / half.len() as f64
}

fn prompt_tokens(prompt: usize) -> Vec<u32> {
    (0..prompt as u32).map(|at| 100 + at * 37 % 1000).collect()
}

fn prefill(decoder: &mut Decoder, slot: Slot, prompt: usize) -> Duration {
    let tokens = prompt_tokens(prompt);
    let start = now();
    for chunk in tokens.chunks(CHUNK) {
        let last = decoder.length(slot) + chunk.len() == prompt;
        let wanted = if last { Wanted::Last } else { Wanted::None };
        decoder.prefill(slot, chunk, prompt, wanted).unwrap();
    }
    now() - start
}

fn resident_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap();
    line.trim()
        .trim_end_matches("kB")
        .trim()
        .parse::<u64>()
        .unwrap()
        / 1000
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: usize| {
        arguments
            .get(at)
            .map_or(default, |text| text.parse().unwrap())
    };
    let (prompt, steps, rounds) = (number(1, 512), number(2, 64), number(3, 6));
    let Some(library) = library::library() else {
        return;
    };
    let folder =
        LanguageFolder::open(Path::new(arguments.first().expect("a model folder"))).unwrap();
    assert!(
        folder.layout == Layout::Fused,
        "the bare loop binds a shared cache"
    );
    let window = (prompt + steps + 1).next_multiple_of(256);
    let cpu = Cpu::default();
    let capacity = Capacity {
        slots: SLOTS,
        window,
    };

    let before = resident_mb();
    let start = now();
    let mut decoder = Decoder::load(library, &cpu, &folder, capacity).unwrap();
    println!(
        "load {:.0} ms, resident {} MB",
        (now() - start).as_secs_f64() * 1e3,
        resident_mb() - before
    );
    let slots: Vec<Slot> = (0..SLOTS).map(|_| decoder.open().unwrap()).collect();
    let first = prefill(&mut decoder, slots[0], prompt);
    let mut again = Vec::new();
    for &slot in &slots[1..] {
        again.push(prefill(&mut decoder, slot, prompt));
    }
    println!(
        "prefill of {prompt} in chunks of {CHUNK}: {:.0} ms, then {:.0} ms; resident {} MB",
        first.as_secs_f64() * 1e3,
        median(&mut again),
        resident_mb() - before
    );

    let mut bare = Bare::new(decoder.session(), &folder, window, prompt, steps);
    let mut other = cpu
        .clone()
        .for_changing_shapes()
        .session(library, &folder.graph)
        .unwrap();
    let mut control = Bare::new(&mut other, &folder, window, prompt, steps);
    let mut times = [Vec::new(), Vec::new(), Vec::new()];
    let mut each_round = Vec::new();
    for round in 0..=rounds {
        decoder.truncate(slots[0], prompt);
        let mut this_round = [Vec::new(), Vec::new(), Vec::new()];
        for step in 0..steps {
            // In turns, step by step, so that all see the same weather; who begins alternates.
            for turn in 0..3 {
                let who = (turn + step) % 3;
                let start = now();
                match who {
                    0 => drop(
                        decoder
                            .decode(&[(slots[0], (prompt + step) as u32)])
                            .unwrap(),
                    ),
                    1 => bare.step(decoder.session(), step),
                    _ => control.step(&mut other, step),
                }
                this_round[who].push(now() - start);
            }
        }
        if round == 0 {
            // The last step once more: a step on the same position changes nothing.
            decoder.truncate(slots[0], prompt + steps - 1);
            let token = (prompt + steps - 1) as u32;
            let ours = decoder
                .decode(&[(slots[0], token)])
                .unwrap()
                .row(0)
                .to_vec();
            let name = &folder.signature.logits;
            assert_eq!(
                ours,
                bare.logits(decoder.session(), name),
                "not the same work"
            );
            assert_eq!(ours, control.logits(&mut other, name), "not the same work");
            continue;
        }
        let [ours, bare, control] = this_round.each_mut().map(|list| median(list));
        each_round.push((ours / bare, control / bare));
        for (all, round) in times.iter_mut().zip(this_round) {
            all.extend(round);
        }
    }
    for (what, of) in [
        ("median", median as fn(&mut [Duration]) -> f64),
        ("mean of the lower half", mean_of_lower_half),
    ] {
        let [ours, bare, control] = times.each_mut().map(|list| of(list));
        println!(
            "step, {what}: ours {ours:.3} ms, bare {bare:.3} ms, ratio {:.4}; bare on another session \
             {control:.3} ms, ratio {:.4}",
            ours / bare,
            control / bare
        );
    }
    println!("median of each round, ours and the other session's to bare: {each_round:.4?}");
    drop(bare);
    drop(control);
    drop(other);

    let (mut one, mut four) = (Vec::new(), Vec::new());
    for round in 0..=rounds {
        for &slot in &slots {
            decoder.truncate(slot, prompt);
        }
        for step in 0..steps {
            let token = (prompt + step) as u32;
            for batch in [SLOTS, 1] {
                decoder.truncate(slots[0], prompt + step);
                let batch: Vec<(Slot, u32)> =
                    slots[..batch].iter().map(|&slot| (slot, token)).collect();
                let start = now();
                decoder.decode(&batch).unwrap();
                if round > 0 {
                    if batch.len() > 1 { &mut four } else { &mut one }.push(now() - start);
                }
            }
        }
    }
    let (one, four) = (median(&mut one), median(&mut four));
    println!(
        "batch 1: {:.1} tokens/s ({one:.2} ms), batch {SLOTS}: {:.1} tokens/s ({four:.2} ms), ratio {:.2}",
        1e3 / one,
        1e3 * SLOTS as f64 / four,
        SLOTS as f64 * one / four
    );
    println!("{:?}", decoder.counts());
}
