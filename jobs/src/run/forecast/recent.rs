//! Recent work of a process, by service and by round: the evidence for what the next requests cost.
//!
//! A service computes first what shares most of its work with other requests. So the cost of a round's requests grows
//! while the round is worked off, and its mean since the beginning is too low for those that are left.

use super::super::demand::{RoundRequests, RoundTable};
use super::super::progress::{ProgressSample, ServiceProgress};
use super::work::{OUTCOME_WORK, REPLY_WORK, TOKEN_WORK};
use hopeval_methods::ServiceName;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Sums of requests; earlier ones weigh less.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RecentRequests {
    journalled: f64,
    computed: f64,
    /// Seconds of service of the computed ones.
    busy: f64,
    /// Their tokens, each request by itself.
    tokens: f64,
    /// Tokens that the model computed for them.
    computed_tokens: f64,
}

impl RecentRequests {
    /// Adds new requests after what is there has lost weight. Without new ones the old ones keep theirs.
    fn add(&mut self, kept: f64, more: Self) {
        if more.journalled + more.computed + more.busy > 0.0 {
            self.journalled = self.journalled * kept + more.journalled;
            self.computed = self.computed * kept + more.computed;
            self.busy = self.busy * kept + more.busy;
            self.tokens = self.tokens * kept + more.tokens;
            self.computed_tokens = self.computed_tokens * kept + more.computed_tokens;
        }
    }

    /// Seconds of service of a computed request.
    pub(super) fn cost(&self) -> Option<f64> {
        (self.computed > 0.0).then(|| self.busy / self.computed)
    }

    /// Tokens of a computed request, by itself.
    pub(super) fn mean_tokens(&self) -> Option<f64> {
        (self.computed > 0.0).then(|| self.tokens / self.computed)
    }

    /// Seconds of service of a token that the model computed.
    pub(super) fn token_cost(&self) -> Option<f64> {
        (self.computed_tokens > 0.0).then(|| self.busy / self.computed_tokens)
    }

    /// The share of the tokens that the model computed: below 1 where requests shared work.
    pub(super) fn computed_tokens_share(&self) -> Option<f64> {
        (self.tokens > 0.0).then(|| (self.computed_tokens / self.tokens).min(1.0))
    }

    /// The share of the requests that were computed: the others were in the journal.
    pub(super) fn computed_share(&self) -> Option<f64> {
        let answered = self.computed + self.journalled;
        (answered > 0.0).then(|| self.computed / answered)
    }
}

/// The recent work of a process.
#[derive(Debug, Default)]
pub(super) struct RecentWork {
    last: Option<(Duration, ProgressSample)>,
    /// Seconds of clock, and the seconds of work done in them, decayed alike.
    clock: f64,
    work: f64,
    services: BTreeMap<Arc<str>, RecentRequests>,
    rounds: BTreeMap<(u32, u32), BTreeMap<ServiceName, RecentRequests>>,
}

impl RecentWork {
    /// Adds what was done since the last sample. Returns the seconds since then.
    pub(super) fn add(&mut self, elapsed: Duration, sample: &ProgressSample) -> f64 {
        let first = || (Duration::ZERO, ProgressSample::before(sample));
        let (at, before) = self.last.replace((elapsed, sample.clone())).unwrap_or_else(first);
        let since = elapsed.saturating_sub(at).as_secs_f64();
        // The longer a run lasts, the longer its pace is averaged.
        let kept = (-since / (elapsed.as_secs_f64() / 5.0).clamp(3.0, 60.0)).exp();
        let mut busy = 0.0;
        for (name, now) in &sample.services {
            let then = before.services.get(name).copied().unwrap_or_default();
            busy += self.add_service(kept, name, now, &then);
        }
        self.add_rounds(kept, &sample.rounds, &before.rounds);
        let replies = sample.served.saturating_sub(before.served) as f64;
        let outcomes = sample.outcomes.saturating_sub(before.outcomes) as f64;
        self.clock = self.clock * kept + since;
        self.work = self.work * kept + busy + replies * REPLY_WORK + outcomes * OUTCOME_WORK;
        since
    }

    /// Adds the requests of a service since `then`. Returns the work in them, in seconds.
    fn add_service(&mut self, kept: f64, name: &Arc<str>, now: &ServiceProgress, then: &ServiceProgress) -> f64 {
        let more = |pick: fn(&ServiceProgress) -> u64| pick(now).saturating_sub(pick(then)) as f64;
        let requests = RecentRequests {
            journalled: more(|service| service.journalled),
            computed: more(|service| service.computed),
            busy: more(|service| service.busy_us) / 1e6,
            tokens: more(|service| service.tokens),
            computed_tokens: more(|service| service.computed_tokens),
        };
        self.services.entry(Arc::clone(name)).or_default().add(kept, requests);
        requests.busy + more(|service| service.prepared_tokens) * TOKEN_WORK
    }

    fn add_rounds(&mut self, kept: f64, now: &RoundTable, then: &RoundTable) {
        for (round, counts) in now {
            let before = then.get(round);
            for (service, requests) in &counts.requests {
                let then = before.and_then(|counts| counts.requests.get(service)).copied().unwrap_or_default();
                let more = |pick: fn(&RoundRequests) -> u64| pick(requests).saturating_sub(pick(&then)) as f64;
                let more = RecentRequests {
                    computed: more(|requests| requests.answered),
                    busy: more(|requests| requests.busy_us) / 1e6,
                    tokens: more(|requests| requests.tokens),
                    ..RecentRequests::default()
                };
                let services = self.rounds.entry(*round).or_default();
                match services.get_mut(service) {
                    Some(recent) => recent.add(kept, more),
                    None => drop(services.insert(service.clone(), more)),
                }
            }
        }
    }

    /// Recent seconds of clock for a second of work; `None` before any work.
    pub(super) fn pace(&self) -> Option<f64> {
        (self.work > 0.0).then(|| self.clock / self.work)
    }

    /// The recent requests of a service.
    pub(super) fn of_service(&self, service: &str) -> RecentRequests {
        self.services.get(service).copied().unwrap_or_default()
    }

    /// The recent requests of a configuration's round to a service.
    pub(super) fn of_round(&self, round: (u32, u32), service: &ServiceName) -> RecentRequests {
        self.rounds.get(&round).and_then(|services| services.get(service)).copied().unwrap_or_default()
    }
}
