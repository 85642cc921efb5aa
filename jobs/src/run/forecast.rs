//! Estimates the time left of a process's part of a run, from its progress.
//!
//! ```text
//!   rounds of machines --> requests still to come, by configuration, round and service  (evidence, else a rehearsal)
//!   + waiting requests  --> x seconds of service of such a request --> work left
//!   work left x recent seconds of clock for a second of work + the time of the final tables --> time left, damped
//! ```
//!
//! Requests of one service differ: a second round's prompts may be longer, and may share nothing. So the cost of a
//! request is that of its round, as measured lately over machines that completed it. Requests that share work are
//! computed first, so what is left costs more than what was done (see `costs.rs`). Services share the processor, and
//! work of hosts is in no service's time: the observed ratio of clock to work covers both. As long as there is no
//! evidence, there is no estimate.

mod costs;
mod recent;
mod stage;
mod work;

pub use self::work::ForecastedWork;

use self::costs::RequestCosts;
use self::recent::RecentWork;
use self::stage::RoundStage;
use self::work::{OUTCOME_WORK, REPLY_WORK, TOKEN_WORK};
use super::demand::{RoundCounts, RoundTable};
use super::progress::{ProgressSample, ServiceProgress};
use super::rehearsal::RehearsedRounds;
use hopeval_methods::ServiceName;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The estimate of a process's time left, improved by every sample.
#[derive(Debug, Default)]
pub struct RunForecast {
    work: ForecastedWork,
    rehearsed: RehearsedRounds,
    /// Whether a rehearsal has ended, whatever it gave.
    has_rehearsed: bool,
    recent: RecentWork,
    /// The shown estimate in seconds.
    shown: Option<f64>,
    /// The shown share of the time.
    share: f64,
}

/// The state of a run, estimated.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunEstimate {
    /// The time left, until the final tables are published; `None` without evidence.
    pub left: Option<Duration>,
    /// The share of the time that has passed, from 0 to 1; 0 without evidence.
    pub share: f64,
    /// The service with the most work left: its name, its answered requests, and all expected ones.
    pub busiest: Option<(String, u64, u64)>,
}

/// Requests still to come or waiting, of one service.
#[derive(Clone, Copy, Debug, Default)]
struct ServiceLoad {
    /// Requests, waiting ones included.
    requests: f64,
    /// Their seconds of service.
    busy: f64,
    /// Tokens of those that are not prepared yet.
    tokens: f64,
}

/// Seconds that the end of every run takes: the last commit, the tables, their publication.
const END_FIXED: f64 = 0.6;

/// Seconds of an outcome in the final tables.
const END_OUTCOME: f64 = 0.1e-3;

/// The weight of the rehearsal, in questions.
const REHEARSED_WEIGHT: f64 = 2.0;

/// Without a rehearsal there is an estimate from one outcome in so many.
const KNOWN_FROM: u64 = 20;

/// Seconds before the first estimate.
const FIRST_AFTER: f64 = 2.0;

impl RunForecast {
    /// The estimate for `work`.
    pub fn new(work: ForecastedWork) -> Self {
        Self { work, ..Self::default() }
    }

    /// Takes a rehearsal of some questions.
    pub fn set_rehearsed(&mut self, rehearsed: RehearsedRounds) {
        (self.rehearsed, self.has_rehearsed) = (rehearsed, true);
    }

    /// Seconds from the last outcome to the published tables.
    pub fn end_seconds(&self) -> f64 {
        END_FIXED + END_OUTCOME * self.work.all_outcomes as f64
    }

    /// Takes the progress at `elapsed` since the run began, and returns the estimate. Samples come in order of time.
    pub fn observe(&mut self, elapsed: Duration, sample: &ProgressSample) -> RunEstimate {
        let since = self.recent.add(elapsed, sample);
        let loads = self.expected_loads(sample);
        let busiest = busiest_service(&loads, sample);
        let seconds = elapsed.as_secs_f64();
        let raw = self.raw_left(seconds, sample, &loads);
        self.shown = raw.map(|raw| damped(self.shown, raw, since, seconds));
        // While nothing is known, the share stays.
        self.share = self.shown.map_or(self.share, |left| seconds / (seconds + left));
        RunEstimate { left: self.shown.map(Duration::from_secs_f64), share: self.share, busiest }
    }

    /// The estimate without damping; `None` without evidence, as before the first answer of a server.
    fn raw_left(&self, elapsed: f64, sample: &ProgressSample, loads: &BTreeMap<Arc<str>, ServiceLoad>) -> Option<f64> {
        let all = self.work.questions * self.work.configurations;
        let knows_rounds = self.has_rehearsed || sample.outcomes * KNOWN_FROM > all;
        if elapsed < FIRST_AFTER || !knows_rounds || sample.rounds.is_empty() {
            return None;
        }
        let is_unknown = |(name, service): (&Arc<str>, &ServiceProgress)| {
            self.work.servers.contains(name)
                && service.computed + service.journalled == 0
                && loads.get(name).is_some_and(|load| load.requests > 0.0)
        };
        if sample.services.iter().any(is_unknown) {
            return None;
        }
        let pace = self.recent.pace()?;
        let outcomes = all.saturating_sub(sample.outcomes) as f64;
        let (mut work, mut longest) = (outcomes * OUTCOME_WORK, 0.0_f64);
        for (name, load) in loads {
            work += load.busy + load.requests * REPLY_WORK + load.tokens * TOKEN_WORK;
            // A worker computes one batch of a service at a time; a server answers as many requests as it likes.
            if !self.work.servers.contains(name) {
                longest = longest.max(load.busy / self.work.workers.max(1) as f64);
            }
        }
        Some((work * pace).max(longest) + self.end_seconds())
    }

    /// The requests still to come, and their service, by service.
    fn expected_loads(&self, sample: &ProgressSample) -> BTreeMap<Arc<str>, ServiceLoad> {
        let costs = RequestCosts::new(&self.work, &self.recent, sample);
        let mut future: BTreeMap<Arc<str>, ServiceLoad> = BTreeMap::new();
        // Waiting requests: those of machines in their rounds, in shares.
        let mut open: BTreeMap<Arc<str>, ServiceLoad> = BTreeMap::new();
        for configuration in 0..self.work.configurations as u32 {
            let mut coming = 0.0;
            for stage in self.stages(configuration, &sample.rounds) {
                for (service, mean) in &stage.means {
                    let cost = costs.of_round(service, &stage);
                    let (soon, now) = (coming * mean, stage.active * mean);
                    let come = future.entry(Arc::clone(&service.0)).or_default();
                    come.requests += soon;
                    come.busy += soon * cost.coming;
                    let waits = open.entry(Arc::clone(&service.0)).or_default();
                    waits.requests += now;
                    waits.busy += now * cost.waiting;
                }
                coming = (coming + stage.active) * stage.goes_on;
            }
        }
        for (name, progress) in &sample.services {
            let load = future.entry(Arc::clone(name)).or_default();
            let computed = costs.computed_share(name);
            load.busy *= computed;
            let waiting = progress.waiting() as f64;
            if progress.prepared > 0 {
                let unprepared = (progress.requests - progress.journalled).saturating_sub(progress.prepared) as f64;
                let mean = progress.prepared_tokens as f64 / progress.prepared as f64;
                load.tokens = (load.requests * computed + unprepared) * mean;
            }
            let mean = open.get(name).filter(|open| open.requests > 0.0).map(|open| open.busy / open.requests);
            load.requests += waiting;
            load.busy += waiting * mean.unwrap_or_else(|| costs.of_service(name));
        }
        future
    }

    /// The rounds of a configuration in order, from round 0, before the first requests.
    fn stages<'a>(&'a self, configuration: u32, rounds: &'a RoundTable) -> Vec<RoundStage<'a>> {
        let last = |rounds: &RoundTable| {
            rounds.range((configuration, 0)..=(configuration, u32::MAX)).next_back().map_or(0, |((_, round), _)| *round)
        };
        let last = last(rounds).max(last(&self.rehearsed.rounds));
        let weight = REHEARSED_WEIGHT / self.rehearsed.questions.max(1) as f64;
        let table = |rounds: &'a RoundTable, round: u32| rounds.get(&(configuration, round));
        let count = |counts: Option<&RoundCounts>, pick: fn(&RoundCounts) -> u64| counts.map_or(0, pick) as f64;
        let stage = |round: u32| {
            let (counts, rehearsed) = (table(rounds, round), table(&self.rehearsed.rounds, round));
            let (next, rehearsed_next) = (table(rounds, round + 1), table(&self.rehearsed.rounds, round + 1));
            let reached = if round == 0 { self.work.questions as f64 } else { count(counts, |c| c.reached) };
            let (ended, went_on) = (count(counts, |c| c.ended), count(next, |c| c.reached));
            let goes_on = went_on + weight * count(rehearsed_next, |c| c.reached);
            let stops = ended + weight * count(rehearsed, |c| c.ended);
            RoundStage {
                round: (configuration, round),
                counts,
                rehearsed,
                active: (reached - ended - went_on).max(0.0),
                goes_on: if goes_on > 0.0 { goes_on / (goes_on + stops) } else { 0.0 },
                means: mean_requests(counts, rehearsed, weight),
            }
        };
        (0..=last).map(stage).collect()
    }
}

/// The requests that a machine sends in a round, by service: the mean over real machines and rehearsed ones.
fn mean_requests<'a>(
    counts: Option<&'a RoundCounts>,
    rehearsed: Option<&'a RoundCounts>,
    weight: f64,
) -> Vec<(&'a ServiceName, f64)> {
    let (mut machines, mut sent): (f64, BTreeMap<&ServiceName, f64>) = (0.0, BTreeMap::new());
    for (counts, weight) in [(counts, 1.0), (rehearsed, weight)] {
        let Some(counts) = counts else { continue };
        machines += weight * counts.reached as f64;
        for (service, requests) in &counts.requests {
            *sent.entry(service).or_default() += weight * requests.sent as f64;
        }
    }
    if machines <= 0.0 {
        return Vec::new();
    }
    sent.into_iter().map(|(service, sent)| (service, sent / machines)).collect()
}

/// The service with the most work left.
fn busiest_service(loads: &BTreeMap<Arc<str>, ServiceLoad>, sample: &ProgressSample) -> Option<(String, u64, u64)> {
    let (name, load) = loads.iter().max_by(|a, b| a.1.busy.total_cmp(&b.1.busy)).filter(|(_, load)| load.busy > 0.0)?;
    let answered = sample.services.get(name).map_or(0, |service| service.journalled + service.computed);
    Some((name.to_string(), answered, answered + load.requests.round() as u64))
}

/// The shown estimate after `since` seconds: it moves towards the new one by shares of their ratio, so that no single
/// sample makes it jump.
fn damped(shown: Option<f64>, raw: f64, since: f64, elapsed: f64) -> f64 {
    let Some(shown) = shown else { return raw };
    let expected = (shown - since).max(shown / 2.0).max(1e-3);
    // Slowly while much is left, within a second at the end.
    let slowness = (elapsed / 20.0).clamp(1.5, 8.0).min((shown.max(raw) / 5.0).max(0.4));
    let share = 1.0 - (-since / slowness).exp();
    expected.powf(1.0 - share) * raw.max(1e-3).powf(share)
}

#[cfg(test)]
mod tests;
