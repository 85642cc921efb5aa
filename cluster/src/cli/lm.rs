//! `lm`: the language-model engine by itself, on JSON Lines.

mod bench;
mod check;
mod conformance;
mod counts;
mod embed;
mod generate;
mod lines;
mod model;
mod read;
mod score;
mod task;
mod tokenize;

use anyhow::Result;
use clap::Subcommand;
use hopeval_lm::lines::Task;
use lines::{LineArguments, answer_lines};

#[derive(Debug, Subcommand)]
pub(crate) enum LmCommand {
    /// Log-probabilities of targets after prompts: {"id","prompt","target"} lines, or prompt_ids and target_ids.
    Score(score::ScoreArguments),
    /// Token labels, and sequence labels where the checkpoint has them: {"id","text"[,"text_pair"]}, or ids.
    Label(LineArguments),
    /// Sequence logits: {"id","text"[,"text_pair"]}, or ids.
    Classify(LineArguments),
    /// A cross-encoder's score: {"id","text","text_pair"}, or ids. Of a checkpoint with several labels, what classify
    /// gives.
    Rerank(LineArguments),
    /// Vectors: {"id","text"}, or ids.
    Embed(embed::EmbedArguments),
    /// The best span: {"id","question","context"}, or ids with token_type_ids.
    Read(read::ReadArguments),
    /// Continuations: {"id","prompt"}, or prompt_ids.
    Generate(generate::GenerateArguments),
    /// Token ids: {"id","text"[,"text_pair"]}; the tokens of ids. Needs the folder's tokenizer only.
    Tokenize(LineArguments),
    /// Answers a file's lines and prints what they cost as one JSON line for each pass.
    Bench(bench::BenchArguments),
    /// Answers a file's lines again in other batches, orders and numbers of threads, and prints what differs.
    SelfCheck(check::CheckArguments),
    /// Compares a device with the reference, operation by operation, and with itself in other batches; needs no model.
    Conformance(conformance::ConformanceArguments),
}

pub(crate) fn lm(command: LmCommand, threads: Option<usize>) -> Result<u8> {
    match command {
        LmCommand::Score(arguments) => score::score(&arguments, threads),
        LmCommand::Label(lines) => answer_lines(&lines, threads, Task::Label),
        LmCommand::Classify(lines) => answer_lines(&lines, threads, Task::Classify),
        LmCommand::Rerank(lines) => answer_lines(&lines, threads, Task::Rerank),
        LmCommand::Embed(arguments) => embed::embed(&arguments, threads),
        LmCommand::Read(arguments) => read::read(&arguments, threads),
        LmCommand::Generate(arguments) => generate::generate(arguments, threads),
        LmCommand::Tokenize(lines) => tokenize::tokenize(&lines),
        LmCommand::Bench(arguments) => bench::bench(&arguments, threads),
        LmCommand::SelfCheck(arguments) => check::check(&arguments, threads),
        LmCommand::Conformance(arguments) => conformance::conformance(&arguments, threads),
    }
}
