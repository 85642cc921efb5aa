//! The protocol of methods, and the methods.
//!
//! A method is a deterministic state machine without I/O ([`Machine`]): it starts with a question, sends [`Request`]s,
//! receives [`Response`]s and ends with an [`Outcome`]. This crate knows no dataflow, no model, no index, no dataset,
//! no clock and no random source; it depends on `std` and serde alone. The whole protocol is plain data and crosses a
//! process boundary as JSON.
//!
//! ```text
//!   question --> start --> step --Ask([Request; n])--> ... --[Response; n]--> step --Done(Outcome)-->
//! ```
//!
//! [`registry`] lists the methods and builds them; [`transcript`] replays a question; [`testing`] has a machine and
//! scripted services for every part of the protocol, and runs scenario files.

pub mod annotation;
mod canonical;
mod machine;
mod methods;
pub mod notation;
pub mod outcome;
pub mod prompt;
mod ranking;
pub mod registry;
pub mod request;
pub mod response;
mod take;
pub mod testing;
pub mod transcript;

pub use machine::{ContextMode, Machine, Method, MethodError, Question, ServiceUse, MethodSetting, MachineStep, PromptWording};
pub use outcome::{Outcome, PassagePath, RankedPassage, OutcomeStatus, SupportingSentence};
pub use prompt::{Content, LengthLimit, OverflowRule, PromptPart, PassageForm, Prompt, ChatRole};
pub use registry::{MethodInfo, ParameterInfo, build_method, method_kinds, resolve_parameters};
pub use request::{Affinity, RequestPayload, RequestKind, PassageId, Request, ServiceName};
pub use response::{Answer, Failure, FailureKind, PassageText, PromptReport, Response, AnswerWork};
pub use transcript::{MissingResponse, Round, Transcript};
