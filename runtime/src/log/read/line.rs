//! Reads one line of a log.
//!
//! Lenient where an older or newer writer may differ (unknown fields and kinds are passed over, absent ones are `None`),
//! strict where a value can't be true: a negative duration makes the line damaged, it never enters a statistic.

use serde::Deserialize;

use super::NEWEST_SCHEMA;
use super::shape::{
    Batch, Bench, Cause, Content, Device, Drop, Fault, Header, Line, Load, Loss, Mark, Micros,
    Move, Named, Objective, Reply, Step, Text, Trace, Work, WorkKind,
};

/// All fields of all kinds that are used here; names that two kinds share have types that suit both.
#[derive(Deserialize)]
struct Raw<'a> {
    #[serde(default)]
    schema: Option<u64>,
    #[serde(borrow, default)]
    kind: Option<Text<'a>>,
    #[serde(default)]
    at_ns: Option<u64>,
    #[serde(borrow, default)]
    stream: Option<Text<'a>>,
    #[serde(default)]
    utterance: Option<u64>,
    #[serde(borrow, default)]
    model: Option<Text<'a>>,
    #[serde(borrow, default)]
    precision: Option<Text<'a>>,
    #[serde(borrow, default)]
    target: Option<Text<'a>>,
    #[serde(borrow, default)]
    onnxruntime: Option<Text<'a>>,
    #[serde(borrow, default)]
    language: Option<Language<'a>>,
    #[serde(borrow, default)]
    stages_ms: Option<Named<'a>>,
    #[serde(default)]
    final_latency_ms: Option<Micros>,
    #[serde(default)]
    voice_ttft_ms: Option<Micros>,
    #[serde(default)]
    first_partial_ms: Option<Micros>,
    #[serde(default)]
    e2e_ms: Option<Micros>,
    #[serde(borrow, default)]
    reply: Option<Reply<'a>>,
    #[serde(default)]
    cold: Option<bool>,
    #[serde(borrow, default)]
    objective: Option<Objective<'a>>,
    #[serde(borrow, default)]
    cause: Option<Cause<'a>>,
    #[serde(borrow, default)]
    device: Option<Device<'a>>,
    #[serde(default)]
    lost_events: Option<u64>,
    #[serde(default)]
    suspended_ms: Option<Micros>,
    #[serde(borrow, default)]
    text: Option<Text<'a>>,
    // A request's own figures.
    #[serde(default)]
    accepted_ns: Option<u64>,
    #[serde(default)]
    ttft_ms: Option<Micros>,
    #[serde(default)]
    tpot_ms: Option<Micros>,
    #[serde(default)]
    tps: Option<f64>,
    #[serde(default)]
    queue_wait_ms: Option<Micros>,
    #[serde(default)]
    prompt_tokens: Option<u64>,
    #[serde(default)]
    cached_tokens: Option<u64>,
    #[serde(default)]
    tokens: Option<u64>,
    #[serde(borrow, default)]
    finish: Option<Text<'a>>,
    #[serde(default)]
    context_tokens: Option<u64>,
    #[serde(default)]
    batch: Option<Batch>,
    // Headers.
    #[serde(borrow, default)]
    version: Option<Text<'a>>,
    #[serde(default)]
    pid: Option<u64>,
    #[serde(default)]
    number: Option<u64>,
    #[serde(borrow, default)]
    boot_id: Option<Text<'a>>,
    #[serde(default)]
    wall_offset_ns: Option<i64>,
    #[serde(default)]
    wall_uncertainty_ns: Option<u64>,
    #[serde(default)]
    lost_before: Option<u64>,
    // The rest.
    #[serde(borrow, default)]
    role: Option<Text<'a>>,
    #[serde(default)]
    total_ms: Option<Micros>,
    #[serde(default)]
    cached: Option<bool>,
    #[serde(borrow, default)]
    from: Option<Text<'a>>,
    #[serde(borrow, default)]
    to: Option<Text<'a>>,
    #[serde(borrow, default)]
    reason: Option<Text<'a>>,
    #[serde(borrow, default)]
    what: Option<Text<'a>>,
    #[serde(default)]
    count: Option<u64>,
    #[serde(borrow, default)]
    why: Option<Text<'a>>,
    #[serde(default)]
    ms: Option<f64>,
    #[serde(default)]
    events: Option<u64>,
    #[serde(default)]
    records: Option<u64>,
    #[serde(borrow, default)]
    t: Option<Text<'a>>,
    #[serde(default)]
    due_ns: Option<u64>,
    #[serde(default)]
    start_ns: Option<u64>,
    #[serde(default)]
    end_ns: Option<u64>,
    #[serde(borrow, default)]
    run: Option<Text<'a>>,
    #[serde(default)]
    process: Option<u64>,
    #[serde(borrow, default)]
    noise: Option<Noise<'a>>,
}

#[derive(Deserialize)]
struct Language<'a> {
    #[serde(borrow, default)]
    model: Option<Text<'a>>,
    #[serde(borrow, default)]
    precision: Option<Text<'a>>,
    #[serde(borrow, default)]
    target: Option<Text<'a>>,
}

#[derive(Deserialize)]
struct Noise<'a> {
    #[serde(default)]
    noisy: Option<bool>,
    #[serde(borrow, default)]
    why: Option<Text<'a>>,
}

/// Reads a line.
///
/// # Errors
/// [`Fault`] says why it is no record.
pub fn parse(line: &[u8]) -> Result<Line<'_>, Fault> {
    let text = std::str::from_utf8(line).map_err(|error| {
        Fault::Damaged(format!("not UTF-8 at byte {}", error.valid_up_to() + 1))
    })?;
    if text.trim_ascii().is_empty() {
        return Err(Fault::Empty);
    }
    if !text.trim_ascii_start().starts_with('{') {
        // serde would take an array's elements for the fields in their order.
        return Err(Fault::Damaged("expected a JSON object".to_owned()));
    }
    let raw: Raw<'_> = serde_json::from_str(text).map_err(|error| refused(text, &error))?;
    let schema = raw
        .schema
        .ok_or_else(|| Fault::Damaged("an object without `schema`".to_owned()))?;
    if schema > NEWEST_SCHEMA {
        return Err(Fault::Newer(schema));
    }
    let at_ns = raw.at_ns;
    let content = if raw.kind.as_deref() == Some("device") {
        // A full sample has its fields beside the others. It is rare: read it again.
        let device = serde_json::from_str(text).map_err(|error| refused(text, &error))?;
        Content::Device(Box::new(device))
    } else {
        content(raw)?
    };
    Ok(Line {
        schema,
        at_ns,
        content,
    })
}

/// Only the time of a line.
pub(super) fn time(line: &[u8]) -> Option<u64> {
    #[derive(Deserialize)]
    struct Time {
        #[serde(default)]
        at_ns: Option<u64>,
        #[serde(default)]
        mono_ns: Option<u64>,
    }
    let time: Time = serde_json::from_slice(line).ok()?;
    time.at_ns.or(time.mono_ns)
}

/// Why a line could not be read: a newer shape may have other types.
fn refused(text: &str, error: &serde_json::Error) -> Fault {
    #[derive(Deserialize)]
    struct Schema {
        schema: Option<u64>,
    }
    match serde_json::from_str::<Schema>(text) {
        Ok(Schema { schema: Some(n) }) if n > NEWEST_SCHEMA => Fault::Newer(n),
        _ => Fault::Damaged(if error.is_eof() {
            "half a record".to_owned()
        } else {
            // serde_json counts lines, too; here there is one.
            error.to_string().replace(" at line 1 column", ", column")
        }),
    }
}

fn content(raw: Raw<'_>) -> Result<Content<'_>, Fault> {
    let kind = raw
        .kind
        .ok_or_else(|| Fault::Damaged("an object without `kind`".to_owned()))?;
    let lacks =
        |field: &str| Fault::Damaged(format!("a record of kind {:?} without `{field}`", &*kind));
    let batch = raw.batch;
    Ok(match &*kind {
        "utterance" | "request" | "turn" => {
            let kind = match &*kind {
                "utterance" => WorkKind::Utterance,
                "request" => WorkKind::Request,
                _ => WorkKind::Turn,
            };
            let (language, precision, language_target) = match raw.language {
                Some(language) => (language.model, language.precision, language.target),
                None => (None, raw.precision, None),
            };
            let reply = match kind {
                WorkKind::Utterance => None,
                WorkKind::Request => Some(Reply {
                    accepted_ns: raw.accepted_ns,
                    ttft: raw.ttft_ms,
                    tpot: raw.tpot_ms,
                    tps: raw.tps,
                    queue_wait: raw.queue_wait_ms,
                    prompt_tokens: raw.prompt_tokens,
                    cached_tokens: raw.cached_tokens,
                    tokens: raw.tokens,
                    finish: raw.finish,
                    context_tokens: raw.context_tokens,
                    batch,
                }),
                WorkKind::Turn => raw.reply,
            };
            Content::Work(Box::new(Work {
                kind,
                model: raw.model.ok_or_else(|| lacks("model"))?,
                language,
                precision,
                target: raw.target.unwrap_or_default(),
                language_target,
                onnxruntime: raw.onnxruntime,
                stream: raw.stream,
                utterance: raw.utterance,
                stages: raw.stages_ms.ok_or_else(|| lacks("stages_ms"))?.0,
                total: match kind {
                    WorkKind::Utterance => raw.final_latency_ms,
                    _ => raw.e2e_ms,
                },
                final_latency: raw.final_latency_ms,
                voice_ttft: raw.voice_ttft_ms,
                first_partial: raw.first_partial_ms,
                reply,
                cold: raw.cold,
                objective: raw.objective,
                cause: raw.cause,
                device: raw.device,
                lost_events: raw.lost_events.unwrap_or_default(),
                suspended: raw.suspended_ms,
                text: raw.text,
            }))
        }
        "segment" => Content::Header(Box::new(Header {
            version: raw.version,
            pid: raw.pid,
            number: raw.number,
            boot_id: raw.boot_id,
            wall_offset_ns: raw.wall_offset_ns,
            wall_uncertainty_ns: raw.wall_uncertainty_ns,
            device: raw.device.unwrap_or_default(),
            lost_before: raw.lost_before.unwrap_or_default(),
        })),
        "load" => Content::Load(Load {
            role: raw.role,
            model: raw.model.unwrap_or_default(),
            target: raw.target.unwrap_or_default(),
            stages: raw.stages_ms.unwrap_or_default().0,
            total: raw.total_ms,
            cached: raw.cached,
        }),
        "move" => Content::Move(Move {
            stream: raw.stream,
            from: raw.from.ok_or_else(|| lacks("from"))?,
            to: raw.to.ok_or_else(|| lacks("to"))?,
            reason: raw.reason,
        }),
        "drop" => Content::Drop(Drop {
            what: raw.what.ok_or_else(|| lacks("what"))?,
            count: raw.count.unwrap_or(1),
            why: raw.why,
        }),
        "mark" => Content::Mark(Mark {
            what: raw.what.ok_or_else(|| lacks("what"))?,
            ms: raw.ms.unwrap_or_default(),
        }),
        "lost" => Content::Loss(Loss {
            events: raw.events.unwrap_or_default(),
            records: raw.records.unwrap_or_default(),
            why: raw.why,
        }),
        "trace" => match raw.t.as_deref() {
            Some("step") => Content::Trace(Trace::Step(Step {
                role: raw.role.unwrap_or_default(),
                due_ns: raw.due_ns.ok_or_else(|| lacks("due_ns"))?,
                start_ns: raw.start_ns.ok_or_else(|| lacks("start_ns"))?,
                end_ns: raw.end_ns.ok_or_else(|| lacks("end_ns"))?,
                batch: batch.map_or(1, |b| b.max.clamp(1.0, 1e6) as u32),
                stream: raw.stream,
            })),
            Some("arrival") => Content::Trace(Trace::Arrival {
                stream: raw.stream,
                at_ns: raw.at_ns.ok_or_else(|| lacks("at_ns"))?,
            }),
            _ => Content::Other(kind),
        },
        "bench" | "bench_end" => {
            let (noisy, why) = raw.noise.map_or((None, None), |n| (n.noisy, n.why));
            Content::Bench(Bench {
                run: raw.run,
                process: raw.process,
                what: raw.what,
                noisy,
                why,
                end: &*kind == "bench_end",
            })
        }
        _ => Content::Other(kind),
    })
}
