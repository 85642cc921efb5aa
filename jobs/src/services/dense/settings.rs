//! The settings of a dense index: its encoder, and the stored form of passages and vectors.

use super::punctuation::PassagePunctuation;
use hopeval_index::VectorDtype;
use hopeval_methods::PassageForm;
use serde::{Deserialize, Serialize};

/// The keys of a `kind = "dense"` service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DenseSettings {
    /// The service of kind `lm` for embedding queries and passages.
    pub encoder: String,
    /// The stored type of vectors.
    #[serde(default)]
    pub dtype: VectorDtype,
    /// The embedded fields of a passage.
    #[serde(default)]
    pub fields: DenseFields,
    /// The separator of title and text.
    #[serde(default = "space")]
    pub between: String,
    /// The punctuation of what is embedded of a passage.
    #[serde(default, skip_serializing_if = "PassagePunctuation::is_default")]
    pub punctuation: PassagePunctuation,
}

/// The embedded fields of a passage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum DenseFields {
    /// Title and text, as in Contriever and DPR.
    #[default]
    #[serde(rename = "title+text")]
    TitleAndText,
    /// The title twice and the text, as EfficientRAG's authors embed: their texts already begin with the titles.
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
    /// The written form of a passage for the encoder.
    pub(super) fn passage_form(&self) -> PassageForm {
        match self.fields {
            DenseFields::TitleAndText => PassageForm::TitleAndText { between: self.between.clone() },
            DenseFields::TitleTwice => PassageForm::TitleTwice { between: self.between.clone() },
            DenseFields::Text => PassageForm::Text,
        }
    }

    /// The written form as JSON: with corpus and encoder it determines the file.
    pub(super) fn form_json(&self) -> String {
        let written = |json: Result<String, _>| json.expect("plain data can be written as JSON; this is a bug");
        let form = written(serde_json::to_string(&self.passage_form()));
        match self.punctuation {
            PassagePunctuation::AsWritten => form,
            // Added only where it is set, so that other indexes keep their names.
            other => form + &written(serde_json::to_string(&other)),
        }
    }
}
