//! Ends the process before its part is done, without unwinding.

use crate::print;
use hopeval_cluster::exit;
use hopeval_jobs::JobError;

/// The words and the exit code of an early end.
#[derive(Clone, Debug)]
pub(super) struct EarlyEnd {
    /// The run that ends early.
    pub(super) run: String,
    /// Whether this is process 0. Only process 0 informs the user.
    pub(super) leads: bool,
}

impl EarlyEnd {
    /// Exits after a fault: as resumable if it may pass.
    pub(super) fn exit_with_fault(&self, error: &JobError) -> ! {
        let (run, transient) = (&self.run, error.is_transient());
        print::error(error);
        if transient {
            print::note(&format!("hint: `hopeval resume {run}` goes on from the last commit"));
        } else if let Some(set) = error.raised_cap() {
            print::note(&format!(
                "hint: every answer is journalled; `hopeval resume {run} --set {set}` goes on with a higher cap"
            ));
        } else if error.needs_mending() {
            print::note(&format!(
                "hint: mend that; then `hopeval resume {run}` goes on, and asks for no journalled answer again"
            ));
        } else if error.is_full() {
            print::note(&format!("hint: make space; then `hopeval resume {run}` goes on from the last commit"));
        }
        std::process::exit(i32::from(if transient { exit::RESUMABLE } else { exit::USAGE }))
    }

    /// Exits as resumable, without a fault in this process.
    pub(super) fn exit_interrupted(&self, why: &str) -> ! {
        if self.leads {
            let run = &self.run;
            print::note(&format!("interrupted: {why}; `hopeval resume {run}` goes on from the last commit"));
        }
        std::process::exit(i32::from(exit::RESUMABLE))
    }
}
