//! Tells apart the two questions of an id in MuSiQue-Full's test set, whose rows have no `answerable` and no answers.

use std::hash::{DefaultHasher, Hasher};

use rustc_hash::FxHashMap;

use super::seen_ids::hash_id;
use crate::formats::musique::SECOND;
use crate::question::Question;

/// The paragraphs of each id seen so far, by hash. At most 32 bytes per id.
#[derive(Debug, Default)]
pub(super) struct UnlabelledPairs {
    paragraphs: FxHashMap<(u64, u64), u64>,
}

impl UnlabelledPairs {
    /// Marks the id of a question if an earlier one has it with other paragraphs. A row that stands in the file twice
    /// keeps its id, and a third one gets the mark again: both are repeated ids.
    pub(super) fn mark_second(&mut self, question: &mut Question) {
        if question.answerable.is_some() || !question.answers.is_empty() {
            return;
        }
        let paragraphs = hash_paragraphs(question);
        let first = *self.paragraphs.entry(hash_id(&question.id)).or_insert(paragraphs);
        if first != paragraphs {
            question.id.push_str(SECOND);
        }
    }
}

fn hash_paragraphs(question: &Question) -> u64 {
    let mut hasher = DefaultHasher::new();
    for text in question.candidates.iter().flat_map(|passage| [&passage.title, &passage.text]) {
        hasher.write_usize(text.len());
        hasher.write(text.as_bytes());
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passage::PassageRecord;

    fn marked(pairs: &mut UnlabelledPairs, id: &str, text: &str, answerable: Option<bool>) -> String {
        let candidates = vec![PassageRecord { text: text.to_owned(), ..PassageRecord::default() }];
        let mut question = Question { id: id.to_owned(), candidates, answerable, ..Question::default() };
        pairs.mark_second(&mut question);
        question.id
    }

    #[test]
    fn other_paragraphs_make_a_second_question() {
        let mut pairs = UnlabelledPairs::default();
        let rows = [("a", "x"), ("b", "x"), ("a", "y"), ("b", "x"), ("a", "x")];
        let ids = rows.map(|(id, text)| marked(&mut pairs, id, text, None));
        assert_eq!(ids, ["a", "b", "a__second", "b", "a"]);
        assert_eq!(marked(&mut pairs, "a", "z", None), "a__second");
        assert_eq!(marked(&mut pairs, "a", "z", Some(true)), "a", "labels tell the two apart");
    }
}
