//! `--timings`: what each stage cost, as a table for people.

use std::fmt::Write;
use std::time::Duration;

use firstword_audio::clock::Samples;

use crate::record::{Ending, Record, STAGES};

/// Sums of the records of a command.
#[derive(Clone, Debug, Default)]
pub struct Timings {
    records: Vec<Row>,
    read: Duration,
    resample: Duration,
    voice_activity: Duration,
    encode: Duration,
    decode: Duration,
    steps: u32,
    passes: u32,
    heard: Samples,
}

/// What the table keeps of a record.
#[derive(Clone, Debug)]
struct Row {
    stream: String,
    start: Samples,
    end: Samples,
    ending: Ending,
    tokens: u32,
    passes: u32,
    stages: [Duration; STAGES.len()],
    total: Duration,
}

/// Rows shown at most; the rest of a long recording is in the log.
const ROWS: usize = 200;

impl Timings {
    /// Takes a finished record.
    pub fn add(&mut self, record: &Record) {
        let work = &record.work;
        self.read += work.read;
        self.resample += work.resample;
        self.voice_activity += work.voice_activity;
        self.encode += work.encode;
        self.decode += work.decode;
        self.steps += record.counts.decoder_steps;
        self.passes += record.counts.passes;
        if self.records.len() < ROWS {
            self.records.push(Row {
                stream: record.stream.clone(),
                start: record.start,
                end: record.end,
                ending: record.ending,
                tokens: record.counts.tokens,
                passes: record.counts.passes,
                stages: record.path.stages(),
                total: record.path.total(),
            });
        }
    }

    /// So much sound was heard, speech or not.
    pub fn heard(&mut self, samples: Samples) {
        self.heard = self.heard + samples;
    }

    /// The table. `cpu` is the processor time of all of it, `elapsed` the time on the clock.
    #[must_use]
    pub fn table(&self, cpu: Duration, elapsed: Duration) -> String {
        let mut out = String::new();
        let mut stream = None;
        for row in &self.records {
            if stream != Some(&row.stream) {
                stream = Some(&row.stream);
                let _ = writeln!(
                    out,
                    "{}\n  {:>7} {:>7} {:>6} {:>6}  from the last sample of speech to the text, ms",
                    crate::exit::printable(&row.stream),
                    "start s",
                    "end s",
                    "passes",
                    "tokens"
                );
                let _ = write!(out, "  {:31}", "");
                for stage in STAGES {
                    let _ = write!(
                        out,
                        "{:>width$}",
                        stage.replace('_', " "),
                        width = width(stage)
                    );
                }
                let _ = writeln!(out, "{:>9}", "total");
            }
            let _ = write!(
                out,
                "  {:>7.2} {:>7.2} {:>6} {:>6}  ",
                row.start.seconds(),
                row.end.seconds(),
                row.passes,
                row.tokens
            );
            for (stage, spent) in STAGES.iter().zip(row.stages) {
                let _ = write!(out, "{:>width$.1}", ms(spent), width = width(stage));
            }
            let _ = writeln!(
                out,
                "{:>9.1}{}",
                ms(row.total),
                match row.ending {
                    Ending::Length => "  cut inside speech",
                    _ => "",
                }
            );
        }
        if self.records.len() == ROWS {
            let _ = writeln!(out, "  … the first {ROWS} utterances; all are in the log");
        }
        let seconds = self.heard.seconds();
        let _ = writeln!(
            out,
            "\n{:<16} {:>10} {:>17}",
            "stage", "ms", "ms per s of sound"
        );
        for (stage, spent) in [
            ("read", self.read),
            ("resample", self.resample),
            ("voice activity", self.voice_activity),
            ("encode", self.encode),
            ("decode", self.decode),
        ] {
            let _ = writeln!(
                out,
                "{stage:<16} {:>10.1} {:>17.2}",
                ms(spent),
                per(ms(spent), seconds)
            );
        }
        let _ = writeln!(
            out,
            "{} passes, {} decoder steps of {:.2} ms; {:.2} s of sound in {:.2} s ({:.1} × real time), {:.4} processor s per s of sound",
            self.passes,
            self.steps,
            per(ms(self.decode), f64::from(self.steps)),
            seconds,
            elapsed.as_secs_f64(),
            per(seconds, elapsed.as_secs_f64()),
            per(cpu.as_secs_f64(), seconds),
        );
        out
    }
}

fn width(stage: &str) -> usize {
    stage.len().max(7) + 2
}

fn ms(d: Duration) -> f64 {
    d.as_secs_f64() * 1e3
}

fn per(x: f64, y: f64) -> f64 {
    if y > 0.0 { x / y } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Counts, Work};

    #[test]
    fn the_table_has_a_row_for_each_utterance_and_a_sum_for_each_stage() {
        let mut timings = Timings::default();
        for utterance in 0..2 {
            timings.add(&Record {
                stream: "a.wav".into(),
                utterance,
                work: Work {
                    encode: Duration::from_millis(30),
                    decode: Duration::from_millis(100),
                    ..Work::default()
                },
                counts: Counts {
                    decoder_steps: 25,
                    ..Counts::default()
                },
                ..Record::default()
            });
        }
        timings.heard(Samples(160_000));
        let table = timings.table(Duration::from_millis(300), Duration::from_secs(1));
        // 60 ms of encoding and 200 ms of decoding in 10 s of sound; 200 ms in 50 steps.
        assert!(
            table.contains("encode                 60.0              6.00"),
            "{table}"
        );
        assert!(
            table.contains("decode                200.0             20.00"),
            "{table}"
        );
        assert!(table.contains("50 decoder steps of 4.00 ms"), "{table}");
        assert!(
            table.contains("0.0300 processor s per s of sound"),
            "{table}"
        );
    }

    #[test]
    fn nothing_heard_divides_nothing_by_nothing() {
        let table = Timings::default().table(Duration::ZERO, Duration::ZERO);
        assert!(!table.contains("NaN") && !table.contains("inf"), "{table}");
    }
}
