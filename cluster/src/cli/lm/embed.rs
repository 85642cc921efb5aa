//! `lm embed`: vectors of texts.

use super::lines::{LineArguments, answer_lines};
use anyhow::Result;
use clap::{Args, ValueEnum};
use hopeval_lm::lines::Task;
use hopeval_lm::request::EncoderOutput;

#[derive(Debug, Args)]
pub(crate) struct EmbedArguments {
    #[command(flatten)]
    lines: LineArguments,
    /// What of the tokens' states is the text's vector.
    #[arg(long, default_value = "mean")]
    pooling: PoolingName,
    /// Scales vectors to length 1.
    #[arg(long)]
    normalize: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum PoolingName {
    Mean,
    Cls,
}

impl PoolingName {
    pub(super) fn want(self) -> EncoderOutput {
        match self {
            Self::Mean => EncoderOutput::Mean,
            Self::Cls => EncoderOutput::First,
        }
    }
}

pub(super) fn embed(arguments: &EmbedArguments, threads: Option<usize>) -> Result<u8> {
    let task = Task::Embed { pooling: arguments.pooling.want(), normalize: arguments.normalize };
    answer_lines(&arguments.lines, threads, task)
}
