//! Scores prediction and gold pairs: JSON Lines `{"prediction", "golds"}` in, one [`PairScore`] for each out.

use std::io::BufRead;

use serde::Serialize;

use super::{FileRole, MeasureError, input};
use crate::answer::{AnswerScore, AnswerScorer, Profile};

/// EM and F1, each the best over the golds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct EmF1 {
    /// Exact match.
    pub em: f64,
    /// Token F1.
    pub f1: f64,
}

impl From<AnswerScore> for EmF1 {
    fn from(score: AnswerScore) -> Self {
        Self { em: score.em, f1: score.f1 }
    }
}

/// One pair under the two families of rules.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PairScore {
    /// HotpotQA's script.
    pub hotpotqa: EmF1,
    /// MuSiQue's and SQuAD's.
    pub squad: EmF1,
    /// The prediction after normalisation.
    pub normalized: String,
}

/// The scores of the pairs of a file, in order. Blank lines are skipped. Ends after the first error.
#[derive(Debug)]
pub struct PairScorer<R> {
    reader: R,
    line: u64,
    text: String,
    scorer: AnswerScorer,
    ended: bool,
}

impl<R: BufRead> PairScorer<R> {
    /// Scores the lines of `reader`.
    pub fn new(reader: R) -> Self {
        Self { reader, line: 0, text: String::new(), scorer: AnswerScorer::new(), ended: false }
    }

    /// The line that was read last, from 1.
    pub fn line(&self) -> u64 {
        self.line
    }

    fn next_line(&mut self) -> Result<Option<PairScore>, MeasureError> {
        loop {
            self.text.clear();
            self.line += 1;
            let read = self.reader.read_line(&mut self.text);
            if read.map_err(|source| MeasureError::Read { role: FileRole::Pairs, source })? == 0 {
                return Ok(None);
            }
            if !self.text.trim().is_empty() {
                return score_line(&mut self.scorer, &self.text, self.line).map(Some);
            }
        }
    }
}

impl<R: BufRead> Iterator for PairScorer<R> {
    type Item = Result<PairScore, MeasureError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let item = self.next_line().transpose();
        self.ended = !matches!(item, Some(Ok(_)));
        item
    }
}

/// Scores one line. An error if it is not an object with the string `prediction` and the non-empty list `golds` (or one
/// string).
fn score_line(scorer: &mut AnswerScorer, text: &str, line: u64) -> Result<PairScore, MeasureError> {
    let row = input::parse_line(FileRole::Pairs, text, line)?;
    let prediction = row.text("prediction")?;
    let golds = row.answers("golds")?;
    if golds.is_empty() {
        return Err(row.field_error("golds", "is empty, at least one string is needed"));
    }
    Ok(PairScore {
        hotpotqa: scorer.score(Profile::HotpotQa, prediction, &golds).into(),
        squad: scorer.score(Profile::Squad, prediction, &golds).into(),
        normalized: scorer.normalize(prediction).to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(line: &str) -> Result<PairScore, MeasureError> {
        PairScorer::new(line.as_bytes()).next().unwrap()
    }

    #[test]
    fn a_line_has_both_families() {
        let score = first(r#"{"prediction": "Yes, they are", "golds": ["yes", "they"]}"#).unwrap();
        let json = serde_json::to_string(&score).unwrap();
        assert_eq!(json, r#"{"hotpotqa":{"em":0.0,"f1":0.5},"squad":{"em":0.0,"f1":0.5},"normalized":"yes they are"}"#);
    }

    #[test]
    fn errors_name_the_line_and_end_the_stream() {
        let lines = "{\"prediction\": \"a\", \"golds\": \"a\"}\n\n{\"prediction\": \"a\", \"golds\": []}\n{}\n";
        let scores: Vec<_> = PairScorer::new(lines.as_bytes()).collect();
        assert_eq!(scores.len(), 2);
        assert_eq!(scores[0].as_ref().unwrap().squad, EmF1 { em: 1.0, f1: 0.0 + 1.0 });
        let error = scores[1].as_ref().unwrap_err().to_string();
        assert_eq!(error, "pairs, line 3: field \"golds\" is empty, at least one string is needed");
        assert!(first("[1]").unwrap_err().to_string().contains("allowed is an object"));
        assert!(first("{\"golds\": [").unwrap_err().to_string().contains("line 1"));
    }
}
