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

    /// What is left of it, where a text is only cut at its right: equal lengths mean equal texts.
    pub(super) fn left_of(self, left: String) -> Self {
        if left.len() == self.as_ref().len() { self } else { Self::Own(left) }
    }

    pub(super) fn append_to(self, text: &mut PromptText) {
        match self {
            Self::Own(own) => text.push(own),
            Self::Shared(shared) => text.push_shared(&shared),
        }
    }
}
