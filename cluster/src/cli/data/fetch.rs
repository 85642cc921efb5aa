//! `data fetch`: public files from their publishers.

use super::ListOption;
use crate::print;
use crate::stages::{CommandStages, StageState};
use anyhow::Result;
use clap::Args;
use hopeval_cluster::exit;
use hopeval_public_files::{FetchProgress, FetchedFile, FileFetcher};
use serde_json::{Value, json};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct FetchArguments {
    /// Files, datasets (all files of `hotpotqa`) or `models`, as in `hopeval data list`.
    #[arg(required = true)]
    names: Vec<String>,
    /// The data folder; jobs find files there by `--set dataset.questions=DIR/PATH` and the like.
    #[arg(long, value_name = "DIR", default_value = "data")]
    to: PathBuf,
    #[command(flatten)]
    list: ListOption,
    /// Prints one JSON document.
    #[arg(long)]
    json: bool,
}

pub(super) fn fetch(arguments: &FetchArguments) -> Result<u8> {
    let list = arguments.list.load()?;
    let entries = list.select(&arguments.names)?;
    let fetcher = FileFetcher::new(&arguments.to)?;
    let progress = CommandStages::new(None);
    let mut fetched = Vec::new();
    for (name, file) in entries {
        fetched.push(fetcher.fetch(&list, name, file, &|state| show_progress(&progress, state))?);
    }
    progress.clear();
    if arguments.json {
        print::line(&json!({ "folder": arguments.to, "files": fetched }).to_string());
        return Ok(exit::DONE);
    }
    fetched.iter().for_each(|file| print::line(&description(file)));
    let mut commands: Vec<&String> = fetched.iter().filter_map(|file| file.unpack.as_ref()).collect();
    commands.dedup();
    if !commands.is_empty() {
        print::line(&format!("to unpack, in {}:", arguments.to.display()));
        commands.into_iter().for_each(|command| print::line(&format!("  {command}")));
    }
    Ok(exit::DONE)
}

fn show_progress(progress: &CommandStages, state: FetchProgress<'_>) {
    let FetchProgress { file, compared, done, total } = state;
    let name = if compared { format!("digest of {file}") } else { file.to_owned() };
    let Some(total) = total.filter(|&total| total > 0) else { return progress.tick(&name, done) };
    let text = format!("{done} of {total} bytes");
    let share = done as f64 / total as f64;
    progress.show(&name, StageState { share, text, left: None, counts: Value::Null });
}

fn description(file: &FetchedFile) -> String {
    let FetchedFile { name, path, was_there, bytes, is_verified, unpack } = file;
    let verified = if *is_verified { "its digest is the list's" } else { "its digest is unknown" };
    match unpack {
        Some(_) => format!("{name}: its archive is there; {} is to be unpacked", path.display()),
        None if *was_there => format!("{name}: {} was there; {verified}", path.display()),
        None => format!("{name}: {}; {bytes} bytes came; {verified}", path.display()),
    }
}
