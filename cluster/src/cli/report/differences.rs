//! Paired differences as forest plots: within a run from its first configuration, between runs by name.
//!
//! The figures are those of `hopeval show --against` and `hopeval compare`.

use super::html::Html;
use super::page::ReportPage;
use super::page_table::PageTable;
use super::runs::{RankedGroup, ReportedRun, ReportedSide};
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
    n: u64,
    difference: Option<f64>,
    interval: Option<(f64, f64)>,
    p: Option<f64>,
    p_holm: Option<f64>,
}

impl ShownDifference {
    fn within(row: &Comparison) -> Self {
        Self {
            name: row.configuration.clone(),
            n: row.n,
            difference: row.difference,
            interval: row.low.zip(row.high),
            p: row.p,
            p_holm: row.p_holm,
        }
    }

    /// The difference of a pair of runs in a measure; `None` if it is not compared.
    fn between(pair: &ComparedPair, measure: &str) -> Option<Self> {
        let row = pair.quality.iter().find(|row| row.measure == measure)?;
        Some(Self {
            name: pair.compared.configuration.clone(),
            n: row.n,
            difference: row.difference,
            interval: row.low.zip(row.high),
            p: row.p,
            p_holm: row.p_holm,
        })
    }
}

/// The section's content.
///
/// # Errors
/// A table cannot be read.
pub(super) fn difference_section(
    page: &mut ReportPage,
    runs: &[ReportedRun],
    groups: &[RankedGroup<'_>],
) -> Result<Html> {
    let mut content = Html::default();
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
    let lead = Html::paragraph(
        "Paired by question, with 95 % bootstrap intervals; p from exchanging the two within questions, adjusted by \
         Holm over the compared configurations. Marked: adjusted p below 0.05. Within a run, the others are compared \
         with the first configuration that is no control; hopeval show --against takes any.",
    );
    Ok([lead, Html::element("div", &[("class", "plots")], content)].into_iter().collect())
}

/// All other configurations of a run and a context mode less the first one that is no control and has the measure.
fn within_run(page: &mut ReportPage, run: &ReportedRun, group: &RankedGroup<'_>, measure: &str) -> Result<Html> {
    let is_base = |side: &&ReportedSide<'_>| {
        side.run.open.id() == run.open.id() && !side.is_control() && side.value("all", measure).is_some()
    };
    let Some(base) = group.sides.iter().find(is_base) else { return Ok(Html::default()) };
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
fn between_runs(page: &mut ReportPage, runs: &[ReportedRun], groups: &[RankedGroup<'_>]) -> Result<Html> {
    let mut content = Html::default();
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
                content.push(Html::paragraph(&text));
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
fn forest(page: &mut ReportPage, name: &str, title: &str, rows: &[ShownDifference]) -> Html {
    let name = format!("difference-{name}");
    let columns = ["configuration", "n", "difference", "low", "high", "p", "p (Holm)"];
    let mut table = PageTable::new(&name, &columns);
    for row in rows {
        let ends = [row.difference, row.interval.map(|i| i.0), row.interval.map(|i| i.1)];
        let figures = ends.into_iter().chain([row.p, row.p_holm]).map(Html::share);
        table.push([Html::text(&row.name), Html::count(row.n)].into_iter().chain(figures));
    }
    let mut drawn: Vec<(&ShownDifference, f64)> = rows.iter().filter_map(|row| Some((row, row.difference?))).collect();
    if drawn.is_empty() {
        return Html::default();
    }
    drawn.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
    drawn.truncate(MOST_ROWS);
    drawn.sort_by(|a, b| b.1.total_cmp(&a.1));
    let shown = drawn.iter().map(|(row, value)| IntervalRow {
        name: row.name.clone(),
        figures: row.interval.map_or(String::new(), |(low, high)| format!("{value:+.3} [{low:+.3}, {high:+.3}]")),
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
