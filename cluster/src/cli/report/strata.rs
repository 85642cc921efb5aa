//! Measures by hops, by type and by every other kind of stratum, as bars.

use super::html::HtmlPiece;
use super::page::ReportPage;
use super::page_table::PageTable;
use super::quality::estimate;
use super::runs::{RankedGroup, ReportedSide};
use hopeval_plots::{BarGroup, PlotTitles, PlottedBar, bar_plot};
use std::collections::BTreeMap;

/// The most strata of a plot; kinds of more are left to `hopeval show --by`.
const MOST_STRATA: usize = 12;

/// The section's content.
pub(super) fn strata_section(page: &mut ReportPage, groups: &[RankedGroup<'_>]) -> HtmlPiece {
    let mut content = HtmlPiece::default();
    for group in groups {
        let kinds = stratum_kinds(group);
        let drawn = |strata: &&Vec<String>| (2..=MOST_STRATA).contains(&strata.len());
        let mut plots = HtmlPiece::default();
        for (kind, strata) in kinds.iter().filter(|(_, strata)| drawn(strata)) {
            for measure in group.headline_measures() {
                plots.push(stratum_plot(page, group, kind, strata, &measure));
            }
        }
        if plots.is_empty() {
            continue;
        }
        content.push(HtmlPiece::element("h3", &[], &group.title));
        let note = group.headline_measures().first().map_or(String::new(), |measure| group.choice_note(measure));
        let counts: Vec<String> = kinds
            .iter()
            .filter(|(_, strata)| drawn(strata))
            .map(|(kind, strata)| counts_text(group, kind, strata))
            .collect();
        let note = format!("{note}Lines on the bars are 95 % intervals. Questions: {}.", counts.join("; "));
        content.push(HtmlPiece::note(&note));
        content.push(HtmlPiece::element("div", &[("class", "plots")], plots));
        let many: Vec<&str> =
            kinds.iter().filter(|(_, strata)| strata.len() > MOST_STRATA).map(|(kind, _)| kind.as_str()).collect();
        if !many.is_empty() {
            let text = format!("More than {MOST_STRATA} strata, see hopeval show --by: {}.", many.join(", "));
            content.push(HtmlPiece::note(&text));
        }
    }
    content
}

/// The strata of a group's runs, by kind: `hops` has `hops=2` and `hops=3`.
fn stratum_kinds(group: &RankedGroup<'_>) -> BTreeMap<String, Vec<String>> {
    let mut kinds: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for stratum in group.sides.iter().flat_map(|side| side.run.open.evaluator.strata()) {
        let Some((kind, _)) = stratum.split_once('=') else { continue };
        let strata = kinds.entry(kind.to_owned()).or_default();
        if !strata.contains(stratum) {
            strata.push(stratum.clone());
        }
    }
    kinds
}

/// The number of questions of each stratum of a kind.
fn counts_text(group: &RankedGroup<'_>, kind: &str, strata: &[String]) -> String {
    let measures = group.measures();
    let count = |stratum: &String| {
        let rows = group.sides.iter().flat_map(|side| measures.iter().filter_map(|name| side.row(stratum, name)));
        let name = stratum.split_once('=').map_or(stratum.as_str(), |(_, name)| name);
        format!("{name} ({})", rows.map(|row| row.n).max().unwrap_or(0))
    };
    format!("{kind} {}", strata.iter().map(count).collect::<Vec<_>>().join(", "))
}

fn stratum_plot(
    page: &mut ReportPage,
    group: &RankedGroup<'_>,
    kind: &str,
    strata: &[String],
    measure: &str,
) -> HtmlPiece {
    let sides = group.best_sides(measure);
    let bar = |side: &ReportedSide<'_>, stratum: &str| {
        let row = side.row(stratum, measure)?;
        Some(PlottedBar { value: row.value?, interval: row.low.zip(row.high) })
    };
    let bars = strata.iter().map(|stratum| BarGroup {
        name: stratum.split_once('=').map_or(stratum.as_str(), |(_, value)| value).to_owned(),
        bars: sides.iter().map(|side| bar(side, stratum)).collect(),
    });
    let name = format!("by-{kind}-{measure}-{}", group.name);
    let mut table = PageTable::new(&name, &["configuration"]);
    table.columns.extend(strata.iter().cloned());
    for side in group.sides.iter().filter(|side| side.value("all", measure).is_some()) {
        table.push(
            [HtmlPiece::text(&side.label())]
                .into_iter()
                .chain(strata.iter().map(|stratum| estimate(side, stratum, measure))),
        );
    }
    let titles = PlotTitles { title: format!("{measure} by {kind}"), x: kind.to_owned(), y: measure.to_owned() };
    let series: Vec<String> = sides.iter().map(|side| side.label_of(measure)).collect();
    page.plot(&name, &bar_plot(&titles, &series, &bars.collect::<Vec<_>>()), &titles.title, &table)
}
