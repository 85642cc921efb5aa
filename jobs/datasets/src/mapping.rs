//! Mappings of hopeval's fields to the names in files of others: for questions and for passages.
//!
//! A path is a name, or several with dots between them for fields within fields: `meta.hops`. A list on the way gives
//! the fields of all its items: `passages.title` is a list of titles. A field whose own name has dots is found first.

mod guess;
mod passages;
mod path;
mod questions;
mod values;

pub use guess::{GuessedPassages, GuessedQuestions, guess_passages, guess_questions};
pub(crate) use passages::MappedPassages;
pub use passages::PassageMapping;
pub use path::FieldPath;
pub use questions::FieldMapping;
pub(crate) use questions::MappedQuestions;

use serde::de::DeserializeOwned;
use std::collections::BTreeSet;

use crate::error::FieldError;
use crate::format::FormatError;
use crate::value::{FieldResult, JsonValue};
use std::path::Path;

/// Reads a mapping from pairs `NAME=PATH`. The name `strata.NAME` maps the stratum NAME.
fn from_pairs<T: DeserializeOwned>(pairs: &[(String, String)]) -> Result<T, FormatError> {
    let wrong = |found: String, allowed| FormatError::Mapping { found, allowed };
    let mut fields = serde_json::Map::new();
    for (name, path) in pairs {
        let path = serde_json::Value::from(path.as_str());
        let (table, name) = match name.split_once('.') {
            Some((table, name)) => {
                let inner = fields.entry(table).or_insert_with(|| serde_json::Map::new().into());
                let found = || format!("both `{table}` and `{table}.{name}`");
                (inner.as_object_mut().ok_or_else(|| wrong(found(), "each field once"))?, name)
            }
            None => (&mut fields, name.as_str()),
        };
        if table.insert(name.to_owned(), path).is_some() {
            return Err(wrong(format!("`{name}` twice"), "each field once"));
        }
    }
    serde_json::from_value(fields.into()).map_err(|error| wrong(error.to_string(), "NAME=PATH with these names"))
}

/// The fields that a mapping has found in the rows of files.
#[derive(Debug, Default)]
struct FoundFields {
    /// Mapped fields that a row had.
    found: BTreeSet<String>,
    /// The names of the first row's fields.
    first_row: Option<Vec<String>>,
}

impl FoundFields {
    /// Remembers the names of the first row.
    fn see_row(&mut self, row: &JsonValue<'_>) {
        self.first_row.get_or_insert_with(|| row.field_names().map(str::to_owned).collect());
    }

    /// Reads the field `name` under its path, if the row has it.
    fn optional<T>(
        &mut self,
        row: &JsonValue<'_>,
        name: &str,
        path: Option<&FieldPath>,
        read: impl FnOnce(&JsonValue<'_>) -> FieldResult<T>,
    ) -> FieldResult<Option<T>> {
        let Some(path) = path else { return Ok(None) };
        let Some(value) = path.find_in(row) else { return Ok(None) };
        if !self.found.contains(name) {
            self.found.insert(name.to_owned());
        }
        read(&value).map(Some).map_err(|error| error.under_key(path.as_str()))
    }

    /// Reads the field `name`, which every row must have.
    fn required<T>(
        &mut self,
        row: &JsonValue<'_>,
        name: &str,
        path: &FieldPath,
        read: impl FnOnce(&JsonValue<'_>) -> FieldResult<T>,
    ) -> FieldResult<T> {
        if !matches!(row, JsonValue::Object(_)) {
            return Err(FieldError::new(row.describe(), "an object"));
        }
        self.optional(row, name, Some(path), read)?.ok_or_else(|| {
            let names: Vec<&str> = row.field_names().collect();
            let allowed = format!("this field is required: `{name}` is read from it; the row has {}", names.join(", "));
            FieldError::new("nothing", allowed).under_key(path.as_str())
        })
    }

    /// Refuses a mapped field that no row had.
    fn check<'m>(
        &self,
        mapped: impl Iterator<Item = (String, &'m FieldPath)>,
        file: &Path,
        rows: u64,
    ) -> Result<(), FormatError> {
        for (name, path) in mapped {
            if !self.found.contains(&name) {
                let fields = self.first_row.iter().flatten().map(String::as_str).collect::<Vec<_>>().join(", ");
                let (file, path) = (file.to_owned(), path.as_str().to_owned());
                return Err(FormatError::NotFound { file, name, path, rows, fields });
            }
        }
        Ok(())
    }
}
