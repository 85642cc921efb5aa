//! `map`: whether to give `map`.

use super::MeasureKey;
use crate::answer::Profile;
use crate::ranked::RankedMeasure;
use crate::registry::Column;

/// `map`: the mean over all golds of the precision at each, 0 for missing ones (trec_eval's `map`).
pub const fn map() -> RankedMeasure {
    RankedMeasure::uncut("map", "1", |found, _| {
        let sum: f64 = found.ranks().iter().enumerate().map(|(i, &rank)| (i + 1) as f64 / f64::from(rank)).sum();
        sum / found.gold_count() as f64
    })
}

pub(crate) struct Map;

impl MeasureKey for Map {
    type Value = bool;

    fn unset() -> bool {
        true
    }

    fn build_columns(_: &bool, _: Profile) -> Vec<Column> {
        vec![Column::of_ranking(map())]
    }
}
