//! Chance, from a seed.

/// A source of numbers that look like chance: the same seed gives the same numbers.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    /// Begins at a seed.
    pub(crate) fn new(seed: u64) -> Self {
        Rng(seed)
    }

    /// A number below a limit, which must not be zero.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        // SplitMix64: one multiplication more than a counter, and every seed is as good as another.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        let limit = limit as u64;
        usize::try_from(mixed % limit).expect("it is below a number of this size")
    }
}
