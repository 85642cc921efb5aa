//! Tells the prediction files of official scripts from other files of predictions.

/// Whether a file that begins so is a prediction file of an official script: a list of rows, an object whose member
/// `answer`, `sp` or `evidence` is an object, or rows with `predicted_answer`.
pub fn has_official_form(beginning: &[u8]) -> bool {
    let text = beginning.strip_prefix(b"\xef\xbb\xbf").unwrap_or(beginning).trim_ascii_start();
    match text.first() {
        Some(b'[') => true,
        Some(b'{') => {
            ["answer", "sp", "evidence"].into_iter().any(|part| has_member(text, part, b"{"))
                || has_member(text, "predicted_answer", b"")
        }
        _ => false,
    }
}

/// Whether a text has a member of this name whose value begins so.
fn has_member(text: &[u8], name: &str, value: &[u8]) -> bool {
    let key = format!("\"{name}\"");
    let mut places = text.windows(key.len()).enumerate().filter(|(_, window)| *window == key.as_bytes());
    places.any(|(place, _)| {
        let behind = text[place + key.len()..].trim_ascii_start();
        behind.strip_prefix(b":").is_some_and(|behind| behind.trim_ascii_start().starts_with(value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn official_files_are_told_from_others() {
        for (text, expected) in [
            ("{\"answer\": {\"q\": \"a\"}, \"sp\": {}}", true),
            ("{\n  \"sp\" : { \"q\": [] }", true),
            ("[{\"id\": \"q\"}]", true),
            ("{\"id\": \"q\", \"predicted_answer\": \"a\"}\n", true),
            ("{\"id\": \"q\", \"answer\": \"a\"}\n", false),
            ("{\"answer\": \"a\", \"id\": \"q\"}\n", false),
            ("{\"q\": \"answer\"}", false),
            ("id,answer\nq,a\n", false),
            ("q Q0 d 1 2 r\n", false),
        ] {
            assert_eq!(has_official_form(text.as_bytes()), expected, "{text}");
        }
    }
}
