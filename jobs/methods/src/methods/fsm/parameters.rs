//! The parameters of `fsm`.

use super::KIND;
use super::paragraphs::TitleMatch;
use super::replies::ReplyReading;
use super::sampling::{self, SamplingParameters};
use crate::machine::MethodError;
use crate::registry::{ParameterInfo, at_least_one};
use crate::request::ServiceName;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// FSM1, or FSM2 with its final review.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FsmVariant {
    Fsm1,
    Fsm2,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FsmParameters {
    pub(super) generator: ServiceName,
    #[serde(default = "ServiceName::corpus")]
    pub(super) passages: ServiceName,
    #[serde(default = "default_variant")]
    pub(super) variant: FsmVariant,
    #[serde(default = "default_setting")]
    pub(super) setting: u32,
    #[serde(default = "default_most_rounds")]
    pub(super) most_rounds: u32,
    #[serde(default = "default_repairs")]
    pub(super) repairs: u32,
    #[serde(default = "default_backtracks")]
    pub(super) backtracks: u32,
    #[serde(default = "default_true")]
    pub(super) judge: bool,
    #[serde(default = "default_true")]
    pub(super) check_answers: bool,
    #[serde(default = "default_answer_words")]
    pub(super) answer_words: u32,
    #[serde(default = "default_true")]
    pub(super) limit_words: bool,
    #[serde(default = "default_final_words")]
    pub(super) final_words: u32,
    #[serde(default = "default_history")]
    pub(super) history: u32,
    #[serde(default = "default_reading")]
    pub(super) reading: ReplyReading,
    #[serde(default = "default_titles")]
    pub(super) titles: TitleMatch,
    #[serde(default = "default_true")]
    pub(super) sentence_numbers: bool,
    #[serde(default = "default_true")]
    pub(super) keep_first_answer: bool,
    #[serde(default)]
    pub(super) prompts: BTreeMap<String, String>,
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

/// Where the authors' code differs: its client has the last four messages commented out, reads JSON alone, prints the
/// sentences of FSM2's paragraphs joined, and gives up on an answer that does not parse.
pub(super) const AS_CODE: &[(&str, &str)] = &[
    ("history", "0"),
    ("reading", "\"strict\""),
    ("sentence_numbers", "false"),
    ("keep_first_answer", "false"),
    ("backtracks", "0"),
];

impl FsmParameters {
    pub(super) fn check(&self) -> Result<(), MethodError> {
        for (name, value) in
            [("most_rounds", self.most_rounds), ("answer_words", self.answer_words), ("final_words", self.final_words)]
        {
            at_least_one(KIND, name, value)?;
        }
        check_setting(KIND, self.setting)?;
        for (name, value) in [("repairs", self.repairs), ("backtracks", self.backtracks)] {
            if value > 20 {
                let found = value.to_string();
                return Err(MethodError::Value { kind: KIND, parameter: name, found, allowed: "must be at most 20" });
            }
        }
        self.sampling().check(KIND)
    }

    /// Whether supporting facts and evidences are asked for.
    pub(super) fn wants_support(&self) -> bool {
        self.setting == 2
    }

    /// Times that a step may be drawn again. Greedy draws would all be the same.
    pub(super) fn most_backtracks(&self) -> u32 {
        if self.temperature > 0.0 { self.backtracks } else { 0 }
    }

    /// The draw after so many backtracks. Replicates share none.
    pub(super) fn draw_after(&self, backtracks: u32) -> u32 {
        self.draw.saturating_mul(self.most_backtracks() + 1).saturating_add(backtracks)
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

/// Refuses a setting other than 1 and 2.
pub(crate) fn check_setting(kind: &'static str, setting: u32) -> Result<(), MethodError> {
    if matches!(setting, 1 | 2) {
        return Ok(());
    }
    let found = setting.to_string();
    Err(MethodError::Value { kind, parameter: "setting", found, allowed: "must be 1 or 2" })
}

fn default_variant() -> FsmVariant {
    FsmVariant::Fsm2
}

pub(crate) fn default_setting() -> u32 {
    1
}

fn default_most_rounds() -> u32 {
    4
}

fn default_repairs() -> u32 {
    1
}

fn default_backtracks() -> u32 {
    1
}

fn default_answer_words() -> u32 {
    5
}

pub(crate) fn default_final_words() -> u32 {
    10
}

fn default_history() -> u32 {
    4
}

pub(crate) fn default_reading() -> ReplyReading {
    ReplyReading::Tolerant
}

pub(crate) fn default_titles() -> TitleMatch {
    TitleMatch::Exact
}

pub(crate) fn default_true() -> bool {
    true
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
    info("generator", "name of a service", None, "Writes every text."),
    info("passages", "name of a service", Some("\"corpus\""), "Gives the texts of the question's paragraphs."),
    info("variant", "\"fsm2\" or \"fsm1\"", Some("\"fsm2\""), "With or without the final review."),
    info("setting", "integer, at least 1 and at most 2", Some("1"), "1: answers alone; 2: also support and evidences."),
    info("most_rounds", "integer, at least 1", Some("4"), "Most decompositions of a question; the paper has no limit."),
    info("repairs", "integer, at least 0", Some("1"), "Times that the model may rewrite a text that breaks its form."),
    info("backtracks", "integer, at least 0", Some("1"), "Times that a question's round, or review, is drawn again."),
    info("judge", "true or false", Some("true"), "Whether to compare the sub-question with its question."),
    info("check_answers", "true or false", Some("true"), "Whether compound answers are taken apart (section 2.2)."),
    info("answer_words", "integer, at least 1", Some("5"), "Most words of a sub-answer, as its prompt says."),
    info("limit_words", "true or false", Some("true"), "Whether a longer sub-answer breaks its form."),
    info("final_words", "integer, at least 1", Some("10"), "Most words of the answer, as the review's prompt says."),
    info(
        "history",
        "integer, at least 0",
        Some("4"),
        "Earlier messages that each prompt but the review's begins with.",
    ),
    info(
        "reading",
        "\"tolerant\" or \"strict\"",
        Some("\"tolerant\""),
        "Texts that can be read with repairs are read, or break their form.",
    ),
    info("titles", "\"exact\" or \"folded\"", Some("\"exact\""), "Comparison of the titles that name support."),
    info("sentence_numbers", "true or false", Some("true"), "Whether sentences stand with their index in setting 2."),
    info(
        "keep_first_answer",
        "true or false",
        Some("true"),
        "Whether the last sub-answer is the answer where the review cannot be read; else the question fails.",
    ),
    info("prompts", "table of texts by step", Some("{}"), "Prompts in place of the project's own."),
    info("temperature", "number, 0 for greedy", Some("0.8"), "The generator's; greedy texts have no penalty."),
    info("top_p", "number above 0, at most 1", Some("0.8"), "The generator's nucleus."),
    info(
        "repetition_penalty",
        "number above 0, 1 for none",
        Some("1.1"),
        "The generator's penalty of repeated tokens.",
    ),
    info("max_tokens", "integer, at least 1", Some("500"), "Most tokens of a text."),
    info("json", "true or false", Some("false"), "Whether the service must promise JSON objects."),
    info("draw", "integer, at least 0", Some("0"), "Numbers replicates: another draw has other samples."),
];
