//! `lm read`: the best span of a context.

use super::counts::count;
use super::lines::{LineArguments, answer_lines};
use anyhow::Result;
use clap::Args;
use hopeval_lm::lines::Task;

#[derive(Debug, Args)]
pub(crate) struct ReadArguments {
    #[command(flatten)]
    lines: LineArguments,
    /// Tokens of an answer at most.
    #[arg(long, default_value_t = 30, value_parser = count)]
    max_answer_tokens: usize,
}

pub(super) fn read(arguments: &ReadArguments, threads: Option<usize>) -> Result<u8> {
    answer_lines(&arguments.lines, threads, Task::Read { max_answer_tokens: arguments.max_answer_tokens })
}
