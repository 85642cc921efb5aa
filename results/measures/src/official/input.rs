//! Reads the files of the official scripts. Errors name row and field.

use std::io::Read;

use serde_json::{Map, Value};

use super::{FileRole, MeasureError};

/// The sentence of a supporting fact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SentenceName<'v> {
    /// Its index.
    Index(i64),
    /// A model's text in place of an index.
    Text(&'v str),
}

/// One object of a file and its position.
pub(super) struct FileRow {
    role: FileRole,
    at: String,
    fields: Map<String, Value>,
}

/// The file's rows: the objects of a JSON array, or a sequence of JSON objects (JSON Lines).
pub(super) fn read_rows(role: FileRole, mut reader: impl Read) -> Result<Vec<FileRow>, MeasureError> {
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes).map_err(|source| MeasureError::Read { role, source })?;
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    let mut rows = Vec::new();
    let mut values = serde_json::Deserializer::from_slice(bytes).into_iter::<Value>();
    let (mut line, mut counted) = (1u64, 0);
    loop {
        // The line of the next value: after the separators behind the last one.
        let start = values.byte_offset();
        let start = start + bytes[start..].iter().take_while(|b| b.is_ascii_whitespace()).count();
        line += bytes[counted..start].iter().filter(|&&b| b == b'\n').count() as u64;
        counted = start;
        match values.next() {
            None => return Ok(rows),
            Some(Err(source)) => {
                return Err(MeasureError::Json { role, line: (source.line() as u64).max(1), source });
            }
            Some(Ok(Value::Array(items))) => {
                for (i, item) in items.into_iter().enumerate() {
                    rows.push(object_row(role, format!("row {}", i + 1), item)?);
                }
            }
            Some(Ok(value)) => rows.push(object_row(role, format!("line {line}"), value)?),
        }
    }
}

/// The file's one object (HotpotQA's and 2Wiki's predictions).
pub(super) fn read_object(role: FileRole, reader: impl Read) -> Result<FileRow, MeasureError> {
    let mut rows = read_rows(role, reader)?;
    match (rows.pop(), rows.is_empty()) {
        (Some(row), true) => Ok(row),
        (None, _) => Err(MeasureError::Empty { role }),
        (Some(row), false) => {
            Err(row.field_error("answer", "is expected in a single object with the predictions of all questions by id"))
        }
    }
}

/// One line that is one object.
pub(super) fn parse_line(role: FileRole, text: &str, line: u64) -> Result<FileRow, MeasureError> {
    let value = serde_json::from_str(text).map_err(|source| MeasureError::Json { role, line, source })?;
    object_row(role, format!("line {line}"), value)
}

fn object_row(role: FileRole, at: String, value: Value) -> Result<FileRow, MeasureError> {
    match value {
        Value::Object(fields) => Ok(FileRow { role, at, fields }),
        other => Err(MeasureError::Field {
            role,
            at,
            field: "(row)".to_owned(),
            problem: format!("is {}, allowed is an object", value_kind(&other)),
        }),
    }
}

/// The kind of a value, for messages.
pub(super) fn value_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

impl FileRow {
    /// An error about a field of this row.
    pub(super) fn field_error(&self, field: &str, problem: impl Into<String>) -> MeasureError {
        MeasureError::Field { role: self.role, at: self.at.clone(), field: field.to_owned(), problem: problem.into() }
    }

    fn type_error(&self, field: &str, value: &Value, allowed: &str) -> MeasureError {
        self.field_error(field, format!("is {}, allowed is {allowed}", value_kind(value)))
    }

    /// Takes the row's id. From now on errors name the row by it.
    pub(super) fn take_id(&mut self, field: &str) -> Result<String, MeasureError> {
        let id = self.text(field)?.to_owned();
        self.at = format!("{} (id \"{id}\")", self.at);
        Ok(id)
    }

    /// The position of the row.
    pub(super) fn at(&self) -> &str {
        &self.at
    }

    /// A field that may be missing.
    pub(super) fn optional(&self, field: &str) -> Option<&Value> {
        self.fields.get(field).filter(|value| !value.is_null())
    }

    /// A required field.
    pub(super) fn required(&self, field: &str) -> Result<&Value, MeasureError> {
        self.fields.get(field).ok_or_else(|| self.field_error(field, "is missing"))
    }

    /// A string.
    pub(super) fn text(&self, field: &str) -> Result<&str, MeasureError> {
        let value = self.required(field)?;
        value.as_str().ok_or_else(|| self.type_error(field, value, "a string"))
    }

    /// An answer: a string, or a list of strings, each of them right.
    pub(super) fn answers(&self, field: &str) -> Result<Vec<String>, MeasureError> {
        match self.required(field)? {
            Value::String(text) => Ok(vec![text.clone()]),
            value @ Value::Array(_) => self.texts_of(field, value),
            other => Err(self.type_error(field, other, "a string or a list of strings")),
        }
    }

    /// A list of strings; empty if the field is missing.
    pub(super) fn texts(&self, field: &str) -> Result<Vec<String>, MeasureError> {
        self.optional(field).map_or(Ok(Vec::new()), |value| self.texts_of(field, value))
    }

    /// `value` as a list of strings.
    pub(super) fn texts_of(&self, field: &str, value: &Value) -> Result<Vec<String>, MeasureError> {
        let allowed = "a list of strings";
        let items = value.as_array().ok_or_else(|| self.type_error(field, value, allowed))?;
        let text = |item: &Value| item.as_str().map(str::to_owned).ok_or_else(|| self.type_error(field, item, allowed));
        items.iter().map(text).collect()
    }

    /// An object.
    pub(super) fn object(&self, field: &str) -> Result<&Map<String, Value>, MeasureError> {
        let value = self.required(field)?;
        value.as_object().ok_or_else(|| self.type_error(field, value, "an object with an entry for each question id"))
    }

    /// A boolean, or 0 or 1.
    pub(super) fn bool_field(&self, field: &str) -> Result<bool, MeasureError> {
        let value = self.required(field)?;
        self.truth_of(field, value)
    }

    /// `value` as a boolean, or 0 or 1.
    pub(super) fn truth_of(&self, field: &str, value: &Value) -> Result<bool, MeasureError> {
        match (value.as_bool(), value.as_i64()) {
            (Some(truth), _) => Ok(truth),
            (None, Some(number @ 0..=1)) => Ok(number == 1),
            _ => Err(self.type_error(field, value, "true or false")),
        }
    }

    /// `value` as a list of lists, each converted by `item`.
    pub(super) fn list_of<T>(
        &self,
        field: &str,
        value: &Value,
        item: impl Fn(&Value) -> Result<T, MeasureError>,
    ) -> Result<Vec<T>, MeasureError> {
        value.as_array().ok_or_else(|| self.type_error(field, value, "a list"))?.iter().map(item).collect()
    }

    /// `value` as supporting facts: a list of [title, sentence index]. An index may be a text: the scripts compare it
    /// as it stands, and no gold has one.
    pub(super) fn facts<'v>(
        &self,
        field: &str,
        value: &'v Value,
    ) -> Result<Vec<(String, SentenceName<'v>)>, MeasureError> {
        let facts = value.as_array().ok_or_else(|| self.type_error(field, value, "a list"))?;
        let read = |fact: &'v Value| match fact.as_array().map(Vec::as_slice) {
            Some([Value::String(title), Value::String(text)]) => Ok((title.clone(), SentenceName::Text(text))),
            Some([Value::String(title), sentence]) if sentence.is_i64() => {
                Ok((title.clone(), SentenceName::Index(sentence.as_i64().unwrap_or_default())))
            }
            _ => Err(self.field_error(field, format!("has the entry {fact}, allowed is [title, sentence index]"))),
        };
        facts.iter().map(read).collect()
    }

    /// `value` as an integer, also written as a string.
    pub(super) fn integer(&self, field: &str, value: &Value) -> Result<i64, MeasureError> {
        let written = || value.as_str().and_then(|text| text.trim().parse().ok());
        value.as_i64().or_else(written).ok_or_else(|| self.type_error(field, value, "an integer"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_and_lines_alike_with_separators_in_strings() {
        for text in ["[{\"id\": \"a\"}, {\"id\": \"b\u{2028}\"}]", "{\"id\": \"a\"}\n\n{\"id\": \"b\u{2028}\"}\n"] {
            let rows = read_rows(FileRole::Gold, text.as_bytes()).unwrap();
            let ids: Vec<&str> = rows.iter().map(|row| row.text("id").unwrap()).collect();
            assert_eq!(ids, ["a", "b\u{2028}"]);
        }
    }

    #[test]
    fn errors_name_line_and_field() {
        let lines = "{\"id\": \"a\"}\n\n{\"id\": 3}\n";
        let mut rows_ = read_rows(FileRole::Gold, lines.as_bytes()).unwrap();
        let error = rows_[1].take_id("id").unwrap_err().to_string();
        assert_eq!(error, "gold, line 3: field \"id\" is a number, allowed is a string");
        let error = read_rows(FileRole::Predictions, &b"{\"id\": \"a\"}\n{\"id\": "[..]).err().unwrap().to_string();
        assert_eq!(error, "predictions, line 2: not valid JSON");
        let error = read_rows(FileRole::Gold, &b"[{}, 5]"[..]).err().unwrap().to_string();
        assert!(error.contains("row 2") && error.contains("a number"), "{error}");
    }
}
