//! The work that a service did: counted by its threads, summed up over workers, commits and runs.
//!
//! A counter is declared once, in the table below. It is then in [`Usage`], in the atomic [`UsageCounters`] of a service's
//! threads, in `+` and `-`, and in the notes of commits, where its name is stored. Rename a counter only with
//! `serde(rename)`; in notes that were written before a counter was there, it is 0.

use super::timing::{microjoules, microseconds};
use hopeval_methods::Response;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::{Add, AddAssign, Sub};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

macro_rules! counters {
    (
        requests { $($(#[$documentation:meta])* $counter:ident,)+ }
        model { $($(#[$model_documentation:meta])* $model_counter:ident,)+ }
    ) => {
        /// The work of a service.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct Usage {
            $($(#[$documentation])* pub $counter: u64,)+
            /// The work of its model; earlier versions had none.
            pub model: ModelUsage,
        }

        /// The work of a service's model. Versions that did not count something have 0.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct ModelUsage {
            $($(#[$model_documentation])* pub $model_counter: u64,)+
        }

        /// The same, counted by several threads.
        #[derive(Debug, Default)]
        pub struct UsageCounters {
            $($(#[$documentation])* pub $counter: AtomicU64,)+
            $($(#[$model_documentation])* pub $model_counter: AtomicU64,)+
        }

        impl UsageCounters {
            /// The counters as they are now, read in the order of their declaration.
            pub fn read(&self) -> Usage {
                Usage {
                    $($counter: self.$counter.load(Relaxed),)+
                    model: ModelUsage { $($model_counter: self.$model_counter.load(Relaxed),)+ },
                }
            }
        }

        impl Usage {
            /// Takes each counter of two usages together.
            fn with(self, other: Self, join: fn(u64, u64) -> u64) -> Self {
                Self {
                    $($counter: join(self.$counter, other.$counter),)+
                    model: ModelUsage {
                        $($model_counter: join(self.model.$model_counter, other.model.$model_counter),)+
                    },
                }
            }
        }
    };
}

counters! {
    requests {
        /// Requests that reached it; equal ones that are in flight together count once.
        requests,
        /// Different keys among them, in one generation: a key that is asked again after a restart counts again.
        unique,
        /// Answered from the journal or from memory.
        journalled,
        /// Computed.
        computed,
        /// Failed.
        failed,
        /// Journalled answers that could not be used, and were computed again.
        unreadable,
        /// Microseconds of service; of a model those of its device.
        service_us,
    }
    model {
        /// Tokens of the prompts of what was computed.
        prompt_tokens,
        /// Tokens that were generated.
        completion_tokens,
        /// Tokens that were scored.
        scored_tokens,
        /// Operations of what was computed, each request by itself.
        operations,
        /// Tokens that went through the model: fewer where work was shared.
        computed_tokens,
        /// Requests of what was computed whose texts were cut to fit.
        cut,
        // Services add their energy before the time: no reading has time whose energy is still to come.
        /// Microseconds of the device.
        device_us,
        /// Microseconds of the device for what has its energy counted.
        metered_us,
        /// Microjoules that the device used for that.
        energy_uj,
    }
}

impl Add for Usage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        self.with(other, |sum, more| sum + more)
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Usage {
    type Output = Self;

    /// The work since an earlier reading.
    fn sub(self, before: Self) -> Self {
        self.with(before, |now, before| now - before)
    }
}

impl Usage {
    /// Seconds of the device; `None` where a service has no device, or did not use it.
    pub fn device_s(&self) -> Option<f64> {
        (self.model.device_us > 0).then(|| self.model.device_us as f64 / 1e6)
    }

    /// Device energy in joules; `None` if part of the time was not metered.
    pub fn energy_j(&self) -> Option<f64> {
        let ModelUsage { device_us, metered_us, energy_uj, .. } = self.model;
        (device_us > 0 && metered_us >= device_us).then_some(energy_uj as f64 / 1e6)
    }

    /// Seconds of the device for an operation that is performed.
    pub fn device_rate(&self) -> Option<f64> {
        Some(self.device_s()? / self.performed()?)
    }

    /// Joules for an operation that is performed; `None` where nothing was metered. Time that was not metered is taken to
    /// have used as much energy a second as the rest: all devices of a service are of one numerics class.
    pub fn energy_rate(&self) -> Option<f64> {
        let ModelUsage { metered_us, energy_uj, .. } = self.model;
        let watts = (metered_us > 0).then(|| energy_uj as f64 / metered_us as f64)?;
        Some(watts * self.device_rate()?)
    }

    /// Operations that were performed, if there were any. Sharing performs fewer than the requests need by themselves: as
    /// the share of their tokens that went through the model says.
    fn performed(&self) -> Option<f64> {
        let ModelUsage { prompt_tokens, completion_tokens, scored_tokens, operations, computed_tokens, .. } =
            self.model;
        let tokens = (prompt_tokens + completion_tokens + scored_tokens) as f64;
        Some(operations as f64 * (computed_tokens as f64 / tokens)).filter(|&performed| performed > 0.0)
    }
}

impl UsageCounters {
    /// Counts a response that was computed, and how long it kept its service and its device busy.
    pub(super) fn count(&self, response: &Response, service_us: u64, device_us: u64) {
        add(&self.computed, 1);
        add(&self.failed, u64::from(response.result.is_err()));
        add(&self.prompt_tokens, response.work.prompt_tokens);
        add(&self.completion_tokens, response.work.completion_tokens);
        add(&self.scored_tokens, response.work.scored_tokens);
        add(&self.operations, response.work.operations);
        add(&self.cut, u64::from(response.is_cut() == Some(true)));
        add(&self.service_us, service_us);
        add(&self.device_us, device_us);
    }

    /// Counts the share of an answer in what went through the model, and in the energy that was metered.
    pub(super) fn count_shared(&self, computed_tokens: u64, energy_j: f64, metered_s: f64) {
        add(&self.energy_uj, microjoules(energy_j));
        add(&self.metered_us, microseconds(metered_s));
        add(&self.computed_tokens, computed_tokens);
    }
}

/// Adds to a counter.
pub(super) fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Relaxed);
}

/// The counters of all services of one worker, by name.
pub type ServiceCounters = Arc<BTreeMap<Arc<str>, UsageCounters>>;

/// Counters at 0 for the services of these names.
pub fn service_counters<'a>(names: impl IntoIterator<Item = &'a Arc<str>>) -> ServiceCounters {
    Arc::new(names.into_iter().map(|name| (Arc::clone(name), UsageCounters::default())).collect())
}

/// A service's usage, as notes of commits have it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceUsage {
    /// The service.
    pub service: String,
    /// Its usage.
    #[serde(flatten)]
    pub usage: Usage,
}

/// Usages by service, added up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsageSums(pub BTreeMap<String, Usage>);

impl UsageSums {
    /// Adds the usage of a service.
    pub fn add(&mut self, service: &str, usage: Usage) {
        match self.0.get_mut(service) {
            Some(sum) => *sum += usage,
            None => drop(self.0.insert(service.to_owned(), usage)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 100 tokens that need 1,000 operations, half of which went through the model, in 2 seconds with 500 joules.
    fn counters() -> UsageCounters {
        UsageCounters {
            requests: AtomicU64::new(3),
            prompt_tokens: AtomicU64::new(90),
            scored_tokens: AtomicU64::new(10),
            operations: AtomicU64::new(1_000),
            computed_tokens: AtomicU64::new(50),
            device_us: AtomicU64::new(2_000_000),
            metered_us: AtomicU64::new(2_000_000),
            energy_uj: AtomicU64::new(500_000_000),
            ..UsageCounters::default()
        }
    }

    #[test]
    fn rates_are_of_what_was_performed() {
        let usage = counters().read();
        assert_eq!((usage.device_s(), usage.energy_j()), (Some(2.0), Some(500.0)));
        assert_eq!((usage.device_rate(), usage.energy_rate()), (Some(2.0 / 500.0), Some(1.0)));
    }

    #[test]
    fn what_was_not_counted_has_no_rate_and_is_not_0() {
        let of = |model| Usage { model, ..Usage::default() };
        let uncounted = UsageCounters { metered_us: AtomicU64::new(0), energy_uj: AtomicU64::new(0), ..counters() };
        let timed = uncounted.read();
        assert_eq!((timed.energy_j(), timed.energy_rate(), timed.device_rate()), (None, None, Some(2.0 / 500.0)));
        // Everything was in the journal.
        let nothing = of(ModelUsage::default());
        assert_eq!((nothing.energy_j(), nothing.energy_rate(), nothing.device_rate()), (None, None, None));
        let unperformed = of(ModelUsage { energy_uj: 5, metered_us: 5, device_us: 5, ..ModelUsage::default() });
        assert_eq!((unperformed.energy_rate(), unperformed.device_rate()), (None, None));
    }

    #[test]
    fn what_was_counted_in_part_has_the_rate_of_that_part_and_no_sum() {
        // A quarter of the time at 250 W: the other three quarters are neither free nor known.
        let part =
            UsageCounters { metered_us: AtomicU64::new(500_000), energy_uj: AtomicU64::new(125_000_000), ..counters() };
        let part = part.read();
        assert_eq!((part.energy_j(), part.energy_rate()), (None, Some(1.0)));

        // Commits of before energy was counted, or of a host where it is not, and those of now.
        let metered = counters().read();
        let mut both = counters().read();
        both.model = ModelUsage { metered_us: 0, energy_uj: 0, ..both.model };
        both += metered;
        assert_eq!((both.energy_j(), both.energy_rate(), both.device_s()), (None, Some(1.0), Some(4.0)));
        assert_eq!(both.energy_rate(), metered.energy_rate());

        // Shorter than the counter's step: counted, and nothing.
        let model = ModelUsage { metered_us: 9, device_us: 9, ..ModelUsage::default() };
        assert_eq!(Usage { model, ..Usage::default() }.energy_j(), Some(0.0));
    }

    #[test]
    fn readings_add_up_to_the_whole() {
        let counters = counters();
        let first = counters.read();
        counters.energy_uj.fetch_add(7, Relaxed);
        counters.metered_us.fetch_add(2, Relaxed);
        counters.device_us.fetch_add(3, Relaxed);
        let second = counters.read();
        let since = second - first;
        let ModelUsage { energy_uj, metered_us, device_us, operations, .. } = since.model;
        assert_eq!((energy_uj, metered_us, device_us, operations), (7, 2, 3, 0));
        let mut sum = first;
        sum += since;
        assert_eq!(sum, second);
    }

    #[test]
    fn commits_of_earlier_versions_have_counted_no_energy() {
        let earlier = r#"{"service":"t5","requests":2,"unique":2,"journalled":0,"computed":2,"failed":0,"unreadable":0,
                          "service_us":9,"model":{"operations":4,"device_us":9}}"#;
        let ServiceUsage { service, usage } = serde_json::from_str(earlier).expect("a usage");
        assert_eq!((usage.model.device_us, usage.model.metered_us), (9, 0));
        assert_eq!((service.as_str(), usage.energy_j()), ("t5", None));
    }
}
