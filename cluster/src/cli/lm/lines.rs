//! Reads the lines of a command, and answers them.

use super::counts::window;
use super::model::ModelArguments;
use crate::print;
use anyhow::Result;
use clap::Args;
use hopeval_cluster::exit;
use hopeval_datasets::input::InputStream;
use hopeval_lm::lines::{self, LineTally, LinesError, Task};
use std::io::{BufRead, BufReader, BufWriter};
use std::path::PathBuf;

#[derive(Clone, Debug, Args)]
pub(crate) struct LineArguments {
    #[command(flatten)]
    pub(super) model: ModelArguments,
    /// Lines to answer; gzip, zstd and bzip2 are understood [default: standard input].
    #[arg(long, value_name = "FILE")]
    pub(super) input: Option<PathBuf>,
    /// Lines under way at most: the more, the more work they share.
    #[arg(long, default_value_t = lines::WINDOW, value_parser = window)]
    window: usize,
}

impl LineArguments {
    /// The lines.
    pub(super) fn open(&self) -> Result<Box<dyn BufRead>> {
        Ok(match &self.input {
            Some(path) => Box::new(BufReader::new(InputStream::open(path)?)),
            None => Box::new(std::io::stdin().lock()),
        })
    }
}

/// Answers lines with a task of the model.
pub(super) fn answer_lines(arguments: &LineArguments, threads: Option<usize>, task: Task) -> Result<u8> {
    let session = arguments.model.open(arguments.model.options(), threads)?;
    let output = BufWriter::new(std::io::stdout());
    exit_code(lines::run(&session, &task, arguments.open()?, output, arguments.window))
}

/// The exit code of answered lines.
pub(super) fn exit_code(outcome: Result<LineTally, LinesError>) -> Result<u8> {
    let tally = match outcome {
        Err(LinesError::Write(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => {
            return Ok(exit::CLOSED_PIPE);
        }
        outcome => outcome?,
    };
    if tally.errors > 0 {
        print::note(&format!("{} of {} lines have no answer: see their \"error\"", tally.errors, tally.lines));
        return Ok(exit::FAILED_QUESTIONS);
    }
    Ok(exit::DONE)
}
