//! Inner products of a few queries with a few rows: the kernel of dense retrieval, with AVX2 or AVX-512.
//!
//! # Contract
//! Every product equals its definition, [`mod@reference`], to the last bit, on every processor and in every batch:
//! sixteen chains of fused multiply-adds, component `d` in chain `d % 16`, by ascending `d` from zero; then the upper
//! half of the chains is added to the lower, eight, four, two, one.
//!
//! ```text
//! tile     4 queries x 6 rows; a product's 16 chains are the lanes of one AVX-512 register, or of two of AVX2
//! caches   a stretch of the rows stays in the first level while all queries pass, the queries in the second; then
//!          the chains of all tiles continue with the next stretch; meanwhile the next rows are prefetched
//! ```

use std::ops::Range;

use half::f16;

/// Number of chains of a product; each is summed on its own.
pub(crate) const LANES: usize = 16;
/// Rows of a tile.
pub(crate) const ROWS: usize = 6;
/// Maximum number of queries of a tile.
pub(crate) const QUERIES: usize = 4;

/// A cache line of components. A vector is a whole number of lines, padded with zeros.
#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(C, align(64))]
pub(crate) struct VectorLine(pub(crate) [f32; LANES]);

impl VectorLine {
    pub(crate) const ZERO: Self = Self([0.0; LANES]);
}

/// Half a cache line: [`LANES`] components in half precision, as their bits.
pub(crate) type HalfLine = [u16; LANES];

/// Maximum number of lines in a stretch. Tiles of whole rows of 768 numbers need 30 KB and ran at 0.7 of this rate.
const STRETCH: usize = 24;

/// The chains of a tile.
pub(crate) type TileChains = [[VectorLine; QUERIES]; ROWS];

/// The processor's vector instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProductLevel {
    Plain,
    #[cfg(target_arch = "x86_64")]
    Avx2(InstructionProof),
    #[cfg(target_arch = "x86_64")]
    Avx512(InstructionProof),
}

/// Proof that the processor has the instructions; made by [`ProductLevel::supported_levels`] only.
#[cfg(target_arch = "x86_64")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InstructionProof(());

impl ProductLevel {
    /// The fastest level.
    pub(crate) fn detect() -> Self {
        Self::supported_levels().pop().unwrap_or(Self::Plain)
    }

    /// Every level supported by this machine, the fastest last.
    pub(crate) fn supported_levels() -> Vec<Self> {
        let mut all = vec![Self::Plain];
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::is_x86_feature_detected as has;
            if has!("avx2") && has!("fma") && has!("f16c") {
                all.push(Self::Avx2(InstructionProof(())));
                if has!("avx512f") {
                    all.push(Self::Avx512(InstructionProof(())));
                }
            }
        }
        all
    }
}

/// The bytes as lines; empty if they are not aligned. A mapped section is always aligned.
pub(crate) fn aligned_lines(bytes: &[u8]) -> &[VectorLine] {
    // SAFETY: a line is sixteen numbers, and every bit pattern is a valid number.
    let (before, lines, _) = unsafe { bytes.align_to::<VectorLine>() };
    if before.is_empty() { lines } else { &[] }
}

/// The bytes as half lines; empty if they are not aligned. A mapped section is always aligned.
pub(crate) fn half_lines(bytes: &[u8]) -> &[HalfLine] {
    // SAFETY: every bit pattern is a u16.
    let (before, lines, _) = unsafe { bytes.align_to::<HalfLine>() };
    if before.is_empty() { lines } else { &[] }
}

/// Converts half precision to single, exactly; as many lines as both slices have.
pub(crate) fn widen(level: ProductLevel, from: &[HalfLine], to: &mut [VectorLine]) {
    match level {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: both levels prove F16C.
        ProductLevel::Avx2(_) | ProductLevel::Avx512(_) => unsafe { avx2::widen(from, to) },
        ProductLevel::Plain => {
            for (from, to) in from.iter().zip(to) {
                to.0 = from.map(|bits| f16::from_bits(bits).to_f32());
            }
        }
    }
}

/// The definition of a product, slow and simple.
pub(crate) fn reference(query: &[VectorLine], row: &[VectorLine]) -> f32 {
    let mut chains = [0.0; LANES];
    for (query, row) in query.iter().zip(row) {
        for (lane, sum) in chains.iter_mut().enumerate() {
            *sum = query.0[lane].mul_add(row.0[lane], *sum);
        }
    }
    let mut half = LANES / 2;
    while half > 0 {
        for lane in 0..half {
            chains[lane] += chains[lane + half];
        }
        half /= 2;
    }
    chains[0]
}

/// The products of queries with rows: `out[query][row]`. The queries lie one after the other; each row is as long as
/// a query. `ahead` are bytes to prefetch; `chains` is working memory.
///
/// # Panics
/// If the lengths do not fit.
pub(crate) fn products(
    level: ProductLevel,
    queries: &[VectorLine],
    rows: [&[VectorLine]; ROWS],
    ahead: &[u8],
    chains: &mut Vec<TileChains>,
    out: &mut [[f32; ROWS]],
) {
    let depth = rows[0].len();
    let fits = depth > 0 && queries.len() == out.len() * depth && rows.iter().all(|row| row.len() == depth);
    assert!(fits, "queries and rows of one length; this is a bug");
    let tiles = out.len().div_ceil(QUERIES);
    chains.resize(tiles, [[VectorLine::ZERO; QUERIES]; ROWS]);
    // A single tile reuses nothing.
    let stretches = if tiles > 1 { depth.div_ceil(STRETCH) } else { 1 };
    let share = ahead.len().div_ceil((tiles * stretches).max(1));
    let mut ahead = ahead.chunks(share.max(1));
    for stretch in 0..stretches {
        let lines = stretch * depth / stretches..(stretch + 1) * depth / stretches;
        let all = queries.chunks(QUERIES * depth).zip(chains.iter_mut()).zip(out.chunks_mut(QUERIES));
        for ((queries, chains), out) in all {
            let tile = ProductTile {
                queries,
                rows,
                lines: lines.clone(),
                ahead: ahead.next().unwrap_or_default(),
                chains,
                out,
            };
            tile.multiply_tile(level);
        }
    }
}

/// Up to [`QUERIES`] queries and [`ROWS`] rows, for a stretch of their lines.
struct ProductTile<'a> {
    /// As many queries as `out` has, all equally long.
    queries: &'a [VectorLine],
    rows: [&'a [VectorLine]; ROWS],
    /// The stretch; the first begins with zeros, the last ends in products.
    lines: Range<usize>,
    ahead: &'a [u8],
    chains: &'a mut TileChains,
    out: &'a mut [[f32; ROWS]],
}

impl ProductTile<'_> {
    fn multiply_tile(self, level: ProductLevel) {
        match level {
            #[cfg(target_arch = "x86_64")]
            ProductLevel::Avx2(_) => {
                let tile = [avx2::tile::<1>, avx2::tile::<2>, avx2::tile::<3>, avx2::tile::<4>][self.out.len() - 1];
                // SAFETY: the level proves AVX2 and FMA; `products` has compared the lengths.
                unsafe { tile(self) }
            }
            #[cfg(target_arch = "x86_64")]
            ProductLevel::Avx512(_) => {
                let tiles = [avx512::tile::<1>, avx512::tile::<2>, avx512::tile::<3>, avx512::tile::<4>];
                let tile = tiles[self.out.len() - 1];
                // SAFETY: the level proves AVX-512F; `products` has compared the lengths.
                unsafe { tile(self) }
            }
            ProductLevel::Plain => {
                let depth = self.rows[0].len();
                if self.lines.end == depth {
                    for (query, out) in self.queries.chunks_exact(depth).zip(self.out) {
                        *out = self.rows.map(|row| reference(query, row));
                    }
                }
            }
        }
    }
}

/// Bytes of a cache line.
#[cfg(target_arch = "x86_64")]
const CACHE_LINE: usize = 64;

/// Prefetches `count` cache lines from `at` on, into the second level.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn call_for(at: *const u8, count: usize) {
    use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
    for line in 0..count {
        // SAFETY: SSE is part of x86-64, and a prefetch does not read from its address.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(at.wrapping_add(line * CACHE_LINE).cast()) }
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::*;

    use super::{CACHE_LINE, HalfLine, LANES, ProductTile, QUERIES, ROWS, VectorLine, call_for};

    /// # Safety
    ///
    /// F16C and AVX.
    #[target_feature(enable = "avx2,f16c")]
    pub(super) unsafe fn widen(from: &[HalfLine], to: &mut [VectorLine]) {
        for (from, to) in from.iter().zip(to) {
            // SAFETY: sixteen halves are read, sixteen numbers are written.
            unsafe {
                let from = from.as_ptr();
                let to = to.0.as_mut_ptr();
                _mm256_store_ps(to, _mm256_cvtph_ps(_mm_loadu_si128(from.cast())));
                _mm256_store_ps(to.add(8), _mm256_cvtph_ps(_mm_loadu_si128(from.add(8).cast())));
            }
        }
    }

    /// Rows whose chains fit into the registers, together with those of [`QUERIES`] queries.
    const TOGETHER: usize = 3;

    /// See [`super::products`]. Half of the lanes and half of the rows pass at a time: 12 of 16 registers are sums.
    ///
    /// # Safety
    ///
    /// AVX2 and FMA. There are `Q` queries, rows as long as one of them, and the stretch lies within.
    #[target_feature(enable = "avx2,fma")]
    pub(super) unsafe fn tile<const Q: usize>(tile: ProductTile<'_>) {
        const { assert!(Q <= QUERIES && ROWS.is_multiple_of(TOGETHER)) };
        let ProductTile { queries, rows, lines, ahead, chains, out } = tile;
        let depth = rows[0].len();
        let (starts, queries) = (rows.map(|row| row.as_ptr().cast::<f32>()), queries.as_ptr().cast::<f32>());
        let passes = ROWS / TOGETHER * 2;
        let each = ahead.len().div_ceil(CACHE_LINE * lines.len() * passes);
        let mut next = ahead.as_ptr();
        for first in (0..ROWS).step_by(TOGETHER) {
            for half in [0, 8] {
                let mut sums = [[_mm256_setzero_ps(); TOGETHER]; Q];
                if lines.start > 0 {
                    for (query, sums) in sums.iter_mut().enumerate() {
                        for (row, sum) in sums.iter_mut().enumerate() {
                            // SAFETY: half a line.
                            *sum = unsafe { _mm256_load_ps(chains[first + row][query].0.as_ptr().add(half)) };
                        }
                    }
                }
                let mut at = lines.start * LANES + half;
                for _ in lines.clone() {
                    call_for(next, each);
                    next = next.wrapping_add(each * CACHE_LINE);
                    let mut x = [_mm256_setzero_ps(); TOGETHER];
                    for (row, x) in x.iter_mut().enumerate() {
                        // SAFETY: half a line of a row.
                        *x = unsafe { _mm256_load_ps(starts[first + row].add(at)) };
                    }
                    for (query, sums) in sums.iter_mut().enumerate() {
                        // SAFETY: half a line of a query.
                        let q = unsafe { _mm256_load_ps(queries.add(query * depth * LANES + at)) };
                        for (sum, &x) in sums.iter_mut().zip(&x) {
                            *sum = _mm256_fmadd_ps(q, x, *sum);
                        }
                    }
                    at += LANES;
                }
                for (query, sums) in sums.iter().enumerate() {
                    for (row, &sum) in sums.iter().enumerate() {
                        // SAFETY: half a line.
                        unsafe { _mm256_store_ps(chains[first + row][query].0.as_mut_ptr().add(half), sum) };
                    }
                }
            }
        }
        if lines.end == depth {
            for (query, out) in out.iter_mut().enumerate().take(Q) {
                for (chains, out) in chains.iter().zip(out) {
                    let chains = chains[query].0.as_ptr();
                    // SAFETY: both halves of a line.
                    let (lower, upper) = unsafe { (_mm256_load_ps(chains), _mm256_load_ps(chains.add(8))) };
                    *out = sum_chains(_mm256_add_ps(lower, upper));
                }
            }
        }
    }

    /// The sum of eight chains: four and four, two and two, one and one.
    #[target_feature(enable = "avx2")]
    fn sum_chains(eight: __m256) -> f32 {
        let four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps::<1>(eight));
        let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
        _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps::<1>(two, two)))
    }
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use std::arch::x86_64::*;

    use super::{CACHE_LINE, LANES, ProductTile, QUERIES, ROWS, call_for};

    /// See [`super::products`]. 24 of the 32 registers are sums.
    ///
    /// # Safety
    ///
    /// AVX-512F. There are `Q` queries, rows as long as one of them, and the stretch lies within.
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn tile<const Q: usize>(tile: ProductTile<'_>) {
        const { assert!(Q <= QUERIES && QUERIES == 4 && ROWS == 6) };
        let ProductTile { queries, rows, lines, ahead, chains, out } = tile;
        let depth = rows[0].len();
        let (starts, queries) = (rows.map(|row| row.as_ptr().cast::<f32>()), queries.as_ptr().cast::<f32>());
        let each = ahead.len().div_ceil(CACHE_LINE * lines.len());
        let mut next = ahead.as_ptr();
        let mut sums = [[_mm512_setzero_ps(); QUERIES]; ROWS];
        if lines.start > 0 {
            for (sums, chains) in sums.iter_mut().zip(&*chains) {
                for (sum, chains) in sums.iter_mut().zip(chains).take(Q) {
                    // SAFETY: a line.
                    *sum = unsafe { _mm512_load_ps(chains.0.as_ptr()) };
                }
            }
        }
        for line in lines.clone() {
            call_for(next, each);
            next = next.wrapping_add(each * CACHE_LINE);
            let at = line * LANES;
            let mut q = [_mm512_setzero_ps(); Q];
            for (query, q) in q.iter_mut().enumerate() {
                // SAFETY: a line of a query.
                *q = unsafe { _mm512_load_ps(queries.add(query * depth * LANES + at)) };
            }
            for (row, sums) in starts.iter().zip(&mut sums) {
                // SAFETY: a line of a row.
                let x = unsafe { _mm512_load_ps(row.add(at)) };
                for (sum, &q) in sums.iter_mut().zip(&q) {
                    *sum = _mm512_fmadd_ps(q, x, *sum);
                }
            }
        }
        if lines.end < depth {
            for (sums, chains) in sums.iter().zip(chains) {
                for (&sum, chains) in sums.iter().zip(chains).take(Q) {
                    // SAFETY: a line.
                    unsafe { _mm512_store_ps(chains.0.as_mut_ptr(), sum) };
                }
            }
            return;
        }
        let [a, b, c, d, e, f] = [
            sum_to_four(sums[0]),
            sum_to_four(sums[1]),
            sum_to_four(sums[2]),
            sum_to_four(sums[3]),
            sum_to_four(sums[4]),
            sum_to_four(sums[5]),
        ];
        let (ab, cd, ef) = (sum_to_two(a, b), sum_to_two(c, d), sum_to_two(e, f));
        let mut numbers = [[0.0; LANES]; 2];
        // SAFETY: sixteen numbers are written to each.
        unsafe {
            _mm512_storeu_ps(numbers[0].as_mut_ptr(), sum_to_one(ab, cd));
            _mm512_storeu_ps(numbers[1].as_mut_ptr(), sum_to_one(ef, ef));
        }
        for (query, out) in out.iter_mut().enumerate().take(Q) {
            out[..4].copy_from_slice(&numbers[0][query * 4..][..4]);
            out[4..].copy_from_slice(&numbers[1][query * 4..][..2]);
        }
    }

    /// Sums sixteen chains of each query to four, in the query's quarter of the result.
    #[target_feature(enable = "avx512f")]
    fn sum_to_four([a, b, c, d]: [__m512; QUERIES]) -> __m512 {
        let ab = _mm512_add_ps(_mm512_shuffle_f32x4::<0x44>(a, b), _mm512_shuffle_f32x4::<0xEE>(a, b));
        let cd = _mm512_add_ps(_mm512_shuffle_f32x4::<0x44>(c, d), _mm512_shuffle_f32x4::<0xEE>(c, d));
        _mm512_add_ps(_mm512_shuffle_f32x4::<0x88>(ab, cd), _mm512_shuffle_f32x4::<0xDD>(ab, cd))
    }

    /// Sums four chains of each query to two, for two rows: in each quarter `a`, `b`, `a`, `b`.
    #[target_feature(enable = "avx512f")]
    fn sum_to_two(a: __m512, b: __m512) -> __m512 {
        _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b))
    }

    /// Sums two chains of each query to one, for four rows.
    #[target_feature(enable = "avx512f")]
    fn sum_to_one(ab: __m512, cd: __m512) -> __m512 {
        _mm512_add_ps(_mm512_shuffle_ps::<0x44>(ab, cd), _mm512_shuffle_ps::<0xEE>(ab, cd))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vectors(count: usize, depth: usize, seed: u64) -> Vec<VectorLine> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1 << 23) as f32 - 1.0
        };
        (0..count * depth).map(|_| VectorLine(std::array::from_fn(|_| next()))).collect()
    }

    #[test]
    fn every_level_is_the_reference_to_the_last_bit() {
        for depth in [1, 2, 7, 48, 53] {
            let (queries, rows) = (vectors(11, depth, 1), vectors(ROWS, depth, 2));
            let rows: [&[VectorLine]; ROWS] = std::array::from_fn(|row| &rows[row * depth..][..depth]);
            for count in 1..=11 {
                for level in ProductLevel::supported_levels() {
                    let mut out = vec![[f32::NAN; ROWS]; count];
                    products(level, &queries[..count * depth], rows, &[0; 1000], &mut Vec::new(), &mut out);
                    for (query, out) in queries.chunks(depth).zip(out) {
                        assert_eq!(out, rows.map(|row| reference(query, row)), "{level:?}, {count} of {depth}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_reference_is_close_to_the_exact_sum() {
        let (query, row) = (vectors(1, 48, 3), vectors(1, 48, 4));
        let numbers = |lines: &[VectorLine]| lines.iter().flat_map(|line| line.0.map(f64::from)).collect::<Vec<_>>();
        let exact: f64 = numbers(&query).iter().zip(numbers(&row)).map(|(q, x)| q * x).sum();
        assert!((f64::from(reference(&query, &row)) - exact).abs() < 1e-5);
    }

    #[test]
    fn halves_are_widened_exactly() {
        let all: Vec<u16> = (0..=u16::MAX).filter(|&bits| f16::from_bits(bits).is_finite()).collect();
        let (from, rest) = all.as_chunks::<LANES>();
        assert!(rest.is_empty());
        for level in ProductLevel::supported_levels() {
            let mut to = vec![VectorLine::ZERO; from.len()];
            widen(level, from, &mut to);
            for (from, to) in from.iter().zip(&to) {
                assert_eq!(
                    from.map(|bits| f16::from_bits(bits).to_f32().to_bits()),
                    to.0.map(f32::to_bits),
                    "{level:?}"
                );
            }
        }
    }
}
