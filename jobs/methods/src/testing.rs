//! Test support for this crate and others: a method with every part of the protocol, services for every request,
//! parameters from a method's documentation, scenario files, and samples of all stored data and of all keys.
//!
//! Nothing here is offered to jobs.

mod every_kind;
mod nonsense;
pub(crate) mod parameters;
mod samples;
mod scenario;
mod services;

pub use every_kind::EveryKind;
pub use nonsense::NonsenseServices;
pub use parameters::{parameter_variants, required_parameters};
pub use samples::{every_request, every_response};
pub use scenario::{ScenarioError, ScenarioFault, run_scenarios};
pub use services::ScriptedServices;
