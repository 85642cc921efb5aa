//! The work of one service, as its counters read at one time.

use super::spent::Spent;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What one service did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spending {
    /// The service.
    pub service: String,
    /// Requests that reached it.
    pub requests: u64,
    /// Different ones; a key that is asked again after a restart counts again.
    pub unique: u64,
    /// Answered from the journal or from memory.
    pub journalled: u64,
    /// Computed.
    pub computed: u64,
    /// Failed.
    pub failed: u64,
    /// Journalled answers that could not be used.
    pub unreadable: u64,
    /// Microseconds of service.
    pub service_us: u64,
    /// What models did; earlier versions had none.
    #[serde(default)]
    pub model: ModelSpending,
}

/// What a service's model did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelSpending {
    /// Tokens of the prompts of what was computed.
    pub prompt_tokens: u64,
    /// Tokens that were generated.
    pub completion_tokens: u64,
    /// Tokens that were scored.
    pub scored_tokens: u64,
    /// Operations of what was computed, each request by itself.
    pub operations: u64,
    /// Tokens that went through the model.
    pub computed_tokens: u64,
    /// Requests of what was computed whose texts were cut to fit; earlier versions counted none.
    pub cut: u64,
    /// Microseconds of the device.
    pub device_us: u64,
    /// Of these, for what has its energy counted; earlier versions counted none.
    pub metered_us: u64,
    /// Microjoules that the device used for that.
    pub energy_uj: u64,
}

impl Spending {
    /// Nothing yet.
    pub fn none(service: &str) -> Self {
        Self { service: service.to_owned(), ..Self::default() }
    }

    /// What the counters say now.
    pub fn of(service: &str, spent: &Spent) -> Self {
        let read = |counter: &AtomicU64| counter.load(Relaxed);
        Self {
            service: service.to_owned(),
            requests: read(&spent.requests),
            unique: read(&spent.unique),
            journalled: read(&spent.journalled),
            computed: read(&spent.computed),
            failed: read(&spent.failed),
            unreadable: read(&spent.unreadable),
            service_us: read(&spent.service_us),
            model: ModelSpending {
                prompt_tokens: read(&spent.prompt_tokens),
                completion_tokens: read(&spent.completion_tokens),
                scored_tokens: read(&spent.scored_tokens),
                operations: read(&spent.operations),
                computed_tokens: read(&spent.computed_tokens),
                cut: read(&spent.cut),
                // Services add their energy before the time: no reading has time whose energy is still to come.
                device_us: read(&spent.device_us),
                metered_us: read(&spent.metered_us),
                energy_uj: read(&spent.energy_uj),
            },
        }
    }

    /// What came since an earlier reading.
    pub fn since(&self, before: &Self) -> Self {
        self.with(before, |now, before| now - before)
    }

    /// Adds another reading of the same service.
    pub fn add(&mut self, other: &Self) {
        *self = self.with(other, |sum, more| sum + more);
    }

    fn with(&self, other: &Self, of: impl Fn(u64, u64) -> u64) -> Self {
        let (a, b) = (&self.model, &other.model);
        Self {
            service: self.service.clone(),
            requests: of(self.requests, other.requests),
            unique: of(self.unique, other.unique),
            journalled: of(self.journalled, other.journalled),
            computed: of(self.computed, other.computed),
            failed: of(self.failed, other.failed),
            unreadable: of(self.unreadable, other.unreadable),
            service_us: of(self.service_us, other.service_us),
            model: ModelSpending {
                prompt_tokens: of(a.prompt_tokens, b.prompt_tokens),
                completion_tokens: of(a.completion_tokens, b.completion_tokens),
                scored_tokens: of(a.scored_tokens, b.scored_tokens),
                operations: of(a.operations, b.operations),
                computed_tokens: of(a.computed_tokens, b.computed_tokens),
                cut: of(a.cut, b.cut),
                device_us: of(a.device_us, b.device_us),
                metered_us: of(a.metered_us, b.metered_us),
                energy_uj: of(a.energy_uj, b.energy_uj),
            },
        }
    }

    /// Seconds of the device; none where a service has no device, or did not use it.
    pub fn device_s(&self) -> Option<f64> {
        (self.model.device_us > 0).then(|| self.model.device_us as f64 / 1e6)
    }

    /// Joules that the device used; none where those of any of its time were not counted.
    pub fn energy_j(&self) -> Option<f64> {
        let ModelSpending { device_us, metered_us, energy_uj, .. } = self.model;
        (device_us > 0 && metered_us >= device_us).then_some(energy_uj as f64 / 1e6)
    }

    /// Seconds of the device for an operation that is performed.
    pub fn device_rate(&self) -> Option<f64> {
        Some(self.device_s()? / self.performed()?)
    }

    /// Joules for an operation that is performed; none where nothing counted them. What was not counted is taken to have used
    /// as much in a second of the device as what was: all devices of a service are of one numerics class.
    pub fn energy_rate(&self) -> Option<f64> {
        let ModelSpending { metered_us, energy_uj, .. } = self.model;
        let watts = (metered_us > 0).then(|| energy_uj as f64 / metered_us as f64)?;
        Some(watts * self.device_rate()?)
    }

    /// Operations that were performed, if there were any. Sharing performs fewer than the requests need by themselves: as
    /// the share of their tokens that went through the model says.
    fn performed(&self) -> Option<f64> {
        let ModelSpending { prompt_tokens, completion_tokens, scored_tokens, operations, computed_tokens, .. } =
            self.model;
        let tokens = (prompt_tokens + completion_tokens + scored_tokens) as f64;
        Some(operations as f64 * (computed_tokens as f64 / tokens)).filter(|&performed| performed > 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 100 tokens that need 1,000 operations, half of which went through the model, in 2 seconds with 500 joules.
    fn spent() -> Spent {
        Spent {
            requests: AtomicU64::new(3),
            prompt_tokens: AtomicU64::new(90),
            scored_tokens: AtomicU64::new(10),
            operations: AtomicU64::new(1_000),
            computed_tokens: AtomicU64::new(50),
            device_us: AtomicU64::new(2_000_000),
            metered_us: AtomicU64::new(2_000_000),
            energy_uj: AtomicU64::new(500_000_000),
            ..Spent::default()
        }
    }

    #[test]
    fn rates_are_of_what_was_performed() {
        let spending = Spending::of("scorer", &spent());
        assert_eq!((spending.device_s(), spending.energy_j()), (Some(2.0), Some(500.0)));
        assert_eq!((spending.device_rate(), spending.energy_rate()), (Some(2.0 / 500.0), Some(1.0)));
    }

    #[test]
    fn what_was_not_counted_has_no_rate_and_is_not_0() {
        let of = |model| Spending { model, ..Spending::none("scorer") };
        let uncounted = Spent { metered_us: AtomicU64::new(0), energy_uj: AtomicU64::new(0), ..spent() };
        let timed = Spending::of("scorer", &uncounted);
        assert_eq!((timed.energy_j(), timed.energy_rate(), timed.device_rate()), (None, None, Some(2.0 / 500.0)));
        // Everything was in the journal.
        let nothing = of(ModelSpending::default());
        assert_eq!((nothing.energy_j(), nothing.energy_rate(), nothing.device_rate()), (None, None, None));
        let unperformed = of(ModelSpending { energy_uj: 5, metered_us: 5, device_us: 5, ..ModelSpending::default() });
        assert_eq!((unperformed.energy_rate(), unperformed.device_rate()), (None, None));
    }

    #[test]
    fn what_was_counted_in_part_has_the_rate_of_that_part_and_no_sum() {
        // A quarter of the time at 250 W: the other three quarters are neither free nor known.
        let part = Spent { metered_us: AtomicU64::new(500_000), energy_uj: AtomicU64::new(125_000_000), ..spent() };
        let part = Spending::of("scorer", &part);
        assert_eq!((part.energy_j(), part.energy_rate()), (None, Some(1.0)));

        // Commits of before energy was counted, or of a host where it is not, and those of now.
        let metered = Spending::of("scorer", &spent());
        let mut both = Spending::of("scorer", &spent());
        both.model = ModelSpending { metered_us: 0, energy_uj: 0, ..both.model };
        both.add(&metered);
        assert_eq!((both.energy_j(), both.energy_rate(), both.device_s()), (None, Some(1.0), Some(4.0)));
        assert_eq!(both.energy_rate(), metered.energy_rate());

        // Shorter than the counter's step: counted, and nothing.
        let model = ModelSpending { metered_us: 9, device_us: 9, ..ModelSpending::default() };
        assert_eq!(Spending { model, ..Spending::none("scorer") }.energy_j(), Some(0.0));
    }

    #[test]
    fn readings_add_up_to_the_whole() {
        let counters = spent();
        let first = Spending::of("scorer", &counters);
        counters.energy_uj.fetch_add(7, Relaxed);
        counters.metered_us.fetch_add(2, Relaxed);
        counters.device_us.fetch_add(3, Relaxed);
        let second = Spending::of("scorer", &counters);
        let since = second.since(&first);
        let ModelSpending { energy_uj, metered_us, device_us, operations, .. } = since.model;
        assert_eq!((energy_uj, metered_us, device_us, operations), (7, 2, 3, 0));
        let mut sum = first;
        sum.add(&since);
        assert_eq!(sum, second);
    }

    #[test]
    fn commits_of_earlier_versions_have_counted_no_energy() {
        let earlier = r#"{"service":"t5","requests":2,"unique":2,"journalled":0,"computed":2,"failed":0,"unreadable":0,
                          "service_us":9,"model":{"operations":4,"device_us":9}}"#;
        let spending: Spending = serde_json::from_str(earlier).expect("a spending");
        assert_eq!((spending.model.device_us, spending.model.metered_us), (9, 0));
        assert_eq!(spending.energy_j(), None);
    }
}
