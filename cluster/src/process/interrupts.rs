//! The first signal: it ends a process that has not joined a generation yet, and lets the others drain.

use crate::print;
use anyhow::Result;
use hopeval_cluster::exit;
use hopeval_cluster::signals::{self, Notice, Signals};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// The signals of a process that evaluates; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Interrupts {
    signals: Signals,
    state: Arc<JoinState>,
}

/// How far the process has come.
#[derive(Debug, Default)]
struct JoinState {
    /// It has something that a signal lets finish: its part of a dataflow, or children that have one.
    joined: AtomicBool,
    /// The run, once process 0 has it: an early end says how to go on with it.
    run: OnceLock<String>,
}

impl Interrupts {
    /// Handles signals from now on. Call it once.
    ///
    /// # Errors
    /// The system refuses a handler or the thread.
    pub(crate) fn install(notice: Notice) -> Result<Self> {
        let signals = signals::install(notice)?;
        let state: Arc<JoinState> = Arc::default();
        let early = Arc::clone(&state);
        signals.on_drain(move || early.leave_before_joining());
        Ok(Self { signals, state })
    }

    /// The signals.
    pub(crate) fn signals(&self) -> &Signals {
        &self.signals
    }

    /// From now on the first signal drains.
    pub(crate) fn joined(&self) {
        self.state.joined.store(true, Ordering::SeqCst);
    }

    /// Process 0 has its run.
    pub(super) fn found(&self, run: &str) {
        let _ = self.state.run.set(run.to_owned());
    }
}

impl JoinState {
    /// Builds and meshes have nothing to drain, and are begun again as they were.
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
