//! `mrr`: whether to give `mrr`, the reciprocal rank without a cut.

use super::MeasureKey;
use crate::answer::Profile;
use crate::ranked::{GoldRanks, RankedMeasure};
use crate::registry::Column;

/// `mrr`: the reciprocal rank of the first gold, 0 without a found gold (trec_eval's `recip_rank`).
pub const fn mrr() -> RankedMeasure {
    RankedMeasure::uncut("mrr", "1", reciprocal_rank)
}

/// Of the first gold, or 0 if it comes after rank `k`.
pub(crate) fn reciprocal_rank(found: &GoldRanks, k: u32) -> f64 {
    match found.ranks().first() {
        Some(&rank) if rank <= k => 1.0 / f64::from(rank),
        _ => 0.0,
    }
}

pub(crate) struct Mrr;

impl MeasureKey for Mrr {
    type Value = bool;

    fn unset() -> bool {
        true
    }

    fn build_columns(_: &bool, _: Profile) -> Vec<Column> {
        vec![Column::of_ranking(mrr())]
    }
}
