//! The parameters, their defaults (the paper's) and their checks; [`documentation`](super::documentation) explains
//! each.

use super::KIND;
use super::demonstrations::Demonstrations;
use super::instructions::{InstructionPosition, Instructions};
use crate::machine::MethodError;
use crate::registry::at_least_one;
use crate::request::{Direction, ServiceName, SpanText};
use serde::{Deserialize, Serialize};

/// The parameters of a job, with every default filled in.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PromptRankParameters {
    pub(super) retriever: ServiceName,
    pub(super) scorer: ServiceName,
    #[serde(default = "default_pool")]
    pub(super) pool: u32,
    #[serde(default = "default_hops")]
    pub(super) hops: u32,
    #[serde(default = "default_first_hops")]
    pub(super) first_hops: u32,
    #[serde(default)]
    pub(super) next_hops: Option<NumberPerHop>,
    #[serde(default = "default_links_per_passage")]
    pub(super) links_per_passage: NumberPerHop,
    #[serde(default = "ServiceName::corpus")]
    pub(super) links: ServiceName,
    #[serde(default = "default_link_direction")]
    pub(super) link_direction: Direction,
    #[serde(default)]
    pub(super) link_ranker: Option<ServiceName>,
    #[serde(default)]
    pub(super) link_ties: LinkTies,
    #[serde(default)]
    pub(super) rerank: RerankUnit,
    #[serde(default)]
    pub(super) instructions: Instructions,
    #[serde(default)]
    pub(super) position: InstructionPosition,
    #[serde(default = "default_cue")]
    pub(super) cue: String,
    #[serde(default = "default_label")]
    pub(super) label: String,
    #[serde(default = "default_separator")]
    pub(super) separator: String,
    #[serde(default)]
    pub(super) titles: ShownTitles,
    #[serde(default)]
    pub(super) path_order: PathOrder,
    #[serde(default)]
    pub(super) demonstrations: Demonstrations,
    #[serde(default)]
    pub(super) demonstration_tokens: Option<u32>,
    #[serde(default = "default_passage_tokens")]
    pub(super) passage_tokens: u32,
    #[serde(default)]
    pub(super) prompt_tokens: Option<u32>,
    #[serde(default)]
    pub(super) overflow: OverflowPolicy,
    #[serde(default)]
    pub(super) question_mark: bool,
    #[serde(default)]
    pub(super) question_prefix: String,
    #[serde(default = "default_temperature")]
    pub(super) temperature: f64,
    #[serde(default)]
    pub(super) normalise: Normalisation,
    #[serde(default = "yes")]
    pub(super) score_end: bool,
    #[serde(default)]
    pub(super) ensemble: Ensemble,
    #[serde(default)]
    pub(super) next_ensemble: Option<Ensemble>,
    #[serde(default)]
    pub(super) document_score: DocumentScore,
    #[serde(default)]
    pub(super) ties: TieOrder,
    #[serde(default)]
    pub(super) reader: Option<ServiceName>,
    #[serde(default = "default_read_paths")]
    pub(super) read_paths: u32,
    #[serde(default = "yes")]
    pub(super) read_titles: bool,
    #[serde(default)]
    pub(super) read_form: ReadForm,
    #[serde(default = "yes")]
    pub(super) yes_no: bool,
    #[serde(default = "default_max_answer_tokens")]
    pub(super) max_answer_tokens: u32,
    #[serde(default)]
    pub(super) span_text: SpanText,
    #[serde(default = "default_lambda")]
    pub(super) lambda: f64,
    #[serde(default)]
    pub(super) lambda_on: LambdaTarget,
}

/// One number for every hop, or one for each hop; the last one holds for all later hops.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected an integer, or a list of integers, one for each hop")]
pub(super) enum NumberPerHop {
    Every(u32),
    Each(Vec<u32>),
}

/// The order of equally similar links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum LinkTies {
    #[default]
    SmallerId,
    Later,
}

/// The unit read by the model to score a path (section 4.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RerankUnit {
    #[default]
    Path,
    Passage,
}

/// The passages shown with their titles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ShownTitles {
    #[default]
    None,
    FirstHop,
    All,
}

/// The order of a path's passages in the prompt (appendix D.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum PathOrder {
    #[default]
    Link,
    Inverted,
}

/// The part to cut in too long a prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum OverflowPolicy {
    #[default]
    Passages,
    Right,
    Refuse,
}

/// The rule to make one score of a question's tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Normalisation {
    #[default]
    Mean,
    Sum,
}

/// The rule to make one score of a path's contexts (sections 2.2 and 2.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Ensemble {
    #[default]
    Max,
    Mean,
    TokenMax,
    TokenMean,
    TokenMedian,
}

/// The rule to make a document's score of its paths (appendix B).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum DocumentScore {
    #[default]
    Max,
    Mean,
    Min,
    Longest,
}

/// The order of equally good paths, and of equally good documents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum TieOrder {
    #[default]
    SmallerId,
    /// The retriever's order of the pool, then the order in which the search met them.
    Pool,
}

/// The form of what the reader reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ReadForm {
    /// Titles and texts with spaces between them.
    #[default]
    Plain,
    /// With MDR's separators and marks of sentences.
    Mdr,
}

/// The score weighed by lambda against the span's score.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum LambdaTarget {
    #[default]
    Path,
    Rank,
}

/// The longest path allowed. Prompts for longer ones would fit no model.
const MOST_HOPS: u32 = 100;

fn default_pool() -> u32 {
    100
}

fn default_hops() -> u32 {
    2
}

fn default_first_hops() -> u32 {
    5
}

fn default_links_per_passage() -> NumberPerHop {
    NumberPerHop::Every(3)
}

fn default_link_direction() -> Direction {
    Direction::Outgoing
}

fn default_cue() -> String {
    "Question:".to_owned()
}

fn default_label() -> String {
    "Document: ".to_owned()
}

fn default_separator() -> String {
    " ".to_owned()
}

fn default_passage_tokens() -> u32 {
    230
}

fn default_temperature() -> f64 {
    1.0
}

fn yes() -> bool {
    true
}

fn default_read_paths() -> u32 {
    100
}

fn default_max_answer_tokens() -> u32 {
    30
}

fn default_lambda() -> f64 {
    0.9
}

impl NumberPerHop {
    /// The number for the expansion of paths of `length` (from 1).
    pub(super) fn at(&self, length: u32) -> u32 {
        match self {
            Self::Every(number) => *number,
            Self::Each(numbers) => {
                let index = length.saturating_sub(1) as usize;
                numbers.get(index).or(numbers.last()).copied().unwrap_or(0)
            }
        }
    }

    fn check(&self, parameter: &'static str) -> Result<(), MethodError> {
        match self {
            Self::Every(number) => at_least_one(KIND, parameter, *number),
            Self::Each(numbers) if numbers.is_empty() => Err(bad_value(
                parameter,
                "[]",
                "must have at least one number, the last of which holds for all later hops",
            )),
            Self::Each(numbers) => numbers.iter().try_for_each(|number| at_least_one(KIND, parameter, *number)),
        }
    }
}

impl PromptRankParameters {
    /// The number of paths of `length` passages to expand: K1, K2, ….
    pub(super) fn paths_to_expand(&self, length: u32) -> u32 {
        match &self.next_hops {
            Some(next) if length > 1 => next.at(length - 1),
            _ => self.first_hops,
        }
    }

    /// The budget of a prompt, in tokens.
    pub(super) fn prompt_budget(&self) -> u32 {
        let usual = if self.demonstrations.is_empty() { 600 } else { 1024 };
        self.prompt_tokens.unwrap_or(usual)
    }

    /// The ensemble of contexts at a hop, from 1.
    pub(super) fn ensemble_at(&self, hop: u32) -> Ensemble {
        self.next_ensemble.filter(|_| hop > 1).unwrap_or(self.ensemble)
    }

    pub(super) fn check(&self) -> Result<(), MethodError> {
        let Self { pool, hops, first_hops, passage_tokens, read_paths, max_answer_tokens, .. } = *self;
        let numbers = [
            ("pool", pool),
            ("hops", hops),
            ("first_hops", first_hops),
            ("passage_tokens", passage_tokens),
            ("demonstration_tokens", self.demonstration_tokens.unwrap_or(1)),
            ("prompt_tokens", self.prompt_tokens.unwrap_or(1)),
            ("read_paths", read_paths),
            ("max_answer_tokens", max_answer_tokens),
        ];
        numbers.into_iter().try_for_each(|(parameter, number)| at_least_one(KIND, parameter, number))?;
        if hops > MOST_HOPS {
            return Err(bad_value("hops", hops, "must be at most 100"));
        }
        self.links_per_passage.check("links_per_passage")?;
        self.next_hops.iter().try_for_each(|next| next.check("next_hops"))?;
        // Devices divide logits by it in single precision.
        if !(1e-3..=1e3).contains(&self.temperature) {
            return Err(bad_value("temperature", self.temperature, "must be a number from 0.001 to 1000"));
        }
        if !(0.0..=1.0).contains(&self.lambda) {
            return Err(bad_value("lambda", self.lambda, "must be a number from 0 to 1"));
        }
        self.demonstrations.check()
    }

    /// Refuses values of parameters of reading without a reader: the points of a sweep over one would be equal. `as`
    /// sets others.
    pub(super) fn check_new(&self) -> Result<(), MethodError> {
        if self.reader.is_some() {
            return Ok(());
        }
        let unused = [
            ("lambda", self.lambda.to_string(), self.lambda != default_lambda()),
            ("read_paths", self.read_paths.to_string(), self.read_paths != default_read_paths()),
        ];
        match unused.into_iter().find(|(.., is_set)| *is_set) {
            None => Ok(()),
            Some((parameter, found, _)) => {
                Err(bad_value(parameter, found, "has no effect without a `reader`: name one, or leave this out"))
            }
        }
    }
}

/// The error of a bad value.
pub(super) fn bad_value(parameter: &'static str, found: impl ToString, allowed: &'static str) -> MethodError {
    MethodError::Value { kind: KIND, parameter, found: found.to_string(), allowed }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::build_method;
    use crate::{MethodSetting, resolve_parameters};
    use serde_json::{Value, json};

    fn parameters(more: Value) -> PromptRankParameters {
        let mut all = json!({"retriever": "t", "scorer": "lm"});
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(all).unwrap()
    }

    fn refusal(more: Value) -> String {
        let mut all = json!({"retriever": "t", "scorer": "lm"});
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        match build_method(KIND, &all, &MethodSetting::of_corpus(10)) {
            Ok(_) => panic!("{all} was accepted"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn numbers_per_hop_go_on_with_the_last() {
        let p = parameters(json!({"first_hops": 9, "next_hops": [7, 5], "links_per_passage": [4, 2]}));
        assert_eq!((1..=4).map(|length| p.paths_to_expand(length)).collect::<Vec<_>>(), [9, 7, 5, 5]);
        assert_eq!((1..=3).map(|length| p.links_per_passage.at(length)).collect::<Vec<_>>(), [4, 2, 2]);
        let p = parameters(json!({}));
        assert_eq!((1..=3).map(|length| p.paths_to_expand(length)).collect::<Vec<_>>(), [5, 5, 5]);
    }

    #[test]
    fn prompts_with_demonstrations_may_be_longer() {
        let demonstrations = json!([{"texts": ["a"], "question": "b?"}]);
        assert_eq!(parameters(json!({})).prompt_budget(), 600);
        assert_eq!(parameters(json!({"demonstrations": demonstrations})).prompt_budget(), 1024);
        assert_eq!(parameters(json!({"demonstrations": demonstrations, "prompt_tokens": 512})).prompt_budget(), 512);
    }

    #[test]
    fn one_set_of_demonstrations_is_a_list_of_one_set() {
        let demonstration = json!({"texts": ["a"], "question": "b?"});
        let given = json!({"retriever": "t", "scorer": "lm", "demonstrations": [demonstration]});
        let resolved = resolve_parameters(KIND, &given, &MethodSetting::of_corpus(10)).unwrap();
        assert_eq!(resolved["demonstrations"], json!([[demonstration]]));
    }

    #[test]
    fn a_name_of_instructions_resolves_to_their_text() {
        let given = json!({"retriever": "t", "scorer": "lm", "instructions": "hopeval:five"});
        let resolved = resolve_parameters(KIND, &given, &MethodSetting::of_corpus(10)).unwrap();
        assert_eq!(resolved["instructions"].as_array().map(Vec::len), Some(5));
        let again = resolve_parameters(KIND, &resolved, &MethodSetting::of_corpus(10)).unwrap();
        assert_eq!(again, resolved);
    }

    #[test]
    fn parameters_of_reading_need_a_reader() {
        for parameter in [json!({"lambda": 0.5}), json!({"read_paths": 3})] {
            let given = parameters(parameter.clone());
            let error = given.check_new().unwrap_err().to_string();
            given.check().unwrap();
            assert!(error.ends_with("has no effect without a `reader`: name one, or leave this out"), "{error}");
            let mut read = parameter;
            read["reader"] = json!("r");
            parameters(read).check_new().unwrap();
        }
    }

    #[test]
    fn as_the_code_does_is_a_set_of_parameters() {
        let resolved = |more: Value| {
            let mut all = json!({"retriever": "t", "scorer": "lm"});
            all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            resolve_parameters(KIND, &all, &MethodSetting::of_corpus(10)).unwrap()
        };
        let names = ["ensemble", "next_ensemble", "overflow", "question_mark", "link_ties", "ties", "read_form"];
        let of = |parameters: &Value| names.map(|name| parameters[name].clone()).to_vec();
        let code = resolved(json!({"as": "code"}));
        let expected = json!(["mean", "mean", "right", true, "later", "pool", "mdr"]);
        assert_eq!(json!(of(&code)), expected);
        assert_eq!((&code["span_text"], &code["max_answer_tokens"]), (&json!("final_text"), &json!(31)));
        assert_eq!(resolved(json!({"as": "paper"})), resolved(json!({})));
        assert_eq!(resolved(json!({"as": "code", "ensemble": "max"}))["ensemble"], json!("max"));
        assert!(code.get("as").is_none(), "records show what it stands for");
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (given, expected) in [
            (json!({"hops": 0}), "`hops` = 0: must be at least 1"),
            (json!({"links_per_passage": []}), "`links_per_passage` = []: must have at least one number"),
            (json!({"links_per_passage": [3, 0]}), "`links_per_passage` = 0: must be at least 1"),
            (json!({"next_hops": "all"}), "expected an integer, or a list of integers, one for each hop"),
            (json!({"temperature": 0.0}), "`temperature` = 0: must be a number from 0.001 to 1000"),
            (json!({"lambda": 1.5}), "`lambda` = 1.5: must be a number from 0 to 1"),
            (json!({"instructions": "hopeval:ten"}), "no instructions `hopeval:ten`"),
            (json!({"instructions": []}), "`instructions` = []: must not be empty"),
            (json!({"instructions": ["a", " "]}), "`instructions` =  : must not be blank"),
            (json!({"instructions": ["{passages} {passages}"]}), "may name {passages} once"),
            (json!({"instructions": [{"text": "a {passages}", "position": "after"}]}), "may name {passages} once"),
            (json!({"instructions": [{"text": "a", "place": "after"}]}), "expected an instruction"),
            (
                json!({"demonstrations": [{"texts": [], "question": "q?"}]}),
                "`demonstrations` = q?: each needs at least one text",
            ),
            (json!({"demonstrations": [{"text": "a", "question": "q?"}]}), "expected a list of demonstrations"),
            (json!({"ensemble": "median"}), "unknown variant `median`, expected one of `max`, `mean`"),
        ] {
            let message = refusal(given.clone());
            assert!(message.contains(expected), "{given}: {message}");
        }
    }
}
