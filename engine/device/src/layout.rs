//! The layout of sequences in packed tensors: no padding, only offsets.
//!
//! ```text
//!   rows      | a a a a a | b b b | c c c c |        one row per token, sequences one after the other
//!   cu_seqlens 0           5       8         12
//! ```
//!
//! Each query sequence attends to *spans* of key rows, in logical order. One description covers all needs of the
//! engine:
//!
//! | use | spans of a sequence |
//! | --- | --- |
//! | packed self-attention | its own rows |
//! | prefix tree | the rows of its ancestors, then its own |
//! | generation with a cache | its rows in the cache |
//! | cross-attention | the rows of the encoded prompt, shared by many sequences |

/// The rows of each sequence, and the key rows it attends to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packing {
    /// Query rows of sequence `s`: `cu_seqlens[s]..cu_seqlens[s + 1]`; starts with 0.
    pub cu_seqlens: Vec<u32>,
    /// Spans of sequence `s`: `spans[cu_spans[s]..cu_spans[s + 1]]`; starts with 0.
    pub cu_spans: Vec<u32>,
    /// `(first key row, rows)`, each not empty, in logical order.
    pub spans: Vec<(u32, u32)>,
}

impl Packing {
    /// Sequences of these lengths, each attending to itself.
    pub fn of_lengths(lengths: impl IntoIterator<Item = usize>) -> Self {
        let mut packing = Self { cu_seqlens: vec![0], cu_spans: vec![0], spans: Vec::new() };
        for length in lengths {
            let start = packing.rows() as u32;
            packing.push(length, [(start, length as u32)]);
        }
        packing
    }

    /// An empty packing.
    pub fn new() -> Self {
        Self::of_lengths([])
    }

    /// Adds a sequence of `length` query rows that attends to `spans` of key rows.
    pub fn push(&mut self, length: usize, spans: impl IntoIterator<Item = (u32, u32)>) {
        self.cu_seqlens.push((self.rows() + length) as u32);
        self.spans.extend(spans.into_iter().filter(|(_, rows)| *rows > 0));
        self.cu_spans.push(self.spans.len() as u32);
    }

    /// The number of sequences.
    pub fn len(&self) -> usize {
        self.cu_seqlens.len() - 1
    }

    /// True if there is no sequence.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of query rows.
    pub fn rows(&self) -> usize {
        self.cu_seqlens.last().copied().unwrap_or(0) as usize
    }

    /// Query rows of sequence `s`.
    pub fn query_rows(&self, s: usize) -> std::ops::Range<usize> {
        self.cu_seqlens[s] as usize..self.cu_seqlens[s + 1] as usize
    }

    /// Key spans of sequence `s`.
    pub fn key_spans(&self, s: usize) -> &[(u32, u32)] {
        &self.spans[self.cu_spans[s] as usize..self.cu_spans[s + 1] as usize]
    }

    /// The number of key rows that sequence `s` attends to.
    pub fn key_count(&self, s: usize) -> usize {
        self.key_spans(s).iter().map(|(_, rows)| *rows as usize).sum()
    }
}

/// Columns of a tensor from `start` on; the operation decides how many. With it, a fused query/key/value tensor needs
/// no copy.
#[derive(Debug)]
pub struct TensorColumns<'a, T> {
    /// The tensor.
    pub tensor: &'a T,
    /// Its first used column.
    pub start: usize,
}

impl<T> Clone for TensorColumns<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for TensorColumns<'_, T> {}

/// Maps the distance between a query and a key to a row of a table of relative positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DistanceBuckets {
    /// T5 (Raffel et al. 2020, section 2.1; transformers' `_relative_position_bucket`): half of the buckets exact, the
    /// other half logarithmic up to `max_distance`; with `bidirectional` the keys after the query have buckets of their
    /// own.
    T5 {
        /// Rows of the table.
        count: usize,
        /// Distances from here on share the last bucket.
        max_distance: usize,
        /// True for encoders; decoders look back only.
        bidirectional: bool,
    },
    /// DeBERTa-v2/v3 (transformers' `make_log_bucket_position`): exact up to half of `span`, logarithmic beyond; row
    /// `span + bucket(query - key)`, clamped to `0..2 * span`.
    Log {
        /// `position_buckets`.
        span: usize,
        /// `max_relative_positions`, or `max_position_embeddings` if it is not positive.
        max_position: usize,
    },
    /// DeBERTa without buckets: row `span + query - key`, clamped to `0..2 * span`.
    Clamped {
        /// `max_relative_positions`, or `max_position_embeddings` if it is not positive.
        span: usize,
    },
}

impl DistanceBuckets {
    /// Rows of the indexed table.
    pub fn table_rows(self) -> usize {
        match self {
            Self::T5 { count, .. } => count,
            Self::Log { span, .. } | Self::Clamped { span } => 2 * span,
        }
    }

    /// The row for a query and a key at these positions of their sequence.
    pub fn table_row(self, query: usize, key: usize) -> usize {
        match self {
            Self::T5 { count, max_distance, bidirectional } => {
                t5_bucket(query, key, count, max_distance, bidirectional)
            }
            Self::Log { span, max_position } => {
                let distance = log_bucket(query as i64 - key as i64, span as i64, max_position as i64);
                (distance + span as i64).clamp(0, 2 * span as i64 - 1) as usize
            }
            Self::Clamped { span } => (query as i64 - key as i64 + span as i64).clamp(0, 2 * span as i64 - 1) as usize,
        }
    }
}

/// transformers' `T5Attention._relative_position_bucket`, in its `f32` arithmetic.
fn t5_bucket(query: usize, key: usize, count: usize, max_distance: usize, bidirectional: bool) -> usize {
    let (mut first, mut count) = (0, count);
    let distance = if bidirectional {
        count /= 2;
        if key > query {
            first = count;
        }
        key.abs_diff(query)
    } else {
        query.saturating_sub(key)
    };
    let exact = count / 2;
    if distance < exact {
        return first + distance;
    }
    let far = (distance as f32 / exact as f32).ln() / ((max_distance as f64 / exact as f64).ln() as f32)
        * (count - exact) as f32;
    first + (exact + far as usize).min(count - 1)
}

/// transformers' `make_log_bucket_position`, in its `f32` arithmetic.
fn log_bucket(distance: i64, span: i64, max_position: i64) -> i64 {
    let middle = span / 2;
    let magnitude = if distance < middle && distance > -middle { middle - 1 } else { distance.abs() };
    if magnitude <= middle {
        return distance;
    }
    let far = ((magnitude as f32 / middle as f32).ln() / (((max_position - 1) as f32 / middle as f32).ln())
        * (middle - 1) as f32)
        .ceil()
        + middle as f32;
    far as i64 * distance.signum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of neighbouring distances from 0 to 599 for each row, and the rows in order.
    fn runs(rows: impl Iterator<Item = usize>) -> (Vec<usize>, Vec<usize>) {
        let (mut values, mut counts): (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
        for row in rows {
            match (values.last(), counts.last_mut()) {
                (Some(last), Some(count)) if *last == row => *count += 1,
                _ => {
                    values.push(row);
                    counts.push(1);
                }
            }
        }
        (values, counts)
    }

    // The counts are those of transformers 5.17's functions for the same arguments.

    #[test]
    fn t5_rows_are_transformers() {
        let both = DistanceBuckets::T5 { count: 32, max_distance: 128, bidirectional: true };
        let (rows, counts) = runs((0..600).map(|distance| both.table_row(distance, 0)));
        assert_eq!(rows, (0..16).collect::<Vec<_>>());
        assert_eq!(counts, [1, 1, 1, 1, 1, 1, 1, 1, 4, 4, 7, 9, 14, 18, 27, 509]);
        let (rows, counts) = runs((0..600).map(|distance| both.table_row(0, distance)));
        assert_eq!(rows, [0].into_iter().chain(17..32).collect::<Vec<_>>());
        assert_eq!(counts, [1, 1, 1, 1, 1, 1, 1, 1, 4, 4, 7, 9, 14, 18, 27, 509]);
        let back = DistanceBuckets::T5 { count: 32, max_distance: 128, bidirectional: false };
        let (rows, counts) = runs((0..600).map(|distance| back.table_row(distance, 0)));
        assert_eq!(rows, (0..32).collect::<Vec<_>>());
        assert_eq!(
            counts,
            [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 3, 2, 3, 3, 4, 4, 5, 6, 6, 7, 8, 10, 10, 12, 14, 487]
        );
        assert!((0..600).all(|distance| back.table_row(0, distance) == 0));
    }

    #[test]
    fn deberta_rows_are_transformers() {
        let counts_beyond = [
            1, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 2, 1, 2, 2, 1, 2, 2, 1, 2, 2, 2, 2, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2,
            2, 2, 2, 2, 3, 2, 2, 2, 3, 2, 2, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 3, 2, 3, 3, 3, 2, 3, 3, 3, 3, 3, 3, 3,
            3, 3, 3, 4, 3, 3, 3, 4, 3, 3, 4, 3, 4, 3, 4, 4, 3, 4, 4, 3, 4, 4, 4, 4, 4, 4, 4, 4, 4, 5, 4, 4, 5, 4, 4, 5,
            4, 5, 5, 4, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 6, 5, 5, 6, 6,
        ];
        let buckets = DistanceBuckets::Log { span: 256, max_position: 512 };
        for (sign, rows) in [
            (1, (0..600).map(|distance| buckets.table_row(distance, 0)).collect::<Vec<_>>()),
            (-1, (0..600).map(|distance| buckets.table_row(0, distance)).collect()),
        ] {
            let (rows, counts) = runs(rows.into_iter());
            let expected = (0..rows.len() as i64).map(|bucket| (256 + sign * bucket) as usize).collect::<Vec<_>>();
            assert_eq!(rows, expected);
            assert_eq!(counts[..129], [1; 129]);
            // The last row of all, 511, belongs to positive distances; negative ones have one more.
            let (last, beyond) = counts[129..].split_last().expect("distances beyond the exact ones");
            assert_eq!(beyond, &counts_beyond[..beyond.len()]);
            assert_eq!(*last, 600 - 129 - counts_beyond[..beyond.len()].iter().sum::<usize>());
        }
    }

    #[test]
    fn plain_distances_are_clamped() {
        let buckets = DistanceBuckets::Clamped { span: 4 };
        assert_eq!([0, 1, 3, 4, 9].map(|distance| buckets.table_row(distance, 0)), [4, 5, 7, 7, 7]);
        assert_eq!([1, 4, 9].map(|distance| buckets.table_row(0, distance)), [3, 0, 0]);
    }
}
