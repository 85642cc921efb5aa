//! `lm`: the language-model engine by itself, on JSON Lines.

mod bench;
mod check;
mod conformance;

use crate::print;
use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand, ValueEnum};
use hopeval_cluster::exit;
use hopeval_datasets::input::Input;
use hopeval_lm::devices::DeviceName;
use hopeval_lm::engine::Options;
use hopeval_lm::lines::{self, LinesError, Sample, Tally, Task};
use hopeval_lm::request::Want;
use hopeval_lm::session::Session;
use hopeval_lm::tokenise::Tokenizer;
use std::io::{BufRead, BufReader, BufWriter};
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(crate) enum LmCommand {
    /// Log-probabilities of targets after prompts: {"id","prompt","target"} lines, or prompt_ids and target_ids.
    Score(ScoreArguments),
    /// Token labels, and sequence labels where the checkpoint has them: {"id","text"[,"text_pair"]}, or ids.
    Label(LineArguments),
    /// Sequence logits: {"id","text"[,"text_pair"]}, or ids.
    Classify(LineArguments),
    /// A cross-encoder's score: {"id","text","text_pair"}, or ids. Of a checkpoint with several labels, what classify gives.
    Rerank(LineArguments),
    /// Vectors: {"id","text"}, or ids.
    Embed(EmbedArguments),
    /// The best span: {"id","question","context"}, or ids with token_type_ids.
    Read(ReadArguments),
    /// Continuations: {"id","prompt"}, or prompt_ids.
    Generate(GenerateArguments),
    /// Token ids: {"id","text"[,"text_pair"]}; the tokens of ids. Needs the folder's tokenizer only.
    Tokenize(LineArguments),
    /// Answers a file's lines and prints what they cost as one JSON line for each pass.
    Bench(bench::BenchArguments),
    /// Answers a file's lines again in other batches, orders and numbers of threads, and prints what differs.
    SelfCheck(check::CheckArguments),
    /// Compares a device with the reference, operation by operation, and with itself in other batches; needs no model.
    Conformance(conformance::ConformanceArguments),
}

/// Where the model is, and how it runs.
#[derive(Clone, Debug, Args)]
pub(crate) struct ModelArguments {
    /// The model's folder, as Hugging Face lays it out.
    #[arg(long, value_name = "DIR")]
    model: PathBuf,
    /// Where it runs: cpu, cpu-avx2, cpu-avx512, cuda, cuda:N; cuda-f32 or cuda-f32:N to check bf16 against.
    #[arg(long, default_value = "cpu")]
    device: DeviceName,
    /// Tokens in a batch at most [default: 2048; 16384 on CUDA].
    #[arg(long, value_parser = count)]
    batch_tokens: Option<usize>,
    /// Tokens whose encoder states are kept, for prompts that come again (encoder-decoders) [default: 32768; 65536 on CUDA].
    #[arg(long, value_parser = count)]
    states_tokens: Option<usize>,
    /// Tokens that the key/value cache holds (generate) [default: 16384].
    #[arg(long, value_parser = count)]
    cache_tokens: Option<usize>,
    /// Computes every request for itself: to measure what sharing brings.
    #[arg(long)]
    no_share: bool,
}

impl ModelArguments {
    fn options(&self) -> Options {
        let usual = self.device.options();
        Options {
            batch_tokens: self.batch_tokens.unwrap_or(usual.batch_tokens),
            states_tokens: self.states_tokens.unwrap_or(usual.states_tokens),
            cache_tokens: self.cache_tokens.unwrap_or(usual.cache_tokens),
            share: !self.no_share,
        }
    }

    fn open(&self, options: Options, threads: Option<usize>) -> Result<Session> {
        self.check()?;
        self.device.open(0, threads, &self.model, options).with_context(|| self.cannot_open())
    }

    /// The tokenizer alone: no weights are read.
    fn open_tokenizer(&self) -> Result<Tokenizer> {
        self.check()?;
        Tokenizer::open(&self.model).with_context(|| self.cannot_open())
    }

    /// A job's name of a model is no folder, and most folders that are not there are such names.
    fn check(&self) -> Result<()> {
        if !self.model.is_dir() {
            bail!(
                "--model {}: there is no such folder\nhint: a model's folder is needed, as Hugging Face lays it out; names as \
                 `hopeval:NAME` and `ORG/NAME` are for jobs",
                self.model.display()
            );
        }
        Ok(())
    }

    fn cannot_open(&self) -> String {
        format!("cannot open the model {}", self.model.display())
    }
}

#[derive(Clone, Debug, Args)]
pub(crate) struct LineArguments {
    #[command(flatten)]
    model: ModelArguments,
    /// Lines to answer; gzip, zstd and bzip2 are understood [default: standard input].
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Lines under way at most: the more, the more work they share.
    #[arg(long, default_value_t = lines::WINDOW, value_parser = window)]
    window: usize,
}

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
enum PoolingName {
    Mean,
    Cls,
}

impl PoolingName {
    fn want(self) -> Want {
        match self {
            Self::Mean => Want::Mean,
            Self::Cls => Want::First,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct ReadArguments {
    #[command(flatten)]
    lines: LineArguments,
    /// Tokens of an answer at most.
    #[arg(long, default_value_t = 30, value_parser = count)]
    max_answer_tokens: usize,
}

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

pub(crate) fn lm(command: LmCommand, threads: Option<usize>) -> Result<u8> {
    match command {
        LmCommand::Score(arguments) => {
            let temperatures = temperatures(&arguments.temperatures)?;
            answer(&arguments.lines, threads, Task::Score { temperatures, target_eos: !arguments.no_target_eos })
        }
        LmCommand::Label(lines) => answer(&lines, threads, Task::Label),
        LmCommand::Classify(lines) => answer(&lines, threads, Task::Classify),
        LmCommand::Rerank(lines) => answer(&lines, threads, Task::Rerank),
        LmCommand::Embed(arguments) => {
            let task = Task::Embed { pooling: arguments.pooling.want(), normalize: arguments.normalize };
            answer(&arguments.lines, threads, task)
        }
        LmCommand::Read(arguments) => {
            answer(&arguments.lines, threads, Task::Read { max_answer_tokens: arguments.max_answer_tokens })
        }
        LmCommand::Generate(arguments) => {
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
                sampling: Sample { temperature, top_k, top_p, seed },
                stop: arguments.stop,
            };
            answer(&arguments.lines, threads, task)
        }
        LmCommand::Tokenize(lines) => {
            let tokenizer = lines.model.open_tokenizer()?;
            end(lines::tokenize(&tokenizer, lines.open()?, BufWriter::new(std::io::stdout())))
        }
        LmCommand::Bench(arguments) => bench::bench(&arguments, threads),
        LmCommand::SelfCheck(arguments) => check::check(&arguments, threads),
        LmCommand::Conformance(arguments) => conformance::conformance(&arguments, threads),
    }
}

/// A number of tokens or lines: at least one, and no more than any memory holds.
fn count(text: &str) -> Result<usize, String> {
    const MOST: usize = 1 << 30;
    let wrong = || format!("a number from 1 to {MOST} is needed");
    text.parse::<usize>().ok().filter(|n| (1..=MOST).contains(n)).ok_or_else(wrong)
}

/// A window is allocated whole.
fn window(text: &str) -> Result<usize, String> {
    const MOST: usize = 1 << 20;
    count(text).ok().filter(|&lines| lines <= MOST).ok_or_else(|| format!("a number from 1 to {MOST} is needed"))
}

/// Temperatures as they were written, and their values.
fn temperatures(written: &[String]) -> Result<Vec<(String, f32)>> {
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

impl LineArguments {
    /// The lines.
    fn open(&self) -> Result<Box<dyn BufRead>> {
        Ok(match &self.input {
            Some(path) => Box::new(BufReader::new(Input::open(path)?)),
            None => Box::new(std::io::stdin().lock()),
        })
    }
}

fn answer(arguments: &LineArguments, threads: Option<usize>, task: Task) -> Result<u8> {
    let session = arguments.model.open(arguments.model.options(), threads)?;
    let output = BufWriter::new(std::io::stdout());
    end(lines::run(&session, &task, arguments.open()?, output, arguments.window))
}

/// The exit code of answered lines.
fn end(outcome: Result<Tally, LinesError>) -> Result<u8> {
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
