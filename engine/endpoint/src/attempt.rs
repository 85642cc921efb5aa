//! The life of one call: attempts, pauses, its deadline, its end.
//!
//! ```text
//!   prepared --admitted, begun--> exchanged --read--> cause --settled--> answered | failed
//!       ^   |                                          |
//!       |   +--> failed (given up)                     +--> kept without an answer (drained, or the endpoint is wrong)
//!       +---------- retry, limit, missing choices -----+
//! ```
//!
//! Choices are told when they come, and never wait for missing ones: a run that leaves meanwhile has paid for them.

use crate::answer::{
    CallAnswer, CallEnd, CallFailure, CallVerdict, FailureKind, TokenUsage, count_tokens, count_written, empty_end,
};
use crate::bound::{attempt_bound, may_be_paid};
use crate::call::EndpointCall;
use crate::classify::{KnownAnswers, classify_status};
use crate::exchange::retry_after::{REQUEST_LIMIT, TOKEN_LIMIT, remaining_limit};
use crate::exchange::{ExchangeBounds, HttpReply, exchange_once};
use crate::flow::{AttemptEffect, AttemptEnd, AttemptPermit, AttemptWish, FlowGate};
use crate::host::{AttemptGuard, EndpointFault, EndpointHost};
use crate::key::ApiKey;
use crate::needs::missing_ability;
use crate::pause::PauseRule;
use crate::settings::EndpointSettings;
use crate::spending::{AttemptBill, SpendingPermit, SpentAmounts, await_permit};
use crate::transport::{ApiRoute, ReplicaTransport};
use crate::usage::UsageCounters;
use crate::verdict::{AttemptCause, FaultKind, NextStep, ServerSignal};
use crate::wire::{PartAnswer, PreparedCall, ReplyFacts};
use reqwest::header::HeaderMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// The tokens of a choice without `max_tokens`, for the reservation of a rate.
const UNBOUNDED_TOKENS: u64 = 512;

/// The receiver of a call's end, and of its parts before.
pub(crate) type CallReceiver = Box<dyn FnMut(CallEnd) + Send>;

/// Everything that the calls of one endpoint share.
pub(crate) struct EndpointShared {
    /// The endpoint's name, for logs.
    pub(crate) name: String,
    pub(crate) settings: EndpointSettings,
    pub(crate) replicas: Vec<ReplicaTransport>,
    pub(crate) key: Option<ApiKey>,
    pub(crate) gate: Arc<FlowGate>,
    pub(crate) host: EndpointHost,
    pub(crate) usage: UsageCounters,
    pub(crate) pauses: PauseRule,
    /// By path: whether the model has answered there since the client was opened.
    pub(crate) answering: [AtomicBool; ApiRoute::COUNT],
    pub(crate) faulted: AtomicBool,
    pub(crate) calls: AtomicU64,
    /// Tokens by which the server's counts were above the bounds of attempts.
    pub(crate) prompt_excess: AtomicU64,
}

/// A call on its way.
pub(crate) struct CallProgress {
    number: u64,
    prepared: PreparedCall,
    /// The choices told so far.
    have: u32,
    /// The end, or its next part, as far as it is known.
    end: CallEnd,
    /// Faults that count.
    counted: u32,
    /// Faults and limits in a row, for the pauses.
    in_row: u32,
    /// Time at the server that counts.
    spent: Duration,
    /// The last fault, as the failure that it would be.
    last_fault: Option<CallFailure>,
    /// The replica that failed the call last.
    avoid: Option<usize>,
}

/// The claims of an attempt under way, until its end.
struct AttemptClaims {
    permit: AttemptPermit,
    spending: SpendingPermit,
    guard: AttemptGuard,
}

/// The result of one attempt.
struct AttemptResult {
    cause: AttemptCause,
    /// Whether it is the fault of a shared connection that another call has told.
    repeats: bool,
    message: String,
    named: Option<Duration>,
    answer: Option<PartAnswer>,
    facts: ReplyFacts,
}

/// The call's way on after an attempt.
enum CallCourse {
    /// Another attempt after a pause.
    Again(Duration),
    /// Its end, or a part of it.
    End(CallVerdict),
    /// No attempt any more: the endpoint is wrong.
    Kept,
}

/// A call before its first attempt, or its end if the dialect lacks what it needs. Boxed, since a future keeps a place
/// for each form of what goes through it.
pub(crate) type WaitingCall = Result<Box<CallProgress>, Box<CallEnd>>;

/// Writes the body of a call.
pub(crate) fn prepare_call(shared: &EndpointShared, call: EndpointCall) -> WaitingCall {
    match missing_ability(&shared.settings, &call) {
        Some(reason) => {
            shared.usage.count_cause(AttemptCause::BeyondDialect);
            Err(Box::new(CallEnd { verdict: failed(FailureKind::Refused, reason), ..empty_end() }))
        }
        None => Ok(Box::new(CallProgress::new(shared, call))),
    }
}

/// Runs a call to its end. A call that is kept without an answer stays here until the endpoint is dropped.
pub(crate) async fn run_call(shared: Arc<EndpointShared>, call: WaitingCall, mut done: CallReceiver) {
    let progress = match call {
        Ok(progress) => progress,
        Err(end) => return shared.end_call(*end, &mut done),
    };
    if answer_call(&shared, progress, &mut done).await.is_none() {
        std::future::pending().await
    }
}

/// Runs a call until `done` has its end, and its parts before; `None` if it is kept without an answer.
async fn answer_call(
    shared: &Arc<EndpointShared>,
    mut progress: Box<CallProgress>,
    done: &mut CallReceiver,
) -> Option<()> {
    loop {
        let queued = Instant::now();
        let (have, ask) = (progress.have, progress.ask(&shared.settings));
        let (call, prefix) = (progress.number, progress.prepared.prefix);
        let wish = AttemptWish { call, tokens: progress.reservation(ask), prefix, avoid: progress.avoid };
        let Some(permit) = shared.gate.admit(wish).await else {
            shared.end_call(progress.give_up(shared)?, done);
            return Some(());
        };
        let bound = progress.bound(shared, ask);
        let spending = await_permit(&shared.host.reserve, bound).await?;
        let Some(guard) = (shared.host.begin_attempt)() else {
            spending.settle(AttemptBill::Nothing);
            return None;
        };
        let begun = Instant::now();
        add_micros(&mut progress.end.queue_us, begun - queued);
        let result = progress.attempt_once(shared, &permit, ask, have).await;
        let took = begun.elapsed();
        add_micros(&mut progress.end.service_us, took);
        match progress.settle(shared, AttemptClaims { permit, spending, guard }, result, took) {
            CallCourse::Again(pause) => {
                if !pause.is_zero() {
                    tokio::time::sleep(pause).await;
                    add_micros(&mut progress.end.queue_us, pause);
                }
            }
            CallCourse::End(verdict @ CallVerdict::Part(_)) => done(progress.take_end(verdict)),
            CallCourse::End(verdict) => {
                shared.gate.forget(call);
                shared.end_call(progress.take_end(verdict), done);
                return Some(());
            }
            CallCourse::Kept => return None,
        }
    }
}

impl CallProgress {
    fn new(shared: &EndpointShared, call: EndpointCall) -> Self {
        Self {
            number: shared.calls.fetch_add(1, Ordering::Relaxed),
            prepared: PreparedCall::prepare(&shared.settings, call),
            have: 0,
            end: empty_end(),
            counted: 0,
            in_row: 0,
            spent: Duration::ZERO,
            last_fault: None,
            avoid: None,
        }
    }

    /// The end so far, with a verdict. The figures of the next part begin anew.
    fn take_end(&mut self, verdict: CallVerdict) -> CallEnd {
        CallEnd { verdict, ..std::mem::replace(&mut self.end, empty_end()) }
    }

    /// The failure of a call that was given up; `None` if it is kept without an answer.
    fn give_up(&mut self, shared: &EndpointShared) -> Option<CallEnd> {
        if !shared.gate.is_given_up(self.number) {
            return None;
        }
        self.end.guard = Some((shared.host.begin_attempt)()?);
        shared.gate.forget(self.number);
        let fault = self.last_fault.take().expect("a call that was given up has failed, this is a bug");
        let CallFailure { kind, message } = fault;
        let ended = format!("{message} (after {} attempts, while the server works)", self.end.attempts);
        Some(self.take_end(failed(kind, ended)))
    }

    /// The choices that the next attempt asks for.
    fn ask(&self, settings: &EndpointSettings) -> u32 {
        self.prepared.asked_choices(settings, self.have)
    }

    /// Tokens of the prompt, by count or by rule.
    fn prompt_tokens(&self) -> u64 {
        self.prepared.prompt_tokens.unwrap_or_else(|| count_tokens(self.prepared.prompt_bytes))
    }

    /// The tokens that the next attempt may cost.
    fn reservation(&self, ask: u32) -> u64 {
        let each = self.prepared.max_tokens.map_or(UNBOUNDED_TOKENS, u64::from);
        self.prompt_tokens() + each * u64::from(ask)
    }

    /// The most that the next attempt may cost.
    fn bound(&self, shared: &EndpointShared, ask: u32) -> SpentAmounts {
        attempt_bound(&shared.settings, &self.prepared, ask, shared.prompt_excess.load(Ordering::Relaxed))
    }

    /// Sends the request once and reads its reply.
    async fn attempt_once(
        &mut self,
        shared: &EndpointShared,
        permit: &AttemptPermit,
        ask: u32,
        have: u32,
    ) -> (AttemptResult, HeaderMap) {
        let replica = &shared.replicas[permit.replica()];
        let left = shared.settings.call_timeout().saturating_sub(self.spent);
        let bounds = ExchangeBounds {
            stall: shared.settings.stall_timeout(),
            deadline: Instant::now() + left,
            most_bytes: self.prepared.most_bytes(),
        };
        self.end.attempts += 1;
        shared.usage.count_attempt();
        let taken = replica.clients.take();
        let exchange = exchange_once(
            taken.client(),
            taken.has_answered(),
            // In place, so that the waiting future has no room for it.
            replica.post_request(self.prepared.route, self.prepared.body_for(ask, have)),
            bounds,
        );
        match exchange.await {
            Ok(reply) => {
                taken.note_answer();
                let result = self.read_reply(shared, &reply, &replica.address);
                (result, reply.headers)
            }
            Err(broken) => {
                let message = format!("{}: {}", replica.address, broken.message);
                let result = AttemptResult {
                    repeats: broken.breaks_connection && taken.note_broken(),
                    cause: broken.cause,
                    message,
                    named: None,
                    answer: None,
                    facts: ReplyFacts::default(),
                };
                (result, HeaderMap::new())
            }
        }
    }

    /// The cause of a whole reply, and its answer.
    fn read_reply(&self, shared: &EndpointShared, reply: &HttpReply, address: &str) -> AttemptResult {
        let known = shared.known_answers(self.prepared.route);
        let redact = |text: &str| {
            let text = shared.key.as_ref().map_or_else(|| text.to_owned(), |key| key.redact_text(text));
            format!("{address}: {text}")
        };
        if reply.status != 200 {
            let found = classify_status(reply, known);
            return AttemptResult {
                cause: found.cause,
                repeats: false,
                message: redact(&found.message),
                named: found.named.map(|named| named.duration()),
                answer: None,
                facts: ReplyFacts::default(),
            };
        }
        match self.prepared.read_answer(&reply.body, known.model) {
            Ok((answer, facts)) => AttemptResult {
                cause: AttemptCause::Answered,
                repeats: false,
                message: String::new(),
                named: None,
                answer: Some(answer),
                facts,
            },
            Err(fault) => AttemptResult {
                cause: fault.cause,
                repeats: false,
                message: redact(&fault.message),
                named: None,
                answer: None,
                facts: *fault.facts,
            },
        }
    }

    /// Tells the limits of the attempt's end, and decides the call's way on.
    fn settle(
        &mut self,
        shared: &EndpointShared,
        claims: AttemptClaims,
        (mut result, headers): (AttemptResult, HeaderMap),
        took: Duration,
    ) -> CallCourse {
        let AttemptClaims { permit, spending, guard } = claims;
        let ask = self.ask(&shared.settings);
        let reserved = self.reservation(ask);
        let bound = attempt_bound(&shared.settings, &self.prepared, ask, 0);
        let given = self.take_answer(shared, &mut result, ask);
        shared.usage.count_cause(result.cause);
        let row = result.cause.row();
        let usage = result.facts.usage;
        spending.settle(shared.bill(bound, usage, result.cause));
        let tokens = match row.signal {
            ServerSignal::Limited => 0,
            _ => usage.map_or(reserved, |usage| usage.prompt + usage.completion),
        };
        let remaining = [&REQUEST_LIMIT, &TOKEN_LIMIT].map(|names| remaining_limit(&headers, names));
        let end = AttemptEnd {
            signal: row.signal,
            repeats: result.repeats,
            may_be_own: result.cause.may_be_of_request(),
            tokens,
            named: result.named,
            remaining,
            message: &result.message,
        };
        self.avoid = (row.signal == ServerSignal::Faulty).then(|| permit.replica());
        let effect = permit.settle(&end);
        if let Some(verdict) = given {
            shared.answering[self.prepared.route as usize].store(true, Ordering::Relaxed);
            self.end.guard = Some(guard);
            self.in_row = 0;
            return CallCourse::End(verdict);
        }
        if row.step != NextStep::Answer && row.step != NextStep::AskRest {
            tracing::debug!(endpoint = %shared.name, call = self.number, cause = row.name, "{}", result.message);
        }
        let course = self.course_after(shared, &result, effect, took);
        if let CallCourse::End(_) = course {
            self.end.guard = Some(guard);
        }
        course
    }

    /// Takes the answer's facts. The answer, or a part of it.
    fn take_answer(&mut self, shared: &EndpointShared, result: &mut AttemptResult, ask: u32) -> Option<CallVerdict> {
        let answer = result.answer.take();
        if answer.is_none() && result.facts.usage.is_none() {
            return None;
        }
        let mut written = 0;
        let given = answer.map(|answer| match answer {
            PartAnswer::Choices(mut choices) => {
                choices.truncate(ask as usize);
                if choices.len() < ask as usize {
                    result.cause = AttemptCause::FewerChoices;
                }
                written = count_written(&choices);
                self.have += choices.len() as u32;
                match self.have < self.prepared.choices {
                    true => CallVerdict::Part(choices),
                    false => CallVerdict::Answered(CallAnswer::Generated(choices)),
                }
            }
            PartAnswer::Whole(answer) => CallVerdict::Answered(answer),
        });
        let rule = TokenUsage { prompt: self.prompt_tokens(), completion: written, ..TokenUsage::default() };
        let usage = *result.facts.usage.get_or_insert(rule);
        self.end.usage += usage;
        if given.is_some() {
            self.end.answer_usage = usage;
        }
        self.end.answers += 1;
        let facts = &mut result.facts;
        shared.usage.count_answer(usage, facts.model.as_deref(), facts.system_fingerprint.as_deref());
        self.end.model = facts.model.take().or(self.end.model.take());
        self.end.system_fingerprint = facts.system_fingerprint.take().or(self.end.system_fingerprint.take());
        given
    }

    /// The way on after an attempt without an answer.
    fn course_after(
        &mut self,
        shared: &EndpointShared,
        result: &AttemptResult,
        effect: AttemptEffect,
        took: Duration,
    ) -> CallCourse {
        match result.cause.row().step {
            // What came is told already; several choices are asked for one after the other, or again.
            NextStep::Answer | NextStep::AskRest => CallCourse::Again(Duration::ZERO),
            NextStep::Fail(kind) => CallCourse::End(failed(kind, result.message.clone())),
            NextStep::Wait => CallCourse::Again(self.next_pause(shared, result.named)),
            NextStep::Retry(kind) => self.course_after_fault(shared, result, effect, took, kind),
            NextStep::Leave(kind) => {
                let message = format!("{} ({})", result.message, shared.settings.model);
                shared.raise_fault(match kind {
                    FaultKind::Unauthorized => EndpointFault::Unauthorized { message },
                    FaultKind::UnknownModel => EndpointFault::UnknownModel { message },
                    FaultKind::QuotaUsedUp => EndpointFault::QuotaUsedUp { message },
                });
                CallCourse::Kept
            }
        }
    }

    /// Another attempt, or the failure of a call whose attempts or time are used up while the server answers others.
    fn course_after_fault(
        &mut self,
        shared: &EndpointShared,
        result: &AttemptResult,
        effect: AttemptEffect,
        took: Duration,
        kind: FailureKind,
    ) -> CallCourse {
        let pause = self.next_pause(shared, result.named);
        self.last_fault = Some(CallFailure { kind, message: result.message.clone() });
        if effect.counted {
            self.counted += 1;
            self.spent += took;
        }
        let out_of_time = self.spent >= shared.settings.call_timeout();
        if self.counted < shared.settings.attempts && !out_of_time {
            return CallCourse::Again(pause);
        }
        let works = result.cause.row().signal == ServerSignal::Alive;
        if works || effect.saw_answers {
            let kind = if out_of_time { FailureKind::TimedOut } else { kind };
            let message = format!("{} (after {} attempts)", result.message, self.end.attempts);
            return CallCourse::End(failed(kind, message));
        }
        // No answer shows that the server works for others: the endpoint's patience decides.
        self.counted = 0;
        self.spent = Duration::ZERO;
        CallCourse::Again(pause)
    }

    fn next_pause(&mut self, shared: &EndpointShared, named: Option<Duration>) -> Duration {
        self.in_row += 1;
        shared.pauses.pause_after(self.in_row, named, self.number)
    }
}

impl EndpointShared {
    /// Counts the end of a call, and tells it.
    fn end_call(&self, end: CallEnd, done: &mut CallReceiver) {
        self.usage.count_end(&end.verdict);
        done(end);
    }

    /// The answers before a reply on this path. A journal does not say on which path it has some: it counts for all of
    /// them as long as none answers now.
    fn known_answers(&self, route: ApiRoute) -> KnownAnswers {
        let answers = |path: &AtomicBool| path.load(Ordering::Relaxed);
        let answering = self.answering.iter().any(answers);
        let model = answering || (self.host.model_known)();
        KnownAnswers { model, path: answers(&self.answering[route as usize]) || model && !answering }
    }

    /// The bill of an attempt: what was counted, else by its cause.
    fn bill(&self, bound: SpentAmounts, usage: Option<TokenUsage>, cause: AttemptCause) -> AttemptBill {
        let Some(usage) = usage else {
            return if may_be_paid(cause) { AttemptBill::Unanswered } else { AttemptBill::Nothing };
        };
        let tokens = usage.prompt + usage.completion;
        if tokens > bound.tokens {
            let known = self.prompt_excess.fetch_max(tokens - bound.tokens, Ordering::Relaxed);
            if known == 0 {
                tracing::warn!(
                    endpoint = %self.name,
                    "the server counts {tokens} tokens where {} were its bound: its template is large, or the \
                     settings' `body` raises the tokens written; later bounds are higher",
                    bound.tokens
                );
            }
        }
        let money_nanos = self.settings.price.as_ref().map_or(0, |price| price.nanos_of(&usage, 1));
        AttemptBill::Counted(SpentAmounts { calls: 1, tokens, money_nanos })
    }

    /// Tells the host of a fault, once, and lets no attempt begin any more.
    pub(crate) fn raise_fault(&self, fault: EndpointFault) {
        self.gate.close();
        if !self.faulted.swap(true, Ordering::Relaxed) {
            tracing::error!(endpoint = %self.name, "{fault}");
            (self.host.fault)(fault);
        }
    }
}

fn failed(kind: FailureKind, message: String) -> CallVerdict {
    CallVerdict::Failed(CallFailure { kind, message })
}

fn add_micros(sum: &mut u64, time: Duration) {
    *sum += time.as_micros() as u64;
}
