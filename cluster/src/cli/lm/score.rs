//! `lm score`: log-probabilities of targets after prompts.

use super::lines::{LineArguments, answer_lines};
use anyhow::{Context, Result, bail};
use clap::Args;
use hopeval_lm::lines::Task;

#[derive(Debug, Args)]
pub(crate) struct ScoreArguments {
    #[command(flatten)]
    lines: LineArguments,
    /// The grid of temperatures, comma-separated: each is a key of the output's logprobs.
    #[arg(long, default_value = "1.0", value_delimiter = ',', allow_negative_numbers = true)]
    temperatures: Vec<String>,
    /// Leaves out the end token that an encoder-decoder's text target is scored with.
    #[arg(long)]
    no_target_eos: bool,
}

pub(super) fn score(arguments: &ScoreArguments, threads: Option<usize>) -> Result<u8> {
    let temperatures = parse_temperatures(&arguments.temperatures)?;
    answer_lines(&arguments.lines, threads, Task::Score { temperatures, target_eos: !arguments.no_target_eos })
}

/// Temperatures as they were written, and their values.
pub(super) fn parse_temperatures(written: &[String]) -> Result<Vec<(String, f32)>> {
    let mut temperatures: Vec<(String, f32)> = Vec::new();
    for text in written {
        let value = text.trim().parse::<f32>().with_context(|| format!("--temperatures: {text:?} is not a number"))?;
        if !(value.is_finite() && value > 0.0) {
            bail!("--temperatures: {text}: a finite number above 0 is needed (0 is greedy in `generate` only)");
        }
        if temperatures.iter().any(|(name, _)| name == text.trim()) {
            bail!("--temperatures: {text} is given twice");
        }
        temperatures.push((text.trim().to_owned(), value));
    }
    Ok(temperatures)
}
