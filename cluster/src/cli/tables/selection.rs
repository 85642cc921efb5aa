//! The committed selection of a search, with its best candidates. Of a race it has all candidates, and its rungs.

use super::raced::{rung_text, stopped_text};
use super::{UNKNOWN, estimate_text, markdown_table};
use crate::cli::tune::FinishedSearch;
use hopeval_jobs::choices::selection::{RankedCandidate, Selection};
use hopeval_jobs::tune::search::CommittedSelection;
use serde_json::Value;

/// Candidates in a table: the paper's (table A1) has ten.
const SHOWN: usize = 10;

/// The selection, and the name of its object.
pub(crate) fn selection_table(finished: &FinishedSearch, object: &str) -> String {
    let CommittedSelection { selection, new } = &finished.committed;
    // The candidates that a race stopped are named, however many they are.
    let shown = if selection.race.is_some() { selection.candidates.len() } else { SHOWN };
    let more = selection.candidates.len().saturating_sub(shown);
    let more = if more > 0 { format!("and {more} more\n") } else { String::new() };
    let when = if *new { "committed" } else { "was committed before" };
    let table = candidate_table(selection, shown);
    format!("{}\n\n{table}\n{more}\n{when}: {object}\n", search_heading(finished))
}

fn search_heading(finished: &FinishedSearch) -> String {
    let FinishedSearch { search, run, committed, rungs } = finished;
    let selection = &committed.selection;
    let mut text = format!(
        "selection {}: {} by {} over {} questions, run {}",
        selection.name,
        selection.chosen_text(),
        selection.measure,
        selection.sample.len(),
        run.id()
    );
    if let Some(generated) = &search.generated {
        text.push_str(&format!(
            "\n{} draws gave {} different candidates; {} left a blank empty; {} were not in the journal",
            generated.draws, generated.candidates, generated.empty, generated.computed
        ));
    }
    for (number, (rung, run)) in (1..).zip(rungs) {
        text.push_str(&format!("\n{}; run {run}", rung_text(number, rung)));
    }
    text
}

fn candidate_table(selection: &Selection, shown: usize) -> String {
    let is_race = selection.race.is_some();
    let rows = selection.candidates.iter().take(shown).enumerate().map(|(n, candidate)| {
        let draws = if candidate.draws == 0 { UNKNOWN.to_owned() } else { candidate.draws.to_string() };
        let mut row = rank_cells(n + 1, candidate);
        row.push(draws);
        if is_race {
            row.push(candidate.stopped.as_ref().map_or_else(|| "over all questions".to_owned(), stopped_text));
        }
        row.push(value_text(&candidate.value));
        row
    });
    if is_race {
        markdown_table(&["rank", &selection.measure, "n", "draws", "race", "candidate"], rows)
    } else {
        markdown_table(&["rank", &selection.measure, "n", "draws", "candidate"], rows)
    }
}

/// Rank, figure and questions; dashes for a stopped candidate, which has no figure over the whole sample.
fn rank_cells(rank: usize, candidate: &RankedCandidate) -> Vec<String> {
    if candidate.stopped.is_some() {
        return vec![UNKNOWN.to_owned(); 3];
    }
    vec![rank.to_string(), estimate_text(candidate.score, candidate.stderr), candidate.n.to_string()]
}

/// A value on one line of a table.
fn value_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned).replace('|', "\\|")
}
