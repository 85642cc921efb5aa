//! A folder's settings for its tokenizer: `tokenizer_config.json`, `special_tokens_map.json` and `added_tokens.json`.

use super::{TokenRoles, TokenizerParts, vocabulary_error};
use crate::CheckpointError;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// Roles of special tokens, in the order in which transformers adds missing ones to a vocabulary.
const ROLES: [&str; 7] = ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

/// The contents of the three files; empty for a missing file.
#[derive(Debug, Default)]
pub(super) struct TokenizerSettings {
    pub(super) config: Map<String, Value>,
    special: Map<String, Value>,
    added: Map<String, Value>,
}

impl TokenizerSettings {
    pub(super) fn read(dir: &Path) -> Result<Self, CheckpointError> {
        Ok(Self {
            config: read_object(&dir.join("tokenizer_config.json"))?,
            special: read_object(&dir.join("special_tokens_map.json"))?,
            added: read_object(&dir.join("added_tokens.json"))?,
        })
    }

    /// A text field of `tokenizer_config.json`.
    pub(super) fn text_field(&self, field: &str) -> Option<&str> {
        self.config.get(field).and_then(Value::as_str)
    }

    /// A boolean field of `tokenizer_config.json`; `default` if it is absent or null.
    pub(super) fn flag(&self, field: &str, default: bool) -> bool {
        self.config.get(field).and_then(Value::as_bool).unwrap_or(default)
    }

    /// Special tokens by role: from the files, else from `defaults`.
    pub(super) fn roles(&self, defaults: &[(&str, &str)]) -> TokenRoles {
        let default =
            |role: &str| defaults.iter().find(|(name, _)| *name == role).map(|(_, token)| (*token).to_owned());
        let said = |role: &str| token_content(self.config.get(role)).or_else(|| token_content(self.special.get(role)));
        ROLES.into_iter().filter_map(|role| Some((role, said(role).or_else(|| default(role))?))).collect()
    }

    /// `added_tokens` of `tokenizer.json`: the vocabulary's fixed pieces, tokens of roles and additional tokens.
    /// Tokens missing from the vocabulary are numbered after it.
    ///
    /// # Errors
    /// [`CheckpointError::Vocabulary`] if the files number tokens with a gap.
    pub(super) fn added_tokens(
        &self,
        file: &Path,
        parts: &TokenizerParts,
        roles: &TokenRoles,
    ) -> Result<Vec<Value>, CheckpointError> {
        let mut tokens = AddedTokens { parts, next: parts.size, by_id: BTreeMap::new() };
        for (piece, special) in &parts.fixed {
            tokens.add_token(piece, json!({"special": special}));
        }
        // Tokens with a given id come before tokens that are only named.
        let decoder = self.config.get("added_tokens_decoder").and_then(Value::as_object);
        let numbered = decoder.into_iter().flatten().filter_map(|(id, about)| Some((id.parse().ok()?, about.clone())));
        let listed = self.added.iter().filter_map(|(content, id)| Some((id.as_u64()?, json!({"content": content}))));
        let mut numbered: Vec<(u64, Value)> = listed.chain(numbered).collect();
        numbered.sort_by_key(|(id, _)| *id);
        for (id, about) in numbered {
            let Some(token) = token_content(Some(&about)) else { continue };
            let given = tokens.add_token(&token, about);
            if u64::from(given) != id {
                let reason = format!("the added token {token} has id {id}, which the vocabulary makes {given}");
                return Err(vocabulary_error(file, reason));
            }
        }
        for (role, token) in roles {
            let about = self.special.get(*role).filter(|about| about.is_object()).cloned();
            tokens.add_token(token, mark_special(about.unwrap_or_default()));
        }
        for field in ["additional_special_tokens", "extra_special_tokens"] {
            let lists = [self.config.get(field), self.special.get(field)];
            for about in lists.into_iter().flatten().filter_map(Value::as_array).flatten() {
                if let Some(token) = token_content(Some(about)) {
                    tokens.add_token(&token, mark_special(about.clone()));
                }
            }
        }
        Ok(tokens.by_id.into_values().collect())
    }
}

/// Tokens added so far.
struct AddedTokens<'a> {
    parts: &'a TokenizerParts,
    next: u32,
    by_id: BTreeMap<u32, Value>,
}

impl AddedTokens<'_> {
    /// Adds a token, or updates a known one. Returns its id.
    fn add_token(&mut self, token: &str, about: Value) -> u32 {
        let known = self.parts.vocabulary.get(token).copied();
        let known = known.or_else(|| self.by_id.iter().find(|(_, added)| added["content"] == token).map(|(id, _)| *id));
        let id = known.unwrap_or(self.next);
        if id == self.next {
            self.next += 1;
        }
        let added = self.by_id.entry(id).or_insert_with(|| {
            json!({
                "id": id, "content": token, "single_word": false, "lstrip": false, "rstrip": false,
                "normalized": false, "special": false,
            })
        });
        for field in ["single_word", "lstrip", "rstrip", "normalized", "special"] {
            if let Some(Value::Bool(said)) = about.get(field) {
                added[field] = json!(said);
            }
        }
        id
    }
}

fn mark_special(about: Value) -> Value {
    match about {
        Value::Object(mut about) => {
            about.insert("special".to_owned(), json!(true));
            Value::Object(about)
        }
        _ => json!({"special": true}),
    }
}

/// The text of a token as these files write it: a string, or an object with `content`.
fn token_content(token: Option<&Value>) -> Option<String> {
    match token? {
        Value::String(text) => Some(text.clone()),
        Value::Object(about) => about.get("content")?.as_str().map(str::to_owned),
        _ => None,
    }
}

/// The object in a JSON file; empty if there is no file.
fn read_object(path: &Path) -> Result<Map<String, Value>, CheckpointError> {
    if !path.exists() {
        return Ok(Map::new());
    }
    let text = super::read_file(path)?;
    serde_json::from_slice(&text).map_err(|source| CheckpointError::Format {
        path: path.to_owned(),
        reason: format!("not a JSON object: {source}"),
    })
}
