//! Reads scalars: numbers, literals, texts without quotes.

use crate::cursor::{Cursor, comment_length};
use crate::literals::LITERALS;
use crate::lookahead::{StringPlace, StringRole, TextLook, is_closer, is_comma, is_quote};
use crate::repair::Repair;
use crate::strings::read_string;
use serde_json::{Number, Value};

/// Reads a scalar; `None` if nothing of it can be kept.
pub(crate) fn read_scalar(cursor: &mut Cursor<'_>, place: StringPlace) -> Option<Value> {
    if cursor.peek().is_some_and(is_quote) {
        return Some(Value::String(read_string(cursor, place).text));
    }
    if let Some(length) = prefix_length(cursor.rest()) {
        cursor.repair(Repair::StringPrefix);
        cursor.at += length;
        return Some(Value::String(read_string(cursor, place).text));
    }
    read_literal(cursor, place).or_else(|| read_number(cursor, place)).or_else(|| read_bare_text(cursor, place))
}

/// The length of a prefix of a string in Python.
fn prefix_length(rest: &str) -> Option<usize> {
    let length = rest.bytes().take(3).take_while(|b| b"rRbBuUfF".contains(b)).count();
    let is_prefix = (1..=2).contains(&length) && rest[length..].starts_with(['"', '\'']);
    is_prefix.then_some(length)
}

/// Whether a scalar can end here.
fn ends_scalar(cursor: &Cursor<'_>, place: StringPlace) -> bool {
    let rest = cursor.rest();
    let next = rest.trim_start_matches([' ', '\t']);
    let Some(sign) = next.chars().next() else { return true };
    let adjoins = next.len() == rest.len();
    if is_comma(sign) {
        // 1,000: not a number and a key.
        return !matches!(place.role, StringRole::Member { .. }) || !is_thousands(next, cursor.text, cursor.at);
    }
    is_closer(sign)
        || sign.is_whitespace()
        || crate::cursor::has_no_width(sign)
        || comment_length(next).is_some()
        || next.starts_with("```")
        || next.starts_with("...")
        || (!adjoins && is_quote(sign))
        || (!adjoins && place.role == StringRole::Item && sign.is_ascii_digit())
}

/// Whether the comma stands between digits of one number.
fn is_thousands(next: &str, text: &str, at: usize) -> bool {
    let Some(digits) = next.strip_prefix(',') else { return false };
    let digits = digits.bytes().take(4).take_while(u8::is_ascii_digit).count();
    digits == 3 && text[..at].ends_with(|c: char| c.is_ascii_digit())
}

fn read_literal(cursor: &mut Cursor<'_>, place: StringPlace) -> Option<Value> {
    let start = cursor.at;
    let word = cursor.take_while(|c| c.is_ascii_alphabetic() || c == '-');
    if let Some((_, literal, repair)) = LITERALS.iter().find(|(literal, _, _)| *literal == word)
        && ends_scalar(cursor, place)
    {
        cursor.repairs.add_times(repair.unwrap_or(Repair::Literal), u32::from(repair.is_some()));
        return Some((*literal).into());
    }
    cursor.at = start;
    None
}

/// The spelling of a number.
struct NumberSpelling<'t> {
    /// Its text.
    text: &'t str,
    /// Whether JSON knows the spelling.
    is_json: bool,
    /// Whether it has neither fraction nor exponent.
    is_whole: bool,
    /// Whether it is complete: a digit ends it.
    is_complete: bool,
}

fn digits(rest: &str) -> usize {
    rest.bytes().take_while(|b| b.is_ascii_digit() || *b == b'_').count()
}

/// The number at the beginning of `rest`.
fn spell_number(rest: &str) -> NumberSpelling<'_> {
    let signs = usize::from(rest.starts_with(['+', '-']));
    let whole = digits(&rest[signs..]);
    let mut end = signs + whole;
    let zeros = whole > 1 && rest[signs..].starts_with('0');
    let mut is_json = !rest.starts_with('+') && whole > 0 && !zeros;
    let mut is_whole = true;
    let mut is_complete = whole > 0;
    if rest[end..].starts_with('.') {
        let fraction = digits(&rest[end + 1..]);
        is_whole = false;
        is_json &= fraction > 0;
        is_complete = fraction > 0;
        end += 1 + fraction;
        if whole + fraction == 0 {
            end = 0;
        }
    }
    if end > signs && rest[end..].starts_with(['e', 'E']) {
        let sign = usize::from(rest[end + 1..].starts_with(['+', '-']));
        let exponent = digits(&rest[end + 1 + sign..]);
        if exponent > 0 {
            is_whole = false;
            is_complete = true;
            end += 1 + sign + exponent;
        } else if rest[end + 1 + sign..].is_empty() {
            is_complete = false;
            end = rest.len();
        }
    }
    let text = &rest[..end];
    NumberSpelling { text, is_json: is_json && !text.contains('_'), is_whole, is_complete }
}

fn read_number(cursor: &mut Cursor<'_>, place: StringPlace) -> Option<Value> {
    let start = cursor.at;
    let spelling = spell_number(cursor.rest());
    if !spelling.text.bytes().any(|b| b.is_ascii_digit()) {
        return None;
    }
    cursor.at += spelling.text.len();
    let is_cut = cursor.at == cursor.text.len() && place.role != StringRole::Whole;
    if is_cut && !spelling.is_complete {
        cursor.at = start;
        return None;
    }
    if !ends_scalar(cursor, place) {
        cursor.at = start;
        return None;
    }
    if is_cut {
        cursor.repair(Repair::CutScalar);
    }
    Some(value_of(&spelling, cursor))
}

fn value_of(spelling: &NumberSpelling<'_>, cursor: &mut Cursor<'_>) -> Value {
    if !spelling.is_json {
        cursor.repair(Repair::OddNumber);
    }
    let text = spelling.text.replace('_', "");
    let text = text.strip_prefix('+').unwrap_or(&text);
    if spelling.is_whole && text != "-0" {
        if let Ok(number) = text.parse::<u64>() {
            return number.into();
        }
        if let Ok(number) = text.parse::<i64>() {
            return number.into();
        }
        cursor.repair(Repair::RoundedNumber);
    }
    match text.parse::<f64>().ok().and_then(Number::from_f64) {
        Some(number) => Value::Number(number),
        None => {
            cursor.repair(Repair::NotFinite);
            Value::Null
        }
    }
}

/// Reads words up to the end of the member or item.
fn read_bare_text(cursor: &mut Cursor<'_>, place: StringPlace) -> Option<Value> {
    let start = cursor.at;
    let mut end = start;
    let mut is_cut = true;
    while let Some(c) = cursor.peek() {
        if ends_bare_text(cursor, place, c) {
            is_cut = false;
            break;
        }
        cursor.at += c.len_utf8();
        if !c.is_whitespace() {
            end = cursor.at;
        }
    }
    let words = cursor.text[start..end].trim();
    let is_number = !words.is_empty() && words.bytes().all(|b| b"+-.0123456789_eE".contains(&b));
    let is_piece = LITERALS.iter().any(|(literal, _, _)| literal.starts_with(words) && *literal != words) || is_number;
    if words.is_empty() || (is_cut && is_piece) {
        cursor.repair(Repair::DroppedPiece);
        return None;
    }
    cursor.repair(Repair::BareText);
    if is_cut {
        cursor.repair(Repair::CutScalar);
    }
    Some(Value::String(words.to_owned()))
}

/// Whether a text without quotes ends before `c`.
fn ends_bare_text(cursor: &Cursor<'_>, place: StringPlace, c: char) -> bool {
    let spaced = cursor.text[..cursor.at].ends_with(char::is_whitespace);
    if c == '\n' || (c == '`' && cursor.rest().starts_with("```")) {
        return true;
    }
    if spaced && comment_length(cursor.rest()).is_some() {
        return true;
    }
    match place.role {
        StringRole::Item => is_comma(c) || is_closer(c),
        StringRole::Member { bare_keys } => {
            let next = cursor.at + c.len_utf8();
            c == '}' || (is_comma(c) && TextLook::new(cursor.text, next).ends_member(bare_keys))
        }
        _ => false,
    }
}
