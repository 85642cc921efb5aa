//! Handles the first signal: before joining a generation it ends the process, afterwards it lets the process drain.

use crate::print;
use anyhow::Result;
use hopeval_cluster::exit;
use hopeval_cluster::signals::{self, DrainNotice, Signals};
use hopeval_results::Store;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// The signals of an evaluating process; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Interrupts {
    signals: Signals,
    state: Arc<JoinState>,
}

/// The process's progress towards joining a generation.
#[derive(Debug, Default)]
struct JoinState {
    /// True if there is something to drain: its part of a dataflow, or children with one.
    joined: AtomicBool,
    /// The run, once process 0 has it: an early end names the command to resume it.
    run: OnceLock<String>,
}

impl Interrupts {
    /// Handles signals from now on. Call it once.
    ///
    /// # Errors
    /// The system refuses a handler or the thread.
    pub(crate) fn install(notice: DrainNotice) -> Result<Self> {
        let signals = signals::install(notice)?;
        let state: Arc<JoinState> = Arc::default();
        let early = Arc::clone(&state);
        signals.on_drain(move || early.leave_before_joining());
        Ok(Self { signals, state })
    }

    /// Ends all waiting for `store` at the first signal.
    pub(crate) fn end_patience(&self, store: &Store) {
        let store = store.clone();
        self.signals.on_drain(move || store.end_patience());
    }

    /// The signals.
    pub(crate) fn signals(&self) -> &Signals {
        &self.signals
    }

    /// Lets the first signal drain from now on.
    pub(crate) fn set_joined(&self) {
        self.state.joined.store(true, Ordering::SeqCst);
    }

    /// Records the run of process 0.
    pub(super) fn set_run(&self, run: &str) {
        let _ = self.state.run.set(run.to_owned());
    }
}

impl JoinState {
    /// Exits as resumable if the process has not joined. Builds and meshes have nothing to drain, and begin again.
    fn leave_before_joining(&self) {
        if !self.joined.load(Ordering::SeqCst) {
            print::note("interrupted before any question was admitted");
            if let Some(run) = self.run.get() {
                print::note(&format!("hint: `hopeval resume {run}` goes on"));
            }
            std::process::exit(i32::from(exit::RESUMABLE));
        }
    }
}
