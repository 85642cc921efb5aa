//! The ledger of a run: what workers report, and the one thread that commits it.

use crate::corrections::Corrector;
use crate::error::JobError;
use crate::judge::TallyKey;
use crate::services::{Fault, Spent};
use hopeval_operators::commit::Committer;
use hopeval_operators::tally::{Change, Table};
use hopeval_results::log::{Body, ChunkCommit, Commit};
use hopeval_results::{Log, Store, layout};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A durable write of one worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Receipt {
    /// Responses.
    Segment {
        /// The object.
        name: String,
    },
    /// Outcomes, and what the worker's services did until then.
    Part {
        /// The object; none if there were only spendings to report.
        part: Option<String>,
        /// (chunk, outcomes) that it holds.
        chunks: Vec<(u64, u64)>,
        /// What services did since the worker's last receipt.
        spent: Vec<Spending>,
    },
}

/// What one service did. Commits store it under these names; a new field has a default.
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

/// What a commit carries for whoever adds up or watches.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Note {
    /// What services did, since the commit before.
    pub spent: Vec<Spending>,
}

/// The live table as of a commit, in its own object, whose names are these: `tests/golden/commits.txt`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LiveTable {
    /// Valid commits that it includes.
    pub commits: u64,
    /// Outcomes in them.
    pub outcomes: u64,
    /// How many edits of gold, the first of the log, all of the tallies have: those that the generation began with.
    /// Corrections for later ones arrive in the tallies one by one, behind the outcomes that they correct.
    #[serde(default)]
    pub golds: u64,
    /// The tallies.
    pub tallies: Vec<(TallyKey, Change)>,
}

/// Name of the live table's object.
pub fn live_object(run: &str) -> String {
    format!("{}/live.json", layout::run(run))
}

struct Ready {
    chunks: Vec<ChunkCommit>,
    parts: Vec<String>,
    segments: Vec<String>,
    spent: Vec<Spending>,
    tallies: Vec<(TallyKey, Change)>,
}

/// Hands complete chunks to the ledger's thread.
pub struct Clerk {
    /// Outcomes that each chunk must have.
    expected: Arc<dyn Fn(u64) -> u64 + Send + Sync>,
    /// Outcomes that have come of each chunk that is not complete.
    waiting: BTreeMap<u64, u64>,
    /// Parts that hold chunks which are not committed.
    parts: Vec<(String, Vec<u64>)>,
    ready: Ready,
    sender: Option<Sender<Ready>>,
    fault: Fault,
    run: String,
    /// Writes that have begun and are not durable.
    open: Arc<AtomicUsize>,
}

/// How often the live table is put down while commits wait; after the last of them it always is.
const LIVE_EVERY: Duration = Duration::from_secs(1);

/// Opens the ledger: the committer for worker 0 and the thread that writes. The thread ends when the committer is
/// dropped or has seen the end, and gives the log back.
#[expect(clippy::too_many_arguments, reason = "one caller, and each is named there")]
pub fn open(
    store: &Store,
    log: Log,
    generation: u64,
    committer: &str,
    expected: Arc<dyn Fn(u64) -> u64 + Send + Sync>,
    fault: &Fault,
    corrector: Corrector,
    open: Arc<AtomicUsize>,
) -> std::io::Result<(Clerk, JoinHandle<Option<Log>>)> {
    let (sender, receiver) = channel();
    let run = log.run().to_owned();
    let pen = Pen {
        store: store.clone(),
        log,
        generation,
        committer: committer.to_owned(),
        fault: fault.clone(),
        golds: corrector.seen as u64,
        corrector,
        open: Arc::clone(&open),
    };
    let thread = std::thread::Builder::new().name("ledger".into()).spawn(move || pen.run(&receiver))?;
    let ready =
        Ready { chunks: Vec::new(), parts: Vec::new(), segments: Vec::new(), spent: Vec::new(), tallies: Vec::new() };
    let clerk = Clerk {
        expected,
        waiting: BTreeMap::new(),
        parts: Vec::new(),
        ready,
        sender: Some(sender),
        fault: fault.clone(),
        run,
        open,
    };
    Ok((clerk, thread))
}

impl Committer for Clerk {
    type Receipt = Receipt;
    type Key = TallyKey;

    fn complete(&mut self, complete: u64, receipts: Vec<Receipt>, table: &Table<TallyKey>) {
        for receipt in receipts {
            match receipt {
                Receipt::Segment { name } => self.ready.segments.push(name),
                Receipt::Part { part, chunks, spent } => {
                    if let Some(part) = part {
                        self.parts.push((part, chunks.iter().map(|&(chunk, _)| chunk).collect()));
                    }
                    self.ready.spent.extend(spent);
                    for (chunk, outcomes) in chunks {
                        *self.waiting.entry(chunk).or_default() += outcomes;
                    }
                }
            }
        }
        let later = self.waiting.split_off(&complete);
        for (chunk, outcomes) in std::mem::replace(&mut self.waiting, later) {
            let expected = (self.expected)(chunk);
            if outcomes != expected {
                let reason = format!("chunk {chunk} has {outcomes} outcomes instead of {expected}: this is a bug");
                self.fault.report(JobError::Unfit { run: self.run.clone(), reason });
                self.sender = None;
                return;
            }
            self.ready.chunks.push(ChunkCommit { chunk, outcomes });
        }
        // A part may have come before other parts of its chunks, and may hold chunks that are complete only later: it is
        // named by every commit that needs it.
        self.parts.retain(|(part, chunks)| {
            if chunks.iter().any(|chunk| self.ready.chunks.iter().any(|ready| ready.chunk == *chunk)) {
                self.ready.parts.push(part.clone());
            }
            chunks.iter().any(|&chunk| chunk >= complete)
        });
        let last = complete == u64::MAX;
        if self.ready.chunks.is_empty() && (!last || self.ready.spent.is_empty()) {
            return;
        }
        self.ready.tallies = table.tallies().iter().map(|(key, tally)| (*key, *tally)).collect();
        let next = Ready {
            chunks: Vec::new(),
            parts: Vec::new(),
            segments: Vec::new(),
            spent: Vec::new(),
            tallies: Vec::new(),
        };
        let ready = std::mem::replace(&mut self.ready, next);
        if let Some(sender) = &self.sender {
            self.open.fetch_add(1, SeqCst);
            // A closed channel says that the thread met a fault and reported it.
            drop(sender.send(ready));
        }
    }
}

struct Pen {
    store: Store,
    log: Log,
    generation: u64,
    committer: String,
    fault: Fault,
    corrector: Corrector,
    /// Edits of gold that the generation began with.
    golds: u64,
    open: Arc<AtomicUsize>,
}

/// How often the log is looked at for edits of gold while nothing is committed.
const EDITS_EVERY: Duration = Duration::from_secs(1);

impl Pen {
    fn run(mut self, receiver: &Receiver<Ready>) -> Option<Log> {
        match self.work(receiver) {
            Ok(()) => Some(self.log),
            Err(error) => {
                self.fault.report(error);
                None
            }
        }
    }

    fn work(&mut self, receiver: &Receiver<Ready>) -> Result<(), JobError> {
        let mut shown: Option<Instant> = None;
        let mut waiting = None;
        loop {
            let ready = match waiting.take().map_or_else(|| receiver.recv_timeout(EDITS_EVERY), Ok) {
                Ok(ready) => ready,
                Err(RecvTimeoutError::Timeout) => {
                    self.log.refresh()?;
                    self.corrector.look(&self.log, &[])?;
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            };
            waiting = receiver.try_recv().ok();
            // The last commit that is known is always shown, so that the live table does not stay behind.
            let show = waiting.is_none() || shown.is_none_or(|shown| shown.elapsed() >= LIVE_EVERY);
            if show {
                shown = Some(Instant::now());
            }
            let chunks = ready.chunks.clone();
            self.commit(ready, show)?;
            self.open.fetch_sub(1, SeqCst);
            self.corrector.look(&self.log, &chunks)?;
        }
    }

    fn commit(&mut self, ready: Ready, show: bool) -> Result<(), JobError> {
        let run = self.log.run().to_owned();
        let unwritable = |source| JobError::Stored { what: "a commit", run: run.clone(), source };
        let mut spent: BTreeMap<String, Spending> = BTreeMap::new();
        for spending in ready.spent {
            spent.entry(spending.service.clone()).or_insert_with(|| Spending::none(&spending.service)).add(&spending);
        }
        let note = Note { spent: spent.into_values().collect() };
        let live = serde_json::to_value(note).map_err(unwritable)?;
        let commit = Commit { chunks: ready.chunks, parts: ready.parts, segments: ready.segments, live };
        self.log.append(self.generation, &self.committer, Body::Commit(commit))?;
        if show {
            let state = self.log.state();
            let table = LiveTable {
                commits: state.commits.len() as u64,
                outcomes: state.total_outcomes(),
                golds: self.golds,
                tallies: ready.tallies,
            };
            let bytes = serde_json::to_vec(&table).map_err(unwritable)?;
            self.store.put(&live_object(&run), bytes.into())?;
        }
        Ok(())
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
