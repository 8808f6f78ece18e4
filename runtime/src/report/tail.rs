//! One line of a log as one line for a person: what, how long to the first word, where the time went as a bar.

use std::fmt::Write;

use super::stage::{Class, class, counts_for, metric_words};
use crate::exit::printable;
use crate::log::read::{Content, Line, Micros, Segment, Wall, Work, WorkKind};

/// Cells of the bar.
const BAR: usize = 24;

// ECMA-48, SGR: bold, faint, red, green, yellow, blue, default.
const BOLD: &str = "\x1b[1m";
const FAINT: &str = "\x1b[2m";
const RED: &str = "\x1b[31m";
const GREEN: &str = "\x1b[32m";
const YELLOW: &str = "\x1b[33m";
const BLUE: &str = "\x1b[34m";
const PLAIN: &str = "\x1b[0m";

/// Writes lines for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Teller {
    /// Whether to colour them.
    pub colour: bool,
}

impl Teller {
    /// What a line says, or `None` for one that is not for people (traces, samples of the device).
    #[must_use]
    pub fn tell(self, segment: &Segment, line: &Line<'_>) -> Option<String> {
        let at = line.at_ns.and_then(|at| segment.wall(at));
        let what = match &line.content {
            Content::Work(work) => self.work(work),
            Content::Header(header) => self.event(&format!(
                "process {}, firstword {}: log {}",
                header.pid.map_or("?".to_owned(), |pid| pid.to_string()),
                header.version.as_deref().unwrap_or("?"),
                match header.number {
                    Some(0) | None => "begins".to_owned(),
                    Some(number) => format!("goes on in file {}", number.saturating_add(1)),
                },
            )),
            Content::Load(load) => self.event(&format!(
                "loaded {} {} on {} in {}",
                load.role.as_deref().unwrap_or("model"),
                &*load.model,
                &*load.target,
                load.total.map_or("unknown time".to_owned(), milliseconds)
            )),
            Content::Move(moved) => self.alarm(
                YELLOW,
                &format!(
                    "ladder {}: {} → {}{}",
                    moved.stream.as_deref().unwrap_or("-"),
                    &*moved.from,
                    &*moved.to,
                    moved
                        .reason
                        .as_deref()
                        .map(|r| format!(" ({r})"))
                        .unwrap_or_default()
                ),
            ),
            Content::Drop(drop) => self.alarm(
                RED,
                &format!(
                    "dropped {} {}{}",
                    drop.count,
                    &*drop.what,
                    drop.why
                        .as_deref()
                        .map(|why| format!(" ({why})"))
                        .unwrap_or_default()
                ),
            ),
            Content::Mark(mark) => self.alarm(
                YELLOW,
                &match &*mark.what {
                    "suspend" => format!("the device slept {:.1} s", mark.ms / 1e3),
                    "clock_step" => format!("the wall clock was set, by {:+.3} s", mark.ms / 1e3),
                    other => format!("{other} {} ms", mark.ms),
                },
            ),
            Content::Loss(loss) => self.alarm(
                RED,
                &format!(
                    "the log lost {} records and {} events ({})",
                    loss.records,
                    loss.events,
                    loss.why.as_deref().unwrap_or("no reason given")
                ),
            ),
            Content::Bench(bench) => self.event(&format!(
                "bench {} {}{}",
                bench.what.as_deref().unwrap_or("?"),
                if bench.end { "ends" } else { "begins" },
                match bench.noisy {
                    Some(true) => ", the machine was busy: no result",
                    _ => "",
                }
            )),
            Content::Trace(_) | Content::Device(_) | Content::Other(_) => return None,
        };
        let clock = at.map_or("            ".to_owned(), Wall::clock);
        Some(format!("{}  {what}\n", self.paint(FAINT, &clock)))
    }

    fn paint(self, how: &str, text: &str) -> String {
        if self.colour {
            format!("{how}{text}{PLAIN}")
        } else {
            text.to_owned()
        }
    }

    fn event(self, text: &str) -> String {
        self.paint(FAINT, &printable(text))
    }

    fn alarm(self, how: &str, text: &str) -> String {
        self.paint(how, &printable(text))
    }

    fn work(self, work: &Work<'_>) -> String {
        let objective = work.objective.as_ref();
        let metric = objective
            .and_then(|o| o.metric.as_deref())
            .unwrap_or(match work.kind {
                WorkKind::Utterance => "final_latency_ms",
                WorkKind::Request => "ttft_ms",
                WorkKind::Turn => "voice_ttft_ms",
            });
        let value = objective.and_then(|o| o.value).or(match work.kind {
            WorkKind::Utterance => work.final_latency,
            WorkKind::Request => work.reply.as_ref().and_then(|reply| reply.ttft),
            WorkKind::Turn => work.voice_ttft,
        });
        let who = match (&work.stream, work.utterance) {
            (Some(stream), Some(utterance)) => format!("{}#{utterance}", short(stream)),
            (Some(stream), None) => short(stream),
            _ => short(&work.model),
        };
        let held = objective.and_then(|o| o.held);
        let (mark, how) = match held {
            Some(true) => ("✓", GREEN),
            Some(false) => ("✗", RED),
            None => (" ", PLAIN),
        };
        let mut out = format!(
            "{:<9} {:<16} {:>13} {} {}  {}",
            work.kind.name(),
            printable(&who),
            metric_words(metric),
            self.paint(
                BOLD,
                &format!("{:>9}", value.map_or("-".to_owned(), milliseconds))
            ),
            self.paint(how, mark),
            self.bar(work, metric),
        );
        let stage = work.cause.as_ref().and_then(|cause| cause.stage.as_deref());
        if let (Some(cause), Some(stage)) = (&work.cause, stage) {
            let mut why = format!("slow: {} ", stage.replace('_', " "));
            why.push_str(&cause.spent.map_or(String::new(), milliseconds));
            if let Some(usual) = cause.usual {
                let _ = write!(why, ", usually {}", milliseconds(usual));
            }
            if let Some(because) = &cause.because {
                let _ = write!(why, " ({})", &**because);
            }
            let _ = write!(out, "  {}", self.alarm(RED, &why));
        } else if let Some((name, spent)) = most(work, metric) {
            let most = format!("most: {} {}", name.replace('_', " "), milliseconds(spent));
            let _ = write!(out, "  {}", self.event(&most));
        }
        if work.cold == Some(true) {
            let _ = write!(out, "  {}", self.alarm(BLUE, "cold"));
        }
        if work.lost_events > 0 {
            let lost = format!("{} events lost before", work.lost_events);
            let _ = write!(out, "  {}", self.alarm(RED, &lost));
        }
        if let Some(text) = &work.text {
            let _ = write!(out, "  {}", printable(text));
        }
        out
    }

    /// The stages that the metric covers, each as long as its share.
    fn bar(self, work: &Work<'_>, metric: &str) -> String {
        let slow = work.cause.as_ref().and_then(|cause| cause.stage.as_deref());
        let stages: Vec<(&str, f64)> = work
            .stages
            .iter()
            .filter(|(name, _)| counts_for(name, Some(metric)))
            .map(|(name, spent)| (&**name, spent.ms()))
            .collect();
        let whole: f64 = stages.iter().map(|(_, spent)| spent).sum();
        let (mut out, mut at, mut cells) = (String::new(), 0.0, 0);
        if whole > 0.0 {
            for (name, spent) in stages {
                at += spent;
                let end = (at / whole * BAR as f64).round() as usize;
                let (mark, how) = if Some(name) == slow {
                    ('▓', RED)
                } else {
                    match class(name) {
                        Class::Pause => ('░', FAINT),
                        Class::Queue => ('▒', YELLOW),
                        Class::Compute => ('█', BLUE),
                    }
                };
                let part: String = std::iter::repeat_n(mark, end.saturating_sub(cells)).collect();
                cells = cells.max(end);
                if !part.is_empty() {
                    out.push_str(&self.paint(how, &part));
                }
            }
        }
        out.push_str(&" ".repeat(BAR.saturating_sub(cells)));
        out
    }
}

/// The stage that took most, the pause left aside: it is a setting.
fn most<'w>(work: &'w Work<'_>, metric: &str) -> Option<(&'w str, Micros)> {
    work.stages
        .iter()
        .filter(|(name, _)| counts_for(name, Some(metric)) && class(name) != Class::Pause)
        .max_by_key(|(_, spent)| *spent)
        .map(|(name, spent)| (&**name, *spent))
}

fn milliseconds(spent: Micros) -> String {
    let ms = spent.ms();
    if ms >= 99.95 {
        format!("{ms:.0} ms")
    } else {
        format!("{ms:.1} ms")
    }
}

/// The last part of a path, at most twelve characters of it.
fn short(stream: &str) -> String {
    let last = stream.rsplit('/').next().unwrap_or(stream);
    let count = last.chars().count();
    if count <= 12 {
        last.to_owned()
    } else {
        let tail: String = last.chars().skip(count - 11).collect();
        format!("…{tail}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::read::parse;

    fn segment() -> Segment {
        Segment {
            path: "x".into(),
            wall_offset_ns: Some(1_795_509_005_000_000_000),
            process: None,
            device: None,
            version: None,
            first: None,
            last: None,
        }
    }

    const TURN: &[u8] = r#"{"schema":2,"kind":"turn","at_ns":250000000,"stream":"/dev/snd/microphone-in-the-hall","utterance":7,"model":"m","target":"cpu","language":{"model":"l"},"cold":true,"voice_ttft_ms":400.0,"e2e_ms":900.0,"lost_events":2,"objective":{"name":"interactive","metric":"voice_ttft_ms","limit_ms":387.0,"value_ms":400.0,"held":false},"cause":{"stage":"encode","spent_ms":200.0,"usual_ms":24.5,"excess_ms":175.5,"because":"thermal"},"stages_ms":{"silence":100.0,"queue":50.0,"encode":200.0,"prefill":50.0,"reply":500.0}}"#.as_bytes();

    #[test]
    fn a_turn_is_one_line_with_its_cause_and_a_bar_of_where_the_time_went() {
        let line = Teller { colour: false }
            .tell(&segment(), &parse(TURN).unwrap())
            .unwrap();
        // 400 ms on 24 cells: 6 of silence, 3 of queue, 12 of encode, 3 of prefill; the reply comes behind the first token.
        assert_eq!(
            line,
            "08:30:05.250  turn      …in-the-hall#7      voice TTFT    400 ms ✗  ░░░░░░▒▒▒▓▓▓▓▓▓▓▓▓▓▓▓███  slow: encode 200 ms, usually 24.5 ms (thermal)  cold  2 events lost before\n"
        );
    }

    #[test]
    fn colour_changes_nothing_but_colour() {
        let line = parse(TURN).unwrap();
        let plain = Teller { colour: false }.tell(&segment(), &line).unwrap();
        let coloured = Teller { colour: true }.tell(&segment(), &line).unwrap();
        assert!(coloured.contains("\x1b[31m"));
        let mut without = String::new();
        let mut escape = false;
        for c in coloured.chars() {
            match c {
                '\x1b' => escape = true,
                'm' if escape => escape = false,
                _ if escape => {}
                c => without.push(c),
            }
        }
        assert_eq!(without, plain);
    }
}
