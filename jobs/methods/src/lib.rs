//! The protocol of methods, and the methods.
//!
//! A method is a deterministic state machine without I/O ([`Machine`]): it starts with a question, sends [`Request`]s,
//! receives [`Response`]s and ends with an [`Outcome`]. This crate knows no dataflow, no model, no index, no dataset,
//! no clock and no random source; it depends on `std`, serde and pure functions (a hash, Python's rules for texts). The
//! whole protocol is plain data and crosses a process boundary as JSON.
//!
//! ```text
//!   question --> start --> step --Ask([Request; n])--> ... --[Response; n]--> step --Done(Outcome)-->
//! ```
//!
//! A judge is a method, too: its question comes with an outcome of another one, and its answer is yes or no.
//!
//! [`registry`] lists methods and judges and builds them; [`transcript`] replays a question; [`testing`] has a machine
//! and scripted services for every part of the protocol, and runs scenario files.

pub mod annotation;
mod canonical;
mod collected;
pub mod demonstration;
mod few_shot;
pub mod fragment;
mod judges;
mod knowledge;
mod machine;
mod methods;
pub mod notation;
mod okapi;
pub mod outcome;
mod passage_lines;
pub mod prompt;
mod python_text;
mod ranking;
mod reasoning;
pub mod registry;
mod reply_prompt;
pub mod request;
pub mod response;
mod sampling;
pub mod similarity;
mod take;
mod template;
pub mod testing;
mod title_scope;
pub mod transcript;

pub use demonstration::{Demonstration, DemonstrationPassage, DemonstrationSet};
pub use fragment::{Fragment, FragmentDigest};
pub use machine::{
    ChunkList, ContextMode, GivenContext, JudgeTarget, JudgingRule, Machine, MachineStep, Method, MethodError,
    MethodSetting, PromptWording, Question, ServiceAbility, ServiceUse,
};
pub use outcome::{NamedSentence, Outcome, OutcomeNote, OutcomeStatus, PassagePath, RankedPassage, SupportingSentence};
pub use prompt::{ChatRole, Content, LengthLimit, OverflowRule, PassageForm, Prompt, PromptPart, ShotPacking};
pub use registry::{
    MethodInfo, ParameterInfo, authors_code, build_method, judge_kinds, method_kinds, resolve_parameters,
};
pub use request::{Affinity, PassageId, Request, RequestKind, RequestPayload, ServiceName, StepName};
pub use response::{
    Answer, AnswerWork, CallFacts, Failure, FailureKind, MoneyAmount, PassageText, PromptReport, Response,
};
pub use transcript::{MissingResponse, Round, Transcript};
