//! Lists that attention needs on the device: tiles of query rows, rows of keys, rows of relative positions by distance.
//!
//! ```text
//!   packing                                     plan
//!   rows      | a a a .. a a | b b | c c c |    tiles  first row, rows, position of the first, first of `keys`, keys
//!   spans       (0, 70)  (0, 9) (70, 2)  ..     keys   0 1 2 .. 69 | 0 .. 8 70 71 | ..
//! ```
//!
//! A tile is at most 64 rows of a sequence. Sequences that attend to the same keys share a list; if positions do not
//! matter (cross-attention), neighbouring ones also share tiles. Tiles of at most 32 rows have their own launch, in
//! smaller blocks, and so have tiles of one row, if heads share keys. All layers of a forward pass ask for the same
//! plan. The last few plans are kept and compared by content, so nothing can be stale.

use crate::runtime::Runtime;
use hopeval_device::{DeviceError, DistanceBuckets, Packing};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

/// The most query rows of a tile.
pub(super) const SIDE: usize = 64;

/// The most query rows of a short tile, and the most heads in place of them.
pub(super) const SHORT_SIDE: usize = 32;

/// Plans, and lists of places, kept in memory: the current batch's, and a few more.
const KEPT: usize = 8;

/// A packing on the device.
#[derive(Debug)]
pub(crate) struct PackingPlan<B> {
    /// None if there are no queries.
    pub(super) launches: Vec<TileLaunch<B>>,
    /// Rows of keys.
    pub(super) keys: B,
    /// The most keys of any sequence.
    pub(super) most_keys: usize,
}

/// The rows of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockRows {
    /// Up to [`SIDE`] query rows of a head.
    Long,
    /// Up to [`SHORT_SIDE`] query rows of a head.
    Short,
    /// One query row, of all heads that share a head of keys.
    Grouped,
}

/// Blocks that have kernels, beside long ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct KnownBlocks {
    pub(super) short: bool,
    pub(super) grouped: bool,
}

/// Tiles for one launch.
#[derive(Debug)]
pub(crate) struct TileLaunch<B> {
    /// The rows of each block.
    pub(super) rows: BlockRows,
    /// Blocks of the grid for each head, or group of heads.
    pub(super) blocks: usize,
    /// Five numbers for each block.
    pub(super) tiles: B,
}

/// The last few plans, the most recent first.
#[derive(Debug)]
pub(crate) struct PlanCache<B> {
    packings: Mutex<VecDeque<CachedPlan<B>>>,
    places: Mutex<VecDeque<CachedPlaces<B>>>,
}

/// A plan with its inputs.
#[derive(Debug)]
struct CachedPlan<B> {
    packing: Packing,
    by_position: bool,
    known: KnownBlocks,
    plan: Arc<PackingPlan<B>>,
}

/// Rows of relative positions for the distances `-reach ..= reach` of query and key.
#[derive(Debug)]
struct CachedPlaces<B> {
    buckets: DistanceBuckets,
    reach: usize,
    rows: Arc<B>,
}

impl<B> Default for PlanCache<B> {
    fn default() -> Self {
        Self { packings: Mutex::default(), places: Mutex::default() }
    }
}

impl<B> PlanCache<B> {
    /// The plan of a packing; `by_position` is true if the result depends on a query's position in its sequence.
    pub(super) fn of_packing<R: Runtime<Buffer = B>>(
        &self,
        runtime: &R,
        packing: &Packing,
        by_position: bool,
        known: KnownBlocks,
    ) -> Result<Arc<PackingPlan<B>>, DeviceError> {
        let mut kept = self.packings.lock().unwrap_or_else(PoisonError::into_inner);
        let found =
            kept.iter().position(|one| (one.by_position, one.known) == (by_position, known) && one.packing == *packing);
        if let Some(found) = found.and_then(|at| kept.remove(at)) {
            kept.push_front(found);
            return Ok(Arc::clone(&kept[0].plan));
        }
        let lists = TileLists::new(packing, by_position);
        let launches = lists.launches(known).into_iter().map(|(rows, tiles)| {
            Ok(TileLaunch { rows, blocks: tiles.len(), tiles: send_list(runtime, tiles.as_flattened())? })
        });
        let plan = Arc::new(PackingPlan {
            launches: launches.collect::<Result<_, DeviceError>>()?,
            keys: send_list(runtime, &lists.keys)?,
            most_keys: lists.most_keys,
        });
        kept.truncate(KEPT - 1);
        kept.push_front(CachedPlan { packing: packing.clone(), by_position, known, plan: Arc::clone(&plan) });
        Ok(plan)
    }

    /// Rows of relative positions by distance, and the largest distance, at least `keys`.
    pub(super) fn places_for<R: Runtime<Buffer = B>>(
        &self,
        runtime: &R,
        buckets: DistanceBuckets,
        keys: usize,
    ) -> Result<(Arc<B>, usize), DeviceError> {
        let mut kept = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.iter().position(|places| places.buckets == buckets && places.reach >= keys);
        if let Some(found) = found.and_then(|at| kept.remove(at)) {
            kept.push_front(found);
        } else {
            // Rounds up to a few lengths: a slightly longer batch does not need a new list.
            let reach = keys.next_power_of_two().max(512);
            let rows = Arc::new(send_list(runtime, &place_rows(buckets, reach))?);
            kept.truncate(KEPT - 1);
            kept.push_front(CachedPlaces { buckets, reach, rows });
        }
        Ok((Arc::clone(&kept[0].rows), kept[0].reach))
    }
}

/// The row of relative positions for each distance in `-reach ..= reach`.
fn place_rows(buckets: DistanceBuckets, reach: usize) -> Vec<u32> {
    let before = (1..=reach).rev().map(|distance| buckets.table_row(0, distance));
    let behind = (0..=reach).map(|distance| buckets.table_row(distance, 0));
    before.chain(behind).map(|row| row as u32).collect()
}

fn send_list<R: Runtime>(runtime: &R, numbers: &[u32]) -> Result<R::Buffer, DeviceError> {
    runtime.upload(&numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>())
}

/// First query row, query rows, position of the first one, start of its keys in `keys`, number of keys.
type TileNumbers = [u32; 5];

/// The lists of a packing.
#[derive(Debug, Default, PartialEq, Eq)]
struct TileLists {
    tiles: Vec<TileNumbers>,
    keys: Vec<u32>,
    most_keys: usize,
}

impl TileLists {
    fn new(packing: &Packing, by_position: bool) -> Self {
        let mut tiles = Self::default();
        let mut lists = HashMap::new();
        let mut sequences = (0..packing.len()).filter(|s| !packing.query_rows(*s).is_empty()).peekable();
        while let Some(sequence) = sequences.next() {
            let spans = packing.key_spans(sequence);
            let mut rows = packing.query_rows(sequence);
            // Sequences without rows may lie in between; the rows of consecutive others are always neighbours.
            while let Some(next) = sequences.next_if(|next| !by_position && packing.key_spans(*next) == spans) {
                rows.end = packing.query_rows(next).end;
            }
            let first = *lists.entry(spans).or_insert_with(|| {
                let first = tiles.keys.len() as u32;
                tiles.keys.extend(spans.iter().flat_map(|(start, count)| *start..start + count));
                first
            });
            let keys = packing.key_count(sequence);
            tiles.most_keys = tiles.most_keys.max(keys);
            for row in rows.clone().step_by(SIDE) {
                let position = if by_position { keys - (rows.end - row) } else { 0 };
                let count = (rows.end - row).min(SIDE);
                tiles.tiles.push([row as u32, count as u32, position as u32, first, keys as u32]);
            }
        }
        tiles
    }

    /// The tiles by launch. A row's result does not depend on its block.
    ///
    /// Short tiles beside more long ones share their launch. Two launches end and begin one after the other: on an H200
    /// they took 1.05 to 1.11 times one launch where a third of the tiles was short, and 0.96 times where half was.
    /// Likewise tiles of one row, which are steps of generation, beside more others.
    fn launches(&self, known: KnownBlocks) -> Vec<(BlockRows, Vec<TileNumbers>)> {
        let one_row = |tile: &TileNumbers| known.grouped && tile[1] == 1;
        let (mut grouped, mut others): (Vec<TileNumbers>, Vec<TileNumbers>) =
            self.tiles.iter().partition(|t| one_row(t));
        if grouped.len() < others.len() {
            (grouped, others) = (vec![], self.tiles.clone());
        }
        let is_short = |tile: &TileNumbers| known.short && tile[1] as usize <= SHORT_SIDE;
        let (mut short, mut long): (Vec<TileNumbers>, Vec<TileNumbers>) = others.iter().partition(|t| is_short(t));
        if short.len() < long.len() {
            (short, long) = (vec![], others);
        }
        let launches = [(BlockRows::Long, long), (BlockRows::Short, short), (BlockRows::Grouped, grouped)];
        launches.into_iter().filter(|(_, tiles)| !tiles.is_empty()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequence_becomes_tiles_of_64_rows_at_the_end_of_its_keys() {
        let mut packing = Packing::of_lengths([0, 3]);
        packing.push(130, [(0, 3), (3, 140)]);
        let tiles = TileLists::new(&packing, true);
        assert_eq!(tiles.tiles, [[0, 3, 0, 0, 3], [3, 64, 13, 3, 143], [67, 64, 77, 3, 143], [131, 2, 141, 3, 143]]);
        assert_eq!(tiles.keys, (0..3).chain(0..143).collect::<Vec<_>>());
        assert_eq!(tiles.most_keys, 143);
    }

    /// Rows of the blocks, and query rows, of each launch.
    fn launched(lengths: &[usize], known: KnownBlocks) -> Vec<(BlockRows, u32)> {
        let launches = TileLists::new(&Packing::of_lengths(lengths.iter().copied()), true).launches(known);
        launches.into_iter().map(|(rows, tiles)| (rows, tiles.iter().map(|tile| tile[1]).sum())).collect()
    }

    #[test]
    fn short_tiles_have_their_own_launch_unless_there_are_more_others() {
        use BlockRows::{Long, Short};
        let sides = |lengths: &[usize]| launched(lengths, KnownBlocks { short: true, grouped: false });
        assert_eq!(sides(&[]), []);
        assert_eq!(sides(&[0, 32, 1]), [(Short, 33)]);
        assert_eq!(sides(&[33, 32]), [(Long, 33), (Short, 32)]);
        assert_eq!(sides(&[33, 40, 32]), [(Long, 105)]);
        let passages = [70, 70, 70];
        assert_eq!(sides(&passages), [(Long, 64 * 3), (Short, 6 * 3)]);
        assert_eq!(sides(&[70, 140, 70]), [(Long, 280)], "four long tiles, three short ones");
        let lists = TileLists::new(&Packing::of_lengths(passages), true);
        let without = lists.launches(KnownBlocks::default());
        assert_eq!(without, [(Long, lists.tiles.clone())], "without a kernel for them");
    }

    #[test]
    fn single_rows_are_grouped_unless_there_are_more_others() {
        use BlockRows::{Grouped, Long, Short};
        let launches = |lengths: &[usize]| launched(lengths, KnownBlocks { short: true, grouped: true });
        assert_eq!(launches(&[1, 1, 1]), [(Grouped, 3)]);
        assert_eq!(launches(&[1, 2, 1]), [(Short, 2), (Grouped, 2)]);
        assert_eq!(launches(&[64, 1]), [(Long, 64), (Grouped, 1)]);
        assert_eq!(launches(&[1, 65]), [(Long, 64), (Grouped, 2)], "the last row of a prompt, too");
        assert_eq!(launches(&[40, 20, 1]), [(Long, 40), (Short, 21)]);
        assert_eq!(launches(&[40, 50, 1]), [(Long, 91)]);
    }

    #[test]
    fn sequences_over_the_same_keys_share_lists_and_tiles() {
        let mut packing = Packing::new();
        for length in [2, 0, 40, 30] {
            packing.push(length, [(5, 4), (1, 1)]);
        }
        packing.push(1, []);
        packing.push(4, [(5, 4), (1, 1)]);
        let tiles = TileLists::new(&packing, false);
        let keys = vec![5, 6, 7, 8, 1];
        let expected = vec![[0, 64, 0, 0, 5], [64, 8, 0, 0, 5], [72, 1, 0, 5, 0], [73, 4, 0, 0, 5]];
        assert_eq!(tiles, TileLists { tiles: expected, keys: keys.clone(), most_keys: 5 });
        let mut short = Packing::new();
        short.push(2, [(5, 4), (1, 1)]);
        short.push(3, [(5, 4), (1, 1)]);
        let expected = vec![[0, 2, 3, 0, 5], [2, 3, 2, 0, 5]];
        assert_eq!(TileLists::new(&short, true), TileLists { tiles: expected, keys, most_keys: 5 });
    }

    #[test]
    fn places_are_those_of_the_buckets_by_distance() {
        let buckets = DistanceBuckets::Clamped { span: 2 };
        assert_eq!(place_rows(buckets, 3), [0, 0, 1, 2, 3, 3, 3]);
    }
}
