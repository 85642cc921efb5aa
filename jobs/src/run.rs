//! The life of a run: made once, opened by every process, worked on by every worker, finished by one.
//!
//! ```text
//!   make: corpus, sparse indexes, questions ---> run record
//!   open: the same corpus and sparse indexes, methods, judge, the log     (every process of every generation)
//!   prepare: dense indexes that a host lacks     (every worker)
//!   work: feed and dataflow until all chunks are committed, or the run drains (`drain`)     (every worker)
//!   finish: final tables from the committed outcomes     (process 0)
//! ```

use crate::choices;
use crate::corpora::{self, Cache, Report};
use crate::corrections::Corrector;
use crate::drain::Gate;
use crate::error::JobError;
use crate::host::Company;
use crate::job::{Job, Mode, Service};
use crate::journal::{Author, Shelf, now_ms};
use crate::judge::{Judge, TallyKey};
use crate::ledger;
use crate::questions::{self, Prepared};
use crate::render::{Channel, Leading, Parts, Waker, render};
use crate::services::dense::build::Building;
use crate::services::{Books, Catalogue, Fault, books};
use crate::sweep::{self, Configuration};
use crate::tables::judged;
use hopeval_methods::{Setting, registry};
use hopeval_operators::Counters;
use hopeval_operators::flush::Flush;
use hopeval_operators::tally::Change;
use hopeval_results::run::{RUN_VERSION, run_id};
use hopeval_results::tables::{QuestionRow, TableWriter, questions as question_table, write_table};
use hopeval_results::{Log, RunRecord, Store, layout};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use timely::worker::Worker;

/// Where a command works.
#[derive(Clone)]
pub struct Places {
    /// Runs and journal.
    pub store: Store,
    /// Corpora and indexes of this machine.
    pub cache: Cache,
    /// Threads that builds may use.
    pub threads: usize,
}

/// Everything that determines a run's numbers, resolved: the settings in a run's record.
///
/// The names in it and in all that it holds are stored, and the job's digest is of the same JSON. A field or variant that is
/// renamed in Rust keeps its name with `serde(rename)`; a new field has a default that is not written, so that the digests
/// of jobs that do not use it stay as they were. `tests/golden/run-*.txt` and `jobs.txt` have every field.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Resolved {
    /// The job, paths absolute.
    pub job: Job,
    /// Its configurations, every default filled in.
    pub configurations: Vec<Configuration>,
    /// What preparing the questions found.
    pub prepared: Prepared,
    /// Digest of the questions' files.
    pub dataset_digest: String,
    /// Digest of the corpus.
    pub corpus_digest: String,
    /// What the corpus is kept under in a cache; none where the job names a built corpus.
    #[serde(default)]
    pub corpus_key: Option<String>,
    /// Whether wrong rows of the dataset were set aside.
    #[serde(default)]
    pub set_aside: bool,
    /// Passages in the corpus.
    pub passages: u64,
    /// Fingerprints of the services.
    #[serde(default)]
    pub services: BTreeMap<String, String>,
    /// Parameters of the models of its services.
    #[serde(default)]
    pub parameters: BTreeMap<String, u64>,
    /// Digests of the selections whose values its configurations have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub selections: BTreeMap<String, String>,
    /// Where the corpus's links come from.
    pub links: String,
    /// Questions of a chunk.
    pub chunk: u64,
}

/// Machines that a worker has open at once unless the job says otherwise: of a job without models, at some 15 KB each, and of
/// one with, at some 45 KB where they are PromptRank's (a sweep of 60 points over 300 questions). What configurations share of a
/// model's work is computed once only if it waits at the same time, so few machines make a sweep over a model dear; a
/// retriever's answers are cheap to give again.
const MACHINES: (usize, usize) = (4096, 16_384);

/// The fewest and the most questions in flight on a worker unless the job says otherwise.
const IN_FLIGHT: (usize, usize) = (16, 256);

/// The smallest and largest default chunk.
const CHUNKS: (u64, u64) = (16, 4096);

/// Questions of a chunk unless the job says: a hundred commits or so, whatever the dataset.
fn default_chunk(questions: u64) -> u64 {
    (questions / 100).next_power_of_two().clamp(CHUNKS.0, CHUNKS.1)
}

impl Resolved {
    /// Outcomes that a chunk has when it is complete.
    pub fn outcomes_of(&self, chunk: u64) -> u64 {
        let begin = chunk * self.chunk;
        let end = (begin + self.chunk).min(self.prepared.questions);
        end.saturating_sub(begin) * self.configurations.len() as u64
    }

    /// Outcomes of the whole run.
    pub fn outcomes(&self) -> u64 {
        self.prepared.questions * self.configurations.len() as u64
    }

    /// Chunks of the run.
    pub fn chunks(&self) -> u64 {
        self.prepared.questions.div_ceil(self.chunk)
    }

    /// Questions in flight on each worker: unless the job says, as many as keep 4,096 machines open, or 16,384 where there is a
    /// model; one where each is timed.
    pub fn in_flight(&self) -> usize {
        if self.job.run.mode == Mode::Latency {
            return 1;
        }
        let models = self.job.service.values().any(|service| matches!(service, Service::Lm(_)));
        let machines = if models { MACHINES.1 } else { MACHINES.0 };
        let share = machines / self.configurations.len().max(1);
        self.job.run.in_flight.unwrap_or_else(|| share.clamp(IN_FLIGHT.0, IN_FLIGHT.1))
    }

    /// The dataset's format, by name.
    pub fn format(&self) -> &'static str {
        self.prepared.format.map_or("world", hopeval_datasets::Format::name)
    }

    /// What a run with the same digest would compute again.
    fn digest(&self) -> String {
        let all = (
            &self.configurations,
            &self.job.measures,
            &self.dataset_digest,
            &self.corpus_digest,
            &self.prepared,
            self.job.dataset.gold,
            &self.services,
        );
        let mut bytes = serde_json::to_vec(&all).expect("plain data can be written as JSON; this is a bug");
        // What most jobs do not have leaves their digests as they were.
        if self.job.dataset.draw.is_some() || !self.selections.is_empty() {
            let more = (&self.job.dataset.draw, &self.selections);
            bytes.extend(serde_json::to_vec(&more).expect("plain data can be written as JSON; this is a bug"));
        }
        blake3::hash(&bytes).to_hex().to_string()
    }
}

/// Makes a run of `job`: builds what is missing but for dense indexes, writes its questions and its record, and returns its id.
///
/// # Errors
/// Whatever is wrong with the job, its files or the store. Nothing of the run is visible then.
pub fn make(job: &Job, places: &Places, quarantine: Option<&Path>, report: Report<'_>) -> Result<String, JobError> {
    let mut job = job.clone();
    places.cache.world(&mut job, report)?;
    let job = &job;
    let (corpus, corpus_key) = places.cache.find_corpus(job, quarantine.is_some(), report)?;
    let engines = places.cache.engines(job, &corpus, places.threads, report)?;
    let catalogue = Catalogue::new(Arc::clone(&corpus), engines, &job.service);
    // Dense indexes are made by all workers, when the run begins.
    catalogue.look(report)?;
    let setting = Setting { passages: corpus.len() as u32 };
    let mut configurations = sweep::configurations(job);
    let choices::Resolved { selections, mut watch } = choices::resolve(job, &mut configurations, places, report)?;
    let methods = sweep::methods(&configurations, &setting)?;
    let mut candidates_needed = false;
    for (configuration, method) in configurations.iter_mut().zip(&methods) {
        catalogue.check(&configuration.name, method.as_ref())?;
        candidates_needed |= method.context_mode() == hopeval_methods::ContextMode::Given;
        configuration.parameters = registry::resolve(&configuration.kind, &configuration.parameters, &setting)
            .map_err(|source| JobError::Method { configuration: configuration.name.clone(), source })?;
    }
    // The settings are judged before anything is written.
    Judge::new(&job.measures, "world", &methods, &[], &corpus)?;
    let mut digests = Vec::new();
    for path in job.dataset.questions.paths() {
        digests.push(corpora::digest(path)?);
    }
    let dataset_digest = blake3::hash(digests.join(" ").as_bytes()).to_hex().to_string();
    let created_ms = now_ms();
    let seed = format!("{dataset_digest}{}{}{:?}", corpus.digest(), std::process::id(), std::time::Instant::now());
    let run = run_id(created_ms, blake3::hash(seed.as_bytes()).to_hex().as_str());
    let mut writer = TableWriter::<QuestionRow>::new(&places.store, &layout::questions(&run))?;
    let (prepared, errors) = questions::prepare(job, &corpus, candidates_needed, quarantine, &mut |row| {
        if row.index % 1024 == 0 {
            report("questions", row.index);
        }
        watch.see_row(&row);
        Ok(writer.push(row)?)
    })?;
    watch.check()?;
    writer.finish()?;
    write_table(&places.store, &layout::final_table(&run, "errors"), errors)?;
    let chunk = job.run.chunk.unwrap_or_else(|| default_chunk(prepared.questions));
    let resolved = Resolved {
        job: job.clone(),
        configurations,
        prepared,
        dataset_digest,
        corpus_digest: corpus.digest().to_owned(),
        corpus_key,
        set_aside: quarantine.is_some(),
        passages: corpus.len() as u64,
        services: catalogue.fingerprints(),
        parameters: catalogue.parameters(),
        selections,
        links: corpus.info().link_origin.as_str().to_owned(),
        chunk,
    };
    let unwritable = |source| JobError::Stored { what: "the settings", run: run.clone(), source };
    let record = RunRecord {
        schema_version: RUN_VERSION,
        run: run.clone(),
        job: job.name.clone(),
        job_digest: resolved.digest(),
        created_ms,
        settings: serde_json::to_value(&resolved).map_err(unwritable)?,
    };
    record.create(&places.store)?;
    Ok(run)
}

/// A run as a process has it open.
pub struct Open {
    /// Where it lies.
    pub places: Places,
    /// Its record.
    pub record: RunRecord,
    /// Its settings.
    pub resolved: Resolved,
    /// Its configurations and services.
    pub company: Arc<Company>,
    /// What judges its outcomes.
    pub judge: Arc<Judge>,
}

impl Open {
    /// Opens the run `run`: its corpus and sparse indexes are built here if this machine does not have them.
    ///
    /// # Errors
    /// No such run, another version's record, a corpus that is not the run's.
    #[expect(clippy::self_named_constructors, reason = "what is open was opened")]
    pub fn open(places: &Places, run: &str, report: Report<'_>) -> Result<Self, JobError> {
        let record = RunRecord::load(&places.store, run)?;
        let resolved: Resolved = serde_json::from_value(record.settings.clone())
            .map_err(|source| JobError::Stored { what: "the settings", run: run.to_owned(), source })?;
        let built = resolved.corpus_key.as_deref().map(|key| places.cache.built_corpus(key)).transpose()?.flatten();
        let corpus = match built {
            Some(corpus) => corpus,
            None => {
                // A world's files are made again where this machine does not have them: the same bytes.
                places.cache.world(&mut resolved.job.clone(), report)?;
                places.cache.find_corpus(&resolved.job, resolved.set_aside, report)?.0
            }
        };
        if corpus.digest() != resolved.corpus_digest {
            return Err(JobError::Differs {
                what: "the corpus",
                found: corpus.digest().to_owned(),
                expected: resolved.corpus_digest,
            });
        }
        let engines = places.cache.engines(&resolved.job, &corpus, places.threads, report)?;
        let setting = Setting { passages: corpus.len() as u32 };
        let methods = sweep::methods(&resolved.configurations, &setting)?;
        let strata = &resolved.prepared.strata;
        let judge = Judge::new(&resolved.job.measures, resolved.format(), &methods, strata, &corpus)?;
        let catalogue = Arc::new(Catalogue::new(corpus, engines, &resolved.job.service));
        let company = Company::with_temperatures(methods, catalogue, &resolved.job.run.temperatures);
        let company = Arc::new(company);
        Ok(Self { places: places.clone(), record, resolved, company, judge: Arc::new(judge) })
    }

    /// Opens its models, and the dense indexes that are there, so that requests have keys.
    ///
    /// # Errors
    /// A model that cannot be opened, or that is not the run's: other weights, another tokenizer, instructions that give
    /// other last digits.
    pub fn open_services(&self, report: Report<'_>) -> Result<(), JobError> {
        let catalogue = &self.company.catalogue;
        catalogue.look(report)?;
        // A run of an earlier version did not record them.
        let mut recorded = self.resolved.services.iter();
        let found = catalogue.fingerprints();
        match recorded.find(|(name, expected)| found.get(*name) != Some(*expected)) {
            None => Ok(()),
            Some((name, expected)) => Err(JobError::ServiceDiffers {
                name: name.clone(),
                found: found.get(name).cloned().unwrap_or_default(),
                expected: expected.clone(),
            }),
        }
    }

    /// Opens models on further devices, for so many workers of this process: [`Catalogue::spread`].
    ///
    /// # Errors
    /// As there.
    pub fn spread_services(&self, workers: usize) -> Result<(), JobError> {
        self.company.catalogue.spread(workers)
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.record.run
    }

    /// Names of the configurations, by position.
    pub fn names(&self) -> Vec<String> {
        self.resolved.configurations.iter().map(|c| c.name.clone()).collect()
    }

    /// The questions from position `from` on, with every edit of gold that `log` knows.
    ///
    /// # Errors
    /// The table or an edit cannot be read.
    pub fn questions(
        &self,
        log: &Log,
        from: u64,
    ) -> Result<impl Iterator<Item = Result<QuestionRow, JobError>> + Send + use<>, JobError> {
        let edits = crate::gold::edits(&self.places.store, log)?;
        let rows = question_table::stream(&self.places.store, self.id(), from)?;
        Ok(rows.map(move |row| row.map(|row| crate::gold::edited(&edits, row)).map_err(JobError::from)))
    }

    /// The live tallies of all committed outcomes, computed anew.
    ///
    /// # Errors
    /// A part or the questions cannot be read.
    pub fn tallies(&self, log: &Log) -> Result<BTreeMap<TallyKey, Change>, JobError> {
        let mut tallies: BTreeMap<TallyKey, Change> = BTreeMap::new();
        if log.state().committed.is_empty() {
            return Ok(tallies);
        }
        judged(self, log, &mut |question, outcome, values| {
            for (key, change) in self.judge.changes(question, outcome, values, 1) {
                let sum = tallies.entry(key).or_default();
                *sum = (sum.0 + change.0, sum.1 + change.1, sum.2 + change.2, sum.3 + change.3);
            }
            Ok(())
        })?;
        Ok(tallies)
    }
}

/// One generation of a run in one process: what its workers share.
pub struct Generation {
    /// The run.
    pub run: Open,
    /// Its number.
    pub number: u64,
    /// Chunks that were committed before.
    pub committed: BTreeSet<u64>,
    /// Segments that win over others.
    pub preferred: BTreeSet<String>,
    /// Counters of this process.
    pub counters: Arc<Counters>,
    /// What the services of each worker of this process do.
    pub books: Mutex<Vec<Books>>,
    /// Where questions come in, until the run shall stop early.
    gate: Arc<Gate>,
    /// Has everything that was computed written, when the run stops early.
    flush: Flush,
    /// Writes that have begun and are not durable.
    pub open_writes: Arc<AtomicUsize>,
    /// The first error.
    pub fault: Fault,
    /// How far the dense indexes are that are made first.
    pub building: Arc<Building>,
    log: Log,
    lead: Mutex<Option<Leading>>,
}

/// The ledger's thread of process 0; its log comes back when all is committed.
pub type Ledger = JoinHandle<Option<Log>>;

/// Begins a generation: fences the log. For process 0.
///
/// # Errors
/// The store; a log of another version.
pub fn fence(
    store: &Store,
    record: &RunRecord,
    committer: &str,
    processes: usize,
    workers: usize,
) -> Result<u64, JobError> {
    let mut log = Log::open(store, &record.run)?;
    let total = (processes * workers) as u32;
    Ok(log.fence(committer, processes as u32, total, &record.job_digest)?)
}

impl Generation {
    /// Joins generation `number` of a run whose services are open. Process 0 leads: it gives its committer and gets the
    /// ledger.
    ///
    /// # Errors
    /// The log or the committed outcomes cannot be read, or the generation is over already.
    pub fn join(run: Open, number: u64, committer: Option<&str>) -> Result<(Self, Option<Ledger>), JobError> {
        let log = Log::open(&run.places.store, run.id())?;
        if log.state().generation != number {
            return Err(JobError::Over { run: run.id().to_owned(), number, latest: log.state().generation });
        }
        let fault = Fault::default();
        let open_writes: Arc<AtomicUsize> = Arc::default();
        let mut lead = None;
        let mut ledger = None;
        if let Some(committer) = committer {
            let before = run.tallies(&log)?.into_iter().collect();
            let resolved = run.resolved.clone();
            let expected = Arc::new(move |chunk| resolved.outcomes_of(chunk));
            let store = &run.places.store;
            let (sender, corrections) = channel();
            let waker = Waker::default();
            let corrector = Corrector {
                store: store.clone(),
                judge: Arc::clone(&run.judge),
                chunk: run.resolved.chunk,
                before: crate::gold::edits(store, &log)?,
                seen: log.state().golds.len(),
                applied: BTreeMap::new(),
                waiting: BTreeMap::new(),
                sender,
                waker: waker.clone(),
            };
            let open = Arc::clone(&open_writes);
            let (clerk, thread) =
                ledger::open(store, log.clone(), number, committer, expected, &fault, corrector, open).map_err(
                    |source| JobError::Io { path: run.id().into(), operation: "cannot start a thread", source },
                )?;
            lead = Some(Leading { clerk, before, corrections, waker });
            ledger = Some(thread);
        }
        let generation = Self {
            committed: log.state().committed.keys().copied().collect(),
            preferred: log.state().segments(),
            run,
            number,
            counters: Arc::default(),
            books: Mutex::default(),
            building: Arc::new(Building::new(&fault)),
            gate: Arc::default(),
            flush: Flush::default(),
            open_writes,
            fault,
            log,
            lead: Mutex::new(lead),
        };
        Ok((generation, ledger))
    }

    /// Outcomes that were committed before.
    pub fn outcomes_before(&self) -> u64 {
        self.log.state().total_outcomes()
    }

    /// Makes with all workers what services lack. A process that stops meanwhile has nothing to drain. No beat is counted: a long
    /// passage, or a disk that the file is brought to, is no stall, and a process that has not made its first step may be silent.
    ///
    /// # Errors
    /// An index cannot be made here. The other workers wait: the process must end.
    pub fn prepare(&self, worker: &mut Worker) -> Result<(), JobError> {
        self.run.company.catalogue.make_indexes(worker, &self.building)
    }

    /// Builds this worker's dataflow, once [`Generation::prepare`] has come back.
    ///
    /// # Errors
    /// The journal or the questions cannot be read.
    pub fn build(&self, worker: &mut Worker) -> Result<(), JobError> {
        let (index, workers) = (worker.index(), worker.peers());
        let store = self.run.places.store.clone();
        let shelf = Shelf::open(&store, self.run.id(), index, workers, &self.preferred)?;
        let books = books(&self.run.company.catalogue);
        self.books.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(Arc::clone(&books));
        let leading =
            if index == 0 { self.lead.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take() } else { None };
        let parts = Parts {
            author: Author { run: self.run.id().to_owned(), generation: self.number, worker: index as u32 },
            company: Arc::clone(&self.run.company),
            judge: Arc::clone(&self.run.judge),
            feed: self.feed(index as u64, workers as u64)?,
            shelf,
            counters: Arc::clone(&self.counters),
            books,
            in_flight: self.run.resolved.in_flight(),
            batch: self.run.resolved.job.run.batch,
            mode: self.run.resolved.job.run.mode,
            flush: self.flush.clone(),
            open_writes: Arc::clone(&self.open_writes),
            fault: self.fault.clone(),
            leading,
            store,
        };
        render(worker, parts);
        Ok(())
    }

    /// Reads this worker's share of the questions in a thread: every `workers`-th, less what is committed. Where each is
    /// timed, one worker has them all: what it asks is answered by whichever owns it, and nobody else asks anything.
    fn feed(&self, index: u64, workers: u64) -> Result<Channel, JobError> {
        let chunk_size = self.run.resolved.chunk;
        let first_open = (0..self.run.resolved.chunks()).find(|chunk| !self.committed.contains(chunk));
        let questions = self.run.questions(&self.log, first_open.unwrap_or(u64::MAX).saturating_mul(chunk_size))?;
        let committed = self.committed.clone();
        let askers = if self.run.resolved.job.run.mode == Mode::Latency { 1 } else { workers };
        let (sender, receiver) = sync_channel(4);
        let waker = Waker::default();
        let feed = Channel::new(receiver, waker.clone(), Arc::clone(&self.gate));
        let fault = self.fault.clone();
        let read = move || {
            let mut batch = Vec::new();
            for row in questions {
                let row = match row {
                    Ok(row) => row,
                    // The channel stays open, so the end is never taken for the dataset's.
                    Err(error) => {
                        fault.report(error);
                        std::mem::forget(sender);
                        return;
                    }
                };
                let chunk = row.index / chunk_size;
                if row.index % askers == index && !committed.contains(&chunk) {
                    batch.push((chunk, row));
                    if batch.len() == 64 {
                        if sender.send(std::mem::take(&mut batch)).is_err() {
                            return;
                        }
                        waker.wake();
                    }
                }
            }
            if !batch.is_empty() && sender.send(batch).is_err() {
                return;
            }
            drop(sender);
            waker.wake();
        };
        std::thread::Builder::new().name("questions".into()).spawn(read).map_err(|source| JobError::Io {
            path: self.run.id().into(),
            operation: "cannot start a thread",
            source,
        })?;
        Ok(feed)
    }

    /// Ends this process's part early: no further question is admitted.
    pub fn drain(&self) {
        self.gate.close();
    }

    /// Whether a run that drains has finished every question that this process admitted. It stays so, but services
    /// here may still be asked by the questions of other processes.
    pub fn is_quiet(&self) -> bool {
        self.gate.is_quiet(&self.counters.finished)
    }

    /// Has everything written that was computed here; for when all processes are quiet.
    pub fn flush(&self) {
        self.flush.ask();
    }

    /// Whether everything that was computed here is durable, after [`Generation::flush`].
    pub fn is_flushed(&self) -> bool {
        self.flush.is_done() && self.open_writes.load(Ordering::SeqCst) == 0
    }
}
