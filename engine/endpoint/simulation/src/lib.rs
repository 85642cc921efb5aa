//! A *simulated* OpenAI-compatible server for tests and rehearsals: limits, latencies, prices, faults and a log of
//! bodies, with answers by rule over the generated world's passages that stand in a prompt.
//!
//! No model runs here. What this server says shows that programs around a model work; it shows nothing about models.
//! Only with `pass_through` another server's model answers: what is simulated then is the way to it.
//! Every answer is a function of the settings and of the request's body. Only limits, latencies, cached prefixes and
//! the faults' counters of attempts know of time and of other calls.
//!
//! It knows no methods, no dataflow, no storage, no client.

mod acting;
mod answering;
mod asking;
mod contract;
mod decomposing;
mod delivery;
mod draw;
mod fault;
mod grammar;
mod judged;
mod language;
mod ledger;
mod limits;
mod model;
mod objects;
mod pass_through;
mod port;
mod reading;
mod refusal;
mod reply;
mod schema;
mod server;
mod service;
mod settings;
mod similarity;
mod solving;
mod tokens;
mod wire;

pub use fault::{FAULTS, FaultKind, FaultRow};
pub use ledger::{CallOutcome, CallTokens, LogEntry, SimulationSummary};
pub use server::SimulatedServer;
pub use settings::{
    FaultSettings, FaultWindow, FieldRule, LatencySettings, LimitSettings, LogSettings, OverflowDialect, PriceSettings,
    ReasoningPlace, RetryAfter, SettingsError, SimulationSettings,
};
