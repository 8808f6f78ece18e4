//! What our decoder adds to ONNX Runtime: milliseconds per step of [`Decoder::decode`] against a bare
//! loop of calls on the same graph with everything bound beforehand and no logic, in turns; then the
//! tokens per second of a batch of 4 against one sequence, and the prefill of a prompt in chunks.
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
use firstword_targets::{Cpu, Library};
use ort::memory::Allocator;
use ort::session::{IoBinding, Session};
use ort::value::Tensor;
use rustix::time::{ClockId, clock_gettime};

const SLOTS: usize = 4;
const CHUNK: usize = 128;

/// The same graph with its tensors bound, and nothing else.
struct Bare {
    session: Session,
    binding: IoBinding,
    prompt: usize,
    ids: Tensor<i64>,
    /// One for each length, made beforehand.
    masks: Vec<Tensor<i64>>,
    name: String,
}

impl Bare {
    /// With the keys and values of a prompt of zeros of this length: a step costs the same whatever they are.
    fn new(
        library: &Library,
        cpu: &Cpu,
        folder: &LanguageFolder,
        window: usize,
        prompt: usize,
        steps: usize,
    ) -> Self {
        let cpu = cpu.clone().for_changing_shapes();
        let session = cpu.session(library, &folder.graph).unwrap();
        let mut binding = session.create_binding().unwrap();
        let (signature, shape) = (&folder.signature, &folder.shape);
        let allocator = Allocator::default();
        for layer in &signature.layers {
            for part in [0, 1] {
                let size = [1, shape.kv_heads, window, shape.head_dim];
                // Kept alive by the binding, as input and as output.
                let mut cache = Tensor::<f32>::new(&allocator, size).unwrap();
                cache.extract_tensor_mut().1.fill(0.1);
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
        let mask = |total: usize| Tensor::from_array(([1, total], vec![1_i64; total])).unwrap();
        Self {
            masks: (1..=steps).map(|step| mask(prompt + step)).collect(),
            name: signature.attention_mask.clone().unwrap(),
            session,
            binding,
            prompt,
            ids,
        }
    }

    fn step(&mut self, step: usize) {
        // The id is written in place, the mask of this length bound.
        self.ids.extract_tensor_mut().1[0] = (self.prompt + step) as i64;
        self.binding
            .bind_input(&self.name, &self.masks[step])
            .unwrap();
        raw_run(&mut self.session, &self.binding);
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

fn prefill(decoder: &mut Decoder, slot: Slot, prompt: usize) -> Duration {
    let tokens: Vec<u32> = (0..prompt as u32).map(|at| 100 + at * 37 % 1000).collect();
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

    let mut bare = Bare::new(library, &cpu, &folder, window, prompt, steps);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..=rounds {
        decoder.truncate(slots[0], prompt);
        for step in 0..steps {
            // In turns, step by step, so that both see the same weather; who begins alternates.
            for turn in 0..2 {
                let start = now();
                let list = if (turn + step) % 2 == 0 {
                    decoder
                        .decode(&[(slots[0], (prompt + step) as u32)])
                        .unwrap();
                    &mut ours
                } else {
                    bare.step(step);
                    &mut theirs
                };
                if round > 0 {
                    list.push(now() - start);
                }
            }
        }
    }
    let ratios = [
        (median(&mut ours), median(&mut theirs), "median"),
        (
            mean_of_lower_half(&mut ours),
            mean_of_lower_half(&mut theirs),
            "mean of the lower half",
        ),
    ];
    for (ours, theirs, what) in ratios {
        println!(
            "step, {what}: ours {ours:.3} ms, bare {theirs:.3} ms, ratio {:.4}",
            ours / theirs
        );
    }
    drop(bare);

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
