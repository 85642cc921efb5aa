//! The option that records a command's progress.

use anyhow::{Context, Result};
use clap::Args;
use hopeval_cluster::progress_log::ProgressLog;
use std::path::PathBuf;

#[derive(Clone, Debug, Args)]
pub(crate) struct ProgressArguments {
    /// Adds the progress to this file: a JSON object five times a second, with the phase, the estimate of the time
    /// left, and the counts that it comes from.
    #[arg(long, value_name = "FILE")]
    pub(crate) progress_log: Option<PathBuf>,
}

impl ProgressArguments {
    /// The file, open.
    pub(crate) fn open_log(&self) -> Result<Option<ProgressLog>> {
        let Some(path) = &self.progress_log else { return Ok(None) };
        let opened = ProgressLog::open(path).with_context(|| format!("--progress-log {}", path.display()))?;
        Ok(Some(opened))
    }
}
