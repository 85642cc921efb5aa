//! `ircot`: retrieves with each sentence of a chain of thought, which is written over the passages found so far.
//!
//! IRCoT (Trivedi et al., ACL 2023, section 3). Reasoning and retrieval take turns: a sentence is reasoned from the
//! passages, and more passages are retrieved with the sentence. A reader then answers from all passages, without the
//! chain.
//!
//! ```text
//! state     | responses                        | next      | asks or ends with
//! ----------+----------------------------------+-----------+----------------------------------------------------
//! Start     | none; titles are asked           | Titled    | generator: Generate("name pages")
//! Start     | none                             | Retrieved | retriever: Retrieve(question, k)
//! Titled    | titles                           | Mapped    | title retriever: Retrieve(title, 1) for each
//! Titled    | no title                         | Retrieved | retriever: Retrieve(question, k)
//! Mapped    | pages                            | Retrieved | retriever: Retrieve(question, k, within the pages)
//! Retrieved | hits                             | Reasoned  | generator: Generate(passages, question, chain)
//! (reason)  | nothing to retrieve              | Reasoned  | the same, without a retrieval before it
//! Reasoned  | the `end`, empty, last step     | (read)    |
//! Reasoned  | a sentence                       | Retrieved | retriever: Retrieve(sentence, k)
//! (read)    | `read` is cot or direct          | Read      | reader: Generate(passages, question)
//! (read)    | `read` is none                   | end       | ranked: the passages; answer: of the chain
//! Read      | a text                           | end       | ranked: the passages; answer: of the text
//! any       | failure                          | end       | that failure
//! ```
//!
//! # Chain, query, answer
//! Of a generated text only its first sentence is taken. The chain ends with a sentence that has `answer is:` (the
//! code: one with an answer behind `answer is`), with an empty one, and after `max_steps` sentences. Nothing is
//! retrieved after its end, with a query without a word, or when `max_passages` are there. The answer stands behind the
//! last `answer is`, else it is the whole text. Sentences, queries, titles and the reader's text are notes of the
//! outcome.
//!
//! # Passages
//! They are ranked in the order of their arrival, at most `max_passages`. A question's own text (IIRC) is the first
//! one, stands in every prompt, and counts.
//!
//! # Paper and code
//! Defaults are the paper's. `as = "code"` takes what only the authors' code has: ten steps, the last sentence that
//! does not just conclude as the query (`query`), a pattern for the `end`, queries without words that only ask,
//! passages of at most 600 words, of which 350 are shown, and none nearly equal to another. Of too many demonstrations
//! it keeps those that the code keeps for Codex (`packing`); for Flan-T5 it is `each`. The code's titles are further
//! terms of the query, and it cuts hits before it compares their titles; here retrieval is restricted to the pages, as
//! in the paper.

mod iterate;
mod parameters;

use crate::few_shot::{self, AnswerStyle, FewShotForm, FewShotPrompt};
use crate::fragment::Fragment;
use crate::machine::{ContextMode, Machine, Method, MethodError, MethodSetting, PromptWording, Question, ServiceUse};
use crate::registry::{ConfigurableMethod, MethodInfo, at_least_one};
use crate::request::RequestKind;
use crate::title_scope::{self, TitleScope};
use parameters::{IrcotParameters, SeparateReading};
use std::collections::BTreeSet;
use std::sync::Arc;

/// One configuration.
pub(crate) struct Ircot {
    settings: Arc<IrcotSettings>,
}

/// Settings shared by all machines of a configuration.
struct IrcotSettings {
    parameters: IrcotParameters,
    /// Asks for the next sentence.
    reasoning: FewShotPrompt,
    /// Asks for the answer; `None` without a reader.
    reading: Option<FewShotPrompt>,
    scope: Option<TitleScope>,
}

const KIND: &str = "ircot";

impl ConfigurableMethod for Ircot {
    const INFO: MethodInfo = MethodInfo {
        kind: KIND,
        description: "A language model reasons sentence by sentence, and each sentence is the next query",
        paper: "IRCoT (Trivedi et al., 2023), section 3",
        parameters: parameters::DOCUMENTATION,
    };

    const AS_CODE: &'static [(&'static str, &'static str)] = &[
        ("max_steps", "10"),
        ("query", "\"last_fact\""),
        ("end", "\"pattern\""),
        ("query_words", "\"without_question_words\""),
        ("shown_words", "350"),
        ("longest_passage", "600"),
        ("near_duplicates", "90"),
        ("packing", "\"each_and_one_more\""),
    ];

    type Parameters = IrcotParameters;

    fn new(parameters: IrcotParameters, _: &MethodSetting) -> Result<Self, MethodError> {
        let counts =
            [("k", parameters.k), ("max_steps", parameters.max_steps), ("max_passages", parameters.max_passages)];
        for (name, value) in counts {
            at_least_one(KIND, name, value)?;
        }
        if let (Some(reader), SeparateReading::None) = (&parameters.reader, parameters.read) {
            return Err(MethodError::Value {
                kind: KIND,
                parameter: "reader",
                found: format!("\"{reader}\""),
                allowed: "must be left out where read = \"none\"",
            });
        }
        if let (Some(_), SeparateReading::None) = (&parameters.reading_demonstrations, parameters.read) {
            return Err(MethodError::Value {
                kind: KIND,
                parameter: "reading_demonstrations",
                found: "a set".to_owned(),
                allowed: "must be left out where read = \"none\"",
            });
        }
        let form = |style, instruction: &str| FewShotForm {
            style,
            with_passages: true,
            distractors: parameters.distractors,
            instruction: instruction.to_owned(),
            title_label: parameters.title_label.clone(),
            shown_words: parameters.shown_words,
            context_tokens: parameters.context_tokens,
            max_tokens: parameters.max_tokens,
            packing: parameters.packing,
        };
        let IrcotParameters { demonstrations, reading_demonstrations, title_demonstrations, .. } = &parameters;
        let ids = parameters.demonstration_ids.as_deref();
        let prompt = |set, form| FewShotPrompt::new(KIND, set, ids, form);
        let reasoning = prompt(demonstrations, form(AnswerStyle::Cot, &parameters.instruction))?;
        let style = match parameters.read {
            SeparateReading::Cot => Some(AnswerStyle::Cot),
            SeparateReading::Direct => Some(AnswerStyle::Direct),
            SeparateReading::None => None,
        };
        let read = reading_demonstrations.as_ref().unwrap_or(demonstrations);
        let reading = style.map(|style| prompt(read, form(style, &parameters.reading_instruction))).transpose()?;
        let services = (parameters.title_retriever.as_ref(), &parameters.generator);
        title_scope::check_demonstrations(KIND, services.0, title_demonstrations.as_ref())?;
        let asked = (parameters.titles, parameters.title_prompt.as_deref());
        let shown = (title_demonstrations.as_ref().unwrap_or(demonstrations), ids);
        let scope = TitleScope::new(KIND, services, asked, shown, reasoning.form())?;
        Ok(Self { settings: Arc::new(IrcotSettings { parameters, reasoning, reading, scope }) })
    }
}

impl Method for Ircot {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn version(&self) -> u32 {
        3
    }

    fn context_mode(&self) -> ContextMode {
        ContextMode::Open
    }

    fn gives_answers(&self) -> bool {
        true
    }

    fn most_ranked(&self) -> Option<u32> {
        Some(self.settings.parameters.max_passages)
    }

    fn most_requests(&self) -> Option<Vec<(RequestKind, u64)>> {
        let IrcotSettings { parameters, reading, scope, .. } = &*self.settings;
        let steps = u64::from(parameters.max_steps);
        let (asked, titles) = if scope.is_some() { (1, u64::from(parameters.titles)) } else { (0, 0) };
        let reads = u64::from(reading.is_some());
        Some(vec![(RequestKind::Retrieve, steps + titles), (RequestKind::Generate, steps + asked + reads)])
    }

    fn wording(&self) -> Option<PromptWording> {
        let IrcotSettings { parameters, reasoning, reading, scope } = &*self.settings;
        let instructions = [&parameters.instruction, &parameters.reading_instruction];
        let is_own = instructions.iter().all(|text| text.is_empty()) && parameters.title_prompt.is_none();
        let words = [
            reasoning.words(),
            reading.as_ref().map(FewShotPrompt::words).unwrap_or_default(),
            scope.as_ref().map(TitleScope::words).unwrap_or_default(),
        ];
        let IrcotParameters { demonstrations, reading_demonstrations, title_demonstrations, .. } = parameters;
        let sets = [Some(demonstrations), reading_demonstrations.as_ref(), title_demonstrations.as_ref()];
        Some(few_shot::wording(sets.into_iter().flatten(), is_own, words.concat()))
    }

    fn fragments(&self) -> Vec<Fragment> {
        let IrcotSettings { reasoning, reading, scope, .. } = &*self.settings;
        let read = reading.iter().flat_map(FewShotPrompt::fragments);
        let all = reasoning.fragments().chain(read).chain(scope.iter().flat_map(TitleScope::fragments));
        let mut seen = BTreeSet::new();
        all.filter(|fragment| seen.insert(fragment.digest())).cloned().collect()
    }

    fn service_uses(&self) -> Vec<ServiceUse> {
        let IrcotParameters { retriever, generator, reader, title_retriever, .. } = &self.settings.parameters;
        let fixed = [
            ServiceUse::new("retriever", retriever, RequestKind::Retrieve),
            ServiceUse::new("generator", generator, RequestKind::Generate),
        ];
        let reader = reader.iter().map(|name| ServiceUse::new("reader", name, RequestKind::Generate));
        let titles = title_retriever.iter().map(|name| ServiceUse::new("title_retriever", name, RequestKind::Retrieve));
        fixed.into_iter().chain(reader).chain(titles).collect()
    }

    fn start(&self, question: &Question) -> Box<dyn Machine> {
        Box::new(iterate::IrcotMachine::new(Arc::clone(&self.settings), question))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry;
    use serde_json::{Value, json};

    const SETTING: MethodSetting = MethodSetting::of_corpus(10);

    fn resolved(more: Value) -> Value {
        let mut parameters = json!({"retriever": "r", "generator": "g"});
        parameters.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        registry::resolve_parameters(KIND, &parameters, &SETTING).unwrap()
    }

    #[test]
    fn as_the_code_does_is_a_set_of_parameters() {
        let code = resolved(json!({"as": "code"}));
        let of = |parameters: &Value| {
            ["max_steps", "query", "query_words", "shown_words", "longest_passage", "near_duplicates"]
                .map(|name| parameters[name].clone())
        };
        assert_eq!(
            of(&code).to_vec(),
            vec![json!(10), json!("last_fact"), json!("without_question_words"), json!(350), json!(600), json!(90)]
        );
        assert_eq!(of(&resolved(json!({"as": "paper"}))), of(&resolved(json!({}))));
        assert_eq!(of(&resolved(json!({})))[0], json!(8));
        assert_eq!(resolved(json!({"as": "code", "max_steps": 3}))["max_steps"], json!(3), "what a job sets counts");
        assert!(code.get("as").is_none(), "records show what it stands for");
    }

    #[test]
    fn the_origin_of_the_words_is_told() {
        let origin = |more: Value| {
            let mut parameters = json!({"retriever": "r", "generator": "g"});
            parameters.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            registry::build_method(KIND, &parameters, &SETTING).unwrap().wording().unwrap().origin
        };
        assert_eq!(origin(json!({})), "hopeval");
        assert_eq!(origin(json!({"demonstration_ids": ["three-hops"]})), "hopeval");
        assert_eq!(origin(json!({"instruction": "Think. "})), "job");
        let row = json!({"question": "Who?", "reasoning": "So the answer is: Ann.", "answer": "Ann"});
        assert_eq!(origin(json!({"demonstrations": [row]})), "job");
    }
}
