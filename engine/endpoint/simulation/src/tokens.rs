//! The tokens of the simulated model.
//!
//! The rule: a text is cut into words (a run of letters and digits, with the one space before it) and single other
//! characters; a piece of more than four bytes is cut after every fourth byte. A token's number is its bytes as digits
//! 1 to 248 of base 249: UTF-8 has no byte above 247, so every token is below 2^32, and numbers can be read back into
//! text without a table.

const BASE: u32 = 249;
const LONGEST: usize = 4;

/// The tokens of a text, in its order; their concatenation is the text.
pub(crate) fn split_tokens(text: &str) -> impl Iterator<Item = &[u8]> {
    let bytes = text.as_bytes();
    let mut at = 0;
    let mut piece_end = 0;
    std::iter::from_fn(move || {
        if at == bytes.len() {
            return None;
        }
        if at == piece_end {
            piece_end = end_of_piece(bytes, at);
        }
        let start = at;
        at = piece_end.min(start + LONGEST);
        Some(&bytes[start..at])
    })
}

/// The end of the piece that begins at `start`.
fn end_of_piece(bytes: &[u8], start: usize) -> usize {
    // Bytes above 127 belong to letters here: no alphabet is looked up.
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte >= 128;
    let word = start + usize::from(bytes[start] == b' ');
    let letters = bytes[word..].iter().take_while(|&&byte| is_letter(byte)).count();
    if letters > 0 { word + letters } else { start + 1 }
}

/// The number of tokens of a text.
pub(crate) fn count_tokens(text: &str) -> u64 {
    let bytes = text.as_bytes();
    let (mut at, mut count) = (0, 0);
    while at < bytes.len() {
        let end = end_of_piece(bytes, at);
        count += (end - at).div_ceil(LONGEST) as u64;
        at = end;
    }
    count
}

/// The number of a token of at most four bytes.
pub(crate) fn token_number(token: &[u8]) -> u32 {
    token.iter().rev().fold(0, |number, &byte| number * BASE + u32::from(byte) + 1)
}

/// The numbers of a text's tokens.
pub(crate) fn token_numbers(text: &str) -> Vec<u32> {
    split_tokens(text).map(token_number).collect()
}

/// The bytes of a token; `None` if no token has this number.
pub(crate) fn token_bytes(number: u32) -> Option<Vec<u8>> {
    let mut rest = number;
    let mut bytes = Vec::with_capacity(LONGEST);
    while rest > 0 {
        bytes.push((rest % BASE).checked_sub(1)? as u8);
        rest /= BASE;
    }
    (!bytes.is_empty()).then_some(bytes)
}

/// The text of a sequence of numbers. Bytes that are no UTF-8 become U+FFFD.
///
/// # Errors
/// The first number that is no token's.
pub(crate) fn text_of(numbers: &[u32]) -> Result<String, u32> {
    let mut bytes = Vec::with_capacity(numbers.len() * LONGEST);
    for &number in numbers {
        bytes.extend(token_bytes(number).ok_or(number)?);
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The first `count` tokens of a text, cut back to whole characters.
pub(crate) fn cut_to_tokens(text: &str, count: u64) -> &str {
    let mut end: usize = split_tokens(text).take(count as usize).map(<[u8]>::len).sum();
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_back() {
        let text = "Who directed the film \"Été\"?\n\n  42 kilometres \u{10FFFF}";
        let numbers = token_numbers(text);
        assert_eq!(text_of(&numbers).as_deref(), Ok(text));
        assert_eq!(numbers.len() as u64, count_tokens(text));
        assert_eq!(text_of(&[0]), Err(0));
    }

    #[test]
    fn words_take_the_space_before_them() {
        let tokens: Vec<&[u8]> = split_tokens("a director, born").collect();
        let wanted: [&[u8]; 7] = [b"a", b" dir", b"ecto", b"r", b",", b" bor", b"n"];
        assert_eq!(tokens, wanted);
        assert_eq!(cut_to_tokens("a director", 2), "a dir");
    }
}
