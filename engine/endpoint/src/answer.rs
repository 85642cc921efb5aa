//! Ends of calls: answers, failures, and what they cost.

use crate::host::AttemptGuard;
use std::fmt;

/// The end of a call, or of a part of it. Its figures are those since the part before.
pub struct CallEnd {
    /// The answer, or the reason for its absence.
    pub verdict: CallVerdict,
    /// HTTP requests that were begun.
    pub attempts: u32,
    /// Tokens of all answers that the server counted or gave.
    pub usage: TokenUsage,
    /// Tokens of the verdict's answer alone. Alike however often it was asked for.
    pub answer_usage: TokenUsage,
    /// Answers of the server that `usage` counts: requests to pay.
    pub answers: u32,
    /// The model by the server's own account, if it gave one.
    pub model: Option<String>,
    /// The server's fingerprint of its software and weights, if it gave one.
    pub system_fingerprint: Option<String>,
    /// Microseconds of waiting: for the limits, for outages, between attempts.
    pub queue_us: u64,
    /// Microseconds of the attempts themselves.
    pub service_us: u64,
    /// The guard of the last attempt ([`crate::EndpointHost::begin_attempt`]). Hold it until the answer is recorded.
    pub guard: Option<AttemptGuard>,
}

impl fmt::Debug for CallEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            verdict,
            attempts,
            usage,
            answer_usage,
            answers,
            model,
            system_fingerprint,
            queue_us,
            service_us,
            guard: _,
        } = self;
        f.debug_struct("CallEnd")
            .field("verdict", verdict)
            .field("attempts", attempts)
            .field("usage", usage)
            .field("answer_usage", answer_usage)
            .field("answers", answers)
            .field("model", model)
            .field("system_fingerprint", system_fingerprint)
            .field("queue_us", queue_us)
            .field("service_us", service_us)
            .finish_non_exhaustive()
    }
}

/// An answer or a failure.
#[derive(Clone, Debug, PartialEq)]
pub enum CallVerdict {
    /// The server answered.
    Answered(CallAnswer),
    /// It gave the next of a generation's choices, which are paid for. The others have an end of their own.
    Part(Vec<GeneratedChoice>),
    /// It did not, and this is the call's own end.
    Failed(CallFailure),
}

/// An answer, by the kind of its call.
#[derive(Clone, Debug, PartialEq)]
pub enum CallAnswer {
    /// To a generation: the choices that no part had.
    Generated(Vec<GeneratedChoice>),
    /// To a score: the log-probability of each target token.
    Scored(Vec<f32>),
    /// To an embedding: a vector for each text, all of one length.
    Embedded(Vec<Vec<f32>>),
    /// To reranking: the relevance of each document.
    Reranked(Vec<f64>),
    /// To a retrieval: at most `k` passages, each id once, with scores that do not rise.
    Retrieved(Vec<FoundPassage>),
}

/// A passage that a retriever found.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundPassage {
    /// Its id, in the retriever's words.
    pub id: String,
    /// Its score, finite.
    pub score: f64,
}

/// One generated text.
#[derive(Clone, Debug, PartialEq)]
pub struct GeneratedChoice {
    /// The text, without its stop string and without thoughts that were set apart. A refusal's own words, if the
    /// server set them apart from the text.
    pub text: String,
    /// The reason for its end.
    pub finish: FinishReason,
    /// The thoughts of a reasoning model, if the server gave them.
    pub reasoning: Option<String>,
    /// The log-probability of each token, if they were asked for.
    pub logprobs: Vec<f32>,
}

/// The reason for a text's end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// A stop string (known only from some servers, and where the client cut the text) or the sequence's end.
    Stop(Option<String>),
    /// `max_tokens`, or the end of the model's context.
    Length,
    /// The server's filter cut or withheld the text.
    Filtered,
    /// The model refused, in the answer's field for refusals.
    Refused,
}

/// A call without an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallFailure {
    /// The kind.
    pub kind: FailureKind,
    /// For people; without the key.
    pub message: String,
}

/// The kind of a call's failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FailureKind {
    /// The server will not answer this request: it is invalid, filtered, or needs something that the dialect lacks.
    Refused,
    /// The prompt and `max_tokens` do not fit into the model's context.
    ContextOverflow,
    /// The call's time was used up.
    TimedOut,
    /// The answers stayed unreadable.
    Malformed,
    /// The server failed on this call again and again, while it answered others or was seen to work.
    Unavailable,
}

impl FailureKind {
    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::ContextOverflow => "context_overflow",
            Self::TimedOut => "timed_out",
            Self::Malformed => "malformed",
            Self::Unavailable => "unavailable",
        }
    }
}

/// Tokens of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenUsage {
    /// Read.
    pub prompt: u64,
    /// Read from the server's cache of prefixes; part of `prompt`.
    pub cached_prompt: u64,
    /// Written, thoughts included.
    pub completion: u64,
    /// Thoughts; part of `completion`.
    pub reasoning: u64,
    /// Whether the server counted them. Otherwise each text counts by [`count_tokens`].
    pub measured: bool,
}

impl std::ops::AddAssign for TokenUsage {
    /// Sums; measured if both are. A usage of zero tokens is neutral.
    fn add_assign(&mut self, other: Self) {
        let measured = match (*self == Self::default(), other == Self::default()) {
            (true, _) => other.measured,
            (_, true) => self.measured,
            _ => self.measured && other.measured,
        };
        *self = Self {
            prompt: self.prompt + other.prompt,
            cached_prompt: self.cached_prompt + other.cached_prompt,
            completion: self.completion + other.completion,
            reasoning: self.reasoning + other.reasoning,
            measured,
        };
    }
}

/// The tokens of a text where nobody counted them: one for each three bytes, rounded up. English text has about four
/// bytes a token, so the rule seldom counts too few.
pub fn count_tokens(bytes: usize) -> u64 {
    bytes.div_ceil(3) as u64
}

/// The tokens of texts and thoughts by [`count_tokens`].
pub(crate) fn count_written(choices: &[GeneratedChoice]) -> u64 {
    let tokens = |choice: &GeneratedChoice| {
        count_tokens(choice.text.len()) + count_tokens(choice.reasoning.as_ref().map_or(0, String::len))
    };
    choices.iter().map(tokens).sum()
}

/// An end before the first attempt.
pub(crate) fn empty_end() -> CallEnd {
    CallEnd {
        verdict: CallVerdict::Failed(CallFailure { kind: FailureKind::Unavailable, message: String::new() }),
        attempts: 0,
        usage: TokenUsage::default(),
        answer_usage: TokenUsage::default(),
        answers: 0,
        model: None,
        system_fingerprint: None,
        queue_us: 0,
        service_us: 0,
        guard: None,
    }
}
