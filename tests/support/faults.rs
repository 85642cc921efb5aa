//! Runs a job whose processes are killed and stopped, again and again, until it is done.
//!
//! ```text
//!   run / resume --processes P --workers W ---> wait for the moment ---> signal one process ---> exit code 75
//!        ^                                                                                          |
//!        +------------------------- another W, another moment, another victim ---------------------+
//! ```
//!
//! Moments follow the run's own progress, its commit log; the seed decides which. Only a signal that met a living
//! process counts; the supervisor's last message shows it.

#![expect(clippy::print_stderr, reason = "the faults and their times explain a failure")]

use crate::harness::{hopeval, succeed};
use hopeval_results::tables::{FinalOutcomeRow, read_table};
use hopeval_results::{Log, Store, layout};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::VecDeque;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The exit code of a run that can be resumed.
const RESUMABLE: i32 = 75;
/// Longest life of one generation, whatever happens to it.
const LIMIT: Duration = Duration::from_secs(60);
/// Seconds allowed for a mesh to form: the cost of a process killed before it is part of one.
const MESH_DEADLINE: &str = "5";
/// The stall bound of a generation with a stopped process, in seconds.
const STALL_BOUND: &str = "2";
/// The longest time from the stop of a process to the end of its generation: the bound, the supervisor's patience with
/// the remaining processes, and a large allowance for a busy machine.
const STALL_LIMIT: Duration = Duration::from_secs(25);

/// Random numbers from a seed: SplitMix64 (Steele, Lea and Flood, 2014).
pub(crate) struct Random(u64);

impl Random {
    /// The seed in the environment, for a repetition, or one of this moment; printed either way.
    pub(crate) fn from_environment() -> Self {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("it is after 1970");
        let seed = match std::env::var("HOPEVAL_KILL_SEED") {
            Ok(text) => text.parse().expect("HOPEVAL_KILL_SEED is a number"),
            Err(_) => now.as_millis() as u64,
        };
        eprintln!("HOPEVAL_KILL_SEED={seed}");
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `n`.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// Puts `items` in some order.
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (1..items.len()).rev() {
            items.swap(end, self.below(end as u64 + 1) as usize);
        }
    }
}

/// The moment of a fault: some milliseconds after an event.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Moment {
    /// It was started.
    Started,
    /// This generation has made this number of commits.
    Committed(usize),
    /// Every outcome of the run is committed: only the final tables remain.
    Complete,
    /// Process 0 has begun to write the final tables.
    Tables,
}

/// One signal to one process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    /// SIGKILL or SIGSTOP.
    pub(crate) signal: Signal,
    /// Processes of the generation.
    pub(crate) processes: u64,
    /// The process that gets the signal.
    pub(crate) victim: u64,
    /// The event before the fault.
    pub(crate) moment: Moment,
    /// Delay after the event.
    pub(crate) later: Duration,
}

impl Fault {
    /// A kill of one of `processes`, a quarter of them while the mesh forms.
    pub(crate) fn kill(random: &mut Random, processes: u64) -> Self {
        let (moment, later) = match random.below(4) {
            0 => (Moment::Started, random.below(400)),
            _ => (Moment::Committed(random.below(4) as usize), random.below(120)),
        };
        let later = Duration::from_millis(later);
        Self { signal: Signal::SIGKILL, processes, victim: random.below(processes), moment, later }
    }

    /// A kill of the process that writes the final tables, about when it does.
    pub(crate) fn kill_at_the_end(random: &mut Random, processes: u64) -> Self {
        let later = Duration::from_millis(random.below(80));
        Self { signal: Signal::SIGKILL, processes, victim: 0, moment: Moment::Complete, later }
    }

    /// A stop of process `victim` of three, once it works.
    pub(crate) fn stop(random: &mut Random, victim: u64) -> Self {
        let moment = Moment::Committed(1 + random.below(3) as usize);
        let later = Duration::from_millis(random.below(120));
        Self { signal: Signal::SIGSTOP, processes: 3, victim, moment, later }
    }

    /// A stop of process 0 while it writes the final tables, when the others have nothing left to do.
    pub(crate) fn stop_at_the_tables(processes: u64) -> Self {
        Self { signal: Signal::SIGSTOP, processes, victim: 0, moment: Moment::Tables, later: Duration::ZERO }
    }

    /// The supervisor's message if the fault met a living process.
    fn death_message(&self) -> String {
        let by = if self.signal == Signal::SIGKILL { "" } else { "the supervisor with " };
        format!("process {} was ended by {by}SIGKILL", self.victim)
    }
}

/// A place for runs with faults.
pub(crate) struct FaultSequence {
    /// Working directory; also the cache is here.
    pub(crate) dir: PathBuf,
    /// The job.
    pub(crate) job: PathBuf,
    /// Base address: every run gets its own store below it.
    pub(crate) stores: String,
    /// Pause between two looks at a run.
    pub(crate) look: Duration,
    /// Outcomes of the whole run: questions and configurations.
    pub(crate) shape: (u64, u64),
    /// Tables of an undisturbed run.
    pub(crate) reference: Vec<Vec<u8>>,
    /// The choice of everything.
    pub(crate) random: Random,
}

/// Counts of a sequence of faults.
#[derive(Debug, Default)]
pub(crate) struct FaultTally {
    /// Processes ended by SIGKILL, by the number of processes of their mesh, from 1.
    pub(crate) killed: [u64; 3],
    /// Processes stopped by SIGSTOP and ended by the stall bound.
    pub(crate) stopped: u64,
    /// Generations.
    pub(crate) generations: u64,
    /// Finished runs.
    pub(crate) finished: u64,
}

/// The end of a generation.
struct EndedGeneration {
    status: ExitStatus,
    stderr: String,
    /// Since the fault.
    took: Duration,
}

/// A run and its generations so far.
struct RunUnderTest {
    number: u64,
    uri: String,
    store: Store,
    id: Option<String>,
    workers: u64,
    generations: u64,
}

impl FaultSequence {
    /// Injects faults into runs until every fault has met a living process, and lets the last run end undisturbed. Each
    /// finished run has been checked.
    pub(crate) fn inject(&mut self, faults: Vec<Fault>) -> FaultTally {
        let mut faults = VecDeque::from(faults);
        let mut tally = FaultTally::default();
        let mut running = self.fresh(0);
        let mut unformed = 0;
        loop {
            let fault = faults.front().copied();
            let ended = self.generation(&mut running, fault.as_ref());
            tally.generations += 1;
            self.no_process_is_left(&running);
            let code = ended.status.code();
            let met = fault.as_ref().is_some_and(|fault| match fault.processes {
                1 => ended.status.signal() == Some(Signal::SIGKILL as i32),
                _ => code == Some(RESUMABLE) && ended.stderr.contains(&fault.death_message()),
            });
            if let Some(fault) = fault.filter(|_| met) {
                if fault.signal == Signal::SIGSTOP {
                    assert!(ended.took < STALL_LIMIT, "{fault:?} lasted {:?}\n{}", ended.took, ended.stderr);
                    let noticed = format!("process {} made no progress", fault.victim);
                    assert!(fault.victim == 0 || ended.stderr.contains(&noticed), "{fault:?}\n{}", ended.stderr);
                    tally.stopped += 1;
                } else {
                    tally.killed[fault.processes as usize - 1] += 1;
                }
                faults.pop_front();
            } else if code == Some(0) {
                self.check(&running);
                tally.finished += 1;
                if faults.front().is_some_and(|fault| matches!(fault.moment, Moment::Complete)) {
                    // The tables were faster than the signal.
                    faults.pop_front();
                }
                if faults.is_empty() {
                    return tally;
                }
                assert!(tally.finished < 100, "{fault:?} never meets a living process: {tally:?}");
                running = self.fresh(running.number + 1);
            } else {
                // Only a machine busy beyond the deadlines ends an undisturbed generation.
                let busy = ["the mesh was not formed", "made no progress"].iter().any(|why| ended.stderr.contains(why));
                unformed += 1;
                let said = &ended.stderr;
                assert!(busy && code == Some(RESUMABLE) && unformed < 10, "{fault:?}: {}\n{said}", ended.status);
            }
        }
    }

    fn fresh(&mut self, number: u64) -> RunUnderTest {
        let uri = format!("{}/run-{number}", self.stores);
        let store = Store::open(&uri).unwrap();
        RunUnderTest { number, uri, store, id: None, workers: 0, generations: 0 }
    }

    /// Runs one generation to its end, with a fault or without.
    fn generation(&mut self, running: &mut RunUnderTest, fault: Option<&Fault>) -> EndedGeneration {
        // Another number of workers than before.
        running.workers = 1 + (running.workers + self.random.below(2)) % 3;
        let processes = fault.map_or_else(|| 1 + self.random.below(3), |fault| fault.processes);
        let (job, cache) = (self.job.display().to_string(), self.dir.join("cache").display().to_string());
        let mut arguments = match &running.id {
            None => vec!["run", &job],
            Some(id) => vec!["resume", id.as_str()],
        };
        let (processes, workers) = (processes.to_string(), running.workers.to_string());
        arguments.extend(["--store", &running.uri, "--cache", &cache, "--mesh-deadline", MESH_DEADLINE]);
        arguments.extend(["--processes", &processes, "--workers", &workers]);
        if fault.is_some_and(|fault| fault.signal == Signal::SIGSTOP) {
            arguments.extend(["--stall-bound", STALL_BOUND]);
        }
        let said = self.dir.join("stderr");
        let stderr = std::fs::File::create(&said).unwrap();
        let mut command = hopeval(&self.dir, &arguments);
        let child = Supervisor(command.stdout(Stdio::null()).stderr(stderr).spawn().unwrap());
        let (status, took) = self.watch(child, running, fault, &command);
        let stderr = std::fs::read_to_string(&said).unwrap();
        running.id = hopeval_results::run::list_runs(&running.store).unwrap().pop();
        let state = running.log().map(|log| (log.state().generation, log.state().total_outcomes()));
        eprintln!("{:?} {processes}x{workers} {fault:?}: {status}, {took:?}, {state:?}", running.number);
        running.generations += 1;
        EndedGeneration { status, stderr, took }
    }

    /// Waits for the moment, injects the fault and waits for the end. Returns the status, and the time since the fault.
    fn watch(
        &self,
        mut child: Supervisor,
        running: &RunUnderTest,
        fault: Option<&Fault>,
        command: &Command,
    ) -> (ExitStatus, Duration) {
        let start = Instant::now();
        let mut log = running.log();
        let before = log.as_ref().map_or(0, |log| log.state().commits.len());
        let tables = log.as_ref().map_or(0, |log| running.table_count(log));
        let (mut due, mut injected) = (None, None);
        loop {
            if let Some(status) = child.0.try_wait().unwrap() {
                return (status, injected.map_or(Duration::ZERO, |at: Instant| at.elapsed()));
            }
            assert!(start.elapsed() < LIMIT, "{command:?} does not end\n{}", self.said());
            if let Some(fault) = fault
                && injected.is_none()
                && let Some(victim) = child.member(fault)
            {
                if due.is_none() {
                    log = log.or_else(|| running.log());
                    let reached = match fault.moment {
                        Moment::Started => true,
                        Moment::Tables => log.as_ref().is_some_and(|log| running.table_count(log) > tables),
                        moment => log.as_mut().is_some_and(|log| {
                            let state = log.refresh().unwrap();
                            match moment {
                                Moment::Complete => state.total_outcomes() == self.shape.0 * self.shape.1,
                                Moment::Committed(more) => {
                                    let now = state.commits.len();
                                    now >= before + more
                                }
                                Moment::Started | Moment::Tables => true,
                            }
                        }),
                    };
                    due = reached.then(|| Instant::now() + fault.later);
                }
                if due.is_some_and(|due| Instant::now() >= due) {
                    // It may have ended just now. Its supervisor will report that.
                    let _ = kill(Pid::from_raw(victim), fault.signal);
                    injected = Some(Instant::now());
                }
            }
            std::thread::sleep(self.look);
        }
    }

    fn said(&self) -> String {
        std::fs::read_to_string(self.dir.join("stderr")).unwrap_or_default()
    }

    /// Asserts that no process works on this run: all of them have its store among their arguments.
    fn no_process_is_left(&self, running: &RunUnderTest) {
        let cache = self.dir.join("cache").display().to_string();
        let left: Vec<String> = std::fs::read_dir("/proc")
            .unwrap()
            .filter_map(|entry| std::fs::read(entry.ok()?.path().join("cmdline")).ok())
            .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
            .filter(|line| line.contains(&running.uri) && line.contains(&cache))
            .collect();
        assert!(left.is_empty(), "left behind: {left:?}\n{}", self.said());
    }

    /// Asserts that a run is finished and that its tables are those of an undisturbed run.
    fn check(&self, running: &RunUnderTest) {
        let run = running.id.as_deref().unwrap();
        let (questions, configurations) = self.shape;
        let rows: Vec<FinalOutcomeRow> = read_table(&running.store, &layout::final_table(run, "outcomes")).unwrap();
        let mut met: Vec<(String, u64)> = rows.into_iter().map(|row| (row.configuration, row.index)).collect();
        assert_eq!(met.len() as u64, questions * configurations, "outcomes of {run}");
        met.sort();
        met.dedup();
        assert_eq!(met.len() as u64, questions * configurations, "no outcome of {run} is there twice");
        assert!(met.iter().all(|(_, index)| *index < questions));
        let tables = tables(&running.store, run);
        for (name, (found, expected)) in TABLES.iter().zip(tables.iter().zip(&self.reference)) {
            assert!(found == expected, "{name} of {run} differs from that of an undisturbed run");
        }
        let listed = succeed(&mut hopeval(&self.dir, &["ls", "--json", "--store", &running.uri]));
        let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
        let listed = &listed["runs"][0];
        assert_eq!((&listed["run"], &listed["state"]), (&run.into(), &"finished".into()));
        assert_eq!(listed["outcomes"], questions * configurations);
        assert!(listed["generations"].as_u64().unwrap() <= running.generations, "{listed}");
    }
}

/// The tables that must be the same in every case.
const TABLES: [&str; 3] = ["outcomes", "scores", "measures"];

/// Their bytes.
pub(crate) fn tables(store: &Store, run: &str) -> Vec<Vec<u8>> {
    TABLES.map(|table| store.get(&layout::final_table(run, table)).unwrap().to_vec()).to_vec()
}

impl RunUnderTest {
    fn log(&self) -> Option<Log> {
        let run = match &self.id {
            Some(id) => id.clone(),
            None => hopeval_results::run::list_runs(&self.store).unwrap().pop()?,
        };
        Some(Log::open(&self.store, &run).unwrap())
    }

    /// Final tables written so far, in all generations, published or not.
    fn table_count(&self, log: &Log) -> usize {
        self.store.list(&format!("runs/{}/tables", log.run())).unwrap().len()
    }
}

/// The started process. It is killed if a test fails while it runs.
struct Supervisor(Child);

impl Supervisor {
    /// The process number of the victim, once it lives: the supervisor's child with that index, or itself.
    fn member(&self, fault: &Fault) -> Option<i32> {
        if fault.processes == 1 {
            return i32::try_from(self.0.id()).ok();
        }
        let index = fault.victim.to_string();
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.0.id())).ok()?;
        let children = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("children")).ok());
        let children: Vec<i32> = children.flat_map(|line| numbers(&line)).collect();
        children.into_iter().find(|child| {
            let line = std::fs::read(format!("/proc/{child}/cmdline")).unwrap_or_default();
            let arguments: Vec<_> = line.split(|byte| *byte == 0).collect();
            arguments.windows(2).any(|pair| pair[0] == b"--process" && pair[1] == index.as_bytes())
        })
    }
}

fn numbers(line: &str) -> Vec<i32> {
    line.split_whitespace().filter_map(|number| number.parse().ok()).collect()
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        // Its children die with it. It has ended already unless the test failed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
