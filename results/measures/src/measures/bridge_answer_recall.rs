//! `bridge_answer_recall_at`: the k of `bridge_answer_recall@k`, as `answer_recall@k` without comparison questions.
//!
//! PromptRank, section 3: comparison questions are left out with those of yes and no. Its code leaves out yes and no
//! alone, which is `answer_recall@k`.

use super::MeasureKey;
use crate::answer::Profile;
use crate::registry::Column;

pub(crate) struct BridgeAnswerRecall;

impl MeasureKey for BridgeAnswerRecall {
    type Value = Vec<u32>;

    fn build_columns(depths: &Vec<u32>, profile: Profile) -> Vec<Column> {
        let column = |&k: &u32| {
            let value = Column::new(format!("bridge_answer_recall@{k}"), profile.finding_version(), move |input| {
                let first = input.answer_ranks.first.filter(|_| !is_comparison(input.outcome.question_type))?;
                Some(f64::from(u8::from(first <= k)))
            });
            value.reading_texts(k)
        };
        depths.iter().map(column).collect()
    }
}

/// Whether a dataset's type of question is a comparison: HotpotQA's and 2WikiMultihopQA's `comparison`, and the
/// latter's `bridge_comparison`. A question without a type is none.
fn is_comparison(question_type: Option<&str>) -> bool {
    matches!(question_type, Some("comparison" | "bridge_comparison"))
}
