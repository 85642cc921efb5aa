//! `chunk_recall`: whether to give `chunk_recall` and `chunks` (EfficientRAG).

use super::MeasureKey;
use crate::answer::Profile;
use crate::ranked::{GoldGroups, find_position};
use crate::registry::Column;

/// EfficientRAG's chunk recall: the share of the golds that a chunk hits. Several chunks of one gold count once, so it
/// is at most 1. (Version 1 counted the chunks.) It has no k; report it with the mean number of chunks. The paper's K
/// counts repeats: `chunks_with_repeats`.
pub fn chunk_recall(chunks: &[u32], gold: &GoldGroups) -> Option<f64> {
    if gold.is_empty() {
        return None;
    }
    let is_hit = |group: &&Vec<u32>| group.iter().any(|&id| find_position(chunks, id).is_some());
    Some(gold.groups.iter().filter(is_hit).count() as f64 / gold.groups.len() as f64)
}

pub(crate) struct ChunkRecall;

impl MeasureKey for ChunkRecall {
    type Value = bool;

    fn build_columns(_: &bool, profile: Profile) -> Vec<Column> {
        let recall = Column::new("chunk_recall".to_owned(), "2", |input| {
            input.found?;
            chunk_recall(input.outcome.ranked, input.outcome.gold)
        });
        let chunks = Column::new("chunks".to_owned(), profile.version(), |input| {
            input.outcome.ranking_expected.then_some(input.outcome.ranked.len() as f64)
        });
        vec![recall, chunks.none_if_failed().of_counts()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golds_count_once_however_many_chunks_hit_them() {
        let gold = GoldGroups { groups: vec![vec![1, 11], vec![2]], grades: Vec::new() };
        assert_eq!(chunk_recall(&[11, 1, 1, 2, 5], &gold), Some(1.0));
        assert_eq!(chunk_recall(&[2, 2], &gold), Some(0.5));
    }
}
