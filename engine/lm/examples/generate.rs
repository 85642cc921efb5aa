//! Generates for a file of prompts, and prints one JSON line: seconds, tokens, and the ids of each answer. For
//! `ops/bench/lm/generate.py`.
//!
//! ```sh
//! cargo run --release -p hopeval-lm --example generate -- MODEL REQUESTS.jsonl THREADS CACHE_TOKENS
//! ```
//!
//! A line of the requests has `prompt_ids` and `max_tokens`. All are submitted at once; what fits the cache is open at
//! the same time. Answers are greedy and end with their length alone, so that everybody computes the same tokens.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line of its own")]

use hopeval_device::Cpu;
use hopeval_lm::engine::{EngineOptions, PoolTokens};
use hopeval_lm::request::{Answer, GenerateRequest, Request, Sampling};
use hopeval_lm::session::Session;
use serde::Deserialize;
use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

#[derive(Deserialize)]
struct RequestLine {
    prompt_ids: Vec<u32>,
    max_tokens: usize,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [model, requests, threads, cache_tokens] = arguments.as_slice() else {
        eprintln!("usage: generate MODEL REQUESTS.jsonl THREADS CACHE_TOKENS");
        return ExitCode::from(2);
    };
    match run_requests(model, requests, threads, cache_tokens) {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run_requests(model: &str, requests: &str, threads: &str, cache_tokens: &str) -> Result<String, Box<dyn Error>> {
    let text = std::fs::read_to_string(requests)?;
    let lines: Vec<RequestLine> = text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let options =
        EngineOptions { cache_tokens: PoolTokens::exactly(cache_tokens.parse()?), ..EngineOptions::default() };
    let session = Session::open(Path::new(model), Cpu::new(Some(threads.parse()?))?, options)?;
    let request = |line: &RequestLine, max_tokens: usize| {
        let (prompt, stop, ends) = (line.prompt_ids.clone().into(), Vec::new(), Vec::new());
        Request::Generate(GenerateRequest { prompt, max_tokens, sampling: Sampling::Greedy, stop, ends })
    };
    // Weights are packed at their first use, and that belongs to no request. The prompt is nobody's beginning.
    let first = RequestLine { prompt_ids: vec![0, 1, 2], max_tokens: 2 };
    session.engine.ask([request(&first, 2)]);
    let counters = session.engine.counters();
    let counted = || (counters.computed_tokens.load(Relaxed), counters.device_us.load(Relaxed));
    let (before, cpu, begun) = (counted(), process_seconds()?, Instant::now());
    let completions = session.engine.ask(lines.iter().map(|line| request(line, line.max_tokens)));
    let (wall_s, cpu_s, after) = (begun.elapsed().as_secs_f64(), process_seconds()? - cpu, counted());
    let ids = completions.into_iter().map(|completion| match completion.result? {
        Answer::Generated(generated) => Ok(generated.ids),
        other => Err(format!("{other:?} is no continuation").into()),
    });
    let ids: Vec<Vec<u32>> = ids.collect::<Result<_, Box<dyn Error>>>()?;
    let (computed_tokens, device_s) = (after.0 - before.0, (after.1 - before.1) as f64 / 1e6);
    let line = serde_json::json!({
        "wall_s": wall_s, "cpu_s": cpu_s, "device_s": device_s, "computed_tokens": computed_tokens, "ids": ids,
    });
    Ok(line.to_string())
}

/// Seconds of all threads on processors.
fn process_seconds() -> Result<f64, Box<dyn Error>> {
    let text = std::fs::read_to_string("/proc/self/stat")?;
    // After the name in parentheses: fields 14 and 15 of the whole are user and system time, in hundredths.
    let (_, fields) = text.rsplit_once(')').ok_or("no fields in /proc/self/stat")?;
    let ticks: Vec<&str> = fields.split_whitespace().skip(11).take(2).collect();
    Ok(ticks.iter().map(|ticks| ticks.parse::<f64>()).sum::<Result<f64, _>>()? / 100.0)
}
