//! Lays sequences out as a forest of shared prefixes, to compute a token once for all sequences with the same prefix.
//!
//! ```text
//!   d d d i i q q          d d d --+-- i i --+-- q q
//!   d d d i i r      -->           |         +-- r            7 + 6 + 5 tokens, 10 computed
//!   d d d j q                      +-- j q
//! ```
//!
//! Exact for causal models only: a token's state depends on the tokens before it, and these are the path to the root.

use hopeval_device::Packing;

/// Sequences over shared rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PrefixForest {
    /// The token of each row.
    pub ids: Vec<u32>,
    /// Position of each row's token in its sequences.
    pub positions: Vec<u32>,
    /// One packed "sequence" for each node of the forest; its spans are its ancestors' rows and its own.
    pub packing: Packing,
    /// For each input sequence, the row of each of its tokens.
    pub rows: Vec<Vec<u32>>,
}

/// A laid-out node: tokens `start..end` of all sequences that run through it.
struct ForestNode {
    end: usize,
    first_row: u32,
    start: usize,
}

impl PrefixForest {
    /// Lays `sequences` out. Neighbours share their common prefix, so sort them in lexicographic order first.
    pub fn from_sequences(sequences: &[&[u32]]) -> Self {
        let mut forest = Self { packing: Packing::new(), ..Self::default() };
        let shared = sequences.windows(2).map(|pair| common_prefix(pair[0], pair[1])).collect::<Vec<_>>();
        let mut path: Vec<ForestNode> = Vec::new();
        for (s, sequence) in sequences.iter().enumerate() {
            let inherited = if s == 0 { 0 } else { shared[s - 1] };
            // Nodes were cut where later sequences leave, so `inherited` is the end of one of them.
            while path.last().is_some_and(|node| node.end > inherited) {
                path.pop();
            }
            let mut cuts = leaving_points(&shared[s..], inherited, sequence.len());
            cuts.push(sequence.len());
            for end in cuts {
                let start = path.last().map_or(0, |node| node.end);
                if end > start {
                    forest.push_node(&mut path, sequence, start, end);
                }
            }
            forest.rows.push(path.iter().flat_map(|n| n.first_row..n.first_row + (n.end - n.start) as u32).collect());
        }
        forest
    }

    /// Lays `sequences` out one after the other, without sharing.
    pub fn without_sharing(sequences: &[&[u32]]) -> Self {
        let mut forest = Self { packing: Packing::new(), ..Self::default() };
        for sequence in sequences {
            let first = forest.ids.len() as u32;
            forest.push_node(&mut Vec::new(), sequence, 0, sequence.len());
            forest.rows.push((first..forest.ids.len() as u32).collect());
        }
        forest
    }

    fn push_node(&mut self, path: &mut Vec<ForestNode>, sequence: &[u32], start: usize, end: usize) {
        let first_row = self.ids.len() as u32;
        self.ids.extend(&sequence[start..end]);
        self.positions.extend(start as u32..end as u32);
        path.push(ForestNode { start, end, first_row });
        let spans = path.iter().map(|n| (n.first_row, (n.end - n.start) as u32));
        self.packing.push(end - start, spans);
    }
}

/// The ends of the prefixes shared with later sequences, ascending: the running minima of the common prefixes, above
/// `from`.
fn leaving_points(shared: &[usize], from: usize, length: usize) -> Vec<usize> {
    let mut points = Vec::new();
    let mut lowest = length;
    for &common in shared {
        if common < lowest {
            lowest = common;
            if lowest <= from {
                break;
            }
            points.push(lowest);
        }
    }
    points.reverse();
    points
}

/// The length of the longest common prefix of two sequences.
pub fn common_prefix(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(x, y)| x == y).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn shares_prefixes_once() {
        let forest = PrefixForest::from_sequences(&[&[1, 2, 3], &[1, 2, 3, 4], &[1, 2, 5], &[7]]);
        assert_eq!(forest.ids, [1, 2, 3, 4, 5, 7]);
        assert_eq!(forest.rows, [vec![0, 1, 2], vec![0, 1, 2, 3], vec![0, 1, 4], vec![5]]);
        assert_eq!(forest.positions, [0, 1, 2, 3, 2, 0]);
    }

    proptest! {
        #[test]
        fn every_sequence_is_its_path(
            mut sequences in prop::collection::vec(prop::collection::vec(0u32..3, 1..9), 1..12)
        ) {
            sequences.sort();
            let given = sequences.iter().map(Vec::as_slice).collect::<Vec<_>>();
            let forest = PrefixForest::from_sequences(&given);
            let mut unique = std::collections::BTreeSet::new();
            for (sequence, rows) in sequences.iter().zip(&forest.rows) {
                prop_assert_eq!(&rows.iter().map(|r| forest.ids[*r as usize]).collect::<Vec<_>>(), sequence);
                unique.extend((1..=sequence.len()).map(|n| sequence[..n].to_vec()));
            }
            // Sorted sequences share as much as possible.
            prop_assert_eq!(forest.ids.len(), unique.len());
            prop_assert_eq!(forest.packing.rows(), forest.ids.len());
            // A row attends to the path from the root to the row.
            for node in 0..forest.packing.len() {
                let keys = forest.packing.key_spans(node).iter().flat_map(|&(s, n)| s..s + n).collect::<Vec<_>>();
                let last = *keys.last().unwrap();
                let through = forest.rows.iter().find(|rows| rows.contains(&last)).unwrap();
                prop_assert_eq!(&through[..keys.len()], &keys[..]);
            }
        }
    }
}
