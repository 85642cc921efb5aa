//! The mapping of a passage's fields, and passages read by it.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::path::FieldPath;
use super::{FoundFields, from_pairs, values};
use crate::format::FormatError;
use crate::passage::PassageRecord;
use crate::value::{FieldResult, JsonValue};

/// Paths of a passage's fields in a row. A field without a path is not read, but `id` and `text` are then read under
/// these names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PassageMapping {
    /// The passage's id: a text or a whole number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<FieldPath>,
    /// Its title.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<FieldPath>,
    /// Its text, or its sentences. Required in every row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<FieldPath>,
}

impl PassageMapping {
    /// Reads pairs `NAME=PATH`.
    ///
    /// # Errors
    /// An unknown name, one that stands twice, an empty path.
    pub fn from_pairs(pairs: &[(String, String)]) -> Result<Self, FormatError> {
        from_pairs(pairs)
    }
}

/// Reads passages by a mapping, and remembers which fields it found.
#[derive(Debug)]
pub(crate) struct MappedPassages {
    mapping: PassageMapping,
    asked: bool,
    found: FoundFields,
}

impl MappedPassages {
    /// Reads by `mapping`; without one, by hopeval's own names.
    pub(crate) fn new(mapping: Option<&PassageMapping>) -> Self {
        let own = || PassageMapping { title: Some(FieldPath::from("title")), ..PassageMapping::default() };
        Self { mapping: mapping.cloned().unwrap_or_else(own), asked: mapping.is_some(), found: FoundFields::default() }
    }

    /// Refuses a mapped field that none of the `rows` rows of `file`, and those after it, has.
    pub(crate) fn check_found(&self, file: &Path, rows: u64) -> Result<(), FormatError> {
        if !self.asked {
            return Ok(());
        }
        let PassageMapping { id, title, text } = &self.mapping;
        let fields = [("id", id), ("title", title), ("text", text)];
        let mapped = fields.into_iter().filter_map(|(name, path)| Some((name.to_owned(), path.as_ref()?)));
        self.found.check(mapped, file, rows)
    }

    /// The passage of a row.
    pub(crate) fn read_passage(&mut self, row: &JsonValue<'_>) -> FieldResult<PassageRecord> {
        let Self { mapping, found, .. } = self;
        found.see_row(row);
        let own = |path: &Option<FieldPath>, name: &str| path.clone().unwrap_or_else(|| FieldPath::from(name));
        let title = found.optional(row, "title", mapping.title.as_ref(), values::scalar_text)?.unwrap_or_default();
        let id = found.optional(row, "id", Some(&own(&mapping.id, "id")), values::id)?;
        let read = |text: &JsonValue<'_>| values::passage_text(title, text);
        let passage = found.required(row, "text", &own(&mapping.text, "text"), read)?;
        Ok(PassageRecord { id, ..passage })
    }
}
