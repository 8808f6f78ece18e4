//! The random numbers of a sequence: the n-th depends on the seed and on n only, so a sequence gets the same ones
//! alone or in any batch.
//!
//! SplitMix64 (Steele, Lea, Flood: "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014), whose n-th output
//! is a mix of `seed + n · γ`: a counter is all its state.

/// γ: 2⁶⁴ over the golden ratio, made odd.
const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// The numbers of one sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Random {
    seed: u64,
    drawn: u64,
}

impl Random {
    /// Numbers of this seed, from the first one.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { seed, drawn: 0 }
    }

    /// The next 64 bits.
    pub const fn bits(&mut self) -> u64 {
        self.drawn = self.drawn.wrapping_add(1);
        let mut z = self.seed.wrapping_add(self.drawn.wrapping_mul(GAMMA));
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// The next number in [0, 1): a multiple of 2⁻⁵³.
    pub const fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // From the reference program splitmix64.c (Vigna, 2015) with x = 1234567.
    #[test]
    fn the_numbers_are_those_of_splitmix64() {
        let mut random = Random::new(1_234_567);
        let found: Vec<u64> = (0..5).map(|_| random.bits()).collect();
        let expected = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ];
        assert_eq!(found, expected);
    }

    // The first output above, without its lowest 11 bits, over 2^53.
    #[test]
    fn a_unit_number_is_the_upper_53_bits() {
        assert_eq!(
            Random::new(1_234_567).unit(),
            3_153_236_189_995_295.0 / 9_007_199_254_740_992.0
        );
        assert!((0..1000).all(|seed| (0.0..1.0).contains(&Random::new(seed).unit())));
    }
}
