//! `recall_at`: the k of `recall_frac@k`, `recall_all@k` and `hit@k`, the three meanings of recall.

use super::MeasureKey;
use crate::answer::Profile;
use crate::ranked::RankedMeasure;
use crate::registry::Column;

/// `recall_frac@k`: the share of the golds in the top k (trec_eval's `recall`, ranx, HippoRAG).
pub const fn recall_frac(k: u32) -> RankedMeasure {
    RankedMeasure::at("recall_frac", "1", k, |found, k| found.golds_within(k) as f64 / found.gold_count() as f64)
}

/// `recall_all@k`: 1 if all golds are in the top k (PromptRank's `recall@k`, MDR's path recall).
pub const fn recall_all(k: u32) -> RankedMeasure {
    RankedMeasure::at("recall_all", "1", k, |found, k| f64::from(u8::from(found.golds_within(k) == found.gold_count())))
}

/// `hit@k`: 1 if any gold is in the top k (trec_eval's `success`).
pub const fn hit(k: u32) -> RankedMeasure {
    RankedMeasure::at("hit", "1", k, |found, k| f64::from(u8::from(found.golds_within(k) > 0)))
}

pub(crate) struct Recall;

impl MeasureKey for Recall {
    type Value = Vec<u32>;

    fn unset() -> Vec<u32> {
        vec![2, 5, 10, 20]
    }

    fn build_columns(depths: &Vec<u32>, _: Profile) -> Vec<Column> {
        let measures = [recall_frac, recall_all, hit];
        measures.iter().flat_map(|measure| depths.iter().map(|&k| Column::of_ranking(measure(k)))).collect()
    }
}
