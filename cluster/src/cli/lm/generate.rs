//! `lm generate`: continuations of prompts.

use super::counts::count;
use super::lines::{LineArguments, answer_lines};
use anyhow::{Result, bail};
use clap::Args;
use hopeval_lm::lines::{SamplingOptions, Task};

#[derive(Debug, Args)]
pub(crate) struct GenerateArguments {
    #[command(flatten)]
    lines: LineArguments,
    /// Tokens at most.
    #[arg(long, default_value_t = 64, value_parser = count)]
    max_tokens: usize,
    /// Goes on after the end token.
    #[arg(long)]
    ignore_eos: bool,
    /// 0 is greedy.
    #[arg(long, default_value_t = 0.0, allow_negative_numbers = true)]
    temperature: f32,
    /// Draws from the highest tokens only; 0 is all.
    #[arg(long, default_value_t = 0)]
    top_k: usize,
    /// Draws from the fewest highest tokens that hold this probability.
    #[arg(long, default_value_t = 1.0)]
    top_p: f32,
    /// Fixes the draws; a line's "draw" numbers independent ones.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Ends the text before this; may be given several times.
    #[arg(long, value_name = "TEXT")]
    stop: Vec<String>,
}

pub(super) fn generate(arguments: GenerateArguments, threads: Option<usize>) -> Result<u8> {
    let GenerateArguments { temperature, top_k, top_p, seed, .. } = arguments;
    if !(temperature.is_finite() && temperature >= 0.0) {
        bail!("--temperature: {temperature}: a finite number is needed, 0 (greedy) or above");
    }
    if !(top_p > 0.0 && top_p <= 1.0) {
        bail!("--top-p: {top_p}: a number above 0 and at most 1 is needed");
    }
    if arguments.stop.iter().any(String::is_empty) {
        bail!("--stop: an empty text would end every continuation before it begins");
    }
    let task = Task::Generate {
        max_tokens: arguments.max_tokens,
        ignore_eos: arguments.ignore_eos,
        sampling: SamplingOptions { temperature, top_k, top_p, seed },
        stop: arguments.stop,
    };
    answer_lines(&arguments.lines, threads, task)
}
