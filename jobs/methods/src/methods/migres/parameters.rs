//! The parameters of `migres`, and their check.

use super::KIND;
use super::choices::{
    AnswerTask, BarrenEnd, CitationList, DemonstrationSet, ForwardMoment, ForwardQueries, ForwardTitle, KnowledgeForm,
    LeafQuestion, QueryHistory, ReplyParser, SamplingChoice,
};
use crate::knowledge::compression::IrrelevanceRule;
use crate::knowledge::selection::ScoreRule;
use crate::knowledge::sentences::SentenceRules;
use crate::machine::MethodError;
use crate::registry::at_least_one;
use crate::request::{Sampling, SamplingPenalties, ServiceName};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MigresParameters {
    pub(super) retriever: ServiceName,
    #[serde(default)]
    pub(super) mixture: Option<ServiceName>,
    pub(super) reranker: ServiceName,
    #[serde(default)]
    pub(super) sentence_reranker: Option<ServiceName>,
    pub(super) generator: ServiceName,
    #[serde(default)]
    pub(super) entailer: Option<ServiceName>,
    #[serde(default = "number::<50>")]
    pub(super) retrieved: u32,
    #[serde(default = "number::<50>")]
    pub(super) mixture_retrieved: u32,
    #[serde(default = "number::<50>")]
    pub(super) retrieved_in_mixture: u32,
    #[serde(default)]
    pub(super) retry_prefix: String,
    #[serde(default = "default_threshold")]
    pub(super) threshold: f64,
    #[serde(default = "number::<5>")]
    pub(super) passages: u32,
    #[serde(default = "default_rerank_separator")]
    pub(super) rerank_separator: String,
    #[serde(default = "default_passage_score")]
    pub(super) passage_score: ScoreRule,
    #[serde(default = "default_knowledge")]
    pub(super) knowledge: KnowledgeForm,
    #[serde(default)]
    pub(super) glue_fragments: bool,
    #[serde(default)]
    pub(super) drop_query_sentences: bool,
    #[serde(default = "default_irrelevant")]
    pub(super) irrelevant: IrrelevanceRule,
    #[serde(default = "number::<10>")]
    pub(super) most_compressed: u32,
    #[serde(default = "yes")]
    pub(super) forward: bool,
    #[serde(default = "default_forward_when")]
    pub(super) forward_when: ForwardMoment,
    #[serde(default = "default_forward_queries")]
    pub(super) forward_queries: ForwardQueries,
    #[serde(default = "default_forward_title")]
    pub(super) forward_title: ForwardTitle,
    #[serde(default)]
    pub(super) refused_words: Vec<String>,
    #[serde(default = "default_leaf_question")]
    pub(super) leaf_question: LeafQuestion,
    #[serde(default = "default_citations")]
    pub(super) citations: CitationList,
    #[serde(default = "number::<20>")]
    pub(super) most_infos: u32,
    #[serde(default = "default_entailed_at")]
    pub(super) entailed_at: f64,
    #[serde(default = "number::<2>")]
    pub(super) most_shown: u32,
    #[serde(default)]
    pub(super) shortest_passage: u32,
    #[serde(default = "default_history")]
    pub(super) history: QueryHistory,
    #[serde(default = "number::<5>")]
    pub(super) iterations: u32,
    #[serde(default = "number::<3>")]
    pub(super) most_queries: u32,
    #[serde(default)]
    pub(super) shortest_query: u32,
    #[serde(default = "number::<1>")]
    pub(super) shortest_missing: u32,
    #[serde(default)]
    pub(super) skip_main: bool,
    #[serde(default = "default_barren_end")]
    pub(super) barren_end: BarrenEnd,
    #[serde(default = "default_task")]
    pub(super) task: AnswerTask,
    #[serde(default)]
    pub(super) kinship: bool,
    #[serde(default = "number::<1>")]
    pub(super) draws: u32,
    #[serde(default = "number::<4>")]
    pub(super) least_confidence: u32,
    #[serde(default = "number::<3>")]
    pub(super) clusters: u32,
    #[serde(default = "number::<2>")]
    pub(super) clusters_kept: u32,
    #[serde(default = "default_parser")]
    pub(super) parser: ReplyParser,
    #[serde(default)]
    pub(super) json: bool,
    #[serde(default = "default_sampling")]
    pub(super) sampling: SamplingChoice,
    #[serde(default = "one")]
    pub(super) temperature: f64,
    #[serde(default = "one")]
    pub(super) top_p: f64,
    #[serde(default)]
    pub(super) presence_penalty: f64,
    #[serde(default)]
    pub(super) frequency_penalty: f64,
    #[serde(default = "number::<512>")]
    pub(super) max_tokens: u32,
    #[serde(default)]
    pub(super) context_tokens: Option<u32>,
    #[serde(default)]
    pub(super) count_knowledge: bool,
    #[serde(default = "default_demonstrations")]
    pub(super) demonstrations: DemonstrationSet,
    #[serde(default)]
    pub(super) demonstration_texts: ModuleTexts,
    #[serde(default)]
    pub(super) prompts: ModuleTexts,
    #[serde(default)]
    pub(super) system: String,
}

/// A text for each module of the generator; those left out are the project's own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ModuleTexts {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) main: Option<String>,
    #[serde(rename = "final", skip_serializing_if = "Option::is_none")]
    pub(super) last: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) direct: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) leaf: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) query: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) forward: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) compression: Option<String>,
}

fn number<const N: u32>() -> u32 {
    N
}

fn one() -> f64 {
    1.0
}

fn yes() -> bool {
    true
}

fn default_threshold() -> f64 {
    3.0
}

fn default_entailed_at() -> f64 {
    0.5
}

fn default_rerank_separator() -> String {
    " </s> ".to_owned()
}

fn default_passage_score() -> ScoreRule {
    ScoreRule::Best
}

fn default_knowledge() -> KnowledgeForm {
    KnowledgeForm::Sentences
}

fn default_irrelevant() -> IrrelevanceRule {
    IrrelevanceRule::Begins
}

fn default_forward_when() -> ForwardMoment {
    ForwardMoment::NothingLeft
}

fn default_forward_queries() -> ForwardQueries {
    ForwardQueries::First
}

fn default_forward_title() -> ForwardTitle {
    ForwardTitle::Omitted
}

fn default_leaf_question() -> LeafQuestion {
    LeafQuestion::Shown
}

fn default_citations() -> CitationList {
    CitationList::Shown
}

fn default_history() -> QueryHistory {
    QueryHistory::All
}

fn default_barren_end() -> BarrenEnd {
    BarrenEnd::Final
}

fn default_task() -> AnswerTask {
    AnswerTask::Open
}

fn default_parser() -> ReplyParser {
    ReplyParser::Tolerant
}

fn default_sampling() -> SamplingChoice {
    SamplingChoice::Greedy
}

fn default_demonstrations() -> DemonstrationSet {
    DemonstrationSet::None
}

/// The values of the authors' code; `migres.rs` says what each does there.
pub(super) const AS_CODE: &[(&str, &str)] = &[
    ("mixture_retrieved", "30"),
    ("retrieved_in_mixture", "20"),
    ("retry_prefix", "\"Find information about \""),
    ("passage_score", "\"last\""),
    ("knowledge", "\"whole\""),
    ("glue_fragments", "true"),
    ("drop_query_sentences", "true"),
    ("irrelevant", "\"contains\""),
    ("forward_when", "\"nothing_relevant\""),
    ("forward_title", "\"none\""),
    ("refused_words", "[\"sorry\", \"2022\"]"),
    ("citations", "\"unfiltered\""),
    ("shortest_passage", "5"),
    ("history", "\"shown\""),
    ("shortest_query", "10"),
    ("shortest_missing", "10"),
    ("skip_main", "true"),
    ("barren_end", "\"lose\""),
    ("kinship", "true"),
    ("parser", "\"code\""),
    ("sampling", "\"code\""),
];

impl MigresParameters {
    /// Checks the values.
    pub(super) fn check_values(&self) -> Result<(), MethodError> {
        let counts = [
            ("retrieved", self.retrieved),
            ("mixture_retrieved", self.mixture_retrieved),
            ("retrieved_in_mixture", self.retrieved_in_mixture),
            ("passages", self.passages),
            ("most_compressed", self.most_compressed),
            ("most_infos", self.most_infos),
            ("most_queries", self.most_queries),
            ("draws", self.draws),
            ("clusters", self.clusters),
            ("clusters_kept", self.clusters_kept),
            ("max_tokens", self.max_tokens),
        ];
        for (name, value) in counts {
            at_least_one(KIND, name, value)?;
        }
        let wrong = |parameter, found: String, allowed| MethodError::Value { kind: KIND, parameter, found, allowed };
        if !self.threshold.is_finite() {
            return Err(wrong("threshold", self.threshold.to_string(), "must be a finite number"));
        }
        if !(0.0..=1.0).contains(&self.entailed_at) {
            return Err(wrong("entailed_at", self.entailed_at.to_string(), "must be a probability"));
        }
        if !(self.temperature.is_finite() && self.temperature > 0.0) {
            return Err(wrong("temperature", self.temperature.to_string(), "must be larger than 0"));
        }
        if !(self.top_p > 0.0 && self.top_p <= 1.0) {
            return Err(wrong("top_p", self.top_p.to_string(), "must be larger than 0 and at most 1"));
        }
        if self.draws > 1 && self.sampling == SamplingChoice::Greedy {
            return Err(wrong("draws", self.draws.to_string(), "must be 1 if `sampling` is \"greedy\""));
        }
        Ok(())
    }

    /// The choice of tokens in each request.
    pub(super) fn token_sampling(&self) -> Sampling {
        let sample = |temperature, top_p, presence, frequency| Sampling::Sample {
            temperature,
            top_p,
            top_k: 0,
            penalties: SamplingPenalties { presence, frequency, ..SamplingPenalties::default() },
        };
        match self.sampling {
            SamplingChoice::Greedy => Sampling::Greedy,
            SamplingChoice::Code if self.draws > 1 => sample(1.0, 0.9, 1.0, 1.0),
            SamplingChoice::Server | SamplingChoice::Code => Sampling::Server,
            SamplingChoice::Sample => {
                sample(self.temperature, self.top_p, self.presence_penalty, self.frequency_penalty)
            }
        }
    }

    /// The service that scores sentences.
    pub(super) fn sentence_scorer(&self) -> &ServiceName {
        self.sentence_reranker.as_ref().unwrap_or(&self.reranker)
    }

    pub(super) fn sentence_rules(&self) -> SentenceRules {
        SentenceRules { glue_fragments: self.glue_fragments, drop_query_sentences: self.drop_query_sentences }
    }
}
