//! Random numbers as functions of their purpose.
//!
//! The world uses no running generator. A value is the hash of (seed, split, purpose, index), so any entity or question
//! can be made alone, in any order, on any machine. The hash is SplitMix64's finaliser (Steele, Lea and Flood 2014)
//! applied to each word in turn. A [`RandomStream`] counts on from there. Only integer arithmetic decides, so the bytes
//! do not depend on a platform's floating point.

/// SplitMix64's increment.
const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

/// SplitMix64's finaliser: a bijection of 64 bits.
fn mix_bits(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// The hash of a purpose and an index under a world's key.
pub(crate) fn hash_index(key: u64, purpose: StreamPurpose, index: u64) -> u64 {
    let z = mix_bits(key.wrapping_add(GAMMA).wrapping_add(purpose.word()));
    mix_bits(z.wrapping_add(GAMMA).wrapping_add(index))
}

/// The key of a world: its seed and its split.
pub(crate) fn world_key(seed: u64, split: u64) -> u64 {
    mix_bits(mix_bits(seed.wrapping_add(GAMMA)).wrapping_add(GAMMA.wrapping_mul(split + 1)))
}

/// The purpose of a random number. Two purposes never share a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamPurpose {
    /// The names of a pool (the pool's number).
    Names(u8),
    /// The objects of a relation (its place in the schema).
    Relation(u16),
    /// A literal or a trait of an entity (its number).
    Attribute(u16),
    /// The order of the corpus.
    CorpusOrder,
    /// The plan and the words of a passage.
    Passage,
    /// The plan and the words of a question.
    Question,
    /// The candidates of a question.
    Candidates,
}

impl StreamPurpose {
    fn word(self) -> u64 {
        match self {
            Self::Names(n) => 0x1_0000 + u64::from(n),
            Self::Relation(n) => 0x2_0000 + u64::from(n),
            Self::Attribute(n) => 0x3_0000 + u64::from(n),
            Self::CorpusOrder => 0x4_0000,
            Self::Passage => 0x5_0000,
            Self::Question => 0x6_0000,
            Self::Candidates => 0x7_0000,
        }
    }
}

/// A stream of numbers for one purpose and one index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RandomStream {
    state: u64,
}

impl RandomStream {
    /// The stream of `purpose` and `index` under the world's key.
    pub(crate) fn new(key: u64, purpose: StreamPurpose, index: u64) -> Self {
        Self { state: hash_index(key, purpose, index) }
    }

    /// The next 64 bits.
    pub(crate) fn next_bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GAMMA);
        mix_bits(self.state)
    }

    /// A number below `bound`. `bound` is positive (multiply-shift: the bias is below 2^-40 for the bounds used here).
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_bits()) * u128::from(bound)) >> 64) as u64
    }

    /// True with a probability in thousandths.
    pub(crate) fn chance(&mut self, permille: u32) -> bool {
        self.below(1000) < u64::from(permille)
    }

    /// One of `items`. `items` is not empty.
    pub(crate) fn pick<'a, T: ?Sized>(&mut self, items: &[&'a T]) -> &'a T {
        items[self.below(items.len() as u64) as usize]
    }

    /// Fisher and Yates.
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i as u64 + 1) as usize);
        }
    }

    /// Roughly normal, mean 0 and standard deviation 1000: the sum of twelve uniforms (Irwin and Hall), in integers.
    pub(crate) fn normal_permille(&mut self) -> i64 {
        (0..12).map(|_| self.below(1001) as i64).sum::<i64>() - 6000
    }
}

/// A permutation of `0..size`, computed in both directions without a table: a Feistel network over the smallest even
/// number of bits that holds `size`, applied repeatedly until the result is below `size` (cycle walking, Black and
/// Rogaway 2002).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Permutation {
    size: u64,
    half_bits: u32,
    key: u64,
}

const ROUNDS: u64 = 4;

impl Permutation {
    /// The permutation of `0..size` for a purpose.
    pub(crate) fn new(world: u64, purpose: StreamPurpose, size: u64) -> Self {
        let bits = 64 - size.saturating_sub(1).leading_zeros();
        Self { size, half_bits: bits.div_ceil(2).max(1), key: hash_index(world, purpose, u64::MAX) }
    }

    fn round(&self, round: u64, half: u64) -> u64 {
        mix_bits(self.key.wrapping_add(GAMMA.wrapping_mul(round + 1)).wrapping_add(half)) & ((1 << self.half_bits) - 1)
    }

    fn split_halves(&self, x: u64) -> (u64, u64) {
        (x >> self.half_bits, x & ((1 << self.half_bits) - 1))
    }

    /// The image of `x`.
    pub(crate) fn apply(&self, mut x: u64) -> u64 {
        debug_assert!(x < self.size, "{x} is outside 0..{}", self.size);
        loop {
            let (mut left, mut right) = self.split_halves(x);
            for round in 0..ROUNDS {
                (left, right) = (right, left ^ self.round(round, right));
            }
            x = (left << self.half_bits) | right;
            if x < self.size {
                return x;
            }
        }
    }

    /// The preimage of `x`.
    pub(crate) fn invert(&self, mut x: u64) -> u64 {
        debug_assert!(x < self.size, "{x} is outside 0..{}", self.size);
        loop {
            let (mut left, mut right) = self.split_halves(x);
            for round in (0..ROUNDS).rev() {
                (left, right) = (right ^ self.round(round, left), left);
            }
            x = (left << self.half_bits) | right;
            if x < self.size {
                return x;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permutation_is_one_and_inverts() {
        for size in [1u64, 2, 3, 7, 64, 100, 1000, 4097] {
            let p = Permutation::new(7, StreamPurpose::CorpusOrder, size);
            let mut seen = vec![false; size as usize];
            for x in 0..size {
                let y = p.apply(x);
                assert!(!std::mem::replace(&mut seen[y as usize], true), "{y} twice in 0..{size}");
                assert_eq!(p.invert(y), x);
            }
        }
    }

    #[test]
    fn draws_are_pinned() {
        let mut random = RandomStream::new(world_key(1, 0), StreamPurpose::Question, 3);
        assert_eq!(random.next_bits(), 6_573_024_879_480_747_023, "the generator is frozen");
        let picked: Vec<u64> = (0..1000).map(|_| random.below(10)).collect();
        assert!((0..10).all(|n| picked.contains(&n)));
    }

    #[test]
    fn the_rough_normal_has_its_moments() {
        let mut random = RandomStream::new(5, StreamPurpose::Passage, 0);
        let n = 20_000;
        let values: Vec<f64> = (0..n).map(|_| random.normal_permille() as f64 / 1000.0).collect();
        let mean = values.iter().sum::<f64>() / f64::from(n);
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / f64::from(n);
        assert!(mean.abs() < 0.03 && (variance - 1.0).abs() < 0.05, "{mean} {variance}");
    }
}
