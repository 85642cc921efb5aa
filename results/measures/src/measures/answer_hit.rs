//! `answer_hit_at`: the k of `answer_hit@k`, any gold answer in a text of the top k (DPR's top-k accuracy).

use super::MeasureKey;
use crate::answer::Profile;
use crate::registry::Column;

pub(crate) struct AnswerHit;

impl MeasureKey for AnswerHit {
    type Value = Vec<u32>;

    fn build_columns(depths: &Vec<u32>, profile: Profile) -> Vec<Column> {
        let column = |&k: &u32| {
            let value = Column::new(format!("answer_hit@{k}"), profile.finding_version(), move |input| {
                Some(f64::from(u8::from(input.answer_ranks.any? <= k)))
            });
            value.reading_texts(k)
        };
        depths.iter().map(column).collect()
    }
}
