//! Reads objects and arrays, with a stack of their own in place of recursion.

use crate::cursor::Cursor;
use crate::lookahead::{StringPlace, StringRole, TextLook, is_bare_key, is_closer, is_comma, is_quote};
use crate::repair::Repair;
use crate::scalars::read_scalar;
use crate::strings::read_string;
use serde_json::{Map, Value};

/// The most containers within each other.
pub const MAX_DEPTH: usize = 100;

/// Containers beyond [`MAX_DEPTH`].
#[derive(Debug)]
pub(crate) struct DepthError;

/// A container that is being read.
struct Frame {
    items: FrameItems,
    /// The bracket that closes it.
    closer: char,
    progress: Progress,
}

/// The contents of a container so far.
enum FrameItems {
    Object {
        members: Map<String, Value>,
        /// The key whose value is being read.
        key: Option<String>,
        /// Whether its last key had no quotes.
        bare_keys: bool,
    },
    Array(Vec<Value>),
}

/// The place within a container.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// After the opening bracket.
    Opened,
    /// After a comma.
    Comma,
    /// After a member or an item.
    Item,
}

/// Reads one container.
struct ContainerReader<'c, 't> {
    cursor: &'c mut Cursor<'t>,
    stack: Vec<Frame>,
    root: Option<Value>,
}

/// Reads the container whose bracket is next. Without `has_bracket` the members of an object are next.
pub(crate) fn read_container(cursor: &mut Cursor<'_>, has_bracket: bool) -> Result<Value, DepthError> {
    let mut reader = ContainerReader { cursor, stack: Vec::new(), root: None };
    if has_bracket {
        let bracket = reader.cursor.next().unwrap_or('{');
        reader.open(bracket)?;
    } else {
        reader.cursor.repair(Repair::MissingOpen);
        reader.open('{')?;
    }
    loop {
        match reader.stack.last().map(|frame| matches!(frame.items, FrameItems::Object { .. })) {
            Some(true) => reader.step_object()?,
            Some(false) => reader.step_array()?,
            None => return Ok(reader.root.take().unwrap_or(Value::Null)),
        }
    }
}

impl ContainerReader<'_, '_> {
    fn open(&mut self, bracket: char) -> Result<(), DepthError> {
        if self.stack.len() >= MAX_DEPTH {
            return Err(DepthError);
        }
        let (items, closer) = match bracket {
            '{' => (FrameItems::Object { members: Map::new(), key: None, bare_keys: false }, '}'),
            '[' => (FrameItems::Array(Vec::new()), ']'),
            _ => {
                self.cursor.repair(Repair::Tuple);
                (FrameItems::Array(Vec::new()), ')')
            }
        };
        self.stack.push(Frame { items, closer, progress: Progress::Opened });
        Ok(())
    }

    fn top(&mut self) -> Option<&mut Frame> {
        self.stack.last_mut()
    }

    fn progress(&self) -> Progress {
        self.stack.last().map_or(Progress::Opened, |frame| frame.progress)
    }

    fn set_progress(&mut self, progress: Progress) {
        if let Some(frame) = self.top() {
            frame.progress = progress;
        }
    }

    /// The place of a string that begins here.
    fn place(&self, is_key: bool) -> StringPlace {
        let role = match self.stack.last().map(|frame| &frame.items) {
            Some(FrameItems::Object { .. }) if is_key => StringRole::Key,
            Some(FrameItems::Object { bare_keys, .. }) => StringRole::Member { bare_keys: *bare_keys },
            _ => StringRole::Item,
        };
        StringPlace { role, depth: self.stack.len() }
    }

    /// Puts a value into the innermost container.
    fn attach(&mut self, value: Value) {
        let Some(frame) = self.stack.last_mut() else {
            self.root = Some(value);
            return;
        };
        frame.progress = Progress::Item;
        match &mut frame.items {
            FrameItems::Array(items) => items.push(value),
            FrameItems::Object { members, key, .. } => {
                let key = key.take().unwrap_or_default();
                if members.insert(key, value).is_some() {
                    self.cursor.repair(Repair::RepeatedKey);
                }
            }
        }
    }

    /// Closes the innermost container.
    fn close(&mut self) {
        match self.stack.pop().map(|frame| frame.items) {
            Some(FrameItems::Object { members, key, .. }) => {
                if key.is_some() {
                    self.cursor.repair(Repair::DroppedKey);
                }
                self.attach(Value::Object(members));
            }
            Some(FrameItems::Array(items)) => self.attach(Value::Array(items)),
            None => {}
        }
    }

    /// Closes everything: the text ends, or a fence does.
    fn close_all(&mut self) {
        while !self.stack.is_empty() {
            self.cursor.repair(Repair::Unclosed);
            self.close();
        }
    }

    /// Takes a closing bracket.
    fn take_closer(&mut self, closer: char) {
        if self.progress() == Progress::Comma {
            self.cursor.repair(Repair::TrailingComma);
        }
        self.cursor.at += closer.len_utf8();
        let inner = self.stack.iter().rev().position(|frame| frame.closer == closer);
        match inner {
            Some(0) => self.close(),
            Some(inner) if inner + 1 < self.stack.len() || !self.member_follows() => {
                for _ in 0..inner {
                    self.cursor.repair(Repair::MissingClose);
                    self.close();
                }
                self.close();
            }
            _ => {
                self.cursor.repair(Repair::WrongClose);
                self.close();
            }
        }
    }

    /// Whether a comma and a key follow.
    fn member_follows(&self) -> bool {
        let rest = self.cursor.rest().trim_start();
        let Some(members) = rest.strip_prefix(',').map(str::trim_start) else { return false };
        TextLook::new(self.cursor.text, self.cursor.text.len() - members.len()).key_follows()
    }

    /// Takes commas, brackets and what does not belong, alike in all containers. True if it took something.
    fn take_sign(&mut self, sign: char) -> bool {
        if is_closer(sign) {
            self.take_closer(sign);
        } else if is_comma(sign) || (sign == ';' && self.progress() == Progress::Item) {
            match sign {
                ',' => {}
                ';' => self.cursor.repair(Repair::OddSeparator),
                _ => self.cursor.repair(Repair::FullWidth),
            }
            self.cursor.at += sign.len_utf8();
            if self.progress() != Progress::Item {
                self.cursor.repair(Repair::TrailingComma);
            }
            if self.progress() == Progress::Item {
                self.set_progress(Progress::Comma);
            }
        } else if self.cursor.rest().starts_with("```") {
            self.close_all();
        } else if self.cursor.take("...") || self.cursor.take("…") {
            self.cursor.repair(Repair::Ellipsis);
            self.set_progress(Progress::Item);
        } else {
            return false;
        }
        true
    }

    /// Passes over words that do not belong here: at least a character, up to a sign that may belong.
    fn skip_words(&mut self) {
        self.cursor.repair(Repair::SkippedText);
        self.cursor.next();
        self.cursor.take_while(|c| !(is_comma(c) || is_closer(c) || is_quote(c) || matches!(c, '\n' | '{' | '[')));
    }

    fn step_array(&mut self) -> Result<(), DepthError> {
        self.cursor.skip_space();
        let Some(sign) = self.cursor.peek() else {
            self.close_all();
            return Ok(());
        };
        if self.take_sign(sign) {
            return Ok(());
        }
        let begins = is_quote(sign) || matches!(sign, '{' | '[' | '(' | '-' | '+' | '.') || sign.is_alphanumeric();
        if self.progress() == Progress::Item {
            if !begins {
                self.skip_words();
                return Ok(());
            }
            self.cursor.repair(Repair::MissingComma);
        }
        self.read_value(sign)
    }

    /// Reads the value that begins with `sign`.
    fn read_value(&mut self, sign: char) -> Result<(), DepthError> {
        if matches!(sign, '{' | '[' | '(') {
            self.cursor.at += 1;
            return self.open(sign);
        }
        let from = self.cursor.at;
        let place = self.place(false);
        match read_scalar(self.cursor, place) {
            Some(value) => self.attach(value),
            None => {
                if let Some(Frame { items: FrameItems::Object { key, .. }, .. }) = self.top()
                    && key.take().is_some()
                {
                    self.cursor.repair(Repair::DroppedKey);
                }
                if self.cursor.at == from {
                    self.skip_words();
                }
                self.set_progress(Progress::Item);
            }
        }
        Ok(())
    }

    fn step_object(&mut self) -> Result<(), DepthError> {
        self.cursor.skip_space();
        let Some(sign) = self.cursor.peek() else {
            self.close_all();
            return Ok(());
        };
        if self.take_sign(sign) {
            return Ok(());
        }
        let has_quotes = is_quote(sign);
        if !(has_quotes || is_bare_key(sign)) || (self.progress() == Progress::Item && !self.next_key_is_plausible()) {
            self.skip_words();
            return Ok(());
        }
        if self.progress() == Progress::Item {
            self.cursor.repair(Repair::MissingComma);
        }
        let key = if has_quotes { self.read_quoted_key() } else { self.read_bare_key() };
        match key {
            Some(key) => self.read_member(key, has_quotes),
            None => Ok(()),
        }
    }

    fn next_key_is_plausible(&self) -> bool {
        TextLook::new(self.cursor.text, self.cursor.at).key_follows()
    }

    /// Reads a key in quotes; `None` if the text ends within it.
    fn read_quoted_key(&mut self) -> Option<String> {
        let place = self.place(true);
        let key = read_string(self.cursor, place);
        if !key.is_whole {
            self.cursor.repair(Repair::DroppedKey);
            return None;
        }
        Some(key.text)
    }

    /// Reads a key without quotes; `None` if no colon follows it, unless it may be the first item of a set.
    fn read_bare_key(&mut self) -> Option<String> {
        let from = self.cursor.at;
        let key = self.cursor.take_while(|c| is_bare_key(c) || c == ' ').trim_end();
        let begins_set = self.progress() == Progress::Opened && self.cursor.peek().is_some_and(is_comma);
        if begins_set && key.starts_with(|c: char| c.is_ascii_digit()) {
            self.cursor.at = from;
            self.become_set(None);
            return None;
        }
        self.cursor.skip_space();
        if !matches!(self.cursor.peek(), Some(':' | '：' | '=')) || key.len() > 100 {
            let is_cut = self.cursor.peek().is_none();
            self.cursor.repair(if is_cut { Repair::DroppedKey } else { Repair::SkippedText });
            return None;
        }
        self.cursor.repair(Repair::BareKey);
        Some(key.to_owned())
    }

    /// Turns the empty object into a set.
    fn become_set(&mut self, first: Option<String>) {
        self.cursor.repair(Repair::Set);
        if let Some(frame) = self.top() {
            frame.items = FrameItems::Array(Vec::new());
        }
        if let Some(first) = first {
            self.attach(Value::String(first));
        }
    }

    /// Reads what follows a key.
    fn read_member(&mut self, key: String, has_quotes: bool) -> Result<(), DepthError> {
        self.cursor.skip_space();
        let sign = self.cursor.peek();
        match sign {
            Some(':') => self.cursor.at += 1,
            Some('：') => {
                self.cursor.repair(Repair::FullWidth);
                self.cursor.at += '：'.len_utf8();
            }
            Some(c) if is_comma(c) || is_closer(c) => {
                if self.progress() == Progress::Opened && self.is_empty() {
                    self.become_set(Some(key));
                } else {
                    self.cursor.repair(Repair::DroppedKey);
                    self.set_progress(Progress::Item);
                }
                return Ok(());
            }
            Some(_) => {
                self.cursor.repair(Repair::OddSeparator);
                let _ = ["=>", "->", "=="].into_iter().any(|sign| self.cursor.take(sign)) || self.cursor.take("=");
            }
            None => {
                self.cursor.repair(Repair::DroppedKey);
                return Ok(());
            }
        }
        self.cursor.skip_space();
        let at_fence = self.cursor.rest().starts_with("```");
        let Some(sign) = self.cursor.peek().filter(|c| !(at_fence || is_comma(*c) || is_closer(*c))) else {
            self.cursor.repair(Repair::DroppedKey);
            self.set_progress(Progress::Item);
            return Ok(());
        };
        if let Some(Frame { items: FrameItems::Object { key: slot, bare_keys, .. }, .. }) = self.top() {
            *slot = Some(key);
            *bare_keys = !has_quotes;
        }
        self.read_value(sign)
    }

    fn is_empty(&self) -> bool {
        match self.stack.last().map(|frame| &frame.items) {
            Some(FrameItems::Object { members, .. }) => members.is_empty(),
            _ => false,
        }
    }
}
