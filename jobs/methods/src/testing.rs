//! What tests of this crate and of others need: a method that uses every part of the protocol, services that answer
//! every request, and scenario files.
//!
//! Nothing here is offered to jobs.

mod every_kind;
mod scenario;
mod services;

pub use every_kind::EveryKind;
pub use scenario::{ScenarioError, ScenarioFault, run_scenarios};
pub use services::ScriptedServices;
