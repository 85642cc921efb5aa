//! `precision_at`: the k of `precision@k`.

use super::MeasureKey;
use crate::answer::Profile;
use crate::ranked::RankedMeasure;
use crate::registry::Column;

/// `precision@k`: golds in the top k over k (trec_eval's `P`); 0 for k = 0.
pub const fn precision(k: u32) -> RankedMeasure {
    RankedMeasure::at("precision", "1", k, |found, k| found.golds_within(k) as f64 / f64::from(k.max(1)))
}

pub(crate) struct Precision;

impl MeasureKey for Precision {
    type Value = Vec<u32>;

    fn build_columns(depths: &Vec<u32>, _: Profile) -> Vec<Column> {
        depths.iter().map(|&k| Column::of_ranking(precision(k))).collect()
    }
}
