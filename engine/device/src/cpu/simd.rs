//! Vectors of `f32` lanes: the common part of AVX2 and AVX-512, under one trait, so that every kernel is written once.
//!
//! A [`Simd`] value is a proof: it exists only if the processor has the instructions, so its methods are safe to call.
//! They are `inline(always)` and become single instructions inside [`Simd::vectorize`], which compiles a [`SimdKernel`]
//! for the instruction set; outside of it they are correct and slow.
//!
//! Every function is the same function of its lanes on both sets, except [`Simd::sum`], which depends on the number of
//! lanes.

use crate::cpu::InstructionSet;
use std::arch::x86_64::*;

/// A computation compiled once for each instruction set. Mark `run` `#[inline(always)]`.
pub(crate) trait SimdKernel {
    /// The computation's result.
    type Output;

    /// Computes it.
    fn run<S: Simd>(self, simd: S) -> Self::Output;
}

/// Prefetches numbers. Rows of one head lie a row of all heads apart; the processor's prefetchers do not follow this.
#[inline(always)]
pub(crate) fn prefetch(numbers: &[f32]) {
    for line in numbers.chunks(16) {
        // SAFETY: SSE is part of the architecture, and prefetching an address does not read it.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) }
    }
}

/// One instruction set.
pub(crate) trait Simd: Copy + Send + Sync + std::fmt::Debug + 'static {
    /// [`Self::LANES`] numbers.
    type V: Copy;
    /// [`Self::LANES`] vectors.
    type Block: Copy + AsRef<[Self::V]> + AsMut<[Self::V]>;
    /// Numbers in a vector.
    const LANES: usize;

    /// Runs a kernel compiled for the instruction set.
    fn vectorize<K: SimdKernel>(self, kernel: K) -> K::Output;

    /// The same number in all lanes.
    fn splat(self, x: f32) -> Self::V;
    /// `a + b`.
    fn add(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a - b`.
    fn sub(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a * b`.
    fn mul(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a / b`.
    fn div(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a * b + c`, rounded once.
    fn fma(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// `c - a * b`, rounded once.
    fn fnma(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// The greater; `b` if one is NaN.
    fn max(self, a: Self::V, b: Self::V) -> Self::V;
    /// `|a|`.
    fn abs(self, a: Self::V) -> Self::V;
    /// `|magnitude|` with the sign of `sign`.
    fn copysign(self, magnitude: Self::V, sign: Self::V) -> Self::V;
    /// The nearest integer, ties to even.
    fn round(self, a: Self::V) -> Self::V;
    /// `then` where `a < b`, else (and where one is NaN) `otherwise`.
    fn where_less(self, a: Self::V, b: Self::V, then: Self::V, otherwise: Self::V) -> Self::V;
    /// `y * 2^n` for an integral `n` if both `y` and the product are normal numbers.
    fn times_power_of_two(self, y: Self::V, n: Self::V) -> Self::V;
    /// The sum of the lanes: halves are added lane by lane until one number is left.
    fn sum(self, a: Self::V) -> f32;
    /// The greatest lane, if none is NaN.
    fn highest(self, a: Self::V) -> f32;
    /// Vectors of zeros.
    fn zeros(self) -> Self::Block;
    /// Lane `j` of vector `i` becomes lane `i` of vector `j`.
    fn transpose(self, block: Self::Block) -> Self::Block;

    /// The first lanes of a slice.
    ///
    /// # Panics
    /// If it is shorter than a vector.
    fn load(self, from: &[f32]) -> Self::V;
    /// Writes the first lanes of a slice.
    ///
    /// # Panics
    /// If it is shorter than a vector.
    fn store(self, a: Self::V, to: &mut [f32]);
    /// A slice of at most one vector, then zeros.
    fn load_part(self, from: &[f32]) -> Self::V;
    /// Writes the first lanes until the slice is full.
    fn store_part(self, a: Self::V, to: &mut [f32]);

    /// The lanes at an address.
    ///
    /// # Safety
    /// They are readable.
    unsafe fn load_at(self, from: *const f32) -> Self::V;
    /// Writes the lanes to an address.
    ///
    /// # Safety
    /// They are writable.
    unsafe fn store_at(self, a: Self::V, to: *mut f32);
    /// `from[indices[lane]]`.
    ///
    /// # Safety
    /// The indices are readable, and so are the indexed numbers.
    unsafe fn gather_at(self, from: *const f32, indices: *const i32) -> Self::V;
    /// `from[indices[lane]]`, where all indices lie in a vector's length from the first one on.
    ///
    /// # Safety
    /// The indices are readable, and so is a vector of numbers from the first index on.
    unsafe fn pick_at(self, from: *const f32, indices: *const i32) -> Self::V;
}

/// AVX2 and FMA: 8 lanes, 16 registers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx2(());

/// AVX-512 (F, BW, DQ, VL): 16 lanes, 32 registers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx512(());

impl Avx2 {
    /// The proof, if the processor has the instructions.
    fn detect() -> Option<Self> {
        (is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")).then_some(Self(()))
    }

    #[target_feature(enable = "avx2,fma")]
    fn call<K: SimdKernel>(self, kernel: K) -> K::Output {
        kernel.run(self)
    }
}

impl Avx512 {
    /// The proof, if the processor has the instructions.
    fn detect() -> Option<Self> {
        let all = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl");
        (all && Avx2::detect().is_some()).then_some(Self(()))
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
    fn call<K: SimdKernel>(self, kernel: K) -> K::Output {
        kernel.run(self)
    }
}

/// A sliding window of lane masks: its start's distance before the middle is the number of set lanes.
static LEADING: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];

impl Avx2 {
    /// All bits of the first `n` lanes.
    #[inline(always)]
    fn leading_mask(self, n: usize) -> __m256i {
        assert!(n <= 8, "lanes of a vector; this is a bug");
        // SAFETY: `self` is the proof; at most 8 before the middle, so 8 can be read.
        unsafe { _mm256_loadu_si256(LEADING.as_ptr().add(8 - n).cast()) }
    }

    /// The sum of 8 lanes in the final order of both sets.
    #[inline(always)]
    fn sum_8(a: __m256) -> f32 {
        // SAFETY: called by the methods of proofs only.
        unsafe {
            let a = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
            let a = _mm_add_ps(a, _mm_movehl_ps(a, a));
            _mm_cvtss_f32(_mm_add_ss(a, _mm_shuffle_ps::<1>(a, a)))
        }
    }

    #[inline(always)]
    fn highest_8(a: __m256) -> f32 {
        // SAFETY: called by the methods of proofs only.
        unsafe {
            let a = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
            let a = _mm_max_ps(a, _mm_movehl_ps(a, a));
            _mm_cvtss_f32(_mm_max_ss(a, _mm_shuffle_ps::<1>(a, a)))
        }
    }
}

impl Simd for Avx2 {
    type V = __m256;
    type Block = [__m256; 8];
    const LANES: usize = 8;

    #[inline(always)]
    fn vectorize<K: SimdKernel>(self, kernel: K) -> K::Output {
        // SAFETY: `self` is the proof.
        unsafe { self.call(kernel) }
    }

    #[inline(always)]
    fn splat(self, x: f32) -> __m256 {
        // SAFETY: `self` is the proof, here and in all methods below.
        unsafe { _mm256_set1_ps(x) }
    }

    #[inline(always)]
    fn add(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: the proof.
        unsafe { _mm256_add_ps(a, b) }
    }

    #[inline(always)]
    fn sub(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: the proof.
        unsafe { _mm256_sub_ps(a, b) }
    }

    #[inline(always)]
    fn mul(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: the proof.
        unsafe { _mm256_mul_ps(a, b) }
    }

    #[inline(always)]
    fn div(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: the proof.
        unsafe { _mm256_div_ps(a, b) }
    }

    #[inline(always)]
    fn fma(self, a: __m256, b: __m256, c: __m256) -> __m256 {
        // SAFETY: the proof.
        unsafe { _mm256_fmadd_ps(a, b, c) }
    }

    #[inline(always)]
    fn fnma(self, a: __m256, b: __m256, c: __m256) -> __m256 {
        // SAFETY: the proof.
        unsafe { _mm256_fnmadd_ps(a, b, c) }
    }

    #[inline(always)]
    fn max(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: the proof.
        unsafe { _mm256_max_ps(a, b) }
    }

    #[inline(always)]
    fn abs(self, a: __m256) -> __m256 {
        // SAFETY: the proof.
        unsafe { _mm256_andnot_ps(_mm256_set1_ps(-0.0), a) }
    }

    #[inline(always)]
    fn copysign(self, magnitude: __m256, sign: __m256) -> __m256 {
        // SAFETY: the proof.
        unsafe {
            let bit = _mm256_set1_ps(-0.0);
            _mm256_or_ps(_mm256_andnot_ps(bit, magnitude), _mm256_and_ps(bit, sign))
        }
    }

    #[inline(always)]
    fn round(self, a: __m256) -> __m256 {
        // SAFETY: the proof.
        unsafe { _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a) }
    }

    #[inline(always)]
    fn where_less(self, a: __m256, b: __m256, then: __m256, otherwise: __m256) -> __m256 {
        // SAFETY: the proof.
        unsafe { _mm256_blendv_ps(otherwise, then, _mm256_cmp_ps::<_CMP_LT_OQ>(a, b)) }
    }

    #[inline(always)]
    fn times_power_of_two(self, y: __m256, n: __m256) -> __m256 {
        // SAFETY: the proof.
        unsafe {
            let exponent = _mm256_slli_epi32::<23>(_mm256_cvtps_epi32(n));
            _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(y), exponent))
        }
    }

    #[inline(always)]
    fn sum(self, a: __m256) -> f32 {
        Self::sum_8(a)
    }

    #[inline(always)]
    fn highest(self, a: __m256) -> f32 {
        Self::highest_8(a)
    }

    #[inline(always)]
    fn zeros(self) -> Self::Block {
        [self.splat(0.0); 8]
    }

    #[inline(always)]
    fn transpose(self, r: Self::Block) -> Self::Block {
        // SAFETY: the proof.
        unsafe {
            // Pairs of rows, then fours, then halves of registers.
            let mut t = r;
            for i in 0..4 {
                t[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
                t[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
            }
            let mut s = t;
            for i in 0..2 {
                s[4 * i] = _mm256_shuffle_ps::<0x44>(t[4 * i], t[4 * i + 2]);
                s[4 * i + 1] = _mm256_shuffle_ps::<0xEE>(t[4 * i], t[4 * i + 2]);
                s[4 * i + 2] = _mm256_shuffle_ps::<0x44>(t[4 * i + 1], t[4 * i + 3]);
                s[4 * i + 3] = _mm256_shuffle_ps::<0xEE>(t[4 * i + 1], t[4 * i + 3]);
            }
            let mut out = s;
            for i in 0..4 {
                out[i] = _mm256_permute2f128_ps::<0x20>(s[i], s[i + 4]);
                out[i + 4] = _mm256_permute2f128_ps::<0x31>(s[i], s[i + 4]);
            }
            out
        }
    }

    #[inline(always)]
    fn load(self, from: &[f32]) -> __m256 {
        assert!(from.len() >= 8, "numbers for a vector; this is a bug");
        // SAFETY: the proof, and the length.
        unsafe { _mm256_loadu_ps(from.as_ptr()) }
    }

    #[inline(always)]
    fn store(self, a: __m256, to: &mut [f32]) {
        assert!(to.len() >= 8, "room for a vector; this is a bug");
        // SAFETY: the proof, and the length.
        unsafe { _mm256_storeu_ps(to.as_mut_ptr(), a) }
    }

    #[inline(always)]
    fn load_part(self, from: &[f32]) -> __m256 {
        // SAFETY: the proof; lanes beyond the slice are not touched.
        unsafe { _mm256_maskload_ps(from.as_ptr(), self.leading_mask(from.len())) }
    }

    #[inline(always)]
    fn store_part(self, a: __m256, to: &mut [f32]) {
        // SAFETY: the proof; lanes beyond the slice are not touched.
        unsafe { _mm256_maskstore_ps(to.as_mut_ptr(), self.leading_mask(to.len().min(8)), a) }
    }

    #[inline(always)]
    unsafe fn load_at(self, from: *const f32) -> __m256 {
        // SAFETY: the proof, and the caller.
        unsafe { _mm256_loadu_ps(from) }
    }

    #[inline(always)]
    unsafe fn store_at(self, a: __m256, to: *mut f32) {
        // SAFETY: the proof, and the caller.
        unsafe { _mm256_storeu_ps(to, a) }
    }

    #[inline(always)]
    unsafe fn gather_at(self, from: *const f32, indices: *const i32) -> __m256 {
        // SAFETY: the proof, and the caller.
        unsafe { _mm256_i32gather_ps::<4>(from, _mm256_loadu_si256(indices.cast())) }
    }

    #[inline(always)]
    unsafe fn pick_at(self, from: *const f32, indices: *const i32) -> __m256 {
        // SAFETY: the proof, and the caller.
        unsafe {
            let lanes = _mm256_sub_epi32(_mm256_loadu_si256(indices.cast()), _mm256_set1_epi32(*indices));
            _mm256_permutevar8x32_ps(_mm256_loadu_ps(from.add(*indices as usize)), lanes)
        }
    }
}

impl Simd for Avx512 {
    type V = __m512;
    type Block = [__m512; 16];
    const LANES: usize = 16;

    #[inline(always)]
    fn vectorize<K: SimdKernel>(self, kernel: K) -> K::Output {
        // SAFETY: `self` is the proof.
        unsafe { self.call(kernel) }
    }

    #[inline(always)]
    fn splat(self, x: f32) -> __m512 {
        // SAFETY: `self` is the proof, here and in all methods below.
        unsafe { _mm512_set1_ps(x) }
    }

    #[inline(always)]
    fn add(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: the proof.
        unsafe { _mm512_add_ps(a, b) }
    }

    #[inline(always)]
    fn sub(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: the proof.
        unsafe { _mm512_sub_ps(a, b) }
    }

    #[inline(always)]
    fn mul(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: the proof.
        unsafe { _mm512_mul_ps(a, b) }
    }

    #[inline(always)]
    fn div(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: the proof.
        unsafe { _mm512_div_ps(a, b) }
    }

    #[inline(always)]
    fn fma(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        // SAFETY: the proof.
        unsafe { _mm512_fmadd_ps(a, b, c) }
    }

    #[inline(always)]
    fn fnma(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        // SAFETY: the proof.
        unsafe { _mm512_fnmadd_ps(a, b, c) }
    }

    #[inline(always)]
    fn max(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: the proof.
        unsafe { _mm512_max_ps(a, b) }
    }

    #[inline(always)]
    fn abs(self, a: __m512) -> __m512 {
        // SAFETY: the proof.
        unsafe { _mm512_abs_ps(a) }
    }

    #[inline(always)]
    fn copysign(self, magnitude: __m512, sign: __m512) -> __m512 {
        // SAFETY: the proof.
        unsafe {
            let bit = _mm512_set1_ps(-0.0);
            _mm512_or_ps(_mm512_andnot_ps(bit, magnitude), _mm512_and_ps(bit, sign))
        }
    }

    #[inline(always)]
    fn round(self, a: __m512) -> __m512 {
        // SAFETY: the proof.
        unsafe { _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a) }
    }

    #[inline(always)]
    fn where_less(self, a: __m512, b: __m512, then: __m512, otherwise: __m512) -> __m512 {
        // SAFETY: the proof.
        unsafe { _mm512_mask_blend_ps(_mm512_cmp_ps_mask::<_CMP_LT_OQ>(a, b), otherwise, then) }
    }

    #[inline(always)]
    fn times_power_of_two(self, y: __m512, n: __m512) -> __m512 {
        // SAFETY: the proof.
        unsafe {
            let exponent = _mm512_slli_epi32::<23>(_mm512_cvtps_epi32(n));
            _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(y), exponent))
        }
    }

    #[inline(always)]
    fn sum(self, a: __m512) -> f32 {
        // SAFETY: the proof.
        unsafe { Avx2::sum_8(_mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps::<1>(a))) }
    }

    #[inline(always)]
    fn highest(self, a: __m512) -> f32 {
        // SAFETY: the proof.
        unsafe { Avx2::highest_8(_mm256_max_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps::<1>(a))) }
    }

    #[inline(always)]
    fn zeros(self) -> Self::Block {
        [self.splat(0.0); 16]
    }

    #[inline(always)]
    fn transpose(self, r: Self::Block) -> Self::Block {
        // SAFETY: the proof.
        unsafe {
            // Pairs of rows, then fours: each quarter of a register holds a column of four rows.
            let mut t = r;
            for i in 0..8 {
                t[2 * i] = _mm512_unpacklo_ps(r[2 * i], r[2 * i + 1]);
                t[2 * i + 1] = _mm512_unpackhi_ps(r[2 * i], r[2 * i + 1]);
            }
            let mut s = t;
            for i in 0..4 {
                s[4 * i] = _mm512_shuffle_ps::<0x44>(t[4 * i], t[4 * i + 2]);
                s[4 * i + 1] = _mm512_shuffle_ps::<0xEE>(t[4 * i], t[4 * i + 2]);
                s[4 * i + 2] = _mm512_shuffle_ps::<0x44>(t[4 * i + 1], t[4 * i + 3]);
                s[4 * i + 3] = _mm512_shuffle_ps::<0xEE>(t[4 * i + 1], t[4 * i + 3]);
            }
            // Then quarters: columns c, c + 4, c + 8 and c + 12 of all rows.
            let mut out = s;
            for c in 0..4 {
                let low_even = _mm512_shuffle_f32x4::<0x88>(s[c], s[4 + c]);
                let low_odd = _mm512_shuffle_f32x4::<0xDD>(s[c], s[4 + c]);
                let high_even = _mm512_shuffle_f32x4::<0x88>(s[8 + c], s[12 + c]);
                let high_odd = _mm512_shuffle_f32x4::<0xDD>(s[8 + c], s[12 + c]);
                out[c] = _mm512_shuffle_f32x4::<0x88>(low_even, high_even);
                out[8 + c] = _mm512_shuffle_f32x4::<0xDD>(low_even, high_even);
                out[4 + c] = _mm512_shuffle_f32x4::<0x88>(low_odd, high_odd);
                out[12 + c] = _mm512_shuffle_f32x4::<0xDD>(low_odd, high_odd);
            }
            out
        }
    }

    #[inline(always)]
    fn load(self, from: &[f32]) -> __m512 {
        assert!(from.len() >= 16, "numbers for a vector; this is a bug");
        // SAFETY: the proof, and the length.
        unsafe { _mm512_loadu_ps(from.as_ptr()) }
    }

    #[inline(always)]
    fn store(self, a: __m512, to: &mut [f32]) {
        assert!(to.len() >= 16, "room for a vector; this is a bug");
        // SAFETY: the proof, and the length.
        unsafe { _mm512_storeu_ps(to.as_mut_ptr(), a) }
    }

    #[inline(always)]
    fn load_part(self, from: &[f32]) -> __m512 {
        assert!(from.len() <= 16, "lanes of a vector; this is a bug");
        // SAFETY: the proof; lanes beyond the slice are not touched.
        unsafe { _mm512_maskz_loadu_ps(((1u32 << from.len()) - 1) as __mmask16, from.as_ptr()) }
    }

    #[inline(always)]
    fn store_part(self, a: __m512, to: &mut [f32]) {
        let lanes = ((1u32 << to.len().min(16)) - 1) as __mmask16;
        // SAFETY: the proof; lanes beyond the slice are not touched.
        unsafe { _mm512_mask_storeu_ps(to.as_mut_ptr(), lanes, a) }
    }

    #[inline(always)]
    unsafe fn load_at(self, from: *const f32) -> __m512 {
        // SAFETY: the proof, and the caller.
        unsafe { _mm512_loadu_ps(from) }
    }

    #[inline(always)]
    unsafe fn store_at(self, a: __m512, to: *mut f32) {
        // SAFETY: the proof, and the caller.
        unsafe { _mm512_storeu_ps(to, a) }
    }

    #[inline(always)]
    unsafe fn gather_at(self, from: *const f32, indices: *const i32) -> __m512 {
        // SAFETY: the proof, and the caller.
        unsafe { _mm512_i32gather_ps::<4>(_mm512_loadu_si512(indices.cast()), from) }
    }

    #[inline(always)]
    unsafe fn pick_at(self, from: *const f32, indices: *const i32) -> __m512 {
        // SAFETY: the proof, and the caller.
        unsafe {
            let lanes = _mm512_sub_epi32(_mm512_loadu_si512(indices.cast()), _mm512_set1_epi32(*indices));
            _mm512_permutexvar_ps(lanes, _mm512_loadu_ps(from.add(*indices as usize)))
        }
    }
}

/// The instruction set of a [`Cpu`](crate::Cpu), proved.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SimdLevel {
    /// 8 lanes.
    Avx2(Avx2),
    /// 16 lanes.
    Avx512(Avx512),
}

impl SimdLevel {
    /// The proof, if the processor has the instructions.
    pub(crate) fn detect(isa: InstructionSet) -> Option<Self> {
        match isa {
            InstructionSet::Avx2 => Avx2::detect().map(Self::Avx2),
            InstructionSet::Avx512 => Avx512::detect().map(Self::Avx512),
        }
    }

    /// The sets of this processor.
    #[cfg(test)]
    pub(crate) fn available() -> Vec<Self> {
        InstructionSet::available().into_iter().filter_map(Self::detect).collect()
    }

    /// Runs a kernel.
    pub(crate) fn run<K: SimdKernel>(self, kernel: K) -> K::Output {
        match self {
            Self::Avx2(simd) => simd.vectorize(kernel),
            Self::Avx512(simd) => simd.vectorize(kernel),
        }
    }
}
