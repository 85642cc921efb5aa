//! Reads strings: quotes of every kind, escapes, quotes without a backslash.

use crate::cursor::{Cursor, is_json_space};
use crate::lookahead::{StringPlace, StringRole, TextLook, closers, is_comma};
use crate::repair::Repair;

/// A string as read.
#[derive(Debug)]
pub(crate) struct StringRead {
    /// Its text.
    pub(crate) text: String,
    /// Whether its closing quote was there.
    pub(crate) is_whole: bool,
}

/// An inner quote that may open the next key, if the closing quote is missing.
struct InnerQuote {
    /// The place to read on from: the comma before it.
    comma_at: usize,
    /// The length of the string's text before the comma.
    length: usize,
}

/// A string on the way.
struct StringReader<'c, 't> {
    cursor: &'c mut Cursor<'t>,
    place: StringPlace,
    closers: &'static [char],
    text: String,
    quotes: u32,
    inner: Option<InnerQuote>,
}

/// Reads the string whose opening quote is next.
pub(crate) fn read_string(cursor: &mut Cursor<'_>, place: StringPlace) -> StringRead {
    for triple in ["\"\"\"", "'''"] {
        if let Some(text) = take_triple(cursor, triple) {
            return StringRead { text, is_whole: true };
        }
    }
    let opener = cursor.next().unwrap_or('"');
    match opener {
        '"' => {}
        '\'' => cursor.repair(Repair::SingleQuotes),
        _ => cursor.repair(Repair::SmartQuotes),
    }
    let reader = StringReader { cursor, place, closers: closers(opener), text: String::new(), quotes: 0, inner: None };
    reader.read()
}

/// Takes a string in three quotes, if it has an end.
fn take_triple(cursor: &mut Cursor<'_>, triple: &'static str) -> Option<String> {
    let body = cursor.rest().strip_prefix(triple)?;
    if cursor.lone_triple {
        return None;
    }
    let Some(end) = body.find(triple) else {
        cursor.lone_triple = true;
        return None;
    };
    cursor.repair(Repair::TripleQuotes);
    cursor.at += end + 2 * triple.len();
    Some(body[..end].to_owned())
}

impl StringReader<'_, '_> {
    fn read(mut self) -> StringRead {
        while let Some(c) = self.cursor.peek() {
            if c == '\\' {
                self.read_escape();
                continue;
            }
            if self.closers.contains(&c) {
                if self.judge_quote(c) {
                    return StringRead { text: self.text, is_whole: true };
                }
                continue;
            }
            if c < ' ' {
                self.cursor.repair(Repair::ControlCharacter);
                self.text.push(c);
                self.cursor.at += 1;
                continue;
            }
            let closers = self.closers;
            let run = self.cursor.take_while(|c| c != '\\' && c >= ' ' && !closers.contains(&c));
            self.text.push_str(run);
        }
        self.cut_fence();
        self.cursor.repair(Repair::CutString);
        StringRead { text: self.text, is_whole: false }
    }

    /// Whether the string ends at this quote, or before the key that it closes.
    fn judge_quote(&mut self, quote: char) -> bool {
        let at = self.cursor.at;
        self.cursor.at += quote.len_utf8();
        let look = TextLook::new(self.cursor.text, self.cursor.at);
        if look.closes(self.place, self.quotes % 2 == 1) {
            return true;
        }
        if let StringRole::Member { .. } = self.place.role
            && self.cursor.rest().trim_start_matches(is_json_space).starts_with(':')
            && let Some(inner) = self.inner.take()
        {
            self.cursor.repair(Repair::MissingQuote);
            self.cursor.at = inner.comma_at;
            self.text.truncate(inner.length);
            return true;
        }
        self.cursor.repair(Repair::UnescapedQuote);
        self.inner = self.before_quote(at);
        if !self.is_apostrophe(quote, at) {
            self.quotes += 1;
        }
        self.text.push(quote);
        false
    }

    /// The comma before the quote at `at`, if only space is between them.
    fn before_quote(&self, at: usize) -> Option<InnerQuote> {
        let before = self.cursor.text[..at].trim_end_matches(is_json_space);
        let comma = before.chars().next_back().filter(|c| is_comma(*c))?;
        let comma_at = before.len() - comma.len_utf8();
        let length = self.text.len().checked_sub(at - comma_at)?;
        self.text.is_char_boundary(length).then_some(InnerQuote { comma_at, length })
    }

    /// Whether the quote stands within a word.
    fn is_apostrophe(&self, quote: char, at: usize) -> bool {
        quote != '"'
            && self.cursor.text[..at].chars().next_back().is_some_and(char::is_alphanumeric)
            && self.cursor.peek().is_some_and(char::is_alphanumeric)
    }

    /// Takes the fence at the end of the text away from a string that never closed.
    fn cut_fence(&mut self) {
        let trimmed = self.text.trim_end();
        if let Some(before) = trimmed.strip_suffix("```")
            && before.ends_with('\n')
        {
            let length = before.trim_end().len();
            self.text.truncate(length);
            self.cursor.repair(Repair::Fence);
        }
    }

    fn read_escape(&mut self) {
        self.cursor.at += 1;
        let Some(c) = self.cursor.next() else {
            return self.cursor.repair(Repair::DroppedPiece);
        };
        match c {
            '"' | '\\' | '/' => self.text.push(c),
            'b' => self.text.push('\u{8}'),
            'f' => self.text.push('\u{c}'),
            'n' => self.text.push('\n'),
            'r' => self.text.push('\r'),
            't' => self.text.push('\t'),
            'u' => self.read_code_point(),
            '\'' => {
                self.cursor.repair(Repair::BadEscape);
                self.text.push(c);
            }
            '\n' => self.cursor.repair(Repair::BadEscape),
            'x' => self.read_byte(),
            _ => {
                self.cursor.repair(Repair::BadEscape);
                self.text.push('\\');
                self.text.push(c);
            }
        }
    }

    /// `\xHH`.
    fn read_byte(&mut self) {
        self.cursor.repair(Repair::BadEscape);
        match hex(self.cursor.rest(), 2).and_then(char::from_u32) {
            Some(c) => {
                self.cursor.at += 2;
                self.text.push(c);
            }
            None => self.text.push_str("\\x"),
        }
    }

    /// `\uHHHH`, one or two.
    fn read_code_point(&mut self) {
        let rest = self.cursor.rest();
        let Some(unit) = hex(rest, 4) else {
            if rest.len() < 4 && rest.bytes().all(|b| b.is_ascii_hexdigit()) {
                self.cursor.at = self.cursor.text.len();
                return self.cursor.repair(Repair::DroppedPiece);
            }
            self.cursor.repair(Repair::BadEscape);
            return self.text.push_str("\\u");
        };
        self.cursor.at += 4;
        if let Some(c) = char::from_u32(unit) {
            return self.text.push(c);
        }
        let low = self.cursor.rest().strip_prefix("\\u").and_then(|rest| hex(rest, 4));
        if let (0xd800..0xdc00, Some(low @ 0xdc00..0xe000)) = (unit, low) {
            self.cursor.at += 6;
            let point = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
            self.text.extend(char::from_u32(point));
        } else {
            self.cursor.repair(Repair::LoneSurrogate);
            self.text.push(char::REPLACEMENT_CHARACTER);
        }
    }
}

/// The number of so many hexadecimal digits.
fn hex(rest: &str, digits: usize) -> Option<u32> {
    let digits = rest.get(..digits)?;
    digits.bytes().all(|b| b.is_ascii_hexdigit()).then(|| u32::from_str_radix(digits, 16).ok()).flatten()
}
