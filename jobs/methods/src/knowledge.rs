//! Knowledge for a prompt: passages found for queries, whole or shortened, and texts that a model wrote instead.
//!
//! `migres` and `alce` choose passages by a cross-encoder's relevance ([`selection`]), keep sentences of them
//! ([`sentences`]) or what a language model makes of them ([`compression`]), and show the rest with numbers.

pub(crate) mod compression;
pub(crate) mod selection;
pub(crate) mod sentences;

use crate::prompt::{Content, PassageForm, Prompt};
use crate::request::PassageId;
use crate::response::PassageText;
use crate::template::PromptBuilder;

/// A piece of knowledge, as a prompt shows it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct KnowledgePiece {
    /// Its passage; `None` for a text that a model wrote.
    pub(crate) passage: Option<PassageId>,
    /// The title to show, if any.
    pub(crate) title: Option<String>,
    /// The text to show.
    pub(crate) text: String,
    /// Whether the text is the passage's own, all of it.
    pub(crate) is_whole: bool,
    /// The query that it was found for, by its position in the round.
    pub(crate) query: usize,
}

/// The texts around a title.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TitleFrame {
    /// Before the title.
    pub(crate) before: &'static str,
    /// Between title and text.
    pub(crate) between: &'static str,
}

impl KnowledgePiece {
    /// A passage as the corpus has it.
    pub(crate) fn whole(passage: &PassageText, query: usize) -> Self {
        Self {
            passage: Some(passage.passage),
            title: Some(passage.title.clone()),
            text: passage.text.clone(),
            is_whole: true,
            query,
        }
    }

    /// The passage with a text made of it. Where that is all of its text, it is whole: a request about it is then the
    /// same as one about the passage.
    pub(crate) fn shortened(passage: &PassageText, query: usize, text: String) -> Self {
        Self { is_whole: text == passage.text, text, ..Self::whole(passage, query) }
    }

    /// Appends it as a part of its own; returns the part's index. A whole passage is looked up by the service.
    pub(crate) fn append_to(&self, builder: &mut PromptBuilder, frame: TitleFrame) -> u32 {
        let TitleFrame { before, between } = frame;
        match (self.passage.filter(|_| self.is_whole), &self.title) {
            (Some(passage), _) => {
                let form = PassageForm::Labelled { before: before.to_owned(), between: between.to_owned() };
                builder.passage(passage, form, None)
            }
            (None, Some(title)) => builder.separate_text(format!("{before}{title}{between}{}", self.text), None),
            (None, None) => builder.separate_text(self.text.as_str(), None),
        }
    }

    /// It alone, as the premise of an entailment.
    pub(crate) fn premise(&self, frame: TitleFrame) -> Prompt {
        let mut builder = PromptBuilder::new();
        self.append_to(&mut builder, frame);
        builder.finish()
    }
}

/// A passage as an item of a cross-encoder.
pub(crate) fn rerank_item(passage: &PassageText, separator: &str) -> Content {
    Content::Passage { passage: passage.passage, form: PassageForm::TitleAndText { between: separator.to_owned() } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_a_passage_is_the_passage() {
        let passage = PassageText::new(PassageId(4), "Corin", "It is a city.");
        let frame = TitleFrame { before: "", between: ": " };
        let whole = KnowledgePiece::whole(&passage, 0);
        assert_eq!(KnowledgePiece::shortened(&passage, 0, passage.text.clone()), whole);
        let part = KnowledgePiece::shortened(&passage, 0, "It is.".to_owned());
        assert_ne!(part.premise(frame), whole.premise(frame));
        assert!(!part.is_whole);
    }
}
