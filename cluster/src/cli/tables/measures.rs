//! The measures of a run.

use super::fitted::FigureTable;
use super::parts::{FigureColumns, FigurePart, FigureRow, figure_parts, swept_parts};
use super::view::TableView;
use super::{SHORT_NOTE, UNKNOWN, estimate_text, marked};
use crate::print;
use anyhow::Result;
use hopeval_jobs::prepare::brought::RankingsCounts;
use hopeval_jobs::report::measure_means::row_coverage;
use hopeval_jobs::report::show::RunFigures;
use hopeval_jobs::run::open::OpenRun;
use hopeval_measures::MeasureSet;
use hopeval_results::tables::MeasureRow;

/// The shown measures of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct MeasureChoice {
    /// Names; the headline ones when empty.
    pub(crate) measures: Vec<String>,
    /// The strata; `all` when empty.
    pub(crate) strata: Vec<String>,
    /// Whether every figure has its interval in place of its standard error.
    pub(crate) intervals: bool,
    /// Rows, order and format.
    pub(crate) view: TableView,
}

impl MeasureChoice {
    /// The shown strata.
    pub(crate) fn strata(&self) -> Vec<&str> {
        if self.strata.is_empty() { vec!["all"] } else { self.strata.iter().map(String::as_str).collect() }
    }

    /// Whether a measure is shown unless the user names measures: answers, judges' accuracies, all-gold and fractional
    /// recall, MRR, recall of chunks and their number if a job asks for them. Over strata, those that differences have.
    pub(crate) fn is_headline(&self, measure: &str) -> bool {
        if self.view.by.is_some() {
            return super::replicates::is_wanted(measure, &[]);
        }
        matches!(
            measure,
            "em" | "f1" | "accuracy" | "has_answer" | "mrr" | "chunk_recall" | "chunks" | "chunks_with_repeats"
        ) || measure.starts_with("recall_")
            || measure.starts_with("acc_")
            || measure.starts_with("answer_recall@")
            || measure.starts_with("bridge_answer_recall@")
            || measure.starts_with("answer_hit@")
    }
}

/// Figures over fewer questions have their interval, whether asked for or not.
const FEW_QUESTIONS: u64 = 30;

/// The measures of a run as Markdown tables that fit the terminal, one for each part.
///
/// # Errors
/// A filter or a kind of strata that fits nothing.
pub(crate) fn measure_tables(run: &OpenRun, shown: &RunFigures, choice: &MeasureChoice) -> Result<String> {
    let names = swept_parts(run);
    let parts = figure_parts(run, shown, &names, choice)?;
    let mut text = print::wrapped(&run_heading(run, shown, &choice.strata().join(", ")));
    for part in &parts {
        let table = part_table(part, choice, run.evaluator.measure_set());
        text.push_str(&format!("\n{}\n\n{}\n", caption(part, choice), table.to_text()));
        if let Some(note) = left_out_note(part) {
            text.push_str(&format!("{note}\n"));
        }
    }
    let figures = parts.iter().flat_map(|part| &part.rows).flat_map(|row| row.figures.iter().flatten().copied());
    text.push_str(&figure_notes(&figures.collect::<Vec<_>>(), choice.intervals));
    Ok(text)
}

/// The notes beneath tables with these figures.
pub(crate) fn figure_notes(figures: &[&MeasureRow], intervals: bool) -> String {
    let mut text = String::new();
    if figures.iter().any(|figure| shown_interval(figure, intervals).is_some()) {
        text.push_str("\n[low, high]: 95 % interval\n");
    }
    if figures.iter().any(|figure| figure.value.is_some() && figure.ranked.is_some()) {
        text.push_str(&format!("\n{}\n", print::wrapped(SHORT_NOTE)));
    }
    text
}

/// The line above a part.
pub(crate) fn caption(part: &FigurePart<'_>, choice: &MeasureChoice) -> String {
    let mut text = format!("context mode: {}", part.context_mode);
    if part.has_controls {
        text.push_str(", controls");
    }
    match &part.columns {
        FigureColumns::Measures { stratum, .. } if choice.strata.len() > 1 => {
            text.push_str(&format!(", stratum {stratum}"));
        }
        FigureColumns::Measures { .. } => {}
        FigureColumns::Strata { measure, .. } => text.push_str(&format!(", {measure}")),
    }
    text
}

/// The number of rows that `--top` leaves out of a part, if any.
pub(crate) fn left_out_note(part: &FigurePart<'_>) -> Option<String> {
    let rows = if part.left_out == 1 { "row is" } else { "rows are" };
    (part.left_out > 0).then(|| format!("{} more {rows} not shown (--top)", part.left_out))
}

/// A part's table: names, the number of questions, coverage, figures.
fn part_table(part: &FigurePart<'_>, choice: &MeasureChoice, set: &MeasureSet) -> FigureTable {
    let mut table = name_columns(part);
    let is_over_strata = matches!(part.columns, FigureColumns::Strata { .. });
    if !is_over_strata {
        table.push_column("n", part.rows.iter().map(|row| question_count(row).to_string()).collect());
        table.names += 1;
        let coverages: Vec<Option<f64>> = part.rows.iter().map(|row| coverage(row, set)).collect();
        // Where room is scarce, a coverage of 1 is not said in each row.
        if print::line_width().is_none() || coverages.iter().any(|&coverage| coverage != Some(1.0)) {
            table.push_column("coverage", coverages.into_iter().map(coverage_text).collect());
            table.names += 1;
        }
    }
    for (column, name) in part.columns.names().iter().enumerate() {
        let most = most_questions(part, column);
        let cells = part.rows.iter().map(|row| match row.figures[column] {
            None => UNKNOWN.to_owned(),
            Some(figure) => cell_text(figure, row, choice, is_over_strata.then_some(most)),
        });
        let heading = if is_over_strata { format!("{name} (n = {most})") } else { (*name).to_owned() };
        table.push_column(&heading, cells.collect());
    }
    table
}

/// A figure's cell, with what it lacks: over strata, whose columns say the `most` questions of a figure, of those; else
/// of the questions that its row says.
pub(crate) fn cell_text(figure: &MeasureRow, row: &FigureRow<'_>, choice: &MeasureChoice, most: Option<u64>) -> String {
    let lacking = match most {
        _ if figure.n == 0 => String::new(),
        Some(most) => shortfall(figure, most),
        None if figure.n < question_count(row) => format!(" (n = {})", figure.n),
        None => String::new(),
    };
    figure_text(figure, choice.intervals) + &lacking
}

/// The most questions of a column's figures.
pub(crate) fn most_questions(part: &FigurePart<'_>, column: usize) -> u64 {
    part.rows.iter().filter_map(|row| row.figures[column]).map(|figure| figure.n).max().unwrap_or(0)
}

/// The columns that name a part's rows. The points of a sweep have a column for each swept parameter, and their place
/// in the job, which stands for the name in commands.
pub(crate) fn name_columns(part: &FigurePart<'_>) -> FigureTable {
    let swept = part.swept_parameters();
    let mut table = FigureTable { rows: vec![Vec::new(); part.rows.len()], ..FigureTable::default() };
    let column = |of: &dyn Fn(&FigureRow<'_>) -> String| part.rows.iter().map(of).collect::<Vec<_>>();
    if !swept.is_empty() {
        table.push_column("#", column(&|row| (row.named.position + 1).to_string()));
    }
    table.push_column("configuration", column(&|row| row.name().to_owned()));
    for parameter in swept {
        table.push_column(parameter, column(&|row| row.swept_value(parameter).unwrap_or(UNKNOWN).to_owned()));
    }
    if part.has_controls {
        table.push_column("control", column(&|row| row.named.configuration.control.clone().unwrap_or_default()));
    }
    table.names = table.header.len();
    table
}

/// The most questions of a row's figures.
pub(crate) fn question_count(row: &FigureRow<'_>) -> u64 {
    row.figures.iter().flatten().map(|figure| figure.n).max().unwrap_or(0)
}

/// The share of a row's questions with an outcome of status `ok`, as far as its figures say it.
pub(crate) fn coverage(row: &FigureRow<'_>, set: &MeasureSet) -> Option<f64> {
    row_coverage(row.figures.iter().flatten().copied(), set)
}

/// A coverage as a cell.
pub(crate) fn coverage_text(coverage: Option<f64>) -> String {
    coverage.map_or(UNKNOWN.to_owned(), |share| format!("{share:.3}"))
}

/// What a figure of a stratum lacks beside the others of its column.
fn shortfall(figure: &MeasureRow, most: u64) -> String {
    let mut said = Vec::new();
    if figure.n < most {
        said.push(format!("n = {}", figure.n));
    }
    if let Some(coverage) = figure.coverage.filter(|&coverage| coverage < 1.0) {
        said.push(format!("coverage {coverage:.3}"));
    }
    if said.is_empty() { String::new() } else { format!(" ({})", said.join(", ")) }
}

/// The interval to show with a figure, if any: if wanted, and where a standard error says little.
fn shown_interval(row: &MeasureRow, wanted: bool) -> Option<(f64, f64)> {
    let says_little = row.n < FEW_QUESTIONS || row.value == Some(0.0) || row.value == Some(1.0);
    row.low.zip(row.high).filter(|_| wanted || says_little)
}

/// A figure with its interval or its standard error, marked if it is not measured to its cut-off.
pub(crate) fn figure_text(row: &MeasureRow, interval_wanted: bool) -> String {
    let figure = match row.value.zip(shown_interval(row, interval_wanted)) {
        Some((value, (low, high))) => format!("{value:.4} [{low:.4}, {high:.4}]"),
        None => estimate_text(row.value, row.stderr),
    };
    marked(figure, row.ranked.filter(|_| row.value.is_some()))
}

pub(crate) fn run_heading(run: &OpenRun, shown: &RunFigures, stratum: &str) -> String {
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
    if resolved.prepared.kept_without_gold > 0 {
        text.push_str(&format!("; {} questions without their gold passages", resolved.prepared.kept_without_gold));
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
    if let Some(note) = unfinished_note(shown) {
        text.push_str(&format!("\n{note}"));
    }
    if let Some(note) = &shown.note {
        text.push_str(&format!("\nnote: {note}"));
    }
    text.push('\n');
    text
}

/// How far a run is that is not finished.
pub(crate) fn unfinished_note(shown: &RunFigures) -> Option<String> {
    let RunFigures { outcomes, expected, commits, .. } = shown;
    let note = format!("not finished: {outcomes} of {expected} outcomes, as of commit {commits}");
    (!shown.finished).then_some(note)
}
