//! The cost of requests that wait or are still to come, in seconds of service.

use super::super::demand::{RoundCounts, RoundRequests};
use super::super::progress::{ProgressSample, ServiceProgress};
use super::recent::RecentWork;
use super::stage::RoundStage;
use super::work::ForecastedWork;
use hopeval_methods::ServiceName;

/// Machines that must have completed a round before its measured cost counts.
const MEASURED_FROM: u64 = 20;

/// Requests of a round that is not measured share less than the service's earlier ones: their sharing moves so far
/// towards none. This number and the next one were chosen on two recorded runs of `jobs/examples/world-full.toml`.
const UNSHARED_LATER: f64 = 0.65;

/// A measured cost moves towards the cost of a request that shares no work by their ratio to this power: what shares
/// most is computed first, and the more requests share, the longer it lasts.
const LAST_OF_SHARING: f64 = 1.5;

/// Seconds of service of one request.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RequestCost {
    /// Of one that waits.
    pub(super) waiting: f64,
    /// Of one still to come.
    pub(super) coming: f64,
}

/// The costs of requests, as far as they are known.
pub(super) struct RequestCosts<'a> {
    work: &'a ForecastedWork,
    recent: &'a RecentWork,
    sample: &'a ProgressSample,
    /// Services with a round that enough machines have completed.
    measured: Vec<&'a ServiceName>,
    /// Seconds of service for a token and a weight of a model, over all services.
    token_weight: Option<f64>,
}

impl<'a> RequestCosts<'a> {
    pub(super) fn new(work: &'a ForecastedWork, recent: &'a RecentWork, sample: &'a ProgressSample) -> Self {
        let requests = sample.rounds.values().flat_map(|counts| &counts.requests);
        let measured = requests.filter(|(_, requests)| requests.answered >= MEASURED_FROM).map(|(name, _)| name);
        let mut costs = Self { work, recent, sample, measured: measured.collect(), token_weight: None };
        let (mut busy, mut weighted) = (0.0, 0.0);
        for (name, service) in sample.services.iter().filter(|(_, service)| service.computed_tokens > 0) {
            busy += service.busy_us as f64 / 1e6;
            weighted += service.computed_tokens as f64 * costs.parameters(name);
        }
        costs.token_weight = (weighted > 0.0).then(|| busy / weighted);
        costs
    }

    fn parameters(&self, service: &str) -> f64 {
        self.work.parameters.get(service).map_or(1.0, |parameters| *parameters as f64)
    }

    /// The cost of a request of one round.
    pub(super) fn of_round(&self, service: &ServiceName, stage: &RoundStage<'_>) -> RequestCost {
        let requests = |counts: Option<&RoundCounts>| counts.and_then(|counts| counts.requests.get(service)).copied();
        if let Some(requests) = requests(stage.counts)
            && requests.answered >= MEASURED_FROM
        {
            let cost = self.of_measured(service, stage.round, requests);
            return RequestCost { waiting: cost, coming: cost };
        }
        let of_service = self.of_service(&service.0);
        let tokens = requests(stage.rehearsed).filter(|requests| requests.answered > 0 && requests.tokens > 0);
        let guessed = tokens.and_then(|RoundRequests { answered, tokens, .. }| {
            let shared = self.recent.of_service(&service.0).computed_tokens_share().unwrap_or(1.0);
            let computed = shared + (1.0 - shared) * UNSHARED_LATER;
            Some(tokens as f64 / answered as f64 * computed * self.token_cost(&service.0)?)
        });
        let coming = guessed.unwrap_or(of_service);
        // What a service computes is mostly of its first round with requests, until that round is measured.
        let of_this_round = of_service > 0.0 && !self.measured.contains(&service);
        RequestCost { waiting: if of_this_round { of_service } else { coming }, coming }
    }

    /// The cost of a request of a round of which `requests` were answered.
    fn of_measured(&self, service: &ServiceName, round: (u32, u32), requests: RoundRequests) -> f64 {
        let recent = self.recent.of_round(round, service);
        let cost = recent.cost().unwrap_or(requests.busy_us as f64 / 1e6 / requests.answered as f64);
        let token_cost = self.recent.of_service(&service.0).token_cost();
        let alone = recent.mean_tokens().zip(token_cost).map_or(cost, |(tokens, cost)| tokens * cost);
        if alone > cost { cost + (alone - cost) * (cost / alone).powf(LAST_OF_SHARING) } else { cost }
    }

    /// Seconds of service of a token that the model computes.
    fn token_cost(&self, service: &str) -> Option<f64> {
        let known = self.sample.services.get(service).filter(|service| service.computed_tokens > 0);
        let own = |service: &ServiceProgress| service.busy_us as f64 / 1e6 / service.computed_tokens as f64;
        let guessed = || Some(self.token_weight? * self.parameters(service));
        known.map(own).or_else(|| if self.work.servers.contains(service) { None } else { guessed() })
    }

    /// The recent cost of a service's request; 0 as long as it has computed nothing.
    pub(super) fn of_service(&self, service: &str) -> f64 {
        self.recent.of_service(service).cost().unwrap_or(0.0)
    }

    /// The share of a service's requests that are computed: the others are in the journal.
    pub(super) fn computed_share(&self, service: &str) -> f64 {
        self.recent.of_service(service).computed_share().unwrap_or(1.0)
    }
}
