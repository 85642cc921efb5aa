//! Counts attempts and answers of every body, and keeps the log.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::Write;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::fault::FaultKind;
use crate::settings::{LogSettings, PriceSettings};

/// The end of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CallOutcome {
    /// A usable answer was handed over.
    Answered,
    /// A fault of the settings.
    Fault,
    /// A limit: 429.
    Limited,
    /// The request is wrong or not allowed: another 4xx.
    Refused,
    /// The caller went away before the answer was complete.
    CallerGone,
}

/// The tokens of a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct CallTokens {
    /// Of the prompt, cached ones included.
    pub prompt: u64,
    /// Of the prompt's prefix that was seen before.
    pub cached: u64,
    /// Of the answer, with those of reasoning.
    pub completion: u64,
    /// Of reasoning.
    pub reasoning: u64,
}

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LogEntry {
    /// The number of the call, from 1.
    pub call: u64,
    /// Its begin, in seconds since 1970.
    pub begun: f64,
    /// Its path.
    pub path: String,
    /// BLAKE3 of its body.
    pub body: String,
    /// The number of this call among those of its body, from 1.
    pub attempt: u64,
    /// Its end.
    pub outcome: CallOutcome,
    /// The status that was sent, or 0.
    pub status: u16,
    /// The fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<FaultKind>,
    /// The tokens that were computed.
    pub tokens: CallTokens,
    /// Money that was billed.
    pub money: f64,
    /// Milliseconds from the body's arrival to the last byte handed over.
    pub ms: f64,
    /// Calls that were open when this one began, with it.
    pub in_flight: u64,
}

/// The sums of a server's calls.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct SimulationSummary {
    /// This is a simulation.
    pub simulated: bool,
    /// Calls that have ended.
    pub calls: u64,
    /// Calls by their end.
    pub answered: u64,
    /// See [`CallOutcome::Fault`].
    pub failed: u64,
    /// See [`CallOutcome::Limited`].
    pub limited: u64,
    /// See [`CallOutcome::Refused`].
    pub refused: u64,
    /// See [`CallOutcome::CallerGone`].
    pub callers_gone: u64,
    /// Different bodies.
    pub bodies: u64,
    /// Different bodies with an answer.
    pub answered_bodies: u64,
    /// Answers to bodies that had one.
    pub repeated_answers: u64,
    /// Faults by kind.
    pub faults: BTreeMap<FaultKind, u64>,
    /// Tokens billed.
    pub tokens: CallTokens,
    /// Money billed.
    pub money: f64,
    /// Open calls.
    pub in_flight: u64,
    /// The most open calls.
    pub peak_in_flight: u64,
    /// Connections that were accepted, for calls and for anything else.
    pub connections: u64,
    /// Log entries that are no longer in memory.
    pub dropped_entries: u64,
    /// Log lines that could not be written to the file.
    pub unwritten_lines: u64,
}

/// The hash of a body.
pub(crate) type BodyHash = [u8; 32];

/// The calls of one body.
#[derive(Debug, Clone, Copy, Default)]
struct BodyCalls {
    attempts: u64,
    faults: u64,
    answers: u64,
}

/// A call that has begun.
#[derive(Debug, Clone)]
pub(crate) struct BegunCall {
    number: u64,
    begun: f64,
    since: Instant,
    path: String,
    pub(crate) body: BodyHash,
    pub(crate) attempt: u64,
    /// Faults of this body before.
    pub(crate) faults_before: u64,
    in_flight: u64,
}

/// What is known of a call at its end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallVerdict {
    pub(crate) outcome: CallOutcome,
    pub(crate) status: u16,
    pub(crate) fault: Option<FaultKind>,
    pub(crate) tokens: CallTokens,
    /// The tokens are billed.
    pub(crate) is_billed: bool,
}

/// The log and the counters.
pub(crate) struct CallLedger {
    bounds: LogSettings,
    file: Option<File>,
    entries: VecDeque<LogEntry>,
    bodies: FxHashMap<BodyHash, BodyCalls>,
    order: VecDeque<BodyHash>,
    begun: u64,
    summary: SimulationSummary,
}

impl CallLedger {
    pub(crate) fn new(bounds: LogSettings, file: Option<File>) -> Self {
        Self {
            bounds,
            file,
            entries: VecDeque::new(),
            bodies: FxHashMap::default(),
            order: VecDeque::new(),
            begun: 0,
            summary: SimulationSummary { simulated: true, ..SimulationSummary::default() },
        }
    }

    pub(crate) fn set_bounds(&mut self, bounds: LogSettings) {
        self.bounds = bounds;
    }

    pub(crate) fn begin_call(&mut self, path: &str, body: BodyHash) -> BegunCall {
        self.begun += 1;
        self.summary.in_flight += 1;
        self.summary.peak_in_flight = self.summary.peak_in_flight.max(self.summary.in_flight);
        if !self.bodies.contains_key(&body) {
            self.summary.bodies += 1;
            self.order.push_back(body);
            if self.order.len() > self.bounds.bodies
                && let Some(oldest) = self.order.pop_front()
            {
                self.bodies.remove(&oldest);
            }
        }
        let calls = self.bodies.entry(body).or_default();
        calls.attempts += 1;
        let begun = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        BegunCall {
            number: self.begun,
            begun,
            since: Instant::now(),
            path: path.to_owned(),
            body,
            attempt: calls.attempts,
            faults_before: calls.faults,
            in_flight: self.summary.in_flight,
        }
    }

    pub(crate) fn end_call(&mut self, call: &BegunCall, verdict: CallVerdict, price: &PriceSettings) {
        let money = if verdict.is_billed { price.money_of(verdict.tokens) } else { 0.0 };
        self.count(call, &verdict, money);
        let entry = LogEntry {
            call: call.number,
            begun: call.begun,
            path: call.path.clone(),
            body: blake3::Hash::from_bytes(call.body).to_hex().to_string(),
            attempt: call.attempt,
            outcome: verdict.outcome,
            status: verdict.status,
            fault: verdict.fault,
            tokens: verdict.tokens,
            money,
            ms: call.since.elapsed().as_secs_f64() * 1000.0,
            in_flight: call.in_flight,
        };
        if let Some(file) = &mut self.file {
            let mut line = serde_json::to_vec(&entry).unwrap_or_default();
            line.push(b'\n');
            // A full disk must not stop the simulation; the summary counts the line as missing.
            if file.write_all(&line).is_err() {
                self.summary.unwritten_lines += 1;
            }
        }
        self.entries.push_back(entry);
        while self.entries.len() > self.bounds.entries {
            self.entries.pop_front();
            self.summary.dropped_entries += 1;
        }
    }

    fn count(&mut self, call: &BegunCall, verdict: &CallVerdict, money: f64) {
        let summary = &mut self.summary;
        let mut forgotten = BodyCalls::default();
        let calls = self.bodies.get_mut(&call.body).unwrap_or(&mut forgotten);
        match verdict.outcome {
            CallOutcome::Answered => {
                summary.answered += 1;
                calls.answers += 1;
                match calls.answers {
                    1 => summary.answered_bodies += 1,
                    _ => summary.repeated_answers += 1,
                }
            }
            CallOutcome::Fault => summary.failed += 1,
            CallOutcome::Limited => summary.limited += 1,
            CallOutcome::Refused => summary.refused += 1,
            CallOutcome::CallerGone => summary.callers_gone += 1,
        }
        if let Some(fault) = verdict.fault {
            *summary.faults.entry(fault).or_default() += 1;
        }
        summary.calls += 1;
        summary.in_flight -= 1;
        summary.money += money;
        if verdict.is_billed {
            let (sum, tokens) = (&mut summary.tokens, verdict.tokens);
            sum.prompt += tokens.prompt;
            sum.cached += tokens.cached;
            sum.completion += tokens.completion;
            sum.reasoning += tokens.reasoning;
        }
    }

    /// Notes that a body failed by a fault: the bound of faults for each body counts these.
    pub(crate) fn note_fault(&mut self, body: &BodyHash) {
        if let Some(calls) = self.bodies.get_mut(body) {
            calls.faults += 1;
        }
    }

    pub(crate) fn summary(&self) -> &SimulationSummary {
        &self.summary
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = &LogEntry> {
        self.entries.iter()
    }
}

impl PriceSettings {
    /// The price of a call.
    pub(crate) fn money_of(&self, tokens: CallTokens) -> f64 {
        let fresh = (tokens.prompt - tokens.cached) as f64 * self.input;
        let cached = tokens.cached as f64 * self.cached_input;
        self.request + (fresh + cached + tokens.completion as f64 * self.output) / 1e6
    }
}
