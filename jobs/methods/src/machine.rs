//! The face of a method: [`Method`] holds the parameters of one configuration, [`Machine`] works on one question.
//!
//! # Contract
//! * A machine is a pure function of its method's parameters, its question and the responses so far. It reads no clock,
//!   no random source, no environment and no global state; two machines that are given the same do the same.
//! * It moves in rounds: `step` gets *all* responses of the last round, in the order of its requests, so the order of
//!   arrival cannot change anything. The first call gets none.
//! * `Step::Ask` holds at least one request; a machine is never stepped after `Step::Done`.
//! * A request that failed is a response like any other. The machine decides; if it cannot go on, it ends with
//!   [`crate::Status::Failed`].
//! * It never asks without end: whatever the answers are, it is done after a bounded number of rounds.

use crate::outcome::Outcome;
use crate::request::{Kind, PassageId, Request, ServiceName};
use crate::response::Response;
use serde::{Deserialize, Serialize};

/// A question as a machine sees it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// The dataset's id.
    pub id: String,
    /// The question.
    pub text: String,
    /// The dataset's type of question, where it has one.
    pub kind: Option<String>,
    /// The passages that the dataset gives with the question, in its order.
    pub candidates: Vec<PassageId>,
    /// Gold passages in path order, each with the passages that satisfy it. For controls; a method that reads it says
    /// so in [`Method::reads_gold`].
    pub gold: Vec<Vec<PassageId>>,
    /// Gold answers. For controls.
    pub answers: Vec<String>,
}

/// What a step leads to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Step {
    /// More is needed.
    Ask(Vec<Request>),
    /// The end.
    Done(Outcome),
}

/// One question under one configuration. The module's contract holds.
pub trait Machine {
    /// Takes the responses of the last round (none at the start), in request order; asks again or is done.
    fn step(&mut self, responses: Vec<Response>) -> Step;
}

/// What every method of a run may know about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// Passages in the corpus.
    pub passages: u32,
}

/// Where a configuration's passages come from; recorded with every figure, and never ranked together.
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
}

impl ContextMode {
    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Given => "given",
            Self::Oracle => "oracle",
            Self::Mixed => "mixed",
            Self::Open => "open",
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
    /// What it must be able to answer.
    pub kind: Kind,
}

/// What a configuration prompts with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wording {
    /// Whose words they are: `hopeval`, or `job` if the job gives them.
    pub origin: &'static str,
    /// All of them, in a form that differs whenever a prompt would.
    pub text: String,
}

/// One configuration of a method: its parameters, fixed.
///
/// # Who calls what, and when
/// 1. *Job is read.* [`crate::build`] makes each configuration of the job, so a wrong parameter is an error before
///    anything is computed. `services` then says which services must exist and what each must answer; `tags` says more
///    of a labelling one.
/// 2. *Questions are prepared.* If any configuration's `context_mode` is [`ContextMode::Given`], every candidate of every
///    question must be in the corpus.
/// 3. *Run opens*, in each process. The temperatures of all configurations are collected before the first request is
///    sent; the judge asks `answers`, `ranks`, `gives_support` and `gives_evidences` once, to tell a measure that is
///    undefined from a score of 0.
/// 4. *Question is admitted.* `start` is called once for each configuration of each question, on the worker that admitted
///    it. If `reads_gold` is false, the question comes without gold and answers. From then on only [`Machine::step`] is
///    called. A question that was in flight when a process died is started again, so `start` may be called again for it.
/// 5. *Tables are written.* `kind`, `version`, `context_mode`, `services` and `wording` stand in the table of
///    configurations. If gold was edited, machines of methods with `reads_gold` are started again, with the new gold.
///
/// `plan` does 1 and 2 and drives each machine with estimates in place of answers.
///
/// # To write a method
/// * One file in `methods/`, one line in the table of `methods.rs`, one scenario file in `tests/scenarios`, and its
///   section in `ops/docs/jobs.md`. `one_step.rs` is the example.
/// * The functions without a default: `kind`, `version`, `context_mode`, `answers`, `services` and `start`. The others
///   where their defaults are not true of the method; a method that sends scores must name its `temperatures`.
/// * `INFO`, `Parameters` and `new` of `Configured` (in `registry.rs`): its documentation, and its parameters with their
///   defaults.
/// * A [`Machine`]: the module's contract holds.
pub trait Method: Send + Sync {
    /// The method's kind, as a job names it.
    fn kind(&self) -> &'static str;

    /// Rises with every change of a transition or of a prompt.
    fn version(&self) -> u32;

    /// Where its passages come from.
    fn context_mode(&self) -> ContextMode;

    /// Whether its outcomes hold answers.
    fn answers(&self) -> bool;

    /// Whether its outcomes rank passages.
    fn ranks(&self) -> bool {
        true
    }

    /// Whether its outcomes name supporting sentences.
    fn gives_support(&self) -> bool {
        false
    }

    /// Whether its outcomes hold evidence triples.
    fn gives_evidences(&self) -> bool {
        false
    }

    /// Whether its machines read the question's gold, so that an edit of gold changes its outcomes.
    fn reads_gold(&self) -> bool {
        false
    }

    /// The most requests of each kind that one question can lead to, whatever the answers are; none where that is not
    /// known beforehand. Tests hold machines to it.
    fn most_requests(&self) -> Option<Vec<(Kind, u64)>> {
        None
    }

    /// How many tags the checkpoint behind [`Kind::Label`] must give, and the parameter that says so; none where it does not matter.
    fn tags(&self) -> Option<(&'static str, u32)> {
        None
    }

    /// What it prompts with, for the configuration's record; none for a method without prompts.
    fn wording(&self) -> Option<Wording> {
        None
    }

    /// The services it asks, in a fixed order.
    fn services(&self) -> Vec<ServiceUse>;

    /// Every temperature that one of its [`crate::request::Score`]s wants. Requests do not carry theirs in their keys:
    /// an answer is shared, and holds the temperatures of all configurations of the run, as far as they are named here.
    fn temperatures(&self) -> Vec<f64> {
        Vec::new()
    }

    /// A machine for one question.
    fn start(&self, question: &Question) -> Box<dyn Machine>;
}

/// Why a method could not be configured.
#[derive(Debug, thiserror::Error)]
pub enum MethodError {
    /// No such method.
    #[error("unknown method kind `{found}`; allowed are {allowed}")]
    UnknownKind {
        /// What the job says.
        found: String,
        /// All kinds, joined.
        allowed: String,
    },
    /// A parameter is unknown, missing or of the wrong type.
    #[error("method kind `{kind}`: {source}")]
    Parameters {
        /// The method's kind.
        kind: &'static str,
        /// What is wrong, with the names allowed.
        #[source]
        source: serde_json::Error,
    },
    /// A parameter's value makes no sense.
    #[error("method kind `{kind}`: `{parameter}` = {found}: {allowed}")]
    Value {
        /// The method's kind.
        kind: &'static str,
        /// The parameter.
        parameter: &'static str,
        /// What the job says.
        found: String,
        /// What is allowed.
        allowed: &'static str,
    },
}
