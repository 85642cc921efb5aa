//! The call for a request, or its refusal before anything is sent.

use super::open::EndpointService;
use super::rankings::retrieval_call;
use crate::services::corpus::content_text;
use crate::services::service::refuse_kind;
use crate::services::true_nli::{ENTAILED, WORD_TOKENS, entailment_prompt};
use hopeval_corpus::Corpus;
use hopeval_endpoint::{AnswerFormat, EmbedCall, EndpointCall, GenerateCall, RerankCall, SamplingFields, ScoreCall};
use hopeval_methods::request::{
    EmbedPayload, EntailPayload, GeneratePayload, RerankPayload, Sampling, ScorePayload, TextFormat,
};
use hopeval_methods::{Failure, FailureKind, Prompt, PromptReport, Request, RequestPayload, Response};

/// The only temperature of an endpoint's log-probabilities.
pub(super) const SCORED_TEMPERATURE: f64 = 1.0;

/// A call, with what is known of it before its answer.
#[derive(Debug)]
pub(super) struct PreparedCall {
    /// The call.
    pub(super) call: EndpointCall,
    /// The report on its prompt, if it has one.
    pub(super) report: Option<PromptReport>,
}

impl EndpointService {
    /// The call for a request.
    ///
    /// # Errors
    /// The response to a request that no call can answer.
    pub(super) fn prepare_call(&self, corpus: &Corpus, request: &Request) -> Result<PreparedCall, Box<Response>> {
        let prepared = match &request.ask {
            RequestPayload::Generate(asked) => self.generate_call(corpus, asked, request.draw),
            RequestPayload::Score(asked) => self.score_call(corpus, asked),
            RequestPayload::Entail(asked) => self.entail_call(corpus, asked),
            RequestPayload::Embed(asked) => self.embed_call(corpus, asked),
            RequestPayload::Rerank(asked) => self.rerank_call(corpus, asked),
            RequestPayload::Retrieve(asked) if self.settings.is_retriever() => {
                return retrieval_call(corpus, asked).map(|call| PreparedCall { call, report: None });
            }
            _ => return Err(Box::new(refuse_kind(request))),
        };
        prepared.map_err(|failure| Box::new(Response::from_failure(failure)))
    }

    fn generate_call(&self, corpus: &Corpus, asked: &GeneratePayload, draw: u32) -> Result<PreparedCall, Failure> {
        if asked.prompt.is_continued() && !self.settings.continues() {
            let dialect = self.settings.dialect;
            return Err(refused(format!("a server of the dialect {dialect} cannot continue an assistant's text")));
        }
        let format = match &asked.format {
            TextFormat::Text => AnswerFormat::Text,
            TextFormat::Json => AnswerFormat::Json,
            TextFormat::Schema(schema) => AnswerFormat::Schema(schema.clone()),
            TextFormat::WithSpecial => return Err(refused("an endpoint writes no special tokens".to_owned())),
        };
        let prompt = self.assemble_prompt(corpus, &asked.prompt, asked.max_tokens as usize, true)?;
        let counted_tokens = self.open_tokenizer().is_some().then_some(u64::from(prompt.report.tokens));
        let call = GenerateCall {
            counted_tokens,
            prompt: self.prompt_input(&asked.prompt.parts, prompt.texts),
            max_tokens: Some(asked.max_tokens),
            stop: asked.stop.clone(),
            sampling: self.sampling_fields(&asked.sampling, draw),
            choices: 1,
            format,
            logprobs: asked.logprobs,
        };
        Ok(PreparedCall { call: EndpointCall::Generate(call), report: Some(prompt.report) })
    }

    /// The fields of a sampling. Values that change nothing are not sent, since some models refuse them.
    fn sampling_fields(&self, sampling: &Sampling, draw: u32) -> SamplingFields {
        match sampling {
            Sampling::Server => SamplingFields::default(),
            Sampling::Greedy => SamplingFields { temperature: Some(0.0), ..SamplingFields::default() },
            Sampling::Sample { temperature, top_p, top_k, penalties } => {
                let unless = |value: f64, usual: f64| (value != usual).then_some(value);
                SamplingFields {
                    temperature: Some(*temperature),
                    top_p: unless(*top_p, 1.0),
                    top_k: (*top_k != 0).then_some(*top_k),
                    repetition_penalty: unless(penalties.repetition, 1.0),
                    presence_penalty: unless(penalties.presence, 0.0),
                    frequency_penalty: unless(penalties.frequency, 0.0),
                    seed: self.settings.seed.map(|seed| seed.wrapping_add(u64::from(draw))),
                }
            }
        }
    }

    fn score_call(&self, corpus: &Corpus, asked: &ScorePayload) -> Result<PreparedCall, Failure> {
        if let Some(other) = asked.temperatures.iter().find(|&&temperature| temperature != SCORED_TEMPERATURE) {
            return Err(refused(format!(
                "an endpoint gives log-probabilities at the temperature 1 alone, and {other} is wanted"
            )));
        }
        let target = self.assemble_prompt(corpus, &asked.target, 0, false)?.ids;
        let prompt = self.assemble_prompt(corpus, &asked.prompt, target.len(), true)?;
        if self.open_tokenizer().is_none() {
            return Err(refused("scores need `tokenizer`: the model's folder with tokenizer.json".to_owned()));
        }
        let call = EndpointCall::Score(ScoreCall { prompt: prompt.ids, target });
        Ok(PreparedCall { call, report: Some(prompt.report) })
    }

    fn entail_call(&self, corpus: &Corpus, asked: &EntailPayload) -> Result<PreparedCall, Failure> {
        let prompt = entailment_prompt(asked);
        if self.settings.entail_by.scores() {
            let temperatures = vec![SCORED_TEMPERATURE];
            return self.score_call(corpus, &ScorePayload { prompt, target: Prompt::text(ENTAILED), temperatures });
        }
        let (stop, sampling, format) = (Vec::new(), Sampling::Greedy, TextFormat::Text);
        let written = GeneratePayload { prompt, max_tokens: WORD_TOKENS, stop, sampling, format, logprobs: false };
        self.generate_call(corpus, &written, 0)
    }

    fn embed_call(&self, corpus: &Corpus, asked: &EmbedPayload) -> Result<PreparedCall, Failure> {
        let text = content_text(corpus, &self.fragments, &asked.text)?.into_owned();
        Ok(PreparedCall { call: EndpointCall::Embed(EmbedCall { texts: vec![text] }), report: None })
    }

    fn rerank_call(&self, corpus: &Corpus, asked: &RerankPayload) -> Result<PreparedCall, Failure> {
        let text = |item| Ok(content_text(corpus, &self.fragments, item)?.into_owned());
        let documents = asked.items.iter().map(text).collect::<Result<Vec<_>, Failure>>()?;
        let call = EndpointCall::Rerank(RerankCall { query: asked.query.clone(), documents });
        Ok(PreparedCall { call, report: None })
    }
}

/// A refusal that would be the same in every run: it depends on the request and the settings.
fn refused(message: String) -> Failure {
    Failure { kind: FailureKind::Refused, message }
}
