//! Finds words copied by a language model in the text they come from.

/// Marks one word of `within` for each word of `wanted`, in turn: the next equal word that is `free` and not yet
/// marked. If no such word follows, it marks the first one before. Returns the marks and the number of words not found.
///
/// Both are in lower case. The authors' alignment works in the same way, over lemmas and within a window of 150 words
/// (their code; the paper does not say).
pub(crate) fn align(wanted: &[String], within: &[String], free: impl Fn(usize) -> bool) -> (Vec<bool>, u64) {
    let mut marked = vec![false; within.len()];
    let (mut from, mut missing) = (0, 0);
    for word in wanted {
        let fits = |at: &usize| within[*at] == *word && !marked[*at] && free(*at);
        match (from..within.len()).find(fits).or_else(|| (0..from).find(fits)) {
            Some(at) => {
                marked[at] = true;
                from = at + 1;
            }
            None => missing += 1,
        }
    }
    (marked, missing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::folded_words;

    fn marked(wanted: &str, within: &str) -> (String, u64) {
        let words = folded_words(within);
        let (marks, missing) = align(&folded_words(wanted), &words, |at| words[at] != "info");
        let kept = words.iter().zip(marks).map(|(word, kept)| if kept { format!("[{word}]") } else { word.clone() });
        (kept.collect::<Vec<_>>().join(" "), missing)
    }

    #[test]
    fn each_word_is_taken_once_and_further_on_first() {
        assert_eq!(marked("A b", "a a b a b").0, "[a] a [b] a b");
        assert_eq!(marked("b a", "a b").0, "[a] [b]", "what stands before is taken where nothing follows");
        assert_eq!(marked("b b b", "b x b"), ("[b] x [b]".to_owned(), 1));
        assert_eq!(marked("info x", "info x"), ("info [x]".to_owned(), 1), "a word that is not free is not taken");
    }
}
