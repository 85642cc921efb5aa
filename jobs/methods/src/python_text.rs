//! Texts as Python programs write them: printed lists, and answers normalised by SQuAD's script.

use hopeval_pytext::{is_word, lower_into, split};

/// A list of texts as Python prints it.
pub(crate) fn python_list(texts: &[impl AsRef<str>]) -> String {
    let quoted: Vec<String> = texts.iter().map(|text| python_text(text.as_ref())).collect();
    format!("[{}]", quoted.join(", "))
}

/// A text as Python prints it: in single quotes, or in double ones if it has single ones and no double ones.
fn python_text(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut printed = String::from(quote);
    for letter in text.chars() {
        match letter {
            '\\' => printed.push_str("\\\\"),
            '\n' => printed.push_str("\\n"),
            '\r' => printed.push_str("\\r"),
            '\t' => printed.push_str("\\t"),
            _ if letter == quote => printed.extend(['\\', letter]),
            _ if letter.is_ascii_control() => printed.push_str(&format!("\\x{:02x}", u32::from(letter))),
            _ => printed.push(letter),
        }
    }
    printed.push(quote);
    printed
}

/// An answer as SQuAD's script normalises it: lower case, without ASCII punctuation and articles, words joined by
/// single spaces.
pub(crate) fn normalized_answer(text: &str) -> String {
    let mut lowered = String::with_capacity(text.len());
    lower_into(text, &mut lowered);
    lowered.retain(|letter| !letter.is_ascii_punctuation());
    let mut without_articles = String::with_capacity(lowered.len());
    let mut rest = lowered.as_str();
    while let Some(first) = rest.chars().next() {
        let run = rest.find(|letter| is_word(letter) != is_word(first)).unwrap_or(rest.len());
        let (piece, after) = rest.split_at(run);
        without_articles.push_str(if matches!(piece, "a" | "an" | "the") { " " } else { piece });
        rest = after;
    }
    split(&without_articles).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_pythons() {
        let list = python_list(&["a", "it's", "\"q\" it's", "b\\\t\u{1}é"]);
        assert_eq!(list, r#"['a', "it's", '"q" it\'s', 'b\\\t\x01é']"#);
        assert_eq!(python_list(&[""; 0]), "[]");
    }

    #[test]
    fn answers_lose_case_punctuation_and_articles() {
        assert_eq!(normalized_answer("  The U.S.,\tand an A-team! "), "us and ateam");
        assert_eq!(normalized_answer("a\u{301} a² «the» Tom_Hanks"), "\u{301} a² « » tomhanks");
        assert_eq!(normalized_answer("The The"), "");
    }
}
