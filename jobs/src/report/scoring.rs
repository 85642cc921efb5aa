//! Scores files of predictions against gold, without a run: the measures, strata and paired differences of runs, over
//! answers and rankings that lie in files.
//!
//! ```text
//!   gold (a dataset, judgements, or both) --question by question--> rows of each file, by id
//!     --answer, ranking as positions of gold--> MeasureSet --> values --> means by stratum, paired differences
//! ```
//!
//! There is no corpus: a ranked passage is gold if its name is that of a gold passage, and any other name is a passage
//! that is not gold. Measures over the texts of passages have no values.

mod gold_names;

use self::gold_names::{GoldNames, NameMeaning};
use super::compare::{Comparison, ComparisonResults, adjust_p_values};
use super::measure_means::measure_row;
use crate::error::JobError;
use crate::job::scoring::profile_of;
use crate::prepare::questions::{ALL, strata_names};
use crate::prepare::rankings::{BroughtRows, exported_name, wrong_row};
use hopeval_datasets::{
    DatasetError, DatasetSpec, FieldMapping, Format, GoldMatch, GoldPassage, Question, Questions, RankingsFile,
    RankingsRow, RowPolicy, read_judged_questions,
};
use hopeval_measures::{GoldGroups, MeasureBuffers, MeasureSet, OutcomeWithGold, Profile, Settings};
use hopeval_results::tables::MeasureRow;
use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;

/// Files to be scored, and what they are scored against.
#[derive(Debug, Default)]
pub struct ScoringFiles {
    /// The dataset with the gold.
    pub gold: Option<DatasetSpec>,
    /// Judgements of passages (TREC or BEIR), in place of the dataset's gold passages.
    pub qrels: Option<PathBuf>,
    /// The files of predictions.
    pub predictions: Vec<RankingsFile>,
    /// The measures.
    pub measures: Settings,
}

/// The figures of scored files.
#[derive(Debug)]
pub struct ScoredFiles {
    /// The measures.
    pub set: MeasureSet,
    /// Questions of the gold.
    pub questions: u64,
    /// Questions without a judgement, if there are judgements beside a dataset: their rankings have no value.
    pub unjudged: u64,
    /// The name of a gold passage, as an example.
    pub gold_example: Option<String>,
    /// All strata, `all` first, then by name.
    pub strata: Vec<String>,
    /// The files, in the given order.
    pub files: Vec<ScoredFile>,
    /// By question: the positions of its strata.
    strata_of: Vec<Vec<u32>>,
}

/// One of the files.
#[derive(Debug)]
pub struct ScoredFile {
    /// Its name: that of the file, or its path where two files have one name.
    pub name: String,
    /// Its path.
    pub path: PathBuf,
    /// Questions in the file.
    pub rows: u64,
    /// Those of them that the gold has.
    pub used: u64,
    /// Ranked passages that are gold, over all questions; `None` for a file without rankings.
    pub gold_found: Option<u64>,
    /// The passages of its longest ranking, if it has rankings.
    longest: Option<u32>,
    /// By question and measure.
    values: Vec<Option<f64>>,
    /// By question: whether the file has a row of it.
    found: Vec<bool>,
}

/// A file while it is scored.
struct OpenedFile {
    rows: BroughtRows,
    answers: bool,
    rankings: bool,
    supporting: bool,
    gold_found: u64,
    values: Vec<Option<f64>>,
    found: Vec<bool>,
}

/// Scores files of predictions.
///
/// # Errors
/// A file that cannot be read; a wrong row; a file without a row of any question; a name that several passages share; a
/// measure that cannot be.
pub fn score_files(files: ScoringFiles) -> Result<ScoredFiles, JobError> {
    let gold = GoldSource::open(&files)?;
    let names = file_names(&files.predictions);
    let mut opened: Vec<OpenedFile> = files.predictions.into_iter().map(OpenedFile::new).collect();
    let set = MeasureSet::new(&files.measures, gold.profile)?;
    let (rule, mut unjudged) = (gold.rule, gold.judged.is_some().then_some(0));
    let (mut strata_of, mut numbers): (Vec<Vec<u32>>, HashMap<String, u32>) = Default::default();
    let (mut buffers, mut values) = (MeasureBuffers::default(), Vec::new());
    let mut gold_example = None;
    gold.visit_questions(&mut |question, is_judged| {
        let mut names = question.gold.iter().filter_map(|gold| gold.id.as_ref().or(gold.title.as_ref()));
        gold_example = gold_example.take().or_else(|| names.next().cloned());
        let names = GoldNames::of_question(question, rule);
        for file in &mut opened {
            file.score_question(question, &names, &set, &mut buffers, &mut values)?;
        }
        let others = question.strata.iter();
        let strata = strata_names(question.kind.as_deref(), question.hops, others).into_iter().map(|name| {
            let next = numbers.len() as u32;
            *numbers.entry(name).or_insert(next)
        });
        strata_of.push(strata.collect());
        if let Some(count) = unjudged.as_mut().filter(|_| !is_judged) {
            *count += 1;
        }
        Ok(())
    })?;
    let scored = opened.into_iter().zip(names).map(|(file, name)| file.finish(name)).collect::<Result<_, _>>()?;
    let (strata, strata_of) = in_order(&numbers, strata_of);
    let questions = strata_of.len() as u64;
    let unjudged = unjudged.unwrap_or(0);
    Ok(ScoredFiles { set, questions, unjudged, gold_example, strata, files: scored, strata_of })
}

impl ScoredFiles {
    /// The means of all measures over all strata, by file.
    pub fn measures(&self) -> Vec<MeasureRow> {
        let (versions, ranges): (Vec<_>, Vec<_>) = self.set.versions().zip(self.set.ranges()).unzip();
        let profile = self.set.profile().to_string();
        let measures = self.set.names().len();
        let mut rows = Vec::new();
        for file in &self.files {
            let mut sums = vec![((0, 0), (0.0, 0.0)); self.strata.len() * measures];
            for (question, strata) in self.strata_of.iter().enumerate() {
                let found = u64::from(file.found[question]);
                for (measure, value) in file.values[question * measures..][..measures].iter().enumerate() {
                    let Some(value) = value else { continue };
                    for &stratum in strata {
                        let (counts, sum) = &mut sums[stratum as usize * measures + measure];
                        *counts = (counts.0 + 1, counts.1 + found);
                        *sum = (sum.0 + value, sum.1 + value * value);
                    }
                }
            }
            for (position, (counts, sum)) in sums.into_iter().enumerate() {
                let (stratum, measure) = (&self.strata[position / measures], position % measures);
                let name = self.set.names()[measure].as_str();
                let names = (file.name.as_str(), stratum.as_str(), name, versions[measure], &*profile, "");
                let row = measure_row(names, ranges[measure], counts, sum);
                rows.push(MeasureRow { ranked: self.ranked_short(file, measure), ..row });
            }
        }
        rows
    }

    /// How the other files differ from the one at position `against`, paired by question, over the questions of one
    /// stratum, in the `wanted` measures.
    pub fn compare(&self, against: usize, stratum: u32, wanted: &dyn Fn(&str) -> bool) -> ComparisonResults {
        let base = &self.files[against];
        let (name, stratum_name) = (&base.name, &self.strata[stratum as usize]);
        let members: Vec<usize> = self.members(stratum).collect();
        let mut differences = Vec::new();
        for file in self.files.iter().enumerate().filter(|(position, _)| *position != against).map(|(_, file)| file) {
            for (measure, measure_name) in self.set.names().iter().enumerate().filter(|(_, name)| wanted(name)) {
                let difference = |&question: &usize| {
                    Some(self.value(file, question, measure)? - self.value(base, question, measure)?)
                };
                let paired: Vec<f64> = members.iter().filter_map(difference).collect();
                let short = [file, base].map(|file| self.ranked_short(file, measure));
                let named = Comparison {
                    configuration: file.name.clone(),
                    against: name.clone(),
                    stratum: stratum_name.clone(),
                    measure: measure_name.clone(),
                    ranked: short.into_iter().flatten().min(),
                    ..Comparison::default()
                };
                differences.push(named.with_differences(&paired, members.len()));
            }
        }
        adjust_p_values(&mut differences);
        let (against, stratum) = (name.clone(), stratum_name.clone());
        ComparisonResults { against, stratum, differences, left_out: Vec::new() }
    }

    /// The questions of a stratum.
    fn members(&self, stratum: u32) -> impl Iterator<Item = usize> {
        let belongs = move |(question, of): (usize, &Vec<u32>)| of.contains(&stratum).then_some(question);
        self.strata_of.iter().enumerate().filter_map(belongs)
    }

    fn value(&self, file: &ScoredFile, question: usize, measure: usize) -> Option<f64> {
        file.values[question * self.set.names().len() + measure]
    }

    /// The passages of a file's longest ranking, where the measure's cut-off is beyond.
    fn ranked_short(&self, file: &ScoredFile, measure: usize) -> Option<u32> {
        let cut_off = self.set.cut_offs().nth(measure)??;
        file.longest.filter(|&longest| cut_off > longest)
    }
}

impl OpenedFile {
    fn new(file: RankingsFile) -> Self {
        let facts = file.facts();
        let (answers, rankings, supporting) = (facts.answers > 0, facts.rankings > 0, facts.supporting > 0);
        let (values, found) = (Vec::new(), Vec::new());
        Self { rows: BroughtRows::new(file), answers, rankings, supporting, gold_found: 0, values, found }
    }

    /// Adds the values of a question. One without a row counts as a failed outcome.
    fn score_question(
        &mut self,
        question: &Question,
        names: &GoldNames,
        set: &MeasureSet,
        buffers: &mut MeasureBuffers,
        values: &mut Vec<Option<f64>>,
    ) -> Result<(), JobError> {
        let row = self.rows.find_row(&question.id)?;
        let ranked = row.as_ref().map(|row| self.ranked_passages(names, row)).transpose()?.unwrap_or_default();
        self.gold_found += ranked.iter().filter(|&&passage| passage < names.count()).count() as u64;
        let facts: Vec<(String, u32)> =
            row.iter().flat_map(|row| &row.supporting).map(|(name, sentence)| (names.title(name), *sentence)).collect();
        let groups = (0..names.count()).map(|passage| vec![passage]).collect();
        let grades = question.gold.iter().map(|gold| gold.grade).collect();
        let outcome = OutcomeWithGold {
            ok: row.is_some(),
            answer: row.as_ref().and_then(|row| row.answer.as_deref()),
            answers_expected: self.answers,
            answers: &question.answers,
            question_type: question.kind.as_deref(),
            ranked: &ranked,
            ranking_expected: self.rankings,
            gold: &GoldGroups { groups, grades },
            chunks: None,
            predicted_facts: self.supporting.then_some(facts.as_slice()),
            gold_facts: &question.supporting_facts,
            predicted_evidences: None,
            gold_evidences: &question.evidences,
            kept_form: None,
            judged: None,
            text: None,
        };
        set.evaluate_outcome(&outcome, buffers, values);
        self.values.extend_from_slice(values);
        self.found.push(row.is_some());
        Ok(())
    }

    /// A row's ranking in numbers: a gold passage has its position, any other a number behind those of gold.
    fn ranked_passages(&self, names: &GoldNames, row: &RankingsRow) -> Result<Vec<u32>, JobError> {
        const ALLOWED: &str = "names that one passage has: ids, or titles that no other passage of the question has; \
                               a job with kind = \"rankings\" looks names up in its corpus";
        let mut ranked = Vec::with_capacity(row.ranked.len());
        for (index, entry) in row.ranked.iter().enumerate() {
            let wrong =
                |found: String, allowed: &str| wrong_row(self.rows.file().ranked_error(row, index, found, allowed));
            match names.meaning(&entry.name) {
                // Several given passages may have the title that makes a passage gold: the first one counts.
                NameMeaning::Gold(position)
                    if ranked
                        .iter()
                        .zip(&row.ranked)
                        .any(|(known, earlier)| *known == position && names.differ(&earlier.name, &entry.name)) =>
                {
                    ranked.push(names.count() + index as u32);
                }
                NameMeaning::Gold(position) if ranked.contains(&position) => {
                    let found = format!("`{}`, a passage that has another name before", entry.name);
                    return Err(wrong(found, "each passage once"));
                }
                NameMeaning::Gold(position) => ranked.push(position),
                NameMeaning::Other => ranked.push(names.count() + index as u32),
                NameMeaning::Several => {
                    return Err(wrong(format!("`{}`, the name of several passages", entry.name), ALLOWED));
                }
            }
        }
        Ok(ranked)
    }

    fn finish(self, name: String) -> Result<ScoredFile, JobError> {
        let used = self.rows.count_used()?;
        let (file, facts) = (self.rows.file(), self.rows.file().facts());
        Ok(ScoredFile {
            name,
            path: file.path().to_owned(),
            rows: facts.rows,
            used,
            gold_found: self.rankings.then_some(self.gold_found),
            longest: self.rankings.then_some(facts.longest),
            values: self.values,
            found: self.found,
        })
    }
}

/// The questions with their gold.
struct GoldSource {
    questions: GoldQuestions,
    /// Gold passages by question, in place of the dataset's.
    judged: Option<HashMap<String, Vec<GoldPassage>>>,
    rule: GoldMatch,
    profile: Profile,
}

enum GoldQuestions {
    OfDataset(Box<Questions>),
    /// Judgements alone.
    Judged(Vec<Question>),
}

impl GoldSource {
    fn open(files: &ScoringFiles) -> Result<Self, JobError> {
        let Some(spec) = &files.gold else {
            let questions = files.qrels.as_deref().map(read_judged_questions).transpose()?.unwrap_or_default();
            let (questions, profile) = (GoldQuestions::Judged(questions), profile_of(Format::Beir));
            return Ok(Self { questions, judged: None, rule: GoldMatch::Id, profile });
        };
        let mut spec = spec.clone();
        let mut judged = None;
        match &files.qrels {
            // Queries and judgements are one dataset.
            Some(qrels) if spec.find_format()? == Format::Beir => spec.paths.push(qrels.clone()),
            Some(qrels) => {
                let by_id = read_judged_questions(qrels)?.into_iter().map(|question| (question.id, question.gold));
                judged = Some(by_id.collect());
            }
            None => {}
        }
        let questions = Questions::open(&spec, RowPolicy::Strict)?;
        let format = questions.format();
        let mapped = spec.fields.as_ref().map(FieldMapping::gold_match);
        let rule = if judged.is_some() { GoldMatch::Id } else { mapped.unwrap_or_else(|| format.default_gold()) };
        let questions = GoldQuestions::OfDataset(Box::new(questions));
        Ok(Self { questions, judged, rule, profile: profile_of(format) })
    }

    /// Passes each question on, and whether it has judgements of its own.
    ///
    /// # Errors
    /// A wrong row; an error of `visit`.
    fn visit_questions(self, visit: &mut dyn FnMut(&Question, bool) -> Result<(), JobError>) -> Result<(), JobError> {
        let judged = self.judged;
        let mut visit_one = |mut question: Question| {
            let mut is_judged = true;
            if let Some(judged) = &judged {
                let gold = judged.get(&question.id).or_else(|| judged.get(&exported_name(&question.id)));
                is_judged = gold.is_some();
                question.gold = gold.cloned().unwrap_or_default();
            }
            visit(&question, is_judged)
        };
        match self.questions {
            GoldQuestions::Judged(questions) => questions.into_iter().try_for_each(visit_one),
            GoldQuestions::OfDataset(mut questions) => {
                for question in questions.by_ref() {
                    visit_one(question?)?;
                }
                questions.check_mapping().map_err(DatasetError::into)
            }
        }
    }
}

/// The names of files, or their paths where names are equal.
fn file_names(files: &[RankingsFile]) -> Vec<String> {
    let name = |file: &RankingsFile| file.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
    let are_told = files.iter().map(name).collect::<BTreeSet<_>>().len() == files.len();
    files.iter().map(|file| if are_told { name(file) } else { file.path().display().to_string() }).collect()
}

/// The strata by name, `all` first, with the questions' strata in these numbers.
fn in_order(numbers: &HashMap<String, u32>, strata_of: Vec<Vec<u32>>) -> (Vec<String>, Vec<Vec<u32>>) {
    let mut names: Vec<(&String, u32)> = numbers.iter().map(|(name, number)| (name, *number)).collect();
    names.sort_by_key(|(name, _)| (name.as_str() != ALL, name.as_str()));
    let mut renumbered = vec![0; names.len()];
    for (position, (_, number)) in (0..).zip(&names) {
        renumbered[*number as usize] = position;
    }
    let strata = names.into_iter().map(|(name, _)| name.clone()).collect();
    let renumber = |of: Vec<u32>| of.into_iter().map(|number| renumbered[number as usize]).collect();
    (strata, strata_of.into_iter().map(renumber).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of pytrec_eval 0.5.11 for the question `q0`.
    #[test]
    fn graded_judgements_are_measured_as_by_trec_eval() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let judged = "q0 0 d1 0\nq0 0 d2 3\nq0 0 d3 1\nq0 0 d4 -1\nq0 0 d9 2\nq1 0 d1 0\nq2 0 d5 2\n";
        let ranked = "q0 Q0 d1 1 9 r\nq0 Q0 d2 2 8 r\nq0 Q0 d4 3 7 r\nq0 Q0 d3 4 6 r\nq1 Q0 d1 1 9 r\n";
        let settings = r#"{"recall_at": [10], "precision_at": [2], "ndcg_at": [2, 10]}"#;
        let scored = score_files(ScoringFiles {
            qrels: Some(write("qrels", judged)),
            predictions: vec![RankingsFile::open(&write("run.trec", ranked), None).unwrap()],
            measures: serde_json::from_str(settings).unwrap(),
            ..ScoringFiles::default()
        })
        .unwrap();
        let value = |question: usize, name: &str| {
            let measure = scored.set.names().iter().position(|known| known == name).unwrap();
            scored.value(&scored.files[0], question, measure)
        };
        for (name, expected) in [
            ("ndcg@2", 0.44412286644879784),
            ("ndcg@10", 0.4879324590115489),
            ("map", 1.0 / 3.0),
            ("mrr", 0.5),
            ("recall_frac@10", 2.0 / 3.0),
            ("precision@2", 0.5),
        ] {
            let found = value(0, name).unwrap();
            assert!((found - expected).abs() <= 1e-15, "{name}: {found}, not {expected}");
        }
        // A question whose judgements are all 0 has no gold; one without a row has 0.
        assert_eq!((value(1, "ndcg@10"), value(1, "map"), value(2, "ndcg@10")), (None, None, Some(0.0)));
        let version = |name: &str| {
            let row = scored.measures().into_iter().find(|row| row.measure == name && row.stratum == ALL);
            row.unwrap().version
        };
        assert_eq!((version("ndcg@10").as_str(), version("map").as_str()), ("2", "1"));
    }
}
