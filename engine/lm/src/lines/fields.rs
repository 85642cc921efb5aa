//! The fields of a line: the allowed combinations, and their values.

use super::{BadLine, kind_of};
use crate::request::TokenIds;
use serde_json::{Map, Value};

/// An object's fields. `null` counts as missing.
#[derive(Clone, Copy, Debug)]
pub(super) struct LineFields<'a>(pub(super) &'a Map<String, Value>);

impl<'a> LineFields<'a> {
    /// Refuses a field that `command` does not know: a misspelt name must not go unnoticed.
    pub(super) fn are_of(self, command: &str, known: &[&str]) -> Result<(), BadLine> {
        match self.0.keys().find(|name| *name != "id" && !known.contains(&name.as_str())) {
            None => Ok(()),
            Some(name) => {
                Err(bad_fields(format!("{name}: {command} knows no such field; allowed are id, {}", known.join(", "))))
            }
        }
    }

    /// Refuses a line with both text and token ids for the same input.
    pub(super) fn refuse_both(self, texts: &[&str], ids: &str) -> Result<(), BadLine> {
        match texts.iter().find(|text| self.has(text) && self.has(ids)) {
            None => Ok(()),
            Some(text) => Err(bad_fields(format!("{text} and {ids}: one of them is allowed, as text or as token ids"))),
        }
    }

    /// Refuses token types without token ids.
    pub(super) fn types_go_with_ids(self) -> Result<(), BadLine> {
        if self.has("token_type_ids") && !self.has("ids") {
            return Err(bad_fields(
                "token_type_ids: allowed beside ids only; of texts the tokenizer gives them".into(),
            ));
        }
        Ok(())
    }

    fn has(self, name: &str) -> bool {
        self.0.get(name).is_some_and(|value| !value.is_null())
    }

    /// A text that may be missing.
    pub(super) fn text(self, name: &str) -> Result<Option<&'a str>, BadLine> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(bad_fields(format!("{name}: expected a string, found {}", kind_of(other)))),
        }
    }

    /// A text; messages name `or` as the alternative field.
    pub(super) fn required(self, name: &str, or: &str) -> Result<&'a str, BadLine> {
        self.text(name)?.ok_or_else(|| bad_fields(format!("{name} is missing: {name} or {or} is needed")))
    }

    /// A list of token ids that may be missing.
    pub(super) fn ids(self, name: &str) -> Result<Option<TokenIds>, BadLine> {
        let expected = |found: String| bad_fields(format!("{name}: expected a list of token ids, found {found}"));
        let list = match self.0.get(name) {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::Array(list)) => list,
            Some(other) => return Err(expected(kind_of(other).into())),
        };
        let id = |value: &Value| {
            let id = value.as_u64().and_then(|id| u32::try_from(id).ok());
            id.ok_or_else(|| expected(format!("{value} in it")))
        };
        list.iter().map(id).collect::<Result<Vec<_>, _>>().map(|ids| Some(ids.into()))
    }

    /// The number of an independent sample; 0 if it is missing.
    pub(super) fn draw(self) -> Result<u32, BadLine> {
        match self.0.get("draw") {
            None | Some(Value::Null) => Ok(0),
            Some(draw) => draw
                .as_u64()
                .and_then(|draw| u32::try_from(draw).ok())
                .ok_or_else(|| bad_fields(format!("draw: expected a number from 0 to {}, found {draw}", u32::MAX))),
        }
    }
}

fn bad_fields(message: String) -> BadLine {
    BadLine::new("field", message)
}
