//! Finds the values of a text, between fences and prose.

use crate::containers::{DepthError, read_container};
use crate::cursor::{Cursor, has_no_width, is_json_space};
use crate::failure::{FailureReason, ParseFailure};
use crate::literals::is_literal;
use crate::lookahead::{StringPlace, StringRole, TextLook, is_bare_key, is_quote};
use crate::repair::{Repair, RepairCounts};
use crate::scalars::read_scalar;
use serde_json::Value;
use std::ops::Range;

/// A value in a text.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundValue {
    /// The value.
    pub value: Value,
    /// Its place in the text, in bytes; in the text without one level of escapes if those were taken away.
    pub range: Range<usize>,
    /// The repairs within it and around it.
    pub repairs: RepairCounts,
}

/// Reads every object and array of a text, in order. A text without one may be a single scalar.
///
/// # Errors
/// No value, or one that is nested too deeply.
pub fn read_values(text: &str) -> Result<Vec<FoundValue>, ParseFailure> {
    let failure = |reason| ParseFailure { reason, text: text.to_owned() };
    if let Some(value) = read_json_string(text) {
        return Ok(vec![value]);
    }
    let unescaped = unescape_text(text);
    let body = unescaped.as_deref().unwrap_or(text);
    let mut found = find_containers(body).map_err(|DepthError| failure(FailureReason::TooDeep))?;
    if found.is_empty() {
        found.extend(find_scalar(body));
    }
    if found.is_empty() {
        return Err(failure(FailureReason::NoValue));
    }
    let mut around = repairs_around(body, &found);
    if unescaped.is_some() {
        around.add(Repair::EscapedText);
    }
    for value in &mut found {
        value.repairs.add_all(&around);
    }
    Ok(found)
}

/// The text as a string of JSON, which may hold anything.
fn read_json_string(text: &str) -> Option<FoundValue> {
    let trimmed = text.trim_matches(is_json_space);
    if !(trimmed.starts_with('"') && trimmed.ends_with('"')) {
        return None;
    }
    let value = Value::String(serde_json::from_str(trimmed).ok()?);
    Some(FoundValue { value, range: 0..text.len(), repairs: RepairCounts::default() })
}

/// The text without one level of escapes, if its first bracket is followed by an escaped quote.
fn unescape_text(text: &str) -> Option<String> {
    let open = text.find(['{', '['])?;
    let mut rest = &text[open + 1..];
    loop {
        let shorter = rest.trim_start_matches(['{', '[']).trim_start();
        let shorter = ["\\n", "\\t", "\\r"].into_iter().fold(shorter, |rest, space| rest.trim_start_matches(space));
        if shorter.len() == rest.len() {
            break;
        }
        rest = shorter;
    }
    if !rest.starts_with("\\\"") {
        return None;
    }
    let mut plain = String::with_capacity(text.len());
    let mut signs = text.chars();
    while let Some(c) = signs.next() {
        match (c, c == '\\') {
            (_, true) => match signs.next() {
                Some('n') => plain.push('\n'),
                Some('t') => plain.push('\t'),
                Some('r') => plain.push('\r'),
                Some(c @ ('"' | '\\' | '/' | '\'')) => plain.push(c),
                Some(other) => plain.extend(['\\', other]),
                None => plain.push('\\'),
            },
            (_, false) => plain.push(c),
        }
    }
    Some(plain)
}

fn find_containers(text: &str) -> Result<Vec<FoundValue>, DepthError> {
    let mut found = Vec::new();
    let mut at = 0;
    if let Some(start) = missing_open(text) {
        let value = read_at(text, start, false)?;
        at = value.range.end;
        found.push(value);
    } else if let Some(start) = whole_tuple(text) {
        let value = read_at(text, start, true)?;
        at = value.range.end;
        found.push(value);
    }
    while let Some(next) = text[at..].find(['{', '[']) {
        let start = at + next;
        if is_plausible(text, start) {
            let value = read_at(text, start, true)?;
            at = value.range.end;
            found.push(value);
        } else {
            at = start + 1;
        }
    }
    Ok(found)
}

fn read_at(text: &str, start: usize, has_bracket: bool) -> Result<FoundValue, DepthError> {
    let mut cursor = Cursor::new(text, start);
    let value = read_container(&mut cursor, has_bracket)?;
    Ok(FoundValue { value, range: start..cursor.at, repairs: cursor.repairs })
}

/// The place after a fence and its language at the beginning.
fn body_start(text: &str) -> usize {
    let mut rest = text.trim_start_matches(|c: char| c.is_whitespace() || has_no_width(c));
    if let Some(after) = rest.strip_prefix("```") {
        rest = after.trim_start_matches(|c: char| c.is_ascii_alphanumeric()).trim_start();
    }
    text.len() - rest.len()
}

/// The beginning of members without a bracket before them, if the text begins with them.
fn missing_open(text: &str) -> Option<usize> {
    let start = body_start(text);
    let quoted = text[start..].starts_with(is_quote);
    (quoted && TextLook::new(text, start).key_follows()).then_some(start)
}

/// The beginning of a tuple, if the whole text is one.
fn whole_tuple(text: &str) -> Option<usize> {
    let start = body_start(text);
    let inner = text[start..].strip_prefix('(')?;
    let ends = text.trim_end().trim_end_matches('`').trim_end().ends_with(')');
    let begins = |c: char| is_quote(c) || c.is_ascii_digit() || matches!(c, '-' | '{' | '[' | '(');
    (ends && inner.trim_start().starts_with(begins)).then_some(start)
}

/// Whether a container begins at the bracket, by what stands behind it.
fn is_plausible(text: &str, start: usize) -> bool {
    let is_object = text[start..].starts_with('{');
    // Space of any length, but comments only within the window: a comment may hold further brackets.
    let inner = text[start + 1..].trim_start();
    let (sign, at) = TextLook::new(text, text.len() - inner.len()).sign_after_space();
    let Some(sign) = sign else { return true };
    let mut cursor = Cursor::new(text, at);
    if is_object {
        let bare = is_bare_key(sign) && TextLook::new(text, cursor.at).key_follows();
        return sign == '}' || is_quote(sign) || bare || begins_set(&cursor, sign);
    }
    if is_quote(sign) || matches!(sign, ']' | '{' | '[' | '(' | '-' | '+') || sign.is_ascii_digit() {
        return true;
    }
    if sign == '.' {
        return text[at + 1..].starts_with(|c: char| c.is_ascii_digit());
    }
    let word = cursor.take_while(|c| c.is_ascii_alphabetic());
    let (after, _) = TextLook::new(text, cursor.at).sign_after_space();
    is_literal(word) && matches!(after, None | Some(',' | ']'))
}

/// Whether numbers with commas follow.
fn begins_set(cursor: &Cursor<'_>, sign: char) -> bool {
    let mut cursor = cursor.clone();
    cursor.take_while(|c| c.is_ascii_digit() || matches!(c, '.' | '-'));
    sign.is_ascii_digit() && matches!(cursor.peek(), Some(',' | '}'))
}

/// The single scalar of a text, without its fence.
fn find_scalar(text: &str) -> Option<FoundValue> {
    let start = body_start(text);
    let end = text.trim_end().trim_end_matches('`').trim_end().len().max(start);
    let mut cursor = Cursor::new(&text[..end], start);
    let sign = cursor.peek()?;
    let word = cursor.rest();
    if !(is_quote(sign) || is_literal(word) || word.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c))) {
        return None;
    }
    let value = read_scalar(&mut cursor, StringPlace { role: StringRole::Whole, depth: 0 })?;
    let is_scalar = cursor.at == end && cursor.repairs.count(Repair::BareText) == 0;
    is_scalar.then_some(FoundValue { value, range: start..end, repairs: cursor.repairs })
}

/// The repairs of the text outside the values.
fn repairs_around(text: &str, found: &[FoundValue]) -> RepairCounts {
    let mut repairs = RepairCounts::default();
    let starts = found.iter().map(|value| value.range.start).chain([text.len()]);
    let ends = [0].into_iter().chain(found.iter().map(|value| value.range.end));
    for (from, to) in ends.zip(starts) {
        note_gap(&text[from..to], &mut repairs);
    }
    repairs
}

/// Counts the repairs of a text between values.
fn note_gap(gap: &str, repairs: &mut RepairCounts) {
    let mut words = false;
    for line in gap.split('\n') {
        if let Some((before, after)) = line.split_once("```").or_else(|| line.split_once("~~~")) {
            let language = after.trim().bytes().all(|b| b.is_ascii_alphanumeric());
            words |= !before.trim().is_empty() || !language;
            repairs.add(Repair::Fence);
            continue;
        }
        for c in line.chars().filter(|c| !is_json_space(*c)) {
            if has_no_width(c) {
                repairs.add(Repair::ByteOrderMark);
            } else if c.is_whitespace() {
                repairs.add(Repair::OddSpace);
            } else {
                words = true;
            }
        }
    }
    if words {
        repairs.add(Repair::SurroundingText);
    }
}
