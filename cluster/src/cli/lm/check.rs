//! `lm self-check`: is the engine batch-invariant on this machine?

use super::bench::{TaskName, requests};
use super::{LineArguments, temperatures};
use crate::print;
use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use hopeval_cluster::exit;
use hopeval_lm::request::Request;
use hopeval_lm::self_check;
use hopeval_lm::session::Session;
use std::cell::RefCell;

#[derive(Debug, Args)]
pub(crate) struct CheckArguments {
    #[command(flatten)]
    lines: LineArguments,
    /// Which command's lines they are.
    #[arg(long)]
    task: TaskName,
    /// Lines of the file that are taken, evenly spread.
    #[arg(long, default_value_t = 64, value_parser = super::count)]
    sample: usize,
    /// Passes, each with another order, batch size and number of threads.
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u64).range(1..=1000))]
    passes: u64,
    /// As in `lm score`.
    #[arg(long, default_value = "1.0", value_delimiter = ',')]
    temperatures: Vec<String>,
    /// As in `lm generate`.
    #[arg(long, default_value_t = 16, value_parser = super::count)]
    max_tokens: usize,
    /// Prints one JSON document.
    #[arg(long)]
    json: bool,
}

pub(crate) fn check(arguments: &CheckArguments, threads: Option<usize>) -> Result<u8> {
    let model = &arguments.lines.model;
    let options = model.options();
    let threads = threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let session = model.open(options, Some(1))?;
    let task = arguments.task.task(temperatures(&arguments.temperatures)?, arguments.max_tokens);
    let all = requests(&session, &task, &arguments.lines)?;
    let identity = session.engine.identity().clone();
    drop(session);
    let step = all.len().div_ceil(arguments.sample.max(1)).max(1);
    let sample = all.into_iter().step_by(step).collect::<Vec<_>>();
    let longest = sample.iter().map(tokens).max().unwrap_or(0);
    let variants = self_check::variants(options, threads, arguments.passes, longest);
    // What `open` says has more to it than an engine's error.
    let failed = RefCell::new(None);
    let open = |variant: &self_check::Variant| {
        model.open(variant.options, Some(variant.threads)).map(|session: Session| session.engine).map_err(|error| {
            *failed.borrow_mut() = Some(error);
        })
    };
    let differences = self_check::check(&sample, &variants, open, options);
    if let Some(error) = failed.take() {
        return Err(error);
    }
    let differences = differences.unwrap_or_default();
    if differences.iter().any(|difference| difference.compared == 0) {
        bail!(
            "nothing was compared: there is no line, or every one was refused (`lm {}` says why)",
            arguments.task.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
        );
    }
    let same = differences.iter().all(self_check::Difference::is_none);
    if arguments.json {
        let pass = |(variant, d): (&self_check::Variant, &self_check::Difference)| {
            serde_json::json!({
                "batch_tokens": variant.options.batch_tokens, "threads": variant.threads, "shuffle": variant.shuffle,
                "compared": d.compared, "differing": d.differing, "largest": d.largest, "rank_flips": d.rank_flips,
                "other_outcomes": d.other_outcomes,
            })
        };
        let passes = variants.iter().zip(&differences).map(pass).collect::<Vec<_>>();
        let document = serde_json::json!({
            "requests": sample.len(), "numerics": identity.numerics, "invariant": same, "passes": passes,
        });
        print::line(&document.to_string());
    } else {
        let rows = variants.iter().zip(&differences).map(|(variant, d)| {
            let cells = [variant.options.batch_tokens as u64, variant.threads as u64, d.compared, d.differing];
            let mut row = cells.map(|n| n.to_string()).to_vec();
            row.extend([format!("{:e}", d.largest), d.rank_flips.to_string(), d.other_outcomes.to_string()]);
            row
        });
        let header =
            ["batch tokens", "threads", "numbers", "differing", "largest difference", "rank flips", "other outcomes"];
        print::line(&print::markdown(&header, rows));
        let verdict = if same { "bit-identical" } else { "NOT batch-invariant" };
        print::line(&format!("{} requests, {}: {verdict}", sample.len(), identity.numerics));
    }
    Ok(if same { exit::DONE } else { exit::FAILED_QUESTIONS })
}

/// Tokens of a request in a batch.
fn tokens(request: &Request) -> usize {
    match request {
        Request::Score(score) => score.prompt.len() + score.target.len(),
        Request::Encode(encode) => encode.ids.len(),
        Request::Generate(generate) => generate.prompt.len(),
    }
}
