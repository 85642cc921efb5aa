//! The account of a configuration: the figures, without their reading.

use super::clock::{Isolated, Latency};
use hopeval_methods::Kind;
use serde::Serialize;

/// The account of a configuration. Means are over its outcomes, failed ones too.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Account {
    /// The configuration.
    pub configuration: String,
    /// The method's kind.
    pub method: String,
    /// The configuration that it is a control of.
    pub control: Option<String>,
    /// The source of its passages.
    pub context_mode: String,
    /// Outcomes.
    pub n: u64,
    /// Share of them that did not fail.
    pub coverage: Option<f64>,
    /// Parameters of the models that it asks, each service once; none where it asks no model, or the run's record does
    /// not say.
    pub parameters: Option<u64>,
    /// Rounds of the method's own loop.
    pub iterations: Option<f64>,
    /// Rounds of requests.
    pub rounds: Option<f64>,
    /// Passages that retrievers gave, repeats included.
    pub passages_retrieved: Option<f64>,
    /// Different passages that the outcome ranks.
    pub passages_kept: Option<f64>,
    /// Its requests, by service and kind.
    pub calls: Vec<Calls>,
    /// Sums over `calls`.
    pub attributed: Attributed,
    /// Time and money of one question alone; none in the mode `throughput`.
    pub isolated: Option<Isolated>,
    /// How long it took in this run; none where that was not measured.
    pub latency: Option<Latency>,
}

/// Requests of one kind to one service: means over questions.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Calls {
    /// The service.
    pub service: String,
    /// The kind.
    pub kind: String,
    /// Requests.
    pub calls: f64,
    /// Tokens of their prompts.
    pub prompt_tokens: f64,
    /// Tokens that were generated.
    pub completion_tokens: f64,
    /// Tokens that were scored.
    pub scored_tokens: f64,
    /// Operations, as the service counts them.
    pub operations: f64,
    /// Of the requests those whose texts were cut to fit; none in runs of earlier versions.
    pub cut: Option<f64>,
    /// Seconds of the service, at the run's measured rate.
    pub service_s: Option<f64>,
    /// Seconds of the device, at the run's measured rate.
    pub device_s: Option<f64>,
    /// Joules that the device uses, at the run's measured rate; none where nothing counted them.
    pub energy_j: Option<f64>,
}

/// The needs of a question without sharing, at the run's measured rates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Attributed {
    /// Tokens of prompts.
    pub prompt_tokens: f64,
    /// Tokens that were generated.
    pub completion_tokens: f64,
    /// Tokens that were scored.
    pub scored_tokens: f64,
    /// Operations of models.
    pub operations: f64,
    /// Seconds of all services; none if the rate of one is not known. Look-ups in the mapped corpus are not counted.
    pub service_s: Option<f64>,
    /// Seconds of devices; none if no model is asked, or the rate of one is not known.
    pub device_s: Option<f64>,
    /// Money for devices; none where no price is known, and as `device_s`.
    pub money: Option<f64>,
    /// Joules that devices use; none where one of them does not count, and as `device_s`.
    pub energy_j: Option<f64>,
}

impl Account {
    /// Requests of a kind, of all services.
    pub fn calls_of(&self, kind: Kind) -> f64 {
        total(self.calls.iter().filter(|calls| calls.kind == kind.name()).map(|calls| calls.calls))
    }
}

/// The sum, which is 0 of nothing: that of the standard library is -0.
pub(super) fn total(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(0.0, |sum, next| sum + next)
}
