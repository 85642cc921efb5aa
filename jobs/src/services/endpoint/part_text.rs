//! The text of a part of a prompt: its own, or one that many prompts share.

use hopeval_endpoint::{PromptText, SharedText};

/// The text of a part. A fragment's is shared with all other prompts.
#[derive(Clone, Debug)]
pub(super) enum PartText {
    /// The part's own.
    Own(String),
    /// A fragment's.
    Shared(SharedText),
}

impl AsRef<str> for PartText {
    fn as_ref(&self) -> &str {
        match self {
            Self::Own(text) => text,
            Self::Shared(shared) => shared.text(),
        }
    }
}

impl PartText {
    /// Its text up to a byte, which is at the beginning of a letter.
    pub(super) fn truncate(&mut self, end: usize) {
        match self {
            Self::Own(text) => text.truncate(end),
            Self::Shared(shared) if end < shared.text().len() => *self = Self::Own(shared.text()[..end].to_owned()),
            Self::Shared(_) => {}
        }
    }

    /// The text that a tokenizer left of this one. It is still shared if nothing changed.
    pub(super) fn left_of(self, left: String) -> Self {
        if left == self.as_ref() { self } else { Self::Own(left) }
    }

    pub(super) fn append_to(self, text: &mut PromptText) {
        match self {
            Self::Own(own) => text.push(own),
            Self::Shared(shared) => text.push_shared(&shared),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tokenizer decodes what it keeps, so another text may be as long.
    #[test]
    fn only_the_same_text_is_still_shared() {
        let shared = || PartText::Shared(SharedText::new("(A) B".into()));
        assert!(matches!(shared().left_of("(A) B".to_owned()), PartText::Shared(_)));
        for left in ["( a )", "(A)", ""] {
            assert!(matches!(shared().left_of(left.to_owned()), PartText::Own(own) if own == left));
        }
    }
}
