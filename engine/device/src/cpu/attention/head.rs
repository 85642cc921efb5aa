//! Attention of one sequence, or of several over the same keys, for one head of keys and values.

use super::distance::{DistanceTerms, PositionPanels};
use super::in_place::{KeyPlaces, MixRows, PlacedRows, ScoreRows};
use super::softmax::{AddByKey, DivideValues, ScoreTerm, Softmax};
use super::tile::{ColumnPanels, GatherRows, PackPanels, ROWS, StridedMatrix, by_panels, by_rows};
use super::{AttentionCall, ResultAddress};
use crate::cpu::memory::AlignedBuffer;
use crate::cpu::simd::{Simd, SimdKernel};
use crate::cpu::{Cpu, Tensor};
use crate::{Attention, DeviceError, TensorColumns};
use std::ops::Range;

/// Columns of a tensor.
#[derive(Clone, Copy)]
pub(super) struct HeadColumns<'a> {
    values: &'a [f32],
    stride: usize,
    start: usize,
}

impl<'a> HeadColumns<'a> {
    pub(super) fn from_columns(columns: TensorColumns<'a, Tensor>) -> Self {
        Self { values: columns.tensor.values(), stride: columns.tensor.columns(), start: columns.start }
    }

    /// The start of head `head` of a row.
    fn head_start(&self, row: usize, head: usize, head_dim: usize) -> usize {
        row * self.stride + self.start + head * head_dim
    }
}

/// Queries with scores in memory at a time, so that a panel of keys is used often while it is in the cache.
const BLOCK: usize = 48;

/// [`BLOCK`], or a tile's rows if their scores would take too much room.
fn block_rows(keys: usize) -> usize {
    if keys <= 4096 { BLOCK } else { ROWS }
}

/// The keys and values of a head, and scratch memory.
pub(super) struct HeadGroup<'a, S> {
    s: S,
    call: &'a AttentionCall<'a>,
    group: Range<usize>,
    kv_head: usize,
    /// Number of keys.
    count: usize,
    /// Given if keys and values are not laid out in the scratch memory, but read where they lie.
    in_place: Option<KeyPlaces>,
    sizes: ScratchSizes,
    numbers: AlignedBuffer,
}

/// The size of each part of the scratch memory, in numbers.
#[derive(Clone, Copy, Default)]
struct ScratchSizes {
    /// Panels of keys.
    keys: usize,
    /// `[count, value_width]`.
    values: usize,
    value_width: usize,
    /// Keys as rows, if terms of positions need them.
    key_rows: usize,
    /// `[count, by_key_stride]`: products of keys with positions.
    by_key: usize,
    /// Queries of a block.
    block: usize,
    queries: usize,
    /// `[block, score_stride]`.
    scores: usize,
    score_stride: usize,
    /// Products of the block's queries with positions.
    by_query: usize,
    /// `[block, value_width]`.
    mixed: usize,
}

/// Parts of the scratch memory.
struct ScratchParts<'a> {
    keys: &'a mut [f32],
    values: &'a mut [f32],
    key_rows: &'a mut [f32],
    by_key: &'a mut [f32],
    queries: &'a mut [f32],
    scores: &'a mut [f32],
    by_query: &'a mut [f32],
    mixed: &'a mut [f32],
}

impl ScratchSizes {
    fn new<S: Simd>(call: &AttentionCall<'_>, count: usize, queries: usize, in_place: bool) -> Self {
        let depth = call.attention.head_dim;
        let block = block_rows(count).min(queries);
        let value_width = depth.next_multiple_of(S::LANES);
        let score_stride = count.next_multiple_of(S::LANES);
        let (of_keys, of_queries) = match &call.distances.terms {
            DistanceTerms::Disentangled { keys, queries } => (
                keys.as_ref().map_or(0, PositionPanels::row_stride),
                queries.as_ref().map_or(0, PositionPanels::row_stride),
            ),
            _ => (0, 0),
        };
        // Every part begins at a multiple of 64 bytes.
        let even = |numbers: usize| numbers.next_multiple_of(16);
        let laid_out = if in_place { 0 } else { count };
        Self {
            keys: even(ColumnPanels::len::<S>(laid_out, depth)),
            values: even(laid_out * value_width),
            value_width,
            key_rows: if of_queries > 0 { even(count * depth) } else { 0 },
            by_key: even(count * of_queries),
            block,
            queries: even(block * depth),
            scores: even(block * score_stride),
            score_stride,
            by_query: even(block * of_keys),
            mixed: even(block * value_width),
        }
    }

    fn total_size(&self) -> usize {
        self.keys + self.values + self.key_rows + self.by_key + self.queries + self.scores + self.by_query + self.mixed
    }

    fn split_scratch(self, numbers: &mut [f32]) -> ScratchParts<'_> {
        let (keys, rest) = numbers.split_at_mut(self.keys);
        let (values, rest) = rest.split_at_mut(self.values);
        let (key_rows, rest) = rest.split_at_mut(self.key_rows);
        let (by_key, rest) = rest.split_at_mut(self.by_key);
        let (queries, rest) = rest.split_at_mut(self.queries);
        let (scores, rest) = rest.split_at_mut(self.scores);
        let (by_query, mixed) = rest.split_at_mut(self.by_query);
        ScratchParts { keys, values, key_rows, by_key, queries, scores, by_query, mixed }
    }
}

/// Neighbouring queries of a sequence.
#[derive(Clone)]
struct QueryBlock {
    /// Rows of the packed queries.
    rows: Range<usize>,
    /// The first one's place among its sequence's keys.
    position: usize,
    head: usize,
}

impl QueryBlock {
    /// All keys visible to some row of a tile: those ranges only move forward.
    fn seen_by(&self, call: &AttentionCall<'_>, count: usize, tile: Range<usize>) -> Range<usize> {
        let seen = |row: usize| call.visible_keys(self.position + row, count);
        seen(tile.start).start..seen(tile.end - 1).end
    }
}

/// Whether each key of a group is read once: by one query, of one head. A group with terms that belong to a key and a
/// position has its keys as rows, too, and heads of other widths than whole vectors need room for their rest.
fn reads_once<S: Simd>(call: &AttentionCall<'_>, group: &Range<usize>, most_queries: usize) -> bool {
    let Attention { heads, kv_heads, head_dim, .. } = *call.attention;
    group.len() == 1
        && most_queries == 1
        && heads == kv_heads
        && head_dim.is_multiple_of(S::LANES)
        && !matches!(call.distances.terms, DistanceTerms::Disentangled { .. })
}

impl<'a, S: Simd> HeadGroup<'a, S> {
    /// Lays out keys and values.
    pub(super) fn new(
        s: S,
        cpu: &Cpu,
        call: &'a AttentionCall<'a>,
        group: Range<usize>,
        kv_head: usize,
    ) -> Result<Self, DeviceError> {
        let packing = call.attention.packing;
        let depth = call.attention.head_dim;
        let count = packing.key_count(group.start);
        let most = group.clone().map(|sequence| packing.query_rows(sequence).len()).max().unwrap_or(0);
        let in_place = reads_once::<S>(call, &group, most);
        let sizes = ScratchSizes::new::<S>(call, count, most, in_place);
        let numbers = cpu.memory.take(sizes.total_size())?;
        let mut head = Self { s, call, group, kv_head, count, in_place: None, sizes, numbers };
        let rows = || packing.key_spans(head.group.start).iter().flat_map(|(start, rows)| *start..*start + *rows);
        let starts =
            |of: &HeadColumns<'_>| rows().map(|row| of.head_start(row as usize, kv_head, depth)).collect::<Vec<_>>();
        let (keys, values) = (starts(&call.k), starts(&call.v));
        if in_place {
            head.in_place = Some(KeyPlaces { keys, values });
            return Ok(head);
        }
        let scratch = sizes.split_scratch(head.numbers.as_mut_slice());
        s.vectorize(PackPanels { from: call.k.values, rows: &keys, depth, to: scratch.keys });
        let (to, width) = (scratch.values, sizes.value_width);
        s.vectorize(GatherRows { from: call.v.values, rows: &values, depth, to, width });
        if sizes.key_rows > 0 {
            s.vectorize(GatherRows { from: call.k.values, rows: &keys, depth, to: scratch.key_rows, width: depth });
        }
        Ok(head)
    }

    /// Writes the results of all sequences and query heads.
    pub(super) fn attend_group(mut self, out: &ResultAddress) {
        let packing = self.call.attention.packing;
        let shared = self.call.attention.heads / self.call.attention.kv_heads;
        for sequence in self.group.clone() {
            let rows = packing.query_rows(sequence);
            // Where positions count there are no more queries than keys; elsewhere they are not read.
            let position = self.count.saturating_sub(rows.len());
            for head in self.kv_head * shared..(self.kv_head + 1) * shared {
                self.products_by_key(position..position + rows.len(), head);
                for first in rows.clone().step_by(self.sizes.block.max(1)) {
                    let block = QueryBlock {
                        rows: first..rows.end.min(first + self.sizes.block),
                        position: position + (first - rows.start),
                        head,
                    };
                    self.attend_block(&block, out);
                }
            }
        }
    }

    /// The products of each key with the relative positions of the queries at `positions`.
    fn products_by_key(&mut self, positions: Range<usize>, head: usize) {
        let DistanceTerms::Disentangled { queries: Some(position_panels), .. } = &self.call.distances.terms else {
            return;
        };
        let (depth, longest) = (self.call.attention.head_dim, self.call.distances.longest);
        if positions.is_empty() || self.count == 0 {
            return;
        }
        let scratch = self.sizes.split_scratch(self.numbers.as_mut_slice());
        let a = StridedMatrix { at: scratch.key_rows.as_ptr(), stride: depth };
        let c = StridedMatrix { at: scratch.by_key.as_mut_ptr(), stride: position_panels.row_stride() };
        let wanted = |keys: Range<usize>| {
            position_panels.wanted_columns(
                longest - 1 + positions.start - (keys.end - 1)..longest - 1 + positions.end - keys.start,
            )
        };
        // SAFETY: the scratch parts have `count` rows of `depth` and of `stride` numbers.
        unsafe { by_panels(self.s, a, self.count, position_panels.head_panels(head), c, wanted) };
    }

    fn attend_block(&mut self, block: &QueryBlock, out: &ResultAddress) {
        let (s, call, count, sizes) = (self.s, self.call, self.count, self.sizes);
        let (width, rows) = (sizes.value_width, block.rows.len());
        let seen_by = |tile: Range<usize>| block.seen_by(call, count, tile);
        self.compute_scores(block, seen_by);
        let scratch = sizes.split_scratch(self.numbers.as_mut_slice());
        let sums =
            s.vectorize(WeighScores { call, block, count, sizes, scores: scratch.scores, by_query: scratch.by_query });
        if let Some(places) = &self.in_place {
            let values = PlacedRows { from: call.v.values, places: &places.values };
            let mixed = &mut scratch.mixed[..width];
            s.vectorize(MixRows { weights: scratch.scores, values, seen: seen_by(0..rows), mixed });
        } else {
            let a = StridedMatrix { at: scratch.scores.as_ptr(), stride: sizes.score_stride };
            let b = StridedMatrix { at: scratch.values.as_ptr(), stride: width };
            let c = StridedMatrix { at: scratch.mixed.as_mut_ptr(), stride: width };
            // SAFETY: scores have room for `count` keys, values have `count` rows of whole vectors, and `mixed` is
            // equally wide.
            unsafe { by_rows(s, a, rows, b, width / S::LANES, c, seen_by) };
        }
        s.vectorize(WriteResults { call, block, width, mixed: scratch.mixed, sums, out });
    }

    /// Products of the block's queries with their visible keys, and the terms of positions.
    fn compute_scores(&mut self, block: &QueryBlock, seen_by: impl Fn(Range<usize>) -> Range<usize>) {
        let (s, call, sizes) = (self.s, self.call, self.sizes);
        let (depth, longest) = (call.attention.head_dim, call.distances.longest);
        let rows = block.rows.len();
        let scratch = sizes.split_scratch(self.numbers.as_mut_slice());
        if let Some(places) = &self.in_place {
            let query = &call.q.values[call.q.head_start(block.rows.start, block.head, depth)..][..depth];
            let keys = PlacedRows { from: call.k.values, places: &places.keys };
            s.vectorize(ScoreRows { query, keys, seen: seen_by(0..rows), scores: scratch.scores });
            return;
        }
        let mut starts = [0; BLOCK];
        for (start, row) in starts.iter_mut().zip(block.rows.clone()) {
            *start = call.q.head_start(row, block.head, depth);
        }
        s.vectorize(GatherRows {
            from: call.q.values,
            rows: &starts[..rows],
            depth,
            to: scratch.queries,
            width: depth,
        });
        let a = StridedMatrix { at: scratch.queries.as_ptr(), stride: depth };
        let c = StridedMatrix { at: scratch.scores.as_mut_ptr(), stride: sizes.score_stride };
        let panels = ColumnPanels { numbers: scratch.keys, depth, vectors: self.count.div_ceil(S::LANES) };
        // SAFETY: the scratch parts have `rows` rows of `depth` and of `score_stride` numbers.
        unsafe { by_panels(s, a, rows, panels, c, &seen_by) };
        let DistanceTerms::Disentangled { keys, queries } = &call.distances.terms else { return };
        if let Some(position_panels) = keys {
            let c = StridedMatrix { at: scratch.by_query.as_mut_ptr(), stride: position_panels.row_stride() };
            let wanted = |tile: Range<usize>| {
                let seen = seen_by(tile.clone());
                if seen.is_empty() {
                    return 0..0;
                }
                let places = longest - 1 + seen.start - (block.position + tile.end - 1)
                    ..longest - 1 + seen.end - (block.position + tile.start);
                position_panels.wanted_columns(places)
            };
            // SAFETY: as above, and `stride` numbers for the products of a row.
            unsafe { by_panels(s, a, rows, position_panels.head_panels(block.head), c, wanted) };
        }
        if let Some(position_panels) = queries {
            for first in (0..rows).step_by(S::LANES) {
                let lanes = first..rows.min(first + S::LANES);
                s.vectorize(AddByKey {
                    scores: &mut scratch.scores[first * sizes.score_stride..lanes.end * sizes.score_stride],
                    stride: sizes.score_stride,
                    keys: seen_by(lanes),
                    products: scratch.by_key,
                    products_stride: position_panels.row_stride(),
                    position_panels,
                    first: longest - 1 + block.position + first,
                });
            }
        }
    }
}

/// Turns a block's scores into weights; returns their sum for each row, 0 for a row without visible keys.
struct WeighScores<'a> {
    call: &'a AttentionCall<'a>,
    block: &'a QueryBlock,
    /// Number of keys.
    count: usize,
    sizes: ScratchSizes,
    scores: &'a mut [f32],
    by_query: &'a [f32],
}

impl SimdKernel for WeighScores<'_> {
    type Output = [f32; BLOCK];

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> Self::Output {
        let Self { call, block, count, sizes, scores, by_query } = self;
        let rows = block.rows.len();
        let mut sums = [0.0; BLOCK];
        for (row, sum) in sums.iter_mut().enumerate().take(rows) {
            let scores = &mut scores[row * sizes.score_stride..][..sizes.score_stride];
            let all = block.seen_by(call, count, row / ROWS * ROWS..rows.min(row / ROWS * ROWS + ROWS));
            let position = block.position + row;
            let seen = call.visible_keys(position, count);
            if seen.is_empty() {
                scores[all].fill(0.0);
                continue;
            }
            let first = call.distances.longest.wrapping_sub(1 + position);
            let term = match &call.distances.terms {
                DistanceTerms::Relative(biases) => ScoreTerm::Bias(&biases.row(block.head)[first..]),
                DistanceTerms::Disentangled { keys: Some(position_panels), .. } => {
                    let products = &by_query[row * position_panels.row_stride()..][..position_panels.row_stride()];
                    ScoreTerm::Looked { products, position_panels, first }
                }
                _ => ScoreTerm::None,
            };
            // Keys of the tile outside the row's own vectors weigh nothing.
            let own = seen.start / S::LANES * S::LANES..seen.end.next_multiple_of(S::LANES);
            *sum = Softmax { scores: &mut *scores, seen, scale: call.attention.scale, term }.run(s);
            scores[all.start.min(own.start)..own.start].fill(0.0);
            if own.end < all.end {
                scores[own.end..all.end].fill(0.0);
            }
        }
        sums
    }
}

/// Writes a block's results.
struct WriteResults<'a> {
    call: &'a AttentionCall<'a>,
    block: &'a QueryBlock,
    /// `[rows, width]`: weights times values.
    mixed: &'a [f32],
    width: usize,
    /// Of the weights.
    sums: [f32; BLOCK],
    out: &'a ResultAddress,
}

impl SimdKernel for WriteResults<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Attention { heads, head_dim, .. } = *self.call.attention;
        for ((row, mixed), sum) in self.block.rows.clone().zip(self.mixed.chunks_exact(self.width)).zip(self.sums) {
            let place = (row * heads + self.block.head) * head_dim;
            // SAFETY: these rows and columns of the result are this task's alone; see `ResultAddress`.
            let out = unsafe { std::slice::from_raw_parts_mut(self.out.0.add(place), head_dim) };
            DivideValues { mixed: &mixed[..head_dim], sum, out }.run(s);
        }
    }
}
