//! Gold passages: the rule that makes a passage of the corpus equal to one.

use serde::{Deserialize, Serialize};

/// The rule that makes a passage of the corpus equal to a gold passage of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GoldMatch {
    /// The same id.
    #[serde(rename = "id")]
    Id,
    /// The same title. If several passages have it, each of them counts as the gold one.
    #[serde(rename = "title")]
    Title,
    /// The same title and text.
    #[serde(rename = "title+text")]
    TitleAndText,
    /// Of the passages with its title, for each of its snippets the one that has the piece most like it (IIRC's gold as
    /// IRCoT prepares it): a gold passage with several snippets may be several passages.
    #[serde(rename = "snippet")]
    Snippet,
}
