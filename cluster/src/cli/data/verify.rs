//! `data verify`: a folder beside the list of public files.

use super::ListOption;
use crate::print;
use crate::stages::CommandStages;
use anyhow::{Result, bail};
use clap::Args;
use hopeval_cluster::exit;
use hopeval_public_files::{VerifiedFile, verify_folder};
use serde_json::json;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct VerifyArguments {
    /// The data folder, as `hopeval data fetch` fills it.
    folder: PathBuf,
    /// Files, datasets (all files of `hotpotqa`) or `models`; all when left out.
    names: Vec<String>,
    #[command(flatten)]
    list: ListOption,
    /// Prints one JSON document.
    #[arg(long)]
    json: bool,
}

pub(super) fn verify(arguments: &VerifyArguments) -> Result<u8> {
    let VerifyArguments { folder, names, list, json } = arguments;
    if !folder.is_dir() {
        bail!("{} is no folder; allowed: the folder with the public files", folder.display());
    }
    let list = list.load()?;
    let entries = list.select(names)?;
    let progress = CommandStages::new(None);
    let files = verify_folder(folder, &list, &entries, &mut |name, done| progress.tick(name, done));
    progress.clear();
    let wrong = files.iter().filter(|file| !file.finding.is_good()).count();
    if *json {
        print::line(&json!({ "folder": folder, "files": files, "wrong": wrong }).to_string());
    } else {
        // Paths and findings are longer than the cells of a table can be.
        for VerifiedFile { name, path, finding } in &files {
            print::line(&format!("- {name} ({}): {finding}", path.display()));
        }
    }
    if wrong > 0 {
        print::note(&format!("error: {wrong} of {} files are missing or not those of the list", files.len()));
        return Ok(exit::USAGE);
    }
    Ok(exit::DONE)
}
