//! The one place that writes to the terminal: tables and documents to standard output, words to standard error.

use comfy_table::Table;
use comfy_table::presets::ASCII_MARKDOWN;
use hopeval_cluster::exit;
use hopeval_jobs::run::Open;
use hopeval_jobs::show::Shown;
use hopeval_results::tables::{CostRow, MeasureRow};
use std::collections::BTreeMap;
use std::io::Write;

/// Writes a line to standard output. Ends the process where that cannot be: quietly if the reader went away.
pub(crate) fn line(text: &str) {
    let mut out = std::io::stdout().lock();
    if let Err(error) = writeln!(out, "{text}").and_then(|()| out.flush()) {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            std::process::exit(exit::CLOSED_PIPE.into());
        }
        note(&format!("error: cannot write to standard output: {error}"));
        std::process::exit(exit::USAGE.into());
    }
}

/// Says something to the user, beside the output.
pub(crate) fn note(text: &str) {
    // Nothing can be done if standard error is closed.
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// An error with its causes, and what to do where that is known.
pub(crate) fn error(error: &(dyn std::error::Error + 'static)) {
    note(&format!("error: {error}"));
    let mut said = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let text = cause.to_string();
        // A transparent error says what its cause says.
        if !said.ends_with(&text) {
            note(&format!("  caused by: {text}"));
        }
        said = text;
        next = cause.source();
    }
}

/// Stands where a figure is not known, or makes no sense.
pub(crate) const UNKNOWN: &str = "–";

/// A Markdown table.
pub(crate) fn markdown(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN).set_header(header);
    for row in rows {
        table.add_row(row);
    }
    table.to_string()
}

/// A figure of a configuration in a measure.
pub(crate) struct Cell<'a> {
    /// The configuration.
    pub(crate) configuration: &'a str,
    /// The measure.
    pub(crate) measure: &'a str,
    /// What the figure is over.
    pub(crate) count: u64,
    /// The figure, as it is shown.
    pub(crate) figure: String,
}

/// A table with configurations in rows and measures in columns, both in the order in which they appear. The column after the names has
/// the largest count of a row; a figure that is over fewer says so itself.
pub(crate) fn by_measure(counted: &str, cells: &[Cell<'_>]) -> String {
    let (mut rows, mut columns): (Vec<&str>, Vec<&str>) = Default::default();
    for cell in cells {
        if !rows.contains(&cell.configuration) {
            rows.push(cell.configuration);
        }
        if !columns.contains(&cell.measure) {
            columns.push(cell.measure);
        }
    }
    let body = rows.iter().map(|row| {
        let own = || cells.iter().filter(|cell| cell.configuration == *row);
        let most = own().map(|cell| cell.count).max().unwrap_or(0);
        let figure = |column: &&str| match own().find(|cell| cell.measure == *column) {
            None => UNKNOWN.to_owned(),
            Some(cell) if cell.count < most => format!("{} ({counted} = {})", cell.figure, cell.count),
            Some(cell) => cell.figure.clone(),
        };
        [(*row).to_owned(), most.to_string()].into_iter().chain(columns.iter().map(figure)).collect()
    });
    let header: Vec<&str> = ["configuration", counted].into_iter().chain(columns.iter().copied()).collect();
    markdown(&header, body)
}

/// Which measures of a run are shown.
#[derive(Clone, Debug, Default)]
pub(crate) struct Choice {
    /// Names; the headline ones when empty.
    pub(crate) measures: Vec<String>,
    /// The stratum; `all` when none.
    pub(crate) stratum: Option<String>,
}

/// What is shown unless the user names measures: answers, all-gold and fractional recall, MRR, recall of chunks and their
/// number where a job asks for them.
fn is_headline(measure: &str) -> bool {
    matches!(measure, "em" | "f1" | "accuracy" | "mrr" | "chunk_recall" | "chunks")
        || measure.starts_with("recall_")
        || measure.starts_with("answer_recall@")
}

fn figure(row: &MeasureRow) -> String {
    match (row.value, row.stderr) {
        (Some(value), Some(stderr)) => format!("{value:.4} ± {stderr:.4}"),
        (Some(value), None) => format!("{value:.4}"),
        _ => UNKNOWN.to_owned(),
    }
}

/// The measures of a run as tables that paste into Markdown, one per context mode: those are never ranked together. Controls
/// have tables of their own.
pub(crate) fn measures(run: &Open, shown: &Shown, choice: &Choice) -> String {
    let stratum = choice.stratum.as_deref().unwrap_or("all");
    let wanted = |name: &str| {
        if choice.measures.is_empty() { is_headline(name) } else { choice.measures.iter().any(|m| m == name) }
    };
    let rows: Vec<&MeasureRow> =
        shown.measures.iter().filter(|row| row.stratum == stratum && wanted(&row.measure)).collect();
    // In the set's order, as far as any configuration has a value.
    let has_value = |name: &&str| rows.iter().any(|row| row.n > 0 && row.measure == **name);
    let columns: Vec<&str> = run.judge.set().names().iter().map(String::as_str).filter(has_value).collect();
    let mut modes: BTreeMap<(&str, bool), BTreeMap<usize, Vec<&MeasureRow>>> = BTreeMap::new();
    let position = |name: &str| run.resolved.configurations.iter().position(|c| c.name == name).unwrap_or(usize::MAX);
    let control =
        |at: usize| run.resolved.configurations.get(at).and_then(|configuration| configuration.control.as_deref());
    for row in &rows {
        let at = position(&row.configuration);
        modes.entry((&row.context_mode, control(at).is_some())).or_default().entry(at).or_default().push(row);
    }
    let mut text = heading(run, shown, stratum);
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
                rows.iter().find(|row| row.measure == **measure).map_or(UNKNOWN.to_owned(), |row| figure(row))
            }));
            cells
        });
        text.push_str(&markdown(&header, body));
        text.push('\n');
    }
    text
}

fn heading(run: &Open, shown: &Shown, stratum: &str) -> String {
    let resolved = &run.resolved;
    let mut text = resolved.job.title.as_ref().map_or_else(String::new, |title| format!("{title}\n\n"));
    text.push_str(&format!("run {}: {}", run.id(), run.record.job));
    if resolved.job.dataset.world.is_some() {
        text.push_str(" (generated world)");
    }
    text.push_str(&format!(
        "\n{} questions, {} passages, links: {}, profile {}, stratum {stratum}",
        resolved.prepared.questions,
        resolved.passages,
        resolved.links,
        run.judge.set().profile()
    ));
    if resolved.prepared.quarantined > 0 {
        text.push_str(&format!("; {} rows set aside", resolved.prepared.quarantined));
    }
    if resolved.prepared.left_out > 0 {
        text.push_str(&format!("; {} questions left out", resolved.prepared.left_out));
    }
    if resolved.prepared.missing_candidates > 0 {
        text.push_str(&format!("; {} candidates are not in the corpus", resolved.prepared.missing_candidates));
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

/// What services did, as a table: the rows that are the whole run's.
pub(crate) fn incurred(costs: &[CostRow]) -> String {
    let incurred: Vec<_> = costs.iter().filter(|row| row.configuration.is_none()).collect();
    let models = incurred.iter().any(|row| row.computed_tokens.is_some());
    let counted = incurred.iter().any(|row| row.energy_j.is_some());
    let rows = incurred.iter().map(|row| {
        let count = |n: Option<u64>| n.map_or(UNKNOWN.to_owned(), |n| n.to_string());
        let seconds = |s: Option<f64>| s.map_or(UNKNOWN.to_owned(), |s| format!("{s:.3}"));
        let mut cells = vec![
            row.service.clone(),
            row.kind.clone(),
            row.requests.to_string(),
            count(row.unique),
            count(row.computed),
            seconds(row.service_s),
        ];
        if models {
            let tokens = row.prompt_tokens + row.completion_tokens + row.scored_tokens;
            let tokens = row.computed_tokens.map(|_| tokens);
            let cut = row.cut.filter(|_| row.computed_tokens.is_some());
            cells.extend([count(tokens), count(row.computed_tokens), count(cut), seconds(row.device_s)]);
        }
        if counted {
            cells.push(row.energy_j.map_or(UNKNOWN.to_owned(), |joules| format!("{joules:.1}")));
        }
        cells
    });
    let mut header = vec!["service", "kind", "requests", "unique", "computed", "service seconds"];
    if models {
        header.extend(["tokens", "through the model", "cut to fit", "device seconds"]);
    }
    if counted {
        header.push("joules");
    }
    let table = markdown(&header, rows);
    format!("\nincurred by this run\n\n{table}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_over_fewer_than_its_row_says_so() {
        let cell = |configuration, measure, count| Cell { configuration, measure, count, figure: format!("{count}") };
        let found = by_measure("n", &[cell("z", "em", 9), cell("z", "f1", 7), cell("a", "f1", 8)]);
        let rows: Vec<Vec<&str>> = found
            .lines()
            .map(|line| line.split('|').map(str::trim).filter(|cell| !cell.is_empty()).collect())
            .collect();
        assert_eq!(rows[0], ["configuration", "n", "em", "f1"]);
        assert_eq!(rows[2..], [["z", "9", "9", "7 (n = 7)"], ["a", "8", UNKNOWN, "8"]]);
    }
}
