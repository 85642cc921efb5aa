//! `lm bench`: measures the cost of a file's lines without JSON: tokenising alone, or everything except tokenising.

use super::counts::count;
use super::lines::LineArguments;
use super::score::parse_temperatures;
use super::task::{TaskName, read_lines, read_requests};
use crate::print;
use anyhow::{Result, bail};
use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use hopeval_cluster::exit;
use hopeval_lm::lines;
use hopeval_lm::request::{EncodeRequest, GenerateRequest, Request, ScoreRequest, TokenIds};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

#[derive(Debug, Args)]
pub(crate) struct BenchArguments {
    #[command(flatten)]
    lines: LineArguments,
    /// Which command's lines they are; of tokenize, lines of a text each, read on one core.
    #[arg(long)]
    task: BenchTask,
    /// Passes over the lines; from the second on encoder states are there that an encoder-decoder kept, and ids of
    /// texts.
    #[arg(long, default_value_t = 1, value_parser = count)]
    repeat: usize,
    /// As in `lm score`.
    #[arg(long, default_value = "1.0", value_delimiter = ',')]
    temperatures: Vec<String>,
    /// As in `lm generate`.
    #[arg(long, default_value_t = 64, value_parser = count)]
    max_tokens: usize,
}

/// A measurable task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BenchTask {
    Model(TaskName),
    Tokenize,
}

impl ValueEnum for BenchTask {
    fn value_variants<'a>() -> &'a [Self] {
        use TaskName::{Classify, Embed, Generate, Label, Read, Score};
        const ALL: [BenchTask; 7] = [
            BenchTask::Model(Score),
            BenchTask::Model(Label),
            BenchTask::Model(Classify),
            BenchTask::Model(Embed),
            BenchTask::Model(Read),
            BenchTask::Model(Generate),
            BenchTask::Tokenize,
        ];
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self {
            Self::Model(task) => task.to_possible_value(),
            Self::Tokenize => Some(PossibleValue::new("tokenize")),
        }
    }
}

pub(crate) fn bench(arguments: &BenchArguments, threads: Option<usize>) -> Result<u8> {
    match arguments.task {
        BenchTask::Model(task) => bench_model(arguments, task, threads),
        BenchTask::Tokenize => bench_tokenizer(arguments),
    }
}

/// Measures tokenising: one text after the other on this thread, until the ids are stored.
fn bench_tokenizer(arguments: &BenchArguments) -> Result<u8> {
    let started = Instant::now();
    let tokenizer = arguments.lines.model.open_tokenizer()?;
    let open_s = started.elapsed().as_secs_f64();
    let texts = lines::parse_texts(read_lines(&arguments.lines)?)?;
    for pass in 0..arguments.repeat {
        let (wall, cpu) = (Instant::now(), cpu_s()?);
        let ids = texts.iter().map(|text| tokenizer.ids(text, true)).collect::<Result<Vec<_>, _>>()?;
        let (wall_s, cpu_s) = (wall.elapsed().as_secs_f64(), cpu_s()? - cpu);
        let document = serde_json::json!({
            "pass": pass, "texts": texts.len(), "bytes": texts.iter().map(String::len).sum::<usize>(),
            "tokens": ids.iter().map(|ids| ids.len()).sum::<usize>(),
            "wall_s": wall_s, "cpu_s": cpu_s, "open_s": open_s,
        });
        print::line(&document.to_string());
    }
    Ok(exit::DONE)
}

fn bench_model(arguments: &BenchArguments, task: TaskName, threads: Option<usize>) -> Result<u8> {
    let model = &arguments.lines.model;
    let started = Instant::now();
    let session = model.open(model.options(), threads)?;
    let open_s = started.elapsed().as_secs_f64();
    let task = task.task(parse_temperatures(&arguments.temperatures)?, arguments.max_tokens);
    let requests = read_requests(&session, &task, &arguments.lines)?;
    // The first use of weights brings them into the order of products. This time counts as loading.
    let started = Instant::now();
    session.engine.ask(requests.first().map(smallest_request));
    let warm_s = started.elapsed().as_secs_f64();
    let counters = session.engine.counters();
    let counted: [(&str, &AtomicU64); 6] = [
        ("requested_tokens", &counters.requested_tokens),
        ("unique_tokens", &counters.unique_tokens),
        ("computed_tokens", &counters.computed_tokens),
        ("operations", &counters.operations),
        ("batches", &counters.batches),
        ("halved", &counters.halved),
    ];
    for pass in 0..arguments.repeat {
        let before = counted.map(|(_, counter)| counter.load(Relaxed));
        let (wall, cpu) = (Instant::now(), cpu_s()?);
        let completions = session.engine.ask(requests.iter().cloned());
        let (wall_s, cpu_s) = (wall.elapsed().as_secs_f64(), cpu_s()? - cpu);
        if let Some(refusal) = completions.iter().find_map(|completion| completion.result.as_ref().err()) {
            bail!("a request was refused: {refusal}");
        }
        let mut document = serde_json::json!({
            "pass": pass, "requests": requests.len(),
            "wall_s": wall_s, "cpu_s": cpu_s, "open_s": open_s, "warm_s": warm_s,
            "device": session.engine.identity().name, "numerics": session.engine.identity().numerics,
        });
        for ((name, counter), before) in counted.iter().zip(before) {
            document[name] = (counter.load(Relaxed) - before).into();
        }
        document["peak_rss_bytes"] = (getrusage(UsageWho::RUSAGE_SELF)?.max_rss() as u64 * 1024).into();
        print::line(&document.to_string());
    }
    Ok(exit::DONE)
}

/// A request of the same kind with as few tokens as possible.
fn smallest_request(request: &Request) -> Request {
    let one = |ids: &TokenIds| ids[..ids.len().min(1)].into();
    match request {
        Request::Score(score) => {
            Request::Score(ScoreRequest { prompt: one(&score.prompt), target: one(&score.target), ..score.clone() })
        }
        Request::Encode(encode) => {
            Request::Encode(EncodeRequest { ids: one(&encode.ids), type_ids: one(&encode.type_ids), ..encode.clone() })
        }
        Request::Generate(generate) => {
            Request::Generate(GenerateRequest { prompt: one(&generate.prompt), max_tokens: 1, ..generate.clone() })
        }
    }
}

/// CPU seconds of all this process's threads so far.
fn cpu_s() -> Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    Ok((usage.user_time().num_microseconds() + usage.system_time().num_microseconds()) as f64 / 1e6)
}
