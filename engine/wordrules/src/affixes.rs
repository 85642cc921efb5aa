//! Cuts a chunk: prefixes and suffixes first, then what is left at its infixes.
//!
//! A chunk is a special case, or loses a prefix and a suffix in each round until nothing changes or a whole word is
//! left: a special case, or what `token_match` matches. The rest is one word if a pattern of whole words matches it,
//! else it is cut at its infixes.

use crate::error::WordCutError;
use crate::python_pattern::PythonPattern;

/// The patterns of a tokenizer. One that is missing never matches.
#[derive(Debug)]
pub(crate) struct AffixRules {
    /// Of the beginnings of chunks.
    pub(crate) prefix: Option<PythonPattern>,
    /// Of the ends of chunks.
    pub(crate) suffix: Option<PythonPattern>,
    /// Between two words of a chunk.
    pub(crate) infix: Option<PythonPattern>,
    /// Of whole words, before affixes.
    pub(crate) token: Option<PythonPattern>,
    /// Of whole words, behind affixes and special cases.
    pub(crate) url: Option<PythonPattern>,
}

impl AffixRules {
    /// The lengths of a chunk's words, in bytes. `special` gives those of a special case. The chunk itself is none.
    pub(crate) fn cut<'s>(
        &self,
        chunk: &str,
        special: impl Fn(&str) -> Option<&'s [usize]>,
    ) -> Result<Vec<usize>, WordCutError> {
        let (mut words, mut suffixes) = (Vec::new(), Vec::new());
        let rest = self.strip_affixes(chunk, &special, &mut words, &mut suffixes)?;
        if let Some(lengths) = special(rest) {
            words.extend_from_slice(lengths);
        } else if !rest.is_empty() {
            self.cut_rest(rest, &mut words)?;
        }
        words.extend(suffixes.iter().rev());
        Ok(words)
    }

    /// Appends the lengths of prefixes and suffixes in the order in which they are found; gives the rest.
    fn strip_affixes<'c, 's>(
        &self,
        chunk: &'c str,
        special: &impl Fn(&str) -> Option<&'s [usize]>,
        prefixes: &mut Vec<usize>,
        suffixes: &mut Vec<usize>,
    ) -> Result<&'c str, WordCutError> {
        let mut rest = chunk;
        while !rest.is_empty() && !matches(&self.token, rest)? && special(rest).is_none() {
            let (prefix, behind) = rest.split_at(self.prefix_length(rest)?);
            if !prefix.is_empty() && special(behind).is_some() {
                prefixes.push(prefix.len());
                return Ok(behind);
            }
            // The suffix is looked for behind the prefix.
            let suffix = self.suffix_length(behind)?;
            let before = &rest[..rest.len() - suffix];
            if suffix > 0 && special(before).is_some() {
                suffixes.push(suffix);
                return Ok(before);
            }
            if prefix.is_empty() && suffix == 0 {
                break;
            }
            prefixes.extend(Some(prefix.len()).filter(|&length| length > 0));
            suffixes.extend(Some(suffix).filter(|&length| length > 0));
            rest = &behind[..behind.len() - suffix];
        }
        Ok(rest)
    }

    /// Appends the lengths of the words of what has no affixes.
    fn cut_rest(&self, rest: &str, words: &mut Vec<usize>) -> Result<(), WordCutError> {
        if matches(&self.token, rest)? || matches(&self.url, rest)? {
            words.push(rest.len());
            return Ok(());
        }
        let mut start = 0;
        let infixes = self.infix.as_ref().map(|infix| infix.find_all(rest)).transpose()?;
        // An infix at the very beginning separates nothing.
        for infix in infixes.unwrap_or_default().into_iter().filter(|infix| infix.start > 0) {
            words.extend([infix.start - start, infix.len()].into_iter().filter(|&length| length > 0));
            start = infix.end;
        }
        words.extend(Some(rest.len() - start).filter(|&length| length > 0));
        Ok(())
    }

    /// Whether a text has a prefix, a suffix or an infix.
    pub(crate) fn has_affix(&self, text: &str) -> Result<bool, WordCutError> {
        Ok(self.prefix_length(text)? > 0
            || self.suffix_length(text)? > 0
            || self.infix.as_ref().map(|infix| infix.find(text)).transpose()?.flatten().is_some())
    }

    /// The length of a text's prefix in bytes, 0 without one. Python counts the characters of the first match, and
    /// takes as many of the text, wherever the match is.
    fn prefix_length(&self, text: &str) -> Result<usize, WordCutError> {
        let found = self.prefix.as_ref().map(|prefix| prefix.find(text)).transpose()?.flatten();
        Ok(found.map_or(0, |found| match found.start {
            0 => found.end,
            _ => text.chars().take(text[found].chars().count()).map(char::len_utf8).sum(),
        }))
    }

    /// The length of a text's suffix in bytes, 0 without one; as that of a prefix.
    fn suffix_length(&self, text: &str) -> Result<usize, WordCutError> {
        let found = self.suffix.as_ref().map(|suffix| suffix.find(text)).transpose()?.flatten();
        Ok(found.map_or(0, |found| match found.end == text.len() {
            true => found.len(),
            false => text.chars().rev().take(text[found].chars().count()).map(char::len_utf8).sum(),
        }))
    }
}

fn matches(pattern: &Option<PythonPattern>, text: &str) -> Result<bool, WordCutError> {
    Ok(pattern.as_ref().map(|pattern| pattern.find(text)).transpose()?.flatten().is_some())
}
