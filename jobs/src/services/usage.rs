//! The usage of a service: counted by its threads, summed up over workers, commits and runs.
//!
//! A counter is declared once, in the table below. It is then in [`Usage`], in the atomic [`UsageCounters`] of a
//! service's threads, in `+` and `-`, and, under its stored name, in the notes of commits. Rename a counter only with
//! `serde(rename)`. In notes older than a counter, the counter is 0.

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
            /// The work of its model; absent in earlier versions.
            pub model: ModelUsage,
        }

        /// The work of a service's model. A counter is 0 in notes of versions without it.
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
            /// Joins each counter of two usages.
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
        /// Requests received; equal requests in flight together count once.
        requests,
        /// Different keys among them, in one generation: after a restart a repeated key counts again.
        unique,
        /// Answered from the journal or from memory.
        journalled,
        /// Computed.
        computed,
        /// Failed.
        failed,
        /// Unusable journalled answers, computed again.
        unreadable,
        /// Microseconds of service; for a model those of its device.
        service_us,
    }
    model {
        /// Prompt tokens of computed requests.
        prompt_tokens,
        /// Generated tokens.
        completion_tokens,
        /// Scored tokens.
        scored_tokens,
        /// Operations of computed requests, each by itself.
        operations,
        /// Tokens computed by the model: fewer if requests shared work.
        computed_tokens,
        /// Computed requests with texts cut to fit.
        cut,
        // Services add the energy before its time, so no reading has time without its energy.
        /// Microseconds of the device.
        device_us,
        /// Microseconds of the device with metered energy.
        metered_us,
        /// Microjoules used in the metered time.
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
    /// Seconds of the device; `None` if a service has no device or did not use it.
    pub fn device_s(&self) -> Option<f64> {
        (self.model.device_us > 0).then(|| self.model.device_us as f64 / 1e6)
    }

    /// Device energy in joules; `None` if part of the time was not metered.
    pub fn energy_j(&self) -> Option<f64> {
        let ModelUsage { device_us, metered_us, energy_uj, .. } = self.model;
        (device_us > 0 && metered_us >= device_us).then_some(energy_uj as f64 / 1e6)
    }

    /// Seconds of the device for a performed operation.
    pub fn device_rate(&self) -> Option<f64> {
        Some(self.device_s()? / self.performed_operations()?)
    }

    /// Joules for a performed operation; `None` if nothing was metered. Unmetered time is assumed to use the same power
    /// as metered time: all devices of a service are of one numerics class.
    pub fn energy_rate(&self) -> Option<f64> {
        let ModelUsage { metered_us, energy_uj, .. } = self.model;
        let watts = (metered_us > 0).then(|| energy_uj as f64 / metered_us as f64)?;
        Some(watts * self.device_rate()?)
    }

    /// Performed operations, if any. With shared work they are fewer than the sum over requests, in the proportion of
    /// computed tokens to the tokens of the requests.
    fn performed_operations(&self) -> Option<f64> {
        let ModelUsage { prompt_tokens, completion_tokens, scored_tokens, operations, computed_tokens, .. } =
            self.model;
        let tokens = (prompt_tokens + completion_tokens + scored_tokens) as f64;
        Some(operations as f64 * (computed_tokens as f64 / tokens)).filter(|&performed| performed > 0.0)
    }
}

impl UsageCounters {
    /// Counts a computed response, with its service time and device time in microseconds.
    pub(super) fn count_response(&self, response: &Response, service_us: u64, device_us: u64) {
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

    /// Counts an answer's share of the computed tokens and of the metered energy and time.
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

/// Counters at 0 for the named services.
pub fn service_counters<'a>(names: impl IntoIterator<Item = &'a Arc<str>>) -> ServiceCounters {
    Arc::new(names.into_iter().map(|name| (Arc::clone(name), UsageCounters::default())).collect())
}

/// A service's usage, in notes of commits.
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

    /// 100 tokens with 1,000 operations; the model computed half of the tokens, in 2 seconds with 500 joules.
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
    fn partly_metered_time_has_a_rate_and_no_sum() {
        // A quarter of the time at 250 W: the energy of the other three quarters is unknown, not 0.
        let part =
            UsageCounters { metered_us: AtomicU64::new(500_000), energy_uj: AtomicU64::new(125_000_000), ..counters() };
        let part = part.read();
        assert_eq!((part.energy_j(), part.energy_rate()), (None, Some(1.0)));

        // Old commits, or commits of a host without metering, together with new ones.
        let metered = counters().read();
        let mut both = counters().read();
        both.model = ModelUsage { metered_us: 0, energy_uj: 0, ..both.model };
        both += metered;
        assert_eq!((both.energy_j(), both.energy_rate(), both.device_s()), (None, Some(1.0), Some(4.0)));
        assert_eq!(both.energy_rate(), metered.energy_rate());

        // Shorter than the counter's step: metered, and 0.
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
