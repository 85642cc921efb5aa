//! `gc`: removes what no run needs of the store's journal and of this machine's cache.

use super::options::PlaceArguments;
use super::tables::markdown_table;
use crate::print;
use anyhow::Result;
use clap::Args;
use hopeval_cluster::exit;
use hopeval_jobs::run::garbage::{Garbage, GarbageBounds, GarbagePlace, PlaceFigures, find_garbage, remove_garbage};
use serde_json::json;
use std::time::Duration;

/// Seconds of a day.
const DAY: u64 = 86_400;

/// Unneeded things in a table: the oldest of each place.
const SHOWN: usize = 20;

#[derive(Debug, Args)]
pub(crate) struct GcArguments {
    /// Days after which what no run needs is removed.
    #[arg(long, value_name = "DAYS", default_value_t = 30)]
    older_than: u32,
    /// The most bytes of the journal, and of the cache: while there are more, the oldest things that no run needs are
    /// removed, whatever their age.
    #[arg(long, value_name = "BYTES")]
    most_bytes: Option<u64>,
    /// Removes them; without this, only says what would be removed.
    #[arg(long)]
    yes: bool,
    /// Prints one JSON document.
    #[arg(long)]
    json: bool,
}

pub(crate) fn collect_garbage(places: &PlaceArguments, arguments: GcArguments) -> Result<u8> {
    let places = places.open_existing()?;
    let older_than = Duration::from_secs(u64::from(arguments.older_than) * DAY);
    let found = find_garbage(&places, &GarbageBounds { older_than, most_bytes: arguments.most_bytes })?;
    if arguments.yes {
        remove_garbage(&places, &found)?;
    }
    if arguments.json {
        let mut document = serde_json::to_value(&found)?;
        document["removed"] = json!(arguments.yes);
        print::line(&document.to_string());
        return Ok(exit::DONE);
    }
    print::line(&garbage_text(&found, arguments.yes));
    Ok(exit::DONE)
}

fn garbage_text(found: &Garbage, removed: bool) -> String {
    let rows = found.items.iter().take(SHOWN).map(|item| {
        let place = if item.place == GarbagePlace::Journal { "journal" } else { "cache" };
        vec![place.to_owned(), item.name.clone(), (item.age_s / DAY).to_string(), item.bytes.to_string()]
    });
    let mut text = String::new();
    if !found.items.is_empty() {
        text = markdown_table(&["place", "name", "days", "bytes"], rows) + "\n";
    }
    if found.items.len() > SHOWN {
        text.push_str(&format!("and {} more\n", found.items.len() - SHOWN));
    }
    for (name, figures) in [("journal", found.journal), ("cache", found.cache)] {
        let PlaceFigures { items, bytes, unneeded_bytes } = figures;
        text.push_str(&format!("{name}: {items} items, {bytes} bytes, of which no run needs {unneeded_bytes}\n"));
    }
    if !found.unfinished.is_empty() {
        text.push_str(&format!(
            "these runs are not finished, and may need any answer of the journal: {}\n",
            found.unfinished.join(", ")
        ));
    }
    let (items, bytes) = (found.items.len(), found.items.iter().map(|item| item.bytes).sum::<u64>());
    text + &match removed {
        true => format!("removed: {items} items, {bytes} bytes"),
        false => format!("would be removed: {items} items, {bytes} bytes; nothing is without --yes"),
    }
}
