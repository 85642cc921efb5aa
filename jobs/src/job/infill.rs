//! `[tune.select.generate]`: templates of instructions, with blanks for a T5 to fill in.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The mark of a blank in a template; the model fills it in.
pub(crate) const BLANK: &str = "{blank}";

/// The mark of the template's place in a frame.
pub(crate) const PLACE: &str = "{instruction}";

/// hopeval's own templates.
const TEMPLATES: &str = include_str!("templates.json");

/// Candidates from a language model: `[tune.select.generate]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InfillSettings {
    /// The encoder-decoder for filling in: T5-Base in the paper.
    pub service: String,
    /// Texts with `{blank}`s, or tables of `text` and the `position` of the instruction; draws take them in turn.
    #[serde(default = "own_templates")]
    pub templates: Vec<Template>,
    /// The model's input, with `{instruction}` in the place of the template.
    #[serde(default = "usual_frame")]
    pub frame: String,
    /// Phrases to remove from the results: they only guide the model (appendix A.2).
    #[serde(default)]
    pub drop: Vec<String>,
    /// Number of samples, over all templates.
    #[serde(default = "usual_draws")]
    pub draws: u32,
    /// Sampling draws from this number of likeliest tokens; 0 for all.
    #[serde(default = "usual_top_k")]
    pub top_k: u32,
    /// Divides the logits.
    #[serde(default = "usual_temperature")]
    pub temperature: f64,
    /// The most tokens of a sample.
    #[serde(default = "usual_max_tokens")]
    pub max_tokens: u32,
    /// Whether blanks are filled in together or one after the other.
    #[serde(default)]
    pub fill: FillOrder,
}

/// A text with blanks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a text with {blank}, or a table of `text` and `position`")]
pub enum Template {
    /// An instruction at the method's position.
    Text(String),
    /// An instruction with a position of its own.
    Placed {
        /// With blanks.
        text: String,
        /// `after` or `before`.
        position: String,
    },
}

/// The order of filling in blanks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FillOrder {
    /// All in one text, between sentinels, as a T5 is trained to write.
    #[default]
    Together,
    /// One after the other, with the earlier blanks filled in: for models without sentinels.
    InTurn,
}

/// hopeval's own templates.
pub(crate) fn own_templates() -> Vec<Template> {
    serde_json::from_str(TEMPLATES).expect("embedded templates are a list of templates; this is a bug")
}

fn usual_frame() -> String {
    format!("Instruction: {PLACE} Question:")
}

fn usual_draws() -> u32 {
    200
}

fn usual_top_k() -> u32 {
    10
}

fn usual_temperature() -> f64 {
    1.0
}

fn usual_max_tokens() -> u32 {
    32
}

impl Template {
    /// Its text with the blanks.
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Text(text) | Self::Placed { text, .. } => text,
        }
    }

    /// A value of the parameter `instructions`.
    pub(crate) fn instruction_value(&self, text: String) -> Value {
        match self {
            Self::Text(_) => Value::String(text),
            Self::Placed { position, .. } => json!([{"text": text, "position": position}]),
        }
    }
}
