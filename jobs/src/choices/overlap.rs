//! Refuses to evaluate a choice on its own sample of questions.

use crate::error::JobError;
use hopeval_datasets::Format;
use hopeval_results::tables::QuestionRow;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A question of a choice's sample.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SampledQuestion {
    /// Its id; `None` if the dataset has no ids and they are positions in a file.
    pub id: Option<String>,
    /// Digest of its text.
    pub text: String,
}

impl SampledQuestion {
    /// From a question's id and text.
    pub fn new(id: &str, text: &str) -> Self {
        // A dataset without ids gets `<format>-<n>`.
        let numbered = id.rsplit_once('-').filter(|(_, n)| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
        let is_place = numbered.is_some_and(|(format, _)| Format::ALL.iter().any(|known| known.name() == format));
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        Self { id: (!is_place).then(|| id.to_owned()), text: blake3::hash(words.as_bytes()).to_hex()[..16].to_owned() }
    }
}

/// The samples of all choices, each with the name of its choice.
#[derive(Debug, Default)]
pub struct OverlapCheck {
    samples: Vec<ExcludedSample>,
}

#[derive(Debug)]
struct ExcludedSample {
    of: String,
    ids: BTreeSet<String>,
    texts: BTreeSet<String>,
    /// Number of evaluated questions in the sample, and the id of the first.
    met: (u64, String),
}

impl OverlapCheck {
    /// Adds a sample of excluded questions; `of` names its choice.
    pub fn add_sample<'a>(&mut self, of: &str, sampled: impl IntoIterator<Item = &'a SampledQuestion>) {
        if self.samples.iter().any(|sample| sample.of == of) {
            return;
        }
        let (mut ids, mut texts) = (BTreeSet::new(), BTreeSet::new());
        for question in sampled {
            ids.extend(question.id.clone());
            texts.insert(question.text.clone());
        }
        self.samples.push(ExcludedSample { of: of.to_owned(), ids, texts, met: (0, String::new()) });
    }

    /// Compares an evaluated question with all samples.
    pub fn see_question(&mut self, id: &str, text: &str) {
        if self.samples.is_empty() {
            return;
        }
        let seen = SampledQuestion::new(id, text);
        for sample in &mut self.samples {
            if sample.texts.contains(&seen.text) || seen.id.as_ref().is_some_and(|id| sample.ids.contains(id)) {
                if sample.met.0 == 0 {
                    id.clone_into(&mut sample.met.1);
                }
                sample.met.0 += 1;
            }
        }
    }

    /// [`OverlapCheck::see_question`], for a row.
    pub fn see_row(&mut self, row: &QuestionRow) {
        self.see_question(&row.id, &row.text);
    }

    /// Refuses an evaluation on the questions of a sample.
    ///
    /// # Errors
    /// [`JobError::Overlap`] if an evaluated question is in a sample.
    pub fn refuse_overlap(&self) -> Result<(), JobError> {
        match self.samples.iter().find(|sample| sample.met.0 > 0) {
            None => Ok(()),
            Some(ExcludedSample { of, met: (questions, first), .. }) => {
                Err(JobError::Overlap { of: of.clone(), questions: *questions, first: first.clone() })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_meet_by_id_or_text_but_not_by_position() {
        let mut overlap = OverlapCheck::default();
        let sample = [SampledQuestion::new("5a8b", "Who was born first?"), SampledQuestion::new("nq-3", "who sang it")];
        overlap.add_sample("selection `x`", &sample);
        overlap.see_question("nq-3", "another question");
        overlap.see_question("5a8c", "Who was born last?");
        assert!(overlap.refuse_overlap().is_ok());
        overlap.see_question("dev_7", "Who was  born first?");
        overlap.see_question("5a8b", "Who was born first, then?");
        let message = overlap.refuse_overlap().unwrap_err().to_string();
        assert!(
            message.contains("2 questions") && message.contains("`dev_7`") && message.contains("selection `x`"),
            "{message}"
        );
    }
}
