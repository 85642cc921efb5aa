//! Finds gold in the corpus, and the questions whose gold is not there.
//!
//! PromptRank's older evaluation (its repository's first commit, `eval_utils.py`) leaves out the questions that have a
//! gold title which is not, letter by letter, among the names of its database. These names are titles in NFD with a
//! capital first letter, and are read up to their first underscore: so titles with composed accents, with a small first
//! letter or with an underscore are never found, although the passages are there. The paper speaks of all 7,405
//! questions.

use crate::job::missing_gold::MissingGold;
use hopeval_corpus::{Corpus, PassageId};
use hopeval_datasets::{GoldMatch, GoldPassage, Question};
use hopeval_methods::similarity::partial_ratio;
use std::cmp::Reverse;
use unicode_normalization::UnicodeNormalization;

/// The gold passages that the dataset names by one entry, each as the passages of the corpus that count as it. One of
/// them is empty if the corpus lacks it.
pub(super) fn gold_slots(corpus: &Corpus, gold: GoldMatch, passage: &GoldPassage) -> Vec<Vec<u32>> {
    if gold != GoldMatch::Snippet {
        return vec![gold_passages(corpus, gold, passage)];
    }
    let page = gold_passages(corpus, GoldMatch::Title, passage);
    let mut slots: Vec<Vec<u32>> = Vec::new();
    for snippet in &passage.snippets {
        let slot: Vec<u32> = most_like(corpus, &page, snippet).into_iter().collect();
        if !slots.contains(&slot) {
            slots.push(slot);
        }
    }
    if slots.is_empty() { vec![Vec::new()] } else { slots }
}

/// The passage that has the piece most like a snippet; of equal ones the first. (IRCoT, `process_iirc.py`.)
fn most_like(corpus: &Corpus, page: &[u32], snippet: &str) -> Option<u32> {
    let snippet = snippet.trim();
    let text = |passage: u32| corpus.text(PassageId(passage));
    // The greatest ratio, without its computation.
    let is_whole = |passage: &&u32| text(**passage).contains(snippet) || snippet.contains(text(**passage));
    if let Some(&whole) = page.iter().find(is_whole) {
        return Some(whole);
    }
    let ratios = page.iter().map(|&passage| (partial_ratio(text(passage), snippet), Reverse(passage)));
    ratios.max().map(|(_, Reverse(passage))| passage)
}

/// The passages of the corpus that are a gold passage.
fn gold_passages(corpus: &Corpus, gold: GoldMatch, passage: &GoldPassage) -> Vec<u32> {
    let title = passage.title.as_deref().unwrap_or_default();
    match gold {
        GoldMatch::Id => {
            let id = passage.id.as_deref();
            id.and_then(|id| corpus.by_external_id(id)).into_iter().map(|p| p.0).collect()
        }
        GoldMatch::Title | GoldMatch::Snippet => corpus.by_title(title).iter().map(|p| p.0).collect(),
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
        MissingGold::Refuse | MissingGold::Keep => false,
        MissingGold::LeaveOut => {
            question.gold.iter().any(|passage| gold_slots(corpus, gold, passage).iter().any(Vec::is_empty))
        }
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
    use hopeval_corpus::{CorpusBuilder, CorpusSettings, NewPassage};

    #[test]
    fn a_snippet_is_of_the_passage_with_the_piece_most_like_it() {
        let dir = tempfile::tempdir().expect("a folder");
        let dir = dir.path().join("corpus");
        let mut builder = CorpusBuilder::create(&dir, CorpusSettings::default()).expect("a folder");
        for (id, title, text) in [
            ("a", "Rome", "Rome is the capital of Italy and lies on the Tiber."),
            ("b", "Rome", "The city was founded in 753 BC by Romulus, a legend says."),
            ("c", "Rome", "Its football clubs play in one stadium, the Olimpico."),
            ("d", "Bonn", "It was founded in 753 BC."),
        ] {
            builder.push(NewPassage { id: Some(id), title, text, sentences: &[], links: None }).expect("a passage");
        }
        builder.finish().expect("a corpus");
        let corpus = Corpus::open(&dir).expect("a corpus");
        let gold = |snippets: &[&str]| GoldPassage {
            title: Some("Rome".to_owned()),
            snippets: snippets.iter().map(|&snippet| snippet.to_owned()).collect(),
            ..GoldPassage::default()
        };
        let slots = |snippets: &[&str]| gold_slots(&corpus, GoldMatch::Snippet, &gold(snippets));
        assert_eq!(slots(&["lies on the Tiber", " capital of Italy "]), [[0]]);
        assert_eq!(slots(&["the city was founded (753 BC) by Romulus", "play in one stadium"]), [[1], [2]]);
        assert_eq!(slots(&["zzz"]), [[0]], "of equal ones the first");
        assert_eq!(slots(&[]), [[0; 0]]);
        assert_eq!(gold_slots(&corpus, GoldMatch::Title, &gold(&["x"])), [[0, 1, 2]]);
        let missing = GoldPassage { title: Some("Oslo".to_owned()), ..gold(&["x"]) };
        assert_eq!(gold_slots(&corpus, GoldMatch::Snippet, &missing), [[0; 0]]);
    }

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
