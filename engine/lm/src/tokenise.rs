//! Text to token ids and back, through a folder's `tokenizer.json`.

use std::ops::Range;
use std::path::{Path, PathBuf};
use tokenizers::Encoding;

/// A folder's tokenizer.
#[derive(Clone, Debug)]
pub struct Tokenizer {
    folder: PathBuf,
    inner: tokenizers::Tokenizer,
    eos: Option<u32>,
}

/// What can be wrong with a tokenizer or a text.
#[derive(Debug, thiserror::Error)]
pub enum TokeniseError {
    /// A file is not what its name says.
    #[error("{}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A special token that is needed is not there.
    #[error("the tokenizer of {} has no {role} token: {hint}", folder.display())]
    Special {
        /// The folder.
        folder: PathBuf,
        /// What it is for: `end-of-sequence`.
        role: &'static str,
        /// Where it is looked for.
        hint: &'static str,
    },
    /// A text could not be tokenised.
    #[error("cannot tokenise: {reason}")]
    Text {
        /// What the tokenizer said.
        reason: String,
    },
}

/// A tokenised text or pair of texts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Encoded {
    /// Token ids.
    pub ids: Vec<u32>,
    /// As many as `ids`.
    pub type_ids: Vec<u32>,
    /// Characters `(from, to)` of each token in its own text; `(0, 0)` for special tokens.
    pub offsets: Vec<(usize, usize)>,
    /// The tokens of the second text of a pair, special tokens left out; all but special ones where there is no pair.
    pub second: Range<usize>,
}

impl Tokenizer {
    /// The tokenizer of a folder.
    ///
    /// # Errors
    /// [`TokeniseError::File`].
    pub fn open(folder: &Path) -> Result<Self, TokeniseError> {
        let path = folder.join("tokenizer.json");
        let mut inner = tokenizers::Tokenizer::from_file(&path)
            .map_err(|error| TokeniseError::File { path: path.clone(), reason: error.to_string() })?;
        // Lengths are the engine's matter: what a file was saved with must not cut or pad in silence.
        inner.with_padding(None);
        inner.with_truncation(None).map_err(|error| TokeniseError::File { path, reason: error.to_string() })?;
        let eos = special(folder, "eos_token")?.and_then(|token| inner.token_to_id(&token));
        Ok(Self { folder: folder.to_owned(), inner, eos })
    }

    /// As [`open`](Self::open); none where the folder has no `tokenizer.json`.
    ///
    /// # Errors
    /// [`TokeniseError::File`].
    pub fn open_if_there(folder: &Path) -> Result<Option<Self>, TokeniseError> {
        if folder.join("tokenizer.json").exists() { Self::open(folder).map(Some) } else { Ok(None) }
    }

    /// A text's tokens, with the tokenizer's special ones or without.
    ///
    /// # Errors
    /// [`TokeniseError::Text`].
    pub fn encode(&self, text: &str, special: bool) -> Result<Encoded, TokeniseError> {
        Ok(taken(&self.inner.encode_char_offsets(text, special).map_err(untokenised)?, 0))
    }

    /// The tokens of two texts as one sequence, with special tokens.
    ///
    /// # Errors
    /// [`TokeniseError::Text`].
    pub fn encode_pair(&self, text: &str, pair: &str) -> Result<Encoded, TokeniseError> {
        Ok(taken(&self.inner.encode_char_offsets((text, pair), true).map_err(untokenised)?, 1))
    }

    /// The text of token ids, with or without special tokens. Ids that it does not know have no text.
    pub fn decode(&self, ids: &[u32], skip_special: bool) -> String {
        self.inner.decode(ids, skip_special).unwrap_or_default()
    }

    /// Token ids as the vocabulary spells them; empty for those that it does not know.
    pub fn tokens(&self, ids: &[u32]) -> Vec<String> {
        ids.iter().map(|id| self.inner.id_to_token(*id).unwrap_or_default()).collect()
    }

    /// The token that ends a text.
    ///
    /// # Errors
    /// [`TokeniseError::Special`].
    pub fn eos(&self) -> Result<u32, TokeniseError> {
        self.eos.ok_or_else(|| TokeniseError::Special {
            folder: self.folder.clone(),
            role: "end-of-sequence",
            hint: "name it as eos_token in tokenizer_config.json or special_tokens_map.json",
        })
    }
}

/// Takes over what is needed; `part` says which of the texts [`Encoded::second`] is.
fn taken(encoding: &Encoding, part: usize) -> Encoded {
    let of_part = encoding.get_sequence_ids();
    let mut of_part = of_part.iter().enumerate().filter_map(|(at, id)| (*id == Some(part)).then_some(at));
    let second = of_part.next().map_or(0..0, |first| first..of_part.next_back().unwrap_or(first) + 1);
    Encoded {
        ids: encoding.get_ids().to_vec(),
        type_ids: encoding.get_type_ids().to_vec(),
        offsets: encoding.get_offsets().to_vec(),
        second,
    }
}

fn untokenised(error: tokenizers::Error) -> TokeniseError {
    TokeniseError::Text { reason: error.to_string() }
}

/// A special token by its role, as `tokenizer_config.json` or `special_tokens_map.json` names it: a string, or an object with
/// `content`.
fn special(folder: &Path, role: &str) -> Result<Option<String>, TokeniseError> {
    for name in ["tokenizer_config.json", "special_tokens_map.json"] {
        let path = folder.join(name);
        let Ok(text) = std::fs::read(&path) else { continue };
        let config: serde_json::Value = serde_json::from_slice(&text)
            .map_err(|error| TokeniseError::File { path, reason: format!("not JSON: {error}") })?;
        let token = config.get(role).and_then(|token| token.as_str().or_else(|| token.get("content")?.as_str()));
        if let Some(token) = token {
            return Ok(Some(token.to_owned()));
        }
    }
    Ok(None)
}
