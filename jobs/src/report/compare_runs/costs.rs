//! The cost of a question under two configurations.

use super::setup::services_of;
use super::side::ComparedSide;
use crate::error::JobError;
use crate::mode::TimingMode;
use crate::report::costs::ServiceRates;
use hopeval_measures::paired::PairedRatio;
use hopeval_results::tables::outcomes::in_final_order;
use hopeval_results::tables::{CallRow, OutcomeRow};
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
        let mean = |values: &Option<Vec<f64>>| values.as_ref().map(|all| all.iter().sum::<f64>() / all.len() as f64);
        let refused = refusal(cost, [base, other], [&own, &theirs]);
        let told = match (&left, &right, &refused) {
            (Some(left), Some(right), None) => PairedRatio::of(left, right),
            _ => None,
        };
        ComparedCost {
            cost,
            currency: own.shared_currency(&theirs).filter(|_| cost == CostMeasure::Money),
            against: mean(&left),
            compared: mean(&right),
            ratio: told.map(|told| told.ratio),
            low: told.and_then(|told| Some(told.interval?.0)),
            high: told.and_then(|told| Some(told.interval?.1)),
            refused,
        }
    });
    // What neither side has, such as joules without a meter, is left out.
    Ok(compared.filter(|found| !is_nothing(found)).collect())
}

/// Whether neither side is known to cost anything of this kind.
fn is_nothing(found: &ComparedCost) -> bool {
    [found.against, found.compared].into_iter().all(|mean| mean.is_none_or(|mean| mean == 0.0))
}

/// The reason why a kind of cost of two sides is not compared.
fn refusal(cost: CostMeasure, sides: [&ComparedSide; 2], costs: [&SideCosts; 2]) -> Option<String> {
    let [own, theirs] = costs;
    match cost {
        CostMeasure::DeviceSeconds | CostMeasure::EnergyJoules if own.devices != theirs.devices => {
            let names = [own, theirs].map(|side| side.devices.iter().cloned().collect::<Vec<_>>().join(", "));
            Some(format!(
                "on different devices ({}; {}): they are compared by money, where both runs have a \
                 `run.price_per_device_hour`",
                names[0], names[1]
            ))
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
}

/// Stands for the currency of `run.price_per_device_hour`, which has no name.
const DEVICE_PRICE: &str = "that of `run.price_per_device_hour`";

impl SideCosts {
    /// The one currency of the prices of both, if it has a name.
    fn shared_currency(&self, other: &Self) -> Option<String> {
        let one = self.currencies.first().filter(|_| self.currencies.len() == 1 && self.currencies == other.currencies);
        one.filter(|currency| *currency != DEVICE_PRICE).cloned()
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
        };
        let configurations = settings.configurations.len();
        let outcomes = in_final_order(&run.store, &run.id, run.log.state(), configurations, settings.cohort_size);
        for outcome in outcomes.of_configurations(&BTreeSet::from([position])) {
            let outcome = outcome?;
            if outcome.configuration != position {
                continue;
            }
            all.currencies.extend(outcome.measured.iter().flatten().filter_map(|call| call.currency.clone()));
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
}

/// The devices of a configuration's models, as the job names them.
fn devices(side: &ComparedSide) -> BTreeSet<String> {
    let device = |settings: &serde_json::Value| Some(settings.get("device")?.as_str()?.to_owned());
    services_of(side).values().filter_map(|used| device(&used.settings)).collect()
}

/// The costs of one outcome. Only requests to models have tokens, and only these count.
fn outcome_costs(outcome: &OutcomeRow, rates: &ServiceRates) -> OutcomeCosts {
    let calls =
        || outcome.calls.iter().filter(|call| call.prompt_tokens + call.completion_tokens + call.scored_tokens > 0);
    let count = |of: fn(&CallRow) -> u64| Some(calls().map(of).sum::<u64>() as f64);
    let money = |call: &CallRow| {
        let measured = outcome.measured.iter().flatten();
        let mut paid = measured.filter(|row| row.service == call.service && row.kind == call.kind).peekable();
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
