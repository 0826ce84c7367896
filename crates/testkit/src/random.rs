//! Chance that comes out the same wherever it is thrown.

/// xorshift: the same numbers for the same seed, everywhere and for ever, so that a seed in a report means one case.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Any seed will do.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `limit`, which is not 0.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % limit
    }

    /// One of some, which are not none.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// A number about 0, roughly normal.
    pub fn float(&mut self) -> f32 {
        (0..4).map(|_| self.below(1 << 20) as f32 / (1 << 19) as f32 - 1.0).sum()
    }
}
