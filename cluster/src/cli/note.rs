//! `note`: keeps a person's note on a run.

use super::options::PlaceArguments;
use crate::print;
use anyhow::Result;
use clap::Args;
use hopeval_cluster::exit;
use hopeval_results::RunNote;
use hopeval_results::run::resolve_run;
use serde_json::json;
use std::time::{SystemTime, UNIX_EPOCH};

#[derive(Debug, Args)]
pub(crate) struct NoteArguments {
    /// The run: its id or the beginning of it, its job, `latest`, or `latest~1`.
    run: String,
    /// The note, in place of the one before; "" removes that. Without a text the note is printed.
    text: Vec<String>,
    /// Prints one JSON document.
    #[arg(long)]
    json: bool,
}

pub(crate) fn note(places: &PlaceArguments, arguments: &NoteArguments) -> Result<u8> {
    let store = places.open_existing()?.store;
    let run = resolve_run(&store, &arguments.run)?;
    let note = if arguments.text.is_empty() {
        RunNote::load(&store, &run)?
    } else {
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis() as u64;
        let note = RunNote::new(&arguments.text.join(" "), now)?;
        match &note {
            Some(note) => note.store(&store, &run)?,
            None => RunNote::remove(&store, &run)?,
        }
        note
    };
    if arguments.json {
        let (text, written_ms) = (note.as_ref().map(|note| &note.text), note.as_ref().map(|note| note.written_ms));
        print::line(&json!({"run": run, "note": text, "written_ms": written_ms}).to_string());
    } else {
        let text = note.map_or_else(|| "no note".to_owned(), |note| format!("note: {}", note.text));
        print::paragraph(&format!("run {run}: {text}"));
    }
    Ok(exit::DONE)
}
