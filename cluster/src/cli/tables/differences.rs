//! The differences of a run's configurations from one of them.

use super::by_measure::{MeasureCell, by_measure};
use super::{SHORT_NOTE, UNKNOWN, marked, p_value_text};
use crate::print;
use hopeval_jobs::report::compare::{Comparison, ComparisonResults};
use hopeval_measures::MeasureSet;
use hopeval_measures::aggregate::ValueRange;
use std::collections::BTreeSet;

/// Whether a measure has better and worse values: shares are better the higher, and counts (`chunks`) are neither.
pub(crate) fn has_better(set: &MeasureSet, measure: &str) -> bool {
    set.names().iter().zip(set.ranges()).any(|(name, range)| name == measure && range == ValueRange::Share)
}

/// Tables of differences: configurations in rows, measures in columns; controls have a table of their own. A line says
/// which direction is better.
pub(crate) fn difference_tables(compared: &ComparisonResults, set: &MeasureSet) -> String {
    let against = &compared.against;
    let stratum = if compared.stratum == "all" { String::new() } else { format!(", stratum {}", compared.stratum) };
    let mut text = print::wrapped(&format!(
        "\nless `{against}`{stratum}, paired by question: mean difference [95 % interval] p value (Holm, over the \
         rows)\n"
    ));
    // Measures without any value get no column.
    let told = || compared.differences.iter().filter(|found| found.difference.is_some());
    if let Some(line) = direction_line(told().map(|found| found.measure.as_str()), against, set) {
        text.push_str(&print::wrapped(&format!("{line}\n")));
    }
    for controls in [false, true] {
        let of: Vec<&Comparison> = told().filter(|found| found.control.is_some() == controls).collect();
        if !of.is_empty() {
            text.push_str(&format!("{}\n{}\n", if controls { "\ncontrols\n" } else { "" }, comparison_table(&of)));
        }
    }
    if told().any(|found| found.ranked.is_some()) {
        let note = format!("\n{SHORT_NOTE}, of the configuration or of `{against}`\n");
        text.push_str(&print::wrapped(&note));
    }
    if told().next().is_none() {
        text.push_str(&print::wrapped(&format!(
            "\nnothing: of no other configuration do two questions have a value that `{against}` has too, in the \
             measures that are shown; `--measure NAME` shows others\n"
        )));
    }
    if !compared.left_out.is_empty() {
        let note = format!("\nof another context mode, and left out: {}\n", compared.left_out.join(", "));
        text.push_str(&print::wrapped(&note));
    }
    text.trim_end().to_owned()
}

/// Says which direction is better; `None` without a measure.
fn direction_line<'a>(measures: impl Iterator<Item = &'a str>, against: &str, set: &MeasureSet) -> Option<String> {
    let (better, neither): (BTreeSet<&str>, BTreeSet<&str>) = measures.partition(|measure| has_better(set, measure));
    let neither: Vec<String> = neither.into_iter().map(|measure| format!("`{measure}`")).collect();
    let counts = format!("in {} neither direction is better", neither.join(", "));
    match (better.is_empty(), neither.is_empty()) {
        (true, true) => None,
        (false, true) => Some(format!("higher is better: + is better than `{against}`, - is worse")),
        (false, false) => Some(format!("higher is better: + is better than `{against}`, - is worse; {counts}")),
        (true, false) => Some(counts),
    }
}

fn comparison_table(found: &[&Comparison]) -> String {
    let cells = found.iter().map(|found| MeasureCell {
        configuration: &found.configuration,
        measure: &found.measure,
        count: found.n,
        figure: difference_figure(found),
    });
    by_measure("n", &cells.collect::<Vec<_>>())
}

fn difference_figure(found: &Comparison) -> String {
    let shown = |value: Option<f64>| value.map_or(UNKNOWN.to_owned(), |value| format!("{value:+.4}"));
    let p = p_value_text(found.p_holm);
    marked(format!("{} [{}, {}] {p}", shown(found.difference), shown(found.low), shown(found.high)), found.ranked)
}
