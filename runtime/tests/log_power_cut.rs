//! A writer that is killed at any moment: whatever is on the disk is readable, nothing that was synced is missing, and the
//! counts add up.
//!
//! The writer is this test's own binary, started as a child. `FIRSTWORD_KILLS` says how often (scripts/log-power-cuts.sh
//! does it 500 times).
#![allow(clippy::unwrap_used)] // A test, helpers included.

use std::io::{BufRead, BufReader, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use firstword::config::Config;
use firstword::log::read::planted::Dice;
use firstword::log::read::{Content, Range, Source, Tally};
use firstword::log::{Heard, Load, Log, Model, Options, Sync};
use firstword::record::Record;
use firstword_audio::Stamp;

const FOLDER: &str = "FIRSTWORD_POWER_CUT_FOLDER";

fn options(folder: &Path) -> Options {
    let settings = Config::defaults().unwrap().settings;
    Options {
        // Never full here: what is missing shall be missing for no other reason.
        budget_bytes: 1 << 30,
        rate_bytes_per_s: 1 << 30,
        // Small, so that kills fall into the change from one segment to the next, too.
        segment_bytes: 64 << 10,
        sync: Sync::Each,
        flush_every: Duration::from_millis(10),
        ..Options::of(&settings, folder.to_owned())
    }
}

/// Not a test by itself: writes records with rising numbers until it is killed, and says after each sync how far it is.
#[test]
fn child_process() {
    let Ok(folder) = std::env::var(FOLDER) else {
        return;
    };
    let log = Log::start(options(Path::new(&folder)));
    let recorder = log.recorder();
    let model = recorder.load(Model::default(), Load::default());
    let stream = recorder.stream("mic");
    let mut out = std::io::stdout();
    for utterance in 0.. {
        let mut record = Record {
            utterance,
            ..Record::default()
        };
        record.path.handed_over = Stamp::now();
        recorder.utterance(&Heard {
            stream,
            model,
            record: &record,
            words: &[],
            text: "",
        });
        if utterance % 16 == 15 {
            log.flush();
            // println! would be captured by the test harness.
            writeln!(out, "synced {utterance}").unwrap();
            out.flush().unwrap();
        }
    }
}

/// When a writer is killed.
#[derive(Clone, Copy)]
enum Life {
    /// So long after its process was started: perhaps before it wrote anything.
    OfProcess(Duration),
    /// So long after it first said that something is synced.
    AfterSync(Duration),
}

/// Starts the writer, kills it, and returns the last number of which it said that it is synced.
fn kill_after(folder: &Path, life: Life) -> Option<u64> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "child_process",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let said = child.stdout.take().unwrap();
    let (first, begun) = std::sync::mpsc::channel();
    let reading = std::thread::spawn(move || {
        let mut last = None;
        for line in BufReader::new(said).lines().map_while(Result::ok) {
            if let Some(number) = line.strip_prefix("synced ") {
                last = Some(number.parse::<u64>().unwrap());
                // Only the first is waited for.
                let _ = first.send(());
            }
        }
        last
    });
    match life {
        Life::OfProcess(life) => std::thread::sleep(life),
        Life::AfterSync(life) => {
            begun.recv().unwrap();
            std::thread::sleep(life);
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    reading.join().unwrap()
}

/// The numbers that are in the log, in order, and what the reader counted; and records that the log says are lost.
fn read(places: &[PathBuf]) -> (Vec<u64>, Tally, u64) {
    let source = Source::open(places).unwrap();
    assert!(source.refused().is_empty(), "{:?}", source.refused());
    let (mut numbers, mut tally, mut lost) = (Vec::new(), Tally::default(), 0);
    source.each(&Range::default(), &mut tally, &mut |_, line| {
        match &line.content {
            Content::Work(work) => numbers.push(work.utterance.unwrap()),
            Content::Loss(loss) => lost += loss.records,
            _ => {}
        }
        ControlFlow::Continue(())
    });
    (numbers, tally, lost)
}

#[test]
fn a_writer_that_is_killed_loses_nothing_that_was_synced_and_leaves_no_segment_unreadable() {
    let kills: u64 = std::env::var("FIRSTWORD_KILLS").map_or(50, |n| n.parse().unwrap());
    let mut dice = Dice(kills);
    let (mut torn, mut synced_at_all, mut records) = (0, 0, 0);
    for kill in 0..kills {
        let folder = tempfile::tempdir().unwrap();
        let life = Duration::from_micros((dice.unit() * 100_000.0) as u64);
        let life = match kill % 2 {
            0 => Life::AfterSync(life),
            _ => Life::OfProcess(life),
        };
        let synced = kill_after(folder.path(), life);
        synced_at_all += u64::from(synced.is_some());
        let anything = std::fs::read_dir(folder.path())
            .unwrap()
            .flatten()
            .any(|entry| {
                // A kill between creating a segment and its first line leaves an empty file.
                entry.metadata().unwrap().len() > 0
            });
        if !anything {
            assert_eq!(synced, None, "kill {kill}: synced, and nothing is there");
            continue;
        }
        let (numbers, tally, lost) = read(&[folder.path().to_owned()]);
        assert_eq!(tally.damaged, 0, "kill {kill}: {:?}", tally.first_damage);
        assert!(tally.torn <= 1, "kill {kill}: {} torn", tally.torn);
        torn += tally.torn;
        records += numbers.len();
        assert_eq!(lost, 0, "kill {kill}");
        // None is missing among those that are there, and they reach as far as was promised.
        let expected: Vec<u64> = (0..numbers.len() as u64).collect();
        assert_eq!(numbers, expected, "kill {kill}");
        if let Some(last) = synced {
            assert!(
                numbers.len() as u64 > last,
                "kill {kill}: {last} was synced"
            );
        }
    }
    println!(
        "{kills} kills: {records} records, {torn} torn ends, {synced_at_all} with something synced"
    );
    assert!(synced_at_all >= kills / 2, "{synced_at_all} of {kills}");
}

#[test]
fn a_new_writer_in_the_folder_of_a_killed_one_harms_nothing() {
    let folder = tempfile::tempdir().unwrap();
    kill_after(folder.path(), Life::AfterSync(Duration::from_millis(50)));
    // What a power cut leaves at worst: half a line, and an empty file.
    let mut segments: Vec<PathBuf> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    segments.sort();
    let last = segments.last().unwrap();
    let mut file = std::fs::File::options().append(true).open(last).unwrap();
    file.write_all(b"{\"schema\":2,\"kind\":\"utt").unwrap();
    std::fs::write(
        folder.path().join("latency-20990101T000000Z-1-0000.jsonl"),
        "",
    )
    .unwrap();
    let before = read(&[folder.path().to_owned()]).0.len();
    let log = Log::start(options(folder.path()));
    let recorder = log.recorder();
    let model = recorder.load(Model::default(), Load::default());
    recorder.utterance(&Heard {
        stream: recorder.stream("mic"),
        model,
        record: &Record::default(),
        words: &[],
        text: "",
    });
    log.finish();
    let (numbers, tally, _) = read(&[folder.path().to_owned()]);
    assert_eq!(numbers.len(), before + 1);
    assert_eq!((tally.torn, tally.damaged), (1, 0));
}
