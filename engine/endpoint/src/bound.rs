//! The most that an attempt may cost, and the causes of its end after which it may have been paid for.

use crate::settings::EndpointSettings;
use crate::spending::SpentAmounts;
use crate::verdict::AttemptCause;
use crate::wire::PreparedCall;

/// Tokens that a server's template may add to a prompt: its special tokens, and a system prompt of its own.
const TEMPLATE_TOKENS: u64 = 64;

/// Tokens that it may add to each message or document.
const MESSAGE_TOKENS: u64 = 8;

/// The most tokens of a choice without `max_tokens`, if the settings do not say the model's context.
const LARGEST_CONTEXT: u64 = 131_072;

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
