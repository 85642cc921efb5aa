//! The outcomes of another system as a run's record holds them.

use hopeval_datasets::RowCost;
use hopeval_methods::{Outcome, PassageId, RankedPassage, SupportingSentence};
use serde::{Deserialize, Serialize};

/// The note of an outcome with its cost, as JSON.
pub const COST_NOTE: &str = "brought_cost";

/// The row of a file, in the record of its question: under names of its own, and as short as it can be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BroughtRow {
    /// The answer, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// Ranked passages, best first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ranked: Vec<u32>,
    /// Their scores; empty if the file has none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scores: Vec<f64>,
    /// Supporting sentences.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub supporting: Vec<(u32, u32)>,
    /// The cost.
    #[serde(skip_serializing_if = "is_free")]
    pub cost: RowCost,
}

fn is_free(cost: &RowCost) -> bool {
    *cost == RowCost::default()
}

impl BroughtRow {
    /// The row as an outcome. Passages without scores are scored by their reciprocal ranks.
    pub fn to_outcome(&self) -> Outcome {
        let score = |index: usize| self.scores.get(index).copied().unwrap_or(1.0 / (index + 1) as f64);
        let ranked = self.ranked.iter().enumerate();
        let supporting = self.supporting.iter();
        let mut outcome = Outcome {
            answer: self.answer.clone(),
            ranked: ranked.map(|(index, &id)| RankedPassage { passage: PassageId(id), score: score(index) }).collect(),
            supporting: supporting
                .map(|&(id, sentence)| SupportingSentence { passage: PassageId(id), sentence })
                .collect(),
            ..Outcome::default()
        };
        if !is_free(&self.cost) {
            let cost = serde_json::to_string(&self.cost).expect("plain data can be written as JSON; this is a bug");
            outcome.add_note(COST_NOTE, cost);
        }
        outcome
    }
}

/// Counts of a file's rows and of the evaluated questions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankingsCounts {
    /// The file's name, without its folder.
    pub file: String,
    /// BLAKE3 of its bytes.
    pub digest: String,
    /// Its rows, one for each of its questions.
    pub rows: u64,
    /// Rows of evaluated questions. The others are not looked at.
    pub used: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_short_and_becomes_its_outcome() {
        let cost = RowCost { calls: Some(2), money: Some(0.1), ..RowCost::default() };
        let row = BroughtRow { ranked: vec![7, 3], supporting: vec![(3, 1)], cost, ..BroughtRow::default() };
        let text = serde_json::to_string(&row).unwrap();
        assert_eq!(text, r#"{"ranked":[7,3],"supporting":[[3,1]],"cost":{"calls":2,"money":0.1}}"#);
        assert_eq!(serde_json::from_str::<BroughtRow>(&text).unwrap(), row);
        let outcome = row.to_outcome();
        let ranked: Vec<_> = outcome.ranked.iter().map(|entry| (entry.passage.0, entry.score)).collect();
        assert_eq!(ranked, [(7, 1.0), (3, 0.5)]);
        assert_eq!(
            (outcome.notes[0].name.as_str(), outcome.notes[0].text.as_str()),
            (COST_NOTE, r#"{"calls":2,"money":0.1}"#)
        );
        assert_eq!((outcome.supporting[0].passage.0, outcome.supporting[0].sentence, outcome.answer), (3, 1, None));
        let scored =
            BroughtRow { ranked: vec![7], scores: vec![-0.1], answer: Some(String::new()), ..BroughtRow::default() };
        let outcome =
            serde_json::from_str::<BroughtRow>(&serde_json::to_string(&scored).unwrap()).unwrap().to_outcome();
        assert_eq!((outcome.ranked[0].score, outcome.answer.as_deref()), (-0.1, Some("")));
        assert!(outcome.notes.is_empty());
    }
}
