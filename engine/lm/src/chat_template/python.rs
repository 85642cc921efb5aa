//! Python's ways that templates count on: `json.dumps`, `str.strip`, and transformers' `generation` block.

use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Error, ErrorKind};
use std::fmt::Write as _;

/// White space of Python's `str.isspace`: Unicode's, and four separators of ASCII.
fn is_space(character: char) -> bool {
    character.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&character)
}

/// `str.strip`.
pub(super) fn strip(text: &str) -> &str {
    text.trim_matches(is_space)
}

/// `str.rstrip`.
pub(super) fn strip_end(text: &str) -> &str {
    text.trim_end_matches(is_space)
}

/// Makes `generation` blocks plain ones. They tell a trainer which tokens are the assistant's; their text is that of
/// their content.
pub(super) fn without_generation_tags(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find("{%") {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let Some(end) = rest.find("%}").map(|end| end + 2) else { break };
        let tag = &rest[..end];
        let inner = &tag[2..end - 2];
        let name = inner.trim_matches(['-', '+']).trim();
        let plain = match name {
            "generation" => Some("if true"),
            "endgeneration" => Some("endif"),
            _ => None,
        };
        match plain {
            // Marks of white space stay where they are.
            Some(plain) => out.push_str(&tag.replacen(name, plain, 1)),
            None => out.push_str(tag),
        }
        rest = &rest[end..];
    }
    out.push_str(rest);
    out
}

/// The layout of a JSON text.
struct JsonLayout {
    ascii: bool,
    sorted: bool,
    /// Spaces or another text for each level; without it everything is on one line.
    indent: Option<String>,
    between_items: String,
    after_key: String,
}

/// transformers' `tojson`: `json.dumps(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False)`.
pub(super) fn to_json(value: &Value, options: Kwargs) -> Result<Value, Error> {
    let flag = |name: &str| Ok::<_, Error>(options.get::<Option<bool>>(name)?.unwrap_or(false));
    let indent = match options.get::<Option<Value>>("indent")? {
        None => None,
        Some(given) if given.is_none() => None,
        Some(given) => Some(match given.as_str() {
            Some(text) => text.to_owned(),
            None => " ".repeat(usize::try_from(given.clone())?.min(16)),
        }),
    };
    let separators = match options.get::<Option<Value>>("separators")? {
        Some(given) if !given.is_none() => {
            let texts: Vec<String> = given.try_iter()?.map(|text| text.to_string()).collect();
            let [items, keys] = <[String; 2]>::try_from(texts).map_err(|_| wrong("separators are two texts"))?;
            (items, keys)
        }
        _ => ((if indent.is_some() { "," } else { ", " }).to_owned(), ": ".to_owned()),
    };
    let (between_items, after_key) = separators;
    let layout =
        JsonLayout { ascii: flag("ensure_ascii")?, sorted: flag("sort_keys")?, indent, between_items, after_key };
    options.assert_all_used()?;
    let mut out = String::new();
    layout.write_value(&mut out, value, 0)?;
    Ok(Value::from(out))
}

impl JsonLayout {
    fn write_value(&self, out: &mut String, value: &Value, depth: usize) -> Result<(), Error> {
        match value.kind() {
            ValueKind::None => out.push_str("null"),
            ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => out.push_str(&value.to_string()),
            ValueKind::String => self.write_text(out, value.as_str().unwrap_or_default()),
            ValueKind::Seq | ValueKind::Iterable => {
                let items = value.try_iter()?.collect::<Vec<_>>();
                self.write_items(out, ['[', ']'], depth, &items, |out, item| self.write_value(out, item, depth + 1))?;
            }
            ValueKind::Map => {
                let mut keys = value.try_iter()?.collect::<Vec<_>>();
                if self.sorted {
                    keys.sort();
                }
                self.write_items(out, ['{', '}'], depth, &keys, |out, key| {
                    self.write_text(out, &key.to_string());
                    out.push_str(&self.after_key);
                    self.write_value(out, &value.get_item(key)?, depth + 1)
                })?;
            }
            other => return Err(wrong(&format!("{other} is no JSON"))),
        }
        Ok(())
    }

    fn write_items(
        &self,
        out: &mut String,
        [open, close]: [char; 2],
        depth: usize,
        items: &[Value],
        mut write: impl FnMut(&mut String, &Value) -> Result<(), Error>,
    ) -> Result<(), Error> {
        out.push(open);
        for (nth, item) in items.iter().enumerate() {
            if nth > 0 {
                out.push_str(&self.between_items);
            }
            self.new_line(out, depth + 1);
            write(out, item)?;
        }
        if !items.is_empty() {
            self.new_line(out, depth);
        }
        out.push(close);
        Ok(())
    }

    fn new_line(&self, out: &mut String, depth: usize) {
        if let Some(indent) = &self.indent {
            out.push('\n');
            out.push_str(&indent.repeat(depth));
        }
    }

    fn write_text(&self, out: &mut String, text: &str) {
        out.push('"');
        for character in text.chars() {
            match character {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\u{8}' => out.push_str("\\b"),
                '\u{c}' => out.push_str("\\f"),
                _ if character < ' ' || (self.ascii && !character.is_ascii()) => {
                    let mut units = [0; 2];
                    for unit in character.encode_utf16(&mut units) {
                        write!(out, "\\u{unit:04x}").expect("a text grows; this is a bug");
                    }
                }
                _ => out.push(character),
            }
        }
        out.push('"');
    }
}

fn wrong(reason: &str) -> Error {
    Error::new(ErrorKind::InvalidOperation, format!("tojson: {reason}"))
}
