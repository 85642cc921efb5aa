//! Python literals, as `eval` in the authors' code takes them: dicts, lists, strings, numbers, True, False and None.
//!
//! Strict: a text with anything before, behind or between is none. Names and calls are errors, as they are to `eval`
//! without definitions.

use serde_json::{Map, Number, Value};

/// Deeper values are no literals.
const DEEPEST: usize = 64;

/// The literal that `text` is, as JSON; keys that are no strings are written as JSON.
pub(super) fn parse_literal(text: &str) -> Option<Value> {
    let mut reader = LiteralReader { rest: text };
    let value = reader.read_value(0)?;
    reader.skip_space();
    reader.rest.is_empty().then_some(value)
}

struct LiteralReader<'a> {
    rest: &'a str,
}

impl LiteralReader<'_> {
    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\n', '\r', '\u{c}']);
    }

    fn take_char(&mut self, wanted: char) -> bool {
        self.skip_space();
        let after = self.rest.strip_prefix(wanted);
        self.rest = after.unwrap_or(self.rest);
        after.is_some()
    }

    fn read_value(&mut self, depth: usize) -> Option<Value> {
        self.skip_space();
        if depth > DEEPEST {
            return None;
        }
        match self.rest.chars().next()? {
            '{' => self.read_dict(depth),
            '[' => self.read_list('[', ']', depth),
            '(' => self.read_list('(', ')', depth),
            '"' | '\'' => self.read_strings().map(Value::String),
            _ => self.read_word(),
        }
    }

    fn read_dict(&mut self, depth: usize) -> Option<Value> {
        let mut map = Map::new();
        self.take_char('{');
        while !self.take_char('}') {
            let key = match self.read_value(depth + 1)? {
                Value::String(key) => key,
                other => other.to_string(),
            };
            if !self.take_char(':') {
                return None;
            }
            let value = self.read_value(depth + 1)?;
            map.insert(key, value);
            if !self.take_char(',') && !self.rest.starts_with('}') {
                return None;
            }
        }
        Some(Value::Object(map))
    }

    fn read_list(&mut self, open: char, close: char, depth: usize) -> Option<Value> {
        let mut list = Vec::new();
        self.take_char(open);
        while !self.take_char(close) {
            list.push(self.read_value(depth + 1)?);
            if !self.take_char(',') && !self.rest.starts_with(close) {
                return None;
            }
        }
        Some(Value::Array(list))
    }

    /// Adjacent strings are one.
    fn read_strings(&mut self) -> Option<String> {
        let mut text = String::new();
        loop {
            self.skip_space();
            let quote = match self.rest.chars().next() {
                Some(quote @ ('"' | '\'')) => quote,
                _ => return Some(text),
            };
            let triple = quote.to_string().repeat(3);
            let fence = if self.rest.starts_with(&triple) { triple } else { quote.to_string() };
            self.rest = &self.rest[fence.len()..];
            self.read_until(&fence, &mut text)?;
        }
    }

    fn read_until(&mut self, fence: &str, text: &mut String) -> Option<()> {
        loop {
            if let Some(after) = self.rest.strip_prefix(fence) {
                self.rest = after;
                return Some(());
            }
            let c = self.rest.chars().next()?;
            self.rest = &self.rest[c.len_utf8()..];
            match c {
                '\n' if fence.len() == 1 => return None,
                '\\' => self.read_escape(text)?,
                _ => text.push(c),
            }
        }
    }

    fn read_escape(&mut self, text: &mut String) -> Option<()> {
        let c = self.rest.chars().next()?;
        self.rest = &self.rest[c.len_utf8()..];
        let digits = match c {
            'x' => 2,
            'u' => 4,
            'U' => 8,
            _ => 0,
        };
        if digits > 0 {
            let code = u32::from_str_radix(self.rest.get(..digits)?, 16).ok()?;
            self.rest = &self.rest[digits..];
            text.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            return Some(());
        }
        match c {
            'n' => text.push('\n'),
            't' => text.push('\t'),
            'r' => text.push('\r'),
            '\\' | '\'' | '"' => text.push(c),
            '\n' => {}
            // An unknown escape stays as it is.
            _ => text.extend(['\\', c]),
        }
        Some(())
    }

    fn read_word(&mut self) -> Option<Value> {
        let end =
            self.rest.find(|c: char| !(c.is_ascii_alphanumeric() || "+-._".contains(c))).unwrap_or(self.rest.len());
        let (word, after) = self.rest.split_at(end);
        self.rest = after;
        match word {
            "True" => Some(Value::Bool(true)),
            "False" => Some(Value::Bool(false)),
            "None" => Some(Value::Null),
            _ if word.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c)) => {
                let integer = word.parse::<i64>().ok().map(Number::from);
                integer.or_else(|| Number::from_f64(word.parse().ok()?)).map(Value::Number)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn literals_are_read_as_python_reads_them() {
        let text = "{'a': [1, -2.5, True, None,], \"b\": ('x' \"y\"), 3: 'it\\'s \\u00e9 \\d'}";
        assert_eq!(parse_literal(text), Some(json!({"a": [1, -2.5, true, null], "b": ["xy"], "3": "it's é \\d"})));
        assert_eq!(parse_literal(" '''two\nlines''' "), Some(json!("two\nlines")));
    }

    #[test]
    fn anything_else_is_none() {
        for text in ["", "{'a': true}", "so {'a': 1}", "{'a': 1} x", "{'a' 1}", "'two\nlines'", "f(1)", "[1 2]", "'a"] {
            assert_eq!(parse_literal(text), None, "{text}");
        }
        assert_eq!(parse_literal(&"[".repeat(100_000)), None);
    }
}
