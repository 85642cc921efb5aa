//! Demonstrations: documents with their question, shown before the path (section 2.3).
//!
//! Several sets are an ensemble: each set is a context of its own, and the contexts' scores are combined.
//! Demonstrations are literal texts, not passages of the corpus, so the first passage of a prompt is still the path's
//! own.

use super::parameters::bad_value;
use crate::machine::MethodError;
use serde::{Deserialize, Serialize};

/// One solved example.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Demonstration {
    /// Its documents, in the order of the path, with their titles if wanted.
    pub(super) texts: Vec<String>,
    /// Its question.
    pub(super) question: String,
}

/// Sets of demonstrations; a job may give one set as a plain list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "GivenDemonstrations")]
pub(super) struct Demonstrations(Vec<Vec<Demonstration>>);

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "expected a list of demonstrations (each a table of `texts` and `question`), or a list of such lists"
)]
enum GivenDemonstrations {
    One(Vec<Demonstration>),
    Several(Vec<Vec<Demonstration>>),
}

impl From<GivenDemonstrations> for Demonstrations {
    fn from(given: GivenDemonstrations) -> Self {
        match given {
            GivenDemonstrations::One(set) if set.is_empty() => Self::default(),
            GivenDemonstrations::One(set) => Self(vec![set]),
            GivenDemonstrations::Several(sets) => Self(sets),
        }
    }
}

impl Demonstrations {
    /// Whether there is no demonstration.
    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(Vec::is_empty)
    }

    /// At least one set, which may be empty.
    pub(super) fn sets(&self) -> Vec<&[Demonstration]> {
        if self.0.is_empty() { vec![&[]] } else { self.0.iter().map(Vec::as_slice).collect() }
    }

    pub(super) fn check(&self) -> Result<(), MethodError> {
        let bare =
            |demonstration: &&Demonstration| demonstration.texts.is_empty() || demonstration.question.trim().is_empty();
        match self.0.iter().flatten().find(bare) {
            None => Ok(()),
            Some(demonstration) => Err(bad_value(
                "demonstrations",
                &demonstration.question,
                "each needs at least one text, and a question",
            )),
        }
    }
}
