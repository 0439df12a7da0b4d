//! The simulator's own random numbers: xoshiro256** seeded by SplitMix64 (Blackman and Vigna,
//! public domain).
//!
//! Own, because a seed printed today must replay the same run in every later version and on every
//! platform; a library's generator may change with its version. Not for secrets.

use std::sync::Arc;

/// A stream of pseudo-random numbers; equal seeds give equal streams.
#[derive(Clone, Debug)]
pub struct Rng {
    state: [u64; 4],
    /// The high bits of the next numbers, two bytes for each, as long as there are any.
    chosen: Option<(Arc<[u8]>, usize)>,
}

impl Rng {
    /// The stream of `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        let mut mix = seed;
        let mut state = [0; 4];
        let mut i = 0;
        while i < state.len() {
            mix = mix.wrapping_add(0x9e37_79b9_7f4a_7c15);
            state[i] = split_mix(mix);
            i += 1;
        }
        Self { state, chosen: None }
    }

    /// Numbers that a fuzzer chooses: `bytes` decide them, and the stream of seed 0 what is beyond.
    #[must_use]
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self { chosen: Some((bytes.into(), 0)), ..Self::new(0) }
    }

    /// A stream of its own for one purpose, so that drawing more for another does not shift it.
    #[must_use]
    pub fn fork(&self, purpose: u64) -> Self {
        /// How far into the bytes the streams of two purposes begin from each other.
        const APART: usize = 64;
        let from = |bytes: &Arc<[u8]>| (Arc::clone(bytes), purpose as usize % 16 * APART);
        let chosen = self.chosen.as_ref().map(|(bytes, _)| from(bytes));
        Self { chosen, ..Self::new(self.state[0] ^ split_mix(purpose)) }
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        let drawn = self.draw();
        let Some((bytes, at)) = &mut self.chosen else { return drawn };
        let Some(&[high, low]) = bytes.get(*at..*at + 2) else { return drawn };
        *at += 2;
        u64::from(u16::from_be_bytes([high, low])) << 48 | drawn >> 16
    }

    const fn draw(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// A number in `0..n`. With `n` 0 the answer is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        // The high half of the product; its bias is below n / 2^64.
        ((self.bits() as u128 * n as u128) >> 64) as u64
    }

    /// A number in `low..=high`.
    ///
    /// # Panics
    /// If `low > high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        assert!(low <= high, "an empty range");
        let span = high - low;
        if span == u64::MAX {
            return self.bits();
        }
        low + self.below(span + 1)
    }

    /// A number in `low..=high` whose magnitude is uniform: as often 10 to 100 as 100 to 1000.
    pub fn magnitude(&mut self, low: u64, high: u64) -> u64 {
        let bits = |n: u64| u64::from(n.max(1).ilog2());
        let top = 1_u64 << self.between(bits(low), bits(high));
        self.between(top, (top - 1).saturating_mul(2).saturating_add(1)).clamp(low, high)
    }

    /// True with a probability of `ppm` millionths.
    pub fn chance(&mut self, ppm: u32) -> bool {
        self.below(1_000_000) < ppm as u64
    }

    /// One of `choices`.
    ///
    /// # Panics
    /// If there is none.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len() as u64) as usize]
    }
}

const fn split_mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published first outputs of SplitMix64 for seed 1234567 (the reference implementation's
    /// test).
    #[test]
    fn split_mix_is_the_published_one() {
        let mut mix = 1_234_567_u64;
        let mut next = || {
            mix = mix.wrapping_add(0x9e37_79b9_7f4a_7c15);
            split_mix(mix)
        };
        assert_eq!(next(), 6_457_827_717_110_365_317);
        assert_eq!(next(), 3_203_168_211_198_807_973);
    }

    /// The reference implementation's first outputs for the state 1, 2, 3, 4.
    #[test]
    fn xoshiro_is_the_published_one() {
        let mut rng = Rng { state: [1, 2, 3, 4], chosen: None };
        assert_eq!(rng.bits(), 11_520);
        assert_eq!(rng.bits(), 0);
        assert_eq!(rng.bits(), 1_509_978_240);
    }

    #[test]
    fn bytes_choose_what_is_drawn_first() {
        let mut bytes = [0; 130];
        bytes[64..68].copy_from_slice(&[0xff, 0xff, 0x80, 0]);
        let mut rng = Rng::of_bytes(&bytes).fork(1);
        assert_eq!([rng.below(10), rng.below(10), rng.below(10)], [9, 5, 0]);
        let mut beyond = Rng::of_bytes(&bytes[..64]).fork(1);
        assert_eq!(beyond.bits(), Rng::new(0).fork(1).bits());
    }

    #[test]
    fn ranges_are_respected_and_reached() {
        let mut rng = Rng::new(7);
        let mut seen = [false; 5];
        for _ in 0..200 {
            seen[(rng.between(10, 14) - 10) as usize] = true;
            assert!((3..=9_000).contains(&rng.magnitude(3, 9_000)));
        }
        assert_eq!(seen, [true; 5]);
        assert_eq!(rng.below(0), 0);
        assert!(!rng.chance(0) && rng.chance(1_000_000));
    }
}
