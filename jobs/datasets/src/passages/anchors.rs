//! Reads hyperlinks from a sentence with `<a href="…">…</a>` and places them in the plain sentence.
//!
//! The text between the tags is the sentence itself, so counting gives an anchor's place. If the two differ (one of
//! them has decoded entities), the anchor is searched behind the previous link. An anchor that is not found keeps its
//! target and has an empty place at the point reached.

use crate::passage::LinkRecord;

/// Appends the links of `marked`. `plain` is its text and stands at byte `offset` of the passage.
pub(super) fn find_links(plain: &str, marked: &str, offset: usize, links: &mut Vec<LinkRecord>) {
    let mut reached = 0;
    let mut rest = marked;
    while let Some(open) = rest.find("<a ") {
        reached = advance_over(plain, reached, &rest[..open]);
        let Some(tag_end) = rest[open..].find('>').map(|end| open + end + 1) else { break };
        let tag = &rest[open..tag_end];
        let (anchor, after) = match rest[tag_end..].find("</a>") {
            Some(close) => (&rest[tag_end..tag_end + close], tag_end + close + "</a>".len()),
            // An anchor without an end in its sentence: the sentence splitter cut through it.
            None => (&rest[tag_end..], rest.len()),
        };
        rest = &rest[after..];
        let (start, end) = place_anchor(plain, reached, anchor);
        reached = end;
        if let Some(title) = target_title(tag) {
            links.push(LinkRecord { title, start: (offset + start) as u32, end: (offset + end) as u32 });
        }
    }
}

/// The point behind `text`, if `text` stands at `reached`; otherwise `reached`.
fn advance_over(plain: &str, reached: usize, text: &str) -> usize {
    if plain[reached..].starts_with(text) { reached + text.len() } else { reached }
}

fn place_anchor(plain: &str, reached: usize, anchor: &str) -> (usize, usize) {
    let decoded = decode_entities(anchor);
    for text in [anchor, decoded.as_str()] {
        if let Some(found) = plain[reached..].find(text) {
            return (reached + found, reached + found + text.len());
        }
    }
    (reached, reached)
}

/// The title named by a tag's `href`; `None` for an external address, a file or an empty title.
fn target_title(tag: &str) -> Option<String> {
    let href = tag.split_once("href=\"")?.1.split('"').next()?;
    let title = decode_entities(&percent_decode(href));
    let title = title.split('#').next().unwrap_or_default().replace('_', " ");
    let title = title.trim_start_matches(':').trim();
    if title.is_empty() || title.contains("://") {
        return None;
    }
    // MediaWiki resolves a link with its first letter in upper case.
    let mut chars = title.chars();
    let first = chars.next()?;
    let upper = first.to_uppercase();
    // `ß` and a few others become several letters. MediaWiki leaves those unchanged.
    Some(if upper.len() == 1 { upper.chain(chars).collect() } else { title.to_owned() })
}

fn percent_decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let digit = |at: usize| bytes.get(at).and_then(|&byte| char::from(byte).to_digit(16));
        match (bytes[at], digit(at + 1), digit(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                out.push((high * 16 + low) as u8);
                at += 3;
            }
            (byte, ..) => {
                out.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn decode_entities(text: &str) -> String {
    if !text.contains('&') {
        return text.to_owned();
    }
    let entities =
        [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&nbsp;", "\u{a0}"), ("&amp;", "&")];
    entities.into_iter().fold(text.to_owned(), |text, (entity, character)| text.replace(entity, character))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(plain: &str, marked: &str) -> Vec<(String, String)> {
        let mut out = Vec::new();
        find_links(plain, marked, 0, &mut out);
        out.into_iter().map(|link| (link.title, plain[link.start as usize..link.end as usize].to_owned())).collect()
    }

    fn pair(title: &str, anchor: &str) -> (String, String) {
        (title.to_owned(), anchor.to_owned())
    }

    #[test]
    fn anchors_are_placed_and_targets_decoded() {
        let marked =
            r#"The <a href="caf%C3%A9%20au%20lait">café</a> and the <a href="Tea%23History">tea</a>, the cup."#;
        assert_eq!(found("The café and the tea, the cup.", marked), [pair("Café au lait", "café"), pair("Tea", "tea")]);
    }

    #[test]
    fn the_second_of_two_equal_words_is_the_anchor() {
        let mut out = Vec::new();
        find_links("tea tea", r#"tea <a href="Tea">tea</a>"#, 10, &mut out);
        assert_eq!(out, [LinkRecord { title: "Tea".into(), start: 14, end: 17 }]);
    }

    #[test]
    fn entities_may_be_decoded_on_one_side() {
        assert_eq!(
            found("R&B is AT&T", r#"<a href="R%26B">R&amp;B</a> is <a href="AT%26T">AT&amp;T</a>"#),
            [pair("R&B", "R&B"), pair("AT&T", "AT&T")]
        );
    }

    #[test]
    fn odd_links_do_no_harm() {
        assert_eq!(found("a b", r#"<a href="">a</a> <a href="http://x.org">b</a>"#), []);
        assert_eq!(found("a b", r#"a <a href="X">b"#), [pair("X", "b")]);
        assert_eq!(found("a b", r#"<a href="X">gone</a> b"#), [pair("X", "")]);
        assert_eq!(found("a <a b", "a <a b"), []);
        assert_eq!(found("50%", r#"<a href="50%">50%</a>"#), [pair("50%", "50%")]);
    }
}
