//! The parameters of `fsm_baseline`, and its named prompts.

use crate::methods::fsm::paragraphs::TitleMatch;
use crate::methods::fsm::parameters::{
    default_final_words, default_reading, default_setting, default_titles, default_true,
};
use crate::methods::fsm::replies::ReplyReading;
use crate::methods::fsm::sampling::{self, SamplingParameters};
use crate::registry::ParameterInfo;
use crate::request::ServiceName;
use serde::{Deserialize, Serialize};

/// A prompt of the paper's appendix B.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum BaselinePrompt {
    Normal,
    Cot,
    SpCot,
    React,
}

macro_rules! own {
    ($file:literal) => {
        include_str!(concat!("../../../prompts/fsm/", $file, ".txt")).trim_ascii_end()
    };
}

impl BaselinePrompt {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Cot => "cot",
            Self::SpCot => "sp_cot",
            Self::React => "react",
        }
    }

    /// The project's own words.
    pub(super) fn text(self, support: bool) -> &'static str {
        match (self, support) {
            (Self::Normal, false) => own!("normal"),
            (Self::Normal, true) => own!("normal_support"),
            (Self::Cot, false) => own!("cot"),
            (Self::Cot, true) => own!("cot_support"),
            (Self::SpCot, false) => own!("sp_cot"),
            (Self::SpCot, true) => own!("sp_cot_support"),
            (Self::React, false) => own!("react"),
            (Self::React, true) => own!("react_support"),
        }
    }
}

/// The fate of a text that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum UnreadableText {
    /// The question fails.
    Fail,
    /// It is the answer, as in the paper's figure 4.
    Answer,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BaselineParameters {
    pub(super) generator: ServiceName,
    pub(super) prompt: BaselinePrompt,
    #[serde(default = "ServiceName::corpus")]
    pub(super) passages: ServiceName,
    #[serde(default = "default_setting")]
    pub(super) setting: u32,
    #[serde(default)]
    pub(super) text: Option<String>,
    #[serde(default = "default_final_words")]
    pub(super) final_words: u32,
    #[serde(default = "default_reading")]
    pub(super) reading: ReplyReading,
    #[serde(default = "default_unreadable")]
    pub(super) unreadable: UnreadableText,
    #[serde(default = "default_titles")]
    pub(super) titles: TitleMatch,
    #[serde(default = "default_true")]
    pub(super) sentence_numbers: bool,
    #[serde(default = "sampling::default_temperature")]
    pub(super) temperature: f64,
    #[serde(default = "sampling::default_top_p")]
    pub(super) top_p: f64,
    #[serde(default = "sampling::default_repetition_penalty")]
    pub(super) repetition_penalty: f64,
    #[serde(default = "sampling::default_max_tokens")]
    pub(super) max_tokens: u32,
    #[serde(default)]
    pub(super) json: bool,
    #[serde(default)]
    pub(super) draw: u32,
}

/// Figure 4 shows texts that were not JSON as answers.
pub(super) const AS_CODE: &[(&str, &str)] = &[("reading", "\"strict\""), ("unreadable", "\"answer\"")];

impl BaselineParameters {
    /// Whether supporting facts and evidences are asked for.
    pub(super) fn wants_support(&self) -> bool {
        self.setting == 2
    }

    pub(super) fn sampling(&self) -> SamplingParameters {
        SamplingParameters {
            temperature: self.temperature,
            top_p: self.top_p,
            repetition_penalty: self.repetition_penalty,
            max_tokens: self.max_tokens,
            json: self.json,
        }
    }
}

fn default_unreadable() -> UnreadableText {
    UnreadableText::Fail
}

/// A parameter's documentation.
const fn info(
    name: &'static str,
    values: &'static str,
    default: Option<&'static str>,
    documentation: &'static str,
) -> ParameterInfo {
    ParameterInfo { name, values, default, documentation }
}

pub(super) const DOCUMENTATION: &[ParameterInfo] = &[
    info("generator", "name of a service", None, "Writes the answer."),
    info("prompt", "\"normal\", \"cot\", \"sp_cot\" or \"react\"", None, "The baseline."),
    info("passages", "name of a service", Some("\"corpus\""), "Gives the texts of the question's paragraphs."),
    info("setting", "integer, at least 1 and at most 2", Some("1"), "1: answers alone; 2: also support and evidences."),
    info(
        "text",
        "text with {paragraphs} and {question}, or nothing for the project's own",
        Some("null"),
        "The prompt; {words} in it is `final_words`.",
    ),
    info(
        "final_words",
        "integer, at least 1",
        Some("10"),
        "Most words of the answer, as the prompt of setting 2 says.",
    ),
    info(
        "reading",
        "\"tolerant\" or \"strict\"",
        Some("\"tolerant\""),
        "Texts that can be read with repairs are read, or count as unreadable.",
    ),
    info("unreadable", "\"fail\" or \"answer\"", Some("\"fail\""), "An unreadable text fails, or is the answer."),
    info("titles", "\"exact\" or \"folded\"", Some("\"exact\""), "Comparison of the titles that name support."),
    info("sentence_numbers", "true or false", Some("true"), "Whether sentences stand with their index in setting 2."),
    info("temperature", "number, 0 for greedy", Some("0.8"), "The generator's; greedy texts have no penalty."),
    info("top_p", "number above 0, at most 1", Some("0.8"), "The generator's nucleus."),
    info(
        "repetition_penalty",
        "number above 0, 1 for none",
        Some("1.1"),
        "The generator's penalty of repeated tokens.",
    ),
    info("max_tokens", "integer, at least 1", Some("500"), "Most tokens of the text."),
    info("json", "true or false", Some("false"), "Whether the service must promise a JSON object."),
    info("draw", "integer, at least 0", Some("0"), "Numbers replicates: another draw has other samples."),
];
