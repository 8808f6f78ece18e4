//! What a reply cost: stamps on CLOCK_MONOTONIC, from which every metric follows by one definition.

use std::time::Duration;

use firstword_audio::Stamp;

/// A chunk of the prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Its tokens.
    pub tokens: u32,
    /// When it began.
    pub began: Stamp,
    /// What it took.
    pub took: Duration,
}

/// A decode step that this reply was part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeStep {
    /// What it took, in microseconds (the longest that can be written here is 71 minutes).
    pub micros: u32,
    /// How many replies were in its batch, this one included.
    pub members: u16,
}

impl DecodeStep {
    /// A step of this duration and batch.
    #[must_use]
    pub fn new(took: Duration, members: usize) -> Self {
        Self {
            micros: u32::try_from(took.as_micros()).unwrap_or(u32::MAX),
            members: u16::try_from(members).unwrap_or(u16::MAX),
        }
    }
}

/// The stamps and counts of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timing {
    /// The request was accepted.
    pub accepted: Stamp,
    /// Its first work started on the device; none if it ended before.
    pub started: Option<Stamp>,
    /// Its first token was handed over.
    pub first_token: Option<Stamp>,
    /// Its last token was handed over.
    pub last_token: Option<Stamp>,
    /// It ended, and its slot was free again.
    pub ended: Stamp,
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
    /// Tokens of the prompt that were in a cache already.
    pub cached_tokens: u32,
    /// Tokens handed over.
    pub output_tokens: u32,
    /// Tokens in the cache when it ended.
    pub context_tokens: u32,
    /// Time spent on turning tokens into text.
    pub detokenise: Duration,
    /// The chunks of the prompt, and of everything before, where the cache had to be filled again.
    pub chunks: Vec<Chunk>,
    /// The decode steps, one for each token after the first.
    pub steps: Vec<DecodeStep>,
}

impl Timing {
    /// The timing of a request that was just accepted.
    #[must_use]
    pub fn new(accepted: Stamp, prompt_tokens: usize) -> Self {
        Self {
            accepted,
            started: None,
            first_token: None,
            last_token: None,
            ended: accepted,
            prompt_tokens: u32::try_from(prompt_tokens).unwrap_or(u32::MAX),
            cached_tokens: 0,
            output_tokens: 0,
            context_tokens: 0,
            detokenise: Duration::ZERO,
            chunks: Vec::new(),
            steps: Vec::new(),
        }
    }

    /// When its next step could begin: its last token or chunk was done, or it was accepted.
    #[must_use]
    pub fn ready(&self) -> Stamp {
        let chunk = self.chunks.last().map(|chunk| chunk.began + chunk.took);
        self.last_token.max(chunk).unwrap_or(self.accepted)
    }

    /// Accepted → its first work starts.
    #[must_use]
    pub fn queue_wait(&self) -> Option<Duration> {
        Some(self.started?.since(self.accepted))
    }

    /// TTFT: accepted → first token handed over.
    #[must_use]
    pub fn time_to_first_token(&self) -> Option<Duration> {
        Some(self.first_token?.since(self.accepted))
    }

    /// TPOT: (last token − first token) ÷ (output tokens − 1). None for fewer than two tokens.
    #[must_use]
    pub fn time_per_output_token(&self) -> Option<Duration> {
        let gaps = self.output_tokens.checked_sub(1).filter(|&gaps| gaps > 0)?;
        Some(self.last_token?.since(self.first_token?) / gaps)
    }

    /// TPS: output tokens ÷ (last token − first token). None for fewer than two tokens.
    #[must_use]
    pub fn tokens_per_second(&self) -> Option<f64> {
        let span = self.last_token?.since(self.first_token?).as_secs_f64();
        (self.output_tokens > 1 && span > 0.0).then(|| f64::from(self.output_tokens) / span)
    }

    /// E2E: accepted → last token handed over.
    #[must_use]
    pub fn end_to_end(&self) -> Option<Duration> {
        Some(self.last_token?.since(self.accepted))
    }

    /// Tokens prefilled ÷ the time in their chunks. None where nothing was prefilled.
    #[must_use]
    pub fn prefill_tokens_per_second(&self) -> Option<f64> {
        let tokens: u32 = self.chunks.iter().map(|chunk| chunk.tokens).sum();
        let took: Duration = self.chunks.iter().map(|chunk| chunk.took).sum();
        (tokens > 0 && !took.is_zero()).then(|| f64::from(tokens) / took.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // By the definitions of docs/latency-targets.md: accepted at 0, work from 5 ms, tokens at 100, 120 and 150 ms.
    #[test]
    fn the_metrics_are_those_of_the_definitions() {
        let at = |ms: u64| Stamp::from_nanos(ms * 1_000_000);
        let chunk = |tokens, began, took| Chunk {
            tokens,
            began: at(began),
            took: Duration::from_millis(took),
        };
        let timing = Timing {
            started: Some(at(5)),
            first_token: Some(at(100)),
            last_token: Some(at(150)),
            ended: at(160),
            output_tokens: 3,
            chunks: vec![chunk(128, 5, 60), chunk(32, 70, 20)],
            ..Timing::new(at(0), 200)
        };
        let ms = Duration::from_millis;
        assert_eq!(timing.queue_wait(), Some(ms(5)));
        assert_eq!(timing.time_to_first_token(), Some(ms(100)));
        assert_eq!(timing.time_per_output_token(), Some(ms(25)));
        assert_eq!(timing.end_to_end(), Some(ms(150)));
        // 3 tokens in 50 ms; 160 tokens in 80 ms.
        assert_eq!(timing.tokens_per_second(), Some(60.0));
        assert_eq!(timing.prefill_tokens_per_second(), Some(2000.0));
    }

    #[test]
    fn what_did_not_happen_has_no_figure() {
        let none = Timing::new(Stamp::from_nanos(7), 3);
        assert_eq!(none.queue_wait(), None);
        assert_eq!(none.time_to_first_token(), None);
        assert_eq!(none.tokens_per_second(), None);
        let one = Timing {
            first_token: Some(Stamp::from_nanos(9)),
            last_token: Some(Stamp::from_nanos(9)),
            output_tokens: 1,
            ..none
        };
        assert_eq!(one.time_per_output_token(), None);
        assert_eq!(one.tokens_per_second(), None);
        assert_eq!(one.end_to_end(), Some(Duration::from_nanos(2)));
    }
}
