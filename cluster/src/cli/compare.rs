//! How the configurations of a run differ from one of them, beside the tables of a run.

use super::replicates::is_wanted;
use crate::print;
use anyhow::Result;
use hopeval_jobs::compare::{Comparison, compare};
use hopeval_jobs::run::Open;

/// The differences from `against` in the measures that are shown.
pub(super) fn comparisons(run: &Open, against: &str, measures: &[String], stratum: &str) -> Result<Vec<Comparison>> {
    Ok(compare(run, against, stratum, &|measure| is_wanted(measure, measures))?)
}

/// A table of them: configurations in rows, measures in columns.
pub(super) fn table(against: &str, found: &[Comparison]) -> String {
    let (mut rows, mut columns): (Vec<&str>, Vec<&str>) = Default::default();
    // A measure that no configuration has is no column.
    let told = || found.iter().filter(|found| found.difference.is_some());
    for found in told() {
        if !rows.contains(&found.configuration.as_str()) {
            rows.push(&found.configuration);
        }
        if !columns.contains(&found.measure.as_str()) {
            columns.push(&found.measure);
        }
    }
    let of = |name: &str, measure: &str| told().find(|found| found.configuration == name && found.measure == measure);
    let body = rows.iter().map(|name| {
        let count = told().filter(|found| found.configuration == *name).map(|found| found.n).max().unwrap_or(0);
        let cells = columns.iter().map(|measure| of(name, measure).map_or(print::UNKNOWN.to_owned(), figure));
        [(*name).to_owned(), count.to_string()].into_iter().chain(cells).collect::<Vec<String>>()
    });
    let header: Vec<&str> = ["configuration", "n"].into_iter().chain(columns.iter().copied()).collect();
    let table = print::markdown(&header, body);
    format!(
        "\nless `{against}`, paired by question: mean difference [95 % interval] p value (Holm, over the rows)\n\n{table}"
    )
}

fn figure(found: &Comparison) -> String {
    let shown = |value: Option<f64>| value.map_or(print::UNKNOWN.to_owned(), |value| format!("{value:+.4}"));
    let p = found.p_holm.map_or(print::UNKNOWN.to_owned(), |p| format!("{p:.4}"));
    format!("{} [{}, {}] {p}", shown(found.difference), shown(found.low), shown(found.high))
}
