//! `lm self-check`: is the engine batch-invariant on this machine?

use super::counts::count;
use super::lines::LineArguments;
use super::score::parse_temperatures;
use super::task::{TaskName, read_requests};
use crate::cli::tables::markdown_table;
use crate::print;
use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use hopeval_cluster::exit;
use hopeval_device::DeviceIdentity;
use hopeval_lm::engine::EngineOptions;
use hopeval_lm::request::Request;
use hopeval_lm::self_check::{self, PassDifference, PassVariant};
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
    #[arg(long, default_value_t = 64, value_parser = count)]
    sample: usize,
    /// Passes, each with another order, batch size and number of threads.
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u64).range(1..=1000))]
    passes: u64,
    /// As in `lm score`.
    #[arg(long, default_value = "1.0", value_delimiter = ',')]
    temperatures: Vec<String>,
    /// As in `lm generate`.
    #[arg(long, default_value_t = 16, value_parser = count)]
    max_tokens: usize,
    /// Prints one JSON document.
    #[arg(long)]
    json: bool,
}

pub(crate) fn check(arguments: &CheckArguments, threads: Option<usize>) -> Result<u8> {
    let options = arguments.lines.model.options();
    let threads = threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let (sample, identity) = sample_requests(arguments, options)?;
    let longest = sample.iter().map(token_count).max().unwrap_or(0);
    let variants = self_check::variants(options, threads, arguments.passes, longest);
    let differences = compare_variants(arguments, &sample, &variants, options)?;
    let same = differences.iter().all(PassDifference::is_none);
    if arguments.json {
        let document = serde_json::json!({
            "requests": sample.len(), "numerics": identity.numerics, "invariant": same,
            "passes": variants.iter().zip(&differences).map(difference_document).collect::<Vec<_>>(),
        });
        print::line(&document.to_string());
    } else {
        print::line(&difference_table(&variants, &differences));
        let verdict = if same { "bit-identical" } else { "NOT batch-invariant" };
        print::line(&format!("{} requests, {}: {verdict}", sample.len(), identity.numerics));
    }
    Ok(if same { exit::DONE } else { exit::FAILED_QUESTIONS })
}

/// Some of the file's requests, evenly spread, and the identity of the engine.
fn sample_requests(arguments: &CheckArguments, options: EngineOptions) -> Result<(Vec<Request>, DeviceIdentity)> {
    let session = arguments.lines.model.open(options, Some(1))?;
    let task = arguments.task.task(parse_temperatures(&arguments.temperatures)?, arguments.max_tokens);
    let all = read_requests(&session, &task, &arguments.lines)?;
    let step = all.len().div_ceil(arguments.sample.max(1)).max(1);
    Ok((all.into_iter().step_by(step).collect(), session.engine.identity().clone()))
}

/// The differences of each variant from the first answers.
fn compare_variants(
    arguments: &CheckArguments,
    sample: &[Request],
    variants: &[PassVariant],
    options: EngineOptions,
) -> Result<Vec<PassDifference>> {
    // The message of `open` says more than an engine's error.
    let failed = RefCell::new(None);
    let open = |variant: &PassVariant| {
        let opened = arguments.lines.model.open(variant.options, Some(variant.threads));
        opened.map(|session: Session| session.engine).map_err(|error| *failed.borrow_mut() = Some(error))
    };
    let differences = self_check::check(sample, variants, open, options);
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
    Ok(differences)
}

fn difference_document((variant, difference): (&PassVariant, &PassDifference)) -> serde_json::Value {
    serde_json::json!({
        "batch_tokens": variant.options.batch_tokens, "threads": variant.threads, "shuffle": variant.shuffle,
        "compared": difference.compared, "differing": difference.differing, "largest": difference.largest,
        "rank_flips": difference.rank_flips, "other_outcomes": difference.other_outcomes,
    })
}

fn difference_table(variants: &[PassVariant], differences: &[PassDifference]) -> String {
    let rows = variants.iter().zip(differences).map(|(variant, d)| {
        let cells = [variant.options.batch_tokens as u64, variant.threads as u64, d.compared, d.differing];
        let mut row = cells.map(|n| n.to_string()).to_vec();
        row.extend([format!("{:e}", d.largest), d.rank_flips.to_string(), d.other_outcomes.to_string()]);
        row
    });
    let header =
        ["batch tokens", "threads", "numbers", "differing", "largest difference", "rank flips", "other outcomes"];
    markdown_table(&header, rows)
}

/// Tokens of a request in a batch.
fn token_count(request: &Request) -> usize {
    match request {
        Request::Score(score) => score.prompt.len() + score.target.len(),
        Request::Encode(encode) => encode.ids.len(),
        Request::Generate(generate) => generate.prompt.len(),
    }
}
