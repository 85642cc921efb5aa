//! Options for a command's job.

use super::question_count;
use anyhow::Result;
use clap::Args;
use hopeval_jobs::{DEFAULT_JOB, Job};
use std::path::{Path, PathBuf};

#[derive(Clone, Debug, Args)]
pub(crate) struct JobArguments {
    /// The job's TOML file; without one, a generated world is evaluated.
    job: Option<PathBuf>,
    /// Overrides a key of the job, as in `--set method.bm25.k=5`.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// The first so many questions only.
    #[arg(long, allow_negative_numbers = true, value_parser = question_count)]
    limit: Option<u64>,
}

impl JobArguments {
    /// The file, as errors name it.
    pub(crate) fn path(&self) -> &Path {
        self.job.as_deref().unwrap_or(Path::new("the embedded job"))
    }

    pub(crate) fn load(&self) -> Result<Job> {
        let mut job = match &self.job {
            Some(path) => Job::load(path, &self.sets)?,
            None => Job::parse(DEFAULT_JOB, self.path(), &self.sets)?,
        };
        job.dataset.limit = self.limit.or(job.dataset.limit);
        Ok(job)
    }
}
