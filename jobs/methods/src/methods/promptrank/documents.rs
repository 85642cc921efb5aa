//! Document scores, from the scores of the paths (section 3, appendix B).

use super::likelihood::mean;
use super::parameters::DocumentScore;
use crate::outcome::{PassagePath, RankedPassage};
use crate::ranking::MeetingOrder;
use crate::request::PassageId;
use std::collections::BTreeMap;

/// Every document on a path, best first; of equally good ones the one that was `met` first, else the smaller id.
///
/// `longest` takes the best of a document's longest paths. The other rules take all its paths, with the path of it
/// alone among them.
pub(super) fn ranked_documents<'a>(
    paths: impl IntoIterator<Item = &'a PassagePath>,
    rule: DocumentScore,
    met: &MeetingOrder,
) -> Vec<RankedPassage> {
    let mut on: BTreeMap<PassageId, Vec<&PassagePath>> = BTreeMap::new();
    for path in paths {
        for &passage in &path.passages {
            on.entry(passage).or_default().push(path);
        }
    }
    met.ranked(on.into_iter().map(|(passage, paths)| (passage, document_score(&paths, rule))), u32::MAX)
}

fn document_score(paths: &[&PassagePath], rule: DocumentScore) -> f64 {
    let scores = || paths.iter().map(|path| path.score);
    match rule {
        DocumentScore::Max => scores().fold(f64::NEG_INFINITY, f64::max),
        DocumentScore::Min => scores().fold(f64::INFINITY, f64::min),
        DocumentScore::Mean => mean(&scores().collect::<Vec<_>>()),
        DocumentScore::Longest => {
            let longest = paths.iter().map(|path| path.passages.len()).max();
            let of_longest = paths.iter().filter(|path| Some(path.passages.len()) == longest);
            of_longest.map(|path| path.score).fold(f64::NEG_INFINITY, f64::max)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(passages: &[u32], score: f64) -> PassagePath {
        PassagePath { passages: passages.iter().copied().map(PassageId).collect(), score }
    }

    #[test]
    fn the_example_of_the_appendix() {
        // A; A -> B; A -> B -> C, and another way to B.
        let paths = [path(&[1], -4.0), path(&[1, 2], -1.0), path(&[1, 2, 3], -2.0), path(&[5, 4, 2], -3.0)];
        let mut met = MeetingOrder::default();
        let of = |rule| {
            let ranked = ranked_documents(&paths, rule, &MeetingOrder::default());
            ranked.iter().map(|r| (r.passage.0, r.score)).collect::<Vec<_>>()
        };
        assert_eq!(of(DocumentScore::Max), [(1, -1.0), (2, -1.0), (3, -2.0), (4, -3.0), (5, -3.0)]);
        assert_eq!(of(DocumentScore::Min), [(3, -2.0), (2, -3.0), (4, -3.0), (5, -3.0), (1, -4.0)]);
        assert_eq!(of(DocumentScore::Longest), [(1, -2.0), (2, -2.0), (3, -2.0), (4, -3.0), (5, -3.0)]);
        let means = of(DocumentScore::Mean);
        assert_eq!(means[0], (2, -2.0));
        assert_eq!(means[2].0, 1);
        assert!((means[2].1 + 7.0 / 3.0).abs() < 1e-12);
        for passage in [5, 2, 1] {
            met.note(PassageId(passage));
        }
        let ranked = ranked_documents(&paths, DocumentScore::Max, &met);
        assert_eq!(ranked.iter().map(|r| r.passage.0).collect::<Vec<_>>(), [2, 1, 3, 5, 4]);
    }
}
