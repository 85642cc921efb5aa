//! The table of costs: attributed to configurations, and incurred by the run.

use super::paid::PaidSums;
use crate::error::JobError;
use crate::job::rankings::CURRENCY;
use crate::prepare::brought::COST_NOTE;
use crate::run::open::OpenRun;
use crate::run::writes::CommitNote;
use crate::services::ServiceEntry;
use crate::services::price_sum::PriceSum;
use crate::services::usage::{Usage, UsageSums};
use crate::spending::cap::NANOS;
use hopeval_datasets::RowCost;
use hopeval_results::Log;
use hopeval_results::tables::{CallRow, CostRow, OutcomeRow, StepCallRow};
use std::collections::{BTreeMap, BTreeSet};

/// Usage of the services over all valid commits.
pub fn incurred_usage(log: &Log) -> BTreeMap<String, Usage> {
    let mut sums = UsageSums::default();
    for commit in &log.state().commits {
        let note: CommitNote = serde_json::from_value(commit.live.clone()).unwrap_or_default();
        for spent in note.spent {
            sums.add(&spent.service, spent.usage);
        }
    }
    sums.0
}

/// Usage of the outcomes, by (configuration, service, kind of request, step).
#[derive(Debug, Default)]
pub(super) struct Attribution {
    calls: GroupSums<CallRow>,
    measured: GroupSums<MeasuredSums>,
    /// The costs in the files of rankings, by configuration.
    brought: BTreeMap<u32, BroughtSums>,
}

/// The service and the kind in the rows of costs that were brought in with the outcomes of another system.
pub const BROUGHT: &str = "brought";

/// Stands for the currency of `run.price_per_device_hour`, which has no name.
pub(super) const DEVICE_PRICE: &str = "that of `run.price_per_device_hour`";

/// Sums of brought costs, in the order of the outcomes.
#[derive(Clone, Copy, Debug, Default)]
struct BroughtSums {
    calls: u64,
    prompt_tokens: u64,
    completion_tokens: u64,
    seconds: Option<f64>,
    money: Option<f64>,
}

impl BroughtSums {
    fn add(&mut self, cost: &RowCost) {
        self.calls += cost.calls.unwrap_or(0);
        self.prompt_tokens += cost.prompt_tokens.unwrap_or(0);
        self.completion_tokens += cost.completion_tokens.unwrap_or(0);
        for (sum, more) in [(&mut self.seconds, cost.seconds), (&mut self.money, cost.money)] {
            if let Some(more) = more {
                *sum.get_or_insert(0.0) += more;
            }
        }
    }
}

/// Requests of a configuration that are counted together: the service, the kind of request, the step.
type AttributedGroup = [String; 3];

/// Sums by configuration and group, in this order. Each outcome adds to some: the texts of a known group are compared,
/// not copied.
#[derive(Debug)]
struct GroupSums<T>(BTreeMap<u32, Vec<(AttributedGroup, T)>>);

impl<T> Default for GroupSums<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T> GroupSums<T> {
    /// The sum of a group; `new` is that of nothing.
    fn entry(&mut self, configuration: u32, group: [&str; 3], new: impl FnOnce() -> T) -> &mut T {
        let groups = self.0.entry(configuration).or_default();
        let place = match Self::find(groups, group) {
            Ok(place) => place,
            Err(place) => {
                groups.insert(place, (group.map(str::to_owned), new()));
                place
            }
        };
        &mut groups[place].1
    }

    fn get(&self, configuration: u32, group: [&str; 3]) -> Option<&T> {
        let groups = self.0.get(&configuration)?;
        Some(&groups[Self::find(groups, group).ok()?].1)
    }

    fn iter(&self) -> impl Iterator<Item = (u32, &AttributedGroup, &T)> {
        self.0
            .iter()
            .flat_map(|(&configuration, groups)| groups.iter().map(move |(group, sum)| (configuration, group, sum)))
    }

    fn find(groups: &[(AttributedGroup, T)], group: [&str; 3]) -> Result<usize, usize> {
        groups.binary_search_by(|(known, _)| known.each_ref().map(String::as_str).cmp(&group))
    }
}

/// Measured facts about calls to endpoints; `None` where no endpoint says it.
#[derive(Clone, Debug, Default)]
struct MeasuredSums {
    attempts: u64,
    cached_prompt_tokens: Option<u64>,
    reasoning_tokens: Option<u64>,
    prices: PriceSum,
}

impl Attribution {
    /// Adds the calls of an outcome.
    pub(super) fn add(&mut self, outcome: &OutcomeRow) {
        // The calls of all steps are all calls of an outcome with steps.
        let steps = outcome.trace.as_ref().map_or(&[][..], |trace| &trace.steps);
        if steps.is_empty() {
            for call in &outcome.calls {
                let CallRow { calls, prompt_tokens, completion_tokens, scored_tokens, operations, cut, .. } = *call;
                let counts = [calls, prompt_tokens, completion_tokens, scored_tokens, operations];
                self.add_calls(outcome.configuration, [&call.service, &call.kind, ""], counts, cut);
            }
        }
        for row in steps {
            let StepCallRow { calls, prompt_tokens, completion_tokens, scored_tokens, operations, cut, .. } = *row;
            let counts = [calls, prompt_tokens, completion_tokens, scored_tokens, operations];
            self.add_calls(outcome.configuration, [&row.service, &row.kind, &row.step], counts, cut);
        }
        let notes = outcome.trace.iter().flat_map(|trace| &trace.notes).filter(|note| note.name == COST_NOTE);
        for cost in notes.filter_map(|note| serde_json::from_str(&note.text).ok()) {
            self.brought.entry(outcome.configuration).or_default().add(&cost);
        }
        for call in outcome.measured.iter().flatten() {
            let group = [&call.service[..], &call.kind, &call.step];
            let sums = self.measured.entry(outcome.configuration, group, MeasuredSums::default);
            let add =
                |sum: &mut Option<u64>, more: Option<u64>| *sum = sum.map_or(more, |sum| Some(sum + more.unwrap_or(0)));
            sums.attempts += call.attempts;
            add(&mut sums.cached_prompt_tokens, call.cached_prompt_tokens);
            add(&mut sums.reasoning_tokens, call.reasoning_tokens);
            sums.prices.add_row(call);
        }
    }

    /// Adds `counts` to a group: calls, tokens of prompts, written and scored ones, operations.
    fn add_calls(&mut self, configuration: u32, group: [&str; 3], counts: [u64; 5], cut: Option<u64>) {
        let sum = self.calls.entry(configuration, group, || {
            let [service, kind, _] = group.map(str::to_owned);
            CallRow { service, kind, cut: Some(0), ..CallRow::default() }
        });
        let [calls, prompt_tokens, completion_tokens, scored_tokens, operations] = counts;
        sum.calls += calls;
        sum.prompt_tokens += prompt_tokens;
        sum.completion_tokens += completion_tokens;
        sum.scored_tokens += scored_tokens;
        sum.operations += operations;
        // Unknown if any of the outcomes did not count it.
        sum.cut = sum.cut.zip(cut).map(|(sum, more)| sum + more);
    }
}

/// Measured rates of a run's services, and the price of their devices.
pub(super) struct ServiceRates {
    incurred: BTreeMap<String, Usage>,
    price_per_device_hour: Option<f64>,
}

impl ServiceRates {
    /// The rates of all valid commits.
    pub(super) fn of_run(log: &Log, price_per_device_hour: Option<f64>) -> Self {
        Self { incurred: incurred_usage(log), price_per_device_hour }
    }

    /// Seconds of a device for unshared work; unknown if nothing was computed in this run.
    pub(super) fn device_s(&self, call: &CallRow) -> Option<f64> {
        Some(self.incurred.get(&call.service)?.device_rate()? * call.operations as f64)
    }

    /// Joules of a device for unshared work; unknown if nothing was metered.
    pub(super) fn energy_j(&self, call: &CallRow) -> Option<f64> {
        Some(self.incurred.get(&call.service)?.energy_rate()? * call.operations as f64)
    }

    fn service_s(&self, call: &CallRow) -> Option<f64> {
        let spent = self.incurred.get(&call.service)?;
        // A model's work is measured by its operations, a retriever's by its queries.
        if spent.device_s().is_some() {
            return self.device_s(call);
        }
        let rate = spent.service_us as f64 / 1e6 / spent.computed as f64;
        (spent.computed > 0).then_some(rate * call.calls as f64)
    }

    /// The price of a device's seconds; unknown without one.
    pub(super) fn money(&self, device_s: Option<f64>) -> Option<f64> {
        Some(device_s? * self.price_per_device_hour? / 3600.0)
    }
}

/// Attributed costs of each configuration, those brought with the outcomes of other systems, then the run's incurred
/// costs.
pub(super) fn cost_rows(run: &OpenRun, log: &Log, attribution: &Attribution) -> Result<Vec<CostRow>, JobError> {
    let rates = ServiceRates::of_run(log, run.resolved.job.run.price_per_device_hour);
    let names = run.configuration_names();
    let paid_sums = PaidSums::read(&run.places.store, run.id(), &run.resolved.job)?;
    let services = &run.resolved.job.service;
    let attributed = attribution.calls.iter().map(|(configuration, group, call)| {
        let measured = attribution.measured.get(configuration, group.each_ref().map(String::as_str));
        let row = attributed_row(services.get(&group[0]), &rates, group, call, measured);
        CostRow { configuration: Some(names[configuration as usize].clone()), ..row }
    });
    let incurred = rates.incurred.iter().map(|(service, usage)| {
        let of_service = || attribution.calls.iter().filter(|(_, [name, ..], _)| name == service);
        let kinds: BTreeSet<&str> = of_service().map(|(_, [_, kind, _], _)| kind.as_str()).collect();
        let kind = kinds.into_iter().collect::<Vec<_>>().join("+");
        let requests = of_service().map(|(.., call)| call.calls).sum();
        let row = CostRow { kind, requests, money: rates.money(usage.device_s()), ..incurred_row(service, usage) };
        match &paid_sums {
            Some(paid) => paid.complete_row(row),
            None => row,
        }
    });
    let brought = attribution.brought.iter().map(|(&configuration, sums)| {
        let parameters = &run.resolved.configurations[configuration as usize].parameters;
        CostRow {
            configuration: Some(names[configuration as usize].clone()),
            service: BROUGHT.to_owned(),
            kind: BROUGHT.to_owned(),
            requests: sums.calls,
            prompt_tokens: sums.prompt_tokens,
            completion_tokens: sums.completion_tokens,
            service_s: sums.seconds,
            money: sums.money,
            currency: parameters[CURRENCY].as_str().map(str::to_owned),
            ..CostRow::default()
        }
    });
    Ok(attributed.chain(brought).chain(incurred).collect())
}

/// The costs of the calls of a group, without the configuration's name. `service` is the job's entry.
fn attributed_row(
    service: Option<&ServiceEntry>,
    rates: &ServiceRates,
    [name, kind, step]: &AttributedGroup,
    call: &CallRow,
    measured: Option<&MeasuredSums>,
) -> CostRow {
    let settings = service.map(ServiceEntry::settings);
    // Nobody pays a retriever for its answers.
    let prices = measured.map(|sums| &sums.prices).filter(|_| settings.is_some_and(|found| found.is_paid()));
    let own_currency = || Some(settings?.price()?.currency.clone());
    CostRow {
        service: name.clone(),
        kind: kind.clone(),
        requests: call.calls,
        prompt_tokens: call.prompt_tokens,
        completion_tokens: call.completion_tokens,
        scored_tokens: call.scored_tokens,
        operations: call.operations,
        cut: call.cut,
        service_s: rates.service_s(call),
        device_s: rates.device_s(call),
        // An endpoint's calls have prices, a model here has the price of its device's time.
        money: match prices {
            Some(prices) => prices.nanos().map(|nanos| nanos as f64 / NANOS),
            None => rates.money(rates.device_s(call)),
        },
        currency: prices.and_then(|prices| prices.currency().or_else(own_currency)),
        energy_j: rates.energy_j(call),
        step: Some(step.clone()).filter(|step| !step.is_empty()),
        attempts: measured.map(|sums| sums.attempts),
        cached_prompt_tokens: measured.and_then(|sums| sums.cached_prompt_tokens),
        reasoning_tokens: measured.and_then(|sums| sums.reasoning_tokens),
        unpriced: prices.and_then(PriceSum::unpriced),
        ..CostRow::default()
    }
}

/// Incurred costs of one service, as far as the service itself knows them.
pub fn incurred_row(service: &str, usage: &Usage) -> CostRow {
    let model = &usage.model;
    CostRow {
        service: service.to_owned(),
        requests: usage.requests,
        unique: Some(usage.unique),
        computed: Some(usage.computed),
        prompt_tokens: model.prompt_tokens,
        completion_tokens: model.completion_tokens,
        scored_tokens: model.scored_tokens,
        operations: model.operations,
        computed_tokens: Some(model.computed_tokens).filter(|&tokens| tokens > 0),
        cut: Some(model.cut),
        service_s: Some(usage.service_us as f64 / 1e6),
        device_s: usage.device_s(),
        energy_j: usage.energy_j(),
        ..CostRow::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::file::Job;
    use crate::report::price_gap::PriceGap;
    use hopeval_results::tables::MeasuredCallRow;
    use std::path::Path;

    const JOB: &str = r#"
name = "paid"
[dataset.world]
questions = 5
passages = 400
[service.llm]
kind = "endpoint"
model = "m"
base_url = "http://127.0.0.1:9"
[service.llm.price]
input = 1.0
currency = "USD"
[service.search]
kind = "http_retriever"
url = "http://127.0.0.1:9"
index = "towns"
[method.oracle]
kind = "oracle"
"#;

    /// An outcome with two calls of a service, measured so.
    fn outcome(service: &str, (money_nanos, currency, unpriced): (Option<u64>, Option<&str>, u64)) -> OutcomeRow {
        let (service, kind) = (service.to_owned(), "generate".to_owned());
        let measured = MeasuredCallRow {
            service: service.clone(),
            kind: kind.clone(),
            attempts: 2,
            money_nanos,
            currency: currency.map(str::to_owned),
            unpriced: Some(unpriced),
            ..MeasuredCallRow::default()
        };
        let call = CallRow { service, kind, calls: 2, prompt_tokens: 10, ..CallRow::default() };
        OutcomeRow { calls: vec![call], measured: Some(vec![measured]), ..OutcomeRow::default() }
    }

    /// The row of costs of some outcomes of one service.
    fn row(outcomes: &[OutcomeRow]) -> CostRow {
        let job = Job::parse(JOB, Path::new("job.toml"), &[]).unwrap();
        let rates = ServiceRates { incurred: BTreeMap::new(), price_per_device_hour: Some(36.0) };
        let mut attribution = Attribution::default();
        outcomes.iter().for_each(|outcome| attribution.add(outcome));
        let (configuration, group, call) = attribution.calls.iter().next().unwrap();
        let measured = attribution.measured.get(configuration, group.each_ref().map(String::as_str));
        let row = attributed_row(job.service.get(&group[0]), &rates, group, call, measured);
        CostRow { configuration: Some("a".to_owned()), ..row }
    }

    #[test]
    fn a_priced_sum_is_of_all_answers_or_says_how_many_are_not_in_it() {
        let priced = (Some(1_500_000_000), Some("EUR"), 0);
        let said = |row: &CostRow| PriceGap::of_row(row).map(|gap| gap.to_string());
        let whole = row(&[outcome("llm", priced), outcome("llm", priced)]);
        assert_eq!((whole.money, whole.currency.as_deref(), whole.unpriced), (Some(3.0), Some("EUR"), Some(0)));
        assert_eq!((whole.requests, whole.attempts, said(&whole)), (4, Some(4), None));
        // Journalled by a job without a price, before and after; one answer of an outcome, or both.
        for unpriced in [(None, None, 2), (None, Some("EUR"), 1)] {
            for order in [[priced, unpriced], [unpriced, priced]] {
                let part = row(&order.map(|sums| outcome("llm", sums)));
                assert_eq!((part.money, part.currency.as_deref()), (None, Some("EUR")));
                let expected = format!("{} of 4 answers priced", 4 - unpriced.2);
                assert_eq!(said(&part), Some(expected));
            }
        }
        // The job has a price now, and no answer has one.
        let none = row(&[outcome("llm", (None, None, 2))]);
        assert_eq!((none.money, none.currency.as_deref()), (None, Some("USD")));
        assert_eq!(said(&none).as_deref(), Some("0 of 2 answers priced"));
        let mixed = row(&[outcome("llm", priced), outcome("llm", (Some(1), Some("USD"), 0)), outcome("llm", priced)]);
        assert_eq!((mixed.money, said(&mixed).as_deref()), (None, Some("in EUR and USD")));
    }

    #[test]
    fn nobody_pays_a_retriever() {
        let found = row(&[outcome("search", (None, None, 2))]);
        assert_eq!((found.attempts, found.money, found.currency, found.unpriced), (Some(2), None, None, None));
    }
}
