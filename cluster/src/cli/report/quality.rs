//! The table of measures, and recall at cut-offs as curves.

use super::html::Html;
use super::page::ReportPage;
use super::page_table::PageTable;
use super::runs::{RankedGroup, ReportedSide};
use hopeval_plots::{Curve, CurvePoint, PlotTitles, curve_plot};

/// The section with all measures over all questions.
pub(super) fn measures_section(groups: &[RankedGroup<'_>]) -> Html {
    let mut content = Html::paragraph(
        "Means over all questions with their 95 % intervals; failed outcomes are among them and score 0. Figures of \
         different context modes are never ranked together.",
    );
    for group in groups {
        content.push(Html::element("h3", &[], &group.title));
        content.push(measures_table(group).to_html());
    }
    content
}

fn measures_table(group: &RankedGroup<'_>) -> PageTable {
    let measures = group.measures();
    let mut table = PageTable::new(&format!("measures-{}", group.name), &["configuration", "n", "coverage"]);
    table.columns.extend(measures.iter().cloned());
    for side in &group.sides {
        let first = measures.iter().find_map(|measure| side.row("all", measure).filter(|row| row.n > 0));
        let head = [
            named(side),
            first.map_or_else(Html::unknown, |row| Html::count(row.n)),
            Html::share(first.and_then(|row| row.coverage)),
        ];
        table.push(head.into_iter().chain(measures.iter().map(|measure| estimate(side, "all", measure))));
    }
    table
}

/// The name of a configuration, with a mark if it is a control.
pub(super) fn named(side: &ReportedSide<'_>) -> Html {
    let suffix = if side.is_control() { " (control)" } else { "" };
    Html::text(&format!("{}{suffix}", side.label()))
}

/// A mean with its interval. A star marks a figure that is not measured to its cut-off.
pub(super) fn estimate(side: &ReportedSide<'_>, stratum: &str, measure: &str) -> Html {
    let Some(row) = side.row(stratum, measure).filter(|row| row.value.is_some()) else { return Html::unknown() };
    let mut cell = Html::share(row.value);
    if row.ranked.is_some() {
        cell.push(Html::text("*"));
    }
    if let Some((low, high)) = row.low.zip(row.high) {
        let pieces =
            [Html::text(" ["), Html::share(Some(low)), Html::text(", "), Html::share(Some(high)), Html::text("]")];
        pieces.into_iter().for_each(|piece| cell.push(piece));
    }
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
pub(super) fn recall_section(page: &mut ReportPage, groups: &[RankedGroup<'_>]) -> Html {
    let mut content = Html::default();
    for group in groups {
        let plots: Html = [("recall_all@", "recall of all gold"), ("recall_frac@", "recall of gold, share")]
            .into_iter()
            .filter_map(|(family, title)| recall_plot(page, group, family, title))
            .collect();
        if plots.is_empty() {
            continue;
        }
        content.push(Html::element("h3", &[], &group.title));
        let deepest = cut_offs(group, "recall_all@").last().map(|k| format!("recall_all@{k}"));
        let note = deepest.map_or(String::new(), |measure| group.choice_note(&measure));
        content.push(Html::element("p", &[("class", "note")], &format!("{note}Bands are 95 % intervals.")));
        content.push(Html::element("div", &[("class", "plots")], plots));
    }
    content
}

fn recall_plot(page: &mut ReportPage, group: &RankedGroup<'_>, family: &str, title: &str) -> Option<Html> {
    let cut_offs = cut_offs(group, family);
    let deepest = cut_offs.last().filter(|_| cut_offs.len() > 1)?;
    let measure = |k: u32| format!("{family}{k}");
    let curves: Vec<Curve> =
        group.best_sides(&measure(*deepest)).iter().map(|side| curve(side, &cut_offs, family)).collect();
    let name = format!("{}-{}", family.trim_end_matches('@'), group.name);
    let titles = PlotTitles { title: title.to_owned(), x: "k, passages".to_owned(), y: format!("{family}k") };
    let mut table = PageTable::new(&format!("curve-{name}"), &["configuration"]);
    table.columns.extend(cut_offs.iter().map(|&k| measure(k)));
    for side in group.sides.iter().filter(|side| side.value("all", &measure(*deepest)).is_some()) {
        let figures = cut_offs.iter().map(|&k| estimate(side, "all", &measure(k)));
        table.push([named(side)].into_iter().chain(figures));
    }
    let label = format!("{title} along k, a curve for each configuration");
    Some(page.plot(&name, &curve_plot(&titles, &curves), &label, &table))
}

fn curve(side: &ReportedSide<'_>, cut_offs: &[u32], family: &str) -> Curve {
    let points = cut_offs.iter().filter_map(|&k| {
        let row = side.row("all", &format!("{family}{k}"))?;
        Some(CurvePoint { x: f64::from(k), y: row.value?, interval: row.low.zip(row.high) })
    });
    Curve { name: side.label(), points: points.collect() }
}
