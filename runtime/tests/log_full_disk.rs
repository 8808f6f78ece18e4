//! A disk of one megabyte that runs full while the log is written: the run goes on, the loss is counted, and when there is
//! room again the log goes on, too.
//!
//! The disk is a tmpfs in a mount namespace of a child process; where namespaces are not allowed the test is skipped.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)] // A test, helpers included.

use std::io::Write;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use firstword::config::Config;
use firstword::log::read::{Content, Range, Source, Tally};
use firstword::log::{Heard, Load, Log, Model, Options};
use firstword::record::Record;

const DISK: &str = "FIRSTWORD_FULL_DISK";

/// Not a test by itself: runs with a small disk at the place that the variable names.
#[test]
fn child_process() {
    let Ok(disk) = std::env::var(DISK) else {
        return;
    };
    let disk = Path::new(&disk);
    let folder = disk.join("log");
    let settings = Config::defaults().unwrap().settings;
    let log = Log::start(Options {
        flush_every: Duration::from_millis(20),
        rate_bytes_per_s: 1 << 26,
        ..Options::of(&settings, folder.clone())
    });
    let recorder = log.recorder();
    let model = recorder.load(Model::default(), Load::default());
    let stream = recorder.stream("mic");
    let mut told = 0;
    let mut tell = |count: u32| {
        for _ in 0..count {
            let record = Record {
                utterance: told,
                ..Record::default()
            };
            recorder.utterance(&Heard {
                stream,
                model,
                record: &record,
                words: &[],
                text: "",
            });
            told += 1;
            // The queue shall not be what loses records here.
            if told % 500 == 0 {
                log.flush();
            }
        }
        log.flush();
        told
    };
    tell(50);
    assert_eq!(log.trouble(), None);
    let written = log.written();
    assert!(written > 0);

    let filler = disk.join("filler");
    let mut file = std::fs::File::create(&filler).unwrap();
    while file.write_all(&[0; 4096]).is_ok() {}
    while file.write_all(&[0; 1]).is_ok() {}
    // Some three megabytes, of which half a megabyte may wait.
    tell(2_000);
    let trouble = log.trouble().unwrap();
    assert!(trouble.contains("no space left"), "{trouble}");

    drop(file);
    std::fs::remove_file(&filler).unwrap();
    let begin = Instant::now();
    while log.written() == written {
        assert!(
            begin.elapsed() < Duration::from_secs(60),
            "it does not go on"
        );
        std::thread::sleep(Duration::from_millis(50));
        log.flush();
    }
    let told = tell(50);
    let trouble = log.trouble().unwrap();
    assert!(trouble.ends_with("records are lost"), "{trouble}");
    drop(log);

    let source = Source::open(&[folder]).unwrap();
    let (mut works, mut lost, mut others, mut tally) = (0, 0, 0, Tally::default());
    let mut last = None;
    source.each(&Range::default(), &mut tally, &mut |_, line| {
        match &line.content {
            Content::Work(work) => {
                works += 1;
                last = work.utterance;
            }
            Content::Loss(loss) => {
                assert_eq!(loss.why.as_deref(), Some("disk_full"));
                lost += loss.records;
            }
            Content::Device(_) => others += 1,
            _ => {}
        }
        ControlFlow::Continue(())
    });
    assert_eq!((tally.damaged, tally.torn), (0, 0), "{tally:?}");
    assert_eq!(last, Some(u64::from(told) - 1), "the last one is not there");
    assert!(lost > 1_000, "{lost}");
    assert!(others <= 1);
    assert_eq!(works + lost, u64::from(told), "{works} there, {lost} lost");
    println!("{works} records written, {lost} lost and told");
}

#[test]
fn a_full_disk_stops_nothing_and_what_it_cost_is_counted() {
    let disk = tempfile::tempdir().unwrap();
    let script = "mount -t tmpfs -o size=1m firstword-test \"$1\" || exit 77
        exec \"$0\" --exact child_process --nocapture --test-threads=1";
    let output = Command::new("unshare")
        .args(["--mount", "--map-root-user", "sh", "-c", script])
        .arg(std::env::current_exe().unwrap())
        .arg(disk.path())
        .env(DISK, disk.path())
        .output();
    let said = |output: &std::process::Output| {
        format!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        )
    };
    match output {
        Ok(output) if output.status.success() => {
            assert!(said(&output).contains("lost and told"), "{}", said(&output));
        }
        Ok(output)
            if output.status.code() == Some(77) || said(&output).contains("unshare failed") =>
        {
            println!("skipped: no mount namespaces here: {}", said(&output));
        }
        Ok(output) => panic!("{}", said(&output)),
        Err(error) => println!("skipped: unshare can't be run: {error}"),
    }
}
