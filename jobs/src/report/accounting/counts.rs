//! Counts a configuration's outcomes and divides its costs by them.

use super::account::{AttributedCosts, BroughtCosts, ConfigurationCosts, MeanCalls, sum_from_zero};
use crate::job::rankings::{CONTENTS, KIND};
use crate::report::costs::{BROUGHT, DEVICE_PRICE};
use crate::report::price_gap::PriceGap;
use crate::run::evaluator::OK;
use crate::services::price_sum::currency_names;
use hopeval_methods::RequestKind;
use hopeval_results::tables::{ConfigurationRow, CostRow, FinalOutcomeRow};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Sums over a configuration's outcomes.
#[derive(Default)]
pub(super) struct OutcomeCounts {
    n: u64,
    ok: u64,
    iterations: u64,
    rounds: u64,
    /// `None` if unknown for any outcome.
    retrieved: Option<u64>,
    kept: u64,
}

impl OutcomeCounts {
    pub(super) fn add(&mut self, row: &FinalOutcomeRow) {
        let before = if self.n == 0 { Some(0) } else { self.retrieved };
        self.retrieved = before.zip(row.retrieved).map(|(sum, more)| sum + more);
        self.n += 1;
        self.ok += u64::from(row.status == OK);
        self.iterations += u64::from(row.iterations);
        self.rounds += u64::from(row.rounds);
        self.kept += row.ranked.len() as u64;
    }

    /// The costs without the times. `parameters` are the models' parameters by service; `costs` are the
    /// configuration's cost rows.
    pub(super) fn configuration_costs<'a>(
        &self,
        configuration: ConfigurationRow,
        parameters: &BTreeMap<String, u64>,
        costs: impl Iterator<Item = &'a CostRow>,
    ) -> ConfigurationCosts {
        let (brought, costs): (Vec<&CostRow>, Vec<&CostRow>) = costs.partition(|row| row.kind == BROUGHT);
        let brought = (configuration.method == KIND).then(|| self.brought_costs(&configuration, &brought));
        // The loop and the retrieval of a system whose outcomes were brought in are not known.
        let counted = |sum: u64| self.mean(sum).filter(|_| brought.is_none());
        let calls: Vec<MeanCalls> = costs.iter().map(|row| self.calls(row)).collect();
        let attributed = self.attributed(&costs, &calls);
        ConfigurationCosts {
            parameters: parameters_of(&configuration, parameters),
            configuration: configuration.configuration,
            method: configuration.method,
            control: configuration.control,
            context_mode: configuration.context_mode,
            n: self.n,
            coverage: self.mean(self.ok),
            iterations: counted(self.iterations),
            rounds: counted(self.rounds),
            passages_retrieved: self.retrieved.and_then(counted),
            passages_kept: self.mean(self.kept),
            calls,
            attributed,
            isolated: None,
            latency: None,
            brought,
        }
    }

    /// The costs in the file of a configuration, whose parameters name the figures. Each of its rows has all of them.
    fn brought_costs(&self, configuration: &ConfigurationRow, costs: &[&CostRow]) -> BroughtCosts {
        let parameters: Value = serde_json::from_str(&configuration.parameters).unwrap_or_default();
        let names = parameters[CONTENTS]["costs"].as_array().cloned().unwrap_or_default();
        let mean = |name: &str, sum: fn(&CostRow) -> f64| {
            let is_given = names.iter().any(|given| given == name) && self.ok > 0;
            is_given.then(|| costs.iter().map(|row| sum(row)).sum::<f64>() / self.ok as f64)
        };
        BroughtCosts {
            n: self.ok,
            calls: mean("calls", |row| row.requests as f64),
            prompt_tokens: mean("prompt_tokens", |row| row.prompt_tokens as f64),
            completion_tokens: mean("completion_tokens", |row| row.completion_tokens as f64),
            seconds: mean("seconds", |row| row.service_s.unwrap_or(0.0)),
            money: mean("money", |row| row.money.unwrap_or(0.0)),
            currency: costs.iter().find_map(|row| row.currency.clone()),
        }
    }

    /// The mean over outcomes; `None` without outcomes.
    fn mean(&self, sum: u64) -> Option<f64> {
        (self.n > 0).then(|| sum as f64 / self.n as f64)
    }

    /// The mean over outcomes of a sum, if the sum is known.
    fn known_mean(&self, sum: Option<f64>) -> Option<f64> {
        sum.filter(|_| self.n > 0).map(|sum| sum / self.n as f64)
    }

    fn calls(&self, row: &CostRow) -> MeanCalls {
        let of_question = |sum: u64| self.mean(sum).unwrap_or(0.0);
        MeanCalls {
            service: row.service.clone(),
            kind: row.kind.clone(),
            step: row.step.clone(),
            calls: of_question(row.requests),
            prompt_tokens: of_question(row.prompt_tokens),
            completion_tokens: of_question(row.completion_tokens),
            scored_tokens: of_question(row.scored_tokens),
            operations: of_question(row.operations),
            cut: row.cut.and_then(|sum| self.mean(sum)),
            service_s: self.known_mean(row.service_s),
            device_s: self.known_mean(row.device_s),
            energy_j: self.known_mean(row.energy_j),
            money: self.known_mean(row.money),
            currency: row.currency.clone(),
            price_gap: PriceGap::of_row(row),
            attempts: row.attempts.and_then(|sum| self.mean(sum)),
            cached_prompt_tokens: row.cached_prompt_tokens.and_then(|sum| self.mean(sum)),
            reasoning_tokens: row.reasoning_tokens.and_then(|sum| self.mean(sum)),
        }
    }

    /// Sums over all services: `calls` are the means of `costs`.
    fn attributed(&self, costs: &[&CostRow], calls: &[MeanCalls]) -> AttributedCosts {
        let sum = |of: fn(&MeanCalls) -> f64| sum_from_zero(calls.iter().map(of));
        let computed = costs.iter().filter(|row| !is_look_up(row));
        // Only requests to models have tokens.
        let of_models = |row: &&&CostRow| row.prompt_tokens + row.completion_tokens + row.scored_tokens > 0;
        let on_devices = |of: fn(&CostRow) -> Option<f64>| {
            self.known_mean(known_sum(costs.iter().filter(of_models).map(|row| of(row))))
        };
        let mut prices = PricedAnswers::default();
        costs.iter().filter(of_models).for_each(|row| prices.add(row));
        AttributedCosts {
            prompt_tokens: sum(|calls| calls.prompt_tokens),
            completion_tokens: sum(|calls| calls.completion_tokens),
            scored_tokens: sum(|calls| calls.scored_tokens),
            operations: sum(|calls| calls.operations),
            service_s: self.known_mean(known_sum(computed.map(|row| row.service_s))),
            device_s: on_devices(|row| row.device_s),
            money: on_devices(|row| row.money).filter(|_| prices.currencies.len() == 1),
            currency: prices.currency(),
            price_gap: prices.gap(),
            energy_j: on_devices(|row| row.energy_j),
        }
    }
}

/// The answers of models that have a price, with the currencies.
#[derive(Default)]
struct PricedAnswers {
    answers: u64,
    unpriced: u64,
    /// Names of currencies, and [`DEVICE_PRICE`] for the price of devices.
    currencies: BTreeSet<String>,
    /// Whether a row is of an earlier version, which did not count the answers without a price.
    is_uncounted: bool,
}

impl PricedAnswers {
    fn add(&mut self, row: &CostRow) {
        let named = row.currency.iter().flat_map(|names| currency_names(names)).map(str::to_owned);
        let of_device = row.currency.is_none() && row.money.is_some();
        self.currencies.extend(named.chain(of_device.then(|| DEVICE_PRICE.to_owned())));
        self.answers += row.requests;
        // A model here has a price as a whole, or none.
        let whole = if row.money.is_some() { 0 } else { row.requests };
        self.unpriced += row.unpriced.unwrap_or(whole);
        self.is_uncounted |= PriceGap::of_row(row) == Some(PriceGap::Uncounted);
    }

    /// The one currency with a name.
    fn currency(&self) -> Option<String> {
        let one = self.currencies.first().filter(|name| self.currencies.len() == 1 && *name != DEVICE_PRICE);
        one.cloned()
    }

    fn gap(self) -> Option<PriceGap> {
        if self.currencies.is_empty() {
            return None;
        }
        let known = PriceGap::of_answers(self.answers, self.unpriced, self.currencies.into_iter().collect());
        known.or(self.is_uncounted.then_some(PriceGap::Uncounted))
    }
}

/// Parameters of a configuration's models; `None` without models, or if none is known.
fn parameters_of(configuration: &ConfigurationRow, parameters: &BTreeMap<String, u64>) -> Option<u64> {
    // A service named by several parameters is one model.
    let services: BTreeSet<&str> =
        configuration.services.iter().filter_map(|used| Some(used.split_once('=')?.1)).collect();
    let models: Vec<u64> = services.into_iter().filter_map(|service| parameters.get(service).copied()).collect();
    (!models.is_empty()).then(|| models.iter().sum())
}

/// Whether these requests are look-ups in the mapped corpus: these are neither computed nor timed.
fn is_look_up(row: &CostRow) -> bool {
    [RequestKind::Passages, RequestKind::Links].iter().any(|kind| kind.name() == row.kind)
}

/// The sum, if there is at least one value and all values are known.
fn known_sum(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    values.reduce(|sum, next| Some(sum? + next?)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_of_what_is_not_known_is_not_known() {
        assert_eq!(known_sum([Some(1.0), Some(2.0)].into_iter()), Some(3.0));
        assert_eq!(known_sum([Some(1.0), None, Some(2.0)].into_iter()), None);
        assert_eq!(known_sum([].into_iter()), None);
    }

    fn row(kind: &str, tokens: u64, service_s: Option<f64>, device_s: Option<f64>) -> CostRow {
        CostRow {
            service: format!("of_{kind}"),
            kind: kind.to_owned(),
            requests: 6,
            prompt_tokens: tokens,
            service_s,
            device_s,
            ..CostRow::default()
        }
    }

    fn counts(rows: &[FinalOutcomeRow]) -> OutcomeCounts {
        let mut counts = OutcomeCounts::default();
        rows.iter().for_each(|row| counts.add(row));
        counts
    }

    #[test]
    fn means_are_over_all_outcomes_and_nulls_stay_null() {
        let outcome = |status: &str, retrieved| FinalOutcomeRow {
            status: status.to_owned(),
            ranked: vec![1, 2, 3],
            iterations: 2,
            rounds: 5,
            retrieved,
            ..FinalOutcomeRow::default()
        };
        let two = counts(&[outcome("ok", Some(10)), outcome("timeout", Some(4))]);
        let configuration = ConfigurationRow {
            services: vec!["scorer=t5".to_owned(), "again=t5".to_owned(), "retriever=bm25".to_owned()],
            ..ConfigurationRow::default()
        };
        let parameters = BTreeMap::from([("t5".to_owned(), 70), ("other".to_owned(), 9)]);
        let rows =
            [row("score", 40, Some(3.0), Some(2.0)), row("retrieve", 0, Some(1.0), None), row("links", 0, None, None)];
        let account = two.configuration_costs(configuration.clone(), &parameters, rows.iter());
        assert_eq!((account.n, account.coverage, account.parameters), (2, Some(0.5), Some(70)));
        assert_eq!(
            (account.iterations, account.passages_retrieved, account.passages_kept),
            (Some(2.0), Some(7.0), Some(3.0))
        );
        assert_eq!((account.calls_of(RequestKind::Score), account.calls_of(RequestKind::Read)), (3.0, 0.0));
        assert!(account.calls_of(RequestKind::Read).is_sign_positive());
        let AttributedCosts { prompt_tokens, service_s, device_s, money, energy_j, .. } = account.attributed;
        assert_eq!((prompt_tokens, service_s, device_s, money), (20.0, Some(2.0), Some(1.0), None));
        assert_eq!((energy_j, account.calls[0].energy_j), (None, None));

        // All answers of the scorer were in the journal, so their time is unknown.
        let journalled = [row("score", 40, None, None), row("retrieve", 0, Some(1.0), None)];
        let account = two.configuration_costs(configuration.clone(), &BTreeMap::new(), journalled.iter());
        assert_eq!((account.attributed.service_s, account.attributed.device_s, account.parameters), (None, None, None));
        let earlier = counts(&[outcome("ok", Some(10)), outcome("ok", None)]);
        assert_eq!(earlier.configuration_costs(configuration, &parameters, [].iter()).passages_retrieved, None);
    }

    /// A row of an endpoint's answers.
    fn paid(kind: &str, money: Option<f64>, currency: Option<&str>, unpriced: Option<u64>) -> CostRow {
        CostRow {
            configuration: Some("a".to_owned()),
            attempts: Some(7),
            money,
            currency: currency.map(str::to_owned),
            unpriced,
            ..row(kind, 40, Some(3.0), None)
        }
    }

    fn attributed(rows: &[CostRow]) -> AttributedCosts {
        let two = counts(&[FinalOutcomeRow::default(), FinalOutcomeRow::default()]);
        two.configuration_costs(ConfigurationRow::default(), &BTreeMap::new(), rows.iter()).attributed
    }

    #[test]
    fn money_of_two_currencies_has_no_sum() {
        let euros = |kind| paid(kind, Some(3.0), Some("EUR"), Some(0));
        let dollars = paid("rerank", Some(5.0), Some("USD"), Some(0));
        let whole = attributed(&[euros("generate"), euros("score")]);
        assert_eq!((whole.money, whole.currency.as_deref(), whole.price_gap), (Some(3.0), Some("EUR"), None));
        let both = attributed(&[euros("generate"), dollars]);
        let gap = PriceGap::Currencies(vec!["EUR".to_owned(), "USD".to_owned()]);
        assert_eq!((both.money, both.currency, both.price_gap), (None, None, Some(gap)));
        // A price of devices is in a currency of its own.
        let device = CostRow { money: Some(0.5), ..row("read", 40, Some(3.0), Some(2.0)) };
        let alone = attributed(std::slice::from_ref(&device));
        assert_eq!((alone.money, alone.currency, alone.price_gap), (Some(0.25), None, None));
        let mixed = attributed(&[euros("generate"), device]);
        assert_eq!(mixed.money, None);
        assert_eq!(mixed.price_gap.unwrap().to_string(), "in EUR and that of `run.price_per_device_hour`");
        // One service whose answers were journalled by jobs with other prices.
        let journalled = attributed(&[paid("generate", None, Some("EUR+USD"), Some(0))]);
        assert_eq!(journalled.price_gap.unwrap().to_string(), "in EUR and USD");
    }

    #[test]
    fn a_sum_with_an_answer_without_a_price_says_how_many_have_one() {
        let priced = paid("generate", Some(3.0), Some("EUR"), Some(0));
        // Six requests each: two answers of the second row were journalled without a price.
        let part = paid("score", None, Some("EUR"), Some(2));
        let two = counts(&[FinalOutcomeRow::default(), FinalOutcomeRow::default()]);
        let rows = [priced.clone(), part];
        let account = two.configuration_costs(ConfigurationRow::default(), &BTreeMap::new(), rows.iter());
        let gaps: Vec<_> = account.calls.iter().map(|calls| calls.price_gap.clone()).collect();
        assert_eq!(gaps, [None, Some(PriceGap::Unpriced { priced: 4, answers: 6 })]);
        assert_eq!((account.calls[0].money, account.calls[1].money), (Some(1.5), None));
        let found = account.attributed;
        assert_eq!((found.money, found.price_gap), (None, Some(PriceGap::Unpriced { priced: 10, answers: 12 })));
        // Another service without any price, or a model on a device without one.
        for other in [paid("rerank", None, None, Some(6)), row("read", 40, Some(3.0), Some(2.0))] {
            let found = attributed(&[priced.clone(), other]);
            assert_eq!((found.money, found.price_gap), (None, Some(PriceGap::Unpriced { priced: 6, answers: 12 })));
        }
        // Without any price nothing is missing, and a retriever has no tokens and needs none.
        assert_eq!(attributed(&[paid("generate", None, None, Some(6))]).price_gap, None);
        let search = CostRow { prompt_tokens: 0, ..paid("retrieve", None, None, None) };
        assert_eq!(attributed(&[priced.clone(), search]).money, Some(1.5));
        // A table of an earlier version.
        let earlier = attributed(&[paid("generate", Some(3.0), Some("EUR"), None)]);
        assert_eq!((earlier.money, earlier.price_gap), (Some(1.5), Some(PriceGap::Uncounted)));
    }

    #[test]
    fn joules_are_known_only_if_all_models_are_metered() {
        let two = counts(&[FinalOutcomeRow::default(), FinalOutcomeRow::default()]);
        let counted = |kind, joules| CostRow { energy_j: joules, ..row(kind, 40, Some(3.0), Some(2.0)) };
        // A retriever has no device.
        let search = row("retrieve", 0, Some(1.0), None);
        let joules = |rows: &[CostRow]| {
            let account = two.configuration_costs(ConfigurationRow::default(), &BTreeMap::new(), rows.iter());
            (account.calls.iter().map(|calls| calls.energy_j).collect::<Vec<_>>(), account.attributed.energy_j)
        };
        let rows = [counted("score", Some(600.0)), counted("read", Some(50.0)), search.clone()];
        assert_eq!(joules(&rows), (vec![Some(300.0), Some(25.0), None], Some(325.0)));
        // One model on the CPU, without a meter.
        let rows = [counted("score", Some(600.0)), counted("read", None), search];
        assert_eq!(joules(&rows), (vec![Some(300.0), None, None], None));
    }
}
