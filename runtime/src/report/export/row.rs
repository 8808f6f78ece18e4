//! The columns of an export, and what a record has in them.

use crate::log::read::{Micros, Segment, Work, WorkKind};
use crate::report::stage::ORDER;

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Text.
    Text,
    /// A whole number.
    Whole,
    /// A number.
    Real,
    /// True or false.
    Truth,
    /// An instant on the wall clock, µs since 1970 (UTC).
    Instant,
}

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name, the unit at the end.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
}

/// What a record has in a column.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Nothing is known.
    Null,
    /// Text.
    Text(String),
    /// A whole number.
    Whole(i64),
    /// A number.
    Real(f64),
    /// True or false.
    Truth(bool),
    /// µs since 1970.
    Instant(i64),
}

const fn column(name: &'static str, kind: Kind) -> Column {
    Column { name, kind }
}

/// The columns before the stages.
const FIXED: [Column; 41] = [
    column("time", Kind::Instant),
    column("at_ns", Kind::Whole),
    column("device", Kind::Text),
    column("boot_id", Kind::Text),
    column("pid", Kind::Whole),
    column("version", Kind::Text),
    column("kind", Kind::Text),
    column("stream", Kind::Text),
    column("utterance", Kind::Whole),
    column("model", Kind::Text),
    column("language_model", Kind::Text),
    column("precision", Kind::Text),
    column("target", Kind::Text),
    column("onnxruntime", Kind::Text),
    column("cold", Kind::Truth),
    column("objective", Kind::Text),
    column("metric", Kind::Text),
    column("limit_ms", Kind::Real),
    column("value_ms", Kind::Real),
    column("held", Kind::Truth),
    column("cause", Kind::Text),
    column("because", Kind::Text),
    column("voice_ttft_ms", Kind::Real),
    column("ttft_ms", Kind::Real),
    column("first_partial_ms", Kind::Real),
    column("final_latency_ms", Kind::Real),
    column("e2e_ms", Kind::Real),
    column("tpot_ms", Kind::Real),
    column("tps", Kind::Real),
    column("queue_wait_ms", Kind::Real),
    column("prompt_tokens", Kind::Whole),
    column("cached_tokens", Kind::Whole),
    column("tokens", Kind::Whole),
    column("finish", Kind::Text),
    column("batch_p50", Kind::Real),
    column("temperature_c", Kind::Real),
    column("clock_share", Kind::Real),
    column("throttled", Kind::Truth),
    column("load_1m", Kind::Real),
    column("suspended_ms", Kind::Real),
    column("lost_events", Kind::Whole),
];

/// Names of the stages' columns, in the order of [`ORDER`].
const STAGES: [&str; ORDER.len()] = [
    "stage_silence_ms",
    "stage_ring_ms",
    "stage_jitter_ms",
    "stage_resample_ms",
    "stage_voice_activity_ms",
    "stage_wait_ms",
    "stage_encode_ms",
    "stage_decode_ms",
    "stage_final_ms",
    "stage_hand_over_ms",
    "stage_turn_wait_ms",
    "stage_prompt_ms",
    "stage_queue_ms",
    "stage_queue_wait_ms",
    "stage_batch_wait_ms",
    "stage_prefill_ms",
    "stage_first_token_ms",
    "stage_reply_ms",
    "stage_detokenise_ms",
];

/// How many columns.
const COUNT: usize = FIXED.len() + STAGES.len() + 1;

/// All columns: the same for every log.
pub const COLUMNS: [Column; COUNT] = {
    // The last one holds the stages that this program does not know, added up.
    let mut all = [column("stage_other_ms", Kind::Real); COUNT];
    let mut at = 0;
    while at < FIXED.len() {
        all[at] = FIXED[at];
        at += 1;
    }
    while at < COUNT - 1 {
        all[at] = column(STAGES[at - FIXED.len()], Kind::Real);
        at += 1;
    }
    all
};

/// The cells of a record.
pub(super) fn row(segment: &Segment, at_ns: Option<u64>, work: &Work<'_>) -> Vec<Cell> {
    fn text(text: Option<&str>) -> Cell {
        text.map_or(Cell::Null, |text| Cell::Text(text.to_owned()))
    }
    fn ms(spent: Option<Micros>) -> Cell {
        spent.map_or(Cell::Null, |spent| Cell::Real(spent.ms()))
    }
    fn whole(number: Option<u64>) -> Cell {
        let number = number.and_then(|number| i64::try_from(number).ok());
        number.map_or(Cell::Null, Cell::Whole)
    }
    fn real(number: Option<f64>) -> Cell {
        number
            .filter(|n| n.is_finite())
            .map_or(Cell::Null, Cell::Real)
    }
    fn truth(value: Option<bool>) -> Cell {
        value.map_or(Cell::Null, Cell::Truth)
    }
    let objective = work.objective.as_ref();
    let cause = work.cause.as_ref();
    let reply = work.reply.as_ref();
    let device = work.device.as_ref();
    let process = segment.process.as_ref();
    let wall = at_ns.and_then(|at| segment.wall(at));
    let mut cells = vec![
        wall.map_or(Cell::Null, |wall| Cell::Instant(wall.0.div_euclid(1000))),
        whole(at_ns),
        text(segment.device.as_deref()),
        text(process.map(|(_, boot)| boot.as_str())),
        whole(process.map(|(pid, _)| *pid)),
        text(segment.version.as_deref()),
        text(Some(work.kind.name())),
        text(work.stream.as_deref()),
        whole(work.utterance),
        text(Some(&work.model)),
        text(work.language.as_deref().or(match work.kind {
            WorkKind::Request => Some(&work.model),
            _ => None,
        })),
        text(work.precision.as_deref()),
        text(Some(&work.target)),
        text(work.onnxruntime.as_deref()),
        truth(work.cold),
        text(objective.and_then(|o| o.name.as_deref())),
        text(objective.and_then(|o| o.metric.as_deref())),
        ms(objective.and_then(|o| o.limit)),
        ms(objective.and_then(|o| o.value)),
        truth(objective.and_then(|o| o.held)),
        text(cause.and_then(|c| c.stage.as_deref())),
        text(cause.and_then(|c| c.because.as_deref())),
        ms(work.voice_ttft),
        ms(reply.and_then(|r| r.ttft)),
        ms(work.first_partial),
        ms(work.final_latency),
        ms(match work.kind {
            WorkKind::Utterance => None,
            _ => work.total,
        }),
        ms(reply.and_then(|r| r.tpot)),
        real(reply.and_then(|r| r.tps)),
        ms(reply.and_then(|r| r.queue_wait)),
        whole(reply.and_then(|r| r.prompt_tokens)),
        whole(reply.and_then(|r| r.cached_tokens)),
        whole(reply.and_then(|r| r.tokens)),
        text(reply.and_then(|r| r.finish.as_deref())),
        real(reply.and_then(|r| r.batch).map(|batch| batch.p50)),
        real(device.and_then(|d| d.temperature_c)),
        real(device.and_then(|d| d.clock())),
        truth(device.map(|d| d.is_throttled())),
        real(device.and_then(|d| d.load_1m)),
        ms(work.suspended),
        Cell::Whole(i64::try_from(work.lost_events).unwrap_or(i64::MAX)),
    ];
    let first = cells.len();
    cells.resize(COUNT, Cell::Null);
    for (name, spent) in &work.stages {
        let place = ORDER
            .iter()
            .position(|known| *known == &**name)
            .unwrap_or(ORDER.len());
        let before = match cells[first + place] {
            Cell::Real(before) => before,
            _ => 0.0,
        };
        cells[first + place] = Cell::Real(before + spent.ms());
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stage_has_its_column() {
        for (stage, column) in ORDER.iter().zip(STAGES) {
            assert_eq!(format!("stage_{stage}_ms"), column);
        }
    }
}
