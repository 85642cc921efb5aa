//! The table of measures, and recall at cut-offs as curves.

use super::html::HtmlPiece;
use super::page::ReportPage;
use super::page_table::PageTable;
use super::runs::{RankedGroup, ReportedRun, ReportedSide};
use crate::cli::tables::SHORT_MARK;
use hopeval_jobs::prepare::questions::ALL;
use hopeval_jobs::report::measure_means::row_coverage;
use hopeval_jobs::report::replicates::ReplicateSpread;
use hopeval_plots::{CurvePoint, NamedCurve, PlotTitles, curve_plot};

/// The section with all measures over all questions.
pub(super) fn measures_section(runs: &[ReportedRun], groups: &[RankedGroup<'_>]) -> HtmlPiece {
    let of = match runs.iter().all(|run| run.figures.finished) {
        true => "all questions",
        false => "all questions, of unfinished runs over those with an outcome so far,",
    };
    let mut content = HtmlPiece::paragraph(&format!(
        "Means over {of} with their 95 % intervals; failed outcomes are among them and score 0. A mean over other \
         questions than the column n counts has its own n. Figures of different context modes are never ranked \
         together."
    ));
    for group in groups {
        content.push(HtmlPiece::element("h3", &[], &group.title));
        content.push(measures_table(group).to_html());
    }
    for run in runs.iter().filter(|run| !run.figures.replicates.is_empty()) {
        let letter = run.letter.map_or(String::new(), |letter| format!("{letter}: "));
        content.push(HtmlPiece::element("h3", &[], &format!("{letter}over replicates")));
        content.push(HtmlPiece::note(
            "The mean over replicates, the standard deviation between their figures, and the 95 % interval of the mean \
             over questions.",
        ));
        content.push(replicates_table(run).to_html());
    }
    content
}

/// The means over the replicates of a run's configurations.
fn replicates_table(run: &ReportedRun) -> PageTable {
    let spreads = || run.figures.replicates.iter().filter(|spread| spread.stratum == ALL);
    let mut measures: Vec<&str> = Vec::new();
    let mut configurations: Vec<(&str, u64)> = Vec::new();
    for spread in spreads() {
        if !measures.contains(&spread.measure.as_str()) {
            measures.push(&spread.measure);
        }
        if configurations.iter().all(|(name, _)| *name != spread.configuration) {
            configurations.push((&spread.configuration, spread.replicates));
        }
    }
    let letter = run.letter.map_or(String::new(), |letter| format!("-{letter}"));
    let mut table = PageTable::new(&format!("replicates{letter}"), &["configuration", "replicates"]);
    table.columns.extend(measures.iter().map(|measure| (*measure).to_owned()));
    for (name, count) in configurations {
        let spread = |measure: &&str| {
            let found = spreads().find(|spread| spread.configuration == name && spread.measure == **measure);
            found.map_or_else(HtmlPiece::unknown, spread_figure)
        };
        let head = [HtmlPiece::text(name), HtmlPiece::count(count)];
        table.push(head.into_iter().chain(measures.iter().map(spread)));
    }
    table
}

/// A mean over replicates with its deviation and its interval. A star marks a figure that is not measured to its
/// cut-off.
fn spread_figure(spread: &ReplicateSpread) -> HtmlPiece {
    let mut cell = HtmlPiece::share(Some(spread.mean));
    if spread.ranked.is_some() {
        cell.push(HtmlPiece::text(SHORT_MARK));
    }
    if let Some(deviation) = spread.deviation {
        let pieces = [HtmlPiece::text(" ("), HtmlPiece::share(Some(deviation)), HtmlPiece::text(")")];
        pieces.into_iter().for_each(|piece| cell.push(piece));
    }
    push_interval(&mut cell, spread.low.zip(spread.high));
    cell
}

/// Adds an interval, if it is known.
fn push_interval(cell: &mut HtmlPiece, interval: Option<(f64, f64)>) {
    let Some((low, high)) = interval else { return };
    let (low, high) = (HtmlPiece::share(Some(low)), HtmlPiece::share(Some(high)));
    let pieces = [HtmlPiece::text(" ["), low, HtmlPiece::text(", "), high, HtmlPiece::text("]")];
    pieces.into_iter().for_each(|piece| cell.push(piece));
}

fn measures_table(group: &RankedGroup<'_>) -> PageTable {
    let measures = group.measures();
    let mut table = PageTable::new(&format!("measures-{}", group.name), &["configuration", "n", "coverage"]);
    table.columns.extend(measures.iter().cloned());
    for side in &group.sides {
        let figures = measures.iter().filter_map(|measure| side.row("all", measure));
        let first = measures.iter().find_map(|measure| side.row("all", measure).filter(|row| row.n > 0));
        let head = [
            HtmlPiece::text(&side.label()),
            first.map_or_else(HtmlPiece::unknown, |row| HtmlPiece::count(row.n)),
            HtmlPiece::share(row_coverage(figures, side.run.open.evaluator.measure_set())),
        ];
        let figure = |measure: &String| {
            let mut cell = estimate(side, "all", measure);
            let row = side.row("all", measure).filter(|row| row.value.is_some());
            let own = row.map(|row| row.n).filter(|n| first.is_some_and(|first| first.n != *n));
            own.into_iter().for_each(|n| cell.push(HtmlPiece::text(&format!(" (n = {n})"))));
            cell
        };
        table.push(head.into_iter().chain(measures.iter().map(figure)));
    }
    table
}

/// A mean with its interval. A star marks a figure that is not measured to its cut-off.
pub(super) fn estimate(side: &ReportedSide<'_>, stratum: &str, measure: &str) -> HtmlPiece {
    let Some(row) = side.row(stratum, measure).filter(|row| row.value.is_some()) else { return HtmlPiece::unknown() };
    let mut cell = HtmlPiece::share(row.value);
    if row.ranked.is_some() {
        cell.push(HtmlPiece::text(SHORT_MARK));
    }
    push_interval(&mut cell, row.low.zip(row.high));
    cell
}

/// The cut-offs of a family of measures, such as `recall_all@`, in their order.
fn cut_offs(group: &RankedGroup<'_>, family: &str) -> Vec<u32> {
    let mut found: Vec<u32> =
        group.measures().iter().filter_map(|name| name.strip_prefix(family)?.parse().ok()).collect();
    found.sort_unstable();
    found
}

/// The section with recall along k.
pub(super) fn recall_section(page: &mut ReportPage, groups: &[RankedGroup<'_>]) -> HtmlPiece {
    let mut content = HtmlPiece::default();
    for group in groups {
        let plots: HtmlPiece = [("recall_all@", "recall of all gold"), ("recall_frac@", "recall of gold, share")]
            .into_iter()
            .filter_map(|(family, title)| recall_plot(page, group, family, title))
            .collect();
        if plots.is_empty() {
            continue;
        }
        content.push(HtmlPiece::element("h3", &[], &group.title));
        let deepest = cut_offs(group, "recall_all@").last().map(|k| format!("recall_all@{k}"));
        let note = deepest.map_or(String::new(), |measure| group.choice_note(&measure));
        let text = format!(
            "{note}Bands are 95 % intervals. A curve ends at the largest k that its configuration ranks; the table \
             goes on."
        );
        content.push(HtmlPiece::note(&text));
        content.push(HtmlPiece::element("div", &[("class", "plots")], plots));
    }
    content
}

fn recall_plot(page: &mut ReportPage, group: &RankedGroup<'_>, family: &str, title: &str) -> Option<HtmlPiece> {
    let cut_offs = cut_offs(group, family);
    let deepest = cut_offs.last().filter(|_| cut_offs.len() > 1)?;
    let measure = |k: u32| format!("{family}{k}");
    let curves: Vec<NamedCurve> =
        group.best_sides(&measure(*deepest)).iter().filter_map(|side| curve(side, &cut_offs, family)).collect();
    let name = format!("{}-{}", family.trim_end_matches('@'), group.name);
    let titles = PlotTitles { title: title.to_owned(), x: "k, passages".to_owned(), y: format!("{family}k") };
    let mut table = PageTable::new(&format!("curve-{name}"), &["configuration"]);
    table.columns.extend(cut_offs.iter().map(|&k| measure(k)));
    for side in group.sides.iter().filter(|side| side.value("all", &measure(*deepest)).is_some()) {
        let figures = cut_offs.iter().map(|&k| estimate(side, "all", &measure(k)));
        table.push([HtmlPiece::text(&side.label())].into_iter().chain(figures));
    }
    let label = format!("{title} along k, a curve for each configuration");
    Some(page.plot(&name, &curve_plot(&titles, &curves), &label, &table))
}

/// The measured points of a curve; `None` without any.
fn curve(side: &ReportedSide<'_>, cut_offs: &[u32], family: &str) -> Option<NamedCurve> {
    let points = cut_offs.iter().filter_map(|&k| {
        let row = side.row("all", &format!("{family}{k}")).filter(|row| row.ranked.is_none())?;
        Some(CurvePoint { x: f64::from(k), y: row.value?, interval: row.low.zip(row.high) })
    });
    let points: Vec<CurvePoint> = points.collect();
    (!points.is_empty()).then(|| NamedCurve { name: side.label(), points })
}
