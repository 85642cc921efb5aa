//! Demonstrations drawn from the tune sample: solved questions with the texts of their gold passages (PromptRank, section 2.3).
//!
//! Types of questions take turns (HotpotQA's comparison and bridge in the paper), so that a set covers them as evenly as it can;
//! within a type a question's place is decided by the seed, the set's number and its id. No question is in one set twice;
//! different sets may share some.

use super::Sampled;
use crate::corpora::Report;
use crate::draw::place;
use crate::error::JobError;
use crate::job::Job;
use crate::questions;
use crate::run::Places;
use hopeval_corpus::PassageId;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A parameter's value that is drawn: `{ draw = 2, sets = 1, seed = 0 }`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Demonstrations {
    /// Demonstrations of a set.
    draw: u32,
    /// Sets, which are an ensemble.
    #[serde(default = "one")]
    sets: u32,
    /// Another seed draws others.
    #[serde(default)]
    seed: u64,
}

fn one() -> u32 {
    1
}

impl Demonstrations {
    /// Whether a value is meant as such.
    pub(super) fn is_one(value: &Value) -> bool {
        value.get("draw").is_some()
    }

    /// What a parameter's value asks for, if it is drawn.
    ///
    /// # Errors
    /// [`JobError::Choice`] for what makes no sense.
    pub(super) fn of(configuration: &str, parameter: &str, value: &Value) -> Result<Option<Self>, JobError> {
        if !Self::is_one(value) {
            return Ok(None);
        }
        let wrong = |reason: String| JobError::Choice {
            configuration: configuration.to_owned(),
            parameter: parameter.to_owned(),
            reason,
        };
        if parameter != PARAMETER {
            return Err(wrong(format!("a draw is for `{PARAMETER}` alone")));
        }
        let wanted = Self::deserialize(value).map_err(|error| wrong(error.to_string()))?;
        if wanted.draw == 0 || wanted.sets == 0 {
            return Err(wrong("draw and sets must be at least 1".to_owned()));
        }
        Ok(Some(wanted))
    }
}

/// What is drawn here.
const PARAMETER: &str = "demonstrations";

/// The sample, ready to be shown.
pub(super) struct Shown {
    /// By type, in the order of the types' names; each (id, texts, question).
    types: Vec<Vec<(String, Vec<String>, String)>>,
    /// All of them, as they must not be evaluated.
    pub(super) sampled: Vec<Sampled>,
}

impl Shown {
    /// Reads the sample of a job.
    ///
    /// # Errors
    /// A job without one; questions or passages that cannot be read.
    pub(super) fn read(job: &Job, configuration: &str, places: &Places, report: Report<'_>) -> Result<Self, JobError> {
        let Some(tune) = &job.tune else {
            let reason = "they are drawn from the [tune] sample, and the job has no [tune]".to_owned();
            return Err(wrong(configuration, reason));
        };
        let mut sampled_job = tune.over_sample(job);
        places.cache.world(&mut sampled_job, report)?;
        let corpus = places.cache.corpus(&sampled_job, report)?;
        let mut types: BTreeMap<String, Vec<_>> = BTreeMap::new();
        let mut rows = Vec::new();
        questions::prepare(&sampled_job, &corpus, false, None, &mut |row| {
            let gold = row.gold.iter().filter_map(|group| group.first());
            let texts: Vec<String> = gold.map(|&id| corpus.text(PassageId(id)).to_owned()).collect();
            rows.push((row.id.clone(), row.text.clone()));
            if !texts.is_empty() {
                types.entry(row.kind.unwrap_or_default()).or_default().push((row.id, texts, row.text));
            }
            Ok(())
        })?;
        let sampled = rows.iter().map(|(id, text)| Sampled::new(id, text)).collect();
        Ok(Self { types: types.into_values().collect(), sampled })
    }

    /// Sets of demonstrations, as a job would give them.
    ///
    /// # Errors
    /// [`JobError::Choice`] if the sample has too few questions with gold passages.
    pub(super) fn draw(&self, configuration: &str, wanted: &Demonstrations) -> Result<Value, JobError> {
        let there = self.types.iter().map(Vec::len).sum::<usize>();
        if there < wanted.draw as usize {
            let reason =
                format!("draw = {}, and the [tune] sample has {there} questions with gold passages", wanted.draw);
            return Err(wrong(configuration, reason));
        }
        let set = |number: u32| {
            let mut lines: Vec<Vec<&(String, Vec<String>, String)>> =
                self.types.iter().map(|of| of.iter().collect()).collect();
            for line in &mut lines {
                // The one that is to come first stands last.
                line.sort_by_cached_key(|(id, ..)| std::cmp::Reverse(place(wanted.seed, &format!("{number} {id}"))));
            }
            let turns = (0..lines.len()).cycle();
            let mut set = Vec::with_capacity(wanted.draw as usize);
            for turn in turns {
                if set.len() == wanted.draw as usize {
                    break;
                }
                set.extend(lines[turn].pop().map(|(_, texts, question)| json!({"texts": texts, "question": question})));
            }
            Value::Array(set)
        };
        Ok(Value::Array((0..wanted.sets).map(set).collect()))
    }
}

fn wrong(configuration: &str, reason: String) -> JobError {
    JobError::Choice { configuration: configuration.to_owned(), parameter: PARAMETER.to_owned(), reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown() -> Shown {
        let of = |kind: &str, n: usize| {
            (0..n).map(|i| (format!("{kind}{i}"), vec![format!("text of {kind}{i}")], format!("{kind}{i}?"))).collect()
        };
        Shown { types: vec![of("bridge", 9), of("comparison", 2)], sampled: Vec::new() }
    }

    fn questions(value: &Value) -> Vec<Vec<String>> {
        let question = |shown: &Value| shown["question"].as_str().unwrap().to_owned();
        value.as_array().unwrap().iter().map(|set| set.as_array().unwrap().iter().map(question).collect()).collect()
    }

    #[test]
    fn sets_cover_the_types_and_repeat() {
        let draw = |draw: u32, sets: u32, seed: u64| {
            let wanted = Demonstrations { draw, sets, seed };
            questions(&shown().draw("m", &wanted).unwrap())
        };
        let found = draw(4, 3, 1);
        assert_eq!(found, draw(4, 3, 1));
        assert_ne!(found, draw(4, 3, 2));
        assert_ne!(found[0], found[1]);
        for set in &found {
            assert_eq!(set.iter().filter(|question| question.starts_with("bridge")).count(), 2, "{set:?}");
            assert!((1..set.len()).all(|n| !set[..n].contains(&set[n])), "{set:?}");
        }
        // A type that is used up leaves its turns to the other.
        assert_eq!(draw(6, 1, 1)[0].iter().filter(|question| question.starts_with("comparison")).count(), 2);
    }

    #[test]
    fn what_cannot_be_drawn_is_said() {
        let of = |value: Value| Demonstrations::of("m", "demonstrations", &value).map_err(|error| error.to_string());
        assert_eq!(of(json!([])), Ok(None));
        assert_eq!(of(json!({"draw": 2})), Ok(Some(Demonstrations { draw: 2, sets: 1, seed: 0 })));
        assert!(of(json!({"draw": 0})).unwrap_err().contains("at least 1"));
        assert!(of(json!({"draw": 1, "from": 3})).unwrap_err().contains("unknown field `from`"));
        let many = Demonstrations { draw: 12, sets: 1, seed: 0 };
        assert!(shown().draw("m", &many).unwrap_err().to_string().contains("has 11 questions"));
    }
}
