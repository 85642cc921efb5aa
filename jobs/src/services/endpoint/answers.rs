//! The responses of a call, with its measured facts.

use super::calls::SCORED_TEMPERATURE;
use super::rankings::found_passages;
use crate::services::true_nli::written_entailment;
use hopeval_corpus::Corpus;
use hopeval_endpoint::{
    AttemptGuard, CallAnswer, CallEnd, CallFailure, CallVerdict, EndpointSettings, EntailForm,
    FailureKind as CallFailureKind, FinishReason, GeneratedChoice, PriceSettings, TokenUsage,
};
use hopeval_methods::response::{CallFacts, FinishReason as GenerationEnd, Generation, MoneyAmount, TargetScores};
use hopeval_methods::{Answer, AnswerWork, FailureKind, PromptReport, Request, RequestKind, Response};

/// The responses to the requests of one call, or of a part of it, in their order.
pub(super) struct CallResponses {
    /// As many as there were requests.
    pub(super) responses: Vec<Response>,
    /// Microseconds before the first attempt and between attempts.
    pub(super) queue_us: u64,
    /// Microseconds of the attempts.
    pub(super) service_us: u64,
    /// Proof that the last attempt is under way.
    pub(super) guard: Option<AttemptGuard>,
}

/// Reads the ends of one service's calls, on any thread.
#[derive(Clone)]
pub(super) struct AnswerReader {
    /// The service's prices.
    price: Option<PriceSettings>,
    /// The source of its entailments.
    entail_by: EntailForm,
}

impl AnswerReader {
    /// The reader for a service with these settings.
    pub(super) fn of_settings(settings: &EndpointSettings) -> Self {
        let price = settings.price.as_ref();
        let price = match settings.batch {
            Some(_) => price.map(PriceSettings::of_batches),
            None => price.cloned(),
        };
        Self { price, entail_by: settings.entail_by }
    }

    /// Reads the end of a call, or of a part, for its requests: one, or several draws of one payload. `report` is on
    /// their prompt.
    pub(super) fn read_responses(
        &self,
        corpus: &Corpus,
        report: Option<&PromptReport>,
        requests: &[&Request],
        end: CallEnd,
    ) -> CallResponses {
        let CallEnd {
            verdict,
            attempts,
            usage,
            answer_usage,
            answers,
            model,
            system_fingerprint,
            queue_us,
            service_us,
            guard,
        } = end;
        let facts = |share: usize| CallFacts {
            attempts: nth_share(u64::from(attempts), share, requests.len()) as u32,
            tokens_measured: usage.measured,
            cached_prompt_tokens: usage.measured.then_some(usage.cached_prompt),
            reasoning_tokens: usage.measured.then(|| nth_share(usage.reasoning, share, requests.len())),
            money: self.money(&usage, answers).map(|money| MoneyAmount {
                nanos: nth_share(money.nanos, share, requests.len()),
                currency: money.currency,
            }),
            model: model.clone(),
            system_fingerprint: system_fingerprint.clone(),
        };
        let read = |(share, request): (usize, &&Request), answer: Result<Answer, Box<Response>>| {
            let response = match answer {
                Ok(answer) => Response::answer(answer, self.own_work(request, &answer_usage, share, requests.len())),
                Err(failure) => {
                    Response { work: self.own_work(request, &answer_usage, share, requests.len()), ..*failure }
                }
            };
            Response { facts: Some(Box::new(facts(share))), prompt: report.cloned(), ..response }
        };
        let places = || requests.iter().enumerate();
        let missing = |failure: &CallFailure| Err(Box::new(call_failure(failure.clone())));
        let responses: Vec<Response> = match verdict {
            CallVerdict::Failed(failure) => places().map(|place| read(place, missing(&failure))).collect(),
            CallVerdict::Part(choices) | CallVerdict::Answered(CallAnswer::Generated(choices)) => {
                places().zip(choices).map(|(place, choice)| read(place, written_answer(place.1, choice))).collect()
            }
            CallVerdict::Answered(answer) => {
                places().map(|place| read(place, single_answer(corpus, place.1, answer.clone()))).collect()
            }
        };
        CallResponses { responses, queue_us, service_us, guard }
    }

    /// A request's own work: its prompt as if it were alone, and its share of what was written.
    fn own_work(&self, request: &Request, usage: &TokenUsage, share: usize, shares: usize) -> AnswerWork {
        let written = nth_share(usage.completion, share, shares);
        let scores = match request.ask.kind() {
            RequestKind::Score => true,
            RequestKind::Entail => self.entail_by.scores(),
            _ => false,
        };
        AnswerWork {
            prompt_tokens: usage.prompt,
            completion_tokens: if scores { 0 } else { written },
            scored_tokens: 0,
            operations: 0,
        }
    }

    /// The price of a call, if the service has prices.
    fn money(&self, usage: &TokenUsage, answers: u32) -> Option<MoneyAmount> {
        let price = self.price.as_ref()?;
        Some(MoneyAmount { nanos: price.nanos_of(usage, u64::from(answers)), currency: price.currency.clone() })
    }
}

/// The `nth` of equal shares of a whole; the first has the remainder.
fn nth_share(whole: u64, nth: usize, shares: usize) -> u64 {
    let shares = shares.max(1) as u64;
    whole / shares + if nth == 0 { whole % shares } else { 0 }
}

/// The answer that a text is: itself, or an entailment.
fn written_answer(request: &Request, choice: GeneratedChoice) -> Result<Answer, Box<Response>> {
    match (request.ask.kind(), generation(choice)?) {
        (RequestKind::Entail, Answer::Generate(written)) => Ok(Answer::Entail(written_entailment(&written.text))),
        (_, answer) => Ok(answer),
    }
}

/// A generated text, or the model's refusal: it was paid, and is the same in every run.
fn generation(choice: GeneratedChoice) -> Result<Answer, Box<Response>> {
    let GeneratedChoice { text, finish, reasoning, logprobs } = choice;
    let (finish, stop) = match finish {
        FinishReason::Stop(stop) => (GenerationEnd::Stop, stop),
        FinishReason::Length => (GenerationEnd::Length, None),
        FinishReason::Filtered => (GenerationEnd::Filtered, None),
        FinishReason::Refused => {
            let message = format!("the model refuses: {text}");
            return Err(Box::new(Response::failure(FailureKind::Refused, message)));
        }
    };
    Ok(Answer::Generate(Generation { text, finish, stop, reasoning: reasoning.unwrap_or_default(), logprobs }))
}

/// The answer to a request whose call has one answer.
fn single_answer(corpus: &Corpus, request: &Request, answer: CallAnswer) -> Result<Answer, Box<Response>> {
    Ok(match (request.ask.kind(), answer) {
        (_, CallAnswer::Retrieved(found)) => {
            let ranking = found_passages(corpus, request, &found);
            let failure = |message| CallFailure { kind: CallFailureKind::Malformed, message };
            return ranking.map(Answer::Retrieve).map_err(|message| Box::new(call_failure(failure(message))));
        }
        (RequestKind::Entail, CallAnswer::Scored(logprobs)) => {
            Answer::Entail(logprobs.iter().map(|&logprob| f64::from(logprob)).sum::<f64>().exp())
        }
        (_, CallAnswer::Scored(logprobs)) => {
            let zeroes = vec![0.0; logprobs.len()];
            Answer::Score(TargetScores {
                logits: logprobs,
                log_sum_exps: vec![(SCORED_TEMPERATURE, zeroes)],
                ends: false,
            })
        }
        (_, CallAnswer::Embedded(mut vectors)) => Answer::Embed(vectors.pop().unwrap_or_default()),
        (_, CallAnswer::Reranked(relevances)) => Answer::Rerank(relevances),
        (_, CallAnswer::Generated(choices)) => {
            let text = choices.into_iter().next().map(|choice| choice.text).unwrap_or_default();
            Answer::Generate(Generation::new(text, GenerationEnd::Stop))
        }
    })
}

/// A failure of one call. It depends on settings of the server, so it holds for this run alone.
fn call_failure(failure: CallFailure) -> Response {
    let kind = match failure.kind {
        CallFailureKind::Refused => FailureKind::Refused,
        CallFailureKind::ContextOverflow => FailureKind::ContextOverflow,
        CallFailureKind::TimedOut => FailureKind::TimedOut,
        CallFailureKind::Malformed | CallFailureKind::Unavailable => FailureKind::Unavailable,
    };
    Response::failure(kind, failure.message).for_this_run()
}
