//! Chooses passages by their relevance to several queries.

use crate::response::{Failure, FailureKind, PassageText, Response};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The score of a passage that several queries selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ScoreRule {
    /// The highest.
    Best,
    /// That of the last query, which writes over the others, as in MIGRES's code.
    Last,
}

/// A passage of the pool that is relevant enough.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SelectedPassage {
    /// Its position in the pool.
    pub(crate) at: usize,
    /// Its relevance.
    pub(crate) score: f64,
    /// The query with this relevance, by its position.
    pub(crate) query: usize,
}

/// The texts of a retrieval, at most `most` of them.
///
/// # Errors
/// The request's failure, or an answer of another kind.
pub(crate) fn found_texts(mut response: Response, most: u32) -> Result<Vec<PassageText>, Failure> {
    let mut texts = std::mem::take(&mut response.passages);
    response.hits()?;
    texts.truncate(most as usize);
    Ok(texts)
}

/// All lists behind each other, each text once.
pub(crate) fn pool_passages(lists: impl IntoIterator<Item = Vec<PassageText>>) -> Vec<PassageText> {
    let mut seen = BTreeSet::new();
    lists.into_iter().flatten().filter(|passage| seen.insert(passage.text.clone())).collect()
}

/// The relevances of `items` items.
///
/// # Errors
/// The request's failure, an answer of another kind, or another number of relevances.
pub(crate) fn item_relevances(response: Response, items: usize) -> Result<Vec<f64>, Failure> {
    let relevances = response.relevances()?;
    if relevances.len() == items {
        return Ok(relevances);
    }
    let message = format!("{} relevances of {items} items", relevances.len());
    Err(Failure { kind: FailureKind::ParseFailure, message })
}

/// The passages with a relevance of at least `threshold` to some query, the most relevant first; equal ones in the
/// pool's order. `relevances` has one list for each query, with one number for each passage of the pool.
pub(crate) fn select_passages(relevances: &[Vec<f64>], threshold: f64, rule: ScoreRule) -> Vec<SelectedPassage> {
    let pool = relevances.first().map_or(0, Vec::len);
    let mut selected: Vec<SelectedPassage> = (0..pool)
        .filter_map(|at| {
            let scores = relevances.iter().enumerate().map(|(query, list)| (query, list[at]));
            let mut relevant = scores.filter(|(_, score)| *score >= threshold);
            let (query, score) = match rule {
                ScoreRule::Last => relevant.next_back()?,
                ScoreRule::Best => {
                    let first = relevant.next()?;
                    relevant.fold(first, |best, next| if next.1 > best.1 { next } else { best })
                }
            };
            Some(SelectedPassage { at, score, query })
        })
        .collect();
    // A score of -0.0 is one of 0.0.
    selected.sort_by(|a, b| (b.score + 0.0).total_cmp(&(a.score + 0.0)).then(a.at.cmp(&b.at)));
    selected
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_query_writes_over_the_others_or_the_best_counts() {
        let relevances = [vec![5.0, 1.0, f64::NAN, 3.0], vec![3.5, 2.0, 9.0, 2.9]];
        let selected =
            |rule| select_passages(&relevances, 3.0, rule).iter().map(|s| (s.at, s.score, s.query)).collect::<Vec<_>>();
        assert_eq!(selected(ScoreRule::Best), [(2, 9.0, 1), (0, 5.0, 0), (3, 3.0, 0)]);
        assert_eq!(selected(ScoreRule::Last), [(2, 9.0, 1), (0, 3.5, 1), (3, 3.0, 0)]);
        assert!(select_passages(&[], 0.0, ScoreRule::Best).is_empty());
        let tied = select_passages(&[vec![-0.0, 0.0]], 0.0, ScoreRule::Best);
        assert_eq!(tied.iter().map(|selected| selected.at).collect::<Vec<_>>(), [0, 1]);
    }
}
