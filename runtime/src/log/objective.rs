//! The named objectives, and what each asks of an utterance, a request and a turn.

use std::time::Duration;

use serde::Serialize;

use super::read::WorkKind;

/// What a limit is put on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Request accepted → first token handed over.
    Ttft,
    /// Last sample captured → first token of the reply handed over.
    VoiceTtft,
    /// First sample captured → first partial handed over.
    FirstPartial,
    /// Last sample that a partial covers captured → it is handed over; P95 of an utterance's.
    Partial,
    /// Last sample captured → final text handed over.
    Final,
    /// All of it, up to the last token or word.
    E2e,
}

impl Metric {
    /// The field that holds it.
    #[must_use]
    pub const fn field(self) -> &'static str {
        match self {
            Self::Ttft => "ttft_ms",
            Self::VoiceTtft => "voice_ttft_ms",
            Self::FirstPartial => "first_partial_ms",
            Self::Partial => "partial_ms",
            Self::Final => "final_latency_ms",
            Self::E2e => "e2e_ms",
        }
    }
}

/// A named objective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Objective {
    /// Its name, as in `latency.objective`.
    pub name: &'static str,
    /// The limit.
    pub limit: Duration,
    /// What an utterance is held to, if anything.
    pub utterance: Option<Metric>,
    /// What a request is held to.
    pub request: Option<Metric>,
    /// What a turn is held to.
    pub turn: Option<Metric>,
}

const fn replies(name: &'static str, limit_ms: u64) -> Objective {
    Objective {
        name,
        limit: Duration::from_millis(limit_ms),
        utterance: None,
        request: Some(Metric::Ttft),
        turn: Some(Metric::VoiceTtft),
    }
}

/// The objectives of docs/latency-log.md, the default first.
pub const OBJECTIVES: [Objective; 8] = [
    replies("interactive", 387),
    replies("smalltalk", 350),
    replies("service", 220),
    replies("medical", 150),
    Objective {
        name: "firstword",
        limit: Duration::from_millis(300),
        utterance: Some(Metric::FirstPartial),
        request: None,
        turn: Some(Metric::FirstPartial),
    },
    Objective {
        name: "live-audio",
        limit: Duration::from_millis(150),
        utterance: Some(Metric::Partial),
        request: None,
        turn: Some(Metric::Partial),
    },
    Objective {
        name: "decision",
        limit: Duration::from_millis(85),
        utterance: Some(Metric::Final),
        request: Some(Metric::Ttft),
        turn: Some(Metric::VoiceTtft),
    },
    Objective {
        name: "control",
        limit: Duration::from_millis(10),
        utterance: Some(Metric::Final),
        request: Some(Metric::E2e),
        turn: Some(Metric::E2e),
    },
];

/// Their names, for the configuration.
pub const NAMES: [&str; OBJECTIVES.len()] = {
    let mut names = [""; OBJECTIVES.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = OBJECTIVES[at].name;
        at += 1;
    }
    names
};

impl Default for Objective {
    fn default() -> Self {
        OBJECTIVES[0]
    }
}

impl Objective {
    /// The one of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        OBJECTIVES.into_iter().find(|known| known.name == name)
    }

    /// What it asks of this kind of work.
    #[must_use]
    pub const fn metric(&self, kind: WorkKind) -> Option<Metric> {
        match kind {
            WorkKind::Utterance => self.utterance,
            WorkKind::Request => self.request,
            WorkKind::Turn => self.turn,
        }
    }

    /// Whether a value holds.
    #[must_use]
    pub fn judge(&self, metric: Metric, value: Duration) -> Judged {
        Judged {
            name: self.name,
            metric: metric.field(),
            limit_ms: crate::record::milliseconds(self.limit),
            value_ms: crate::record::milliseconds(value),
            held: value <= self.limit,
        }
    }
}

/// An objective and what became of it, as a record has it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Judged {
    /// Its name.
    pub name: &'static str,
    /// The field that it is put on.
    pub metric: &'static str,
    /// The limit.
    pub limit_ms: f64,
    /// What was reached.
    pub value_ms: f64,
    /// Whether that is within the limit.
    pub held: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    // The limits of the table in docs/latency-log.md, which are those of the sources that it names.
    #[test]
    fn the_limits_are_those_that_were_agreed_on() {
        let limits: Vec<(&str, u128)> = OBJECTIVES
            .iter()
            .map(|objective| (objective.name, objective.limit.as_millis()))
            .collect();
        assert_eq!(
            limits,
            [
                ("interactive", 387),
                ("smalltalk", 350),
                ("service", 220),
                ("medical", 150),
                ("firstword", 300),
                ("live-audio", 150),
                ("decision", 85),
                ("control", 10)
            ]
        );
        assert_eq!(Objective::default().name, "interactive");
        assert_eq!(Objective::named("service").unwrap().limit.as_millis(), 220);
        assert_eq!(Objective::named("none"), None);
    }

    #[test]
    fn the_limit_itself_still_holds() {
        let objective = Objective::default();
        let judged = |ms| objective.judge(Metric::Ttft, Duration::from_micros(ms));
        assert!(judged(387_000).held);
        assert!(!judged(387_001).held);
        assert_eq!(
            serde_json::to_value(judged(400_000)).unwrap(),
            serde_json::json!({"name": "interactive", "metric": "ttft_ms", "limit_ms": 387.0, "value_ms": 400.0, "held": false})
        );
    }
}
