//! Settings of a construction, and its seeded random numbers.

/// How training data is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConstructSettings {
    /// Seeds the random draws.
    pub seed: u64,
    /// Passages found by BM25 for each hop's query; negatives are taken from these (10 in the authors' code).
    pub k: usize,
    /// Negatives for each gold chunk of a hop, the best other chunks (1 in the paper).
    pub negatives: usize,
    /// Further negatives for each gold chunk, drawn from the whole corpus (none in the paper).
    pub random_negatives: usize,
    /// The words kept of a gold chunk.
    pub keep: KeptWords,
}

/// The words kept of a gold chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptWords {
    /// The hop's answer: the next query needs no more.
    Answer,
    /// The hop's answer and its subject, as in the authors' data and in `ops/train/rows.py`.
    SubjectAndAnswer,
}

impl Default for ConstructSettings {
    fn default() -> Self {
        Self { seed: 1, k: 10, negatives: 1, random_negatives: 0, keep: KeptWords::SubjectAndAnswer }
    }
}

/// SplitMix64, seeded for one question: draws do not depend on other questions.
pub(crate) struct QuestionRandom(u64);

impl QuestionRandom {
    pub(crate) fn new(seed: u64, question: &str) -> Self {
        // FNV-1a of the id.
        let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        Self(question.bytes().fold(seed ^ 0xcbf2_9ce4_8422_2325, hash))
    }

    /// A number below `bound`, which is not 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }
}
