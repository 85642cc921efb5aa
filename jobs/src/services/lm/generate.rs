//! `Generate`: a continuation by a local language model. It cannot guarantee a format. Roles are marked by the
//! checkpoint's chat template with `prompt = "chat"`, else not at all, as completion models want it.

use super::model::{Model, PreparedRequest, unexpected_answer};
use hopeval_corpus::Corpus;
use hopeval_lm::architectures::ModelFamily;
use hopeval_lm::generate::cut_at_stop;
use hopeval_lm::request as engine;
use hopeval_methods::request::{GeneratePayload, Sampling, TextFormat};
use hopeval_methods::response::{FinishReason, Generation};
use hopeval_methods::{Answer, Failure};
use std::sync::Arc;

impl Model {
    pub(super) fn generate(
        &self,
        corpus: &Corpus,
        asked: &GeneratePayload,
        draw: u32,
    ) -> Result<PreparedRequest, Failure> {
        let new = asked.max_tokens as usize;
        let positions = self.session.engine.abilities().sizes.max_positions;
        let most = match self.session.family {
            // The last token is written and not read.
            ModelFamily::Decoder => positions.map(|positions| (positions + 1).saturating_sub(new)),
            _ => positions,
        };
        let prompt = self.assemble_input(corpus, &asked.prompt, most)?;
        let sampling = match asked.sampling {
            Sampling::Greedy => engine::Sampling::Greedy,
            // As in every interface of this kind.
            Sampling::Sample { temperature: 0.0, .. } => engine::Sampling::Greedy,
            Sampling::Sample { temperature, top_p, top_k } => engine::Sampling::Sample {
                temperature: temperature as f32,
                top_k: top_k as usize,
                top_p: top_p as f32,
                seed: self.settings.seed,
                draw,
            },
        };
        let (stop, logprobs) = (asked.stop.clone(), asked.logprobs);
        let request = engine::GenerateRequest {
            prompt: prompt.ids.into(),
            max_tokens: new,
            sampling,
            stop: stop.clone(),
            ends: self.session.ends.clone(),
        };
        let tokenizer = Arc::clone(&self.tokenizer);
        let skip_special = asked.format != TextFormat::WithSpecial;
        Ok(PreparedRequest::single_request(engine::Request::Generate(request), Some(prompt.report), move |answer| {
            match answer {
                engine::Answer::Generated(generated) => {
                    let whole = tokenizer.decode(&generated.ids, skip_special);
                    let text = cut_at_stop(&whole, &stop).0.to_owned();
                    let finish = match generated.finish {
                        engine::FinishReason::End | engine::FinishReason::Stop => FinishReason::Stop,
                        engine::FinishReason::Length => FinishReason::Length,
                    };
                    let logprobs = if logprobs { generated.log_probs } else { Vec::new() };
                    Ok(Answer::Generate(Generation { text, finish, logprobs }))
                }
                other => unexpected_answer(&other),
            }
        }))
    }
}
