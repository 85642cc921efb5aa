//! `data fetch`: public files from their publishers.

use super::ListOption;
use crate::cli::is_transient;
use crate::print;
use crate::stages::{CommandStages, StageState};
use anyhow::{Error, Result};
use clap::Args;
use hopeval_cluster::exit;
use hopeval_cluster::signals::{self, DrainNotice};
use hopeval_public_files::{FetchError, FetchProgress, FetchedFile, FileFetcher};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

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
    let progress = Arc::new(CommandStages::new(None));
    let results = SharedResults::new(arguments);
    let signals = signals::install(DrainNotice::Silent)?;
    signals.on_drain({
        let (progress, results) = (Arc::clone(&progress), results.clone());
        // The transfer waits for the network: it ends with the process.
        move || {
            if let Some(results) = results.take() {
                progress.clear();
                results.tell();
                print::note("interrupted: what has come stays as FILE.part, and the same command goes on from there");
                std::process::exit(exit::RESUMABLE.into());
            }
        }
    });
    for (name, file) in entries {
        results.add(name, fetcher.fetch(&list, name, file, &|state| show_progress(&progress, state)));
    }
    progress.clear();
    let Some(results) = results.take() else {
        // A signal came: the thread that took the results tells them, and ends the process.
        loop {
            std::thread::park();
        }
    };
    results.tell();
    Ok(results.code())
}

/// The results of a fetch, until one thread takes them and prints them.
#[derive(Clone)]
struct SharedResults(Arc<Mutex<Option<FetchResults>>>);

/// The fetched files, and the names that failed.
struct FetchResults {
    folder: PathBuf,
    json: bool,
    fetched: Vec<FetchedFile>,
    failed: Vec<(String, Error)>,
}

impl SharedResults {
    fn new(arguments: &FetchArguments) -> Self {
        let FetchArguments { to, json, .. } = arguments;
        let results = FetchResults { folder: to.clone(), json: *json, fetched: Vec::new(), failed: Vec::new() };
        Self(Arc::new(Mutex::new(Some(results))))
    }

    fn add(&self, name: &str, result: Result<FetchedFile, FetchError>) {
        let mut shared = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(results) = shared.as_mut() else { return };
        match result {
            Ok(file) => results.fetched.push(file),
            Err(error) => results.failed.push((name.to_owned(), error.into())),
        }
    }

    fn take(&self) -> Option<FetchResults> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl FetchResults {
    /// Prints the files, and then the errors.
    fn tell(&self) {
        if self.json {
            let failure = |(name, error): &(String, Error)| {
                let text = format!("{error:#}");
                json!({ "name": name, "error": text, "exit_code": code(error) })
            };
            let failed: Vec<Value> = self.failed.iter().map(failure).collect();
            let told = json!({ "folder": self.folder, "files": self.fetched, "failed": failed });
            print::line(&told.to_string());
        } else {
            self.tell_files();
        }
        for (name, error) in &self.failed {
            if self.fetched.len() + self.failed.len() > 1 {
                print::note(&format!("{name} was not fetched:"));
            }
            print::error(error.as_ref());
        }
    }

    fn tell_files(&self) {
        self.fetched.iter().for_each(|file| print::line(&description(file)));
        let mut commands: Vec<&String> = self.fetched.iter().filter_map(|file| file.unpack.as_ref()).collect();
        commands.dedup();
        if !commands.is_empty() {
            print::line(&format!("to unpack, in {}:", self.folder.display()));
            commands.into_iter().for_each(|command| print::line(&format!("  {command}")));
        }
    }

    /// The exit code: that of a failure that stays, before that of one that may pass.
    fn code(&self) -> u8 {
        let codes = || self.failed.iter().map(|(_, error)| code(error));
        codes().find(|&code| code != exit::RESUMABLE).or_else(|| codes().next()).unwrap_or(exit::DONE)
    }
}

fn code(error: &Error) -> u8 {
    if is_transient(error) { exit::RESUMABLE } else { exit::USAGE }
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
