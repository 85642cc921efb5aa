//! The committed selection of a search, with its best candidates.

use super::{UNKNOWN, estimate_text, markdown_table};
use hopeval_jobs::choices::selection::Selection;
use hopeval_jobs::run::open::OpenRun;
use hopeval_jobs::tune::search::{CommittedSelection, ParameterSearch};
use serde_json::Value;

/// Candidates in a table: the paper's (table A1) has ten.
const SHOWN: usize = 10;

/// The selection, and the name of its object.
pub(crate) fn selection_table(
    search: &ParameterSearch,
    run: &OpenRun,
    committed: &CommittedSelection,
    object: &str,
) -> String {
    let CommittedSelection { selection, new } = committed;
    let more = selection.candidates.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!("and {more} more\n") } else { String::new() };
    let when = if *new { "committed" } else { "was committed before" };
    format!("{}\n\n{}\n{more}\n{when}: {object}\n", search_heading(search, run, selection), candidate_table(selection))
}

fn search_heading(search: &ParameterSearch, run: &OpenRun, selection: &Selection) -> String {
    let mut text = format!(
        "selection {}: `{}` by {} over {} questions, run {}",
        selection.name,
        selection.parameter,
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
    text
}

fn candidate_table(selection: &Selection) -> String {
    let rows = selection.candidates.iter().take(SHOWN).enumerate().map(|(n, candidate)| {
        let draws = if candidate.draws == 0 { UNKNOWN.to_owned() } else { candidate.draws.to_string() };
        let figure = estimate_text(candidate.score, candidate.stderr);
        vec![(n + 1).to_string(), figure, candidate.n.to_string(), draws, value_text(&candidate.value)]
    });
    markdown_table(&["rank", &selection.measure, "n", "draws", "candidate"], rows)
}

/// A value on one line of a table.
fn value_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned).replace('|', "\\|")
}
