//! Special cases: chunks with words of their own, and phrases that are looked for among finished words.
//!
//! A special case that has an affix or a space can be cut before it is recognised, so spaCy looks for it again among
//! the words of the whole text, as the words into which it is cut itself. Of overlapping places the longest counts,
//! then the first; a place that is passed over covers its words all the same. A place whose text is no special case
//! (its words are apart in the text and not in the rule) keeps its words.

use crate::affixes::AffixRules;
use crate::error::WordCutError;
use crate::{append_words, cut_chunks};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::ops::Range;

/// The words of a phrase, in order.
type PhraseWords = Box<[Box<str>]>;

/// Special cases by their text, and phrases by their first word.
#[derive(Debug)]
pub(crate) struct SpecialCases {
    /// The lengths of each special case's words, in bytes.
    lengths: FxHashMap<Box<str>, Box<[usize]>>,
    /// The words of each phrase.
    phrases: FxHashMap<Box<str>, Vec<PhraseWords>>,
}

impl SpecialCases {
    /// Prepares special cases, given with their words. With `few` only those with an affix or a space are phrases.
    pub(crate) fn prepare(
        words: BTreeMap<String, Vec<String>>,
        few: bool,
        affixes: &AffixRules,
    ) -> Result<Self, WordCutError> {
        let mut prepared = Self { lengths: FxHashMap::default(), phrases: FxHashMap::default() };
        for (text, words) in words {
            if !few || text.contains(' ') || affixes.has_affix(&text)? {
                prepared.add_phrase(&text, affixes)?;
            }
            prepared.lengths.insert(text.into(), words.iter().map(String::len).collect());
        }
        Ok(prepared)
    }

    fn add_phrase(&mut self, text: &str, affixes: &AffixRules) -> Result<(), WordCutError> {
        let words = cut_chunks(text, |chunk, at, words| {
            append_words(at, affixes.cut(chunk, |_| None)?.into_iter(), words);
            Ok(())
        })?;
        let words: PhraseWords = words.into_iter().map(|word| text[word].into()).collect();
        if let Some(first) = words.first() {
            self.phrases.entry(first.clone()).or_default().push(words);
        }
        Ok(())
    }

    /// The lengths of a special case's words, in bytes.
    pub(crate) fn word_lengths(&self, text: &str) -> Option<&[usize]> {
        self.lengths.get(text).map(AsRef::as_ref)
    }

    /// Puts special cases in place of the words of phrases.
    pub(crate) fn apply(&self, text: &str, words: Vec<Range<usize>>) -> Vec<Range<usize>> {
        let places = self.places(text, &words);
        if places.is_empty() {
            return words;
        }
        let (mut applied, mut next) = (Vec::with_capacity(words.len()), 0);
        for place in longest_places(places, words.len()) {
            applied.extend_from_slice(&words[next..place.start]);
            let start = words[place.start].start;
            match self.word_lengths(&text[start..words[place.end - 1].end]) {
                Some(lengths) => append_words(start, lengths.iter().copied(), &mut applied),
                None => applied.extend_from_slice(&words[place.clone()]),
            }
            next = place.end;
        }
        applied.extend_from_slice(&words[next..]);
        applied
    }

    /// All places of phrases, as ranges of words.
    fn places(&self, text: &str, words: &[Range<usize>]) -> Vec<Range<usize>> {
        let mut places = Vec::new();
        for (start, word) in words.iter().enumerate() {
            for phrase in self.phrases.get(&text[word.clone()]).into_iter().flatten() {
                let place = start..start + phrase.len();
                let here = words.get(place.clone());
                if here.is_some_and(|here| here.iter().zip(phrase).all(|(word, part)| text[word.clone()] == **part)) {
                    places.push(place);
                }
            }
        }
        places
    }
}

/// The places that count, in the order of the text.
fn longest_places(mut places: Vec<Range<usize>>, words: usize) -> Vec<Range<usize>> {
    places.sort_by_key(|place| (std::cmp::Reverse(place.len()), place.start));
    let mut covered = vec![false; words];
    places.retain(|place| {
        let free = !covered[place.start] && !covered[place.end - 1];
        covered[place.clone()].fill(true);
        free
    });
    places.sort_by_key(|place| place.start);
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_place_counts_then_the_first() {
        assert_eq!(longest_places(vec![0..2, 1..4, 4..5, 4..5], 6), [1..4, 4..5]);
        let kept = longest_places(vec![0..2, 1..3, 2..4], 4);
        assert_eq!((kept.len(), &kept[0]), (1, &(0..2)), "1..3 covers word 2");
    }
}
