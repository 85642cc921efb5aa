//! Demonstrations drawn from the tune sample: solved questions with the texts of their gold passages
//! (PromptRank, section 2.3).
//!
//! Types of questions take turns (HotpotQA's comparison and bridge in the paper), so a set covers them as evenly as
//! possible. Each set of a draw continues where the previous set ended, so together they also cover types without room
//! in one set. Within a type the seed and the id decide a question's place. All sets of a draw share one queue for each
//! type: six demonstrations in three sets are six different ones (section 3.1). An exhausted type begins again, in
//! another order. A question appears at most once in a set.

use super::overlap::SampledQuestion;
use crate::cache::ProgressReporter;
use crate::error::JobError;
use crate::job::file::Job;
use crate::job::references::{DemonstrationDraw, PARAMETER};
use crate::places::Places;
use crate::prepare::draw::sample_rank;
use crate::prepare::questions;
use hopeval_corpus::PassageId;
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A question for demonstrations: (id, texts, question).
type SolvedQuestion = (String, Vec<String>, String);

/// The questions of the tune sample, as demonstrations.
pub(super) struct DemonstrationSample {
    /// By type, in the order of the types' names.
    types: Vec<Vec<SolvedQuestion>>,
    /// All questions of the sample. They must not be evaluated.
    pub(super) sampled: Vec<SampledQuestion>,
}

impl DemonstrationSample {
    /// Reads the sample of a job.
    ///
    /// # Errors
    /// A job without `[tune]`; unreadable questions or passages.
    pub(super) fn read_sample(
        job: &Job,
        configuration: &str,
        places: &Places,
        report: ProgressReporter<'_>,
    ) -> Result<Self, JobError> {
        let Some(tune) = &job.tune else {
            let reason = "they are drawn from the [tune] sample, and the job has no [tune]".to_owned();
            return Err(bad_choice(configuration, reason));
        };
        let mut sampled_job = tune.over_sample(job);
        places.cache.prepare_world(&mut sampled_job, report)?;
        let corpus = places.cache.corpus(&sampled_job, report)?;
        let mut types: BTreeMap<String, Vec<_>> = BTreeMap::new();
        let mut rows = Vec::new();
        questions::prepare_questions(&sampled_job, &corpus, false, None, &mut |row| {
            let gold = row.gold.iter().filter_map(|group| group.first());
            let texts: Vec<String> = gold.map(|&id| corpus.text(PassageId(id)).to_owned()).collect();
            rows.push((row.id.clone(), row.text.clone()));
            if !texts.is_empty() {
                types.entry(row.kind.unwrap_or_default()).or_default().push((row.id, texts, row.text));
            }
            Ok(())
        })?;
        let sampled = rows.iter().map(|(id, text)| SampledQuestion::new(id, text)).collect();
        Ok(Self { types: types.into_values().collect(), sampled })
    }

    /// Draws sets of demonstrations, in the form of a job's own.
    ///
    /// # Errors
    /// [`JobError::Choice`] if the sample has too few questions with gold passages.
    pub(super) fn draw_sets(&self, configuration: &str, wanted: &DemonstrationDraw) -> Result<Value, JobError> {
        let there = self.types.iter().map(Vec::len).sum::<usize>();
        if there < wanted.draw as usize {
            let reason =
                format!("draw = {}, and the [tune] sample has {there} questions with gold passages", wanted.draw);
            return Err(bad_choice(configuration, reason));
        }
        let mut lines: Vec<QuestionQueue<'_>> =
            self.types.iter().map(|of| QuestionQueue::new(of, wanted.seed)).collect();
        let mut set = |number: u64| {
            let first = number * u64::from(wanted.draw) % lines.len() as u64;
            let mut set: Vec<&SolvedQuestion> = Vec::with_capacity(wanted.draw as usize);
            for turn in (0..lines.len()).cycle().skip(first as usize) {
                if set.len() == wanted.draw as usize {
                    break;
                }
                set.extend(lines[turn].next(&set));
            }
            set.into_iter().map(|(_, texts, question)| json!({"texts": texts, "question": question})).collect()
        };
        Ok(Value::Array((0..u64::from(wanted.sets)).map(&mut set).collect()))
    }
}

/// A queue of the questions of one type.
struct QuestionQueue<'a> {
    of: &'a [SolvedQuestion],
    seed: u64,
    /// How often the queue was filled.
    rounds: u32,
    /// In reverse order: the next question is the last.
    waiting: Vec<&'a SolvedQuestion>,
}

impl<'a> QuestionQueue<'a> {
    fn new(of: &'a [SolvedQuestion], seed: u64) -> Self {
        Self { of, seed, rounds: 0, waiting: Vec::new() }
    }

    /// The next question outside `set`; `None` if `set` has all questions of the type.
    fn next(&mut self, set: &[&SolvedQuestion]) -> Option<&'a SolvedQuestion> {
        if self.waiting.is_empty() {
            self.waiting = self.of.iter().collect();
            let (seed, round) = (self.seed, self.rounds);
            self.waiting.sort_by_cached_key(|(id, ..)| Reverse(sample_rank(seed, &format!("{round} {id}"))));
            self.rounds += 1;
        }
        // Questions of this set stay in the queue for the next set.
        let at = self.waiting.iter().rposition(|example| !set.contains(example))?;
        Some(self.waiting.remove(at))
    }
}

fn bad_choice(configuration: &str, reason: String) -> JobError {
    JobError::Choice { configuration: configuration.to_owned(), parameter: PARAMETER.to_owned(), reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sample with the given number of questions of each type.
    fn sample(types: &[(&str, usize)]) -> DemonstrationSample {
        let of = |&(kind, n): &(&str, usize)| {
            let one = |i| (format!("{kind}{i}"), vec![format!("text of {kind}{i}")], format!("{kind}{i}?"));
            (0..n).map(one).collect()
        };
        DemonstrationSample { types: types.iter().map(of).collect(), sampled: Vec::new() }
    }

    fn shown() -> DemonstrationSample {
        sample(&[("bridge", 9), ("comparison", 2)])
    }

    fn drawn(sample: &DemonstrationSample, draw: u32, sets: u32, seed: u64) -> Vec<Vec<String>> {
        questions(&sample.draw_sets("m", &DemonstrationDraw { draw, sets, seed }).unwrap())
    }

    /// How often each question is shown, over all sets.
    fn counts(sets: &[Vec<String>]) -> BTreeMap<&str, u32> {
        let mut counts = BTreeMap::new();
        for question in sets.iter().flatten() {
            *counts.entry(question.as_str()).or_default() += 1;
        }
        counts
    }

    fn questions(value: &Value) -> Vec<Vec<String>> {
        let question = |shown: &Value| shown["question"].as_str().unwrap().to_owned();
        value.as_array().unwrap().iter().map(|set| set.as_array().unwrap().iter().map(question).collect()).collect()
    }

    #[test]
    fn sets_cover_the_types_and_repeat() {
        let draw = |draw: u32, sets: u32, seed: u64| drawn(&shown(), draw, sets, seed);
        let found = draw(4, 3, 1);
        assert_eq!(found, draw(4, 3, 1));
        assert_ne!(found, draw(4, 3, 2));
        for set in &found {
            assert_eq!(set.iter().filter(|question| question.starts_with("bridge")).count(), 2, "{set:?}");
            assert!((1..set.len()).all(|n| !set[..n].contains(&set[n])), "{set:?}");
        }
        assert_eq!(found[..1], draw(4, 1, 1), "more sets leave the first as it is");
        // An exhausted type leaves its turns to the other.
        assert_eq!(draw(6, 1, 1)[0].iter().filter(|question| question.starts_with("comparison")).count(), 2);
    }

    #[test]
    fn all_sets_of_a_draw_show_different_questions() {
        let sample = sample(&[("bridge", 90), ("comparison", 38)]);
        for (sets, seed) in [(4, 1), (5, 2), (38, 3)] {
            let found = drawn(&sample, 2, sets, seed);
            assert_eq!(counts(&found).len(), 2 * sets as usize, "{found:?}");
            assert!(found.iter().all(|set| set[0].starts_with("bridge") && set[1].starts_with("comparison")));
        }
    }

    #[test]
    fn sets_too_small_for_all_types_cover_them_together() {
        let kinds = ["bridge_comparison", "comparison", "compositional", "inference"];
        let sample = sample(&kinds.map(|kind| (kind, 9)));
        for (draw, sets) in [(2, 2), (1, 4), (3, 4), (2, 6)] {
            let found = drawn(&sample, draw, sets, 7);
            let of = |kind: &str| {
                let is = |question: &&String| question.trim_end_matches(|c: char| !c.is_alphabetic()) == kind;
                found.iter().flatten().filter(is).count()
            };
            assert_eq!(kinds.map(of), [(draw * sets / 4) as usize; 4], "{found:?}");
        }
    }

    #[test]
    fn a_type_begins_again_only_when_it_is_used_up() {
        let found = drawn(&sample(&[("bridge", 4), ("comparison", 3)]), 2, 6, 1);
        let counts = counts(&found);
        assert!(counts.iter().all(|(question, &n)| n == 2 || (question.starts_with("bridge") && n == 1)), "{counts:?}");
        assert_eq!(counts.len(), 7);
        // Exhausted in the middle of a set: questions of this set stay for the next.
        for seed in 0..20 {
            let found = drawn(&sample(&[("bridge", 3)]), 2, 3, seed);
            assert!(found.iter().all(|set| set[0] != set[1]), "{found:?}");
            assert!(self::counts(&found).values().all(|&n| n == 2), "{found:?}");
        }
    }

    #[test]
    fn what_cannot_be_drawn_is_said() {
        let of = |value: Value| {
            DemonstrationDraw::from_value("m", "demonstrations", &value).map_err(|error| error.to_string())
        };
        assert_eq!(of(json!([])), Ok(None));
        assert_eq!(of(json!({"draw": 2})), Ok(Some(DemonstrationDraw { draw: 2, sets: 1, seed: 0 })));
        assert!(of(json!({"draw": 0})).unwrap_err().contains("at least 1"));
        assert!(of(json!({"draw": 1, "from": 3})).unwrap_err().contains("unknown field `from`"));
        let many = DemonstrationDraw { draw: 12, sets: 1, seed: 0 };
        assert!(shown().draw_sets("m", &many).unwrap_err().to_string().contains("has 11 questions"));
    }
}
