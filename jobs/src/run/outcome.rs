//! Makes table rows of outcomes, with their usage and timing.

use crate::run::evaluator::QuestionGold;
use crate::services::price_sum::PriceSum;
use hopeval_methods::{Answer, AnswerWork, CallFacts, Outcome, Request, RequestKind, Response, ServiceName, StepName};
use hopeval_results::tables::{
    CallRow, MeasuredCallRow, NamedSentenceRow, NoteRow, OutcomeRow, OutcomeTrace, QuestionRow, StepCallRow, Timing,
};
use std::rc::Rc;

/// A finished question of a configuration, with its gold.
pub struct FinishedOutcome {
    /// The question's gold.
    pub question: Rc<QuestionGold>,
    /// Its outcome.
    pub row: OutcomeRow,
}

/// The end of a machine in one generation of a run.
#[derive(Clone)]
pub enum MachineEnd {
    /// Its outcome.
    Finished(Rc<FinishedOutcome>),
    /// None yet: a request of it waits for a file of results. A later generation drives it again.
    Waiting,
}

/// The usage of an outcome, shared work included.
#[derive(Debug, Default)]
pub(crate) struct OutcomeUsage {
    /// In the order of their groups. They are few: an outcome uses a handful of services and steps.
    groups: Vec<(CallGroup, GroupUsage)>,
    /// Retrieved passages, repeats included.
    retrieved: u64,
}

/// Requests that are counted together.
type CallGroup = (ServiceName, RequestKind, StepName);

/// The usage of a group's requests.
#[derive(Clone, Debug)]
struct GroupUsage {
    calls: u64,
    work: AnswerWork,
    cut: Option<u64>,
    /// Measured facts about the calls, where there are any.
    facts: Option<FactSums>,
}

/// Sums of facts about calls. Counts of tokens are known if any call says them.
#[derive(Clone, Debug, Default)]
struct FactSums {
    attempts: u64,
    cached_prompt_tokens: Option<u64>,
    reasoning_tokens: Option<u64>,
    prices: PriceSum,
}

impl FactSums {
    fn add(&mut self, facts: &CallFacts) {
        let sum = |a: Option<u64>, b: Option<u64>| a.zip(b).map(|(a, b)| a + b).or(a).or(b);
        self.attempts += u64::from(facts.attempts);
        self.cached_prompt_tokens = sum(self.cached_prompt_tokens, facts.cached_prompt_tokens);
        self.reasoning_tokens = sum(self.reasoning_tokens, facts.reasoning_tokens);
        self.prices.add_answer(facts.money.as_ref());
    }
}

impl GroupUsage {
    fn new() -> Self {
        Self { calls: 0, work: AnswerWork::default(), cut: Some(0), facts: None }
    }

    fn add(&mut self, response: &Response) {
        self.calls += 1;
        self.work += response.work;
        self.cut = self.cut.zip(response.is_cut()).map(|(sum, is_cut)| sum + u64::from(is_cut));
        if let Some(facts) = response.facts.as_deref() {
            self.facts.get_or_insert_default().add(facts);
        }
    }

    /// Adds the calls of another step.
    fn add_calls(&mut self, other: &Self) {
        self.calls += other.calls;
        self.work += other.work;
        self.cut = self.cut.zip(other.cut).map(|(sum, more)| sum + more);
    }
}

impl OutcomeUsage {
    /// Adds an answered request.
    pub(crate) fn add(&mut self, request: &Request, response: &Response) {
        let wanted = (&request.service, request.ask.kind(), &request.step);
        let found = self.groups.binary_search_by(|((service, kind, step), _)| (service, *kind, step).cmp(&wanted));
        let place = found.unwrap_or_else(|place| {
            if self.groups.is_empty() {
                // Most outcomes have one group or two, and ten thousand wait with theirs.
                self.groups.reserve_exact(2);
            }
            let group = (request.service.clone(), request.ask.kind(), request.step.clone());
            self.groups.insert(place, (group, GroupUsage::new()));
            place
        });
        self.groups[place].1.add(response);
        if let Ok(Answer::Retrieve(hits)) = &response.result {
            self.retrieved += hits.len() as u64;
        }
    }

    /// The calls by service and kind, in this order.
    fn calls_by_kind(&self) -> Vec<CallRow> {
        let same_kind = |a: &(CallGroup, GroupUsage), b: &(CallGroup, GroupUsage)| (&a.0.0, a.0.1) == (&b.0.0, b.0.1);
        let row = |steps: &[(CallGroup, GroupUsage)]| {
            let mut sum = GroupUsage::new();
            steps.iter().for_each(|(_, usage)| sum.add_calls(usage));
            let (service, kind, _) = &steps[0].0;
            let AnswerWork { prompt_tokens, completion_tokens, scored_tokens, operations } = sum.work;
            let (service, kind, calls, cut) = (service.to_string(), kind.name().to_owned(), sum.calls, sum.cut);
            CallRow { service, kind, calls, prompt_tokens, completion_tokens, scored_tokens, operations, cut }
        };
        self.groups.chunk_by(same_kind).map(row).collect()
    }

    /// The calls by step; empty if no request names one.
    fn calls_by_step(&self) -> Vec<StepCallRow> {
        if self.groups.iter().all(|((_, _, step), _)| step.is_empty()) {
            return Vec::new();
        }
        let row = |((service, kind, step), usage): &(CallGroup, GroupUsage)| {
            let AnswerWork { prompt_tokens, completion_tokens, scored_tokens, operations } = usage.work;
            let (step, service, kind) = (step.to_string(), service.to_string(), kind.name().to_owned());
            let (calls, cut) = (usage.calls, usage.cut);
            StepCallRow { step, service, kind, calls, prompt_tokens, completion_tokens, scored_tokens, operations, cut }
        };
        self.groups.iter().map(row).collect()
    }

    /// The measured facts, if there are any.
    fn measured_calls(&self) -> Option<Vec<MeasuredCallRow>> {
        let row = |((service, kind, step), usage): &(CallGroup, GroupUsage)| {
            let facts = usage.facts.as_ref()?;
            Some(MeasuredCallRow {
                step: step.to_string(),
                service: service.to_string(),
                kind: kind.name().to_owned(),
                attempts: facts.attempts,
                cached_prompt_tokens: facts.cached_prompt_tokens,
                reasoning_tokens: facts.reasoning_tokens,
                money_nanos: facts.prices.nanos(),
                currency: facts.prices.currency(),
                unpriced: facts.prices.unpriced(),
            })
        };
        let rows: Vec<MeasuredCallRow> = self.groups.iter().filter_map(row).collect();
        (!rows.is_empty()).then_some(rows)
    }
}

/// The trace of an outcome with its requests by step, if it has any of it.
fn outcome_trace(outcome: &mut Outcome, steps: Vec<StepCallRow>) -> Option<OutcomeTrace> {
    let notes = std::mem::take(&mut outcome.notes).into_iter();
    let named = std::mem::take(&mut outcome.named_support).into_iter();
    let trace = OutcomeTrace {
        notes: notes.map(|note| NoteRow { name: note.name, text: note.text }).collect(),
        format: outcome.format,
        repairs: outcome.repairs,
        named_support: named.map(|named| NamedSentenceRow { title: named.title, sentence: named.sentence }).collect(),
        steps,
    };
    (trace != OutcomeTrace::default()).then_some(trace)
}

/// The timing of an outcome.
pub(crate) struct OutcomeTiming {
    pub(crate) timing: Timing,
    pub(crate) device_s: Option<f64>,
}

/// The table row of an outcome.
pub(crate) fn outcome_row(
    configuration: u32,
    question: &QuestionRow,
    mut outcome: Outcome,
    rounds: u32,
    usage: OutcomeUsage,
    measured: Option<OutcomeTiming>,
) -> OutcomeRow {
    let trace = outcome_trace(&mut outcome, usage.calls_by_step());
    let (timing, device_s) = measured.map_or((None, None), |measured| (Some(measured.timing), measured.device_s));
    let message = outcome.status.message().map(str::to_owned);
    OutcomeRow {
        configuration,
        index: question.index,
        question: question.id.clone(),
        status: outcome.status.name().to_owned(),
        message,
        answer: outcome.answer,
        ranked: outcome.ranked.iter().map(|ranked| ranked.passage.0).collect(),
        scores: outcome.ranked.iter().map(|ranked| ranked.score).collect(),
        paths: outcome.paths.iter().map(|p| (p.passages.iter().map(|id| id.0).collect(), p.score)).collect(),
        supporting: outcome.supporting.iter().map(|s| (s.passage.0, s.sentence)).collect(),
        evidences: outcome.evidences,
        iterations: outcome.iterations,
        rounds,
        calls: usage.calls_by_kind(),
        timing,
        retrieved: Some(usage.retrieved),
        device_s,
        trace,
        measured: usage.measured_calls(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hopeval_methods::MoneyAmount;
    use hopeval_methods::request::RetrievePayload;

    fn answered(step: &'static str, facts: Option<CallFacts>) -> (Request, Response) {
        let request = Request::new(&"bm25".into(), RetrievePayload::new("q", 1)).at_step(step);
        let work = AnswerWork { operations: 5, ..AnswerWork::default() };
        let response = Response::answer(Answer::Retrieve(Vec::new()), work);
        (request, Response { facts: facts.map(Box::new), ..response })
    }

    fn row(answers: &[(Request, Response)], outcome: Outcome) -> OutcomeRow {
        let mut usage = OutcomeUsage::default();
        answers.iter().for_each(|(request, response)| usage.add(request, response));
        outcome_row(0, &QuestionRow::default(), outcome, 1, usage, None)
    }

    #[test]
    fn calls_are_kept_by_kind_and_by_named_step() {
        let plain = row(&[answered("", None), answered("", None)], Outcome::default());
        assert_eq!((plain.calls.len(), plain.calls[0].calls), (1, 2));
        assert_eq!((&plain.trace, &plain.measured), (&None, &None), "no methods without steps have a trace");
        let steps = row(&[answered("leaf", None), answered("", None), answered("leaf", None)], Outcome::default());
        assert_eq!((steps.calls.len(), steps.calls[0].calls, steps.calls[0].operations), (1, 3, 15));
        let trace = steps.trace.expect("steps are a trace");
        let found: Vec<(&str, u64)> = trace.steps.iter().map(|step| (step.step.as_str(), step.calls)).collect();
        assert_eq!(found, [("", 1), ("leaf", 2)]);
    }

    #[test]
    fn facts_are_summed_and_unknown_ones_stay_unknown() {
        let money = |nanos| Some(MoneyAmount { nanos, currency: "EUR".to_owned() });
        let first = CallFacts { attempts: 2, money: money(3), ..CallFacts::default() };
        let second = CallFacts { attempts: 1, cached_prompt_tokens: Some(7), money: money(4), ..CallFacts::default() };
        let row = row(&[answered("", Some(first)), answered("", Some(second)), answered("", None)], Outcome::default());
        let measured = row.measured.expect("there are facts");
        let found = &measured[0];
        assert_eq!((measured.len(), found.attempts, found.cached_prompt_tokens), (1, 3, Some(7)));
        assert_eq!(
            (found.reasoning_tokens, found.money_nanos, found.currency.as_deref()),
            (None, Some(7), Some("EUR"))
        );
        assert_eq!(found.unpriced, Some(0), "what was never sent costs nothing");
    }

    #[test]
    fn a_call_without_a_price_leaves_the_outcome_without_money() {
        let money = |nanos| Some(MoneyAmount { nanos, currency: "EUR".to_owned() });
        let priced = CallFacts { attempts: 1, money: money(3), ..CallFacts::default() };
        let unpriced = CallFacts { attempts: 1, money: None, ..CallFacts::default() };
        for order in [[&priced, &unpriced], [&unpriced, &priced]] {
            let row = row(&order.map(|facts| answered("", Some(facts.clone()))), Outcome::default());
            let found = &row.measured.expect("there are facts")[0];
            assert_eq!((found.attempts, found.money_nanos, found.unpriced), (2, None, Some(1)));
            assert_eq!(found.currency.as_deref(), Some("EUR"));
        }
    }

    #[test]
    fn notes_format_and_named_support_are_the_trace() {
        let mut outcome = Outcome { format: Some(false), repairs: 2, ..Outcome::default() };
        outcome.add_note("thought", "it is");
        let (title, sentence) = ("T".to_owned(), "x".to_owned());
        outcome.named_support.push(hopeval_methods::NamedSentence { title, sentence });
        let trace = row(&[], outcome).trace.expect("there is one");
        assert_eq!((trace.format, trace.repairs, trace.notes[0].text.as_str()), (Some(false), 2, "it is"));
        assert_eq!((trace.named_support[0].title.as_str(), trace.steps.len()), ("T", 0));
    }
}
