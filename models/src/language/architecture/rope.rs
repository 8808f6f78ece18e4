//! Rotary position embedding: by which angle each pair of a head's numbers is turned at each position.

/// One way of turning.
#[derive(Debug, Clone, PartialEq)]
pub struct Rope {
    /// The base of the frequencies: pair `i` of `n` turns by `base^(−i/n)` per position.
    pub base: f32,
    /// Numbers of a head that are turned (twice the pairs); the others stay.
    pub dimensions: usize,
    /// What slows the frequencies.
    pub scaling: Scaling,
}

/// What slows the frequencies, so that a model reaches further than it was first trained.
#[derive(Debug, Clone, PartialEq)]
pub enum Scaling {
    /// Nothing.
    None,
    /// All by one factor.
    Linear(f32),
    /// Each by its own (Llama 3: the factors are a tensor of the file).
    PerFrequency(Vec<f32>),
    /// LongRoPE: each by its own, of one list up to `original` tokens in all and of another beyond.
    Long {
        /// Up to `original` tokens.
        short: Vec<f32>,
        /// Beyond.
        long: Vec<f32>,
        /// Tokens.
        original: usize,
        /// What sines and cosines are multiplied by, in both cases.
        magnitude: f32,
    },
}

/// Cosines and sines `[positions, dimensions / 2]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// Positions, from 0.
    pub positions: usize,
    /// Row after row.
    pub cos: Vec<f32>,
    /// Row after row.
    pub sin: Vec<f32>,
}

impl Rope {
    /// The table for `positions`, of the short factors where there are two lists.
    #[must_use]
    pub fn table(&self, positions: usize) -> Table {
        match &self.scaling {
            Scaling::None => self.turned(positions, |_| 1.0, 1.0),
            Scaling::Linear(factor) => self.turned(positions, |_| *factor, 1.0),
            Scaling::PerFrequency(factors) => self.turned(positions, |i| factors[i], 1.0),
            Scaling::Long {
                short, magnitude, ..
            } => self.turned(positions, |i| short[i], *magnitude),
        }
    }

    /// The table of the long factors, where there are two lists.
    #[must_use]
    pub fn long_table(&self, positions: usize) -> Option<Table> {
        match &self.scaling {
            Scaling::Long {
                long, magnitude, ..
            } => Some(self.turned(positions, |i| long[i], *magnitude)),
            _ => None,
        }
    }

    /// The length up to which the short factors hold, where there are two lists, in tokens.
    #[must_use]
    pub fn original_window(&self) -> Option<usize> {
        match self.scaling {
            Scaling::Long { original, .. } => Some(original),
            _ => None,
        }
    }

    fn turned(&self, positions: usize, factor: impl Fn(usize) -> f32, magnitude: f32) -> Table {
        let pairs = self.dimensions / 2;
        // In doubles: a float's angle at position 100 000 is off by 0.004.
        let frequencies: Vec<f64> = (0..pairs)
            .map(|i| f64::from(self.base).powf(-(i as f64) / pairs as f64) / f64::from(factor(i)))
            .collect();
        let mut table = Table {
            positions,
            cos: Vec::with_capacity(positions * pairs),
            sin: Vec::with_capacity(positions * pairs),
        };
        for position in 0..positions {
            for frequency in &frequencies {
                let (sin, cos) = (position as f64 * frequency).sin_cos();
                table.cos.push((cos * f64::from(magnitude)) as f32);
                table.sin.push((sin * f64::from(magnitude)) as f32);
            }
        }
        table
    }
}
