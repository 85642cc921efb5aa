//! Published figures beside a run's own, where `hopeval reproduce` says that they compare.

use super::html::HtmlPiece;
use super::page_table::PageTable;
use super::runs::ReportedRun;
use anyhow::Result;
use hopeval_jobs::report::reproduce::{PublishedFigures, Reproduction, reproduce};
use hopeval_public_files::PublicFiles;
use std::collections::BTreeSet;

/// The section's content: of the runs whose job has the name of one with published figures.
///
/// # Errors
/// The table of published figures or a file of the dataset cannot be read.
pub(super) fn paper_section(runs: &[ReportedRun]) -> Result<HtmlPiece> {
    let published = PublishedFigures::own()?;
    let files = PublicFiles::own()?;
    let names: BTreeSet<&str> = published.rows().iter().flat_map(|row| row.jobs.split_whitespace()).collect();
    let mut content = HtmlPiece::default();
    for run in runs.iter().filter(|run| run.figures.finished) {
        let is_of = |key: &&&str| key.rsplit('/').next() == Some(run.open.record.job.as_str());
        for key in names.iter().filter(is_of) {
            let found = reproduce(&run.open, key, &published, &files, false)?;
            // Jobs of two papers can have one name: the other one's figures are not of this run.
            if found.figures.iter().any(|figure| figure.value.is_some()) {
                content.push(of_run(run, &found));
            }
        }
    }
    Ok(content)
}

fn of_run(run: &ReportedRun, found: &Reproduction) -> HtmlPiece {
    let letter = run.letter.map_or(String::new(), |letter| format!("{letter}: "));
    let all = found.figures.len();
    let mut content = HtmlPiece::paragraph(&format!(
        "{letter}{} of the {all} published figures of the job {} compare; hopeval reproduce names every condition that \
         differs or is not known. Differences have the interval of the run's questions; the published figure is taken \
         as exact.",
        found.comparable, found.job
    ));
    if found.comparable == 0 {
        return content;
    }
    let id = format!("papers-{}{}", found.job.replace('/', "-"), run.letter.map_or(String::new(), |l| format!("-{l}")));
    let columns =
        ["item", "system", "dataset", "measure", "published", "run", "n", "difference", "low", "high", "unit"];
    let mut table = PageTable::new(&id, &columns);
    for figure in found.figures.iter().filter(|figure| figure.is_comparable) {
        let row = &figure.published;
        let system = format!("{} {}", row.system, row.model);
        let texts = [row.item.as_str(), system.trim_end(), &row.dataset, &row.measure].map(HtmlPiece::text);
        let difference = figure.difference;
        let figures = [
            HtmlPiece::number(row.value, &row.value.to_string()),
            HtmlPiece::share(figure.value),
            figure.questions.map_or_else(HtmlPiece::unknown, HtmlPiece::count),
            HtmlPiece::share(difference.map(|d| d.value)),
            HtmlPiece::share(difference.and_then(|d| d.low)),
            HtmlPiece::share(difference.and_then(|d| d.high)),
            HtmlPiece::text(&row.unit),
        ];
        table.push(texts.into_iter().chain(figures));
    }
    content.push(table.to_html());
    content
}
