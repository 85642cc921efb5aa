//! Detects the layout of a file's records from its first bytes.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::scan::ValueScanner;

/// Members with the rows of a file with one single object: `data` (SQuAD's custom), `Data` (TriviaQA).
const MEMBERS: [&str; 2] = ["data", "Data"];

/// The layout of a file's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordLayout {
    /// The items of one JSON array.
    Array,
    /// The items of the array in the member `data` or `Data` of a file's only object.
    Member,
    /// One record on each line.
    Lines,
    /// Objects one after another, of several lines each.
    Values,
}

impl fmt::Display for RecordLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Array => "a JSON array",
            Self::Member => "a JSON object's member `data`",
            Self::Lines => "JSON Lines",
            Self::Values => "JSON objects over several lines",
        })
    }
}

/// The result of detection from a file's first bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FileStart {
    /// Records. The first begins after `skip` bytes (and white space).
    Json { layout: RecordLayout, skip: usize },
    /// Only white space.
    Empty,
    /// Not JSON.
    Foreign,
}

/// Detects the layout from a file's first bytes. `whole`: they are the whole file.
pub(super) fn detect_layout(window: &[u8], whole: bool) -> FileStart {
    let Some(first) = window.iter().position(|byte| !byte.is_ascii_whitespace()) else {
        return if whole { FileStart::Empty } else { FileStart::Foreign };
    };
    let text = &window[first..];
    match text[0] {
        b'[' if lines_of_arrays(text) => FileStart::Json { layout: RecordLayout::Lines, skip: first },
        b'[' => FileStart::Json { layout: RecordLayout::Array, skip: first + 1 },
        b'{' => {
            let end = ValueScanner::alone().end_of_value(text);
            let alone = match end {
                Some(end) => whole && text[end..].trim_ascii().is_empty(),
                None => true,
            };
            if alone && let Some(member) = rows_member(text) {
                return FileStart::Json { layout: RecordLayout::Member, skip: first + member };
            }
            let layout = if breaks_inside(text, end) { RecordLayout::Values } else { RecordLayout::Lines };
            FileStart::Json { layout, skip: first }
        }
        _ => FileStart::Foreign,
    }
}

/// Whether an array ends in `text` and another begins behind it. Then each array is a record.
fn lines_of_arrays(text: &[u8]) -> bool {
    ValueScanner::alone().end_of_value(text).is_some_and(|end| text[end..].trim_ascii_start().starts_with(b"["))
}

/// Whether the first object continues after the end of its line as a pretty-printer breaks it: after `{`, `[` or `,`. A
/// first line with another end is a broken record of JSON Lines.
fn breaks_inside(text: &[u8], end: Option<usize>) -> bool {
    let inside = &text[..end.unwrap_or(text.len())];
    match inside.iter().position(|&byte| byte == b'\n') {
        Some(line) => matches!(inside[..line].trim_ascii_end().last(), Some(b'{' | b'[' | b',')),
        None => false,
    }
}

/// The offset behind the `[` of the member with the rows, if the object has one.
fn rows_member(text: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        at += blank_length(&text[at..]);
        if text.get(at) != Some(&b'"') {
            return None;
        }
        let key_end = at + 1 + text[at + 1..].iter().position(|&byte| byte == b'"')?;
        let key = &text[at + 1..key_end];
        at = key_end + 1 + blank_length(&text[key_end + 1..]);
        if text.get(at) != Some(&b':') {
            return None;
        }
        at += 1 + blank_length(&text[at + 1..]);
        if MEMBERS.iter().any(|member| member.as_bytes() == key) && text.get(at) == Some(&b'[') {
            let item = at + 1 + blank_length(&text[at + 1..]);
            return (text.get(item) == Some(&b'{')).then_some(at + 1);
        }
        at += ValueScanner::in_array().end_of_value(&text[at..])?;
        if text[at] != b',' {
            return None;
        }
        at += 1;
    }
}

fn blank_length(text: &[u8]) -> usize {
    text.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(text: &str) -> Option<RecordLayout> {
        match detect_layout(text.as_bytes(), true) {
            FileStart::Json { layout, .. } => Some(layout),
            _ => None,
        }
    }

    #[test]
    fn layouts_are_told_apart_by_content() {
        assert_eq!(layout("[{\"a\":1}]"), Some(RecordLayout::Array));
        assert_eq!(layout("[\n {\"a\":1}\n]\n"), Some(RecordLayout::Array));
        assert_eq!(layout("[{\"a\":1}]\n[{\"a\":2}]\n"), Some(RecordLayout::Lines));
        assert_eq!(layout("{\"a\":1}\n"), Some(RecordLayout::Lines));
        assert_eq!(layout("{\n \"a\":1\n}\n{\n \"a\":2\n}"), Some(RecordLayout::Values));
        assert_eq!(layout("{\"v\": \"1\", \"Data\": [{\"a\":1}], \"x\":2}"), Some(RecordLayout::Member));
        assert_eq!(layout("{\n \"data\": [\n{}]}"), Some(RecordLayout::Member));
        assert_eq!(layout("{\"data\": [1]}\n{\"data\": [2]}"), Some(RecordLayout::Lines));
        assert_eq!(layout("a\tb"), None);
        assert_eq!(detect_layout(b" \n", true), FileStart::Empty);
    }

    #[test]
    fn a_broken_first_line_is_a_line() {
        assert_eq!(layout("{\"a\": 1\n{\"a\": 2}\n"), Some(RecordLayout::Lines));
        assert_eq!(layout("{\"a\": \"x\n{\"a\": \"y\"}\n"), Some(RecordLayout::Lines));
    }
}
