//! Gold passages: what makes a passage of the corpus equal to one.

use serde::{Deserialize, Serialize};

/// What makes a passage of the corpus equal to a gold passage of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GoldBy {
    /// The same id.
    #[serde(rename = "id")]
    Id,
    /// The same title; several passages may have it, and any of them is the gold one.
    #[serde(rename = "title")]
    Title,
    /// The same title and text.
    #[serde(rename = "title+text")]
    TitleAndText,
}
