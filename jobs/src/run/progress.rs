//! How far one process is with its part of a run: counts, as they are at one moment.

use super::demand::{RequestDemand, RoundTable, serialize_rounds};
use crate::services::service::{Service, Services};
use crate::services::usage::{ServiceCounters, Usage};
use hopeval_operators::OperatorCounters;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The counters of the services, for each worker of a process.
pub type ProcessUsage = Arc<Mutex<Vec<ServiceCounters>>>;

/// Reads the progress of one process.
#[derive(Clone)]
pub struct ProgressProbe {
    /// Counters of the process's operators.
    pub counters: Arc<OperatorCounters>,
    /// Counters of its services.
    pub usage: ProcessUsage,
    /// Its machines' requests.
    pub demand: Arc<RequestDemand>,
    /// The services with journalled answers. Look-ups in the corpus are answered at once, and counted nowhere.
    pub services: Services,
}

/// The progress of one process, since its generation began.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ProgressSample {
    /// Outcomes.
    pub outcomes: u64,
    /// Replies of services and look-ups to machines.
    pub served: u64,
    /// Questions admitted.
    pub admitted: u64,
    /// The services with journalled answers, by name.
    pub services: BTreeMap<Arc<str>, ServiceProgress>,
    /// The machines' rounds.
    #[serde(serialize_with = "serialize_rounds")]
    pub rounds: RoundTable,
}

/// The progress of one service in one process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ServiceProgress {
    /// Requests received; equal ones in flight together count once.
    pub requests: u64,
    /// Of them answered from the journal or from memory.
    pub journalled: u64,
    /// Of them computed, failures included.
    pub computed: u64,
    /// Tokenised for the model, those of an index that was made included.
    pub prepared: u64,
    /// Their tokens.
    pub prepared_tokens: u64,
    /// Microseconds of service of the computed ones; for a model those of its device.
    pub busy_us: u64,
    /// Their tokens, each request by itself.
    pub tokens: u64,
    /// Tokens that the model computed for them: fewer if requests shared work.
    pub computed_tokens: u64,
    /// Their operations, each request by itself.
    pub operations: u64,
}

impl ProgressProbe {
    /// The progress as it is now.
    pub fn sample(&self) -> ProgressSample {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut services: BTreeMap<Arc<str>, ServiceProgress> =
            self.services.iter().map(|(name, service)| (Arc::clone(name), ServiceProgress::new(&**service))).collect();
        for counters in self.usage.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            for (name, progress) in &mut services {
                if let Some(counters) = counters.get(name) {
                    progress.add(&counters.read());
                }
            }
        }
        ProgressSample {
            outcomes: count(&self.counters.outcomes),
            served: count(&self.counters.served),
            admitted: count(&self.counters.admitted),
            services,
            rounds: self.demand.read(),
        }
    }
}

impl ProgressSample {
    /// The progress at the beginning of a run that is now at `sample`: nothing, but what was prepared for other work.
    pub fn before(sample: &Self) -> Self {
        let prepared = |progress: &ServiceProgress| ServiceProgress {
            prepared: progress.prepared,
            prepared_tokens: progress.prepared_tokens,
            ..ServiceProgress::default()
        };
        let services = sample.services.iter().map(|(name, progress)| (Arc::clone(name), prepared(progress)));
        Self { services: services.collect(), ..Self::default() }
    }
}

impl ServiceProgress {
    /// The progress of a service before its workers' counts are added.
    fn new(service: &dyn Service) -> Self {
        let (prepared, prepared_tokens) = service.prepared_requests().unwrap_or_default();
        Self { prepared, prepared_tokens, ..Self::default() }
    }

    /// Adds the usage of one worker's service.
    pub fn add(&mut self, usage: &Usage) {
        let model = &usage.model;
        self.requests += usage.requests;
        self.journalled += usage.journalled;
        self.computed += usage.computed;
        self.busy_us += if model.device_us > 0 { model.device_us } else { usage.service_us };
        self.tokens += model.prompt_tokens + model.completion_tokens + model.scored_tokens;
        self.computed_tokens += model.computed_tokens;
        self.operations += model.operations;
    }

    /// Requests that wait for their answers.
    pub fn waiting(&self) -> u64 {
        self.requests.saturating_sub(self.journalled + self.computed)
    }
}
