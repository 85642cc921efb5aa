//! Finds a folder's tokens for `[CLS]`, `</s>` and the like.

use super::TokeniseError;
use serde_json::{Map, Value};
use std::path::Path;
use tokenizers::Tokenizer;

/// The purpose of a special token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "transformers' own names")]
pub enum SpecialRole {
    Cls,
    Sep,
    Pad,
    Eos,
    Bos,
    Mask,
    Unk,
}

impl SpecialRole {
    /// Every role.
    pub const ALL: [SpecialRole; 7] = [
        SpecialRole::Cls,
        SpecialRole::Sep,
        SpecialRole::Pad,
        SpecialRole::Eos,
        SpecialRole::Bos,
        SpecialRole::Mask,
        SpecialRole::Unk,
    ];

    /// The beginning of transformers' field names.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cls => "cls",
            Self::Sep => "sep",
            Self::Pad => "pad",
            Self::Eos => "eos",
            Self::Bos => "bos",
            Self::Mask => "mask",
            Self::Unk => "unk",
        }
    }

    /// The usual tokens for a role in a folder without configured tokens; they must be special there.
    const fn usual_tokens(self) -> &'static [&'static str] {
        match self {
            Self::Cls => &["[CLS]"],
            Self::Sep => &["[SEP]"],
            Self::Pad => &["[PAD]", "<pad>"],
            Self::Eos => &["</s>", "<|endoftext|>"],
            Self::Bos => &["<s>", "<|endoftext|>"],
            Self::Mask => &["[MASK]", "<mask>"],
            Self::Unk => &["[UNK]", "<unk>"],
        }
    }
}

/// Ids by role.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SpecialIds([Option<u32>; SpecialRole::ALL.len()]);

impl SpecialIds {
    /// Finds the tokens in `tokenizer_config.json`, else in `special_tokens_map.json`, else among the usual tokens.
    pub(super) fn find(tokenizer: &Tokenizer, settings: &Map<String, Value>, map: &Map<String, Value>) -> Self {
        let added = tokenizer.get_added_tokens_decoder();
        let is_special = |id: &u32| added.get(id).is_some_and(|token| token.special);
        Self(SpecialRole::ALL.map(|role| {
            let field = format!("{}_token", role.name());
            match token_text(settings.get(&field)).or_else(|| token_text(map.get(&field))) {
                Some(token) => tokenizer.token_to_id(token),
                None => role.usual_tokens().iter().find_map(|token| tokenizer.token_to_id(token).filter(is_special)),
            }
        }))
    }

    pub(super) fn get(&self, role: SpecialRole) -> Option<u32> {
        self.0[role as usize]
    }
}

/// The text of a token in these files: a string, or an object with `content`.
fn token_text(token: Option<&Value>) -> Option<&str> {
    match token? {
        Value::String(text) => Some(text),
        Value::Object(about) => about.get("content")?.as_str(),
        _ => None,
    }
}

/// The object in a JSON file; empty if there is no file.
pub(super) fn read_object(path: &Path) -> Result<Map<String, Value>, TokeniseError> {
    if !path.exists() {
        return Ok(Map::new());
    }
    let failed = |source: tokenizers::Error| TokeniseError::Format { path: path.to_owned(), source };
    let text = std::fs::read(path).map_err(|source| failed(Box::new(source)))?;
    serde_json::from_slice(&text).map_err(|source| failed(Box::new(source)))
}
