//! The cost of a question under two configurations.

use super::setup::services_of;
use super::side::ComparedSide;
use crate::error::JobError;
use crate::mode::TimingMode;
use crate::report::costs::{DEVICE_PRICE, ServiceRates};
use crate::report::price_gap::PriceGap;
use crate::services::price_sum::currency_names;
use hopeval_measures::paired::PairedRatio;
use hopeval_results::tables::outcomes::in_final_order;
use hopeval_results::tables::{CallRow, MeasuredCallRow, OutcomeRow};
use serde::Serialize;
use std::collections::BTreeSet;

/// A kind of cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CostMeasure {
    /// Tokens of prompts.
    PromptTokens,
    /// Generated tokens.
    CompletionTokens,
    /// Scored tokens.
    ScoredTokens,
    /// Operations of models: multiplications and additions.
    Operations,
    /// Seconds of devices, at the run's measured rates.
    DeviceSeconds,
    /// Energy of devices in joules, at the run's measured rates.
    EnergyJoules,
    /// Money: by the prices of an endpoint's calls, or of a device's time.
    Money,
    /// Seconds from the first request to the outcome, as measured in the run.
    WallSeconds,
}

impl CostMeasure {
    /// All kinds, in the order in which they are shown.
    pub const ALL: [Self; 8] = [
        Self::PromptTokens,
        Self::CompletionTokens,
        Self::ScoredTokens,
        Self::Operations,
        Self::DeviceSeconds,
        Self::EnergyJoules,
        Self::Money,
        Self::WallSeconds,
    ];

    /// Its name for people, with its unit.
    pub fn title(self) -> &'static str {
        match self {
            Self::PromptTokens => "prompt tokens",
            Self::CompletionTokens => "completion tokens",
            Self::ScoredTokens => "scored tokens",
            Self::Operations => "operations",
            Self::DeviceSeconds => "device seconds",
            Self::EnergyJoules => "joules",
            Self::Money => "money",
            Self::WallSeconds => "wall seconds",
        }
    }
}

/// A cost of a question under two configurations: means over the questions that both have.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparedCost {
    /// The kind of cost.
    pub cost: CostMeasure,
    /// The currency of money of endpoints.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub currency: Option<String>,
    /// The mean of `against`; `None` if it is not known of any of the questions.
    pub against: Option<f64>,
    /// The mean of the other.
    pub compared: Option<f64>,
    /// The other's mean over that of `against`; `None` where they are not compared, or `against` costs nothing.
    pub ratio: Option<f64>,
    /// Lower end of its 95 % interval, of a bootstrap over questions.
    pub low: Option<f64>,
    /// Upper end of its 95 % interval.
    pub high: Option<f64>,
    /// The reason why the two are not compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// The costs of one outcome, by kind; `None` where it is not known.
type OutcomeCosts = [Option<f64>; CostMeasure::ALL.len()];

/// Compares all kinds of cost over the questions at these positions of both runs.
pub(super) fn compare_costs(
    base: &ComparedSide,
    other: &ComparedSide,
    shared: &[(u64, u64)],
) -> Result<Vec<ComparedCost>, JobError> {
    let (own, theirs) = (SideCosts::read(base)?, SideCosts::read(other)?);
    let compared = CostMeasure::ALL.into_iter().enumerate().map(|(at, cost)| {
        let values = |costs: &SideCosts, positions: &mut dyn Iterator<Item = u64>| {
            positions.map(|position| costs.outcomes.get(position as usize)?[at]).collect::<Option<Vec<f64>>>()
        };
        let left = values(&own, &mut shared.iter().map(|pair| pair.0));
        let right = values(&theirs, &mut shared.iter().map(|pair| pair.1));
        let mean = |side: &SideCosts, values: &Option<Vec<f64>>| {
            // Money of two currencies has no sum.
            let all = values.as_ref().filter(|_| cost != CostMeasure::Money || side.currencies.len() <= 1)?;
            Some(all.iter().sum::<f64>() / all.len() as f64)
        };
        let refused = refusal(cost, [base, other], [&own, &theirs]);
        let told = match (&left, &right, &refused) {
            (Some(left), Some(right), None) => PairedRatio::of(left, right),
            _ => None,
        };
        ComparedCost {
            cost,
            currency: own.shared_currency(&theirs).filter(|_| cost == CostMeasure::Money),
            against: mean(&own, &left),
            compared: mean(&theirs, &right),
            ratio: told.map(|told| told.ratio),
            low: told.and_then(|told| Some(told.interval?.0)),
            high: told.and_then(|told| Some(told.interval?.1)),
            refused,
        }
    });
    // What neither side has, such as joules without a meter, is left out; but prices with a gap are told.
    let is_told = |found: &ComparedCost| found.cost == CostMeasure::Money && found.refused.is_some();
    Ok(compared.filter(|found| is_told(found) || !is_nothing(found)).collect())
}

/// Whether neither side is known to cost anything of this kind.
fn is_nothing(found: &ComparedCost) -> bool {
    [found.against, found.compared].into_iter().all(|mean| mean.is_none_or(|mean| mean == 0.0))
}

/// The reason why a kind of cost of two sides is not compared.
fn refusal(cost: CostMeasure, sides: [&ComparedSide; 2], costs: [&SideCosts; 2]) -> Option<String> {
    let [own, theirs] = costs;
    match cost {
        CostMeasure::DeviceSeconds | CostMeasure::EnergyJoules if own.is_on_other_devices(theirs) => {
            let names = [own, theirs].map(SideCosts::device_names);
            Some(format!(
                "on different devices ({}; {}): they are compared by money, where both runs have a \
                 `run.price_per_device_hour`",
                names[0], names[1]
            ))
        }
        CostMeasure::Money if costs.iter().any(|side| side.has_unpriced()) => {
            let part = sides.iter().zip(costs).filter(|(_, costs)| costs.has_unpriced());
            let told = part.filter_map(|(side, costs)| Some(format!("{} of run {}", costs.price_gap()?, side.run.id)));
            Some(format!("not every answer is known to have a price: {}", told.collect::<Vec<_>>().join("; ")))
        }
        CostMeasure::Money => {
            let sides = [own, theirs].map(|side| side.currencies.iter().cloned().collect::<Vec<_>>());
            let is_told = sides.iter().any(Vec::is_empty);
            let is_one = sides[0] == sides[1] && sides[0].len() == 1;
            (!is_told && !is_one).then(|| {
                format!("in several or different currencies ({}; {})", sides[0].join(", "), sides[1].join(", "))
            })
        }
        CostMeasure::WallSeconds => {
            let modes = sides.map(|side| side.run.settings.job.run.mode);
            (modes != [TimingMode::Latency; 2]).then(|| {
                "with many questions in flight they say how busy the run was; `hopeval run --mode latency` times each \
                 question alone, and both runs must be such"
                    .to_owned()
            })
        }
        _ => None,
    }
}

/// The costs of a configuration's outcomes.
struct SideCosts {
    /// By question's position.
    outcomes: Vec<OutcomeCosts>,
    /// The devices of its models.
    devices: BTreeSet<String>,
    /// The currencies of its endpoints' prices, and [`DEVICE_PRICE`] if its devices have one.
    currencies: BTreeSet<String>,
    /// Answers of its endpoints, as the outcomes need them.
    answers: u64,
    /// Those of them without a price.
    unpriced: u64,
    /// Whether answers without a price were not counted, by an earlier version.
    is_uncounted: bool,
}

impl SideCosts {
    /// The one currency of the prices of both, if it has a name.
    fn shared_currency(&self, other: &Self) -> Option<String> {
        let one = self.currencies.first().filter(|_| self.currencies.len() == 1 && self.currencies == other.currencies);
        one.filter(|currency| *currency != DEVICE_PRICE).cloned()
    }

    /// Whether both ask models, and on different devices.
    fn is_on_other_devices(&self, other: &Self) -> bool {
        self.devices != other.devices && ![self, other].iter().any(|side| side.devices.is_empty() && side.answers == 0)
    }

    /// The devices of its models, for people.
    fn device_names(&self) -> String {
        let names: Vec<&str> = self.devices.iter().map(String::as_str).collect();
        if names.is_empty() { "endpoints".to_owned() } else { names.join(", ") }
    }

    /// Reads the committed outcomes of a configuration.
    fn read(side: &ComparedSide) -> Result<Self, JobError> {
        let (run, position) = (&side.run, side.configuration.position);
        let settings = &run.settings;
        let rates = ServiceRates::of_run(&run.log, settings.job.run.price_per_device_hour);
        let questions = usize::try_from(settings.prepared.questions).unwrap_or(usize::MAX);
        let mut all = Self {
            outcomes: vec![[None; CostMeasure::ALL.len()]; questions],
            devices: devices(side),
            currencies: BTreeSet::new(),
            answers: 0,
            unpriced: 0,
            is_uncounted: false,
        };
        let configurations = settings.configurations.len();
        let outcomes = in_final_order(&run.store, &run.id, run.log.state(), configurations, settings.cohort_size);
        for outcome in outcomes.of_configurations(&BTreeSet::from([position])) {
            let outcome = outcome?;
            if outcome.configuration != position {
                continue;
            }
            all.add_prices(&outcome);
            let is_paid = |call: &CallRow| outcome.measured.iter().flatten().any(|row| row.service == call.service);
            if rates.money(Some(0.0)).is_some()
                && outcome.calls.iter().any(|call| call.operations > 0 && !is_paid(call))
            {
                all.currencies.insert(DEVICE_PRICE.to_owned());
            }
            if let Some(costs) = all.outcomes.get_mut(outcome.index as usize) {
                *costs = outcome_costs(&outcome, &rates);
            }
        }
        Ok(all)
    }

    /// Counts the prices of an outcome's answers of models.
    fn add_prices(&mut self, outcome: &OutcomeRow) {
        for call in model_calls(outcome) {
            let mut measured = measured_calls(outcome, call).peekable();
            self.answers += measured.peek().map_or(0, |_| call.calls);
            for row in measured {
                self.unpriced += row.unpriced.unwrap_or(0);
                self.is_uncounted |= row.unpriced.is_none() && row.currency.is_some();
                let names = row.currency.iter().flat_map(|names| currency_names(names));
                self.currencies.extend(names.map(str::to_owned));
            }
        }
    }

    /// Whether some of its answers have a price, and others have none or may have none.
    fn has_unpriced(&self) -> bool {
        (self.unpriced > 0 || self.is_uncounted) && !self.currencies.is_empty()
    }

    /// The gap in its prices; `None` if nothing has a price.
    fn price_gap(&self) -> Option<PriceGap> {
        if self.is_uncounted {
            return Some(PriceGap::Uncounted);
        }
        let names: Vec<String> = self.currencies.iter().cloned().collect();
        PriceGap::of_answers(self.answers, self.unpriced, names).filter(|_| !self.currencies.is_empty())
    }
}

/// The requests of an outcome to models: only these have tokens.
fn model_calls(outcome: &OutcomeRow) -> impl Iterator<Item = &CallRow> {
    outcome.calls.iter().filter(|call| call.prompt_tokens + call.completion_tokens + call.scored_tokens > 0)
}

/// The measured facts about requests to an endpoint, by step.
fn measured_calls<'a>(outcome: &'a OutcomeRow, call: &'a CallRow) -> impl Iterator<Item = &'a MeasuredCallRow> {
    let measured = outcome.measured.iter().flatten();
    measured.filter(|row| row.service == call.service && row.kind == call.kind)
}

/// The devices of a configuration's models, as the job names them.
fn devices(side: &ComparedSide) -> BTreeSet<String> {
    let device = |settings: &serde_json::Value| Some(settings.get("device")?.as_str()?.to_owned());
    services_of(side).values().filter_map(|used| device(&used.settings)).collect()
}

/// The costs of one outcome. Only requests to models count.
fn outcome_costs(outcome: &OutcomeRow, rates: &ServiceRates) -> OutcomeCosts {
    let calls = || model_calls(outcome);
    let count = |of: fn(&CallRow) -> u64| Some(calls().map(of).sum::<u64>() as f64);
    let money = |call: &CallRow| {
        let mut paid = measured_calls(outcome, call).peekable();
        if paid.peek().is_none() {
            return rates.money(rates.device_s(call));
        }
        let nanos: Option<u64> = paid.map(|row| row.money_nanos).sum();
        Some(nanos? as f64 / 1e9)
    };
    [
        count(|call| call.prompt_tokens),
        count(|call| call.completion_tokens),
        count(|call| call.scored_tokens),
        // An endpoint's are not known: its calls have tokens and no operations.
        calls().map(|call| (call.operations > 0).then_some(call.operations as f64)).sum(),
        calls().map(|call| rates.device_s(call)).sum(),
        calls().map(|call| rates.energy_j(call)).sum(),
        calls().map(money).sum(),
        outcome.timing.as_ref().map(|timing| timing.wall_s),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_of_a_side_are_of_all_its_answers_of_models() {
        let outcome = |kind: &str, prompt_tokens, unpriced, currency: Option<&str>| {
            let (service, kind) = ("llm".to_owned(), kind.to_owned());
            let measured = MeasuredCallRow {
                service: service.clone(),
                kind: kind.clone(),
                currency: currency.map(str::to_owned),
                unpriced: Some(unpriced),
                ..MeasuredCallRow::default()
            };
            let call = CallRow { service, kind, calls: 4, prompt_tokens, ..CallRow::default() };
            OutcomeRow { calls: vec![call], measured: Some(vec![measured]), ..OutcomeRow::default() }
        };
        let side = |outcomes: &[OutcomeRow]| {
            let (outcomes_of, devices, currencies) = Default::default();
            let (answers, unpriced, is_uncounted) = (0, 0, false);
            let mut side = SideCosts { outcomes: outcomes_of, devices, currencies, answers, unpriced, is_uncounted };
            outcomes.iter().for_each(|outcome| side.add_prices(outcome));
            side
        };
        let said = |side: &SideCosts| side.price_gap().map(|gap| gap.to_string());
        let whole = side(&[outcome("generate", 9, 0, Some("EUR")), outcome("score", 9, 0, Some("EUR"))]);
        assert_eq!((whole.has_unpriced(), said(&whole)), (false, None));
        let part = side(&[outcome("generate", 9, 0, Some("EUR")), outcome("score", 9, 3, None)]);
        assert_eq!((part.has_unpriced(), said(&part).as_deref()), (true, Some("5 of 8 answers priced")));
        // A retriever's answers have no tokens, and nobody pays for them.
        let search = side(&[outcome("generate", 9, 0, Some("EUR")), outcome("retrieve", 0, 4, None)]);
        assert_eq!((search.has_unpriced(), search.answers), (false, 4));
        let free = side(&[outcome("generate", 9, 4, None)]);
        assert_eq!((free.has_unpriced(), said(&free)), (false, None));
        let mut earlier = outcome("generate", 9, 0, Some("EUR"));
        earlier.measured.iter_mut().flatten().for_each(|row| row.unpriced = None);
        let earlier = side(&[earlier]);
        let gap = "answers without a price not counted";
        assert_eq!((earlier.has_unpriced(), said(&earlier).as_deref()), (true, Some(gap)));
        let mixed = side(&[outcome("generate", 9, 0, Some("EUR+USD"))]);
        assert_eq!((mixed.has_unpriced(), said(&mixed).as_deref()), (false, Some("in EUR and USD")));
    }
}
