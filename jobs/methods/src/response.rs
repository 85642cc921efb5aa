//! Responses to requests: an answer of the request's kind or a failure, and its work.
//!
//! The first journals hold responses as JSON under these names: a name changed in Rust keeps its old form with
//! `serde(rename)`. Journals of today have names and numbers of their own.

use crate::request::{PassageId, Request, RequestKind, RequestPayload};
use serde::{Deserialize, Serialize};

/// The response to one request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Response {
    /// The answer, or the reason for its absence.
    pub result: Result<Answer, Failure>,
    /// Work of the request alone, cached or not; the same in every run.
    pub work: AnswerWork,
    /// Measured facts about the call that brought the answer; `None` for answers that were computed here. They differ
    /// from run to run, so machines never see them.
    #[serde(default)]
    pub facts: Option<Box<CallFacts>>,
    /// Whether a failure holds for this run alone, although its kind is determinate: an endpoint's refusal or overflow
    /// depends on settings of its server that no fingerprint knows. False for answers.
    #[serde(default)]
    pub run_only: bool,
    /// A report on the prompt, or on the texts given to a model, if there were any.
    pub prompt: Option<PromptReport>,
    /// Texts of the answer's passages, in its order, if the request wanted to read them. They come from the mapped
    /// corpus on delivery and are never journalled.
    pub passages: Vec<PassageText>,
}

/// An answer, by kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Answer {
    /// To [`RequestPayload::Retrieve`]: best first; a total order.
    Retrieve(Vec<RetrievalHit>),
    /// To [`RequestPayload::Passages`]: those found, in the order asked, and for titles in corpus order.
    Passages(Vec<PassageId>),
    /// To [`RequestPayload::Links`].
    Links(Vec<PassageId>),
    /// To [`RequestPayload::Score`].
    Score(TargetScores),
    /// To [`RequestPayload::Label`].
    Label(ChunkLabels),
    /// To [`RequestPayload::Filter`]: the next query; may be empty.
    Filter(String),
    /// To [`RequestPayload::Rerank`]: a relevance per item.
    Rerank(Vec<f64>),
    /// To [`RequestPayload::Entail`]: the probability of entailment, or 0 or 1 if the model only decides.
    Entail(f64),
    /// To [`RequestPayload::Read`]: best first.
    Read(Vec<AnswerSpan>),
    /// To [`RequestPayload::Embed`].
    Embed(Vec<f32>),
    /// To [`RequestPayload::Generate`].
    Generate(Generation),
}

/// A retrieved passage.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RetrievalHit {
    /// The passage.
    pub passage: PassageId,
    /// The retriever's score.
    pub score: f64,
}

/// Rows of a scored target. Sums, means and ensembles of them are plain arithmetic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TargetScores {
    /// For each target token its logit.
    pub logits: Vec<f32>,
    /// For each temperature, and for each target token, the log-sum-exp of logits / temperature.
    pub log_sum_exps: Vec<(f64, Vec<f32>)>,
    /// Whether the last target token is the end of the sequence.
    pub ends: bool,
}

impl TargetScores {
    /// Log-probability of each target token at a temperature, if it was computed.
    pub fn logprobs(&self, temperature: f64) -> Option<impl Iterator<Item = f64> + '_> {
        let (_, sums) = self.log_sum_exps.iter().find(|(t, _)| *t == temperature)?;
        Some(self.logits.iter().zip(sums).map(move |(&logit, &sum)| f64::from(logit) / temperature - f64::from(sum)))
    }
}

/// The labels of one chunk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChunkLabels {
    /// The kept tokens as text.
    pub information: String,
    /// Logits of the chunk's tag, in the checkpoint's order.
    pub tag_logits: Vec<f32>,
}

/// An extracted answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AnswerSpan {
    /// The text of the answer.
    pub text: String,
    /// Score of the span.
    pub score: f64,
    /// Score of the context as a whole, if the model has such a head.
    pub rank: Option<f64>,
    /// Index of the prompt part with the span, and its bytes there.
    pub at: Option<(u32, u32, u32)>,
}

/// A generated text.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Generation {
    /// Without the stop string, and without the reasoning of a reasoning model.
    pub text: String,
    /// Why it ended.
    pub finish: FinishReason,
    /// The stop string that ended it; `None` if it ended otherwise, or if the service does not say which.
    #[serde(default)]
    pub stop: Option<String>,
    /// Log-probability of each token, if asked for.
    pub logprobs: Vec<f32>,
    /// The text that a reasoning model wrote before its answer, if the service gives it; else empty.
    #[serde(default)]
    pub reasoning: String,
}

/// Why a generation ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// A stop string or the end of the sequence.
    #[default]
    Stop,
    /// `max_tokens`.
    Length,
    /// A content filter cut the text. (A prompt that a filter refuses has no text: that is [`FailureKind::Refused`].)
    Filtered,
}

impl FinishReason {
    /// The name in transcripts.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::Filtered => "filtered",
        }
    }
}

/// Measured facts about a call to an endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CallFacts {
    /// Attempts that were sent for it, the successful one included.
    pub attempts: u32,
    /// Whether the endpoint counted the tokens of the work; otherwise they were counted here.
    pub tokens_measured: bool,
    /// Prompt tokens that the endpoint had in its cache; `None` if it does not say.
    pub cached_prompt_tokens: Option<u64>,
    /// Written tokens that were reasoning; `None` if it does not say.
    pub reasoning_tokens: Option<u64>,
    /// The price of the call; `None` if the service has no price.
    pub money: Option<MoneyAmount>,
    /// The model that answered, in the endpoint's words.
    pub model: Option<String>,
    /// The endpoint's fingerprint of its system.
    pub system_fingerprint: Option<String>,
}

/// An amount of money.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MoneyAmount {
    /// Billionths of the currency's unit: prices are given for a million tokens, so a token costs whole billionths in
    /// practice.
    pub nanos: u64,
    /// The currency, as the job names it, such as `USD`.
    pub currency: String,
}

/// The work of an answer, deterministic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerWork {
    /// Tokens read.
    pub prompt_tokens: u64,
    /// Tokens written.
    pub completion_tokens: u64,
    /// Target tokens scored.
    pub scored_tokens: u64,
    /// Operations of the device: floating-point operations of a model, postings of an index.
    pub operations: u64,
}

impl std::ops::AddAssign for AnswerWork {
    fn add_assign(&mut self, other: Self) {
        self.prompt_tokens += other.prompt_tokens;
        self.completion_tokens += other.completion_tokens;
        self.scored_tokens += other.scored_tokens;
        self.operations += other.operations;
    }
}

/// The length and cuts of a prompt put together. Texts beside a prompt, or without one, are parts behind its own, in
/// the request's order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptReport {
    /// Tokens of the whole, special ones included.
    pub tokens: u32,
    /// Parts left out.
    pub dropped: Vec<u32>,
    /// Parts cut, each with the tokens it lost.
    pub cut: Vec<(u32, u32)>,
    /// Tokens of each part in the whole, 0 for parts left out; empty unless [`crate::Prompt::count_parts`]. A token
    /// across the end of a part counts for the next one; special tokens around the whole count for none.
    #[serde(default)]
    pub part_tokens: Vec<u32>,
}

impl PromptReport {
    /// A report on texts without a prompt, by the tokens lost in each.
    pub fn of_texts(tokens: usize, lost: impl IntoIterator<Item = usize>) -> Self {
        let mut report = Self { tokens: tokens as u32, ..Self::default() };
        (0..).zip(lost).for_each(|(part, lost)| report.add_lost_tokens(part, lost));
        report
    }

    /// Adds to the lost tokens of a part.
    pub fn add_lost_tokens(&mut self, part: usize, tokens: usize) {
        if tokens == 0 {
            return;
        }
        let (part, tokens) = (part as u32, tokens as u32);
        match self.cut.binary_search_by_key(&part, |&(part, _)| part) {
            Ok(at) => self.cut[at].1 += tokens,
            Err(at) => self.cut.insert(at, (part, tokens)),
        }
    }

    /// Whether the model got less than requested.
    pub fn is_cut(&self) -> bool {
        !self.dropped.is_empty() || !self.cut.is_empty()
    }
}

/// The text of a passage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassageText {
    /// The passage.
    pub passage: PassageId,
    /// Its title.
    pub title: String,
    /// Its text.
    pub text: String,
    /// The byte ends of its sentences in `text`, ascending, as the corpus has them; empty if it has none. White space
    /// between sentences belongs to the sentence before it or after it, as the dataset has it.
    #[serde(default)]
    pub sentences: Vec<u32>,
}

impl PassageText {
    /// A text without sentences.
    pub fn new(passage: PassageId, title: impl Into<String>, text: impl Into<String>) -> Self {
        Self { passage, title: title.into(), text: text.into(), sentences: Vec::new() }
    }

    /// Its sentences without white space around them: those of the corpus, or by [`hopeval_pytext::sentence_ends`] if
    /// the corpus has none. Their positions are the indexes of [`crate::SupportingSentence`].
    ///
    /// # Panics
    /// If an end is no character boundary of the text: a bug of whoever filled it in.
    pub fn sentence_texts(&self) -> Vec<&str> {
        let split = || hopeval_pytext::sentence_ends(&self.text);
        let known = || self.sentences.iter().map(|&end| end as usize).collect();
        let ends: Vec<usize> = if self.sentences.is_empty() { split() } else { known() };
        let begins = std::iter::once(0).chain(ends.iter().copied());
        begins.zip(&ends).map(|(begin, &end)| self.text[begin..end].trim()).collect()
    }
}

/// The reason for a request without an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The kind of failure.
    pub kind: FailureKind,
    /// For people.
    pub message: String,
}

/// The kind of a request's failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The service will not answer this payload (content filter, invalid request).
    Refused,
    /// The prompt does not fit, whatever the overflow rules allow.
    ContextOverflow,
    /// The answer has another form than requested.
    ParseFailure,
    /// No answer in time.
    TimedOut,
    /// The service is down or answered with an error of its own.
    Unavailable,
    /// The device was lost.
    DeviceLost,
    /// The service dropped the request without an answer.
    Dropped,
}

impl FailureKind {
    /// Every kind of failure, in the order of the tables.
    pub const ALL: [FailureKind; 7] = [
        FailureKind::Refused,
        FailureKind::ContextOverflow,
        FailureKind::ParseFailure,
        FailureKind::TimedOut,
        FailureKind::Unavailable,
        FailureKind::DeviceLost,
        FailureKind::Dropped,
    ];

    /// Whether the same request would fail again. Such failures are journalled. Other failures are kept for this run
    /// only, and a new run asks again.
    pub fn is_determinate(self) -> bool {
        matches!(self, Self::Refused | Self::ContextOverflow | Self::ParseFailure)
    }

    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::ContextOverflow => "context_overflow",
            Self::ParseFailure => "parse_failure",
            Self::TimedOut => "timed_out",
            Self::Unavailable => "unavailable",
            Self::DeviceLost => "device_lost",
            Self::Dropped => "dropped",
        }
    }
}

impl Answer {
    /// The kind of request answered by this.
    pub fn kind(&self) -> RequestKind {
        match self {
            Answer::Retrieve(_) => RequestKind::Retrieve,
            Answer::Passages(_) => RequestKind::Passages,
            Answer::Links(_) => RequestKind::Links,
            Answer::Score(_) => RequestKind::Score,
            Answer::Label(_) => RequestKind::Label,
            Answer::Filter(_) => RequestKind::Filter,
            Answer::Rerank(_) => RequestKind::Rerank,
            Answer::Entail(_) => RequestKind::Entail,
            Answer::Read(_) => RequestKind::Read,
            Answer::Embed(_) => RequestKind::Embed,
            Answer::Generate(_) => RequestKind::Generate,
        }
    }

    /// The answer's passages, in its order.
    pub fn passages(&self) -> Vec<PassageId> {
        match self {
            Answer::Retrieve(hits) => hits.iter().map(|hit| hit.passage).collect(),
            Answer::Passages(ids) | Answer::Links(ids) => ids.clone(),
            _ => Vec::new(),
        }
    }
}

impl Response {
    /// An answer with its work.
    pub fn answer(answer: Answer, work: AnswerWork) -> Self {
        Self { result: Ok(answer), work, facts: None, run_only: false, prompt: None, passages: Vec::new() }
    }

    /// A failure.
    pub fn failure(kind: FailureKind, message: impl Into<String>) -> Self {
        Self::from_failure(Failure { kind, message: message.into() })
    }

    /// A failure as a response.
    pub fn from_failure(failure: Failure) -> Self {
        let (result, work) = (Err(failure), AnswerWork::default());
        Self { result, work, facts: None, run_only: false, prompt: None, passages: Vec::new() }
    }

    /// The same failure, for this run alone.
    pub fn for_this_run(self) -> Self {
        Self { run_only: self.result.is_err(), ..self }
    }

    /// The same response without measured facts, as machines get it.
    pub fn without_facts(self) -> Self {
        Self { facts: None, ..self }
    }

    /// Whether a model got less than requested. `None` if the model read a prompt without a report, as in answers
    /// journalled by earlier versions.
    pub fn is_cut(&self) -> Option<bool> {
        let nothing_read = self.work.prompt_tokens == 0;
        self.prompt.as_ref().map(PromptReport::is_cut).or(nothing_read.then_some(false))
    }

    /// Whether it may be given to every run with the same `kind` of request under the same key. True for answers and
    /// determinate failures, unless their service holds them for this run's. A score's key leaves its temperatures out,
    /// so its failure may come from one temperature.
    pub fn is_for_all_runs(&self, kind: RequestKind) -> bool {
        let lasts = |failure: &Failure| failure.kind.is_determinate() && kind != RequestKind::Score && !self.run_only;
        self.result.as_ref().err().is_none_or(lasts)
    }

    /// Whether this stored response holds everything wanted by `request`, under the same key: a score may lack a
    /// temperature.
    pub fn satisfies(&self, request: &Request) -> bool {
        match (&request.ask, &self.result) {
            (RequestPayload::Score(wanted), Ok(Answer::Score(found))) => {
                wanted.temperatures.iter().all(|t| found.log_sum_exps.iter().any(|(have, _)| have == t))
            }
            _ => true,
        }
    }
}

impl Generation {
    /// A text without log-probabilities.
    pub fn new(text: impl Into<String>, finish: FinishReason) -> Self {
        Self { text: text.into(), finish, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_those_of_the_corpus_else_split() {
        let text = PassageText::new(PassageId(1), "T", "One. Two, Mr. X.");
        assert_eq!(text.sentence_texts(), ["One.", "Two, Mr. X."]);
        let known = PassageText { sentences: vec![13, 16], ..text };
        assert_eq!(known.sentence_texts(), ["One. Two, Mr.", "X."]);
    }

    #[test]
    fn failures_of_scores_are_for_their_run_alone() {
        let refused = Response::failure(FailureKind::Refused, "temperature = 0");
        assert!(!refused.is_for_all_runs(RequestKind::Score), "another run may ask at another temperature");
        assert!(refused.is_for_all_runs(RequestKind::Label));
        assert!(!refused.for_this_run().is_for_all_runs(RequestKind::Label), "the server's settings may change");
        let answer = Response::answer(Answer::Links(Vec::new()), AnswerWork::default()).for_this_run();
        assert!(answer.is_for_all_runs(RequestKind::Links), "only failures are held back");
        assert!(!Response::failure(FailureKind::Unavailable, "gone").is_for_all_runs(RequestKind::Label));
        assert!(Response::answer(Answer::Links(Vec::new()), AnswerWork::default()).is_for_all_runs(RequestKind::Score));
    }
}
