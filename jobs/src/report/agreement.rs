//! Agreement of judges with the exact match, and with people's marks.

use crate::error::JobError;
use crate::run::evaluation::evaluate_outcomes;
use crate::run::evaluator::JudgedWord;
use crate::run::open::OpenRun;
use hopeval_measures::agreement::RaterAgreement;
use hopeval_results::Log;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// The agreement of one judge over one judged configuration with another rater.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JudgeAgreement {
    /// The judge over the judged configuration.
    pub configuration: String,
    /// The judged configuration.
    pub judged: String,
    /// The other rater: `em`, or `people`.
    pub with: &'static str,
    /// Answers with the words of both.
    pub n: u64,
    /// The share of them with equal words; `None` without any.
    pub share: Option<f64>,
    /// Cohen's kappa; `None` where it is undefined.
    pub kappa: Option<f64>,
    /// Lower end of its 95 % interval.
    pub low: Option<f64>,
    /// Upper end of its 95 % interval.
    pub high: Option<f64>,
    /// Answers that both accept.
    pub both_yes: u64,
    /// Answers that only the judge accepts.
    pub judge_only: u64,
    /// Answers that only the other rater accepts.
    pub other_only: u64,
    /// Answers that neither accepts.
    pub both_no: u64,
}

/// The agreement of a run's judges with others.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct AgreementReport {
    /// By configuration, in the run's order: with the exact match and, if there are marks, with people.
    pub agreements: Vec<JudgeAgreement>,
    /// Marks of people; `None` without a file of them.
    pub marks: Option<u64>,
    /// Marks of answers that no judge of the run has a word about.
    pub unused_marks: u64,
}

/// A person's mark of an answer: a line of a file of marks.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct MarkLine {
    /// The question's id.
    question: String,
    /// The judged configuration; left out, the mark is of every configuration with this prediction.
    #[serde(default)]
    configuration: Option<String>,
    /// The answer; left out, it is the configuration's, whatever it is.
    #[serde(default)]
    prediction: Option<String>,
    /// Whether it is right.
    mark: bool,
}

/// People's marks of answers.
#[derive(Clone, Debug, Default)]
pub struct HumanMarks {
    /// By question: the marks with their lines.
    lines: BTreeMap<String, Vec<(u64, MarkLine)>>,
    count: u64,
}

impl HumanMarks {
    /// Reads a file of marks, as JSON Lines.
    ///
    /// # Errors
    /// A file that cannot be read; [`JobError::Mark`] names the first wrong line.
    pub fn read(path: &Path) -> Result<Self, JobError> {
        let failed = |source| JobError::Io { path: path.into(), operation: "cannot read", source };
        let mut marks = Self::default();
        for (number, line) in (1..).zip(BufReader::new(File::open(path).map_err(failed)?).lines()) {
            let line = line.map_err(failed)?;
            if line.trim().is_empty() {
                continue;
            }
            let wrong = |found: String| JobError::Mark { path: path.into(), line: number, found };
            let mark: MarkLine = serde_json::from_str(&line).map_err(|error| wrong(error.to_string()))?;
            if mark.configuration.is_none() && mark.prediction.is_none() {
                return Err(wrong("neither `configuration` nor `prediction`".to_owned()));
            }
            marks.count += 1;
            marks.lines.entry(mark.question.clone()).or_default().push((number, mark));
        }
        Ok(marks)
    }

    /// The mark of a judged answer with the lines that say it; `None` if nobody marked it, or if marks contradict each
    /// other.
    fn find(&self, question: &str, word: &JudgedWord<'_>) -> (Option<bool>, Vec<u64>) {
        let fits = |mark: &MarkLine| {
            mark.configuration.as_deref().is_none_or(|name| name == word.configuration)
                && mark.prediction.as_deref().is_none_or(|text| text == word.prediction)
        };
        let of_question = self.lines.get(question).into_iter().flatten();
        let found: Vec<(u64, bool)> =
            of_question.filter(|(_, mark)| fits(mark)).map(|(line, mark)| (*line, mark.mark)).collect();
        let first = found.first().map(|(_, mark)| *mark);
        let mark = first.filter(|first| found.iter().all(|(_, mark)| mark == first));
        (mark, found.into_iter().map(|(line, _)| line).collect())
    }
}

/// The agreement of the judges of `run` with the exact match and, if given, with people. Outcomes without a word are
/// left out.
///
/// # Errors
/// The outcomes or the questions cannot be read.
pub fn judge_agreement(run: &OpenRun, marks: Option<&HumanMarks>) -> Result<AgreementReport, JobError> {
    let log = Log::open(&run.places.store, run.id())?;
    let mut counts = vec![[RaterAgreement::default(); 2]; run.resolved.configurations.len()];
    let mut judged: Vec<Option<String>> = vec![None; counts.len()];
    let mut used = BTreeSet::new();
    evaluate_outcomes(run, &log, &mut |question, outcome, _| {
        let Some(word) = run.evaluator.judged_word(question, &outcome) else { return Ok(()) };
        let at = outcome.configuration as usize;
        judged[at].get_or_insert_with(|| word.configuration.to_owned());
        counts[at][0].add(word.says_yes, word.is_exact);
        if let Some(marks) = marks {
            let (mark, lines) = marks.find(&outcome.question, &word);
            used.extend(lines);
            if let Some(mark) = mark {
                counts[at][1].add(word.says_yes, mark);
            }
        }
        Ok(())
    })?;
    let raters = if marks.is_some() { &["em", "people"][..] } else { &["em"] };
    let names = run.configuration_names();
    let subjects = names.into_iter().zip(judged).zip(&counts);
    let rows = subjects.filter_map(|((name, judged), counts)| Some((name, judged?, counts)));
    let agreements = rows.flat_map(|(name, judged, counts)| {
        let of = move |(&with, counts): (&&'static str, &RaterAgreement)| agreement(&name, &judged, with, counts);
        raters.iter().zip(counts).map(of).collect::<Vec<_>>()
    });
    let count = marks.map(|marks| marks.count);
    Ok(AgreementReport {
        agreements: agreements.collect(),
        marks: count,
        unused_marks: count.unwrap_or(0) - used.len() as u64,
    })
}

fn agreement(name: &str, judged: &str, with: &'static str, counts: &RaterAgreement) -> JudgeAgreement {
    let interval = counts.kappa_interval();
    JudgeAgreement {
        configuration: name.to_owned(),
        judged: judged.to_owned(),
        with,
        n: counts.n(),
        share: counts.share(),
        kappa: counts.kappa(),
        low: interval.map(|(low, _)| low),
        high: interval.map(|(_, high)| high),
        both_yes: counts.both_yes,
        judge_only: counts.first_only,
        other_only: counts.second_only,
        both_no: counts.both_no,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<HumanMarks, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("marks.jsonl");
        std::fs::write(&path, text).unwrap();
        HumanMarks::read(&path).map_err(|error| error.to_string())
    }

    #[test]
    fn marks_are_of_a_configuration_or_of_a_text() {
        let marks = read(
            "{\"question\": \"q\", \"configuration\": \"a\", \"mark\": true}\n\n\
             {\"question\": \"q\", \"prediction\": \"Rome\", \"mark\": false}\n",
        )
        .unwrap();
        let find = |configuration, prediction| {
            marks.find("q", &JudgedWord { configuration, prediction, says_yes: true, is_exact: true })
        };
        assert_eq!(find("a", "Paris"), (Some(true), vec![1]));
        assert_eq!(find("b", "Rome"), (Some(false), vec![3]));
        assert_eq!(find("a", "Rome"), (None, vec![1, 3]), "they contradict each other");
        assert_eq!(find("b", "Paris"), (None, vec![]));
        assert_eq!(marks.count, 2);
    }

    #[test]
    fn a_wrong_line_is_named() {
        let said = read("{\"question\": \"q\", \"configuration\": \"a\", \"mark\": true}\n{\"question\": \"q\"}\n");
        assert!(said.clone().unwrap_err().contains("marks.jsonl:2: missing field `mark`"), "{said:?}");
        let said = read("{\"question\": \"q\", \"mark\": true}");
        assert!(said.clone().unwrap_err().contains("neither `configuration` nor `prediction`"), "{said:?}");
    }
}
