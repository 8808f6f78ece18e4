//! Logs whose truth is known: made from a seed, with a slow stage planted in them.
//!
//! Tests of the reports ask whether they find what was planted; `log_records` of the benches makes large ones to measure
//! the reader. The figures are made up to look like a small device (speech model and language model on its CPU); none
//! of them was measured.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::Wall;

/// What is slow in some of the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Plant {
    /// Nothing.
    Typical,
    /// The encoder takes nine times as long.
    Encode,
    /// Work waits for the device.
    Queue,
    /// The device is hot and runs at half its clock: everything that computes is slow.
    Thermal,
}

impl Plant {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Typical, Self::Encode, Self::Queue, Self::Thermal];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Typical => "typical",
            Self::Encode => "encode",
            Self::Queue => "queue",
            Self::Thermal => "thermal",
        }
    }
}

/// What to make.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The same seed makes the same log; it is also in the device's name.
    pub seed: u64,
    /// Utterances, requests and turns, all together.
    pub records: u64,
    /// What is slow.
    pub plant: Plant,
    /// When the log begins.
    pub start: Wall,
    /// Records of one segment.
    pub per_segment: u64,
    /// Whether arrivals and steps are traced.
    pub trace: bool,
    /// Every stage takes this much of its usual time (1: as usual), to compare two logs.
    pub pace: f64,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            seed: 7,
            records: 2_000,
            plant: Plant::Typical,
            // 2026-11-24 08:00 UTC, a Tuesday.
            start: Wall(1_795_507_200_000_000_000),
            per_segment: 1_000,
            trace: false,
            pace: 1.0,
        }
    }
}

/// What was planted: beside the log as `truth.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Truth {
    /// What was made slow.
    pub plant: Plant,
    /// Utterances, requests and turns.
    pub records: u64,
    /// Records that are cold.
    pub cold: u64,
    /// `at_ns` of the turns that were made slow.
    pub slow: Vec<u64>,
    /// Moves of the ladder.
    pub moves: u64,
    /// Records that a `lost` line tells of.
    pub lost: u64,
}

/// SplitMix64 (Steele, Lea, Flood 2014): small, seedable, good enough for made-up figures and for resampling.
#[derive(Clone, Debug)]
pub struct Dice(pub u64);

impl Dice {
    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 (included) to 1 (not).
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A whole number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.bits()) * n as u128) >> 64) as usize
    }

    /// Normal, mean 0 and deviation 1 (Box and Muller 1958).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// Log-normal: this median, this spread of the logarithm.
    fn about(&mut self, median: f64, spread: f64) -> f64 {
        median * (spread * self.normal()).exp()
    }
}

/// Writes a log into a folder, and `truth.json` beside it.
///
/// # Errors
/// When the folder can't be written.
pub fn write(folder: &Path, plan: &Plan) -> io::Result<Truth> {
    fs::create_dir_all(folder)?;
    let mut maker = Maker {
        plan,
        dice: Dice(plan.seed),
        // Up for 1000 s when the log begins.
        mono_ns: 1_000_000_000_000,
        wall_offset_ns: plan.start.0 - 1_000_000_000_000,
        truth: Truth {
            plant: plan.plant,
            records: 0,
            cold: 0,
            slow: Vec::new(),
            moves: 0,
            lost: 0,
        },
        was_slow: false,
    };
    let per_segment = plan.per_segment.max(1);
    // A process writes two segments before it ends.
    for segment in 0..plan.records.div_ceil(per_segment) {
        let (pid, number) = (4000 + segment / 2, segment % 2);
        let begin = Wall(maker.mono_ns as i64 + maker.wall_offset_ns);
        let compact: String = begin
            .rfc3339()
            .chars()
            .filter(|c| !matches!(c, '-' | ':'))
            .collect();
        let stamp = &compact[..compact.find('.').unwrap_or(compact.len())];
        let path = folder.join(format!("latency-{stamp}Z-{pid}-{number:04}.jsonl"));
        let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
        maker.header(&mut file, pid, number)?;
        let count = per_segment.min(plan.records - segment * per_segment);
        for at in 0..count {
            let cold = number == 0 && at < 3;
            maker.record(&mut file, segment * per_segment + at, cold)?;
        }
        if segment == 0 {
            maker.truth.lost += 3;
            writeln!(
                file,
                r#"{{"schema":2,"kind":"lost","at_ns":{},"events":12,"records":3,"bytes":4100,"why":"disk_full"}}"#,
                maker.mono_ns
            )?;
        }
        file.flush()?;
    }
    let truth = serde_json::to_vec_pretty(&maker.truth)?;
    fs::write(folder.join("truth.json"), truth)?;
    Ok(maker.truth)
}

struct Maker<'a> {
    plan: &'a Plan,
    dice: Dice,
    mono_ns: u64,
    wall_offset_ns: i64,
    truth: Truth,
    was_slow: bool,
}

/// The stages of one piece of work, ms.
#[derive(Default)]
struct Stages(Vec<(&'static str, f64)>);

impl Stages {
    fn json(&self) -> String {
        let inner: Vec<String> = self
            .0
            .iter()
            .map(|(name, ms)| format!("\"{name}\":{ms:.3}"))
            .collect();
        format!("{{{}}}", inner.join(","))
    }

    fn sum(&self, until: &str) -> f64 {
        let mut sum = 0.0;
        for (name, ms) in &self.0 {
            sum += (ms * 1e3).round() / 1e3;
            if *name == until {
                break;
            }
        }
        sum
    }
}

impl Maker<'_> {
    fn header(&mut self, out: &mut impl Write, pid: u64, number: u64) -> io::Result<()> {
        let (mono, offset) = (self.mono_ns, self.wall_offset_ns);
        writeln!(
            out,
            r#"{{"schema":2,"kind":"segment","at_ns":{mono},"program":"firstword","version":"0.1.0","pid":{pid},"number":{number},"boot_id":"6f1a4c1e-0000-4000-8000-000000000001","mono_ns":{mono},"wall_ns":{},"wall_offset_ns":{offset},"wall_uncertainty_ns":900,"boottime_offset_ns":0,"device":{{"model":"Planted board","hostname":"cabinet-{}","cpu":"made up","cores":6,"architecture":"aarch64","memory_bytes":8000000000,"kernel":"5.15","os":"Debian 12","platform":null}},"lost_before":0}}"#,
            mono as i64 + offset,
            self.plan.seed
        )?;
        if number == 0 {
            writeln!(
                out,
                r#"{{"schema":2,"kind":"load","at_ns":{mono},"role":"speech","model":"tiny-speech","precision":"exact","target":"cpu","onnxruntime":"1.31.1","stages_ms":{{"verify":40.000,"open":3.000,"session":210.000}},"total_ms":253.000,"bytes":110000000,"cached":null,"rss_before_bytes":30000000,"rss_after_bytes":150000000}}"#
            )?;
        }
        Ok(())
    }

    /// A fifth of the time things are slow, in two stretches.
    fn is_slow(&self, index: u64) -> bool {
        let share = index as f64 / self.plan.records.max(1) as f64;
        self.plan.plant != Plant::Typical
            && ((0.30..0.40).contains(&share) || (0.70..0.80).contains(&share))
    }

    fn record(&mut self, out: &mut impl Write, index: u64, cold: bool) -> io::Result<()> {
        let slow = self.is_slow(index);
        if slow != self.was_slow {
            self.was_slow = slow;
            self.truth.moves += 1;
            let (from, to) = if slow {
                ("full", "light")
            } else {
                ("light", "full")
            };
            writeln!(
                out,
                r#"{{"schema":2,"kind":"move","at_ns":{},"stream":"mic","from":"{from}","to":"{to}","reason":"p95 of the last 20 turns","value":{}}}"#,
                self.mono_ns,
                if slow { "431.0" } else { "280.0" }
            )?;
        }
        // Eight seconds between turns on average.
        let gap = -8e9 * (1.0 - self.dice.unit()).ln();
        self.mono_ns += gap as u64 + 1_000_000_000;
        self.truth.records += 1;
        self.truth.cold += u64::from(cold);
        let hot = slow && self.plan.plant == Plant::Thermal;
        let (temperature, clock) = if hot {
            (self.dice.about(88.0, 0.01), self.dice.about(1100.0, 0.02))
        } else {
            (self.dice.about(58.0, 0.03), 2200.0)
        };
        let device = format!(
            r#"{{"at_ns":{},"temperature_c":{temperature:.1},"cpu_mhz":{clock:.0},"cpu_max_mhz":2200,"throttled":null,"memory_available_bytes":3100000000,"process_rss_bytes":410000000,"load_1m":1.4,"busy":{:.2},"steal":0.00,"power_mw":null,"power_mode":"15W"}}"#,
            self.mono_ns - 2_000_000_000,
            0.3 + 0.2 * self.dice.unit()
        );
        match self.dice.below(10) {
            0..6 => self.turn(out, index, slow, cold, &device),
            6..9 => self.request(out, slow, cold, &device),
            _ => self.utterance(out, index, slow, cold, &device),
        }
    }

    /// What a stage takes now.
    fn spent(&mut self, stage: &str, median: f64, spread: f64, slow: bool, cold: bool) -> f64 {
        let mut ms = self.dice.about(median, spread) * self.plan.pace;
        let computes = matches!(
            stage,
            "encode" | "decode" | "prefill" | "first_token" | "reply" | "voice_activity"
        );
        if slow {
            ms += match self.plan.plant {
                Plant::Encode if stage == "encode" => 8.0 * ms,
                Plant::Queue if stage == "queue" => self.dice.about(240.0, 0.2),
                Plant::Thermal if computes => 1.6 * ms,
                _ => 0.0,
            };
        }
        if cold && computes {
            ms *= 3.0;
        }
        ms
    }

    fn heard(&mut self, slow: bool, cold: bool) -> Stages {
        let mut stages = Stages::default();
        for (name, median, spread) in [
            ("silence", 150.0, 0.01),
            ("ring", 4.0, 0.3),
            ("resample", 0.05, 0.2),
            ("voice_activity", 0.6, 0.2),
            ("wait", 0.4, 0.8),
            ("encode", 24.0, 0.12),
            ("decode", 31.0, 0.2),
            ("final", 0.06, 0.2),
            ("hand_over", 0.04, 0.4),
        ] {
            let ms = self.spent(name, median, spread, slow, cold);
            stages.0.push((name, ms));
        }
        stages
    }

    /// Prefill time of so many new tokens: a knee at 2048, where they leave the cache.
    fn prefill(&mut self, tokens: f64, slow: bool, cold: bool) -> f64 {
        let usual = 3.0 + 0.11 * tokens + 0.35 * (tokens - 2048.0).max(0.0);
        self.spent("prefill", usual, 0.05, slow, cold)
    }

    fn turn(
        &mut self,
        out: &mut impl Write,
        index: u64,
        slow: bool,
        cold: bool,
        device: &str,
    ) -> io::Result<()> {
        let mut stages = self.heard(slow, cold);
        let heard = stages.sum("hand_over");
        let (new, cached) = (300.0 + 200.0 * self.dice.unit(), 600.0 * self.dice.unit());
        let tokens = 12 + self.dice.below(40);
        let step = self.spent("reply", 15.0, 0.05, slow, cold);
        stages.0.push(("turn_wait", self.dice.about(0.3, 0.5)));
        stages.0.push(("prompt", self.dice.about(0.8, 0.2)));
        let queue = self.spent("queue", 0.4, 0.6, slow, cold);
        stages.0.push(("queue", queue));
        let prefill = self.prefill(new, slow, cold);
        stages.0.push(("prefill", prefill));
        let first = self.spent("first_token", 2.0, 0.1, slow, cold);
        stages.0.push(("first_token", first));
        stages.0.push(("reply", step * (tokens - 1) as f64));
        let (voice_ttft, e2e) = (stages.sum("first_token"), stages.sum(""));
        self.mono_ns += (e2e * 1e6) as u64;
        if slow {
            self.truth.slow.push(self.mono_ns);
        }
        let at = self.mono_ns;
        let last = at - (e2e * 1e6) as u64;
        writeln!(
            out,
            r#"{{"schema":2,"kind":"turn","at_ns":{at},"stream":"mic","utterance":{index},"start_s":1.000,"end_s":3.500,"ending":"pause","model":"tiny-speech","precision":"exact","decoder":"lean","target":"cpu","placement":null,"onnxruntime":"1.31.1","language":{{"model":"small-talker","precision":"fast","target":"cpu"}},"cold":{cold},"objective":{{"name":"interactive","metric":"voice_ttft_ms","limit_ms":387.000,"value_ms":{voice_ttft:.3},"held":{}}},"cause":null,"device":{device},"lost_events":0,"suspended_ms":0,"clock_step_ms":null,"first_captured_ns":{},"last_captured_ns":{last},"first_partial_ms":{:.3},"partial_ms":{{"count":6,"p50":41.000,"p95":66.000,"max":70.000}},"words":[{{"captured_ns":{last},"committed_ns":{at},"handed_over_ns":{at}}},{{"captured_ns":{last},"committed_ns":{at},"handed_over_ns":{at}}}],"words_more":0,"final_latency_ms":{heard:.3},"voice_ttft_ms":{voice_ttft:.3},"e2e_ms":{e2e:.3},"stages_ms":{},"work":{{"read_ms":0.300,"resample_ms":2.100,"voice_activity_ms":27.400,"encode_ms":120.200,"decode_ms":90.100,"slowest_step_ms":2.700}},"counts":{{"passes":7,"decoder_steps":31,"tokens":11,"tokens_kept":20,"tokens_looped":0,"cut_short":false,"samples_lost":0}},"reply":{{"accepted_ns":{},"ttft_ms":{:.3},"tpot_ms":{step:.3},"tps":{:.3},"queue_wait_ms":{queue:.3},"prompt_tokens":{},"cached_tokens":{},"prefill_chunks":2,"tokens":{tokens},"finish":"stop","steps":{},"step_p50_ms":{step:.3},"step_p95_ms":{:.3},"slowest_step_ms":{:.3},"batch":{{"p50":1,"max":1}},"detokenise_ms":0.200,"step_p99_ms":{:.3},"context_tokens":{}}}}}"#,
            voice_ttft <= 387.0,
            last.saturating_sub(2_500_000_000),
            self.dice.about(230.0, 0.1),
            stages.json(),
            last + (heard * 1e6) as u64,
            voice_ttft - heard,
            1e3 * tokens as f64 / (step * (tokens - 1) as f64),
            (new + cached) as u64,
            cached as u64,
            tokens - 1,
            step * 1.1,
            step * 1.3,
            step * 1.2,
            (new + cached) as usize + tokens,
        )?;
        self.traces(out, last, heard, &stages)
    }

    /// The turn's arrival, and its two largest steps.
    fn traces(
        &mut self,
        out: &mut impl Write,
        last: u64,
        heard: f64,
        stages: &Stages,
    ) -> io::Result<()> {
        if !self.plan.trace {
            return Ok(());
        }
        let ms = |ms: f64| (ms * 1e6) as u64;
        let at = self.mono_ns;
        let of = |name: &str| stages.sum(name);
        let before = |name: &str| {
            let mut sum = 0.0;
            for (found, ms) in &stages.0 {
                if *found == name {
                    break;
                }
                sum += ms;
            }
            sum
        };
        let due = last + ms(before("wait"));
        writeln!(
            out,
            r#"{{"schema":2,"kind":"trace","at_ns":{at},"t":"arrival","stream":"mic","samples":40000,"sequence":0}}"#
        )?;
        for (role, due, start, end) in [
            (
                "encode",
                due,
                last + ms(of("wait")),
                last + ms(of("encode")),
            ),
            (
                "prefill",
                last + ms(heard),
                last + ms(of("queue")),
                last + ms(of("prefill")),
            ),
        ] {
            writeln!(
                out,
                r#"{{"schema":2,"kind":"trace","at_ns":{at},"t":"step","role":"{role}","due_ns":{due},"start_ns":{start},"end_ns":{end},"batch":1,"tokens":null,"stream":"mic"}}"#
            )?;
        }
        Ok(())
    }

    fn request(
        &mut self,
        out: &mut impl Write,
        slow: bool,
        cold: bool,
        device: &str,
    ) -> io::Result<()> {
        // Log-uniform from 64 to 4096 tokens, long ones seldom.
        let octaves = if self.dice.below(10) == 0 { 6.0 } else { 4.0 };
        let new = 64.0 * (octaves * self.dice.unit()).exp2();
        let batch = [1, 1, 2, 4][self.dice.below(4)];
        let tokens = 20 + self.dice.below(100);
        // A larger batch costs each member a little, and gives more in all.
        let step = self.spent(
            "reply",
            15.0 * (1.0 + 0.15 * f64::from(batch - 1)),
            0.04,
            slow,
            cold,
        );
        let queue = self.spent("queue", 0.5 * f64::from(batch), 0.6, slow, cold);
        let mut stages = Stages::default();
        stages.0.push(("prompt", self.dice.about(0.8, 0.2)));
        stages.0.push(("queue", queue));
        let prefill = self.prefill(new, slow, cold) * f64::from(batch).sqrt();
        stages.0.push(("prefill", prefill));
        let first = self.spent("first_token", 2.0, 0.1, slow, cold);
        stages.0.push(("first_token", first));
        stages.0.push(("reply", step * (tokens - 1) as f64));
        let (ttft, e2e) = (stages.sum("first_token"), stages.sum(""));
        self.mono_ns += (e2e * 1e6) as u64;
        writeln!(
            out,
            r#"{{"schema":2,"kind":"request","at_ns":{},"model":"small-talker","precision":"fast","target":"cpu","placement":null,"onnxruntime":"1.31.1","cold":{cold},"objective":{{"name":"interactive","metric":"ttft_ms","limit_ms":387.000,"value_ms":{ttft:.3},"held":{}}},"cause":null,"device":{device},"lost_events":0,"suspended_ms":0,"clock_step_ms":null,"accepted_ns":{},"ttft_ms":{ttft:.3},"tpot_ms":{step:.3},"tps":{:.3},"queue_wait_ms":{:.3},"e2e_ms":{e2e:.3},"stages_ms":{},"prompt_tokens":{},"cached_tokens":0,"prefill_chunks":2,"tokens":{tokens},"finish":"stop","steps":{},"step_p50_ms":{step:.3},"step_p95_ms":{:.3},"slowest_step_ms":{:.3},"batch":{{"p50":{batch},"max":{batch}}},"detokenise_ms":0.200,"slowest_steps":[{{"step":3,"ms":19.000,"batch":{batch}}}],"step_p99_ms":{:.3},"context_tokens":{}}}"#,
            self.mono_ns,
            ttft <= 387.0,
            self.mono_ns - (e2e * 1e6) as u64,
            1e3 * tokens as f64 / (step * (tokens - 1) as f64),
            stages.sum("queue"),
            stages.json(),
            new as u64,
            tokens - 1,
            step * 1.1,
            step * 1.3,
            step * 1.2,
            new as usize + tokens,
        )
    }

    fn utterance(
        &mut self,
        out: &mut impl Write,
        index: u64,
        slow: bool,
        cold: bool,
        device: &str,
    ) -> io::Result<()> {
        let stages = self.heard(slow, cold);
        let heard = stages.sum("");
        self.mono_ns += (heard * 1e6) as u64;
        let last = self.mono_ns - (heard * 1e6) as u64;
        writeln!(
            out,
            r#"{{"schema":2,"kind":"utterance","at_ns":{},"stream":"talk.wav","utterance":{index},"start_s":0.000,"end_s":9.064,"ending":"pause","model":"tiny-speech","precision":"exact","decoder":"lean","target":"cpu","placement":null,"onnxruntime":"1.31.1","cold":{cold},"objective":null,"cause":null,"device":{device},"lost_events":0,"suspended_ms":0,"clock_step_ms":null,"first_captured_ns":{},"last_captured_ns":{last},"first_partial_ms":null,"final_latency_ms":{heard:.3},"stages_ms":{},"work":{{"read_ms":0.300,"resample_ms":2.100,"voice_activity_ms":27.400,"encode_ms":24.000,"decode_ms":31.000,"slowest_step_ms":2.700}},"counts":{{"passes":1,"decoder_steps":19,"tokens":18,"tokens_kept":0,"tokens_looped":0,"cut_short":false,"samples_lost":0}}}}"#,
            self.mono_ns,
            last.saturating_sub(8_000_000_000),
            stages.json(),
        )
    }
}
