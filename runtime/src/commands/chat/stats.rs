//! `--stats` and `/stats`: what a reply cost, for people.

use std::fmt::Write;
use std::time::Duration;

use crate::record::Request;

/// The figures of a reply, by the project's definitions of them (docs/latency-log.md).
pub fn table(request: &Request) -> String {
    let reply = &request.reply;
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{}, {}, {}, ONNX Runtime {}",
        request.language.model,
        request.language.precision,
        request.language.target,
        request.onnxruntime
    );
    let mut row = |name: &str, value: String| {
        let _ = writeln!(out, "  {name:26} {value}");
    };
    row("TTFT (first token)", ms(reply.path.ttft()));
    row("  of it waiting", ms(reply.path.queue_wait()));
    if let Some(tpot) = reply.tpot() {
        row("TPOT (each token after it)", ms(tpot));
    }
    if let Some(tps) = reply.tps() {
        row("TPS", format!("{tps:.1} tokens/s"));
    }
    let prompt = match reply.cached_tokens {
        0 => format!("{} tokens", reply.prompt_tokens),
        cached => format!("{} tokens, {cached} of them cached", reply.prompt_tokens),
    };
    row("prompt", prompt);
    if let Some(rate) = reply.prefill_rate() {
        row("prefill", format!("{rate:.0} tokens/s"));
    }
    row("reply", format!("{} tokens", reply.tokens));
    if let Some(peak) = peak_memory() {
        row("peak memory", format!("{} MiB", peak >> 20));
    }
    out
}

fn ms(d: Duration) -> String {
    format!("{:.1} ms", d.as_secs_f64() * 1e3)
}

/// The most memory that this process ever held, in bytes.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}
