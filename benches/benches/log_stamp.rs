//! What it costs a stage to tell the log: the clock alone, a push, and both together (a stamp).
//!
//!     cargo bench -p firstword-benches --bench log_stamp
//!
//! The writing thread works meanwhile, as it does in the product. A push into a full queue is measured apart: it is what a stage
//! pays when the writer can't keep up.

use std::hint::black_box;
use std::time::Duration;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use firstword::config::Config;
use firstword::log::event::Event;
use firstword::log::queue::Queue;
use firstword::log::{Log, Options};
use firstword_audio::Stamp;

fn stamps(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a folder for the log");
    let settings = Config::defaults().expect("defaults").settings;
    let log = Log::start(Options {
        trace: true,
        ..Options::of(&settings, folder.path().to_owned())
    });
    let recorder = log.recorder();
    let stream = recorder.stream("mic");
    criterion.bench_function("clock", |bench| bench.iter(Stamp::now));

    // As many pushes as find room, then an empty queue again: filled and drained outside of what is timed.
    let event = Event::Arrival {
        stream,
        samples: 160,
        captured: Stamp::now(),
        received: Stamp::now(),
    };
    let empty = || Queue::<Event>::new(1024);
    criterion.bench_function("1000 pushes into a queue with room", |bench| {
        bench.iter_batched_ref(
            empty,
            |queue| (0..1000).filter(|_| queue.push(black_box(event))).count(),
            BatchSize::LargeInput,
        );
    });
    criterion.bench_function("1000 stamps: clock and push", |bench| {
        bench.iter_batched_ref(
            empty,
            |queue| {
                (0..1000)
                    .filter(|_| {
                        let now = Stamp::now();
                        queue.push(Event::Arrival {
                            stream,
                            samples: 160,
                            captured: now,
                            received: now,
                        })
                    })
                    .count()
            },
            BatchSize::LargeInput,
        );
    });
    criterion.bench_function("stamp with the log at work, mostly full", |bench| {
        bench.iter(|| {
            let now = Stamp::now();
            recorder.arrival(stream, 160, now, now);
        });
    });
}

criterion_group! {
    name = all;
    config = Criterion::default().warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(3));
    targets = stamps
}
criterion_main!(all);
