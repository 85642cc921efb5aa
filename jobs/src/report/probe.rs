//! Probes a job's costs: a run of some of its questions, and what it says about all of them.
//!
//! The questions are drawn at random, so the totals have intervals. Money is *attributed*: equal requests of several
//! configurations are paid for once, so a run costs less where there are any. Answers that the probe has journalled are
//! not paid for again.

use crate::error::JobError;
use crate::job::file::Job;
use crate::report::price_gap::PriceGap;
use crate::run::evaluation::evaluate_outcomes;
use crate::run::open::OpenRun;
use crate::services::price_sum::{PriceSum, currency_names};
use crate::spending::cap::NANOS;
use hopeval_endpoint::PriceSettings;
use hopeval_measures::aggregate::Z_95;
use hopeval_results::Log;
use hopeval_results::tables::{CallRow, MeasuredCallRow};
use serde::Serialize;
use std::collections::BTreeMap;

/// What a probe says about a whole job.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ProbedCosts {
    /// The probe's run.
    pub run: String,
    /// Its questions.
    pub sampled: u64,
    /// Those of the job.
    pub questions: u64,
    /// Whether they were drawn at random; otherwise they are the first ones, and the intervals say less.
    pub drawn: bool,
    /// Totals of the job, by service, for the services that cost money.
    pub services: BTreeMap<String, ServiceTotals>,
}

/// Totals of one service over all questions of a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ServiceTotals {
    /// Requests.
    pub requests: EstimatedTotal,
    /// Tokens of prompts.
    pub prompt_tokens: EstimatedTotal,
    /// Written tokens.
    pub completion_tokens: EstimatedTotal,
    /// Money; `None` without a price, and where not every answer of the sample has one.
    pub money: Option<EstimatedTotal>,
    /// Its currency.
    pub currency: Option<String>,
    /// The gap in the prices of the sample's answers: a job without a price has journalled some of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price_gap: Option<PriceGap>,
}

/// A total estimated from a sample, with its interval of 95 %.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct EstimatedTotal {
    /// The estimate.
    pub expected: f64,
    /// The lower end, at least what the sample has; `None` for a sample of one question.
    pub low: Option<f64>,
    /// The upper end.
    pub high: Option<f64>,
}

impl EstimatedTotal {
    /// The total over `all` questions from the values of a sample of them, by Student's distribution and without
    /// replacement.
    pub fn from_sample(values: &[f64], all: u64) -> Self {
        let (n, all) = (values.len() as f64, all as f64);
        let sum: f64 = values.iter().sum();
        let mean = sum / n.max(1.0);
        let expected = mean * all;
        if values.len() < 2 {
            return Self { expected, low: None, high: None };
        }
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
        let unseen = ((all - n) / (all - 1.0).max(1.0)).max(0.0);
        let half = student_95(n - 1.0) * (variance / n * unseen).sqrt() * all;
        Self { expected, low: Some((expected - half).max(sum)), high: Some(expected + half) }
    }
}

/// The 97.5 % quantile of Student's distribution, by its expansion in the degrees of freedom (Abramowitz and Stegun
/// 26.7.5); within 0.5 % from 3 degrees on, too small below.
fn student_95(degrees: f64) -> f64 {
    let z = Z_95;
    let terms = [
        (z.powi(3) + z) / 4.0,
        (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0,
        (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0,
        (79.0 * z.powi(9) + 776.0 * z.powi(7) + 1482.0 * z.powi(5) - 1920.0 * z.powi(3) - 945.0 * z) / 92_160.0,
    ];
    terms.iter().zip(1..).fold(z, |sum, (term, power)| sum + term / degrees.powi(power))
}

/// The job of a probe with `questions` questions, and whether they are drawn at random ([`DatasetEntry::take_part`]).
///
/// [`DatasetEntry::take_part`]: crate::job::file::DatasetEntry
pub fn probe_job(job: &Job, questions: u64) -> (Job, bool) {
    let mut probe = job.clone();
    probe.name = format!("{}-probe", job.name);
    let drawn = probe.dataset.take_part(questions, 0);
    (probe, drawn)
}

/// What one question cost one service.
#[derive(Clone, Copy, Debug, Default)]
struct QuestionCosts {
    requests: u64,
    prompt_tokens: u64,
    completion_tokens: u64,
    money_nanos: u64,
}

/// The cost of the sampled questions at one service.
#[derive(Clone, Debug, Default)]
struct SampledCosts {
    /// By question; those that asked nothing have no entry.
    questions: BTreeMap<u64, QuestionCosts>,
    prices: PriceSum,
}

impl SampledCosts {
    fn add_calls(&mut self, question: u64, call: &CallRow) {
        let costs = self.questions.entry(question).or_default();
        costs.requests += call.calls;
        costs.prompt_tokens += call.prompt_tokens;
        costs.completion_tokens += call.completion_tokens;
    }

    fn add_prices(&mut self, question: u64, call: &MeasuredCallRow) {
        self.prices.add_row(call);
        self.questions.entry(question).or_default().money_nanos += call.money_nanos.unwrap_or(0);
    }

    /// The totals of `questions` questions by the `sampled` ones; `price` is the service's.
    fn totals(&self, price: Option<&PriceSettings>, sampled: u64, questions: u64) -> ServiceTotals {
        let total = |of: fn(&QuestionCosts) -> f64| {
            let mut values: Vec<f64> = self.questions.values().map(of).collect();
            // Questions that asked nothing.
            values.resize(sampled as usize, 0.0);
            EstimatedTotal::from_sample(&values, questions)
        };
        let currencies = self.prices.currency().or_else(|| Some(price?.currency.clone()));
        let answers = self.questions.values().map(|costs| costs.requests).sum();
        let gap = currencies.as_deref().map(|names| currency_names(names).map(str::to_owned).collect());
        ServiceTotals {
            requests: total(|costs| costs.requests as f64),
            prompt_tokens: total(|costs| costs.prompt_tokens as f64),
            completion_tokens: total(|costs| costs.completion_tokens as f64),
            money: currencies
                .as_ref()
                .and(self.prices.nanos())
                .map(|_| total(|costs| costs.money_nanos as f64 / NANOS)),
            currency: currencies,
            price_gap: gap.and_then(|names| PriceGap::of_answers(answers, self.prices.unpriced()?, names)),
        }
    }
}

/// Reads what a finished probe says about a job of `questions` questions.
///
/// # Errors
/// Its outcomes cannot be read.
pub fn read_probe(run: &OpenRun, questions: u64, drawn: bool) -> Result<ProbedCosts, JobError> {
    let log = Log::open(&run.places.store, run.id())?;
    let job = &run.resolved.job;
    let sampled = run.resolved.prepared.questions;
    let paid = job.service.iter().filter(|(_, service)| service.settings().is_paid());
    let mut costs: BTreeMap<&str, SampledCosts> =
        paid.map(|(name, _)| (name.as_str(), SampledCosts::default())).collect();
    evaluate_outcomes(run, &log, &mut |_, outcome, _| {
        for call in &outcome.calls {
            if let Some(costs) = costs.get_mut(call.service.as_str()) {
                costs.add_calls(outcome.index, call);
            }
        }
        for call in outcome.measured.iter().flatten() {
            if let Some(costs) = costs.get_mut(call.service.as_str()) {
                costs.add_prices(outcome.index, call);
            }
        }
        Ok(())
    })?;
    let totals = |(name, costs): (&str, SampledCosts)| {
        let price = job.service.get(name).and_then(|service| service.settings().price());
        (name.to_owned(), costs.totals(price, sampled, questions))
    };
    let services = costs.into_iter().map(totals).collect();
    Ok(ProbedCosts { run: run.id().to_owned(), sampled, questions, drawn, services })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::sample::SampleSettings;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (degrees, expected) in [(3.0, 3.182), (5.0, 2.571), (10.0, 2.228), (30.0, 2.042), (1e6, 1.960)] {
            let found = student_95(degrees);
            assert!((found / expected - 1.0).abs() < 0.005, "{degrees}: {found}, not {expected}");
        }
    }

    #[test]
    fn a_total_lies_between_what_was_seen_and_what_is_likely() {
        let total = EstimatedTotal::from_sample(&[1.0, 3.0, 2.0, 2.0], 100);
        assert_eq!(total.expected, 200.0);
        let half = 3.182 * (0.666_667_f64 / 4.0 * 96.0 / 99.0).sqrt() * 100.0;
        assert!((total.high.unwrap() - 200.0 - half).abs() < 1.0, "{total:?}");
        assert!((total.low.unwrap() - 200.0 + half).abs() < 1.0, "{total:?}");
        // All questions were asked: nothing is uncertain.
        let all = EstimatedTotal::from_sample(&[1.0, 3.0], 2);
        assert_eq!((all.low, all.expected, all.high), (Some(4.0), 4.0, Some(4.0)));
        assert_eq!(EstimatedTotal::from_sample(&[5.0], 10), EstimatedTotal { expected: 50.0, low: None, high: None });
    }

    #[test]
    fn a_sample_with_an_answer_without_a_price_has_no_total() {
        let call = |calls| CallRow { calls, prompt_tokens: 10, ..CallRow::default() };
        let priced = |nanos: u64| MeasuredCallRow {
            money_nanos: Some(nanos),
            currency: Some("EUR".to_owned()),
            unpriced: Some(0),
            ..MeasuredCallRow::default()
        };
        let price: PriceSettings = serde_json::from_str(r#"{"input": 1.0, "currency": "EUR"}"#).unwrap();
        let mut costs = SampledCosts::default();
        costs.add_calls(0, &call(2));
        costs.add_prices(0, &priced(3_000_000_000));
        let whole = costs.totals(Some(&price), 2, 10);
        assert_eq!(
            (whole.money.unwrap().expected, whole.currency.as_deref(), whole.price_gap),
            (15.0, Some("EUR"), None)
        );
        costs.add_calls(1, &call(3));
        costs.add_prices(1, &MeasuredCallRow { money_nanos: None, unpriced: Some(1), ..priced(0) });
        let part = costs.totals(Some(&price), 2, 10);
        assert_eq!((part.money, part.requests.expected), (None, 25.0));
        assert_eq!(part.price_gap, Some(PriceGap::Unpriced { priced: 4, answers: 5 }));
        // Nothing was asked: that costs nothing.
        let nothing = SampledCosts::default().totals(Some(&price), 2, 10);
        assert_eq!((nothing.money.unwrap().expected, nothing.price_gap), (0.0, None));
        let free = SampledCosts::default().totals(None, 2, 10);
        assert_eq!((free.money, free.currency, free.price_gap), (None, None, None));
    }

    #[test]
    fn a_probe_is_a_part_of_the_job() {
        let text = |more: &str| {
            let world = "[dataset.world]\nquestions = 50\npassages = 400\n[method.oracle]\nkind = \"oracle\"\n";
            let text = format!("name = \"a\"\n[dataset]\n{more}\n{world}");
            Job::parse(&text, std::path::Path::new("job.toml"), &[]).unwrap()
        };
        let (probe, drawn) = probe_job(&text(""), 10);
        assert!(drawn && probe.dataset.draw.unwrap().questions == 10 && probe.name == "a-probe");
        let (probe, drawn) = probe_job(&text("draw = { questions = 8, seed = 3 }"), 10);
        assert!(drawn && probe.dataset.draw.unwrap() == SampleSettings::new(8, 3));
        let (probe, drawn) = probe_job(&text("limit = 20"), 10);
        assert!(!drawn && probe.dataset.limit == Some(10));
        let (probe, drawn) = probe_job(&text("draw = { questions = 8, rest = true }"), 10);
        assert!(!drawn && probe.dataset.limit == Some(10) && probe.dataset.draw.unwrap().rest);
    }
}
