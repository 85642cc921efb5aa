//! `answer_recall_at`: the k of `answer_recall@k`, the first gold answer in a text of the top k, without yes/no
//! questions (PromptRank).

use super::MeasureKey;
use crate::answer::Profile;
use crate::registry::Column;

pub(crate) struct AnswerRecall;

impl MeasureKey for AnswerRecall {
    type Value = Vec<u32>;

    fn build_columns(depths: &Vec<u32>, profile: Profile) -> Vec<Column> {
        let column = |&k: &u32| {
            let value = Column::new(format!("answer_recall@{k}"), profile.finding_version(), move |input| {
                Some(f64::from(u8::from(input.answer_ranks.first? <= k)))
            });
            value.reading_texts(k)
        };
        depths.iter().map(column).collect()
    }
}
