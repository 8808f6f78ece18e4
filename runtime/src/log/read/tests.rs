//! What a person finds in a folder that was copied from a device: whole, torn, mixed, and none at all.

use std::fs;
use std::path::PathBuf;

use proptest::prelude::*;

use super::planted::{self, Plan, Truth};
use super::*;

fn planted(plan: &Plan) -> (tempfile::TempDir, Truth) {
    let folder = tempfile::tempdir().unwrap();
    let truth = planted::write(folder.path(), plan).unwrap();
    (folder, truth)
}

fn places(path: impl Into<PathBuf>) -> Vec<PathBuf> {
    vec![path.into()]
}

/// Kinds and times of everything in a place.
fn all(place: impl Into<PathBuf>) -> (Vec<Option<Wall>>, Tally) {
    let source = Source::open(&places(place)).unwrap();
    let (mut times, mut tally) = (Vec::new(), Tally::default());
    source.in_order(&Range::default(), &mut tally, &mut |segment, line| {
        times.push(line.at_ns.and_then(|at| segment.wall(at)));
        ControlFlow::Continue(())
    });
    (times, tally)
}

fn works(place: impl Into<PathBuf>, range: &Range) -> (u64, Tally) {
    let source = Source::open(&places(place)).unwrap();
    let (mut count, mut tally) = (0, Tally::default());
    source.each(range, &mut tally, &mut |_, line| {
        count += u64::from(matches!(line.content, Content::Work(_)));
        ControlFlow::Continue(())
    });
    (count, tally)
}

#[test]
fn every_record_that_was_written_is_read() {
    let (folder, truth) = planted(&Plan {
        records: 500,
        per_segment: 120,
        ..Plan::default()
    });
    let (count, tally) = works(folder.path(), &Range::default());
    assert_eq!((count, truth.records), (500, 500));
    assert_eq!(tally.segments, 5);
    assert_eq!((tally.torn, tally.damaged), (0, 0));
    assert!(tally.remarks().is_empty());
}

#[test]
fn what_processes_wrote_at_the_same_time_is_put_in_order() {
    let (folder, _) = planted(&Plan {
        records: 200,
        per_segment: 100,
        ..Plan::default()
    });
    let (second, _) = planted(&Plan {
        records: 200,
        seed: 2,
        ..Plan::default()
    });
    for entry in fs::read_dir(second.path()).unwrap() {
        let path = entry.unwrap().path();
        if segment::is_segment(&path) {
            fs::copy(&path, folder.path().join("latency-other.jsonl")).unwrap();
        }
    }
    let (times, tally) = all(folder.path());
    assert_eq!(tally.segments, 3);
    assert!(times.len() > 400);
    assert!(times.iter().all(Option::is_some));
    // A move is written before the turn that follows, both with the writer's clock: no exceptions.
    assert!(times.is_sorted(), "{times:?}");
}

#[test]
fn a_torn_tail_is_skipped_and_counted_and_the_rest_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("latency-a.jsonl");
    let (whole, _) = planted(&Plan {
        records: 3,
        ..Plan::default()
    });
    let file = fs::read_dir(whole.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| segment::is_segment(path))
        .unwrap();
    let text = fs::read(&file).unwrap();
    // However much of it reached the disk, whole lines count and the rest is one torn line.
    for length in (1..text.len()).step_by(97) {
        fs::write(&path, &text[..length]).unwrap();
        let whole = text[..length].iter().filter(|&&b| b == b'\n').count() as u64;
        match Source::open(&places(&path)) {
            Ok(source) => {
                let mut tally = Tally::default();
                source.each(&Range::default(), &mut tally, &mut |_, _| {
                    ControlFlow::Continue(())
                });
                let torn = u64::from(text[length - 1] != b'\n');
                assert_eq!((tally.read, tally.torn), (whole, torn), "{length} bytes");
                assert_eq!(tally.damaged, 0, "{length} bytes");
            }
            Err(error) => {
                assert_eq!(whole, 0, "{length} bytes: {error}");
                assert!(error.to_string().contains("half a record"), "{error}");
            }
        }
    }
}

#[test]
fn damaged_lines_are_counted_with_the_place_of_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("latency.jsonl");
    let good = r#"{"schema":1,"kind":"utterance","model":"m","stages_ms":{"encode":1.5},"final_latency_ms":2.0}"#;
    let mut bytes = Vec::new();
    for line in [
        good.as_bytes(),
        b"\xff\xfe{\"schema\":1}",
        b"",
        b"{\"schema\":1,\"kind\":\"utterance\",\"model\":\"m\",\"stages_ms\":{\"encode\":-3}}",
        b"{\"schema\":2,\"kind\":\"request\",\"model\":\"m\",\"stages_ms\":{},\"ttft_ms\":1e300}",
        b"{\"schema\":2,\"kind\":\"request\",\"model\":\"m\",\"stages_ms\":{},\"ttft_ms\":\"soon\"}",
        b"[1,2,3]",
        b"{\"schema\":2,\"kind\":\"from the future\",\"x\":[]}",
        b"{\"schema\":7,\"kind\":\"request\",\"model\":[\"m\"]}",
        good.as_bytes(),
    ] {
        bytes.extend_from_slice(line);
        bytes.push(b'\n');
    }
    fs::write(&path, bytes).unwrap();
    let (count, tally) = works(folder.path(), &Range::default());
    assert_eq!(count, 2);
    assert_eq!(tally.damaged, 5);
    assert_eq!((tally.newer, tally.newest_schema), (1, 7));
    let remarks = tally.remarks().join("\n");
    assert!(
        remarks.contains("5 lines could not be read and were skipped; the first: ")
            && remarks.contains("latency.jsonl:2: not UTF-8 at byte 1"),
        "{remarks}"
    );
    assert!(
        remarks.contains("1 record of schema 7 (this program reads up to 2)"),
        "{remarks}"
    );
}

#[test]
fn a_line_without_end_does_not_fill_the_memory() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("latency.jsonl");
    let good = "{\"schema\":1,\"kind\":\"utterance\",\"model\":\"m\",\"stages_ms\":{}}\n";
    let long = "x".repeat(3 << 20);
    fs::write(&path, format!("{good}{long}\n{good}")).unwrap();
    let (count, tally) = works(&path, &Range::default());
    assert_eq!((count, tally.damaged), (2, 1));
}

#[test]
fn what_is_no_log_is_told_with_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |path: PathBuf| Source::open(&[path]).unwrap_err().to_string();
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        refused(path)
    };
    assert!(
        refused(folder.path().join("none"))
            .ends_with("none: can't be read: no such file or directory")
    );
    assert!(refused(folder.path().to_owned()).ends_with("found an empty folder"));
    assert!(file("a.wav", b"RIFF\0\0\0\0WAVE\xff\xff\n").ends_with("found binary data"));
    assert!(file("b.gz", &[0x1f, 0x8b, 8, 0, 0, 10]).contains("unpack it first"));
    assert!(file("c.json", b"{\"a\":1}\n").ends_with("found an object without `schema`"));
    assert!(file("d.txt", b"Dear diary\n").ends_with("found a line that begins \"Dear diary\""));
    assert!(file("e", b"").ends_with("found an empty file"));
    let said = refused(folder.path().to_owned());
    assert!(
        said.ends_with("found a.wav, b.gz, c.json and 2 others"),
        "{said}"
    );
    // One good file among bad ones is a log.
    fs::write(folder.path().join("latency-x.jsonl"), "").unwrap();
    assert!(refused(folder.path().to_owned()).ends_with("found an empty file"));
    fs::write(
        folder.path().join("latency.jsonl"),
        "{\"schema\":1,\"kind\":\"utterance\",\"model\":\"m\",\"stages_ms\":{}}\n",
    )
    .unwrap();
    assert_eq!(works(folder.path(), &Range::default()).0, 1);
}

#[test]
fn the_folder_around_the_log_folder_will_do() {
    let folder = tempfile::tempdir().unwrap();
    planted::write(
        &folder.path().join("log"),
        &Plan {
            records: 5,
            ..Plan::default()
        },
    )
    .unwrap();
    assert_eq!(works(folder.path(), &Range::default()).0, 5);
}

#[test]
fn a_range_of_time_takes_what_is_in_it_and_says_what_has_no_time() {
    let (folder, truth) = planted(&Plan {
        records: 400,
        per_segment: 50,
        ..Plan::default()
    });
    fs::write(
        folder.path().join("latency.jsonl"),
        "{\"schema\":1,\"kind\":\"utterance\",\"model\":\"m\",\"stages_ms\":{}}\n",
    )
    .unwrap();
    let middle = Wall(Plan::default().start.0 + 1_800_000_000_000);
    let before = works(folder.path(), &Range::new(None, Some(middle)).unwrap());
    let after = works(folder.path(), &Range::new(Some(middle), None).unwrap());
    assert!(before.0 > 100 && after.0 > 100, "{before:?} {after:?}");
    assert_eq!(before.0 + after.0, truth.records);
    assert_eq!((before.1.timeless, after.1.timeless), (1, 1));
    assert!(
        after
            .1
            .remarks()
            .join("")
            .contains("1 record was of schema 1"),
        "{:?}",
        after.1.remarks()
    );
}

#[test]
fn a_record_of_the_first_schema_keeps_its_meaning() {
    // Written by firstword 0.1.0 before segments existed, shortened.
    let line = br#"{"schema":1,"kind":"request","model":"smollm2-135m-instruct","precision":"fast","target":"cpu","onnxruntime":"1.31.1","e2e_ms":304.0,"stages_ms":{"prompt":1.0,"queue":2.0,"prefill":100.0,"first_token":1.0,"reply":200.0},"accepted_ns":100000000,"ttft_ms":104.0,"tpot_ms":20.0,"tps":55.0,"queue_wait_ms":3.0,"prompt_tokens":300,"cached_tokens":100,"prefill_chunks":1,"tokens":11,"finish":"stop","steps":10,"step_p50_ms":20.0,"step_p95_ms":20.0,"slowest_step_ms":20.0}"#;
    let Content::Work(work) = parse(line).unwrap().content else {
        panic!("no work");
    };
    assert_eq!(work.kind, WorkKind::Request);
    assert_eq!(work.total, Some(Micros(304_000)));
    assert_eq!(work.stages.len(), 5);
    assert_eq!((work.cold, work.objective), (None, None));
    let reply = work.reply.unwrap();
    assert_eq!(
        (reply.ttft, reply.tokens),
        (Some(Micros(104_000)), Some(11))
    );
    assert!(matches!(work.model.0, std::borrow::Cow::Borrowed(_)));
}

proptest! {
    /// Nothing that may stand in a file brings the reader down.
    #[test]
    fn any_bytes_are_a_record_or_a_fault(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = parse(&bytes);
    }

    /// A record in which one byte changed is a record or a fault, and its durations are possible ones.
    #[test]
    fn a_changed_byte_never_makes_an_impossible_duration(at in 0_usize..2000, byte in any::<u8>()) {
        let (folder, _) = planted(&Plan { records: 1, ..Plan::default() });
        let path = fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().path()).find(|p| segment::is_segment(p)).unwrap();
        let text = fs::read(path).unwrap();
        for line in text.split(|&b| b == b'\n') {
            let mut line = line.to_vec();
            if let Some(place) = line.get_mut(at) {
                *place = byte;
            }
            if let Ok(Line { content: Content::Work(work), .. }) = parse(&line) {
                for (_, spent) in &work.stages {
                    prop_assert!(*spent <= Micros::LONGEST);
                }
            }
        }
    }
}
