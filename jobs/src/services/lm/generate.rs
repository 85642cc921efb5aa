//! `Generate`: a continuation by a local language model. It cannot guarantee a format. Roles are marked by the
//! checkpoint's chat template with `prompt = "chat"`, else not at all, as completion models want it.

use super::model::{Model, PreparedRequest, unexpected_answer};
use hopeval_corpus::Corpus;
use hopeval_lm::architectures::ModelFamily;
use hopeval_lm::generate::cut_at_stop;
use hopeval_lm::request as engine;
use hopeval_methods::request::{GeneratePayload, Sampling, TextFormat};
use hopeval_methods::response::{FinishReason, Generation};
use hopeval_methods::{Answer, Failure, FailureKind};
use std::sync::Arc;

impl Model {
    pub(super) fn generate(
        &self,
        corpus: &Corpus,
        asked: &GeneratePayload,
        draw: u32,
    ) -> Result<PreparedRequest, Failure> {
        if let TextFormat::Schema(_) = asked.format {
            return Err(refused("no texts of a given schema"));
        }
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
            Sampling::Server => return Err(refused("no sampling of its own: name one")),
            Sampling::Sample { penalties, .. } if !penalties.are_none() => {
                return Err(refused("no penalties of repeated tokens"));
            }
            // As in every interface of this kind.
            Sampling::Sample { temperature: 0.0, .. } => engine::Sampling::Greedy,
            Sampling::Sample { temperature, top_p, top_k, penalties: _ } => engine::Sampling::Sample {
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
                    let stopped = first_stop(&whole[text.len()..], &stop);
                    let finish = match generated.finish {
                        engine::FinishReason::End | engine::FinishReason::Stop => FinishReason::Stop,
                        engine::FinishReason::Length => FinishReason::Length,
                    };
                    let logprobs = if logprobs { generated.log_probs } else { Vec::new() };
                    Ok(Answer::Generate(Generation { stop: stopped, logprobs, ..Generation::new(text, finish) }))
                }
                other => unexpected_answer(&other),
            }
        }))
    }
}

/// A wish that these models cannot fulfil. It stands in the request, so another run would be refused, too.
fn refused(reason: &str) -> Failure {
    Failure { kind: FailureKind::Refused, message: format!("a model of `kind = \"lm\"` has {reason}") }
}

/// The stop string that begins `rest`, the text from the cut on; the longest of several.
fn first_stop(rest: &str, stop: &[String]) -> Option<String> {
    let found = stop.iter().filter(|stop| !stop.is_empty() && rest.starts_with(stop.as_str()));
    found.max_by_key(|stop| stop.len()).cloned()
}
