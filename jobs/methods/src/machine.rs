//! The interface of methods: [`Method`] holds the parameters of one configuration, [`Machine`] works on one question.
//!
//! # Contract
//! * A machine is a pure function of its method's parameters, its question and the responses so far. It reads no clock,
//!   no random source, no environment and no global state; two machines with the same inputs do the same.
//! * It moves in rounds: `step` gets *all* responses of the last round, in the order of its requests. The order of
//!   arrival has no effect. The first call gets an empty list.
//! * `MachineStep::Ask` holds at least one request; a machine is never stepped after `MachineStep::Done`.
//! * A machine does not see [`Response::facts`]: the caller takes them away, since they differ from run to run.
//! * Requests of one round with one payload and different draws are independent samples. A service may answer them by
//!   one call for several samples, so their responses may share their time of arrival and nothing else.
//! * A failed request is a response like any other. The machine decides; if it cannot continue, it ends with
//!   [`crate::OutcomeStatus::Failed`].
//! * It always ends: with any answers, it is done after a bounded number of rounds.

use crate::fragment::Fragment;
use crate::outcome::Outcome;
use crate::request::{PassageId, Request, RequestKind, Sampling, ServiceName};
use crate::response::Response;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// A question as a machine sees it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// The dataset's id.
    pub id: String,
    /// The question.
    pub text: String,
    /// The dataset's type of question, if it has one.
    pub kind: Option<String>,
    /// The passages given with the question by the dataset, in its order.
    pub candidates: Vec<PassageId>,
    /// The gold slots in path order, each with the passages of the corpus that fill it. For controls; a method that
    /// reads them says so in [`Method::reads_gold`].
    pub gold: Vec<Vec<PassageId>>,
    /// Gold answers; one of several spans is a JSON array of them. For controls and judges.
    pub answers: Vec<String>,
    /// Gold sub-questions with their answers, where the dataset has them. For methods that read gold, as `gold` is.
    #[serde(default)]
    pub decomposition: Vec<(String, Option<String>)>,
    /// Gold evidences (subject, relation, object), where the dataset has them. For methods that read gold.
    #[serde(default)]
    pub evidences: Vec<[String; 3]>,
    /// A text that belongs to the question (IIRC's introductory paragraph), if the dataset has one.
    #[serde(default)]
    pub context: Option<GivenContext>,
    /// The outcome of another system: the one to be judged, for methods that judge the outcomes of others; the row of
    /// the file, for a method with a [`Method::brought_digest`].
    #[serde(default)]
    pub prediction: Option<Box<Outcome>>,
}

/// A text given with a question.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GivenContext {
    /// Its title; empty if the dataset has none.
    pub title: String,
    /// Its text.
    pub text: String,
    /// The passage of the corpus with this title and text, if there is one.
    pub passage: Option<PassageId>,
}

/// The result of a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum MachineStep {
    /// Requests for the next round.
    Ask(Vec<Request>),
    /// The end.
    Done(Outcome),
}

/// One question under one configuration. The module's contract holds.
pub trait Machine {
    /// Takes the responses of the last round in request order (an empty list at the start). Asks again or is done.
    fn step(&mut self, responses: Vec<Response>) -> MachineStep;
}

/// Facts about a run for every method.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MethodSetting {
    /// Passages in the corpus.
    pub passages: u32,
    /// The largest k of the job's measures `NAME@k`: the default length of rankings. `None` without such measures.
    pub largest_cut_off: Option<u32>,
}

impl MethodSetting {
    /// Over a corpus of this many passages, without measures that have a cut-off.
    pub const fn of_corpus(passages: u32) -> Self {
        Self { passages, largest_cut_off: None }
    }
}

/// The source of a configuration's passages. Recorded with every figure; modes are never ranked together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ContextMode {
    /// The dataset's candidates.
    Given,
    /// Gold.
    Oracle,
    /// Given and retrieved.
    Mixed,
    /// Retrieval.
    Open,
    /// None: the model's own knowledge.
    Closed,
}

impl ContextMode {
    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Given => "given",
            Self::Oracle => "oracle",
            Self::Mixed => "mixed",
            Self::Open => "open",
            Self::Closed => "closed",
        }
    }
}

/// A service that a configuration uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceUse {
    /// The parameter that names it.
    pub parameter: &'static str,
    /// The service.
    pub service: ServiceName,
    /// The kind of request it must answer.
    pub kind: RequestKind,
    /// Further abilities without which the method cannot work with it. A job with a service that lacks one is refused
    /// before its first request.
    pub needs: Vec<ServiceAbility>,
}

impl ServiceUse {
    /// The service named by `parameter`, which must answer `kind`.
    pub fn new(parameter: &'static str, service: &ServiceName, kind: RequestKind) -> Self {
        Self { parameter, service: service.clone(), kind, needs: Vec::new() }
    }

    /// The same, with a further ability.
    pub fn with_need(mut self, ability: ServiceAbility) -> Self {
        self.needs.push(ability);
        self
    }

    /// The same, with the promise of JSON objects if `promised`.
    pub(crate) fn with_json_if(self, promised: bool) -> Self {
        if promised { self.with_need(ServiceAbility::Json) } else { self }
    }

    /// The same, with the abilities that texts drawn so need.
    pub(crate) fn with_sampling(self, sampling: &Sampling) -> Self {
        match sampling {
            Sampling::Greedy => self,
            Sampling::Server => self.with_need(ServiceAbility::ServerSampling),
            Sampling::Sample { penalties, .. } => {
                let penalised = penalties.presence != 0.0 || penalties.frequency != 0.0;
                let used = if penalised { self.with_need(ServiceAbility::Penalties) } else { self };
                let is_divided = penalties.repetition != 1.0;
                if is_divided { used.with_need(ServiceAbility::RepetitionPenalty) } else { used }
            }
        }
    }
}

/// An ability of a service that generates, beyond answering at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServiceAbility {
    /// Continues a trailing text of the assistant (`prompt.rs`).
    Continue,
    /// Promises a JSON object ([`crate::request::TextFormat::Json`]).
    Json,
    /// Promises a JSON value of a schema ([`crate::request::TextFormat::Schema`]).
    Schema,
    /// Writes special tokens ([`crate::request::TextFormat::WithSpecial`]).
    SpecialTokens,
    /// Gives the log-probabilities of the written tokens.
    Logprobs,
    /// Subtracts from the logits of tokens that the text has already: presence and frequency penalty
    /// ([`crate::request::SamplingPenalties`]).
    Penalties,
    /// Divides the logits of tokens that the prompt or the text has already.
    RepetitionPenalty,
    /// Draws tokens by itself where a request says nothing about it ([`crate::request::Sampling::Server`]).
    ServerSampling,
}

impl ServiceAbility {
    /// Every ability, in the order of reports.
    pub const ALL: [ServiceAbility; 8] = [
        ServiceAbility::Continue,
        ServiceAbility::Json,
        ServiceAbility::Schema,
        ServiceAbility::SpecialTokens,
        ServiceAbility::Logprobs,
        ServiceAbility::Penalties,
        ServiceAbility::RepetitionPenalty,
        ServiceAbility::ServerSampling,
    ];

    /// The name in errors and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Continue => "continue",
            Self::Json => "json",
            Self::Schema => "schema",
            Self::SpecialTokens => "special_tokens",
            Self::Logprobs => "logprobs",
            Self::Penalties => "penalties",
            Self::RepetitionPenalty => "repetition_penalty",
            Self::ServerSampling => "server_sampling",
        }
    }
}

/// The list of an outcome that has every passage as often as the method's retrievals found it: EfficientRAG's K is the
/// mean number of its passages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkList {
    /// [`crate::Outcome::ranked`]: one retrieval finds a passage once.
    Ranking,
    /// [`crate::Outcome::paths`]: one path for each retrieval.
    Paths,
}

/// The wording of a configuration's prompts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptWording {
    /// The author of the words: `hopeval`, `job` if the job gives them, or the name of an imported set of prompts.
    pub origin: Cow<'static, str>,
    /// All words, in a form that changes with every change of a prompt.
    pub text: String,
}

/// One configuration of a method: its parameters, fixed.
///
/// # Who calls what, and when
/// 1. *Job is read.* [`crate::build_method`] makes each configuration of the job, so a bad parameter is an error before
///    any computation. `service_uses` then lists the services and the kind of request each must answer; `labeler_tags`
///    adds the tags of a labeler.
/// 2. *Questions are prepared.* If any configuration's `context_mode` is [`ContextMode::Given`], every candidate of
///    every question must be in the corpus.
/// 3. *Run opens*, in each process. The temperatures and `fragments` of all configurations are collected before the
///    first request is sent. The outcome evaluator asks `gives_answers`, `gives_ranking`, `gives_support` and
///    `gives_evidences` once. It needs them to distinguish an undefined measure from a score of 0.
/// 4. *Question is admitted.* `start` is called once for each configuration of each question, on the admitting worker.
///    If `reads_gold` is false, the question comes without gold and answers; `brought_digest` decides on its
///    prediction. From then on only [`Machine::step`] is
///    called. If a process dies, its questions in flight are started again: `start` may be called again for them.
/// 5. *Tables are written.* `kind`, `version`, `context_mode`, `service_uses` and `wording` stand in the table of
///    configurations; `most_ranked` marks measures with a larger cut-off. If gold was edited, machines of methods with
///    `reads_gold` are started again, with the new gold.
///
/// `plan` does 1 and 2 and drives each machine with estimates in place of answers.
///
/// # To write a method
/// * One file in `methods/`, one line in the table of `methods.rs`, one scenario file in `tests/scenarios`, and its
///   section in `ops/docs/jobs.md`. `one_step.rs` is the example.
/// * The functions without a default: `kind`, `version`, `context_mode`, `gives_answers`, `most_ranked`, `service_uses`
///   and `start`. The others if their defaults are wrong for the method; a method with `Score` requests must name its
///   `score_temperatures`.
/// * `INFO`, `Parameters` and `new` of `ConfigurableMethod` (in `registry.rs`): its documentation, and its parameters
///   with their defaults.
/// * A [`Machine`]: the module's contract holds.
pub trait Method: Send + Sync {
    /// The method's kind, as a job names it.
    fn kind(&self) -> &'static str;

    /// Rises with every change of a transition or of a prompt.
    fn version(&self) -> u32;

    /// Refuses parameters that make no sense in a new job, though the method can be built with them. A stored run that
    /// has them opens: earlier versions took them.
    ///
    /// # Errors
    /// [`MethodError::Value`] for such a parameter.
    fn check_new(&self) -> Result<(), MethodError> {
        Ok(())
    }

    /// The source of its passages.
    fn context_mode(&self) -> ContextMode;

    /// Whether its outcomes hold answers.
    fn gives_answers(&self) -> bool;

    /// The most passages that an outcome ranks, however the services answer. A measure with a larger cut-off is marked
    /// in tables: its value is that of so many passages. `None` if the parameters set no bound.
    fn most_ranked(&self) -> Option<u32>;

    /// Whether its outcomes rank passages.
    fn gives_ranking(&self) -> bool {
        true
    }

    /// The list in its outcomes that has every passage as often as its retrievals found it; `None` if no list has that.
    fn chunk_list(&self) -> Option<ChunkList> {
        None
    }

    /// Whether its outcomes name supporting sentences.
    fn gives_support(&self) -> bool {
        false
    }

    /// Whether its outcomes hold evidence triples.
    fn gives_evidences(&self) -> bool {
        false
    }

    /// Whether its outcomes say if the model kept to the required form ([`Outcome::format`]).
    fn has_form(&self) -> bool {
        false
    }

    /// Whether its machines read the question's gold. If so, an edit of gold changes its outcomes.
    fn reads_gold(&self) -> bool {
        false
    }

    /// The digest of the file whose row of a question is its [`Question::prediction`]; `None` for a method that finds
    /// its outcomes itself.
    fn brought_digest(&self) -> Option<&str> {
        None
    }

    /// The most requests of each kind for one question, with any answers; `None` if not known beforehand. Tests hold
    /// machines to it.
    fn most_requests(&self) -> Option<Vec<(RequestKind, u64)>> {
        None
    }

    /// The number of tags required of the checkpoint behind [`RequestKind::Label`], with the name of its parameter;
    /// `None` if any number will do.
    fn labeler_tags(&self) -> Option<(&'static str, u32)> {
        None
    }

    /// The wording of its prompts, for the configuration's record; `None` for a method without prompts.
    fn wording(&self) -> Option<PromptWording> {
        None
    }

    /// The texts behind the digests of its prompts' [`crate::Content::Fragment`]s. Every process has them before the
    /// first request.
    fn fragments(&self) -> Vec<Fragment> {
        Vec::new()
    }

    /// The services it asks, in a fixed order.
    fn service_uses(&self) -> Vec<ServiceUse>;

    /// Every temperature wanted by its [`crate::request::ScorePayload`]s. The keys of requests leave temperatures out.
    /// An answer is shared: it holds the temperatures of all configurations of the run, as far as they are named here.
    fn score_temperatures(&self) -> Vec<f64> {
        Vec::new()
    }

    /// The subject of a judge; `None` for other methods. A judge's questions have gold answers and a
    /// [`Question::prediction`], and its outcomes answer `yes` or `no`.
    fn judging(&self) -> Option<JudgeTarget<'_>> {
        None
    }

    /// A machine for one question.
    fn start(&self, question: &Question) -> Box<dyn Machine>;
}

/// The subject of a judge, and how its word counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JudgeTarget<'a> {
    /// The configuration whose outcomes it judges.
    pub configuration: &'a str,
    /// The protocol by which its word becomes an accuracy.
    pub rule: JudgingRule,
    /// Whether an answer that contains a gold answer counts as right: MIGRES's rule for open-domain questions.
    pub is_open_domain: bool,
}

/// A protocol by which a judge's word becomes an accuracy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JudgingRule {
    /// MIGRES: right is what matches exactly, or what the judge accepts, or, for open-domain questions, what contains a
    /// gold answer.
    Migres,
    /// EfficientRAG: right is what the judge accepts.
    Efficientrag,
}

/// An error in a method's configuration.
#[derive(Debug, thiserror::Error)]
pub enum MethodError {
    /// No such method.
    #[error("unknown method kind `{found}`; allowed are {allowed}")]
    UnknownKind {
        /// The kind in the job.
        found: String,
        /// All kinds, joined.
        allowed: String,
    },
    /// A parameter is unknown, missing or of the wrong type.
    #[error("method kind `{kind}`: {source}")]
    Parameters {
        /// The method's kind.
        kind: &'static str,
        /// The mistake, with the names allowed.
        #[source]
        source: serde_json::Error,
    },
    /// A parameter has a bad value.
    #[error("method kind `{kind}`: `{parameter}` = {found}: {allowed}")]
    Value {
        /// The method's kind.
        kind: &'static str,
        /// The parameter.
        parameter: &'static str,
        /// The value in the job.
        found: String,
        /// The allowed values.
        allowed: &'static str,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::SamplingPenalties;

    #[test]
    fn a_sampling_needs_what_its_fields_ask_for() {
        let needs = |sampling: &Sampling| {
            let used = ServiceUse::new("generator", &"g".into(), RequestKind::Generate);
            used.with_sampling(sampling).needs
        };
        let penalised = |repetition, presence, frequency| {
            let penalties = SamplingPenalties { repetition, presence, frequency };
            needs(&Sampling::Sample { temperature: 1.0, top_p: 1.0, top_k: 0, penalties })
        };
        assert!(needs(&Sampling::Greedy).is_empty() && needs(&Sampling::sample(0.7, 0.9, 5)).is_empty());
        assert_eq!(needs(&Sampling::Server), [ServiceAbility::ServerSampling]);
        assert_eq!(penalised(1.1, 0.0, -0.0), [ServiceAbility::RepetitionPenalty]);
        assert_eq!(penalised(1.0, 0.0, -0.5), [ServiceAbility::Penalties]);
        assert_eq!(penalised(0.9, 1.0, 0.0), [ServiceAbility::Penalties, ServiceAbility::RepetitionPenalty]);
    }
}
