//! Looks ahead from a quote: whether it closes its string, or is a quote of the text without a backslash.
//!
//! Every look is bounded by [`WINDOW`] bytes, so that a text is read in linear time. Beyond the window there is no
//! evidence against the quote: it closes. In JSON proper every quote without a backslash closes, whatever follows.

use crate::cursor::{comment_length, has_no_width};
use crate::literals::is_literal;

/// The most bytes of one look.
const WINDOW: usize = 384;

/// The place of a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StringRole {
    /// The whole text.
    Whole,
    /// A key of an object.
    Key,
    /// A value of an object; whether the object's keys have no quotes.
    Member {
        /// Whether they have none.
        bare_keys: bool,
    },
    /// An item of an array.
    Item,
}

/// The surroundings of a string.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StringPlace {
    /// The place in the innermost container.
    pub(crate) role: StringRole,
    /// Open containers.
    pub(crate) depth: usize,
}

/// Whether `c` opens a string.
pub(crate) fn is_quote(c: char) -> bool {
    !closers(c).is_empty()
}

/// The characters that close a string opened by `opener`; none if it opens none.
pub(crate) fn closers(opener: char) -> &'static [char] {
    match opener {
        '"' => &['"'],
        '\'' => &['\''],
        '`' => &['`'],
        '“' | '”' | '„' | '＂' => &['”', '“', '"', '＂'],
        '‘' | '’' => &['’', '‘', '\''],
        _ => &[],
    }
}

/// The characters that close a container.
pub(crate) fn is_closer(c: char) -> bool {
    matches!(c, '}' | ']' | ')')
}

/// The characters between members and items.
pub(crate) fn is_comma(c: char) -> bool {
    matches!(c, ',' | '，' | '、')
}

/// The characters between a key and its value.
pub(crate) fn is_colon(c: char) -> bool {
    matches!(c, ':' | '：' | '=')
}

/// Characters of a key without quotes.
pub(crate) fn is_bare_key(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '$')
}

/// A look from one place of a text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextLook<'t> {
    text: &'t str,
    at: usize,
    limit: usize,
}

impl<'t> TextLook<'t> {
    pub(crate) fn new(text: &'t str, at: usize) -> Self {
        Self { text, at, limit: at.saturating_add(WINDOW) }
    }

    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn is_beyond(&self) -> bool {
        self.at >= self.limit
    }

    fn pass(&mut self, c: char) {
        self.at += c.len_utf8();
    }

    /// The next character after space and whole comments; whether an end of line was passed.
    fn next_sign(&mut self) -> (Option<char>, bool) {
        let mut lines = false;
        while let Some(c) = self.peek() {
            if self.is_beyond() {
                break;
            }
            if c.is_whitespace() || has_no_width(c) {
                lines |= c == '\n';
                self.pass(c);
                continue;
            }
            match comment_length(self.window()) {
                Some(length) if self.is_whole_comment(length) => self.at += length,
                _ => break,
            }
        }
        (self.peek(), lines)
    }

    /// Whether the comment of this length has its end.
    fn is_whole_comment(&self, length: usize) -> bool {
        let end = self.at + length;
        end < self.limit && (end < self.text.len() || self.text.ends_with("*/"))
    }

    /// The text up to the limit.
    fn window(&self) -> &'t str {
        let mut end = self.limit.min(self.text.len());
        while !self.text.is_char_boundary(end) {
            end -= 1;
        }
        &self.text[self.at.min(end)..end]
    }

    /// Whether the quote before this place closes its string. `odd`: the string has an odd number of quotes so far, so
    /// that this one may be the second of a pair.
    pub(crate) fn closes(mut self, place: StringPlace, odd: bool) -> bool {
        let from = self.at;
        let (sign, lines) = self.next_sign();
        let Some(sign) = sign else { return true };
        if self.is_beyond() {
            return place.role != StringRole::Whole;
        }
        let is_fence = self.window().starts_with("```");
        match place.role {
            StringRole::Whole => false,
            StringRole::Key => is_colon(sign) || is_comma(sign) || is_closer(sign),
            _ if is_fence => true,
            _ if is_closer(sign) => self.close_is_plausible(sign, place),
            StringRole::Member { bare_keys } if is_comma(sign) => {
                self.pass(sign);
                self.member_follows(bare_keys, odd)
            }
            StringRole::Member { bare_keys } => {
                (lines || (is_quote(sign) && !odd)) && (is_quote(sign) || bare_keys) && self.key_follows()
            }
            StringRole::Item if is_comma(sign) => {
                self.pass(sign);
                self.item_follows(odd)
            }
            StringRole::Item if lines => self.item_follows(false),
            StringRole::Item => is_quote(sign) && self.at > from && !odd && self.string_item_follows(),
        }
    }

    /// Whether the bracket here closes a container, by what stands after it.
    fn close_is_plausible(mut self, sign: char, place: StringPlace) -> bool {
        if place.depth <= 1 {
            return true;
        }
        self.pass(sign);
        let (next, lines) = self.next_sign();
        let Some(next) = next else { return true };
        lines || self.is_beyond() || is_comma(next) || is_closer(next) || is_quote(next)
    }

    /// Whether a member of an object, or its end, follows a comma.
    fn member_follows(mut self, bare_keys: bool, odd: bool) -> bool {
        let (sign, _) = self.next_sign();
        let Some(sign) = sign else { return true };
        if self.is_beyond() || is_closer(sign) || is_comma(sign) {
            return true;
        }
        if is_quote(sign) || bare_keys {
            return self.key_follows_or(true);
        }
        self.window().starts_with("...") || (!odd && is_bare_key(sign) && self.bare_member_follows())
    }

    /// The next character after space and comments within the window, with its place.
    pub(crate) fn sign_after_space(mut self) -> (Option<char>, usize) {
        let (sign, _) = self.next_sign();
        (sign, self.at)
    }

    /// Whether a text without quotes ends at the comma before this place.
    pub(crate) fn ends_member(mut self, bare_keys: bool) -> bool {
        let (sign, lines) = self.next_sign();
        let Some(sign) = sign else { return true };
        lines || is_closer(sign) || ((is_quote(sign) || bare_keys) && self.key_follows())
    }

    /// Whether a key with a colon follows.
    pub(crate) fn key_follows(self) -> bool {
        self.key_follows_or(false)
    }

    /// Whether a key with a colon follows, or `at_end` if the text ends before the colon.
    fn key_follows_or(mut self, at_end: bool) -> bool {
        let Some(opener) = self.peek() else { return at_end };
        let is_whole = if is_quote(opener) { self.pass_string(opener) } else { self.pass_bare_key() };
        if self.is_beyond() {
            return true;
        }
        match self.next_sign().0 {
            Some(sign) => is_whole && is_colon(sign) || self.is_beyond(),
            None => at_end,
        }
    }

    /// Whether a key without quotes, a colon and the beginning of a value follow.
    fn bare_member_follows(mut self) -> bool {
        if !self.pass_bare_key() || self.peek() != Some(':') {
            return false;
        }
        self.pass(':');
        let (sign, _) = self.next_sign();
        sign.is_some_and(|c| is_quote(c) || matches!(c, '{' | '[')) || self.number_or_literal_follows()
    }

    /// Passes over a key without quotes.
    fn pass_bare_key(&mut self) -> bool {
        let length = self.window().find(|c| !is_bare_key(c)).unwrap_or(self.window().len());
        self.at += length;
        length > 0
    }

    /// Passes over a string, without judging its quotes. False if it does not end on its line within the window.
    fn pass_string(&mut self, opener: char) -> bool {
        self.pass(opener);
        while let Some(c) = self.peek() {
            if self.is_beyond() || c == '\n' {
                return false;
            }
            self.pass(c);
            if c == '\\' {
                if let Some(next) = self.peek() {
                    self.pass(next);
                }
            } else if closers(opener).contains(&c) {
                return true;
            }
        }
        false
    }

    /// Whether an item of an array, or its end, follows a comma.
    fn item_follows(mut self, odd: bool) -> bool {
        let (sign, _) = self.next_sign();
        let Some(sign) = sign else { return true };
        if self.is_beyond() || is_closer(sign) || is_comma(sign) || matches!(sign, '{' | '[' | '(') {
            return true;
        }
        if is_quote(sign) {
            return !odd || self.string_item_follows();
        }
        self.window().starts_with("...") || self.number_or_literal_follows()
    }

    /// Whether a string with a comma or a bracket behind it follows.
    fn string_item_follows(mut self) -> bool {
        let Some(opener) = self.peek() else { return false };
        if !self.pass_string(opener) {
            return self.is_beyond() || self.peek().is_none();
        }
        let (sign, lines) = self.next_sign();
        lines || self.is_beyond() || sign.is_none_or(|c| is_comma(c) || is_closer(c))
    }

    /// Whether a number or a word of a literal follows, with a comma or a bracket behind it.
    fn number_or_literal_follows(mut self) -> bool {
        let length = self.window().find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '+' | '.' | '_')));
        let word = &self.window()[..length.unwrap_or(self.window().len())];
        let is_number = word.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.'));
        if !is_number && !is_literal(word) {
            return self.at + word.len() >= self.limit;
        }
        self.at += word.len();
        let (sign, lines) = self.next_sign();
        lines || self.is_beyond() || sign.is_none_or(|c| is_comma(c) || is_closer(c))
    }
}
