//! Looks for stop strings in a growing text without decoding all of it for each token.
//!
//! ```text
//!   ids   a b c d e f g h i j k              a new token can only complete a stop string at the text's end:
//!                       '-----' decoded      the tail that is long enough is searched; the whole, only if it is there
//! ```

/// Turns token ids into text.
pub type Detokeniser = dyn Fn(&[u32]) -> String + Send + Sync;

/// Bytes that decoding may change before the newest token's text: the rest of a character whose bytes were incomplete,
/// white space at the tail's start, and spaces before punctuation.
const MARGIN: usize = 16;

/// The search in one continuation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StopSearch {
    /// Tokens of the tail that sufficed for the last token.
    tail: usize,
}

impl StopSearch {
    /// Whether the text of `ids` contains one of the stop strings. Called after each token: the text of all but the
    /// last one contains none.
    pub(crate) fn has_stopped(&mut self, ids: &[u32], stop: &[String], detokenise: &Detokeniser) -> bool {
        let longest = stop.iter().map(String::len).max().unwrap_or(0);
        if longest == 0 || ids.is_empty() {
            return false;
        }
        let newest = detokenise(&ids[ids.len() - 1..]).len();
        let enough = longest + newest + MARGIN;
        self.tail = self.tail.max(1);
        loop {
            let first = ids.len().saturating_sub(self.tail);
            let text = detokenise(&ids[first..]);
            if first == 0 {
                return cut_at_stop(&text, stop).1;
            }
            if text.len() >= enough {
                return cut_at_stop(&text, stop).1 && cut_at_stop(&detokenise(ids), stop).1;
            }
            self.tail *= 2;
        }
    }
}

/// The text before the first of the stop strings, and whether there was one.
pub fn cut_at_stop<'a>(text: &'a str, stop: &[String]) -> (&'a str, bool) {
    let first = stop.iter().filter(|s| !s.is_empty()).filter_map(|s| text.find(s.as_str())).min();
    first.map_or((text, false), |at| (&text[..at], true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokenise::tests::tokenizer;
    use proptest::prelude::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        /// As if the whole were decoded for each token, with every class of tokenizer.
        #[test]
        fn stops_where_the_whole_text_has_a_stop_string(
            class in prop::sample::select(vec!["t5", "gpt2", "bert-uncased", "llama"]),
            ids in prop::collection::vec(0u32..60, 1..60),
            stop in prop::collection::vec("[ a-z.\n]{1,4}", 0..3),
        ) {
            let tokenizer = tokenizer(class);
            let decode = move |ids: &[u32]| tokenizer.decode(ids, true);
            let mut search = StopSearch::default();
            for count in 1..=ids.len() {
                let expected = cut_at_stop(&decode(&ids[..count]), &stop).1;
                let found = search.has_stopped(&ids[..count], &stop, &decode);
                prop_assert_eq!(found, expected, "{} {:?}", class, &ids[..count]);
                if expected {
                    break;
                }
            }
        }
    }

    #[test]
    fn a_long_text_is_not_decoded_again_for_each_token() {
        let decoded = Arc::new(AtomicUsize::new(0));
        let counted = decoded.clone();
        let decode = move |ids: &[u32]| {
            counted.fetch_add(ids.len(), Relaxed);
            ids.iter().map(|id| format!("w{id} ")).collect::<String>()
        };
        let (ids, stop) = ((0..2000).collect::<Vec<u32>>(), vec!["w1999 ".to_owned()]);
        let mut search = StopSearch::default();
        let stopped = (1..=ids.len()).position(|count| search.has_stopped(&ids[..count], &stop, &decode));
        assert_eq!(stopped, Some(1999));
        assert!(decoded.load(Relaxed) < 2000 * 20, "{}", decoded.load(Relaxed));
    }
}
