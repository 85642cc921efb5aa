//! Paired differences as forest plots: within a run from its first configuration, between runs by name.
//!
//! The figures are those of `hopeval show --against` and `hopeval compare`.

use super::html::HtmlPiece;
use super::page::ReportPage;
use super::page_table::PageTable;
use super::runs::{RankedGroup, ReportedRun, marked_control};
use crate::cli::tables::{SHORT_MARK, p_value_text};
use anyhow::Result;
use hopeval_jobs::JobError;
use hopeval_jobs::report::compare::{Comparison, compare_configurations};
use hopeval_jobs::report::compare_runs::{ComparedName, ComparedPair, compare_runs};
use hopeval_plots::{IntervalRow, PlotTitles, interval_plot};

/// The most rows of a plot: the largest differences; the table has all.
const MOST_ROWS: usize = 24;

/// A difference of which the plot has a row.
struct ShownDifference {
    name: String,
    /// Whether one of the two ranks fewer passages than the cut-off.
    is_short: bool,
    n: u64,
    difference: Option<f64>,
    interval: Option<(f64, f64)>,
    p: Option<f64>,
    p_holm: Option<f64>,
}

impl ShownDifference {
    fn within(row: &Comparison) -> Self {
        Self {
            name: marked_control(&row.configuration, row.control.is_some()),
            is_short: row.ranked.is_some(),
            n: row.n,
            difference: row.difference,
            interval: row.low.zip(row.high),
            p: row.p,
            p_holm: row.p_holm,
        }
    }

    /// The star of a difference that is not measured to its cut-off.
    fn mark(&self) -> &'static str {
        if self.is_short { SHORT_MARK } else { "" }
    }

    /// The difference of a pair of runs in a measure; `None` if it is not compared.
    fn between(pair: &ComparedPair, measure: &str) -> Option<Self> {
        let row = pair.quality.iter().find(|row| row.measure == measure)?;
        Some(Self {
            name: pair.compared.configuration.clone(),
            is_short: row.ranked.is_some(),
            n: row.n,
            difference: row.difference,
            interval: row.low.zip(row.high),
            p: row.p,
            p_holm: row.p_holm,
        })
    }
}

/// A p value; one that four digits would show as 0 is told by its bound.
fn p_value_cell(p: Option<f64>) -> HtmlPiece {
    p.map_or_else(HtmlPiece::unknown, |value| HtmlPiece::number(value, &p_value_text(p)))
}

/// The section's content.
///
/// # Errors
/// A table cannot be read.
pub(super) fn difference_section(
    page: &mut ReportPage,
    runs: &[ReportedRun],
    groups: &[RankedGroup<'_>],
) -> Result<HtmlPiece> {
    let mut content = HtmlPiece::default();
    for group in groups {
        for run in runs.iter().filter(|run| run.figures.finished) {
            for measure in group.headline_measures() {
                content.push(within_run(page, run, group, &measure)?);
            }
        }
    }
    content.push(between_runs(page, runs, groups)?);
    if content.is_empty() {
        return Ok(content);
    }
    let lead = HtmlPiece::paragraph(
        "Paired by question, with 95 % bootstrap intervals; p from exchanging the two within questions, adjusted by \
         Holm over the compared configurations, of which controls are a family of their own. Marked: adjusted p below \
         0.05. Within a run, the others are compared with the first configuration that is no control and ranks as many \
         passages as the measure needs; hopeval show --against takes any.",
    );
    Ok([lead, HtmlPiece::element("div", &[("class", "plots")], content)].into_iter().collect())
}

/// All other configurations of a run and a context mode less [`RankedGroup::base`].
fn within_run(page: &mut ReportPage, run: &ReportedRun, group: &RankedGroup<'_>, measure: &str) -> Result<HtmlPiece> {
    let Some(base) = group.base(run, measure) else { return Ok(HtmlPiece::default()) };
    let against = base.configuration.replicated_name();
    let found = compare_configurations(&run.open, against, "all", &|name| name == measure)?;
    let rows: Vec<ShownDifference> =
        found.differences.iter().map(ShownDifference::within).filter(|row| row.n > 0).collect();
    let letter = run.letter.map_or(String::new(), |letter| format!("-{letter}"));
    let in_run = run.letter.map_or(String::new(), |letter| format!(" in {letter}"));
    let title = format!("{measure}{in_run} less that of {against}");
    Ok(forest(page, &format!("{measure}-{}{letter}", group.name), &title, &rows))
}

/// Configurations of one name in the first run and each other one.
fn between_runs(page: &mut ReportPage, runs: &[ReportedRun], groups: &[RankedGroup<'_>]) -> Result<HtmlPiece> {
    let mut content = HtmlPiece::default();
    let Some((first, others)) = runs.split_first().filter(|(first, _)| first.figures.finished) else {
        return Ok(content);
    };
    let mut measures: Vec<String> = groups.iter().flat_map(RankedGroup::headline_measures).collect();
    measures.sort();
    measures.dedup();
    let named = |run: &ReportedRun| ComparedName { run: run.open.id().to_owned(), configuration: None };
    for other in others.iter().filter(|run| run.figures.finished) {
        let letters = (first.letter.unwrap_or('A'), other.letter.unwrap_or('B'));
        let wanted = |name: &str| measures.iter().any(|m| m == name);
        let pairs = match compare_runs(&first.open.places.store, &[named(first), named(other)], &wanted) {
            Ok(pairs) => pairs,
            Err(error @ JobError::Unfit { .. }) => {
                let text = format!("{} and {} are not paired: {error}", letters.0, letters.1);
                content.push(HtmlPiece::paragraph(&text));
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        for measure in &measures {
            let rows = pairs.iter().filter_map(|pair| ShownDifference::between(pair, measure));
            let rows: Vec<ShownDifference> = rows.filter(|row| row.n > 0).collect();
            let title = format!("{measure} in {} less that in {}", letters.1, letters.0);
            content.push(forest(page, &format!("{measure}-{}-{}", letters.1, letters.0), &title, &rows));
        }
    }
    Ok(content)
}

/// A forest plot with its table; nothing without rows.
fn forest(page: &mut ReportPage, name: &str, title: &str, rows: &[ShownDifference]) -> HtmlPiece {
    let name = format!("difference-{name}");
    let columns = ["configuration", "n", "difference", "low", "high", "p", "p (Holm)"];
    let mut table = PageTable::new(&name, &columns);
    for row in rows {
        let mut difference = HtmlPiece::share(row.difference);
        difference.push(HtmlPiece::text(row.mark()));
        let ends = [row.interval.map(|i| i.0), row.interval.map(|i| i.1)].map(HtmlPiece::share);
        let p_values = [row.p, row.p_holm].map(p_value_cell);
        let head = [HtmlPiece::text(&row.name), HtmlPiece::count(row.n), difference];
        table.push(head.into_iter().chain(ends).chain(p_values));
    }
    let mut drawn: Vec<(&ShownDifference, f64)> = rows.iter().filter_map(|row| Some((row, row.difference?))).collect();
    if drawn.is_empty() {
        return HtmlPiece::default();
    }
    drawn.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
    drawn.truncate(MOST_ROWS);
    drawn.sort_by(|a, b| b.1.total_cmp(&a.1));
    let shown = drawn.iter().map(|(row, value)| IntervalRow {
        name: row.name.clone(),
        figures: row
            .interval
            .map_or(String::new(), |(low, high)| format!("{value:+.3}{} [{low:+.3}, {high:+.3}]", row.mark())),
        value: *value,
        interval: row.interval,
        is_marked: row.p_holm.is_some_and(|p| p < 0.05),
    });
    let left_out = match rows.len().saturating_sub(MOST_ROWS) {
        0 => String::new(),
        more => format!("the {MOST_ROWS} largest; {more} more in the table"),
    };
    let titles = PlotTitles { title: title.to_owned(), x: "difference of means".to_owned(), y: left_out };
    page.plot(&name, &interval_plot(&titles, &shown.collect::<Vec<_>>()), title, &table)
}
