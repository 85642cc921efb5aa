//! The parameters of `yes_no`.

use crate::machine::{ContextMode, JudgingRule};
use crate::registry::ParameterInfo;
use crate::request::ServiceName;
use crate::sampling::TemperatureChoice;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct YesNoParameters {
    pub(super) generator: ServiceName,
    pub(super) rule: JudgingRule,
    /// The judged configuration.
    pub(super) configuration: String,
    /// The judged configuration's.
    pub(super) context_mode: ContextMode,
    #[serde(default)]
    pub(super) open_domain: bool,
    #[serde(default)]
    pub(super) prediction: PredictionForm,
    #[serde(default)]
    pub(super) answers: AnswersForm,
    #[serde(default)]
    pub(super) system: Option<String>,
    /// Filled in by the rule.
    #[serde(default)]
    pub(super) prompt: Option<String>,
    /// Filled in by the rule.
    #[serde(default)]
    pub(super) reply: Option<ReplyForm>,
    #[serde(default = "default_max_tokens")]
    pub(super) max_tokens: u32,
    #[serde(default)]
    pub(super) temperature: TemperatureChoice,
    #[serde(default = "default_attempts")]
    pub(super) attempts: u32,
    #[serde(default)]
    pub(super) draw: u32,
}

/// The prediction in the prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum PredictionForm {
    #[default]
    AsGiven,
    /// As MIGRES's script normalises it for its exact match.
    Normalized,
}

/// The gold answers in the prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum AnswersForm {
    /// The main one alone.
    #[default]
    First,
    /// All of them, with a word between them.
    All,
    /// All of them as a list in Python, as MIGRES's script prints them.
    PythonList,
}

/// The form of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ReplyForm {
    /// A text with one of the two words.
    Word,
    /// A JSON object with the word under `response`.
    Json,
}

macro_rules! own {
    ($file:literal) => {
        include_str!(concat!("../../../prompts/judges/", $file, ".txt")).trim_ascii_end()
    };
}

/// The project's own prompt of a rule, and the form of its replies.
pub(super) fn own_prompt(rule: JudgingRule) -> (&'static str, ReplyForm) {
    match rule {
        JudgingRule::Migres => (own!("migres"), ReplyForm::Word),
        JudgingRule::Efficientrag => (own!("efficientrag"), ReplyForm::Json),
    }
}

fn default_max_tokens() -> u32 {
    32
}

fn default_attempts() -> u32 {
    3
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
    info("generator", "name of a service", None, "The judging model."),
    info("rule", "\"migres\" or \"efficientrag\"", None, "The protocol: its prompt, and how the word counts."),
    info("configuration", "name of a configuration", None, "Filled in: the judged configuration."),
    info(
        "context_mode",
        "\"given\", \"oracle\", \"mixed\", \"open\" or \"closed\"",
        None,
        "Filled in: the judged configuration's.",
    ),
    info(
        "open_domain",
        "true or false",
        Some("false"),
        "Under MIGRES's rule: an answer that contains a gold answer is right.",
    ),
    info(
        "prediction",
        "\"as_given\" or \"normalized\"",
        Some("\"as_given\""),
        "The prediction as it is, or, as MIGRES's code, normalised.",
    ),
    info(
        "answers",
        "\"first\", \"all\" or \"python_list\"",
        Some("\"first\""),
        "The gold answers shown; MIGRES's code shows a list in Python.",
    ),
    info(
        "system",
        "text, or nothing",
        Some("null"),
        "The system's message; the code of MIGRES has one, that of EfficientRAG `You are a helpful assistant.`.",
    ),
    info(
        "prompt",
        "text with {question}, {prediction} and {answers}, or nothing for the project's own of the rule",
        Some("null"),
        "Asks for yes or no.",
    ),
    info(
        "reply",
        "\"word\" or \"json\", or nothing for that of the rule",
        Some("null"),
        "A text with one of the words, or JSON with the key \"response\".",
    ),
    info("max_tokens", "integer, at least 1", Some("32"), "Most tokens that the model writes."),
    info("temperature", "number, 0 for greedy, or \"server\"", Some("0.0"), "The model's."),
    info(
        "attempts",
        "integer, at least 1",
        Some("3"),
        "Replies drawn until one can be read; a greedy one is drawn once.",
    ),
    info("draw", "integer, at least 0", Some("0"), "Numbers replicates: another draw has other samples."),
];
