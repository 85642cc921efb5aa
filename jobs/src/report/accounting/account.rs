//! The costs of a configuration: the figures only. Other modules read and compute them.

use super::clock::{IsolatedCosts, LatencySummary};
use crate::report::price_gap::PriceGap;
use hopeval_methods::RequestKind;
use serde::Serialize;

/// The costs of a configuration. Means are over its outcomes, failed ones too.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ConfigurationCosts {
    /// The configuration.
    pub configuration: String,
    /// The method's kind.
    pub method: String,
    /// The configuration controlled by this one.
    pub control: Option<String>,
    /// The source of its passages.
    pub context_mode: String,
    /// Outcomes.
    pub n: u64,
    /// Share of the successful ones.
    pub coverage: Option<f64>,
    /// Parameters of its models, each service once; `None` without models, or if the run's record lacks them.
    pub parameters: Option<u64>,
    /// Rounds of the method's own loop.
    pub iterations: Option<f64>,
    /// Rounds of requests.
    pub rounds: Option<f64>,
    /// Retrieved passages, repeats included.
    pub passages_retrieved: Option<f64>,
    /// Different passages in the outcome's ranking.
    pub passages_kept: Option<f64>,
    /// Its requests, by service and kind.
    pub calls: Vec<MeanCalls>,
    /// Sums over `calls`.
    pub attributed: AttributedCosts,
    /// Time and money of one question alone; `None` in the mode `throughput`.
    pub isolated: Option<IsolatedCosts>,
    /// Time to the outcome in this run; `None` if not measured.
    pub latency: Option<LatencySummary>,
    /// The costs that a file of rankings gives; `None` for the methods that hopeval runs itself. The other figures say
    /// nothing of a system whose outcomes were brought in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub brought: Option<BroughtCosts>,
}

/// The costs of a question as another system's file gives them: means over the outcomes in the file. Nothing of it was
/// measured here. `None` is what the file does not give.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct BroughtCosts {
    /// Outcomes in the file.
    pub n: u64,
    /// Calls of models.
    pub calls: Option<f64>,
    /// Tokens of prompts.
    pub prompt_tokens: Option<f64>,
    /// Generated tokens.
    pub completion_tokens: Option<f64>,
    /// Seconds.
    pub seconds: Option<f64>,
    /// Money.
    pub money: Option<f64>,
    /// Its currency, if the job names it.
    pub currency: Option<String>,
}

/// Requests of one kind to one service: means over questions.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct MeanCalls {
    /// The service.
    pub service: String,
    /// The kind.
    pub kind: String,
    /// The step of the method, if the requests name one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// Requests.
    pub calls: f64,
    /// Tokens of their prompts.
    pub prompt_tokens: f64,
    /// Generated tokens.
    pub completion_tokens: f64,
    /// Scored tokens.
    pub scored_tokens: f64,
    /// Operations, as the service counts them.
    pub operations: f64,
    /// Requests with texts cut to fit; `None` in runs of earlier versions.
    pub cut: Option<f64>,
    /// Seconds of the service, at the run's measured rate.
    pub service_s: Option<f64>,
    /// Seconds of the device, at the run's measured rate.
    pub device_s: Option<f64>,
    /// Device energy in joules, at the run's measured rate; `None` if not metered.
    pub energy_j: Option<f64>,
    /// Money by the prices of an endpoint's calls, or of a device's time; `None` without a price, and where not every
    /// answer has one.
    pub money: Option<f64>,
    /// The currency of an endpoint's prices, several with `+` between them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub currency: Option<String>,
    /// The gap in the prices, where some answers have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price_gap: Option<PriceGap>,
    /// HTTP requests; `None` unless an endpoint answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<f64>,
    /// Prompt tokens in an endpoint's cache; `None` if it does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cached_prompt_tokens: Option<f64>,
    /// Generated tokens that were reasoning; `None` if the endpoint does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_tokens: Option<f64>,
}

/// The cost of a question without sharing, at the run's measured rates.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct AttributedCosts {
    /// Tokens of prompts.
    pub prompt_tokens: f64,
    /// Generated tokens.
    pub completion_tokens: f64,
    /// Scored tokens.
    pub scored_tokens: f64,
    /// Operations of models.
    pub operations: f64,
    /// Seconds of all services; `None` if any rate is unknown. Look-ups in the mapped corpus are not counted.
    pub service_s: Option<f64>,
    /// Seconds of devices; `None` without models, or if any rate is unknown.
    pub device_s: Option<f64>,
    /// Money for devices and endpoints; `None` without models, if any price or rate is unknown, and if the prices are
    /// in several currencies.
    pub money: Option<f64>,
    /// The currency of endpoints' prices; that of a device's price has no name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub currency: Option<String>,
    /// The gap in the prices, where some answers have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price_gap: Option<PriceGap>,
    /// Energy of devices in joules; `None` if a device is not metered, and as `device_s`.
    pub energy_j: Option<f64>,
}

impl ConfigurationCosts {
    /// Requests of a kind, of all services.
    pub fn calls_of(&self, kind: RequestKind) -> f64 {
        sum_from_zero(self.calls.iter().filter(|calls| calls.kind == kind.name()).map(|calls| calls.calls))
    }
}

/// The sum; 0 for an empty iterator, where the standard library gives -0.
pub(super) fn sum_from_zero(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(0.0, |sum, next| sum + next)
}
