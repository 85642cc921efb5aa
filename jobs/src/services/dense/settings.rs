//! The settings of a dense index: its encoder, and how passages and vectors are written down.

use hopeval_index::Dtype;
use hopeval_methods::PassageForm;
use serde::{Deserialize, Serialize};

/// The keys of a `kind = "dense"` service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DenseSettings {
    /// The service of kind `lm` that makes vectors of queries and passages.
    pub encoder: String,
    /// How vectors are stored.
    #[serde(default)]
    pub dtype: Dtype,
    /// The fields of a passage that are embedded.
    #[serde(default)]
    pub fields: DenseFields,
    /// The separator of title and text.
    #[serde(default = "space")]
    pub between: String,
}

/// The fields of a passage that are embedded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum DenseFields {
    /// Title and text, as Contriever and DPR have it.
    #[default]
    #[serde(rename = "title+text")]
    TitleAndText,
    /// The title twice, and the text: what EfficientRAG's authors embed, whose texts begin with their titles already.
    #[serde(rename = "title+title+text")]
    TitleTwice,
    /// The text alone.
    #[serde(rename = "text")]
    Text,
}

fn space() -> String {
    " ".to_owned()
}

impl DenseSettings {
    /// How a passage is written out for the encoder.
    pub(super) fn form(&self) -> PassageForm {
        match self.fields {
            DenseFields::TitleAndText => PassageForm::TitleAndText { between: self.between.clone() },
            DenseFields::TitleTwice => PassageForm::TitleTwice { between: self.between.clone() },
            DenseFields::Text => PassageForm::Text,
        }
    }

    /// All that shapes the file, beside corpus and encoder.
    pub(super) fn written(&self) -> String {
        serde_json::to_string(&self.form()).expect("plain data can be written as JSON; this is a bug")
    }
}
