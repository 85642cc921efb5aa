//! SUMM and SNIPPET of ALCE (Gao et al., 2023): a language model makes a short text of a passage for a question.

use crate::template::{PromptTemplate, TemplateMistake};
use serde::{Deserialize, Serialize};

/// The project's own wording of a summary's prompt.
pub(crate) const SUMMARY: &str = include_str!("../../prompts/alce/summary.txt").trim_ascii_end();
/// The project's own wording of a snippet's prompt.
pub(crate) const SNIPPET: &str = include_str!("../../prompts/alce/snippet.txt").trim_ascii_end();

const FIELDS: [&str; 2] = ["passage", "question"];

/// The reply that means that a passage does not help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum IrrelevanceRule {
    /// It begins with the word "irrelevant", as it is asked for.
    Begins,
    /// It has the word anywhere, as in ALCE's code.
    Contains,
}

/// Cuts the prompt of a compression at its fields.
///
/// # Errors
/// A field that is missing or there twice.
pub(crate) fn compression_template(text: &str) -> Result<PromptTemplate, TemplateMistake> {
    PromptTemplate::parse(text, &FIELDS)
}

/// The short text; `None` if the model says that the passage does not help, or nothing.
pub(crate) fn compressed_text(reply: &str, rule: IrrelevanceRule) -> Option<String> {
    let text = reply.trim();
    let is_irrelevant = match rule {
        IrrelevanceRule::Begins => text.get(..10).is_some_and(|first| first.eq_ignore_ascii_case("irrelevant")),
        IrrelevanceRule::Contains => text.contains("irrelevant") || text.contains("Irrelevant"),
    };
    (!text.is_empty() && !is_irrelevant).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_says_that_a_passage_does_not_help() {
        let read =
            |reply| [IrrelevanceRule::Begins, IrrelevanceRule::Contains].map(|rule| compressed_text(reply, rule));
        assert_eq!(read(" Irrelevant.\n"), [None, None]);
        assert_eq!(read("A film. The rest is irrelevant."), [Some("A film. The rest is irrelevant.".to_owned()), None]);
        assert_eq!(read(" "), [None, None]);
        assert_eq!(read("A film."), [Some("A film.".to_owned()), Some("A film.".to_owned())]);
    }

    #[test]
    fn the_projects_own_prompts_have_both_fields() {
        assert!(compression_template(SUMMARY).is_ok() && compression_template(SNIPPET).is_ok());
    }
}
