//! Makes texts of strangers safe to show: characters that are not seen, or that turn others around, become visible.

use std::borrow::Cow;

/// Replaces control characters, but for line feeds and tabs, and the marks of bidirectional text by their names in
/// brackets, such as `[U+202E]`. So a text cannot change the order of what stands beside it, and is well-formed in XML.
pub fn shown_text(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match is_hidden(character) {
            true => shown.push_str(&format!("[U+{:04X}]", u32::from(character))),
            false => shown.push(character),
        }
    }
    Cow::Owned(shown)
}

/// Whether a character is a control, turns the direction of text, or may not stand in XML.
fn is_hidden(character: char) -> bool {
    let is_layout = matches!(character, '\n' | '\t');
    let turns =
        matches!(character, '\u{61C}' | '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}');
    (character.is_control() && !is_layout) || turns || matches!(character, '\u{FEFF}' | '\u{FFFE}' | '\u{FFFF}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_direction_and_controls_are_named() {
        assert_eq!(shown_text("Zoë <b> & \"c\"\n"), "Zoë <b> & \"c\"\n");
        assert_eq!(shown_text("a\u{202E}b\u{0}c\u{2067}"), "a[U+202E]b[U+0000]c[U+2067]");
    }
}
