//! The table of published figures: `jobs/papers/published.csv`, or another one with its columns.
//!
//! Columns up to `note` are the figures as printed. The others say what belongs to them here (the jobs that show them,
//! the configuration, the measure) and their conditions. In a column of conditions, an empty cell means that the paper
//! does not state it, and a dash that it does not apply.

use super::error::ReproduceError;
use hopeval_measures::Profile;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;

/// The project's own table.
const OWN: &[u8] = include_bytes!("../../../papers/published.csv");

/// A condition that does not apply.
pub(super) const NOT_APPLICABLE: &str = "-";

/// Stands between a measure and its profile.
const BY: &str = " by ";

/// A published figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedFigure {
    /// The paper.
    pub paper: String,
    /// The table, figure or section.
    pub item: String,
    /// The system, as the paper calls it.
    pub system: String,
    /// Its model.
    pub model: String,
    /// Its setting.
    pub setting: String,
    /// The dataset.
    pub dataset: String,
    /// The split.
    pub split: String,
    /// The number of evaluated questions.
    pub questions: Option<u64>,
    /// The paper's measure.
    pub measure: String,
    /// The value as printed.
    pub value: f64,
    /// The printed deviation.
    pub std: Option<f64>,
    /// The unit of both.
    pub unit: String,
    /// A remark.
    pub note: String,
    /// The jobs that show it, as PAPER/NAME with spaces between.
    pub jobs: String,
    /// The configuration of these jobs.
    pub configuration: String,
    /// The measure of hopeval; ` by PROFILE` behind it names the rules of answers that the paper scores by.
    pub own_measure: String,
    /// Whether `all` questions of the split were evaluated, or `drawn` ones that the paper does not name.
    pub sample: String,
    /// The number of passages of the corpus.
    pub passages: String,
    /// The origin of links, as in a run's record.
    pub links: String,
    /// The models by role, as `ROLE=NAME; ROLE=NAME`.
    pub models: String,
    /// The prompts: the beginning of the digest of equal ones here, or `authors`.
    pub prompts: String,
    /// A further difference that no run can mend, in words.
    pub differs: String,
}

/// The table.
#[derive(Clone, Debug, PartialEq)]
pub struct PublishedFigures {
    rows: Vec<PublishedFigure>,
}

impl PublishedFigure {
    /// The name of hopeval's measure.
    pub(super) fn own_name(&self) -> &str {
        self.own_measure.split_once(BY).map_or(&self.own_measure, |(name, _)| name)
    }

    /// The profile that the paper scores answers by, where the table says it.
    pub(super) fn own_profile(&self) -> Option<&str> {
        self.own_measure.split_once(BY).map(|(_, profile)| profile)
    }

    /// Checks the rules of answers: a known profile, behind a measure of answers. An error is the cell.
    fn check_rules(&self) -> Result<(), String> {
        let Some(profile) = self.own_profile() else { return Ok(()) };
        let is_known = profile.parse::<Profile>().is_ok_and(|profile| profile.measures().contains(&self.own_name()));
        if is_known { Ok(()) } else { Err(self.own_measure.clone()) }
    }

    /// The factor from hopeval's value, a share or a count, to the unit of the published one.
    pub(super) fn scale(&self) -> f64 {
        if self.unit == "%" { 100.0 } else { 1.0 }
    }

    /// The jobs that show it.
    fn jobs(&self) -> impl Iterator<Item = &str> {
        self.jobs.split_whitespace()
    }
}

impl PublishedFigures {
    /// The project's own table.
    ///
    /// # Errors
    /// None, as the tests show: the table is part of the program.
    pub fn own() -> Result<Self, ReproduceError> {
        Self::read(OWN, Path::new("published.csv"))
    }

    /// Reads another table.
    ///
    /// # Errors
    /// The file cannot be read, a column is missing, or a cell is of another type; the error names the line.
    pub fn load(path: &Path) -> Result<Self, ReproduceError> {
        let failed = |source| ReproduceError::Published { path: path.to_owned(), source };
        Self::read(std::fs::File::open(path).map_err(|error| failed(error.into()))?, path)
    }

    fn read(from: impl Read, path: &Path) -> Result<Self, ReproduceError> {
        let failed = |source| ReproduceError::Published { path: path.to_owned(), source };
        let mut reader = csv::Reader::from_reader(from);
        let columns = reader.headers().map_err(failed)?.clone();
        let mut rows = Vec::new();
        for record in reader.into_records() {
            let record = record.map_err(failed)?;
            let line = record.position().map_or(0, csv::Position::line);
            let row: PublishedFigure = record.deserialize(Some(&columns)).map_err(failed)?;
            row.check_rules().map_err(|found| ReproduceError::Rules { path: path.to_owned(), line, found })?;
            rows.push(row);
        }
        Ok(Self { rows })
    }

    /// The figures that the job PAPER/NAME shows, in the table's order.
    pub fn of_job(&self, key: &str) -> Vec<&PublishedFigure> {
        self.rows.iter().filter(|row| row.jobs().any(|job| job == key)).collect()
    }

    /// The names of all jobs with figures.
    pub fn job_names(&self) -> String {
        let names: BTreeSet<&str> = self.rows.iter().flat_map(PublishedFigure::jobs).collect();
        names.into_iter().collect::<Vec<_>>().join(", ")
    }

    /// All figures.
    pub fn rows(&self) -> &[PublishedFigure] {
        &self.rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_table_has_well_formed_conditions() {
        let own = PublishedFigures::own().unwrap();
        assert_eq!(own.rows.len(), 1035);
        let without = own.rows().iter().filter(|row| ["em", "f1"].contains(&row.own_measure.as_str()));
        assert_eq!(without.count(), 0, "a figure of answers names its rules");
        for row in own.rows() {
            assert!(["", "all", "drawn"].contains(&row.sample.as_str()), "{row:?}");
            assert!(["", "-", "hyperlinks"].contains(&row.links.as_str()), "{row:?}");
            assert!(row.passages.is_empty() || row.passages == NOT_APPLICABLE || row.passages.parse::<u64>().is_ok());
            let roles = row.models.split("; ").filter(|role| !role.is_empty() && *role != NOT_APPLICABLE);
            assert!(roles.clone().all(|role| role.contains('=')), "{row:?}");
            assert!(row.configuration.is_empty() || !row.jobs.is_empty(), "{row:?}");
        }
        assert!(own.of_job("promptrank/table-1").len() > 20 && own.of_job("promptrank/none").is_empty());
        assert!(own.job_names().contains("efficientrag/table-4-musique, "));
    }

    #[test]
    fn a_wrong_cell_is_named_with_its_line() {
        let text = String::from_utf8(OWN.to_vec()).unwrap().lines().take(2).collect::<Vec<_>>().join("\n");
        let wrong = text.replacen(",357,", ",many,", 1);
        assert_ne!(text, wrong);
        let error = PublishedFigures::read(wrong.as_bytes(), Path::new("other.csv")).unwrap_err();
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert!(error.to_string().contains("other.csv") && source.contains("line: 2"), "{error}: {source}");
    }
}
