//! Leaves out demonstrations by the tokens of each one alone, as IRCoT's code does (`prompt_reader.py`).
//!
//! ```text
//!   |- demonstrations --------|- rest -----|
//!   | a | b | c | d | e | f | passages, Q: |  answer
//!     -->             <--
//!     2. from the     1. from the last one on, until one more, as long as the longest, fits with an answer (optional)
//!        first one on, until all and the answer take fewer tokens than the context
//! ```
//!
//! A demonstration is counted without the white space around it, and so is the rest. The spaces between them count for
//! nothing, so the whole may be longer than the context by a few tokens.

use super::{Prompt, PromptError};

/// The demonstrations of a prompt, and the context that they share with its rest and the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShotPacking {
    /// The number of demonstrations: the first parts, one each.
    pub shots: usize,
    /// Tokens of the context.
    pub context_tokens: usize,
    /// Tokens of the answer.
    pub answer_tokens: usize,
    /// Whether step 1 is done. A single demonstration is kept by it.
    pub spares_longest: bool,
}

impl<T> Prompt<T> {
    /// The parts that the packing leaves out, in this order; none without one. `texts` and `count` as of
    /// [`ShotPacking::dropped`].
    ///
    /// # Errors
    /// As [`ShotPacking::dropped`].
    pub fn dropped_shots(
        &self,
        texts: &[impl AsRef<str>],
        count: impl FnMut(&str) -> Result<usize, PromptError>,
    ) -> Result<Vec<usize>, PromptError> {
        self.packing.map_or(Ok(Vec::new()), |packing| packing.dropped(texts, count))
    }
}

impl ShotPacking {
    /// The parts to leave out, in this order. `texts` are all parts of the prompt; `count` gives the tokens of a text.
    ///
    /// # Errors
    /// [`PromptError::NoShots`], and those of `count`.
    pub fn dropped(
        &self,
        texts: &[impl AsRef<str>],
        mut count: impl FnMut(&str) -> Result<usize, PromptError>,
    ) -> Result<Vec<usize>, PromptError> {
        let Some((shots, rest)) = texts.split_at_checked(self.shots) else {
            return Err(PromptError::NoShots { shots: self.shots, parts: texts.len() });
        };
        let sizes = shots.iter().map(|shot| count(shot.as_ref().trim())).collect::<Result<Vec<_>, _>>()?;
        let rest: String = rest.iter().map(AsRef::as_ref).collect();
        let rest = count(rest.trim())?;
        let end = if self.spares_longest { self.end_with_spare(&sizes) } else { sizes.len() };
        let first = (0..end).find(|&first| self.fits(&sizes[first..end], rest)).unwrap_or(end);
        Ok((end..sizes.len()).rev().chain(0..first).collect())
    }

    /// The number of first demonstrations that leave room for one more.
    fn end_with_spare(&self, sizes: &[usize]) -> usize {
        if sizes.len() == 1 {
            return 1;
        }
        let leaves_room = |end: &usize| {
            let kept = &sizes[..*end];
            let longest = kept.iter().max().copied().unwrap_or_default();
            kept.iter().sum::<usize>() + longest + self.answer_tokens <= self.context_tokens
        };
        (0..=sizes.len()).rev().find(leaves_room).unwrap_or_default()
    }

    fn fits(&self, sizes: &[usize], rest: usize) -> bool {
        sizes.iter().sum::<usize>() + rest + self.answer_tokens < self.context_tokens
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A letter is a token.
    fn dropped(context_tokens: usize, spares_longest: bool, texts: &[&str]) -> Vec<usize> {
        let packing = ShotPacking { shots: texts.len() - 1, context_tokens, answer_tokens: 2, spares_longest };
        let texts: Vec<String> = texts.iter().map(|&text| text.to_owned()).collect();
        packing.dropped(&texts, |text| Ok(text.len())).expect("a part for each demonstration")
    }

    #[test]
    fn the_first_ones_go_until_all_take_fewer_tokens() {
        let texts = ["aaa\n\n", "bb\n\n", "cccc\n\n", "Q: x\n"];
        assert!(dropped(16, false, &texts).is_empty(), "3 + 2 + 4 + 4 + 2 = 15");
        assert_eq!(dropped(15, false, &texts), [0], "fewer than the context, not as many");
        assert_eq!(dropped(12, false, &texts), [0, 1]);
        assert_eq!(dropped(3, false, &texts), [0, 1, 2], "the rest stays");
    }

    #[test]
    fn the_last_ones_go_until_the_longest_has_room() {
        let texts = ["aaa", "bb", "cccc", "Q"];
        assert!(dropped(15, true, &texts).is_empty(), "3 + 2 + 4 + 4 + 2 = 15 fits");
        assert_eq!(dropped(14, true, &texts), [2]);
        assert_eq!(dropped(9, true, &texts), [2, 1], "3 + 2 + 3 + 2 = 10 does not");
        assert_eq!(dropped(10, true, &["aaa", "bb", "cccc", "Q: xx"]), [2, 0], "then the first ones");
        assert!(dropped(9, true, &["aaaaa", "Q"]).is_empty(), "a single one needs no room for another");
    }

    #[test]
    fn more_demonstrations_than_parts_are_refused() {
        let packing = ShotPacking { shots: 2, context_tokens: 9, answer_tokens: 1, spares_longest: false };
        let error = packing.dropped(&["a".to_owned()], |text| Ok(text.len())).unwrap_err();
        assert!(matches!(error, PromptError::NoShots { shots: 2, parts: 1 }), "{error}");
    }
}
