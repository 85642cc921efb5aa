//! The parameters of `alce`.

use super::KIND;
use crate::knowledge::compression::IrrelevanceRule;
use crate::knowledge::sentences::SentenceRules;
use crate::machine::MethodError;
use crate::registry::{ParameterInfo, at_least_one};
use crate::request::{Sampling, ServiceName};
use serde::{Deserialize, Serialize};

/// The reader, by its name in ALCE and MIGRES.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ReaderVariant {
    /// The best passages.
    Vanilla,
    /// Their relevant sentences (VANILLA-s of MIGRES).
    Sentences,
    /// Summaries.
    Summ,
    /// Copied parts.
    Snippet,
    /// Several answers, and the one that its citations support best.
    Rerank,
}

/// The premise of a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum PremiseChoice {
    /// The cited documents.
    Cited,
    /// All documents.
    All,
}

/// The answer if no sentence of any is supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum UnsupportedChoice {
    /// The first one.
    First,
    /// The empty text.
    Empty,
}

/// The wording of answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ReaderTask {
    /// A short answer.
    Open,
    /// `yes` or `no`.
    YesNo,
}

/// A built-in set of demonstrations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ReaderDemonstrations {
    /// None: zero-shot.
    None,
    /// Two of the task.
    Two,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AlceParameters {
    pub(super) retriever: ServiceName,
    pub(super) reranker: ServiceName,
    #[serde(default)]
    pub(super) sentence_reranker: Option<ServiceName>,
    pub(super) generator: ServiceName,
    #[serde(default)]
    pub(super) entailer: Option<ServiceName>,
    #[serde(default = "default_variant")]
    pub(super) variant: ReaderVariant,
    #[serde(default = "default_retrieved")]
    pub(super) retrieved: u32,
    #[serde(default = "default_passages")]
    pub(super) passages: u32,
    #[serde(default = "default_rerank_separator")]
    pub(super) rerank_separator: String,
    #[serde(default = "default_threshold")]
    pub(super) threshold: f64,
    #[serde(default)]
    pub(super) glue_fragments: bool,
    #[serde(default)]
    pub(super) drop_query_sentences: bool,
    #[serde(default = "default_irrelevant")]
    pub(super) irrelevant: IrrelevanceRule,
    #[serde(default = "default_most_compressed")]
    pub(super) most_compressed: u32,
    #[serde(default = "default_summary_tokens")]
    pub(super) summary_tokens: u32,
    #[serde(default = "default_summary_temperature")]
    pub(super) summary_temperature: f64,
    #[serde(default = "default_draws")]
    pub(super) draws: u32,
    #[serde(default = "default_premise")]
    pub(super) premise: PremiseChoice,
    #[serde(default = "default_unsupported")]
    pub(super) unsupported: UnsupportedChoice,
    #[serde(default = "default_entailed_at")]
    pub(super) entailed_at: f64,
    #[serde(default = "default_most_sentences")]
    pub(super) most_sentences: u32,
    #[serde(default = "default_temperature")]
    pub(super) temperature: f64,
    #[serde(default = "default_max_tokens")]
    pub(super) max_tokens: u32,
    #[serde(default)]
    pub(super) context_tokens: Option<u32>,
    #[serde(default = "default_task")]
    pub(super) task: ReaderTask,
    #[serde(default = "default_demonstrations")]
    pub(super) demonstrations: ReaderDemonstrations,
    #[serde(default)]
    pub(super) prompt: Option<String>,
    #[serde(default)]
    pub(super) compression_prompt: Option<String>,
}

/// Functions that give defaults.
macro_rules! defaults {
    ($($name:ident: $type:ty = $value:expr;)*) => {
        $(
            fn $name() -> $type {
                $value
            }
        )*
    };
}

defaults! {
    default_variant: ReaderVariant = ReaderVariant::Vanilla;
    default_retrieved: u32 = 50;
    default_passages: u32 = 5;
    default_rerank_separator: String = " </s> ".to_owned();
    default_threshold: f64 = 3.0;
    default_irrelevant: IrrelevanceRule = IrrelevanceRule::Begins;
    default_most_compressed: u32 = 10;
    default_summary_tokens: u32 = 100;
    default_summary_temperature: f64 = 0.7;
    default_draws: u32 = 4;
    default_premise: PremiseChoice = PremiseChoice::Cited;
    default_unsupported: UnsupportedChoice = UnsupportedChoice::First;
    default_entailed_at: f64 = 0.5;
    default_most_sentences: u32 = 20;
    default_temperature: f64 = 0.5;
    default_max_tokens: u32 = 300;
    default_task: ReaderTask = ReaderTask::Open;
    default_demonstrations: ReaderDemonstrations = ReaderDemonstrations::None;
}

/// Differences of ALCE's code from its paper.
pub(super) const AS_CODE: &[(&str, &str)] =
    &[("irrelevant", "\"contains\""), ("premise", "\"all\""), ("unsupported", "\"empty\"")];

impl AlceParameters {
    pub(super) fn check_values(&self) -> Result<(), MethodError> {
        let counts = [
            ("retrieved", self.retrieved),
            ("passages", self.passages),
            ("most_compressed", self.most_compressed),
            ("summary_tokens", self.summary_tokens),
            ("draws", self.draws),
            ("most_sentences", self.most_sentences),
            ("max_tokens", self.max_tokens),
        ];
        for (name, value) in counts {
            at_least_one(KIND, name, value)?;
        }
        let wrong = |parameter, found: String, allowed| MethodError::Value { kind: KIND, parameter, found, allowed };
        for (name, value) in [("temperature", self.temperature), ("summary_temperature", self.summary_temperature)] {
            if !(value.is_finite() && value >= 0.0) {
                return Err(wrong(name, value.to_string(), "must be 0 (greedy) or larger"));
            }
        }
        if !self.threshold.is_finite() {
            return Err(wrong("threshold", self.threshold.to_string(), "must be a finite number"));
        }
        if !(0.0..=1.0).contains(&self.entailed_at) {
            return Err(wrong("entailed_at", self.entailed_at.to_string(), "must be a probability"));
        }
        if self.variant == ReaderVariant::Rerank && self.entailer.is_none() {
            return Err(wrong("entailer", "nothing".to_owned(), "must be named if `variant` is \"rerank\""));
        }
        if self.most_draws() > 1 && self.temperature == 0.0 {
            return Err(wrong("temperature", "0".to_owned(), "must be larger than 0 for several draws"));
        }
        Ok(())
    }

    /// Answers that are written.
    pub(super) fn most_draws(&self) -> u32 {
        if self.variant == ReaderVariant::Rerank { self.draws } else { 1 }
    }

    /// The service that scores sentences.
    pub(super) fn sentence_scorer(&self) -> &ServiceName {
        self.sentence_reranker.as_ref().unwrap_or(&self.reranker)
    }

    pub(super) fn sentence_rules(&self) -> SentenceRules {
        SentenceRules { glue_fragments: self.glue_fragments, drop_query_sentences: self.drop_query_sentences }
    }
}

/// Greedy at temperature 0.
pub(super) fn token_sampling(temperature: f64) -> Sampling {
    if temperature > 0.0 { Sampling::sample(temperature, 1.0, 0) } else { Sampling::Greedy }
}

/// A row of the documentation.
const fn row(
    name: &'static str,
    values: &'static str,
    default: Option<&'static str>,
    documentation: &'static str,
) -> ParameterInfo {
    ParameterInfo { name, values, default, documentation }
}

pub(super) const DOCUMENTATION: &[ParameterInfo] = &[
    row("retriever", "name of a service", None, "Finds passages for the question."),
    row("reranker", "name of a service", None, "Scores passages for the question: a cross-encoder."),
    row(
        "sentence_reranker",
        "name of a service, or nothing for `reranker`",
        Some("null"),
        "With \"sentences\": scores sentences.",
    ),
    row("generator", "name of a service", None, "Writes the answer, and short texts of passages."),
    row("entailer", "name of a service, or nothing", Some("null"), "With \"rerank\": checks sentences of answers."),
    row(
        "variant",
        "\"vanilla\", \"sentences\", \"summ\", \"snippet\" or \"rerank\"",
        Some("\"vanilla\""),
        "The reader: of the best passages, their sentences, summaries or copied parts, or the best of several answers.",
    ),
    row("retrieved", "integer, at least 1", Some("50"), "Passages retrieved."),
    row("passages", "integer, at least 1", Some("5"), "Documents in the prompt."),
    row("rerank_separator", "text", Some("\" </s> \""), "Stands between a passage's title and text for `reranker`."),
    row("threshold", "number", Some("3.0"), "With \"sentences\": the least relevance of a sentence."),
    row(
        "glue_fragments",
        "true or false",
        Some("false"),
        "Whether a sentence that does not begin with a capital letter belongs to the one before it.",
    ),
    row(
        "drop_query_sentences",
        "true or false",
        Some("false"),
        "Whether sentences that stand in the question are left out.",
    ),
    row(
        "irrelevant",
        "\"begins\" or \"contains\"",
        Some("\"begins\""),
        "The place of the word \"irrelevant\" in a reply about a passage that does not help; the code looks anywhere.",
    ),
    row(
        "most_compressed",
        "integer, at least 1",
        Some("10"),
        "With \"summ\" and \"snippet\": the most passages asked about until `passages` of them help.",
    ),
    row("summary_tokens", "integer, at least 1", Some("100"), "Most tokens of a summary or of copied parts."),
    row("summary_temperature", "number, 0 for greedy", Some("0.7"), "The generator's for them."),
    row("draws", "integer, at least 1", Some("4"), "With \"rerank\": answers written."),
    row(
        "premise",
        "\"cited\" or \"all\"",
        Some("\"cited\""),
        "With \"rerank\": the documents that must entail a sentence; in the code all, if it cites any.",
    ),
    row(
        "unsupported",
        "\"first\" or \"empty\"",
        Some("\"first\""),
        "With \"rerank\": the answer if no sentence is entailed; in the code the empty text.",
    ),
    row("entailed_at", "probability", Some("0.5"), "The least probability that counts as entailment."),
    row("most_sentences", "integer, at least 1", Some("20"), "With \"rerank\": sentences of an answer that count."),
    row("temperature", "number, 0 for greedy", Some("0.5"), "The generator's for answers."),
    row("max_tokens", "integer, at least 1", Some("300"), "Most tokens of an answer."),
    row(
        "context_tokens",
        "integer, or nothing for the model's own limit",
        Some("null"),
        "Most tokens of the prompt; documents are cut, the last one first.",
    ),
    row("task", "\"open\" or \"yes_no\"", Some("\"open\""), "The wording: a short answer, or yes or no (StrategyQA)."),
    row("demonstrations", "\"none\" or \"two\"", Some("\"none\""), "Two examples of the task, or none, as in MIGRES."),
    row(
        "prompt",
        "text with {demonstrations}, {question} and {documents}, or nothing for the project's own",
        Some("null"),
        "Asks for the answer with citations such as [1].",
    ),
    row(
        "compression_prompt",
        "text with {passage} and {question}, or nothing for the project's own",
        Some("null"),
        "Asks for a summary or for copied parts.",
    ),
];
