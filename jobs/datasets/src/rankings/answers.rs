//! One JSON object with the answer of each question: `{"id": "answer", …}`. A null says nothing.
//!
//! An entry, from its key to the end of its value, is the row of its question. The whole file is in memory while the
//! entries are found.

use serde::de::IgnoredAny;

use super::{BytePlace, RankingsRow, RowCost, json_lines, without_mark};
use crate::error::{FieldError, RecordPosition};
use crate::value::{FieldResult, JsonValue};

/// The allowed shape of a file.
const SHAPE: &str = "one object {\"QUESTION\": \"ANSWER\", …}";

/// Whether a file that begins so is such an object. JSON Lines have a field of their own in the first row.
pub(super) fn is_object_of_answers(beginning: &[u8]) -> bool {
    let mut lines = beginning.splitn(2, |&byte| byte == b'\n');
    let (first, rest) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    if let Ok(value) = JsonValue::parse(first.trim_ascii()) {
        let Ok(entries) = value.entries() else { return false };
        let of_rows = entries.iter().any(|(name, _)| json_lines::FIELDS.contains(&&**name));
        let of_answers = entries.iter().all(|(_, value)| matches!(value, JsonValue::String(_) | JsonValue::Null));
        return of_answers && !of_rows && rest.trim_ascii().is_empty();
    }
    // An object of several lines, or one that is longer than the beginning.
    let mut scanner = EntryScanner { text: beginning, at: 0, lines: 0 };
    let Ok((key, value)) = scanner.skip(b"{").and_then(|_| scanner.next_pair()) else { return false };
    let Ok(JsonValue::String(key)) = JsonValue::parse(key) else { return false };
    !json_lines::FIELDS.contains(&&*key) && matches!(value.first(), Some(b'"' | b'n'))
}

/// Finds the entries, each with its place.
pub(super) fn find_entries(text: &[u8]) -> Result<Vec<BytePlace>, (RecordPosition, FieldError)> {
    let mark = text.len() - without_mark(text).len();
    let mut scanner = EntryScanner { text, at: mark, lines: 0 };
    let mut places: Vec<BytePlace> = Vec::new();
    let position = |scanner: &EntryScanner<'_>, entries: usize| RecordPosition {
        record: entries as u64 + 1,
        line: scanner.lines + 1,
    };
    let begun = scanner.skip(b"{");
    begun.map_err(|error| (position(&scanner, 0), error))?;
    loop {
        scanner.skip_space();
        if places.is_empty() && scanner.text.get(scanner.at) == Some(&b'}') {
            break;
        }
        let (offset, at) = (scanner.at as u64, position(&scanner, places.len()));
        scanner.next_pair().map_err(|error| (at, error))?;
        places.push(BytePlace { offset, bytes: scanner.at as u64 - offset, position: at });
        match scanner.skip(b",}").map_err(|error| (at, error))? {
            b',' => {}
            _ => {
                scanner.at -= 1;
                break;
            }
        }
    }
    scanner.at += 1;
    scanner.skip_space();
    match scanner.text.get(scanner.at) {
        None => Ok(places),
        Some(_) => Err((position(&scanner, places.len()), FieldError::new("text after the object's end", SHAPE))),
    }
}

/// Reads the row of an entry.
pub(super) fn read_row(entry: &[u8], position: RecordPosition) -> FieldResult<RankingsRow> {
    let whole = [b"{", entry, b"}"].concat();
    let value = JsonValue::parse(&whole)?;
    let [(id, answer)] = value.entries()? else { return Err(FieldError::new("no entry of one question", SHAPE)) };
    if id.is_empty() {
        return Err(FieldError::new("an empty name", "the id of a question").under_key("id"));
    }
    let answer = match answer {
        JsonValue::String(text) => Some(text.clone().into_owned()),
        JsonValue::Null => None,
        other => return Err(FieldError::new(other.describe(), "a string: its answer; or null").under_key(id)),
    };
    let (ranked, supporting) = (Vec::new(), Vec::new());
    Ok(RankingsRow { id: id.clone().into_owned(), position, answer, ranked, supporting, cost: RowCost::default() })
}

/// Goes through the text of an object.
struct EntryScanner<'t> {
    text: &'t [u8],
    at: usize,
    /// The lines before `at`.
    lines: u64,
}

impl<'t> EntryScanner<'t> {
    fn advance(&mut self, bytes: usize) {
        let passed = &self.text[self.at..self.at + bytes];
        self.lines += passed.iter().filter(|&&byte| byte == b'\n').count() as u64;
        self.at += bytes;
    }

    fn skip_space(&mut self) {
        let space = self.text[self.at..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        self.advance(space);
    }

    /// Skips one of these characters, and returns it.
    fn skip(&mut self, allowed: &[u8]) -> FieldResult<u8> {
        self.skip_space();
        match self.text.get(self.at) {
            Some(found) if allowed.contains(found) => {
                self.advance(1);
                Ok(*found)
            }
            Some(found) => Err(FieldError::new(format!("`{}`", found.escape_ascii()), SHAPE)),
            None => Err(FieldError::new("the end of the file", SHAPE)),
        }
    }

    /// Skips a JSON value, and returns its text.
    fn skip_value(&mut self) -> FieldResult<&'t [u8]> {
        self.skip_space();
        let rest = &self.text[self.at..];
        let mut values = serde_json::Deserializer::from_slice(rest).into_iter::<IgnoredAny>();
        match values.next() {
            Some(Ok(_)) => {
                let bytes = values.byte_offset();
                self.advance(bytes);
                Ok(&rest[..bytes])
            }
            Some(Err(error)) if !error.is_eof() => {
                Err(FieldError::new(format!("invalid JSON ({})", without_place(&error)), SHAPE))
            }
            _ => Err(FieldError::new("the end of the file", SHAPE)),
        }
    }

    /// Skips a key and its value, and returns their texts.
    fn next_pair(&mut self) -> FieldResult<(&'t [u8], &'t [u8])> {
        let key = self.skip_value()?;
        if key.first() != Some(&b'"') {
            return Err(FieldError::new("a key that is no string", SHAPE));
        }
        self.skip(b":")?;
        Ok((key, self.skip_value()?))
    }
}

/// A parser's message without the place, which counts from the value.
fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_of_answers_are_told_from_json_lines() {
        for (text, expected) in [
            ("{\"q1\": \"a\", \"q2\": null}", true),
            ("{\n  \"q1\": \"a\",\n  \"q2\": \"b\"\n}\n", true),
            ("{\"q1\":\"a\",\"q2", true),
            ("{\"id\": \"q1\", \"answer\": \"a\"}", false),
            ("{\"question\": \"q1\", \"answer\": \"a\"}\n{\"question\": \"q2\"}", false),
            ("{\"q1\": \"a\"}\n{\"q2\": \"b\"}\n", false),
            ("{\n\"answer\": {\"q1\": \"a\"}}", false),
            ("{\n\"q1\": 3}", false),
            ("[\"a\"]", false),
        ] {
            assert_eq!(is_object_of_answers(text.as_bytes()), expected, "{text}");
        }
    }
}
