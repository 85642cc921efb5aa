//! Finds the titles of passages in texts, for corpora without hyperlinks.
//!
//! Rules:
//!
//! * A text mentions a title if it contains its exact characters, case included, with no word character (Python's
//!   `\w`) directly before or after.
//! * A title with a trailing parenthesis, `Mercury (planet)`, is also mentioned by its bare form, `Mercury`, unless
//!   another title is or has the same form: an ambiguous bare form mentions nothing.
//! * A form must have a letter and at most 64 words. A form of one word must have three characters, a letter other
//!   than lower-case, and must not be among the `STOP_WORDS` (English function words, months and weekdays). In a form
//!   of several stop words, each must begin with a capital.
//! * Texts are read from left to right. At each word the longest form wins (of equal length, the one starting
//!   earlier), and reading continues after it, so mentions do not overlap.
//! * A passage's own title, full or bare, is skipped: neither it nor anything within it is a link.
//!
//! A hash table holds the forms under their *core*, from their first word character to their last. At each word of a
//! text, the possible cores from there are hashed word by word, no further than the longest form with this first
//! word. The table takes 14 bytes per form while the links are made, twice as much while it is sorted.

mod stop_words;

use std::ops::Range;

use hopeval_pytext::{is_word, words};
use rustc_hash::FxHashMap;

use crate::{lookup::LookupTable, passages::PassageColumns};
use stop_words::is_stop_word;

/// More words than any real title has; bounds the work caused by a single strange title.
const MAX_WORDS: usize = 64;

/// Marks a passage number as the bare form of the passage's title.
const BARE: u32 = 1 << 31;

/// A title found in a text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TitleMention {
    /// The first passage with this title.
    pub(crate) passage: u32,
    /// Bytes in the text.
    pub(crate) span: Range<usize>,
}

/// The forms of all titles of a corpus.
pub(crate) struct MentionFinder<'a> {
    passages: &'a PassageColumns,
    forms: LookupTable,
    /// Hash of a first word to the maximum number of words in a form with this first word.
    longest: FxHashMap<u64, u8>,
}

/// A form, with the bounds of its words.
#[derive(Clone, Copy)]
struct TitleForm<'a> {
    text: &'a str,
    /// Bytes before the first word character.
    lead: usize,
    /// Bytes up to the end of the last word character.
    core_end: usize,
}

impl<'a> TitleForm<'a> {
    fn new(text: &'a str) -> Option<Self> {
        let lead = text.find(is_word)?;
        let last = text.rfind(is_word)?;
        let core_end = last + text[last..].chars().next().map_or(0, char::len_utf8);
        Some(Self { text, lead, core_end })
    }

    fn core(&self) -> &'a str {
        &self.text[self.lead..self.core_end]
    }

    /// The span of the form in `text`, if its core starts at `at`. The span may not start before `from`.
    fn span_at(&self, text: &str, at: usize, from: usize) -> Option<Range<usize>> {
        let start = at.checked_sub(self.lead).filter(|&start| start >= from)?;
        let end = start + self.text.len();
        let fits = text.as_bytes().get(start..end)? == self.text.as_bytes()
            && !text[..start].chars().next_back().is_some_and(is_word)
            && !text[end..].chars().next().is_some_and(is_word);
        fits.then_some(start..end)
    }
}

/// The title without its trailing parenthesis, if it has one.
fn bare_form(title: &str) -> Option<&str> {
    let open = title.strip_suffix(')')?.rfind('(')?;
    let bare = title[..open].trim_end();
    (!bare.is_empty()).then_some(bare)
}

/// Whether texts are searched for a form at all.
fn is_matchable(form: &str) -> bool {
    let count = words(form).take(MAX_WORDS + 1).count();
    let starts_large = |word: &str| word.chars().next().is_some_and(|c| !c.is_lowercase());
    match count {
        0 => false,
        _ if count > MAX_WORDS || !form.chars().any(char::is_alphabetic) => false,
        1 => words(form).all(|word| {
            let large = word.chars().any(|c| c.is_alphabetic() && !c.is_lowercase());
            word.chars().count() >= 3 && large && !is_stop_word(word)
        }),
        _ => words(form).any(|word| !is_stop_word(word)) || words(form).all(starts_large),
    }
}

/// FNV-1a, usable after every word, finished by the last step of splitmix64, because tables use the leading bits.
#[derive(Clone, Copy)]
struct RollingHash(u64);

impl RollingHash {
    fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    #[inline]
    fn push(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    #[inline]
    fn finish(self) -> u64 {
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn hash_text(text: &str) -> u64 {
        let mut hash = Self::new();
        hash.push(text.as_bytes());
        hash.finish()
    }
}

fn form_of(passages: &PassageColumns, code: u32) -> &str {
    let title = passages.title(code & !BARE);
    if code & BARE == 0 { title } else { bare_form(title).unwrap_or_default() }
}

impl<'a> MentionFinder<'a> {
    /// Gathers the forms of all titles.
    pub(crate) fn new(passages: &'a PassageColumns, titles: &LookupTable) -> Self {
        let mut entries = Vec::new();
        let same = |a, b| passages.title_bytes(a) == passages.title_bytes(b);
        for group in titles.value_groups(same) {
            let title = passages.title(group[0]);
            for (form, code) in [(Some(title), group[0]), (bare_form(title), group[0] | BARE)] {
                if let Some(form) = form.filter(|form| is_matchable(form)).and_then(TitleForm::new) {
                    entries.push((RollingHash::hash_text(form.core()), code));
                }
            }
        }
        crate::lookup::sort_entries(&mut entries, |code| form_of(passages, code));
        let entries = without_ambiguous(entries, passages);
        let mut longest = FxHashMap::default();
        for &(_, code) in &entries {
            let form = form_of(passages, code);
            let count = words(form).count();
            if let Some(first) = words(form).next() {
                let most = longest.entry(RollingHash::hash_text(first)).or_insert(0);
                *most = (*most).max(count as u8);
            }
        }
        Self { passages, forms: LookupTable::in_memory(&entries), longest }
    }

    /// Appends the mentions in a passage's text to `found`, in order.
    pub(crate) fn find_mentions(&self, passage: u32, found: &mut Vec<TitleMention>) {
        let title = self.passages.title(passage);
        let own = [TitleForm::new(title), bare_form(title).and_then(TitleForm::new)];
        let text = self.passages.text(passage);
        let words = word_spans(text);
        let (mut word, mut from) = (0, 0);
        while word < words.len() {
            let at = words[word].start;
            let itself = own.iter().flatten().filter_map(|form| form.span_at(text, at, from)).map(|span| (None, span));
            let others = self.candidate_forms(text, &words[word..], from).map(|(code, span)| (Some(code), span));
            // Own forms come last: among equal spans they win.
            let longest = others.chain(itself).max_by_key(|(_, span)| (span.len(), std::cmp::Reverse(span.start)));
            let Some((code, span)) = longest else {
                word += 1;
                continue;
            };
            from = span.end;
            word += words[word..].partition_point(|other| other.start < from);
            if let Some(code) = code {
                found.push(TitleMention { passage: code & !BARE, span });
            }
        }
    }

    /// The forms with a core starting at the first of `words`.
    fn candidate_forms<'t>(
        &self,
        text: &'t str,
        words: &'t [Range<usize>],
        from: usize,
    ) -> impl Iterator<Item = (u32, Range<usize>)> + use<'_, 't, 'a> {
        let first = &words[0];
        let most = self.longest.get(&RollingHash::hash_text(&text[first.clone()])).copied().unwrap_or(0);
        let mut hash = RollingHash::new();
        let mut hashed = first.start;
        words.iter().take(most.into()).flat_map(move |word| {
            hash.push(&text.as_bytes()[hashed..word.end]);
            hashed = word.end;
            let at = first.start;
            self.forms.values_under(hash.finish()).iter().filter_map(move |&code| {
                let form = TitleForm::new(form_of(self.passages, code))?;
                Some((code, form.span_at(text, at, from)?))
            })
        })
    }
}

/// Drops bare forms shared by several titles. Entries are sorted by hash and form.
fn without_ambiguous(mut entries: Vec<(u64, u32)>, passages: &PassageColumns) -> Vec<(u64, u32)> {
    let mut kept = 0;
    let mut start = 0;
    while start < entries.len() {
        let (hash, form) = (entries[start].0, form_of(passages, entries[start].1));
        let same = |entry: &&(u64, u32)| entry.0 == hash && form_of(passages, entry.1) == form;
        let count = entries[start..].iter().take_while(same).count();
        for index in start..start + count {
            let entry = entries[index];
            if count == 1 || entry.1 & BARE == 0 {
                entries[kept] = entry;
                kept += 1;
            }
        }
        start += count;
    }
    entries.truncate(kept);
    entries
}

/// The maximal runs of word characters.
fn word_spans(text: &str) -> Vec<Range<usize>> {
    let origin = text.as_ptr() as usize;
    words(text)
        .map(|word| {
            let start = word.as_ptr() as usize - origin;
            start..start + word.len()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bare_forms() {
        assert_eq!(bare_form("Mercury (planet)"), Some("Mercury"));
        assert_eq!(bare_form("A (b) (c)"), Some("A (b)"));
        assert_eq!(bare_form("(planet)"), None);
        assert_eq!(bare_form("Mercury (planet) II"), None);
    }

    #[test]
    fn what_is_looked_for() {
        for form in ["Paris", "iPod", "The Who", "It Is", "AT&T", "Yahoo!", "東京都", "Prime number", "3 Idiots"] {
            assert!(is_matchable(form), "{form}");
        }
        for form in ["It", "May", "The", "Him", "film", "1984", "U2", "!!!", "", "To be"] {
            assert!(!is_matchable(form), "{form}");
        }
        assert!(!is_matchable(&"Word ".repeat(65)));
    }

    #[test]
    fn forms_fit_at_word_boundaries_only() {
        let form = TitleForm::new(".hack").unwrap();
        assert_eq!(form.span_at("see .hack now", 5, 0), Some(4..9));
        assert_eq!(form.span_at("x.hack", 2, 0), None);
        assert_eq!(form.span_at("see .hacks", 5, 0), None);
        assert_eq!(form.span_at("see .hack now", 5, 5), None);
    }
}
