//! The figures of scored files of predictions.

use super::UNKNOWN;
use super::differences::difference_tables;
use super::fitted::FigureTable;
use super::measures::{MeasureChoice, coverage_text, figure_notes, figure_text};
use crate::print;
use hopeval_jobs::report::compare::ComparisonResults;
use hopeval_jobs::report::measure_means::row_coverage;
use hopeval_jobs::report::scoring::{ScoredFile, ScoredFiles};
use hopeval_results::tables::MeasureRow;
use std::collections::BTreeMap;

/// The most strata of a kind that are shown without being asked for.
const MOST_STRATA: usize = 12;

/// A table for each shown stratum, or one of all questions and one for each kind of strata; then the differences.
pub(crate) fn scored_text(
    scored: &ScoredFiles,
    rows: &[MeasureRow],
    choice: &MeasureChoice,
    compared: &[ComparisonResults],
) -> String {
    let tables = ScoredTables::new(scored, rows, choice);
    let mut text = print::wrapped(&heading(scored));
    let mut shown: Vec<&MeasureRow> = Vec::new();
    for stratum in choice.strata() {
        let caption = if stratum == "all" { String::new() } else { format!("\nstratum {stratum}\n") };
        text.push_str(&format!("{caption}\n{}\n", tables.table(&[stratum], false, &mut shown)));
    }
    if choice.strata.is_empty() {
        for (kind, strata) in kinds(scored) {
            let count = strata.len();
            if count > MOST_STRATA {
                text.push_str(&print::wrapped(&format!(
                    "\nby {kind}: {count} strata, such as {}, which `--stratum {}` shows\n",
                    strata[0], strata[0]
                )));
            } else if count > 1 {
                text.push_str(&format!("\nby {kind}\n\n{}\n", tables.table(&strata, true, &mut shown)));
            }
        }
    }
    text.push_str(&figure_notes(&shown, choice.intervals));
    for found in compared {
        text.push_str(&format!("{}\n", difference_tables(found, &scored.set)));
    }
    text.trim_end().to_owned()
}

/// The files, and what they lack.
fn heading(scored: &ScoredFiles) -> String {
    let ScoredFiles { questions, unjudged, files, set, .. } = scored;
    let mut text = format!("{questions} questions, profile {}\n", set.profile());
    for ScoredFile { name, rows, used, .. } in files {
        let missing = questions - used;
        text.push_str(&format!("{name}: {used} of its {rows} rows; "));
        text.push_str(&match missing {
            0 => "every question has a row\n".to_owned(),
            _ => format!("{missing} of {questions} questions have no row, and count 0\n"),
        });
    }
    if *unjudged > 0 {
        text.push_str(&format!(
            "{unjudged} of {questions} questions have no judgement: their rankings have no value\n"
        ));
    }
    text
}

/// The strata by kind: `type` of `type=bridge`.
fn kinds(scored: &ScoredFiles) -> BTreeMap<&str, Vec<&str>> {
    let mut kinds: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for stratum in &scored.strata {
        if let Some((kind, _)) = stratum.split_once('=') {
            kinds.entry(kind).or_default().push(stratum);
        }
    }
    kinds
}

/// The figures of all files, ready for tables.
struct ScoredTables<'a> {
    scored: &'a ScoredFiles,
    intervals: bool,
    /// The shown measures.
    measures: Vec<&'a str>,
    by_name: BTreeMap<(&'a str, &'a str, &'a str), &'a MeasureRow>,
}

impl<'a> ScoredTables<'a> {
    fn new(scored: &'a ScoredFiles, rows: &'a [MeasureRow], choice: &MeasureChoice) -> Self {
        let key = |row: &'a MeasureRow| (row.configuration.as_str(), row.stratum.as_str(), row.measure.as_str());
        let by_name = rows.iter().map(|row| (key(row), row)).collect();
        let measures = shown_measures(scored, rows, choice);
        Self { scored, intervals: choice.intervals, measures, by_name }
    }

    /// A table of these strata: a row for each stratum and file. Its figures are added to `shown`.
    fn table(&self, strata: &[&'a str], named: bool, shown: &mut Vec<&'a MeasureRow>) -> String {
        let files = &self.scored.files;
        let lines = strata.iter().flat_map(|&stratum| files.iter().map(move |file| (stratum, file.name.as_str())));
        let mut rows = Vec::new();
        for (stratum, file) in lines {
            let figures: Vec<Option<&MeasureRow>> =
                self.measures.iter().map(|measure| self.by_name.get(&(file, stratum, measure)).copied()).collect();
            shown.extend(figures.iter().flatten());
            let most = figures.iter().flatten().map(|row| row.n).max().unwrap_or(0);
            let coverage = row_coverage(figures.iter().flatten().copied(), &self.scored.set);
            let mut cells = if named { vec![stratum.to_owned()] } else { Vec::new() };
            if !named || files.len() > 1 {
                cells.push(file.to_owned());
            }
            cells.push(most.to_string());
            cells.push(coverage_text(coverage));
            cells.extend(figures.iter().map(|figure| self.cell(*figure, most)));
            rows.push(cells);
        }
        let mut header = if named { vec!["stratum"] } else { Vec::new() };
        if !named || files.len() > 1 {
            header.push("predictions");
        }
        header.extend(["n", "coverage"]);
        let names = header.len();
        header.extend(&self.measures);
        FigureTable { names, ..FigureTable::new(&header, rows) }.to_text()
    }

    /// A figure, with its number of questions where the row has more.
    fn cell(&self, figure: Option<&MeasureRow>, most: u64) -> String {
        let Some(figure) = figure.filter(|figure| figure.n > 0) else { return UNKNOWN.to_owned() };
        let fewer = if figure.n < most { format!(" (n = {})", figure.n) } else { String::new() };
        figure_text(figure, self.intervals) + &fewer
    }
}

/// The measures with a value that are named, or else the headline ones; without any of these, all.
fn shown_measures<'a>(scored: &'a ScoredFiles, rows: &[MeasureRow], choice: &MeasureChoice) -> Vec<&'a str> {
    let has_value = |name: &str| rows.iter().any(|row| row.n > 0 && row.measure == name);
    let with_value: Vec<&str> = scored.set.names().iter().map(String::as_str).filter(|name| has_value(name)).collect();
    if !choice.measures.is_empty() {
        return with_value.into_iter().filter(|name| choice.measures.iter().any(|wanted| wanted == name)).collect();
    }
    let headline: Vec<&str> = with_value.iter().copied().filter(|name| choice.is_headline(name)).collect();
    if headline.is_empty() { with_value } else { headline }
}
