//! `mrr_at`: the k of `mrr@k`.

use super::{MeasureKey, mrr};
use crate::answer::Profile;
use crate::ranked::RankedMeasure;
use crate::registry::Column;

/// `mrr@k`: as `mrr`, 0 if the first gold comes after rank k.
pub const fn mrr_at(k: u32) -> RankedMeasure {
    RankedMeasure::at("mrr", "1", k, mrr::reciprocal_rank)
}

pub(crate) struct MrrAt;

impl MeasureKey for MrrAt {
    type Value = Vec<u32>;

    fn build_columns(depths: &Vec<u32>, _: Profile) -> Vec<Column> {
        depths.iter().map(|&k| Column::of_ranking(mrr_at(k))).collect()
    }
}
