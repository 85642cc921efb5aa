//! Spending: the most that an attempt may cost, its bill, and the run's permission for it.
//!
//! A server may be paid for an attempt that it never answered. So each attempt has a bound before it is sent, and one
//! of three bills at its end: what the server counted, nothing, or unknown, and then the bound stands.

use crate::settings::EndpointSettings;
use crate::verdict::AttemptCause;
use crate::wire::PreparedCall;
use serde::{Deserialize, Serialize};
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::sync::Arc;
use tokio::sync::oneshot;

/// Tokens that a server's template may add to a prompt: its special tokens, and a system prompt of its own.
const TEMPLATE_TOKENS: u64 = 64;

/// Tokens that it may add to each message or document.
const MESSAGE_TOKENS: u64 = 8;

/// The most tokens of a choice without `max_tokens`, if the settings do not say the model's context.
const LARGEST_CONTEXT: u64 = 131_072;

/// What attempts have cost, or may cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpentAmounts {
    /// HTTP requests that the server answered, or may have.
    pub calls: u64,
    /// Tokens read and written.
    pub tokens: u64,
    /// Billionths of the currency's unit.
    pub money_nanos: u64,
}

impl SpentAmounts {
    /// Whether no figure is larger than the other's.
    pub fn fits_in(&self, other: &Self) -> bool {
        self.calls <= other.calls && self.tokens <= other.tokens && self.money_nanos <= other.money_nanos
    }

    /// Each figure of two by a function.
    #[must_use]
    pub fn join(self, other: Self, join: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            calls: join(self.calls, other.calls),
            tokens: join(self.tokens, other.tokens),
            money_nanos: join(self.money_nanos, other.money_nanos),
        }
    }
}

impl Add for SpentAmounts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        self.join(other, u64::saturating_add)
    }
}

impl AddAssign for SpentAmounts {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for SpentAmounts {
    type Output = Self;

    /// The difference; 0 where the other figure is larger.
    fn sub(self, other: Self) -> Self {
        self.join(other, u64::saturating_sub)
    }
}

impl SubAssign for SpentAmounts {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

/// The bill of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptBill {
    /// The server counted it.
    Counted(SpentAmounts),
    /// It was not sent, or the server refused it before it computed anything.
    Nothing,
    /// It may have been computed, and no answer says so: the bound stands.
    Unanswered,
}

/// The run's permission to spend the bound of one attempt. Dropped without a bill, the bound stands.
pub struct SpendingPermit(Option<Box<dyn FnOnce(AttemptBill) + Send>>);

impl SpendingPermit {
    /// A permission that gives the attempt's bill to `settle`, once.
    pub fn new(settle: impl FnOnce(AttemptBill) + Send + 'static) -> Self {
        Self(Some(Box::new(settle)))
    }

    /// The attempt has ended.
    pub fn settle(mut self, bill: AttemptBill) {
        if let Some(settle) = self.0.take() {
            settle(bill);
        }
    }
}

impl Drop for SpendingPermit {
    fn drop(&mut self) {
        if let Some(settle) = self.0.take() {
            settle(AttemptBill::Unanswered);
        }
    }
}

/// Takes a permission, at once or later, on any thread.
pub type PermitReceiver = Box<dyn FnOnce(SpendingPermit) + Send>;

/// Asked before each attempt for its bound. It gives the permission when the run may spend so much, and drops the
/// receiver when it never may: then the call is kept.
pub type SpendingRequest = Arc<dyn Fn(SpentAmounts, PermitReceiver) + Send + Sync>;

/// Waits for the permission to spend `most`; `None` if it never comes.
pub(crate) async fn await_permit(ask: &SpendingRequest, most: SpentAmounts) -> Option<SpendingPermit> {
    let (sender, receiver) = oneshot::channel();
    ask(
        most,
        Box::new(move |permit| {
            if let Err(permit) = sender.send(permit) {
                // The call is gone: nothing was sent.
                permit.settle(AttemptBill::Nothing);
            }
        }),
    );
    receiver.await.ok()
}

/// The most that an attempt may cost which asks for `ask` choices. `excess` are the most tokens by which a server's own
/// count of a prompt was ever above this bound.
pub(crate) fn attempt_bound(settings: &EndpointSettings, call: &PreparedCall, ask: u32, excess: u64) -> SpentAmounts {
    // A token has at least one byte, whatever the vocabulary.
    let texts = call.counted_tokens.or(call.prompt_tokens).unwrap_or(call.prompt_bytes as u64);
    let prompt = texts + TEMPLATE_TOKENS + MESSAGE_TOKENS * call.texts as u64 + excess;
    let unbounded = settings.context_tokens.map_or(LARGEST_CONTEXT, u64::from);
    let written = call.max_tokens.map_or(unbounded, u64::from) * u64::from(ask);
    let money_nanos = settings.price.as_ref().map_or(0, |price| price.most_nanos(prompt, written));
    SpentAmounts { calls: 1, tokens: prompt + written, money_nanos }
}

/// Whether a server may have computed an answer, and be paid for it, though an attempt ended for this cause without
/// counted tokens.
pub(crate) fn may_be_paid(cause: AttemptCause) -> bool {
    use AttemptCause as Cause;
    match cause {
        // The connection or the time ended, or the answer was spoilt, on the way; gateways give up on servers that
        // go on computing.
        Cause::ResetBeforeHeaders
        | Cause::NotHttp
        | Cause::CutBody
        | Cause::StallBeforeHeaders
        | Cause::StallInBody
        | Cause::DeadlineInBody
        | Cause::Status502
        | Cause::Status504
        | Cause::Status5xx
        | Cause::NotJson
        | Cause::ErrorInAnswer
        | Cause::NoChoices
        | Cause::NullContent
        | Cause::Aborted
        | Cause::WrongShape
        | Cause::AnswerTooLong
        | Cause::Answered
        | Cause::FewerChoices => true,
        // Nothing was sent, it was refused at the door, or the server itself says that it failed.
        Cause::ConnectionRefused
        | Cause::Unreachable
        | Cause::Status500
        | Cause::Status503
        | Cause::Overloaded
        | Cause::ModelGone
        | Cause::TryAgain
        | Cause::LimitSeconds
        | Cause::LimitDate
        | Cause::LimitUnknown
        | Cause::QuotaUsedUp
        | Cause::Unauthorized
        | Cause::Forbidden
        | Cause::UnknownModel
        | Cause::Redirected
        | Cause::BadRequest
        | Cause::BareBadRequest
        | Cause::PromptFiltered
        | Cause::ContextOverflow
        | Cause::BeyondDialect => false,
    }
}
