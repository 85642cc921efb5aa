//! `Score`: the log-likelihood of a target after a prompt, as rows for a grid of temperatures
//! (PromptRank, section 2.2).

use super::model::{Model, PreparedRequest, unexpected_answer};
use super::prompts::tokenizer_failure;
use hopeval_corpus::Corpus;
use hopeval_lm::architectures::ModelFamily;
use hopeval_lm::request as engine;
use hopeval_methods::request::ScorePayload;
use hopeval_methods::response::TargetScores;
use hopeval_methods::{Answer, Failure};

impl Model {
    /// A prompt has the tokenizer's special tokens around it or is a chat, a target has no special tokens. They are
    /// joined unchanged, but an encoder-decoder's target ends in a scored end token if the settings ask for it. The
    /// report is the prompt's.
    pub(super) fn score(&self, corpus: &Corpus, asked: &ScorePayload) -> Result<PreparedRequest, Failure> {
        let mut target = self.assemble_prompt(corpus, &asked.target, None, false)?.ids;
        let ends = self.settings.target_eos && self.session.family == ModelFamily::EncoderDecoder;
        if ends {
            target.push(self.tokenizer.eos().map_err(|error| tokenizer_failure(&error))?);
        }
        let positions = self.session.engine.abilities().sizes.max_positions;
        let most = match self.session.family {
            // The last token of the target is scored and not read.
            ModelFamily::Decoder => positions.map(|positions| (positions + 1).saturating_sub(target.len())),
            _ => positions,
        };
        let prompt = self.assemble_input(corpus, &asked.prompt, most)?;
        let temperatures = asked.temperatures.clone();
        let request = engine::ScoreRequest {
            prompt: prompt.ids.into(),
            target: target.into(),
            temperatures: temperatures.iter().map(|&t| t as f32).collect(),
        };
        Ok(PreparedRequest::single_request(engine::Request::Score(request), Some(prompt.report), move |answer| {
            match answer {
                engine::Answer::Scored(scored) => {
                    let log_sum_exps = temperatures.into_iter().zip(scored.log_sum_exps).collect();
                    Ok(Answer::Score(TargetScores { logits: scored.target_logits, log_sum_exps, ends }))
                }
                other => unexpected_answer(&other),
            }
        }))
    }
}
