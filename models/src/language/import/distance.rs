//! How far one model's words are from another's, from logits that come for some words at a time.
//!
//! With `p` and `q` the probabilities of both, `e` and `o` their logits: KL = Σ p (ln p − ln q) =
//! Σ p (e − o) + ln Σ exp o − ln Σ exp e. Each sum runs along with the largest logit so far taken out, as a softmax over a stream does (Milakov
//! and Gimelshein 2018, "Online normalizer calculation for softmax"), so that memory is that of one piece.

/// Sums under way, for each row.
#[derive(Debug)]
pub struct Distance<'a> {
    /// The token that came after each row.
    next: &'a [u32],
    rows: Vec<Row>,
}

/// What a distance comes to, over all rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Found {
    /// Mean KL divergence, in nats.
    pub kl: f64,
    /// In what part of the rows the most likely word is the same.
    pub top1: f64,
    /// The other's perplexity divided by the first one's, of the tokens that came.
    pub perplexity_ratio: f64,
}

#[derive(Debug, Clone, Default)]
struct Row {
    exact: Running,
    other: Running,
    /// Σ exp(e − largest e) · (e − o).
    apart: f64,
    /// Logits of the token that came: e − o.
    ahead: f64,
}

/// ln Σ exp, as far as it has come.
#[derive(Debug, Clone)]
struct Running {
    largest: f64,
    /// Σ exp(v − largest).
    sum: f64,
    /// Which word the largest is; the last of equal ones.
    word: usize,
}

impl Default for Running {
    fn default() -> Self {
        Self {
            largest: f64::NEG_INFINITY,
            sum: 0.0,
            word: 0,
        }
    }
}

impl Running {
    /// Makes room for values up to the largest of `values`, the words from `start` on: what all sums that have it taken
    /// out are to be multiplied by.
    fn rise(&mut self, start: usize, values: &[f32]) -> f64 {
        let before = self.largest;
        for (n, &value) in values.iter().enumerate() {
            let value = f64::from(value);
            if value >= self.largest {
                (self.largest, self.word) = (value, start + n);
            }
        }
        // Before anything came, nothing is there to be scaled (and −∞ less −∞ is no number).
        let times = if before < self.largest {
            (before - self.largest).exp()
        } else {
            1.0
        };
        self.sum *= times;
        times
    }

    fn log(&self) -> f64 {
        self.largest + self.sum.ln()
    }
}

impl<'a> Distance<'a> {
    /// Nothing yet; `next` are the tokens that came, one for each row.
    #[must_use]
    pub fn new(next: &'a [u32]) -> Self {
        Self {
            next,
            rows: vec![Row::default(); next.len()],
        }
    }

    /// Adds the logits of the words `start..start + words`, rows of `words` of them.
    pub fn add(&mut self, start: usize, words: usize, exact: &[f32], other: &[f32]) {
        let pairs = exact
            .chunks_exact(words.max(1))
            .zip(other.chunks_exact(words.max(1)));
        for ((row, (exact, other)), &token) in self.rows.iter_mut().zip(pairs).zip(self.next) {
            row.apart *= row.exact.rise(start, exact);
            row.other.rise(start, other);
            for (&e, &o) in exact.iter().zip(other) {
                let (e, o) = (f64::from(e), f64::from(o));
                let weight = (e - row.exact.largest).exp();
                row.exact.sum += weight;
                row.apart += weight * (e - o);
                row.other.sum += (o - row.other.largest).exp();
            }
            let at = (token as usize).checked_sub(start);
            if let Some(at) = at.filter(|&at| at < words) {
                row.ahead = f64::from(exact[at]) - f64::from(other[at]);
            }
        }
    }

    /// The distance, once all words have been added.
    #[must_use]
    pub fn found(&self) -> Found {
        let (mut kl, mut same, mut surprise) = (0.0, 0usize, 0.0);
        for row in &self.rows {
            let logs = row.other.log() - row.exact.log();
            kl += row.apart / row.exact.sum + logs;
            surprise += row.ahead + logs;
            same += usize::from(row.exact.word == row.other.word);
        }
        let rows = self.rows.len().max(1) as f64;
        Found {
            kl: kl / rows,
            top1: same as f64 / rows,
            perplexity_ratio: (surprise / rows).exp(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(exact: &[f32], other: &[f32], vocabulary: usize, next: &[u32]) -> Found {
        let mut distance = Distance::new(next);
        distance.add(0, vocabulary, exact, other);
        distance.found()
    }

    // By hand: p = (3/4, 1/4) against q = (1/2, 1/2): KL = 3/4 ln(3/2) + 1/4 ln(1/2); the token that came is the
    // second: surprise 1/4 against 1/2, so the other's perplexity is half.
    #[test]
    fn distances_are_those_of_the_textbook() {
        let exact = [3f32.ln() + 5.0, 5.0];
        let other = [0.0, 1e-7];
        let found = whole(&exact, &other, 2, &[1]);
        let kl = 0.75 * 1.5f64.ln() + 0.25 * 0.5f64.ln();
        assert!((found.kl - kl).abs() < 1e-6, "{found:?}");
        assert!((found.perplexity_ratio - 0.5).abs() < 1e-6);
        assert_eq!(found.top1, 0.0);
    }

    #[test]
    fn a_model_is_no_distance_from_itself() {
        let logits = [1.0, -2.0, 700.0, 3.0, 3.5, -1.0];
        let found = whole(&logits, &logits, 3, &[2, 0]);
        assert_eq!(
            (found.kl, found.top1, found.perplexity_ratio),
            (0.0, 1.0, 1.0)
        );
    }

    // The same by hand for words in three pieces, the largest logit in each of them once, at values whose powers
    // no f64 holds: what they are apart from the largest is all that counts.
    #[test]
    fn words_that_come_in_pieces_are_the_same_distance() {
        let row = |n: f32| [900.0 * n, 1.0 - n, 2.0, 899.5 * n, -3.0 * n, 900.25 * n];
        let exact: Vec<f32> = [1.0, 0.5, -1.0].into_iter().flat_map(row).collect();
        let other: Vec<f32> = exact
            .iter()
            .enumerate()
            .map(|(n, v)| v + (n % 5) as f32 / 8.0)
            .collect();
        let next = [3, 0, 2];
        let expected = whole(&exact, &other, 6, &next);
        let mut distance = Distance::new(&next);
        for words in [0..1, 1..4, 4..6] {
            let piece = |all: &[f32]| -> Vec<f32> {
                let rows = all.chunks(6);
                rows.flat_map(|row| row[words.clone()].to_vec()).collect()
            };
            distance.add(words.start, words.len(), &piece(&exact), &piece(&other));
        }
        let found = distance.found();
        assert!(expected.kl > 0.001, "{expected:?}");
        assert!((found.kl - expected.kl).abs() < 1e-12, "{found:?}");
        assert_eq!(found.top1.to_bits(), expected.top1.to_bits());
        assert!((found.perplexity_ratio - expected.perplexity_ratio).abs() < 1e-12);
    }
}
