//! Thoughts of reasoning models that stand in the text.

/// The tags of DeepSeek R1, Qwen 3 and their kin.
const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";

/// A text without its leading thoughts, and the thoughts. A template may have opened them in the prompt, so that the
/// text has the closing tag alone. Thoughts that do not end are the whole text.
pub(super) fn split_thoughts(text: String, cut: bool) -> (String, Option<String>) {
    let opened = text.trim_start().strip_prefix(OPEN);
    let rest = opened.unwrap_or(&text);
    match rest.find(CLOSE) {
        Some(end) => {
            let answer = rest[end + CLOSE.len()..].trim_start().to_owned();
            (answer, Some(rest[..end].trim().to_owned()))
        }
        None if opened.is_some() && cut => (String::new(), opened.map(|thoughts| thoughts.trim().to_owned())),
        None => (text, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thoughts_stand_in_front() {
        let split = |text: &str, cut| {
            let (text, thoughts) = split_thoughts(text.to_owned(), cut);
            (text, thoughts.unwrap_or_else(|| "none".to_owned()))
        };
        let pair = |text: &str, thoughts: &str| (text.to_owned(), thoughts.to_owned());
        assert_eq!(split("<think>\nhm\n</think>\n\nParis", false), pair("Paris", "hm"));
        assert_eq!(split("hm\n</think>\nParis", false), pair("Paris", "hm"));
        assert_eq!(split("\n<think>hm", true), pair("", "hm"));
        assert_eq!(split("<think>hm", false), pair("<think>hm", "none"));
        assert_eq!(split("The tag <think> is open", true), pair("The tag <think> is open", "none"));
        assert_eq!(split(" Paris ", false), pair(" Paris ", "none"));
    }
}
