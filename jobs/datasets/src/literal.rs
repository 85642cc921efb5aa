//! Lists of strings written as a Python or JSON literal inside a string: `['a', "b"]`.
//!
//! DPR's tables and data frames saved as CSV hold their answers in this form. Python's string escapes and tuples are
//! understood. Any other text is not a list and is never read in part.

use std::iter::Peekable;
use std::str::Chars;

/// The strings of a list or tuple literal; `None` if `text` is not exactly one literal.
pub(crate) fn parse_strings(text: &str) -> Option<Vec<String>> {
    let text = text.trim();
    let inner = match (text.chars().next()?, text.chars().next_back()?) {
        ('[', ']') | ('(', ')') if text.len() >= 2 => &text[1..text.len() - 1],
        _ => return None,
    };
    let mut chars = inner.chars().peekable();
    let mut items = Vec::new();
    loop {
        skip_blank(&mut chars);
        match chars.next() {
            None => return Some(items),
            Some(quote @ ('"' | '\'')) => items.push(parse_string(&mut chars, quote)?),
            Some(_) => return None,
        }
        skip_blank(&mut chars);
        match chars.next() {
            None => return Some(items),
            Some(',') => {}
            Some(_) => return None,
        }
    }
}

fn skip_blank(chars: &mut Peekable<Chars<'_>>) {
    while chars.next_if(|c| c.is_whitespace()).is_some() {}
}

/// The string up to its closing `quote`.
fn parse_string(chars: &mut Peekable<Chars<'_>>, quote: char) -> Option<String> {
    let mut out = String::new();
    loop {
        match chars.next()? {
            c if c == quote => return Some(out),
            '\\' => match chars.next()? {
                c @ ('\\' | '\'' | '"' | '/') => out.push(c),
                'n' => out.push('\n'),
                't' => out.push('\t'),
                'r' => out.push('\r'),
                'b' => out.push('\u{8}'),
                'f' => out.push('\u{c}'),
                'x' => out.push(parse_code_point(chars, 2)?),
                'u' => out.push(parse_code_point(chars, 4)?),
                'U' => out.push(parse_code_point(chars, 8)?),
                // Python keeps an unknown escape.
                other => out.extend(['\\', other]),
            },
            c => out.push(c),
        }
    }
}

/// The character encoded by the next `digits` hexadecimal digits, JSON's surrogate pairs included.
fn parse_code_point(chars: &mut Peekable<Chars<'_>>, digits: usize) -> Option<char> {
    let unit = parse_hexadecimal(chars, digits)?;
    if digits != 4 || !(0xd800..0xdc00).contains(&unit) {
        return char::from_u32(unit);
    }
    if chars.next()? != '\\' || chars.next()? != 'u' {
        return None;
    }
    let low = parse_hexadecimal(chars, 4)?;
    char::from_u32(0x10000 + ((unit - 0xd800) << 10) + low.checked_sub(0xdc00).filter(|&low| low < 0x400)?)
}

fn parse_hexadecimal(chars: &mut Peekable<Chars<'_>>, digits: usize) -> Option<u32> {
    let mut value = 0;
    for _ in 0..digits {
        value = value * 16 + chars.next()?.to_digit(16)?;
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_and_json_lists_are_read() {
        let list = |text| parse_strings(text).unwrap().join("|");
        assert_eq!(list(r#"["Linda Davis"]"#), "Linda Davis");
        assert_eq!(list(r#"['a', "it's", 'it\'s',]"#), "a|it's|it's");
        assert_eq!(list(r"('x\ty', '\u00e9\x41')"), "x\ty|éA");
        assert_eq!(list(r#"["\ud83d\ude81"]"#), "🚁");
        assert_eq!(list("[]"), "");
    }

    #[test]
    fn what_is_no_list_of_strings_is_none() {
        for text in ["", "a", "[", "[1]", "['a' 'b']", "['a]", "['a'] x", r"['\ud83d']"] {
            assert_eq!(parse_strings(text), None, "{text}");
        }
    }
}
