//! The measures of a run.

use super::{SHORT_NOTE, UNKNOWN, estimate_text, markdown_table, marked};
use hopeval_jobs::prepare::brought::RankingsCounts;
use hopeval_jobs::report::show::RunFigures;
use hopeval_jobs::run::open::OpenRun;
use hopeval_results::tables::MeasureRow;
use std::collections::BTreeMap;

/// The shown measures of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct MeasureChoice {
    /// Names; the headline ones when empty.
    pub(crate) measures: Vec<String>,
    /// The stratum; `all` by default.
    pub(crate) stratum: Option<String>,
    /// Whether every figure has its interval in place of its standard error.
    pub(crate) intervals: bool,
}

/// Figures over fewer questions have their interval, whether asked for or not.
const FEW_QUESTIONS: u64 = 30;

/// Whether a measure is shown unless the user names measures: answers, judges' accuracies, all-gold and fractional
/// recall, MRR, recall of chunks and their number if a job asks for them.
fn is_headline(measure: &str) -> bool {
    matches!(measure, "em" | "f1" | "accuracy" | "mrr" | "chunk_recall" | "chunks")
        || measure.starts_with("recall_")
        || measure.starts_with("acc_")
        || measure.starts_with("answer_recall@")
        || measure.starts_with("answer_hit@")
}

/// The measures of a run as Markdown tables, one per context mode: different modes are never ranked together.
/// Controls have tables of their own.
pub(crate) fn measure_tables(run: &OpenRun, shown: &RunFigures, choice: &MeasureChoice) -> String {
    let stratum = choice.stratum.as_deref().unwrap_or("all");
    // Without figures for the headline measures, all others are shown.
    let any_headline = shown.measures.iter().any(|row| row.n > 0 && is_headline(&row.measure));
    let wanted = |name: &str| match choice.measures.is_empty() {
        true => is_headline(name) || !any_headline,
        false => choice.measures.iter().any(|m| m == name),
    };
    let rows: Vec<&MeasureRow> =
        shown.measures.iter().filter(|row| row.stratum == stratum && wanted(&row.measure)).collect();
    // In the set's order, as far as any configuration has a value.
    let has_value = |name: &&str| rows.iter().any(|row| row.n > 0 && row.measure == **name);
    let columns: Vec<&str> = run.evaluator.measure_set().names().iter().map(String::as_str).filter(has_value).collect();
    let mut modes: BTreeMap<(&str, bool), BTreeMap<usize, Vec<&MeasureRow>>> = BTreeMap::new();
    let position = |name: &str| run.resolved.configurations.iter().position(|c| c.name == name).unwrap_or(usize::MAX);
    let control =
        |at: usize| run.resolved.configurations.get(at).and_then(|configuration| configuration.control.as_deref());
    for row in &rows {
        let at = position(&row.configuration);
        modes.entry((&row.context_mode, control(at).is_some())).or_default().entry(at).or_default().push(row);
    }
    let has_interval = rows
        .iter()
        .any(|row| columns.contains(&row.measure.as_str()) && shown_interval(row, choice.intervals).is_some());
    let is_shown = |row: &MeasureRow| columns.contains(&row.measure.as_str()) && row.value.is_some();
    let has_short = rows.iter().any(|row| is_shown(row) && row.ranked.is_some());
    let mut text = run_heading(run, shown, stratum);
    for ((mode, controls), configurations) in modes {
        text.push_str(&format!("\ncontext mode: {mode}{}\n\n", if controls { ", controls" } else { "" }));
        let mut header = vec!["configuration"];
        header.extend(controls.then_some("control"));
        header.extend(["n", "coverage"]);
        header.extend(&columns);
        let body = configurations.into_iter().map(|(at, rows)| {
            let n = rows.iter().map(|row| row.n).max().unwrap_or(0);
            let coverage = rows.iter().find_map(|row| row.coverage);
            let mut cells = vec![rows[0].configuration.clone()];
            cells.extend(control(at).map(str::to_owned));
            cells.push(n.to_string());
            cells.push(coverage.map_or(UNKNOWN.to_owned(), |share| format!("{share:.3}")));
            cells.extend(columns.iter().map(|measure| {
                rows.iter()
                    .find(|row| row.measure == **measure)
                    .map_or(UNKNOWN.to_owned(), |row| figure_text(row, choice.intervals))
            }));
            cells
        });
        text.push_str(&markdown_table(&header, body));
        text.push('\n');
    }
    if has_interval {
        text.push_str("\n[low, high]: 95 % interval\n");
    }
    if has_short {
        text.push_str(&format!("\n{SHORT_NOTE}\n"));
    }
    text
}

/// The interval to show with a figure, if any: if wanted, and where a standard error says little.
fn shown_interval(row: &MeasureRow, wanted: bool) -> Option<(f64, f64)> {
    let says_little = row.n < FEW_QUESTIONS || row.value == Some(0.0) || row.value == Some(1.0);
    row.low.zip(row.high).filter(|_| wanted || says_little)
}

/// A figure with its interval or its standard error, marked if it is not measured to its cut-off.
fn figure_text(row: &MeasureRow, interval_wanted: bool) -> String {
    let figure = match row.value.zip(shown_interval(row, interval_wanted)) {
        Some((value, (low, high))) => format!("{value:.4} [{low:.4}, {high:.4}]"),
        None => estimate_text(row.value, row.stderr),
    };
    marked(figure, row.ranked.filter(|_| row.value.is_some()))
}

fn run_heading(run: &OpenRun, shown: &RunFigures, stratum: &str) -> String {
    let resolved = &run.resolved;
    let mut text = resolved.job.title.as_ref().map_or_else(String::new, |title| format!("{title}\n\n"));
    text.push_str(&format!("run {}: {}", run.id(), run.record.job));
    if resolved.job.dataset.world.is_some() {
        text.push_str(" (generated world)");
    }
    if let Some(judged) = &resolved.judged {
        text.push_str(&format!("; judges run {}", judged.run));
    }
    text.push_str(&format!(
        "\n{} questions, {} passages, links: {}, profile {}, stratum {stratum}",
        resolved.prepared.questions,
        resolved.passages,
        resolved.links,
        run.evaluator.measure_set().profile()
    ));
    if resolved.prepared.quarantined > 0 {
        text.push_str(&format!("; {} rows set aside", resolved.prepared.quarantined));
    }
    if resolved.prepared.left_out > 0 {
        text.push_str(&format!("; {} questions left out", resolved.prepared.left_out));
    }
    if resolved.prepared.without_gold > 0 {
        text.push_str(&format!("; {} questions left out, their gold missing", resolved.prepared.without_gold));
    }
    if resolved.prepared.missing_candidates > 0 {
        text.push_str(&format!("; {} candidates are not in the corpus", resolved.prepared.missing_candidates));
    }
    if let Some(other) = resolved.prepared.contradiction {
        text.push_str(&format!("; read as {}, but the first row is of {other}", resolved.format()));
    }
    for RankingsCounts { file, rows, used, .. } in &resolved.prepared.rankings {
        let missing = resolved.prepared.questions - used;
        text.push_str(&format!("\nbrought in: {file}, {used} of its {rows} rows; {missing} questions have no row"));
    }
    if !shown.finished {
        text.push_str(&format!(
            "\nnot finished: {} of {} outcomes, as of commit {}",
            shown.outcomes, shown.expected, shown.commits
        ));
    }
    text.push('\n');
    text
}
