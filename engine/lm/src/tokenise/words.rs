//! Word by word: each word tokenised on its own, as EfficientRAG's labeller and filter are trained.
//!
//! Every word, also `'s` and `)`, thus gets its pieces at the beginning of a text, unlike in a sentence. The sequence
//! is `[CLS] words [SEP]` or `[CLS] words [SEP] words [SEP]`, cut hard at the right. If it is too long, the last
//! `[SEP]` is lost, as in the official script (`EfficientRAG-official`, its data collation).

use super::piece_cache::CachedPiece;
use super::{SpecialRole, TokeniseError, Tokenizer};

/// A sequence of words in pieces; every list has one entry per token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WordPieces {
    /// Token ids.
    pub ids: Vec<u32>,
    /// The word piece of each token; `None` for special tokens.
    pub pieces: Vec<Option<WordPiece>>,
    /// Tokens cut from each text, its `[SEP]` included.
    pub lost: [usize; 2],
}

/// A piece of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WordPiece {
    /// The word's list: 0 for the first, 1 for the second.
    pub text: u8,
    /// The word's index in its list.
    pub word: u32,
    /// The piece's characters in the word: begin and end.
    pub characters: (u32, u32),
}

impl Tokenizer {
    /// The pieces of words, each tokenised alone, without special tokens.
    ///
    /// # Errors
    /// [`TokeniseError::Failed`].
    pub fn encode_words<S: AsRef<str>>(&self, words: &[S]) -> Result<WordPieces, TokeniseError> {
        let mut found = WordPieces::default();
        self.add_words(words, 0, &mut found)?;
        Ok(found)
    }

    /// `[CLS] first [SEP]`, or `[CLS] first [SEP] second [SEP]`, cut to `most` tokens.
    ///
    /// # Errors
    /// [`TokeniseError::NoSpecial`], [`TokeniseError::Failed`].
    pub fn encode_word_sequence<S: AsRef<str>>(
        &self,
        first: &[S],
        second: Option<&[S]>,
        most: usize,
    ) -> Result<WordPieces, TokeniseError> {
        let (cls, sep) = (self.special_id(SpecialRole::Cls)?, self.special_id(SpecialRole::Sep)?);
        let mut found = WordPieces { ids: vec![cls], pieces: vec![None], lost: [0; 2] };
        for (text, words) in [Some(first), second].into_iter().flatten().enumerate() {
            let begun = found.ids.len();
            self.add_words(words, text as u8, &mut found)?;
            let begin = most.max(begun);
            found.ids.push(sep);
            found.pieces.push(None);
            found.lost[text] = found.ids.len().saturating_sub(begin);
        }
        found.ids.truncate(most);
        found.pieces.truncate(most);
        Ok(found)
    }

    /// Appends the pieces of words. A word is tokenised once, as long as its pieces are remembered.
    fn add_words<S: AsRef<str>>(&self, words: &[S], text: u8, to: &mut WordPieces) -> Result<(), TokeniseError> {
        let mut known = self.pieces.read();
        for (word, written) in (0..).zip(words) {
            let written = written.as_ref();
            if let Some(pieces) = known.of_word(written) {
                to.add_word(text, word, pieces);
                continue;
            }
            drop(known);
            let pieces = self.pieces_of_word(written)?;
            to.add_word(text, word, &pieces);
            self.pieces.keep(written, &pieces);
            known = self.pieces.read();
        }
        Ok(())
    }

    fn pieces_of_word(&self, word: &str) -> Result<Vec<CachedPiece>, TokeniseError> {
        let encoding = self.inner.encode_char_offsets(word, false).map_err(|source| self.failed(source))?;
        let offsets = encoding.get_offsets().iter().map(|&(begin, end)| (begin as u32, end as u32));
        let ids = encoding.get_ids().iter().copied();
        Ok(ids.zip(offsets).map(|(id, characters)| CachedPiece { id, characters }).collect())
    }
}

impl WordPieces {
    fn add_word(&mut self, text: u8, word: u32, pieces: &[CachedPiece]) {
        self.ids.extend(pieces.iter().map(|piece| piece.id));
        self.pieces.extend(pieces.iter().map(|piece| Some(WordPiece { text, word, characters: piece.characters })));
    }
}
