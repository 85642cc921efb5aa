//! What tests of this crate and of others need: a method that uses every part of the protocol, services that answer
//! every request, scenario files, and samples of all that is stored or makes a key.
//!
//! Nothing here is offered to jobs.

mod every_kind;
mod samples;
mod scenario;
mod services;

pub use every_kind::EveryKind;
pub use samples::{every_request, every_response};
pub use scenario::{ScenarioError, ScenarioFault, run_scenarios};
pub use services::ScriptedServices;
