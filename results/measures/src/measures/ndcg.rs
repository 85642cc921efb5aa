//! `ndcg_at`: the k of `ndcg@k`.

use super::MeasureKey;
use crate::answer::Profile;
use crate::ranked::RankedMeasure;
use crate::registry::Column;

/// `ndcg@k`: binary gains, discount log2(rank + 1) (trec_eval's `ndcg_cut`). The ideal list has all golds at the top,
/// including those missing from the corpus.
pub const fn ndcg(k: u32) -> RankedMeasure {
    RankedMeasure::at("ndcg", "1", k, |found, k| {
        let discounted = |rank: u32| 1.0 / (f64::from(rank) + 1.0).log2();
        let ideal: f64 = (1..=k.min(found.gold_count() as u32)).map(discounted).sum();
        let gained: f64 = found.ranks().iter().take_while(|&&rank| rank <= k).map(|&rank| discounted(rank)).sum();
        if ideal > 0.0 { gained / ideal } else { 0.0 }
    })
}

pub(crate) struct Ndcg;

impl MeasureKey for Ndcg {
    type Value = Vec<u32>;

    fn unset() -> Vec<u32> {
        vec![10]
    }

    fn build_columns(depths: &Vec<u32>, _: Profile) -> Vec<Column> {
        depths.iter().map(|&k| Column::of_ranking(ndcg(k))).collect()
    }
}
