//! `budget_recall_at`: the budgets of `budget_recall@k`, IRCoT's fixed-budget recall.

use super::MeasureKey;
use super::recall::recall_frac;
use crate::answer::Profile;
use crate::ranked::{GoldGroups, GoldRanks};
use crate::registry::Column;

/// The share of golds among the first `budget` distinct passages, in the order of gathering over all steps (IRCoT,
/// Trivedi et al. 2023; its budget is 15 paragraphs).
pub fn budget_recall(gathered: &[u32], gold: &GoldGroups, budget: usize) -> Option<f64> {
    let mut distinct: Vec<u32> = Vec::with_capacity(budget.min(gathered.len()));
    for &id in gathered {
        if distinct.len() == budget {
            break;
        }
        if !distinct.contains(&id) {
            distinct.push(id);
        }
    }
    recall_frac(u32::MAX).value(&GoldRanks::new(&distinct, gold))
}

pub(crate) struct BudgetRecall;

impl MeasureKey for BudgetRecall {
    type Value = Vec<u32>;

    fn build_columns(budgets: &Vec<u32>, profile: Profile) -> Vec<Column> {
        let column = |&k: &u32| {
            let value = Column::new(format!("budget_recall@{k}"), profile.version(), move |input| {
                input.found?;
                budget_recall(input.outcome.ranked, input.outcome.gold, k as usize)
            });
            value.cut_at(k)
        };
        budgets.iter().map(column).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_cost_no_budget() {
        let gold = GoldGroups { groups: vec![vec![1, 11], vec![2]], grades: Vec::new() };
        assert_eq!(budget_recall(&[5, 5, 5, 1, 6, 2], &gold, 3), Some(0.5));
    }
}
