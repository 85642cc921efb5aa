//! The questions of a dataset that a job takes: those whose ids a file names (`dataset.only`), and of these the draw.

use super::corpora::dataset_spec;
use super::draw::{SamplePositions, sample_rank};
use super::question_ids::QuestionIds;
use crate::error::JobError;
use crate::job::file::DatasetEntry;
use hopeval_datasets::{Questions, RowPolicy};
use std::collections::{BTreeSet, HashSet};

/// Tells whether a job takes a question of its dataset.
#[derive(Clone, Debug)]
pub(crate) struct QuestionFilter {
    only: Option<QuestionIds>,
    draw: Option<SamplePositions>,
}

impl QuestionFilter {
    /// The filter of a dataset, which is read where there is something to find out. With `lenient`, wrong rows are
    /// skipped, as in a run with a quarantine.
    ///
    /// # Errors
    /// An unreadable file; a wrong row; an id that no question has; too few questions for the draw.
    pub(crate) fn of_dataset(dataset: &DatasetEntry, lenient: bool) -> Result<Self, JobError> {
        let only = dataset.only.as_deref().map(QuestionIds::read).transpose()?;
        if only.is_none() && dataset.draw.is_none() {
            return Ok(Self { only, draw: None });
        }
        let (mut line, mut known) = (Vec::new(), BTreeSet::new());
        each_id(dataset, lenient, &mut |position, id| {
            if only.as_ref().is_none_or(|only| only.contains(&id)) {
                line.extend(dataset.draw.map(|draw| (sample_rank(draw.seed, &id), position)));
                if only.is_some() {
                    known.insert(id);
                }
            }
        })?;
        if let Some(only) = &only {
            only.refuse_unknown(&known)?;
        }
        let path = || dataset.questions.paths().first().cloned().unwrap_or_default();
        let draw = dataset.draw.map(|draw| draw.draw_lowest(line, path)).transpose()?;
        Ok(Self { only, draw })
    }

    /// Whether the job takes the question `id` at `position` among the good rows.
    pub(crate) fn takes_question(&self, position: u64, id: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only.contains(id))
            && self.draw.as_ref().is_none_or(|draw| draw.takes_position(position))
    }
}

/// The sizes of draws by `seed` that have so many of the `wanted` questions: the first one has 1 of them, the next one
/// 2. With `lenient`, wrong rows are skipped, as in a run with a quarantine.
///
/// # Errors
/// An unreadable file; a wrong row.
pub(crate) fn draws_with(
    dataset: &DatasetEntry,
    seed: u64,
    lenient: bool,
    wanted: &HashSet<String>,
) -> Result<Vec<u64>, JobError> {
    let only = dataset.only.as_deref().map(QuestionIds::read).transpose()?;
    let mut line = Vec::new();
    each_id(dataset, lenient, &mut |position, id| {
        if only.as_ref().is_none_or(|only| only.contains(&id)) {
            line.push((sample_rank(seed, &id), position, wanted.contains(&id)));
        }
    })?;
    line.sort_unstable();
    Ok((1..).zip(line).filter(|(_, (.., is_wanted))| *is_wanted).map(|(size, _)| size).collect())
}

/// Passes position and id of each question to `each`.
fn each_id(dataset: &DatasetEntry, lenient: bool, each: &mut dyn FnMut(u64, String)) -> Result<(), JobError> {
    let policy = if lenient { RowPolicy::Quarantine(Box::new(|_| ())) } else { RowPolicy::Strict };
    for (position, question) in (0..).zip(Questions::open(&dataset_spec(dataset, None), policy)?) {
        each(position, question?.id);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::OneOrMany;
    use crate::job::sample::SampleSettings;
    use hopeval_datasets::Format;

    fn ids(count: u64) -> Vec<String> {
        (0..count).map(|n| format!("q{n}")).collect()
    }

    fn dataset(dir: &std::path::Path, ids: &[String], draw: Option<SampleSettings>) -> DatasetEntry {
        let row = |id| format!("{{\"id\": \"{id}\", \"question\": \"q {id}?\", \"golden_answers\": [\"a\"]}}\n");
        let path = dir.join("questions.jsonl");
        std::fs::write(&path, ids.iter().map(row).collect::<String>()).unwrap();
        let questions = OneOrMany::One(path);
        DatasetEntry { format: Some(Format::FlashRag), questions, draw, ..DatasetEntry::default() }
    }

    fn only(dir: &std::path::Path, ids: &[&str]) -> Option<std::path::PathBuf> {
        let path = dir.join("ids.txt");
        std::fs::write(&path, ids.join("\n")).unwrap();
        Some(path)
    }

    fn taken(ids: &[String], dataset: &DatasetEntry) -> Vec<String> {
        let filter = QuestionFilter::of_dataset(dataset, false).unwrap();
        ids.iter()
            .enumerate()
            .filter(|(at, id)| filter.takes_question(*at as u64, id))
            .map(|(_, id)| id.clone())
            .collect()
    }

    fn drawn(ids: &[String], draw: SampleSettings) -> Vec<String> {
        let dir = tempfile::tempdir().unwrap();
        taken(ids, &dataset(dir.path(), ids, Some(draw)))
    }

    #[test]
    fn a_sample_is_independent_of_order_and_has_a_complement() {
        let mut ids = ids(50);
        let draw = SampleSettings::new(8, 3);
        let sample = drawn(&ids, draw);
        assert_eq!(sample.len(), 8);
        let rest = drawn(&ids, SampleSettings { rest: true, ..draw });
        assert!(rest.len() == 42 && rest.iter().all(|id| !sample.contains(id)));
        let small = drawn(&ids, SampleSettings { questions: 4, ..draw });
        assert!(small.iter().all(|id| sample.contains(id)), "{small:?} and {sample:?}");
        assert_ne!(drawn(&ids, SampleSettings { seed: 4, ..draw }), sample);
        let behind = drawn(&ids, SampleSettings { questions: 5, after: 8, ..draw });
        assert!(behind.len() == 5 && behind.iter().all(|id| !sample.contains(id)), "{behind:?}");
        let whole = drawn(&ids, SampleSettings { questions: 13, ..draw });
        assert!(behind.iter().chain(&sample).all(|id| whole.contains(id)), "{whole:?}");
        ids.reverse();
        let mut again = drawn(&ids, draw);
        again.reverse();
        assert_eq!(again, sample);
    }

    #[test]
    fn a_draw_is_of_the_questions_that_a_file_names() {
        let (dir, ids) = (tempfile::tempdir().unwrap(), ids(50));
        let mut dataset = dataset(dir.path(), &ids, None);
        let named: Vec<&str> = ids.iter().step_by(7).map(String::as_str).collect();
        dataset.only = only(dir.path(), &named);
        assert_eq!(taken(&ids, &dataset), named);
        dataset.draw = Some(SampleSettings::new(3, 1));
        let sample = taken(&ids, &dataset);
        assert!(sample.len() == 3 && sample.iter().all(|id| named.contains(&id.as_str())), "{sample:?}");
        dataset.draw = Some(SampleSettings { rest: true, ..SampleSettings::new(3, 1) });
        assert_eq!(taken(&ids, &dataset).len(), named.len() - 3);
        let wanted: HashSet<String> = sample.iter().cloned().chain(["q1".to_owned()]).collect();
        assert_eq!(draws_with(&dataset, 1, false, &wanted).unwrap(), [1, 2, 3]);
        dataset.only = only(dir.path(), &["q1", "q77"]);
        let error = QuestionFilter::of_dataset(&dataset, false).unwrap_err().to_string();
        assert!(error.contains("ids.txt:2: `q77`, the first of 1 ids that no readable question"), "{error}");
    }

    #[test]
    fn a_draw_can_be_so_large_that_it_has_so_many_of_some_questions() {
        let (dir, ids) = (tempfile::tempdir().unwrap(), ids(50));
        let wanted: HashSet<String> = ids.iter().step_by(5).cloned().collect();
        let sizes = draws_with(&dataset(dir.path(), &ids, None), 3, false, &wanted).unwrap();
        assert_eq!(sizes.len(), 10);
        for (count, questions) in (1..).zip(sizes) {
            let sample = drawn(&ids, SampleSettings::new(questions, 3));
            assert_eq!(sample.iter().filter(|id| wanted.contains(*id)).count(), count);
        }
    }

    #[test]
    fn too_small_a_dataset_is_refused() {
        let (dir, ids) = (tempfile::tempdir().unwrap(), ids(3));
        let message = |draw: SampleSettings| {
            QuestionFilter::of_dataset(&dataset(dir.path(), &ids, Some(draw)), false).unwrap_err().to_string()
        };
        let draw = SampleSettings::new(4, 0);
        assert!(message(draw).contains("4 questions are to be drawn, and there are 3"), "{}", message(draw));
        let all = SampleSettings { rest: true, ..SampleSettings::new(3, 0) };
        assert!(message(all).contains("none would be left"), "{}", message(all));
        let behind = SampleSettings { after: 2, ..SampleSettings::new(2, 0) };
        assert!(
            message(behind).contains("2 questions are to be drawn after 2, and there are 3"),
            "{}",
            message(behind)
        );
    }
}
