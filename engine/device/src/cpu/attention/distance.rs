//! Tables that depend only on the distance of query and key: computed once per call, for all sequences.
//!
//! Tables are in the order of lanes, so a vector of neighbouring keys (or queries) reads neighbouring numbers. The
//! place of a query and a key is `longest - 1 + key - query` if keys run along the lanes, and `longest - 1 + query -
//! key` if queries do; `longest` is the most keys of a sequence.

use super::tile::{ColumnPanels, PackPanels};
use crate::cpu::simd::{Simd, SimdKernel};
use crate::cpu::{Cpu, Tensor};
use crate::{Attention, AttentionBias, DeviceError, DistanceBuckets};
use std::ops::Range;

/// The tables of a call.
pub(super) struct DistanceTables {
    /// The most keys of a sequence.
    pub(super) longest: usize,
    pub(super) terms: DistanceTerms,
}

pub(super) enum DistanceTerms {
    None,
    /// `[heads, places]`: the summand, by place of keys.
    Relative(Tensor),
    /// DeBERTa's: the factors of queries by place of keys, and the factors of keys by place of queries.
    Disentangled {
        keys: Option<PositionPanels>,
        queries: Option<PositionPanels>,
    },
}

/// Relative positions as columns of panels.
pub(super) struct PositionPanels {
    /// `[heads, width * head_dim]`.
    panels: Tensor,
    vectors: usize,
    /// Columns, to whole vectors.
    width: usize,
    /// The column of each place, and of a vector more.
    columns: Vec<i32>,
    /// The order of the columns of a whole vector of places, by the first place.
    order: Vec<ColumnOrder>,
    /// True if columns never fall with rising places.
    rising: bool,
}

/// The order of the columns of neighbouring places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ColumnOrder {
    /// One after the other: DeBERTa's near distances.
    Follow,
    /// Within a vector from the first one on: its far distances, several of which share a column.
    Near,
    Anywhere,
}

impl ColumnOrder {
    fn of_columns(columns: &[i32]) -> Self {
        let reach = columns[0]..columns[0] + columns.len() as i32;
        if columns.iter().copied().eq(reach.clone()) {
            Self::Follow
        } else if columns.iter().all(|column| reach.contains(column)) {
            Self::Near
        } else {
            Self::Anywhere
        }
    }
}

/// Lanes of the widest vector: room after tables for reading whole vectors.
const LANES: usize = 16;

impl DistanceTables {
    pub(super) fn new(cpu: &Cpu, attention: &Attention<'_, Cpu>) -> Result<Self, DeviceError> {
        let packing = attention.packing;
        let longest = (0..packing.len()).map(|s| packing.key_count(s)).max().unwrap_or(0).max(1);
        let terms = match &attention.bias {
            AttentionBias::None => DistanceTerms::None,
            AttentionBias::Relative { table, buckets } => {
                let rows = rows_by_key(*buckets, longest);
                let mut stored = cpu.new_tensor(table.rows(), table.columns())?;
                cpu.for_rows(&mut stored, 1, |row, out| table.read_row(row, 0, out));
                let mut biases = cpu.new_tensor(attention.heads, rows.len())?;
                cpu.for_rows(&mut biases, rows.len(), |head, out| {
                    for (bias, row) in out.iter_mut().zip(&rows) {
                        *bias = stored.row(*row)[head];
                    }
                });
                DistanceTerms::Relative(biases)
            }
            AttentionBias::Disentangled(terms) => {
                let by_key = rows_by_key(terms.buckets, longest);
                let mut by_query = by_key[..2 * longest - 1].iter().rev().copied().collect::<Vec<_>>();
                by_query.resize(by_key.len(), by_query[2 * longest - 2]);
                let panels = |positions: Option<&Tensor>, rows: &[usize]| {
                    positions.map(|p| cpu.run(MakePanels { cpu, attention, positions: p, rows })).transpose()
                };
                DistanceTerms::Disentangled {
                    keys: panels(terms.position_keys, &by_key)?,
                    queries: panels(terms.position_queries, &by_query)?,
                }
            }
        };
        Ok(Self { longest, terms })
    }
}

/// The row of each place of keys, and of a vector beyond.
fn rows_by_key(buckets: DistanceBuckets, longest: usize) -> Vec<usize> {
    let last = longest - 1;
    (0..2 * longest - 1 + LANES)
        .map(|place| place.min(2 * last))
        .map(|place| if place < last { buckets.table_row(last - place, 0) } else { buckets.table_row(0, place - last) })
        .collect()
}

struct MakePanels<'a> {
    cpu: &'a Cpu,
    attention: &'a Attention<'a, Cpu>,
    positions: &'a Tensor,
    /// By place.
    rows: &'a [usize],
}

impl SimdKernel for MakePanels<'_> {
    type Output = Result<PositionPanels, DeviceError>;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> Self::Output {
        let Self { cpu, attention, positions, rows } = self;
        let Attention { heads, head_dim, .. } = *attention;
        assert_eq!(positions.columns(), heads * head_dim, "columns of relative positions; this is a bug");
        let (least, most) = rows.iter().fold((usize::MAX, 0), |(least, most), row| (least.min(*row), most.max(*row)));
        assert!(most < positions.rows(), "rows of relative positions; this is a bug");
        // Columns rise with places; rows may rise or fall.
        let rises = rows[0] <= rows[rows.len() - 1];
        let column = |row: usize| if rises { row - least } else { most - row };
        let columns = rows.iter().map(|row| column(*row) as i32).collect::<Vec<_>>();
        let order = columns.windows(S::LANES).map(ColumnOrder::of_columns).collect();
        let count = most - least + 1;
        let mut panels = cpu.new_tensor(heads, ColumnPanels::len::<S>(count, head_dim))?;
        cpu.for_rows(&mut panels, count * head_dim, |head, to| {
            let row = |column: usize| if rises { least + column } else { most - column };
            let starts = (0..count).map(|column| (row(column) * heads + head) * head_dim).collect::<Vec<_>>();
            s.vectorize(PackPanels { from: positions.values(), rows: &starts, depth: head_dim, to });
        });
        Ok(PositionPanels {
            panels,
            vectors: count.div_ceil(S::LANES),
            width: count.next_multiple_of(S::LANES),
            rising: columns.is_sorted(),
            columns,
            order,
        })
    }
}

impl PositionPanels {
    /// The relative positions of a head.
    pub(super) fn head_panels(&self, head: usize) -> ColumnPanels<'_> {
        ColumnPanels {
            numbers: self.panels.row(head),
            depth: self.panels.columns() / self.width,
            vectors: self.vectors,
        }
    }

    /// Room for a row of products with all positions, and a vector more.
    pub(super) fn row_stride(&self) -> usize {
        self.width + LANES
    }

    /// The columns of the places `places` (not empty).
    pub(super) fn wanted_columns(&self, places: Range<usize>) -> Range<usize> {
        if self.rising {
            self.columns[places.start] as usize..self.columns[places.end - 1] as usize + 1
        } else {
            0..self.width
        }
    }

    /// The products of a vector of places.
    #[inline(always)]
    pub(super) fn look_up<S: Simd>(&self, s: S, products: &[f32], place: usize) -> S::V {
        let columns = &self.columns[place..place + S::LANES];
        assert!(products.len() >= self.row_stride(), "products with positions; this is a bug");
        // SAFETY: columns are below `width`, and a vector can be read from each of them on.
        unsafe {
            match self.order[place] {
                ColumnOrder::Follow => s.load_at(products.as_ptr().add(columns[0] as usize)),
                ColumnOrder::Near => s.pick_at(products.as_ptr(), columns.as_ptr()),
                ColumnOrder::Anywhere => s.gather_at(products.as_ptr(), columns.as_ptr()),
            }
        }
    }

    /// The column of `place`, if two vectors of places, one ending and one beginning there, have consecutive columns.
    #[inline(always)]
    pub(super) fn middle_column<S: Simd>(&self, place: usize) -> Option<usize> {
        let first = (place + 1).checked_sub(S::LANES)?;
        let follow = self.order[first] == ColumnOrder::Follow && self.order[place] == ColumnOrder::Follow;
        follow.then(|| self.columns[place] as usize)
    }
}
