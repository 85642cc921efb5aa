//! A list of objects, or the same data as an object of lists: Hugging Face dumps nested tables by column.

use crate::error::FieldError;
use crate::value::{FieldResult, JsonValue};

/// Rows with named cells, in either layout.
pub(crate) enum NestedTable<'v, 'a> {
    /// `[{"title": …}, …]`
    Rows(&'v [JsonValue<'a>]),
    /// `{"title": […], …}`
    Columns(&'v JsonValue<'a>, usize),
}

impl<'v, 'a> NestedTable<'v, 'a> {
    /// Reads `value` by rows or by columns. All columns must have the same length.
    pub(crate) fn from_value(value: &'v JsonValue<'a>) -> FieldResult<Self> {
        match value {
            JsonValue::List(rows) => Ok(Self::Rows(rows)),
            JsonValue::Object(columns) => {
                let mut length = None;
                for (key, column) in columns.entries() {
                    let items = column.items().map_err(|error| error.under_key(key))?.len();
                    let expected = *length.get_or_insert(items);
                    if items != expected {
                        let allowed = format!("a list of {expected}, like the columns before");
                        return Err(FieldError::new(column.describe(), allowed).under_key(key));
                    }
                }
                Ok(Self::Columns(value, length.unwrap_or(0)))
            }
            _ => Err(FieldError::new(value.describe(), "a list of objects, or an object of lists")),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Rows(rows) => rows.len(),
            Self::Columns(_, length) => *length,
        }
    }

    /// Reads the cell `key` of row `index`. The cell is required.
    pub(crate) fn required_cell<T>(
        &self,
        index: usize,
        key: &str,
        read: impl FnOnce(&JsonValue<'a>) -> FieldResult<T>,
    ) -> FieldResult<T> {
        match self {
            Self::Rows(rows) => rows[index].required(key, read).map_err(|error| error.at_index(index)),
            Self::Columns(columns, _) => {
                columns.required(key, |column| read(&column.items()?[index]).map_err(|error| error.at_index(index)))
            }
        }
    }

    /// Reads the cell `key` of row `index` if it is present and not null.
    pub(crate) fn optional_cell<T>(
        &self,
        index: usize,
        key: &str,
        read: impl FnOnce(&JsonValue<'a>) -> FieldResult<T>,
    ) -> FieldResult<Option<T>> {
        match self {
            Self::Rows(rows) => rows[index].optional(key, read).map_err(|error| error.at_index(index)),
            Self::Columns(columns, _) => columns
                .optional(key, |column| match &column.items()?[index] {
                    JsonValue::Null => Ok(None),
                    cell => read(cell).map(Some).map_err(|error| error.at_index(index)),
                })
                .map(Option::flatten),
        }
    }
}
