//! Passages in prompts, one after the other, as the reading baselines of EfficientRAG show them.

use crate::prompt::{LengthLimit, OverflowRule, PassageForm};
use crate::request::PassageId;
use crate::template::PromptBuilder;
use serde::{Deserialize, Serialize};

/// The shown part of a chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ChunkForm {
    /// Title and text.
    #[default]
    #[serde(rename = "title+text")]
    TitleAndText,
    /// The text alone.
    #[serde(rename = "text")]
    Text,
}

impl ChunkForm {
    /// The form in prompts, with `separator` between title and text.
    pub(crate) fn passage_form(self, separator: &str) -> PassageForm {
        match self {
            Self::TitleAndText => PassageForm::TitleAndText { between: separator.to_owned() },
            Self::Text => PassageForm::Text,
        }
    }
}

/// Lines of passages.
#[derive(Clone, Debug)]
pub(crate) struct PassageLines {
    /// The form of a passage.
    pub(crate) form: PassageForm,
    /// Most tokens of the prompt; `None` for the model's own limit.
    pub(crate) context_tokens: Option<u32>,
}

impl PassageLines {
    /// Appends the passages with line breaks between them. In too long a prompt the last passage is cut first:
    /// instruction and question stay.
    pub(crate) fn append_to(&self, builder: &mut PromptBuilder, passages: &[PassageId]) {
        builder.budget(self.context_tokens);
        let mut parts = Vec::with_capacity(passages.len());
        for (index, &passage) in passages.iter().enumerate() {
            if index > 0 {
                builder.text("\n");
            }
            parts.push(builder.passage(passage, self.form.clone(), None));
        }
        for part in parts.into_iter().rev() {
            builder.overflow(OverflowRule::Cut { part, to: LengthLimit::Tokens(0) });
        }
    }
}
