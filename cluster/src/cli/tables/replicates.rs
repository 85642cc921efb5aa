//! The variation of figures between replicates.

use super::by_measure::{MeasureCell, by_measure};
use super::{SHORT_NOTE, marked};
use crate::print;
use hopeval_jobs::report::replicates::ReplicateSpread;
use hopeval_jobs::report::show::RunFigures;

/// A table of the means over replicates with their deviation; `None` for a run without replicates.
pub(crate) fn replicate_table(shown: &RunFigures, measures: &[String], stratum: &str) -> Option<String> {
    let wanted = |spread: &&ReplicateSpread| is_wanted(&spread.measure, measures) && spread.stratum == stratum;
    let spreads: Vec<&ReplicateSpread> = shown.replicates.iter().filter(wanted).collect();
    if spreads.is_empty() {
        return None;
    }
    let cells = spreads.iter().map(|spread| MeasureCell {
        configuration: &spread.configuration,
        measure: &spread.measure,
        count: spread.replicates,
        figure: spread_figure(spread),
    });
    let table = by_measure("replicates", &cells.collect::<Vec<_>>());
    let has_short = spreads.iter().any(|spread| spread.ranked.is_some());
    let note = if has_short { print::wrapped(&format!("\n\n{SHORT_NOTE}")) } else { String::new() };
    let of_stratum = if stratum == "all" { String::new() } else { format!(", stratum {stratum}") };
    let heading = print::wrapped(&format!(
        "\nover replicates{of_stratum}: mean (standard deviation between them) [95 % interval of the mean, over \
         questions]"
    ));
    Some(format!("{heading}\n\n{table}{note}"))
}

/// Whether a measure is shown: the user's choice, or else answers, judges' accuracies and recall of all gold.
pub(crate) fn is_wanted(measure: &str, named: &[String]) -> bool {
    if !named.is_empty() {
        return named.iter().any(|name| name == measure);
    }
    matches!(measure, "em" | "f1" | "accuracy" | "has_answer")
        || measure.starts_with("acc_")
        || measure.starts_with("recall_all@")
        || measure.starts_with("answer_recall@")
        || measure.starts_with("bridge_answer_recall@")
}

fn spread_figure(spread: &ReplicateSpread) -> String {
    let deviation = spread.deviation.map_or(String::new(), |deviation| format!(" ({deviation:.4})"));
    let interval = spread.low.zip(spread.high).map_or(String::new(), |(low, high)| format!(" [{low:.4}, {high:.4}]"));
    marked(format!("{:.4}{deviation}{interval}", spread.mean), spread.ranked)
}
