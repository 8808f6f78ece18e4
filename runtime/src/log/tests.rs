//! From what stages tell to what a reader of the folder finds.

use std::ops::ControlFlow;
use std::path::Path as FilePath;

use firstword_audio::clock::{Samples, Stamp};
use serde_json::Value;

use super::assemble::Assembler;
use super::event::Event;
use super::rare::{Drop as Dropped, Move, Rare};
use super::read::{Content, Range, Source, Tally, Trace};
use super::*;
use crate::record::{Counts, Ending, Finish, Path, Record, Reply, ReplyPath, SCHEMA, Steps, Work};
use crate::speech::transcript::{Partial, Word};

pub(super) fn options(folder: &FilePath) -> Options {
    Options {
        folder: folder.to_owned(),
        objective: Objective::default(),
        text: false,
        budget_bytes: 64 << 20,
        segment_bytes: 4 << 20,
        segment_age: Duration::from_secs(3600),
        sync: Sync::Never,
        sync_every: Duration::from_secs(5),
        flush_every: Duration::from_millis(20),
        rate_bytes_per_s: 1 << 24,
        device_every: Duration::from_secs(10),
        trace: false,
        trace_bytes: 1 << 20,
    }
}

fn model(name: &str) -> Model {
    Model {
        model: name.to_owned(),
        precision: Some("fast".to_owned()),
        decoder: Some("lean".to_owned()),
        target: "cpu".to_owned(),
        placement: Some("CPUExecutionProvider".to_owned()),
        onnxruntime: "1.31.1".to_owned(),
    }
}

/// An instant, ms after the test's beginning of time, which is not long ago.
fn at(ms: u64) -> Stamp {
    Stamp::from_nanos(
        Stamp::now().as_nanos() / 1_000_000_000 * 1_000_000_000 - 20_000_000_000 + ms * 1_000_000,
    )
}

fn record() -> Record {
    let ms = Duration::from_millis;
    Record {
        schema: SCHEMA,
        kind: "utterance",
        stream: "mic".to_owned(),
        utterance: 7,
        start: Samples(1_600),
        end: Samples(48_000),
        ending: Ending::Length,
        model: "ear".to_owned(),
        decoder: "lean".to_owned(),
        target: "cpu".to_owned(),
        onnxruntime: "1.31.1".to_owned(),
        path: Path {
            first_captured: at(1_000),
            last_captured: at(4_000),
            end_captured: at(4_500),
            received: at(4_501),
            resampled: at(4_502),
            judged: at(4_505),
            started: at(4_506),
            encoded: at(4_530),
            decoded: at(4_561),
            assembled: at(4_562),
            handed_over: at(4_570),
        },
        work: Work {
            read: ms(1),
            resample: ms(2),
            voice_activity: ms(27),
            encode: ms(120),
            decode: ms(90),
            slowest_step: Duration::from_micros(2_700),
        },
        counts: Counts {
            passes: 7,
            decoder_steps: 31,
            tokens: 11,
            tokens_kept: 20,
            tokens_looped: 1,
            cut_short: true,
            samples_lost: 9,
        },
    }
}

fn reply() -> Reply {
    Reply {
        path: ReplyPath {
            accepted: at(4_571),
            prompted: at(4_572),
            started: at(4_573),
            prefilled: at(4_620),
            first_token: at(4_625),
            last_token: at(4_925),
        },
        prompt_tokens: 300,
        cached_tokens: 100,
        prefill_chunks: 2,
        tokens: 21,
        context_tokens: 321,
        finish: Finish::Length,
        detokenise: Duration::from_micros(250),
        steps: Steps::of((1..=20).map(|step| (step * 1_000, 1))),
    }
}

fn words() -> Vec<Word> {
    let word = |ms: u64| Word {
        text: "word".to_owned(),
        covered: Samples(ms * 16),
        captured: at(1_000 + ms),
        committed: at(1_100 + ms),
        handed_over: Some(at(1_101 + ms)),
    };
    vec![word(500), word(900)]
}

fn partial(captured: u64) -> Partial {
    Partial {
        utterance: 7,
        start: Samples(1_600),
        covered: Samples(16_000),
        captured: at(captured),
        committed: "word".to_owned(),
        tentative: String::new(),
    }
}

/// Every line of the log at this place, as JSON, the segments' first lines left out.
fn lines(folder: &FilePath) -> Vec<Value> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    paths
        .iter()
        .flat_map(|path| {
            let text = std::fs::read_to_string(path).unwrap();
            text.lines()
                .map(|line| serde_json::from_str(line).unwrap())
                .collect::<Vec<Value>>()
        })
        .filter(|line| line["kind"] != "segment")
        .collect()
}

fn of_kind(lines: &[Value], kind: &str) -> Vec<Value> {
    let found = lines.iter().filter(|line| line["kind"] == kind);
    found.cloned().collect()
}

/// Whether `line` has all fields of `part` with the same values.
fn assert_holds(line: &Value, part: &Value) {
    for (key, value) in part.as_object().unwrap() {
        assert_eq!(&line[key], value, "{key} of {line}");
    }
}

#[test]
fn what_was_told_in_events_is_the_record_that_was_told() {
    let folder = tempfile::tempdir().unwrap();
    let log = Log::start(options(folder.path()));
    let recorder = log.recorder();
    let ear = recorder.load(model("ear"), Load::default());
    let tongue = recorder.load(model("tongue"), Load::default());
    let stream = recorder.stream("mic");
    let (record, words) = (record(), words());
    let heard = Heard {
        stream,
        model: ear,
        record: &record,
        words: &words,
        text: "word word",
    };
    // Latencies of partials: 40, 60 and 50 ms; the first came 340 ms after the first sample.
    for (captured, handed) in [(1_300, 1_340), (1_600, 1_660), (1_900, 1_950)] {
        recorder.partial(stream, &partial(captured), at(handed));
    }
    recorder.utterance(&heard);
    recorder.request(tongue, &reply(), "question", "answer");
    recorder.turn(&heard, tongue, &reply(), "answer");
    recorder.close_stream(stream);
    log.finish();

    let lines = lines(folder.path());
    let utterance = &of_kind(&lines, "utterance")[0];
    assert_holds(utterance, &serde_json::to_value(&record).unwrap());
    assert_eq!(utterance["cold"], true);
    assert_eq!(utterance["first_partial_ms"], 340.0);
    // Nearest rank of 40, 50, 60.
    assert_eq!(
        utterance["partial_ms"],
        serde_json::json!({"count": 3, "p50": 50.0, "p95": 60.0, "max": 60.0})
    );
    assert_eq!(utterance["words"].as_array().unwrap().len(), 2);
    assert_eq!(
        utterance["words"][1]["committed_ns"],
        words[1].committed.as_nanos()
    );
    assert_eq!(utterance["objective"], Value::Null);

    let language = crate::record::Language {
        model: "tongue".to_owned(),
        precision: "fast".to_owned(),
        target: "cpu".to_owned(),
        placement: Some("CPUExecutionProvider".to_owned()),
    };
    let request = crate::record::Request::new(language.clone(), "1.31.1".to_owned(), reply());
    let line = &of_kind(&lines, "request")[0];
    assert_holds(line, &serde_json::to_value(&request).unwrap());
    // 4625 − 4571 ms.
    assert_eq!(line["objective"]["value_ms"], 54.0);
    assert_eq!(line["objective"]["held"], true);
    assert_eq!(line["cold"], true);

    let turn = crate::record::Turn::new(&record, language, reply());
    let line = &of_kind(&lines, "turn")[0];
    assert_holds(line, &serde_json::to_value(&turn).unwrap());
    // 4625 − 4000 ms, above 387. Two records are too few to say what is usual.
    assert_eq!(line["objective"]["value_ms"], 625.0);
    assert_eq!(line["objective"]["held"], false);
    assert_eq!(line["cause"], Value::Null);
    assert_eq!(line["cold"], false, "both models have worked before");
    assert_eq!(line["text"], Value::Null, "nobody asked for texts");
    for line in [utterance, line] {
        assert!(line["device"]["process_rss_bytes"].as_u64().unwrap() > 0);
        assert_eq!(line["lost_events"], 0);
    }
    assert_eq!(of_kind(&lines, "load").len(), 2);
    assert_eq!(of_kind(&lines, "device").len(), 1);
}

#[test]
fn the_critical_path_of_every_record_adds_up_within_a_millisecond() {
    let folder = tempfile::tempdir().unwrap();
    let log = Log::start(options(folder.path()));
    let recorder = log.recorder();
    let (ear, tongue) = (
        recorder.load(model("ear"), Load::default()),
        recorder.load(model("tongue"), Load::default()),
    );
    let stream = recorder.stream("mic");
    let record = record();
    let heard = Heard {
        stream,
        model: ear,
        record: &record,
        words: &[],
        text: "",
    };
    recorder.utterance(&heard);
    recorder.request(tongue, &reply(), "", "");
    recorder.turn(&heard, tongue, &reply(), "");
    log.finish();
    let lines = lines(folder.path());
    for (kind, total) in [
        ("utterance", "final_latency_ms"),
        ("request", "e2e_ms"),
        ("turn", "e2e_ms"),
    ] {
        let line = &of_kind(&lines, kind)[0];
        let stages = line["stages_ms"].as_object().unwrap();
        let sum: f64 = stages.values().map(|ms| ms.as_f64().unwrap()).sum();
        assert!((sum - line[total].as_f64().unwrap()).abs() < 1.0, "{line}");
    }
}

#[test]
fn texts_are_there_only_where_they_were_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let log = Log::start(Options {
        text: true,
        ..options(folder.path())
    });
    let recorder = log.recorder();
    let tongue = recorder.load(model("tongue"), Load::default());
    recorder.request(tongue, &reply(), "Why?", "Because.");
    log.finish();
    let line = &of_kind(&lines(folder.path()), "request")[0];
    assert_eq!(
        (line["text"].as_str(), line["reply_text"].as_str()),
        (Some("Why?"), Some("Because."))
    );
}

#[test]
fn a_record_with_a_lost_event_is_lost_as_a_whole_and_counted() {
    let shared = Arc::new(Shared::new(false, false));
    let recorder = Recorder::new(Arc::clone(&shared));
    let tongue = recorder.load(model("tongue"), Load::default());
    let mut assembler = Assembler::new(Arc::clone(&shared), Objective::default());
    recorder.request(tongue, &reply(), "", "");
    // One event of the run is gone, as if the queue had been full just then.
    let mut events: Vec<Event> = std::iter::from_fn(|| shared.queue.pop()).collect();
    events.remove(1);
    for event in events {
        assert!(shared.queue.push(event));
    }
    recorder.request(tongue, &reply(), "", "");
    let kinds: Vec<String> = assembler
        .gather()
        .iter()
        .map(|line| serde_json::from_slice::<Value>(&line.bytes).unwrap()["kind"].to_string())
        .collect();
    assert_eq!(kinds, ["\"load\"", "\"request\""]);
    assert_eq!(assembler.incomplete, 1);
}

#[test]
fn events_that_find_the_queue_full_are_counted_in_the_next_record() {
    let shared = Arc::new(Shared::new(true, false));
    let recorder = Recorder::new(Arc::clone(&shared));
    let tongue = recorder.load(model("tongue"), Load::default());
    for _ in 0..recorder::WAITING + 10 {
        recorder.arrival(StreamId::default(), 160, at(1), at(2));
    }
    let mut assembler = Assembler::new(Arc::clone(&shared), Objective::default());
    assembler.gather();
    recorder.request(tongue, &reply(), "", "");
    let line: Value = serde_json::from_slice(&assembler.gather()[0].bytes).unwrap();
    assert_eq!(
        (&line["kind"], &line["lost_events"]),
        (&"request".into(), &10.into())
    );
    let figures = shared.metrics().exposition();
    assert!(
        figures.contains("firstword_log_lost_events_total 10"),
        "{figures}"
    );
}

#[test]
fn a_miss_names_its_cause_once_something_is_usual() {
    let folder = tempfile::tempdir().unwrap();
    let log = Log::start(options(folder.path()));
    let recorder = log.recorder();
    let tongue = recorder.load(model("tongue"), Load::default());
    for _ in 0..20 {
        recorder.request(tongue, &reply(), "", "");
    }
    let mut slow = reply();
    // Waits 600 ms more for its first step.
    for stamp in [
        &mut slow.path.started,
        &mut slow.path.prefilled,
        &mut slow.path.first_token,
        &mut slow.path.last_token,
    ] {
        *stamp = *stamp + Duration::from_millis(600);
    }
    recorder.request(tongue, &slow, "", "");
    log.finish();
    let lines = of_kind(&lines(folder.path()), "request");
    let last = lines.last().unwrap();
    assert_eq!(last["objective"]["held"], false);
    assert_eq!(
        last["cause"],
        serde_json::json!({"stage": "queue", "spent_ms": 601.0, "usual_ms": 1.0, "excess_ms": 600.0, "because": "queue"})
    );
}

#[test]
fn steps_and_arrivals_are_told_where_they_are_wanted_and_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let log = Log::start(Options {
        trace: true,
        trace_bytes: 10_000,
        ..options(folder.path())
    });
    let recorder = log.recorder();
    let tongue = recorder.load(model("tongue"), Load::default());
    let stream = recorder.stream("mic");
    for n in 0..500 {
        recorder.arrival(stream, 160, at(n), at(n + 1));
        recorder.step(Step {
            role: Role::Prefill,
            model: tongue,
            stream,
            batch: 3,
            due: at(n),
            start: at(n + 1),
            end: at(n + 5),
        });
    }
    log.finish();
    let source = Source::open(&[folder.path().to_owned()]).unwrap();
    let (mut steps, mut arrivals, mut lost) = (0, 0, 0);
    source.each(&Range::default(), &mut Tally::default(), &mut |_, line| {
        match &line.content {
            Content::Trace(Trace::Step(step)) => {
                assert_eq!((&*step.role, step.batch), ("prefill", 3));
                assert_eq!(step.start_ns - step.due_ns, 1_000_000);
                assert_eq!(step.stream.as_deref(), Some("mic"));
                steps += 1;
            }
            Content::Trace(Trace::Arrival { .. }) => arrivals += 1,
            Content::Loss(loss) => lost += loss.events,
            _ => {}
        }
        ControlFlow::Continue(())
    });
    assert!(steps > 10 && arrivals > 10, "{steps} {arrivals}");
    assert_eq!(steps + arrivals + lost, 1_000);
}

#[test]
fn moves_and_drops_are_lines_that_the_reader_knows() {
    let folder = tempfile::tempdir().unwrap();
    let log = Log::start(options(folder.path()));
    let recorder = log.recorder();
    recorder.rare(Rare::Move(Move {
        stream: None,
        from: "full".to_owned(),
        to: "light".to_owned(),
        reason: "p95 of the last 20 turns".to_owned(),
        value: Some(431.0),
    }));
    recorder.rare(Rare::Drop(Dropped {
        stream: Some("mic".to_owned()),
        what: "samples",
        count: 320,
        why: "overrun",
    }));
    log.finish();
    let source = Source::open(&[folder.path().to_owned()]).unwrap();
    let mut found = Vec::new();
    source.each(&Range::default(), &mut Tally::default(), &mut |_, line| {
        match &line.content {
            Content::Move(moved) => found.push(format!("{} to {}", &*moved.from, &*moved.to)),
            Content::Drop(dropped) => found.push(format!("{} {}", dropped.count, &*dropped.what)),
            _ => {}
        }
        ControlFlow::Continue(())
    });
    assert_eq!(found, ["full to light", "320 samples"]);
}

#[test]
fn a_rate_that_is_exceeded_costs_records_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let log = Log::start(Options {
        rate_bytes_per_s: 1_024,
        ..options(folder.path())
    });
    let recorder = log.recorder();
    let tongue = recorder.load(model("tongue"), Load::default());
    for _ in 0..100 {
        recorder.request(tongue, &reply(), "", "");
    }
    log.finish();
    let lines = lines(folder.path());
    let written = of_kind(&lines, "request").len() as u64;
    let told: u64 = of_kind(&lines, "lost")
        .iter()
        .map(|line| {
            assert_eq!(line["why"], "rate");
            line["records"].as_u64().unwrap()
        })
        .sum();
    // 16 seconds' worth may come at once: 16 KiB, each record has more than a kilobyte.
    assert!(written < 17, "{written}");
    // The device's state may be among what was left out.
    assert!((100..=101).contains(&(written + told)), "{written} {told}");
}

#[test]
fn a_folder_that_cannot_be_is_counted_and_nothing_stops() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let mut log = Log::start(options(&file.join("below")));
    let recorder = log.recorder();
    let tongue = recorder.load(model("tongue"), Load::default());
    recorder.request(tongue, &reply(), "", "");
    recorder.request(tongue, &reply(), "", "");
    log.flush();
    assert!(log.trouble().unwrap().starts_with("can't be written: "));
    log.close();
    let trouble = log.trouble().unwrap();
    // Two requests, the load and the device's state.
    assert!(trouble.ends_with("4 records are lost"), "{trouble}");
}

#[test]
fn what_waited_for_the_disk_is_written_when_it_is_back() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("log");
    // A file where the folder should be.
    std::fs::write(&place, "").unwrap();
    let log = Log::start(options(&place));
    let recorder = log.recorder();
    let tongue = recorder.load(model("tongue"), Load::default());
    recorder.request(tongue, &reply(), "", "");
    log.flush();
    assert!(log.trouble().is_some());
    std::fs::remove_file(&place).unwrap();
    recorder.request(tongue, &reply(), "", "");
    // The first new attempt is a second after the failed one.
    let begin = std::time::Instant::now();
    while log.written() == 0 {
        assert!(begin.elapsed() < Duration::from_secs(20));
        log.flush();
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(log.trouble(), None);
    drop(log);
    assert_eq!(of_kind(&lines(&place), "request").len(), 2);
}

#[test]
fn a_log_that_is_off_costs_nothing_and_breaks_nothing() {
    let recorder = Recorder::off();
    let id = recorder.load(model("tongue"), Load::default());
    recorder.request(id, &reply(), "", "");
    recorder.arrival(recorder.stream("mic"), 1, at(1), at(1));
    assert!(!recorder.is_on() && !recorder.traces());
}

#[test]
fn the_figures_are_there_for_prometheus() {
    let folder = tempfile::tempdir().unwrap();
    let log = Log::start(options(folder.path()));
    let recorder = log.recorder();
    let tongue = recorder.load(model("tongue"), Load::default());
    recorder.request(tongue, &reply(), "", "");
    log.flush();
    let text = log.metrics();
    for line in [
        "firstword_ttft_seconds_sum 0.054",
        "firstword_records_total{kind=\"request\",cold=\"true\"} 1",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
}
