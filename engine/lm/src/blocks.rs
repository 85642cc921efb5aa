//! Hands out neighbouring rows of a cache: first fit; returned rows merge with their free neighbours.

use std::collections::BTreeMap;

/// Free rows of a cache.
#[derive(Clone, Debug)]
pub struct BlockAllocator {
    /// Number of free rows by first row.
    free: BTreeMap<u32, u32>,
    capacity: u32,
}

/// Allocated rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowBlock {
    /// The first row.
    pub start: u32,
    /// Number of rows.
    pub rows: u32,
}

impl BlockAllocator {
    /// All rows are free at first.
    pub fn new(capacity: u32) -> Self {
        Self { free: (capacity > 0).then_some((0, capacity)).into_iter().collect(), capacity }
    }

    /// The number of all rows.
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Takes `rows` neighbouring rows, if there is a free run of this length.
    pub fn take(&mut self, rows: u32) -> Option<RowBlock> {
        if rows == 0 {
            return Some(RowBlock { start: 0, rows });
        }
        let (&start, &found) = self.free.iter().find(|(_, found)| **found >= rows)?;
        self.free.remove(&start);
        if found > rows {
            self.free.insert(start + rows, found - rows);
        }
        Some(RowBlock { start, rows })
    }

    /// Takes `rows` rows: neighbours if there are as many, else several blocks. `None` if there are not enough in all.
    pub fn take_parts(&mut self, rows: u32) -> Option<Vec<RowBlock>> {
        if let Some(block) = self.take(rows) {
            return Some(vec![block]);
        }
        if self.free.values().sum::<u32>() < rows {
            return None;
        }
        let (mut parts, mut left) = (Vec::new(), rows);
        while left > 0 {
            let (&start, &found) = self.free.iter().max_by_key(|(_, found)| **found)?;
            let taken = found.min(left);
            self.free.remove(&start);
            if found > taken {
                self.free.insert(start + taken, found - taken);
            }
            parts.push(RowBlock { start, rows: taken });
            left -= taken;
        }
        Some(parts)
    }

    /// Gives rows back.
    pub fn give_back(&mut self, RowBlock { mut start, mut rows }: RowBlock) {
        if rows == 0 {
            return;
        }
        if let Some((&before, &found)) = self.free.range(..start).next_back()
            && before + found == start
        {
            self.free.remove(&before);
            (start, rows) = (before, rows + found);
        }
        if let Some(found) = self.free.remove(&(start + rows)) {
            rows += found;
        }
        self.free.insert(start, rows);
    }
}

/// Row number `nth` of several blocks, one after the other.
pub fn row_at(blocks: &[RowBlock], nth: u32) -> u32 {
    let mut left = nth;
    for block in blocks {
        if left < block.rows {
            return block.start + left;
        }
        left -= block.rows;
    }
    panic!("row {nth} of fewer; this is a bug")
}

/// The first `count` rows of several blocks, as spans of keys.
pub fn first_rows(blocks: &[RowBlock], count: u32) -> impl Iterator<Item = (u32, u32)> + '_ {
    blocks.iter().scan(count, |left, block| {
        let rows = block.rows.min(*left);
        *left -= rows;
        (rows > 0).then_some((block.start, rows))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rows_of_several_blocks_are_counted_through() {
        let blocks = [RowBlock { start: 7, rows: 2 }, RowBlock { start: 1, rows: 3 }];
        assert_eq!((0..5).map(|nth| row_at(&blocks, nth)).collect::<Vec<_>>(), [7, 8, 1, 2, 3]);
        assert_eq!(first_rows(&blocks, 2).collect::<Vec<_>>(), [(7, 2)]);
        assert_eq!(first_rows(&blocks, 4).collect::<Vec<_>>(), [(7, 2), (1, 2)]);
    }

    #[test]
    fn parts_take_what_is_free_anywhere() {
        let mut blocks = BlockAllocator::new(6);
        let taken: Vec<RowBlock> = (0..3).map(|_| blocks.take(2).unwrap()).collect();
        blocks.give_back(taken[0]);
        blocks.give_back(taken[2]);
        assert_eq!((blocks.take(3), blocks.take_parts(5)), (None, None));
        assert_eq!(blocks.take_parts(3).unwrap().iter().map(|block| block.rows).sum::<u32>(), 3);
    }

    proptest! {
        #[test]
        fn blocks_never_overlap_and_all_come_back(steps in prop::collection::vec((any::<bool>(), 1u32..9), 1..80)) {
            let mut blocks = BlockAllocator::new(30);
            let mut out: Vec<RowBlock> = Vec::new();
            for (take, n) in steps {
                if take {
                    if let Some(block) = blocks.take(n) {
                        prop_assert!(block.start + block.rows <= 30);
                        for other in &out {
                            prop_assert!(
                                block.start + block.rows <= other.start || other.start + other.rows <= block.start
                            );
                        }
                        out.push(block);
                    }
                } else if !out.is_empty() {
                    let back = out.swap_remove(n as usize % out.len());
                    blocks.give_back(back);
                }
            }
            out.into_iter().for_each(|block| blocks.give_back(block));
            prop_assert_eq!(blocks.take(30), Some(RowBlock { start: 0, rows: 30 }));
        }
    }
}
