//! Finds gold in the corpus, and the questions whose gold is not there.
//!
//! PromptRank's older evaluation (its repository's first commit, `eval_utils.py`) leaves out the questions that have a
//! gold title which is not, letter by letter, among the names of its database. These names are titles in NFD with a
//! capital first letter, and are read up to their first underscore: so titles with composed accents, with a small first
//! letter or with an underscore are never found, although the passages are there. The paper speaks of all 7,405
//! questions.

use crate::job::missing_gold::MissingGold;
use hopeval_corpus::Corpus;
use hopeval_datasets::{GoldMatch, GoldPassage, Question};
use unicode_normalization::UnicodeNormalization;

/// The passages of the corpus that are a gold passage.
pub(super) fn gold_passages(corpus: &Corpus, gold: GoldMatch, passage: &GoldPassage) -> Vec<u32> {
    let title = passage.title.as_deref().unwrap_or_default();
    match gold {
        GoldMatch::Id => {
            let id = passage.id.as_deref();
            id.and_then(|id| corpus.by_external_id(id)).into_iter().map(|p| p.0).collect()
        }
        GoldMatch::Title => corpus.by_title(title).iter().map(|p| p.0).collect(),
        GoldMatch::TitleAndText => {
            let text = passage.text.as_deref().unwrap_or_default();
            corpus.by_title_and_text(title, text).into_iter().map(|p| p.0).collect()
        }
    }
}

/// Whether a question is left out of an evaluation over `corpus`, where `gold` tells gold passages.
pub(super) fn leaves_out(policy: MissingGold, question: &Question, corpus: &Corpus, gold: GoldMatch) -> bool {
    let mut titles = question.gold.iter().filter_map(|gold| gold.title.as_deref());
    match policy {
        MissingGold::Refuse => false,
        MissingGold::LeaveOut => question.gold.iter().any(|passage| gold_passages(corpus, gold, passage).is_empty()),
        MissingGold::LeaveOutAsPromptrank => titles.any(|title| !is_name(title) || corpus.by_title(title).is_empty()),
    }
}

/// Whether a title is a name of PathRetriever's database as it stands.
fn is_name(title: &str) -> bool {
    let mut letters = title.nfd();
    let capital = letters.next().is_none_or(|first| first.to_uppercase().eq([first]));
    capital && title.nfd().eq(title.chars()) && !title.contains('_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_decomposed_and_begin_with_a_capital() {
        for (title, expected) in [
            ("Annie Morton", true),
            ("2014 S/S", true),
            ("Beyonce\u{301}", true),
            ("Beyonc\u{e9}", false),
            ("iPhone", false),
            ("A_B", false),
        ] {
            assert_eq!(is_name(title), expected, "{title}");
        }
    }
}
