//! `Entail`: by a classifier of pairs, or by the score of a word after a prompt.

use super::model::{Model, PreparedRequest, unexpected_answer};
use super::settings::EntailForm;
use crate::services::true_nli::{ENTAILED, entailment_prompt};
use hopeval_corpus::Corpus;
use hopeval_lm::request as engine;
use hopeval_methods::request::EntailPayload;
use hopeval_methods::response::TargetScores;
use hopeval_methods::{Answer, Failure, Prompt};

impl Model {
    /// The probability that the premise entails the hypothesis.
    pub(super) fn entail(&self, corpus: &Corpus, asked: &EntailPayload) -> Result<PreparedRequest, Failure> {
        match self.settings.entail {
            EntailForm::Classifier => self.classify_pair(corpus, asked),
            EntailForm::TrueNli => self.score_entailment(corpus, asked),
        }
    }

    /// The probability of the word of entailment after the prompt. Whatever may follow the word does not count.
    fn score_entailment(&self, corpus: &Corpus, asked: &EntailPayload) -> Result<PreparedRequest, Failure> {
        let target = self.assemble_prompt(corpus, &Prompt::text(ENTAILED), None, false)?.ids;
        let positions = self.session.engine.abilities().sizes.max_positions;
        let most = positions.map(|positions| positions.saturating_sub(target.len()));
        let prompt = self.assemble_input(corpus, &entailment_prompt(asked), most)?;
        let request =
            engine::ScoreRequest { prompt: prompt.ids.into(), target: target.into(), temperatures: vec![1.0] };
        Ok(PreparedRequest::single_request(
            engine::Request::Score(request),
            Some(prompt.report),
            |answer| match answer {
                engine::Answer::Scored(scored) => {
                    let log_sum_exps = scored.log_sum_exps.into_iter().map(|sums| (1.0, sums)).collect();
                    let scores = TargetScores { logits: scored.target_logits, log_sum_exps, ends: false };
                    let sum: f64 = scores.logprobs(1.0).into_iter().flatten().sum();
                    Ok(Answer::Entail(sum.exp()))
                }
                other => unexpected_answer(&other),
            },
        ))
    }
}
