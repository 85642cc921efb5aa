//! Evaluates many ranked lists from columns: offsets and values, as in Arrow's lists.

use super::{GoldRanks, RankedMeasure};

/// An integer that counts into a column (Arrow's `List` has `i32`, `LargeList` `i64`).
pub trait Offset: Copy {
    /// The offset as an index.
    ///
    /// # Panics
    /// If it is negative: offsets come from a validated column, so this is a bug.
    fn index(self) -> usize;
}

macro_rules! offset {
    ($($integer:ty),*) => {$(
        impl Offset for $integer {
            fn index(self) -> usize {
                usize::try_from(self).expect("column offsets are not negative: this is a bug")
            }
        }
    )*};
}
offset!(u32, i32, i64, usize);

/// Ranked lists as a list column: list `i` is `ids[offsets[i]..offsets[i + 1]]`.
#[derive(Clone, Copy, Debug)]
pub struct RankedColumns<'a, O> {
    /// One more than there are lists, ascending.
    pub offsets: &'a [O],
    /// The passages of all lists, back to back, best first.
    pub ids: &'a [u32],
}

/// Gold passages as a list column, or as a list of lists if golds have duplicates.
#[derive(Clone, Copy, Debug)]
pub struct GoldColumns<'a, O> {
    /// Into `groups` if present, otherwise into `ids`. One more than there are questions.
    pub offsets: &'a [O],
    /// Offsets of the groups into `ids`. Without them every id is a gold of its own.
    pub groups: Option<&'a [O]>,
    /// The passages of all golds, back to back.
    pub ids: &'a [u32],
    /// The grade of each gold; `None` if all are 1.
    pub grades: Option<&'a [u32]>,
}

/// The values of every measure for every list: `result[m][i]` is `measures[m]` of list `i`, `None` without gold.
///
/// # Panics
/// If the two columns have different numbers of lists, or an offset points outside: columns are validated when they are
/// read.
pub fn evaluate<O: Offset>(
    ranked: RankedColumns<'_, O>,
    gold: GoldColumns<'_, O>,
    measures: &[RankedMeasure],
) -> Vec<Vec<Option<f64>>> {
    let lists = ranked.offsets.len().saturating_sub(1);
    assert_eq!(lists, gold.offsets.len().saturating_sub(1), "as many golds as lists: this is a bug");
    let deepest =
        measures.iter().map(|m| m.cut()).collect::<Option<Vec<_>>>().map(|ks| ks.into_iter().max().unwrap_or(0));
    let mut columns: Vec<Vec<Option<f64>>> = measures.iter().map(|_| Vec::with_capacity(lists)).collect();
    let mut found = GoldRanks::default();
    for i in 0..lists {
        let list = &ranked.ids[ranked.offsets[i].index()..ranked.offsets[i + 1].index()];
        let list = deepest.map_or(list, |k| &list[..list.len().min(k as usize)]);
        let (first, last) = (gold.offsets[i].index(), gold.offsets[i + 1].index());
        let grades = gold.grades.map_or(&[][..], |grades| &grades[first..last]);
        match gold.groups {
            Some(groups) => {
                let ids = |g: usize| &gold.ids[groups[g].index()..groups[g + 1].index()];
                found.set_ranking(list, (first..last).map(ids), grades);
            }
            None => found.set_ranking(list, gold.ids[first..last].chunks(1), grades),
        }
        for (column, measure) in columns.iter_mut().zip(measures) {
            column.push(measure.value(&found));
        }
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measures::map::map;
    use crate::measures::mrr::mrr;
    use crate::measures::ndcg::ndcg;
    use crate::measures::precision::precision;
    use crate::measures::recall::{hit, recall_all, recall_frac};
    use crate::ranked::GoldGroups;

    #[test]
    fn columns_agree_with_single_lists() {
        let lists: [&[u32]; 4] = [&[3, 1, 4, 15, 9], &[2, 6], &[], &[5, 3, 5, 8, 9, 7, 9, 3, 2, 3]];
        let golds = [vec![vec![1, 9], vec![4]], vec![vec![7]], vec![vec![1], vec![2, 3], vec![]], vec![]];
        let grades = [vec![1, 2], vec![3], vec![2, 1, 4], vec![]];
        let measures = [recall_frac(3), recall_all(2), hit(1), precision(4), ndcg(5), mrr(), map()];
        let (mut offsets, mut ids) = (vec![0i32], Vec::new());
        let (mut question_offsets, mut group_offsets, mut gold_ids) = (vec![0i32], vec![0i32], Vec::new());
        for (list, groups) in lists.iter().zip(&golds) {
            ids.extend_from_slice(list);
            offsets.push(ids.len() as i32);
            for group in groups {
                gold_ids.extend_from_slice(group);
                group_offsets.push(gold_ids.len() as i32);
            }
            question_offsets.push(group_offsets.len() as i32 - 1);
        }
        for measures in [&measures[..], &measures[..5]] {
            let columns = evaluate(
                RankedColumns { offsets: &offsets, ids: &ids },
                GoldColumns {
                    offsets: &question_offsets,
                    groups: Some(&group_offsets),
                    ids: &gold_ids,
                    grades: Some(&grades.concat()),
                },
                measures,
            );
            for (i, (list, groups)) in lists.iter().zip(&golds).enumerate() {
                let gold = GoldGroups { groups: groups.clone(), grades: grades[i].clone() };
                let found = GoldRanks::new(list, &gold);
                for (column, measure) in columns.iter().zip(measures) {
                    assert_eq!(column[i], measure.value(&found), "{measure} of list {i}");
                }
            }
        }
    }

    #[test]
    fn without_groups_each_id_is_a_gold() {
        let columns = evaluate(
            RankedColumns { offsets: &[0u32, 3], ids: &[7, 8, 9] },
            GoldColumns { offsets: &[0, 2], groups: None, ids: &[9, 7], grades: None },
            &[recall_frac(2), recall_all(3)],
        );
        assert_eq!(columns, [[Some(0.5)], [Some(1.0)]]);
    }
}
