//! `data list`: the public files of the papers' jobs.

use super::ListOption;
use crate::cli::tables::UNKNOWN;
use crate::cli::tables::fitted::FigureTable;
use crate::print;
use anyhow::Result;
use clap::Args;
use hopeval_cluster::exit;
use hopeval_public_files::PublicFile;
use std::collections::BTreeMap;

#[derive(Debug, Args)]
pub(crate) struct ListArguments {
    /// Files, datasets (all files of `hotpotqa`) or `models`; all when left out.
    names: Vec<String>,
    #[command(flatten)]
    list: ListOption,
    /// Prints one JSON document, with all that is known.
    #[arg(long)]
    json: bool,
}

pub(super) fn list(arguments: &ListArguments) -> Result<u8> {
    let list = arguments.list.load()?;
    let entries = list.select(&arguments.names)?;
    if arguments.json {
        let all: BTreeMap<&str, PublicFile> = entries.into_iter().map(|(name, file)| (name, file.shown())).collect();
        print::line(&serde_json::to_string(&all)?);
        return Ok(exit::DONE);
    }
    let header = ["name", "bytes", "questions", "passages", "path", "comes from", "SHA-256"];
    print::line(&FigureTable::new(&header, entries.iter().map(|(name, file)| row(name, file))).to_text());
    for (name, file) in entries {
        if let Some(note) = &file.note {
            print::line(&format!("{name}: {note}"));
        }
    }
    Ok(exit::DONE)
}

fn row(name: &str, file: &PublicFile) -> Vec<String> {
    let number = |number: Option<u64>| number.map_or_else(|| UNKNOWN.to_owned(), |number| number.to_string());
    let digest = file.sha256.as_ref().map_or(UNKNOWN, |digest| &digest[..12]);
    let hub = file.repository.as_ref().map(|repository| format!("the hub: {repository}"));
    let archive = file.archive.as_ref().map(|archive| format!("the archive {archive}"));
    let origin = file.shown().from.first().cloned().or(hub).or(archive).unwrap_or_default();
    vec![
        name.to_owned(),
        number(file.bytes),
        number(file.questions),
        number(file.passages),
        file.path.clone(),
        origin,
        digest.to_owned(),
    ]
}
