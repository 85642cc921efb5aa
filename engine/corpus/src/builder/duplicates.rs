//! Remembers titles and texts for finding duplicates, and the input positions of passages.

use std::collections::HashMap;

use rustc_hash::FxBuildHasher;

/// The contents seen so far, as 128 bits of BLAKE3 of title and text.
///
/// `keys` holds the first 64 bits of every kept passage in order (8 bytes each); they become the contents table. The
/// other 64 bits are the key of the map (12 bytes an entry, 15 to 30 with the map's slack).
pub(super) struct SeenContents {
    keys: Vec<u64>,
    by_rest: HashMap<[u32; 2], u32, FxBuildHasher>,
    remembers: bool,
}

impl SeenContents {
    /// Remembers only keys if duplicates do not matter.
    pub(super) fn new(remembers: bool) -> Self {
        Self { keys: Vec::new(), by_rest: HashMap::default(), remembers }
    }

    /// The kept passage with this content; or `None`, and the content is added as the next passage.
    pub(super) fn earlier_or_push(&mut self, (key, rest): (u64, u64)) -> Option<u32> {
        let passage = self.keys.len() as u32;
        if self.remembers {
            let mut probe = rest;
            loop {
                let entry = self.by_rest.entry([probe as u32, (probe >> 32) as u32]).or_insert(passage);
                if *entry == passage {
                    break;
                }
                if self.keys[*entry as usize] == key {
                    return Some(*entry);
                }
                // Another content with the same second half: both insertion and search use the next key.
                probe = probe.wrapping_add(1);
            }
        }
        self.keys.push(key);
        None
    }

    pub(super) fn kept_count(&self) -> usize {
        self.keys.len()
    }

    /// The entries of the contents table.
    pub(super) fn into_entries(self) -> Vec<(u64, u32)> {
        self.keys.into_iter().zip(0..).collect()
    }
}

/// Positions of dropped passages, to find the input position of a kept one.
#[derive(Default)]
pub(super) struct DroppedPositions(Vec<u64>);

impl DroppedPositions {
    pub(super) fn push(&mut self, position: u64) {
        self.0.push(position);
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Position in the input of a kept passage.
    pub(super) fn input_position(&self, passage: u32) -> u64 {
        let (mut low, mut high) = (0, self.0.len());
        while low < high {
            let middle = low.midpoint(high);
            // The number of passages kept before this one was dropped.
            if self.0[middle] - middle as u64 <= u64::from(passage) { low = middle + 1 } else { high = middle }
        }
        u64::from(passage) + low as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_halves_are_not_equal_contents() {
        let mut seen = SeenContents::new(true);
        assert_eq!(seen.earlier_or_push((1, 9)), None);
        assert_eq!(seen.earlier_or_push((2, 9)), None);
        assert_eq!(seen.earlier_or_push((3, 10)), None);
        assert_eq!([(1, 9), (2, 9), (3, 10)].map(|content| seen.earlier_or_push(content)), [Some(0), Some(1), Some(2)]);
        assert_eq!(seen.into_entries(), [(1, 0), (2, 1), (3, 2)]);
    }

    #[test]
    fn positions_count_what_was_dropped() {
        let mut dropped = DroppedPositions::default();
        for position in [1, 2, 5] {
            dropped.push(position);
        }
        assert_eq!([0, 1, 2, 3].map(|passage| dropped.input_position(passage)), [0, 3, 4, 6]);
    }
}
