//! The inner loops, with AVX2 if the processor has it. All `unsafe` code of scoring and decoding is in this file.
//!
//! Every function here is safe: it checks the preconditions of its vector form, and takes the plain form otherwise.
//! Integer results are the same in both forms; single-precision scores may differ in their last bits, and callers
//! allow for it.

#[cfg(target_endian = "big")]
compile_error!("index files are little-endian and are read in place");

pub(crate) mod products;

use crate::postings::BLOCK;

/// The processor's vector instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InstructionLevel {
    Plain,
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2Proof),
}

/// Proof that AVX2 and FMA are available; made by [`InstructionLevel::detect`] only.
#[cfg(target_arch = "x86_64")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Avx2Proof(());

impl InstructionLevel {
    pub(crate) fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
            return Self::Avx2(Avx2Proof(()));
        }
        Self::Plain
    }

    /// Every level supported by this machine.
    #[cfg(test)]
    pub(crate) fn supported_levels() -> Vec<Self> {
        if Self::detect() == Self::Plain { vec![Self::Plain] } else { vec![Self::Plain, Self::detect()] }
    }
}

/// The bytes as little-endian words; empty if they are not aligned. A mapped section is always aligned.
pub(crate) fn aligned_words(bytes: &[u8]) -> &[u32] {
    // SAFETY: every bit pattern is a u32.
    let (before, words, _) = unsafe { bytes.align_to::<u32>() };
    if before.is_empty() { words } else { &[] }
}

/// Value `i` of a run of values with `bits` bits each.
#[inline]
pub(crate) fn unpack_one(bytes: &[u8], bits: u8, i: usize) -> u32 {
    let bits = usize::from(bits.min(32));
    let (byte, shift) = (i * bits / 8, i * bits % 8);
    let mask = ((1u64 << bits) - 1) as u32;
    if let Some(eight) = bytes.get(byte..byte + 8) {
        let mut word = [0; 8];
        word.copy_from_slice(eight);
        return (u64::from_le_bytes(word) >> shift) as u32 & mask;
    }
    0
}

/// Unpacks `count` values (at most a block) into `out`. False if the bytes, with the slack behind them, are too few.
#[inline]
pub(crate) fn unpack(level: InstructionLevel, bytes: &[u8], bits: u8, count: usize, out: &mut [u32; BLOCK]) -> bool {
    // Groups of eight values are read whole, 16 bytes at a time.
    let groups = count.div_ceil(8);
    if bits > 32 || count > BLOCK || groups * usize::from(bits) + 16 > bytes.len() {
        return false;
    }
    if bits == 0 {
        out.fill(0);
        return true;
    }
    match level {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the level proves AVX2; the bytes were counted above, and `out` holds 16 groups.
        InstructionLevel::Avx2(_) if bits <= 25 => unsafe { avx2::unpack(bytes.as_ptr(), bits, groups, out) },
        _ => {
            for (i, value) in out.iter_mut().enumerate().take(count) {
                *value = unpack_one(bytes, bits, i);
            }
        }
    }
    true
}

/// Turns gaps (less 1) into passages: `out[i] = before + sum of (out[..=i] + 1)`.
#[inline]
pub(crate) fn sum_gaps(level: InstructionLevel, before: u32, out: &mut [u32; BLOCK]) {
    match level {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the level proves AVX2.
        InstructionLevel::Avx2(_) => unsafe { avx2::sum_gaps(before, out) },
        InstructionLevel::Plain => {
            let mut last = before;
            for value in out {
                last = last.wrapping_add(*value).wrapping_add(1);
                *value = last;
            }
        }
    }
}

/// Adds 1 to each value.
#[inline]
pub(crate) fn increment(out: &mut [u32; BLOCK]) {
    out.iter_mut().for_each(|value| *value = value.wrapping_add(1));
}

/// A term's impact in single precision: `weight * tf / (tf + base + slope * length)`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TermImpact {
    pub weight: f32,
    pub base: f32,
    pub slope: f32,
}

impl TermImpact {
    #[inline]
    pub(crate) fn posting_score(self, frequency: u32, length: u32) -> f32 {
        let tf = frequency as f32;
        self.weight * tf / (tf + (self.base + self.slope * length as f32))
    }
}

/// Adds a term's impacts to the scores of a window starting at passage `start`. `scores` and `lengths` are the
/// window's. Passages outside the window, present only in damaged lists, count as its last passage.
#[inline]
pub(crate) fn add_postings(
    level: InstructionLevel,
    impact: TermImpact,
    docs: &[u32],
    frequencies: &[u32],
    start: u32,
    lengths: &[u32],
    scores: &mut [f32],
) {
    let count = docs.len().min(frequencies.len());
    let (docs, frequencies) = (&docs[..count], &frequencies[..count]);
    if scores.is_empty() || scores.len() != lengths.len() {
        return;
    }
    let done = match level {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the level proves AVX2 and FMA; the slices' lengths were compared above.
        InstructionLevel::Avx2(_) => unsafe { avx2::add_postings(impact, docs, frequencies, start, lengths, scores) },
        InstructionLevel::Plain => 0,
    };
    for (&doc, &frequency) in docs[done..].iter().zip(&frequencies[done..]) {
        let at = (doc.wrapping_sub(start) as usize).min(scores.len() - 1);
        scores[at] += impact.posting_score(frequency, lengths[at]);
    }
}

/// As [`add_postings`], for a table of half bytes, beginning with the window's first passage.
#[inline]
pub(crate) fn add_table(
    level: InstructionLevel,
    impact: TermImpact,
    table: &[u8],
    lengths: &[u32],
    scores: &mut [f32],
) {
    if scores.len() != lengths.len() || table.len() < scores.len() / 2 {
        return;
    }
    let done = match level {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the level proves AVX2 and FMA; the slices' lengths were compared above.
        InstructionLevel::Avx2(_) => unsafe { avx2::add_table(impact, table, lengths, scores) },
        InstructionLevel::Plain => 0,
    };
    for at in done..scores.len() {
        let frequency = table.get(at / 2).map_or(0, |pair| pair >> (4 * (at % 2)) & 15);
        if frequency > 0 {
            scores[at] += impact.posting_score(u32::from(frequency), lengths[at]);
        }
    }
}

/// Passages and their scores, in two columns.
#[derive(Default)]
pub(crate) struct Candidates {
    pub docs: Vec<u32>,
    pub scores: Vec<f32>,
}

impl Candidates {
    pub(crate) fn clear(&mut self) {
        self.docs.clear();
        self.scores.clear();
    }

    pub(crate) fn push(&mut self, doc: u32, score: f32) {
        self.docs.push(doc);
        self.scores.push(score);
    }

    /// Keeps candidates with a score of at least `least`, in their order.
    pub(crate) fn keep_at_least(&mut self, least: f32) {
        let Self { docs, scores } = self;
        let mut kept = 0;
        for at in 0..docs.len().min(scores.len()) {
            // Without a branch: it would be mispredicted too often.
            let (doc, score) = (docs[at], scores[at]);
            docs[kept] = doc;
            scores[kept] = score;
            kept += usize::from(score >= least);
        }
        docs.truncate(kept);
        scores.truncate(kept);
    }
}

/// Sets all scores to zero. Appends the scores of at least `cut` with their passages; the first passage is `start`.
#[inline]
pub(crate) fn sweep(level: InstructionLevel, scores: &mut [f32], cut: f32, start: u32, found: &mut Candidates) {
    let done = match level {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the level proves AVX2.
        InstructionLevel::Avx2(_) => unsafe { avx2::sweep(scores, cut, start, found) },
        InstructionLevel::Plain => 0,
    };
    for (at, score) in scores.iter_mut().enumerate().skip(done) {
        if *score >= cut {
            found.push(start + at as u32, *score);
        }
        *score = 0.0;
    }
}

/// Adds a term's impacts to candidates of a window starting at passage `start`, a multiple of 8. `table` has half a
/// byte for each passage of the window, and `lengths` are the window's.
#[inline]
pub(crate) fn look_up(
    level: InstructionLevel,
    impact: TermImpact,
    table: &[u8],
    lengths: &[u32],
    start: u32,
    found: &mut Candidates,
) {
    let Candidates { docs, scores } = found;
    let count = docs.len().min(scores.len());
    let done = match level {
        #[cfg(target_arch = "x86_64")]
        InstructionLevel::Avx2(_) if table.len() >= 4 && !lengths.is_empty() => {
            // The table is read in words of eight passages; the loop below handles a partial last word.
            let whole = docs[..count].partition_point(|doc| (doc.wrapping_sub(start) as usize) < table.len() / 4 * 8);
            // SAFETY: the level proves AVX2 and FMA; both columns hold `whole` candidates.
            unsafe { avx2::look_up(impact, table, lengths, start, &docs[..whole], &mut scores[..whole]) }
        }
        _ => 0,
    };
    for (&doc, score) in docs[done..count].iter().zip(&mut scores[done..count]) {
        let at = doc.wrapping_sub(start) as usize;
        let frequency = table.get(at / 2).map_or(0, |pair| pair >> (4 * (at % 2)) & 15);
        if let (Some(&length), 1..) = (lengths.get(at), frequency) {
            *score += impact.posting_score(u32::from(frequency), length);
        }
    }
}

/// Prefetches the cache line of a byte that will be read soon.
#[inline]
pub(crate) fn prefetch(bytes: &[u8], at: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(byte) = bytes.get(at) {
        // SAFETY: SSE is part of x86-64, and the address is a byte of the slice.
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(std::ptr::from_ref(byte).cast())
        };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (bytes, at);
}

/// The number of scores of at least `cut`.
#[inline]
pub(crate) fn count(level: InstructionLevel, scores: &[f32], cut: f32) -> usize {
    match level {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the level proves AVX2.
        InstructionLevel::Avx2(_) => unsafe { avx2::count(scores, cut) },
        InstructionLevel::Plain => scores.iter().filter(|&&score| score >= cut).count(),
    }
}

/// Number of scores in each group of [`maxima`].
pub(crate) const GROUP: usize = 16;

/// Appends the highest score of each whole group of 16.
#[inline]
pub(crate) fn maxima(level: InstructionLevel, scores: &[f32], out: &mut Vec<f32>) {
    match level {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the level proves AVX2.
        InstructionLevel::Avx2(_) => unsafe { avx2::maxima(scores, out) },
        InstructionLevel::Plain => {
            out.extend(scores.chunks_exact(GROUP).map(|group| group.iter().copied().fold(0.0, f32::max)));
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::*;

    use super::{Candidates, TermImpact};
    use crate::postings::BLOCK;

    /// For each width up to 25: the bytes, out of 16, of the four values in a half group starting at bit 0 or at bit
    /// `4 * bits % 8`, and their shifts.
    struct Layout {
        bytes: [[u8; 16]; 2],
        shifts: [[u32; 4]; 2],
        /// Offset of the second half's 16 bytes.
        second: usize,
    }

    const fn unpack_layouts() -> [Layout; 26] {
        let mut all = [const { Layout { bytes: [[0; 16]; 2], shifts: [[0; 4]; 2], second: 0 } }; 26];
        let mut bits = 0;
        while bits < 26 {
            let second = 4 * bits / 8;
            all[bits].second = second;
            let mut i = 0;
            while i < 8 {
                let (half, lane) = (i / 4, i % 4);
                let start = i * bits - half * second * 8;
                all[bits].shifts[half][lane] = (start % 8) as u32;
                let mut byte = 0;
                while byte < 4 {
                    let from = start / 8 + byte;
                    all[bits].bytes[half][lane * 4 + byte] = if from < 16 { from as u8 } else { 0x80 };
                    byte += 1;
                }
                i += 1;
            }
            bits += 1;
        }
        all
    }

    static LAYOUTS: [Layout; 26] = unpack_layouts();

    /// # Safety
    ///
    /// AVX2; `bytes` are readable for `groups * bits + 16`; `bits` is from 1 to 25, `groups` at most 16.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn unpack(bytes: *const u8, bits: u8, groups: usize, out: &mut [u32; BLOCK]) {
        let layout = &LAYOUTS[usize::from(bits)];
        // SAFETY: the arrays are 16 bytes each and adjacent. A group's second half begins at most `bits / 2` bytes
        // after its first, so its 16 bytes end within `(group + 1) * bits + 16`.
        unsafe {
            let shuffle = _mm256_loadu_si256(layout.bytes.as_ptr().cast());
            let shifts = _mm256_loadu_si256(layout.shifts.as_ptr().cast());
            let mask = _mm256_set1_epi32(((1u32 << bits) - 1) as i32);
            for group in 0..groups {
                let at = bytes.add(group * usize::from(bits));
                let low = _mm_loadu_si128(at.cast());
                let high = _mm_loadu_si128(at.add(layout.second).cast());
                let both = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(low), high);
                let words = _mm256_srlv_epi32(_mm256_shuffle_epi8(both, shuffle), shifts);
                _mm256_storeu_si256(out.as_mut_ptr().add(group * 8).cast(), _mm256_and_si256(words, mask));
            }
        }
    }

    /// # Safety
    ///
    /// AVX2.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn sum_gaps(before: u32, out: &mut [u32; BLOCK]) {
        // SAFETY: loads and stores stay within the block, 16 groups of eight.
        unsafe {
            let one = _mm256_set1_epi32(1);
            let mut last = _mm256_set1_epi32(before as i32);
            for group in 0..BLOCK / 8 {
                let at = out.as_mut_ptr().add(group * 8).cast::<__m256i>();
                let mut sum = _mm256_add_epi32(_mm256_loadu_si256(at), one);
                sum = _mm256_add_epi32(sum, _mm256_slli_si256::<4>(sum));
                sum = _mm256_add_epi32(sum, _mm256_slli_si256::<8>(sum));
                // The lower half's total goes to the upper half.
                let low = _mm256_permute2x128_si256::<0x08>(sum, sum);
                sum = _mm256_add_epi32(sum, _mm256_shuffle_epi32::<0xff>(low));
                sum = _mm256_add_epi32(sum, last);
                _mm256_storeu_si256(at, sum);
                last = _mm256_permutevar8x32_epi32(sum, _mm256_set1_epi32(7));
            }
        }
    }

    /// Adds the impacts of whole groups of eight postings. Returns the number of postings added.
    ///
    /// # Safety
    ///
    /// AVX2 and FMA; `docs` and `frequencies` are equally long, `lengths` and `scores` are equally long and not empty.
    #[target_feature(enable = "avx2,fma")]
    pub(super) unsafe fn add_postings(
        impact: TermImpact,
        docs: &[u32],
        frequencies: &[u32],
        start: u32,
        lengths: &[u32],
        scores: &mut [f32],
    ) -> usize {
        let groups = docs.len() / 8;
        let last = _mm256_set1_epi32((scores.len() - 1).min(i32::MAX as usize) as i32);
        let start = _mm256_set1_epi32(start as i32);
        let (weight, base) = (_mm256_set1_ps(impact.weight), _mm256_set1_ps(impact.base));
        let slope = _mm256_set1_ps(impact.slope);
        let (mut at, mut add) = ([0u32; 8], [0f32; 8]);
        for group in 0..groups {
            // SAFETY: loads are within whole groups; every index is at most `last`, so reads and writes stay
            // within the window.
            unsafe {
                let doc = _mm256_loadu_si256(docs.as_ptr().add(group * 8).cast());
                let index = _mm256_min_epu32(_mm256_sub_epi32(doc, start), last);
                _mm256_storeu_si256(at.as_mut_ptr().cast(), index);
                // Eight loads: a gather takes ten times as long on processors with a microcode fence for gathers.
                let length = |lane: usize| *lengths.get_unchecked(at[lane] as usize) as i32;
                let length = _mm256_setr_epi32(
                    length(0),
                    length(1),
                    length(2),
                    length(3),
                    length(4),
                    length(5),
                    length(6),
                    length(7),
                );
                let length = _mm256_cvtepi32_ps(length);
                let tf = _mm256_loadu_si256(frequencies.as_ptr().add(group * 8).cast());
                let tf = _mm256_cvtepi32_ps(tf);
                let norm = _mm256_fmadd_ps(length, slope, base);
                let share = _mm256_div_ps(_mm256_mul_ps(tf, weight), _mm256_add_ps(tf, norm));
                _mm256_storeu_ps(add.as_mut_ptr(), share);
                for lane in 0..8 {
                    *scores.get_unchecked_mut(at[lane] as usize) += add[lane];
                }
            }
        }
        groups * 8
    }

    /// Adds the impacts of whole groups of eight passages. Returns the number of passages added.
    ///
    /// # Safety
    ///
    /// AVX2 and FMA; `lengths` is as long as `scores`, `table` has half a byte for each of them at least.
    #[target_feature(enable = "avx2,fma")]
    pub(super) unsafe fn add_table(impact: TermImpact, table: &[u8], lengths: &[u32], scores: &mut [f32]) -> usize {
        let groups = scores.len() / 8;
        let (weight, base) = (_mm256_set1_ps(impact.weight), _mm256_set1_ps(impact.base));
        let slope = _mm256_set1_ps(impact.slope);
        let shifts = _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28);
        let low = _mm256_set1_epi32(15);
        for group in 0..groups {
            // SAFETY: all three slices hold whole groups: 4 bytes of the table, 8 lengths, 8 scores.
            unsafe {
                let four = table.as_ptr().add(group * 4).cast::<i32>().read_unaligned();
                let tf = _mm256_and_si256(_mm256_srlv_epi32(_mm256_set1_epi32(four), shifts), low);
                let tf = _mm256_cvtepi32_ps(tf);
                let length = _mm256_cvtepi32_ps(_mm256_loadu_si256(lengths.as_ptr().add(group * 8).cast()));
                let norm = _mm256_fmadd_ps(length, slope, base);
                let share = _mm256_div_ps(_mm256_mul_ps(tf, weight), _mm256_add_ps(tf, norm));
                let at = scores.as_mut_ptr().add(group * 8);
                _mm256_storeu_ps(at, _mm256_add_ps(_mm256_loadu_ps(at), share));
            }
        }
        groups * 8
    }

    /// For each mask of eight lanes, the set lanes in order.
    static SET_LANES: [[u32; 8]; 256] = set_lanes();

    const fn set_lanes() -> [[u32; 8]; 256] {
        let mut all = [[0; 8]; 256];
        let mut mask = 0;
        while mask < 256 {
            let (mut lane, mut set) = (0, 0);
            while lane < 8 {
                if mask >> lane & 1 == 1 {
                    all[mask][set] = lane as u32;
                    set += 1;
                }
                lane += 1;
            }
            mask += 1;
        }
        all
    }

    /// Sweeps whole groups of 32 scores. Returns the number of scores swept.
    ///
    /// # Safety
    ///
    /// AVX2.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn sweep(scores: &mut [f32], cut: f32, start: u32, found: &mut Candidates) -> usize {
        let groups = scores.len() / 32;
        let cuts = _mm256_set1_ps(cut);
        let zero = _mm256_setzero_ps();
        let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
        let mut count = found.docs.len().min(found.scores.len());
        // Eight are written at a time; the next write may overwrite some of them.
        found.docs.reserve(groups * 32 + 8);
        found.scores.reserve(groups * 32 + 8);
        for group in 0..groups {
            // SAFETY: whole groups of `scores`; room for a group of candidates after those found was reserved.
            unsafe {
                let at = scores.as_mut_ptr().add(group * 32);
                let four = [
                    _mm256_loadu_ps(at),
                    _mm256_loadu_ps(at.add(8)),
                    _mm256_loadu_ps(at.add(16)),
                    _mm256_loadu_ps(at.add(24)),
                ];
                let most = _mm256_max_ps(_mm256_max_ps(four[0], four[1]), _mm256_max_ps(four[2], four[3]));
                if _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_GE_OQ>(most, cuts)) != 0 {
                    for (eight, scores) in four.into_iter().enumerate() {
                        let mask = _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_GE_OQ>(scores, cuts)) as usize;
                        let first = _mm256_set1_epi32((start + (group * 32 + eight * 8) as u32) as i32);
                        let order = _mm256_loadu_si256(SET_LANES[mask & 255].as_ptr().cast());
                        let docs = _mm256_add_epi32(first, _mm256_permutevar8x32_epi32(lanes, order));
                        _mm256_storeu_si256(found.docs.as_mut_ptr().add(count).cast(), docs);
                        let scores = _mm256_permutevar8x32_ps(scores, order);
                        _mm256_storeu_ps(found.scores.as_mut_ptr().add(count), scores);
                        count += mask.count_ones() as usize;
                    }
                }
                _mm256_storeu_ps(at, zero);
                _mm256_storeu_ps(at.add(8), zero);
                _mm256_storeu_ps(at.add(16), zero);
                _mm256_storeu_ps(at.add(24), zero);
            }
        }
        // SAFETY: `count` candidates were written to the reserved room, at most one for each score.
        unsafe {
            found.docs.set_len(count);
            found.scores.set_len(count);
        }
        groups * 32
    }

    /// Adds a term's impacts to whole groups of eight candidates. Returns the number of candidates handled.
    ///
    /// # Safety
    ///
    /// AVX2 and FMA; `docs` and `scores` are equally long, `table` has four bytes at least, `lengths` is not empty.
    #[target_feature(enable = "avx2,fma")]
    pub(super) unsafe fn look_up(
        impact: TermImpact,
        table: &[u8],
        lengths: &[u32],
        start: u32,
        docs: &[u32],
        scores: &mut [f32],
    ) -> usize {
        let groups = docs.len() / 8;
        let last_word = _mm256_set1_epi32((table.len() / 4 - 1).min(i32::MAX as usize) as i32);
        let last_length = _mm256_set1_epi32((lengths.len() - 1).min(i32::MAX as usize) as i32);
        let start = _mm256_set1_epi32(start as i32);
        let (weight, base) = (_mm256_set1_ps(impact.weight), _mm256_set1_ps(impact.base));
        let slope = _mm256_set1_ps(impact.slope);
        for group in 0..groups {
            // SAFETY: whole groups of both columns; words and lengths are read at indices bounded by the last one.
            unsafe {
                let doc = _mm256_loadu_si256(docs.as_ptr().add(group * 8).cast());
                let at = _mm256_sub_epi32(doc, start);
                let word = _mm256_min_epu32(_mm256_srli_epi32::<3>(at), last_word);
                let word = _mm256_i32gather_epi32::<4>(table.as_ptr().cast(), word);
                let shift = _mm256_slli_epi32::<2>(_mm256_and_si256(at, _mm256_set1_epi32(7)));
                let tf = _mm256_and_si256(_mm256_srlv_epi32(word, shift), _mm256_set1_epi32(15));
                let tf = _mm256_cvtepi32_ps(tf);
                let length = _mm256_i32gather_epi32::<4>(lengths.as_ptr().cast(), _mm256_min_epu32(at, last_length));
                let norm = _mm256_fmadd_ps(_mm256_cvtepi32_ps(length), slope, base);
                let share = _mm256_div_ps(_mm256_mul_ps(tf, weight), _mm256_add_ps(tf, norm));
                let score = scores.as_mut_ptr().add(group * 8);
                _mm256_storeu_ps(score, _mm256_add_ps(_mm256_loadu_ps(score), share));
            }
        }
        groups * 8
    }

    /// # Safety
    ///
    /// AVX2.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn count(scores: &[f32], cut: f32) -> usize {
        let cuts = _mm256_set1_ps(cut);
        let (chunks, rest) = scores.as_chunks::<8>();
        let mut sum = _mm256_setzero_si256();
        for chunk in chunks {
            // SAFETY: a chunk is eight scores.
            let eight = unsafe { _mm256_loadu_ps(chunk.as_ptr()) };
            // A true comparison is -1.
            sum = _mm256_sub_epi32(sum, _mm256_castps_si256(_mm256_cmp_ps::<_CMP_GE_OQ>(eight, cuts)));
        }
        let mut lanes = [0u32; 8];
        // SAFETY: `lanes` is eight words.
        unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), sum) };
        lanes.iter().sum::<u32>() as usize + rest.iter().filter(|&&score| score >= cut).count()
    }

    /// # Safety
    ///
    /// AVX2.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn maxima(scores: &[f32], out: &mut Vec<f32>) {
        let (chunks, _) = scores.as_chunks::<16>();
        out.reserve(chunks.len());
        for chunk in chunks {
            // SAFETY: a chunk is sixteen scores.
            let most =
                unsafe { _mm256_max_ps(_mm256_loadu_ps(chunk.as_ptr()), _mm256_loadu_ps(chunk.as_ptr().add(8))) };
            let four = _mm_max_ps(_mm256_castps256_ps128(most), _mm256_extractf128_ps::<1>(most));
            let two = _mm_max_ps(four, _mm_movehl_ps(four, four));
            out.push(_mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps::<1>(two, two))));
        }
    }
}
