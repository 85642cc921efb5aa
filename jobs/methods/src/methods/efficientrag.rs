//! `efficientrag`: retrieves chunks, labels them, and filters the next query out of them, until no chunk continues.
//!
//! EfficientRAG (Zhuang et al., EMNLP 2024, section 3.1 and figure 3). A labeler reads each chunk beside the query. Its
//! tag says whether the chunk helps; its kept tokens are the information found. A filter makes the next query out of
//! the query and the information. Small models do the work of every round. A language model, if any, only writes the
//! answer.
//!
//! ```text
//! state     | responses                   | next      | asks or ends with
//! ----------+-----------------------------+-----------+-------------------------------------------------------------
//! Start     | none                        | Retrieved | retriever: Retrieve(query, k); the first query is the question
//! Retrieved | hits                        | Labelled  | labeler: Label(query, chunk) for each
//! Retrieved | no (new) hits               | (answer)  |
//! Labelled  | no chunk is <CONTINUE>      | (answer)  |
//! Labelled  | some are; last iteration    | (answer)  |
//! Labelled  | some are                    | Filtered  | filter: Filter(query, information of the <CONTINUE> chunks)
//! Filtered  | a query                     | Retrieved | retriever: Retrieve(new query, k)
//! Filtered  | an empty or a known query   | (answer)  | if `empty_query`, `stop_on_repeated_query` say so
//! (answer)  | a reader, and chunks to read| Answered  | reader: Read(question, chunks)
//! (answer)  | a generator                 | Answered  | generator: Generate(question and chunks)
//! (answer)  | neither                     | end       | ranked, paths
//! Answered  | a text without an answer    | Answered  | generator: the next draw, up to `attempts`
//! Answered  | no text has an answer       | end       | failed: parse_failure
//! Answered  | spans, or a text            | end       | ranked, paths, answer (none without a span)
//! ```
//!
//! # Tags
//! Index 0 is `<CONTINUE>`, 1 `<TERMINATE>`; labelers of three tags have 2, `<FINISH>`: the chunk is useful but ends
//! its branch. The largest logit decides, of equal ones the first. Only the information of continuing chunks is used.
//!
//! # Pool and K
//! The pool is every chunk except `<TERMINATE>`, over all iterations, in order: by iteration, then as retrieved. A
//! chunk kept again in a later iteration stands in the pool again, as in the authors' code: its K is the mean length of
//! that list. [`crate::Outcome::ranked`] has each passage once, at its first place (its length is the K of distinct
//! chunks). [`crate::Outcome::paths`] has the pool, one path for each iteration with kept chunks: the lengths of the
//! paths add up to the code's K. With `pool = "all"` the terminated chunks are ranked after the kept ones.
//!
//! # Paper and code
//! Defaults are the paper's behaviour. Differences in the authors' code and choices left open by the paper are
//! parameters: `filter_query`, `label_query`, `empty_query` (the code retrieves with an empty query),
//! `exclude_seen` and `stop_on_repeated_query` (the code does neither), `tags`, `pool`, `read_repeats`,
//! `answer_json`, `attempts`, `temperature`, `system`, `json`. `as = "code"` takes the code's `empty_query`,
//! `read_repeats`, `answer_json`, `temperature`, `system` and `json`. The code calls the filter once more after the
//! last iteration and discards the result; that call is not made here.
//!
//! # Failures
//! A failed request of any kind ends in its failure: a question with a refused or too long answer request was not
//! worked through. A labeler with another number of tags than `tags` is a failure, too, and so is a generator without a
//! text that parses (the authors' code drops such a question).

mod iterate;
mod parameters;
mod reader;

use crate::machine::{
    ChunkList, ContextMode, Machine, Method, MethodError, MethodSetting, PromptWording, Question, ServiceUse,
};
use crate::registry::{ConfigurableMethod, MethodInfo, at_least_one};
use crate::reply_prompt::{EFFICIENTRAG_SYSTEM, all_words};
use crate::request::RequestKind;
use parameters::EfficientRagParameters;
use reader::{PromptPiece, split_prompt};
use std::sync::Arc;

/// One configuration.
pub(crate) struct EfficientRag {
    settings: Arc<EfficientRagSettings>,
}

/// Settings shared by all machines of a configuration.
struct EfficientRagSettings {
    parameters: EfficientRagParameters,
    /// The generator's prompt, cut at its fields.
    prompt: Vec<PromptPiece>,
}

const KIND: &str = "efficientrag";

fn bad_value(parameter: &'static str, found: impl ToString, allowed: &'static str) -> MethodError {
    MethodError::Value { kind: KIND, parameter, found: found.to_string(), allowed }
}

impl ConfigurableMethod for EfficientRag {
    const INFO: MethodInfo = MethodInfo {
        kind: KIND,
        description: "Small models tag what was retrieved and write the next query, until nothing continues",
        paper: "EfficientRAG (Zhuang et al., 2024), section 3.1",
        parameters: parameters::DOCUMENTATION,
    };

    type Parameters = EfficientRagParameters;

    const AS_CODE: &'static [(&'static str, &'static str)] = &[
        ("empty_query", "\"retrieve\""),
        ("read_repeats", "true"),
        EFFICIENTRAG_SYSTEM,
        ("temperature", "\"server\""),
        ("answer_json", "\"braces\""),
        ("json", "false"),
    ];

    fn complete_parameters(parameters: &mut EfficientRagParameters) {
        // Only a generator is prompted.
        if parameters.generator.is_some() {
            parameters.prompt.get_or_insert_with(|| reader::PROMPT.to_owned());
        }
    }

    fn new(parameters: EfficientRagParameters, _: &MethodSetting) -> Result<Self, MethodError> {
        let counts = [
            ("k", parameters.k),
            ("max_iterations", parameters.max_iterations),
            ("max_answer_tokens", parameters.max_answer_tokens),
            ("max_tokens", parameters.max_tokens),
            ("attempts", parameters.attempts),
        ];
        for (name, value) in counts {
            at_least_one(KIND, name, value)?;
        }
        if !matches!(parameters.tags, 2 | 3) {
            return Err(bad_value("tags", parameters.tags, "must be 2 or 3"));
        }
        if parameters.reader.is_some()
            && let Some(generator) = &parameters.generator
        {
            return Err(bad_value(
                "generator",
                generator,
                "must be left out where `reader` answers, or the other way round",
            ));
        }
        parameters.temperature.check(KIND)?;
        let prompt = split_prompt(parameters.prompt.as_deref().unwrap_or(reader::PROMPT))
            .ok_or_else(|| bad_value("prompt", "a text", "must have {knowledge} and {question}, each once"))?;
        Ok(Self { settings: Arc::new(EfficientRagSettings { parameters, prompt }) })
    }
}

impl Method for EfficientRag {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn version(&self) -> u32 {
        2
    }

    fn check_new(&self) -> Result<(), MethodError> {
        self.settings.parameters.check_new()
    }

    fn labeler_tags(&self) -> Option<(&'static str, u32)> {
        Some(("tags", self.settings.parameters.tags))
    }

    fn context_mode(&self) -> ContextMode {
        ContextMode::Open
    }

    fn chunk_list(&self) -> Option<ChunkList> {
        Some(ChunkList::Paths)
    }

    fn gives_answers(&self) -> bool {
        self.settings.parameters.reader.is_some() || self.settings.parameters.generator.is_some()
    }

    fn wording(&self) -> Option<PromptWording> {
        let EfficientRagParameters { generator, system, prompt, .. } = &self.settings.parameters;
        let text = prompt.as_ref().filter(|_| generator.is_some())?;
        let origin = if text == reader::PROMPT { "hopeval" } else { "job" };
        Some(PromptWording { origin: origin.into(), text: all_words(system.as_deref(), text) })
    }

    fn most_ranked(&self) -> Option<u32> {
        let EfficientRagParameters { k, max_iterations, .. } = self.settings.parameters;
        Some(k.saturating_mul(max_iterations))
    }

    fn service_uses(&self) -> Vec<ServiceUse> {
        let parameters = &self.settings.parameters;
        let always = [
            ("retriever", &parameters.retriever, RequestKind::Retrieve),
            ("labeler", &parameters.labeler, RequestKind::Label),
            ("filter", &parameters.filter, RequestKind::Filter),
        ];
        let reader = parameters.reader.iter().map(|service| ServiceUse::new("reader", service, RequestKind::Read));
        let generator = parameters.generator.iter().map(|service| {
            ServiceUse::new("generator", service, RequestKind::Generate)
                .with_sampling(&parameters.temperature.sampling())
        });
        let always = always.map(|(parameter, service, kind)| ServiceUse::new(parameter, service, kind));
        always.into_iter().chain(reader).chain(generator).collect()
    }

    fn start(&self, question: &Question) -> Box<dyn Machine> {
        Box::new(iterate::EfficientRagMachine::new(Arc::clone(&self.settings), question.text.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry;
    use serde_json::{Value, json};

    const SETTING: MethodSetting = MethodSetting::of_corpus(10);

    /// The wording, and the prompt that a record shows.
    fn prompted(more: Value) -> (Option<PromptWording>, Value) {
        let mut parameters = json!({"retriever": "r", "labeler": "l", "filter": "f"});
        parameters.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let wording = registry::build_method(KIND, &parameters, &SETTING).unwrap().wording();
        (wording, registry::resolve_parameters(KIND, &parameters, &SETTING).unwrap()["prompt"].clone())
    }

    #[test]
    fn what_a_generator_is_prompted_with_is_told() {
        let (wording, shown) = prompted(json!({"generator": "g"}));
        assert_eq!(shown, reader::PROMPT);
        assert_eq!(wording, Some(PromptWording { origin: "hopeval".into(), text: reader::PROMPT.to_owned() }));
        // The parameters of a record, resolved again.
        assert_eq!(prompted(json!({"generator": "g", "prompt": shown})).0, wording);
        let own = "{knowledge} {question}";
        let (wording, shown) = prompted(json!({"generator": "g", "prompt": own}));
        assert_eq!((wording, shown), (Some(PromptWording { origin: "job".into(), text: own.to_owned() }), json!(own)));
        let (wording, _) = prompted(json!({"generator": "g", "system": "Be brief.", "prompt": own}));
        assert_eq!(wording.unwrap().text, format!("Be brief.\n\n{own}"));
        assert_eq!(prompted(json!({"reader": "r", "system": "Be brief."})), (None, Value::Null));
    }
}
