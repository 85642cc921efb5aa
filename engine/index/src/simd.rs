//! The inner loops, with AVX2 where the processor has it. All `unsafe` of scoring and decoding is in this file.
//!
//! Every function here is safe: it checks what its vector form relies on, and takes the plain form otherwise. Integer
//! results are the same in both; single-precision scores may differ in their last bits, which callers allow for.

#[cfg(target_endian = "big")]
compile_error!("index files are little-endian and are read in place");

use crate::postings::BLOCK;

/// What the processor can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    Plain,
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
}

/// Proof that AVX2 and FMA are there: made by [`Level::detect`] only.
#[cfg(target_arch = "x86_64")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Avx2(());

impl Level {
    pub(crate) fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
            return Self::Avx2(Avx2(()));
        }
        Self::Plain
    }

    /// Every level this machine can run.
    #[cfg(test)]
    pub(crate) fn all() -> Vec<Self> {
        if Self::detect() == Self::Plain { vec![Self::Plain] } else { vec![Self::Plain, Self::detect()] }
    }
}

/// The bytes as little-endian words; empty if they are not aligned, which a mapped section always is.
pub(crate) fn words(bytes: &[u8]) -> &[u32] {
    // SAFETY: every bit pattern is a u32.
    let (before, words, _) = unsafe { bytes.align_to::<u32>() };
    if before.is_empty() { words } else { &[] }
}

/// Value `i` of a run that is `bits` wide.
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

/// Unpacks `count` values (at most a block) into `out`; false if the bytes, with the slack behind them, are too few.
#[inline]
pub(crate) fn unpack(level: Level, bytes: &[u8], bits: u8, count: usize, out: &mut [u32; BLOCK]) -> bool {
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
        Level::Avx2(_) if bits <= 25 => unsafe { avx2::unpack(bytes.as_ptr(), bits, groups, out) },
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
pub(crate) fn sum_gaps(level: Level, before: u32, out: &mut [u32; BLOCK]) {
    match level {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the level proves AVX2.
        Level::Avx2(_) => unsafe { avx2::sum_gaps(before, out) },
        Level::Plain => {
            let mut last = before;
            for value in out {
                last = last.wrapping_add(*value).wrapping_add(1);
                *value = last;
            }
        }
    }
}

/// Adds 1 to each.
#[inline]
pub(crate) fn increment(out: &mut [u32; BLOCK]) {
    out.iter_mut().for_each(|value| *value = value.wrapping_add(1));
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::*;

    use crate::postings::BLOCK;

    /// For each width up to 25, which bytes of 16 hold the four values of a half group that starts at bit 0 or at bit
    /// `4 * bits % 8`, and how far to shift.
    struct Layout {
        bytes: [[u8; 16]; 2],
        shifts: [[u32; 4]; 2],
        /// Where the second half's 16 bytes begin.
        second: usize,
    }

    const fn layouts() -> [Layout; 26] {
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

    static LAYOUTS: [Layout; 26] = layouts();

    /// # Safety
    ///
    /// AVX2; `bytes` are readable for `groups * bits + 16`; `bits` is from 1 to 25, `groups` at most 16.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn unpack(bytes: *const u8, bits: u8, groups: usize, out: &mut [u32; BLOCK]) {
        let layout = &LAYOUTS[usize::from(bits)];
        // SAFETY: the arrays are 16 bytes each and adjacent. A group's second half begins at most `bits / 2` bytes after
        // its first, so its 16 bytes end within `(group + 1) * bits + 16`.
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
}
