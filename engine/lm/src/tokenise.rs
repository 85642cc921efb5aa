//! [`Tokenizer`]: text to ids and back, once per text.
//!
//! ```text
//!   text, pair ------> ids, types, offsets
//!   words -----------> ids, word of each piece, offsets in it     (words: each word alone, as labellers are trained)
//!   ids -------------> text
//! ```
//!
//! A folder may have no tokenizer, for requests may come as ids: the first text gives an error then. Special tokens are
//! known by role. A missing role is an error of the request with that role.

mod behind;
mod cache;
mod final_text;
pub(crate) mod joins;
mod marked;
mod piece_cache;
mod special;
mod words;

pub use special::SpecialRole;
pub use words::{WordPiece, WordPieces};

use cache::TextCache;
use joins::TextJoins;
use piece_cache::PieceCache;
use special::SpecialIds;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokenizers::{Encoding, Tokenizer as Inner};

/// A token and its bytes in the text.
pub(crate) type TokenSpan = (u32, Option<(usize, usize)>);

/// Bytes of texts and ids in a tokenizer's cache.
const CACHE_BYTES: usize = 64 << 20;

/// Bytes of words and pieces in a tokenizer's cache: some 250,000 words.
const PIECE_CACHE_BYTES: usize = 32 << 20;

/// The reason for a failure.
#[derive(Debug, thiserror::Error)]
pub enum TokeniseError {
    /// The folder has no tokenizer, and a request has text.
    #[error(
        "{}: no tokenizer.json, so texts cannot be read\n\
         hint: hopeval model import makes one of a SentencePiece model, vocab.json or vocab.txt; or give token ids",
        folder.display()
    )]
    Absent {
        /// The model's folder.
        folder: PathBuf,
    },
    /// A file of the tokenizer is unreadable.
    #[error("{}: not a tokenizer", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The error in the file.
        #[source]
        source: tokenizers::Error,
    },
    /// The tokenizer's special tokens are not around a text.
    #[error(
        "{}: the tokenizer.json puts special tokens inside a text; they must be before and behind it",
        folder.display()
    )]
    SpecialInside {
        /// The model's folder.
        folder: PathBuf,
    },
    /// The tokenizer has no token for a role.
    #[error(
        "{}: the tokenizer has no {} token, which this request needs\n\
         hint: name it as {}_token in tokenizer_config.json; it must be in the vocabulary",
        folder.display(), role.name(), role.name()
    )]
    NoSpecial {
        /// The model's folder.
        folder: PathBuf,
        /// The role.
        role: SpecialRole,
    },
    /// A text names a token outside the vocabulary.
    #[error("{}: the vocabulary has no token `{token}`, which this request's text names", folder.display())]
    NoToken {
        /// The model's folder.
        folder: PathBuf,
        /// The token's spelling.
        token: String,
    },
    /// The tokenizer failed on a text or on ids.
    #[error("{}: the tokenizer fails", folder.display())]
    Failed {
        /// The model's folder.
        folder: PathBuf,
        /// The tokenizer's error.
        #[source]
        source: tokenizers::Error,
    },
}

/// A tokenised text or pair of texts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenisedText {
    /// Token ids.
    pub ids: Vec<u32>,
    /// As many as `ids`.
    pub type_ids: Vec<u32>,
    /// Characters `(from, to)` of each token in its own text; `(0, 0)` for special tokens.
    pub offsets: Vec<(usize, usize)>,
    /// Characters of the word that each token is of, as the tokenizer parts a text into words; of the token itself, if
    /// it is of none.
    pub words: Vec<(usize, usize)>,
    /// The tokens of the second text of a pair, without special tokens; for a single text, all but the special ones.
    pub second: Range<usize>,
}

/// The tokenizer of a model's folder; shared by threads.
#[derive(Debug)]
pub struct Tokenizer {
    folder: PathBuf,
    inner: Inner,
    specials: SpecialIds,
    clean_up: bool,
    cache: TextCache,
    /// Of words, each tokenised alone.
    pieces: PieceCache,
    /// How texts are joined from pieces.
    joins: TextJoins,
}

impl Tokenizer {
    /// The tokenizer of a folder.
    ///
    /// # Errors
    /// [`TokeniseError::Absent`] without `tokenizer.json`, [`TokeniseError::Format`] for a file of another format.
    pub fn open(folder: &Path) -> Result<Self, TokeniseError> {
        Self::open_if_there(folder)?.ok_or_else(|| TokeniseError::Absent { folder: folder.to_owned() })
    }

    /// As [`open`](Self::open); `None` if the folder has no `tokenizer.json`.
    ///
    /// # Errors
    /// [`TokeniseError::Format`].
    pub fn open_if_there(folder: &Path) -> Result<Option<Self>, TokeniseError> {
        let path = folder.join("tokenizer.json");
        if !path.exists() {
            return Ok(None);
        }
        let mut inner =
            Inner::from_file(&path).map_err(|source| TokeniseError::Format { path: path.clone(), source })?;
        // The engine decides about lengths: saved truncation and padding must not apply in silence.
        inner.with_padding(None);
        inner.with_truncation(None).map_err(|source| TokeniseError::Format { path, source })?;
        let settings = special::read_object(&folder.join("tokenizer_config.json"))?;
        let map = special::read_object(&folder.join("special_tokens_map.json"))?;
        let specials = SpecialIds::find(&inner, &settings, &map);
        let clean_up = settings.get("clean_up_tokenization_spaces").and_then(serde_json::Value::as_bool) == Some(true);
        let (cache, pieces) = (TextCache::new(CACHE_BYTES), PieceCache::new(PIECE_CACHE_BYTES));
        let joins =
            TextJoins::find(&inner).ok_or_else(|| TokeniseError::SpecialInside { folder: folder.to_owned() })?;
        Ok(Some(Self { folder: folder.to_owned(), inner, specials, clean_up, cache, pieces, joins }))
    }

    /// One more than the largest token id, added tokens included.
    pub fn vocabulary(&self) -> usize {
        self.inner.get_vocab(true).values().max().map_or(0, |&last| last as usize + 1)
    }

    /// How its texts are joined from pieces.
    pub(crate) fn joins(&self) -> &TextJoins {
        &self.joins
    }

    /// The id of a special token.
    ///
    /// # Errors
    /// [`TokeniseError::NoSpecial`].
    pub fn special_id(&self, role: SpecialRole) -> Result<u32, TokeniseError> {
        self.specials.get(role).ok_or_else(|| TokeniseError::NoSpecial { folder: self.folder.clone(), role })
    }

    /// The token for the end of a text.
    ///
    /// # Errors
    /// [`TokeniseError::NoSpecial`].
    pub fn eos(&self) -> Result<u32, TokeniseError> {
        self.special_id(SpecialRole::Eos)
    }

    /// The ids of a text, with or without the model's special tokens around it. Computed once per text.
    ///
    /// # Errors
    /// [`TokeniseError::Failed`].
    pub fn ids(&self, text: &str, special: bool) -> Result<Arc<[u32]>, TokeniseError> {
        if let Some(ids) = self.cache.get(text, special) {
            return Ok(ids);
        }
        let encoding = self.inner.encode_fast(text, special).map_err(|source| self.failed(source))?;
        let ids: Arc<[u32]> = encoding.get_ids().into();
        self.cache.put(text, special, &ids);
        Ok(ids)
    }

    /// [`ids`](Self::ids) of many texts, in parallel; equal texts are computed once.
    ///
    /// # Errors
    /// [`TokeniseError::Failed`].
    pub fn ids_of_all(&self, texts: &[&str], special: bool) -> Result<Vec<Arc<[u32]>>, TokeniseError> {
        let mut found: Vec<Option<Arc<[u32]>>> = texts.iter().map(|text| self.cache.get(text, special)).collect();
        let mut missing: Vec<&str> =
            texts.iter().zip(&found).filter(|(_, found)| found.is_none()).map(|(text, _)| *text).collect();
        missing.sort_unstable();
        missing.dedup();
        let encodings = self.inner.encode_batch_fast(missing.clone(), special).map_err(|source| self.failed(source))?;
        let computed: Vec<Arc<[u32]>> = encodings.iter().map(|encoding| encoding.get_ids().into()).collect();
        for (text, ids) in missing.iter().zip(&computed) {
            self.cache.put(text, special, ids);
        }
        for (text, found) in texts.iter().zip(&mut found) {
            if found.is_none() {
                let at = missing.binary_search(text).expect("every text that was not found; this is a bug");
                *found = Some(computed[at].clone());
            }
        }
        Ok(found.into_iter().flatten().collect())
    }

    /// A text's tokens with types and offsets, with or without the tokenizer's special tokens.
    ///
    /// # Errors
    /// [`TokeniseError::Failed`].
    pub fn encode(&self, text: &str, special: bool) -> Result<TokenisedText, TokeniseError> {
        let encoding = self.inner.encode_char_offsets(text, special).map_err(|source| self.failed(source))?;
        Ok(TokenisedText::from_encoding(&encoding, 0))
    }

    /// The tokens of two texts as one sequence, with special tokens.
    ///
    /// # Errors
    /// [`TokeniseError::Failed`].
    pub fn encode_pair(&self, text: &str, pair: &str) -> Result<TokenisedText, TokeniseError> {
        let encoding = self.inner.encode_char_offsets((text, pair), true).map_err(|source| self.failed(source))?;
        Ok(TokenisedText::from_encoding(&encoding, 1))
    }

    /// A text's tokens and the bytes of each; `None` for special tokens around the text.
    pub(crate) fn token_spans(&self, text: &str, special: bool) -> Result<Vec<TokenSpan>, TokeniseError> {
        let encoding = self.inner.encode(text, special).map_err(|source| self.failed(source))?;
        let around = encoding.get_special_tokens_mask();
        let spans = encoding.get_offsets().iter().zip(around).map(|(&span, around)| (*around == 0).then_some(span));
        Ok(encoding.get_ids().iter().copied().zip(spans).collect())
    }

    /// The ids of a text's first piece, which ends at a cut; `None` if the text cannot be cut.
    pub(crate) fn ids_before_cut(&self, piece: &str) -> Result<Option<Arc<[u32]>>, TokeniseError> {
        Ok(Some(self.ids(piece, false)?).filter(|ids| !self.joins.forbids(ids)))
    }

    /// The ids of a piece that begins at a cut; `None` if the text around it cannot be cut.
    pub(crate) fn ids_behind_cut(&self, piece: &str) -> Result<Option<Arc<[u32]>>, TokeniseError> {
        let Some(behind) = &self.joins.behind else { return Ok(Some(self.ids(piece, false)?)) };
        let ids = behind.ids(piece).map_err(|source| self.failed(source))?;
        Ok(Some(ids).filter(|ids| !behind.has_added(ids)))
    }

    /// [`token_spans`](Self::token_spans) of a piece that begins at a cut.
    pub(crate) fn spans_behind_cut(&self, piece: &str) -> Result<Vec<TokenSpan>, TokeniseError> {
        match &self.joins.behind {
            None => self.token_spans(piece, false),
            Some(behind) => behind.spans(piece).map_err(|source| self.failed(source)),
        }
    }

    /// The text of token ids, with or without special tokens. Unknown ids have no text. Spaces before punctuation are
    /// removed if the folder says `clean_up_tokenization_spaces`.
    pub fn decode(&self, ids: &[u32], skip_special: bool) -> String {
        let text = self.inner.decode(ids, skip_special).unwrap_or_default();
        if self.clean_up { cleaned_up(&text) } else { text }
    }

    /// Token ids in the vocabulary's spelling; unknown ids give an empty string.
    pub fn tokens(&self, ids: &[u32]) -> Vec<String> {
        ids.iter().map(|id| self.inner.id_to_token(*id).unwrap_or_default()).collect()
    }

    /// The first `most` tokens of a text as text, and the number of lost tokens; the unchanged text if it is short
    /// enough.
    ///
    /// # Errors
    /// [`TokeniseError::Failed`].
    pub fn shorten(&self, text: &str, most: usize) -> Result<(String, usize), TokeniseError> {
        let ids = self.ids(text, false)?;
        if ids.len() <= most {
            return Ok((text.to_owned(), 0));
        }
        let kept = self.inner.decode(&ids[..most], false).map_err(|source| self.failed(source))?;
        Ok((kept, ids.len() - most))
    }

    fn failed(&self, source: tokenizers::Error) -> TokeniseError {
        TokeniseError::Failed { folder: self.folder.clone(), source }
    }
}

impl TokenisedText {
    /// Copies the needed fields; `part` is the index of the text of [`second`](Self::second).
    fn from_encoding(encoding: &Encoding, part: usize) -> Self {
        let of_part = encoding.get_sequence_ids();
        let mut of_part = of_part.iter().enumerate().filter_map(|(at, id)| (*id == Some(part)).then_some(at));
        let second = of_part.next().map_or(0..0, |first| first..of_part.next_back().unwrap_or(first) + 1);
        let offsets = encoding.get_offsets().to_vec();
        Self {
            ids: encoding.get_ids().to_vec(),
            type_ids: encoding.get_type_ids().to_vec(),
            words: whole_words(&offsets, encoding.get_word_ids(), &encoding.get_sequence_ids()),
            offsets,
            second,
        }
    }
}

/// The characters of each token's word: from the first to the last token of the same word of the same text.
fn whole_words(offsets: &[(usize, usize)], words: &[Option<u32>], texts: &[Option<usize>]) -> Vec<(usize, usize)> {
    let mut whole = offsets.to_vec();
    let word = |at: usize| words.get(at).copied().flatten().zip(texts.get(at).copied().flatten());
    let mut begin = 0;
    for at in 1..=offsets.len() {
        if at < offsets.len() && word(at).is_some() && word(at) == word(begin) {
            continue;
        }
        let range = (offsets[begin].0, offsets[at - 1].1);
        whole[begin..at].fill(range);
        begin = at;
    }
    whole
}

/// Does the same as transformers' `clean_up_tokenization`, in the same order.
fn cleaned_up(text: &str) -> String {
    const PAIRS: [(&str, &str); 10] = [
        (" .", "."),
        (" ?", "?"),
        (" !", "!"),
        (" ,", ","),
        (" ' ", "'"),
        (" n't", "n't"),
        (" 'm", "'m"),
        (" 's", "'s"),
        (" 've", "'ve"),
        (" 're", "'re"),
    ];
    PAIRS.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

#[cfg(test)]
pub(crate) mod tests;
