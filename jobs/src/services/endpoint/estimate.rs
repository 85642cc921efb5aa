//! Responses for plans: counted prompts, an invented answer, no call.

use super::open::EndpointService;
use super::rankings::invented_ranking;
use super::rough::count_tokens;
use hopeval_corpus::Corpus;
use hopeval_endpoint::{ChatMessage, EndpointCall, PromptInput};
use hopeval_methods::response::{FinishReason, Generation, TargetScores};
use hopeval_methods::{Answer, AnswerWork, Request, RequestPayload, Response};

impl EndpointService {
    /// The response for plans. A text has its greatest length: the sum of a plan is an upper bound.
    pub(super) fn estimate_response(&self, corpus: &Corpus, request: &Request) -> Response {
        let prepared = match self.prepare_call(corpus, request) {
            Ok(prepared) => prepared,
            Err(response) => return *response,
        };
        let read = |texts: &[String]| texts.iter().map(|text| count_tokens(text)).sum::<usize>();
        let (prompt_tokens, completion_tokens, scored_tokens) = match &prepared.call {
            EndpointCall::Generate(call) => {
                let counted = prepared.report.as_ref().map(|report| report.tokens as usize);
                let tokens = counted.unwrap_or_else(|| match &call.prompt {
                    PromptInput::Messages(messages) => {
                        messages.iter().map(|ChatMessage { text, .. }| count_tokens(&text.to_string())).sum()
                    }
                    PromptInput::Text(text) => count_tokens(&text.to_string()),
                    PromptInput::Tokens(ids) => ids.len(),
                });
                (tokens, call.max_tokens.unwrap_or_default() as usize, 0)
            }
            EndpointCall::Score(call) => (call.prompt.len(), 0, call.target.len()),
            EndpointCall::Embed(call) => (read(&call.texts), 0, 0),
            EndpointCall::Retrieve(_) => (0, 0, 0),
            EndpointCall::Rerank(call) => {
                (read(&call.documents) + call.documents.len() * count_tokens(&call.query), 0, 0)
            }
        };
        let work = AnswerWork {
            prompt_tokens: prompt_tokens as u64,
            completion_tokens: completion_tokens as u64,
            scored_tokens: scored_tokens as u64,
            operations: 0,
        };
        let answer = match (&request.ask, &prepared.call) {
            (RequestPayload::Score(asked), EndpointCall::Score(call)) => {
                let zeroes = || vec![0.0; call.target.len()];
                let log_sum_exps = asked.temperatures.iter().map(|&temperature| (temperature, zeroes())).collect();
                Answer::Score(TargetScores { logits: zeroes(), log_sum_exps, ends: false })
            }
            (RequestPayload::Retrieve(asked), _) => Answer::Retrieve(invented_ranking(corpus, asked)),
            (RequestPayload::Entail(_), _) => Answer::Entail(0.5),
            (RequestPayload::Embed(_), _) => Answer::Embed(Vec::new()),
            (RequestPayload::Rerank(asked), _) => Answer::Rerank(vec![0.0; asked.items.len()]),
            _ => Answer::Generate(Generation::new(String::new(), FinishReason::Length)),
        };
        Response { prompt: prepared.report, ..Response::answer(answer, work) }
    }
}
