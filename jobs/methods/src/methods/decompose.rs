//! `decompose`: a language model lists single-hop questions, each is retrieved with, and a reader answers.
//!
//! Decompose-R of EfficientRAG (Zhuang et al., 2024, sections 2.2 and 4, table 11) retrieves with all of them beside
//! each other. With `mode = "sequential"` they are answered one after the other and an answer stands in the later
//! questions that need it, as in least-to-most prompting (Zhou et al., ICLR 2023, section 2).
//!
//! ```text
//! state      | responses                          | next       | asks or ends with
//! -----------+------------------------------------+------------+---------------------------------------------------
//! Start      | none                               | Decomposed | generator: Generate(question): a list of questions
//! Decomposed | no list; draws left                | Decomposed | generator: the next draw
//! Decomposed | no list                            | end        | failed: parse_failure
//! Decomposed | a list (parallel)                  | Retrieved  | retriever: Retrieve(each of them, k)
//! Decomposed | a list (sequential)                | Retrieved  | retriever: Retrieve(the first, k)
//! Retrieved  | hits (parallel)                    | Answered   | generator: Generate(all passages, question)
//! Retrieved  | hits (sequential)                  | Answered   | generator: Generate(its passages, answers so far, it)
//! Answered   | no answer; draws left              | Answered   | generator: the next draw
//! Answered   | no answer                          | end        | failed: parse_failure
//! Answered   | a single-hop answer; more of them  | Retrieved  | retriever: Retrieve(the next with its references, k)
//! Answered   | the last single-hop answer         | Answered   | generator: Generate(passages, answers, question)
//! Answered   | the answer                         | end        | answer, ranked, paths
//! any        | failure                            | end        | that failure
//! ```
//!
//! # Lists
//! A list has at least one question and nothing but strings. Questions behind the first `most_questions` are left out:
//! the papers set no bound, and a run needs one. References to answers are `#1` and `<1>`, as models write them.
//!
//! # Paper and code
//! `as = "code"` is EfficientRAG's repository: a message of the system, sampling left to the server, and JSON between
//! the first braces. There replies have no bound. Its file imports a module that is not in it, so it never ran as it
//! stands.
//!
//! # Outcome
//! [`crate::Outcome::ranked`] has the passages in the order of the questions, each once: its length is the paper's K of
//! about 20. [`crate::Outcome::paths`] has those of each question.

mod machine;
mod parameters;
mod questions;

use crate::Fragment;
use crate::machine::{
    ChunkList, ContextMode, Machine, Method, MethodError, MethodSetting, PromptWording, Question, ServiceUse,
};
use crate::passage_lines::PassageLines;
use crate::registry::{ConfigurableMethod, MethodInfo, at_least_one};
use crate::reply_prompt::{EFFICIENTRAG_SYSTEM, ReplyPrompt, parse_template};
use crate::request::{RequestKind, TextFormat};
use crate::template::PromptTemplate;
use parameters::{DecomposeMode, DecomposeParameters};
use std::sync::Arc;

const KIND: &str = "decompose";

/// The project's own wording, with three examples as in table 11.
const PARALLEL: &str = include_str!("../../prompts/decompose/parallel.txt").trim_ascii_end();
/// The same with references to earlier answers.
const SEQUENTIAL: &str = include_str!("../../prompts/decompose/sequential.txt").trim_ascii_end();
/// The reader, the same as that of `efficientrag`.
const READER: &str = include_str!("../../prompts/efficientrag/reader.txt").trim_ascii_end();
/// The reader with earlier questions and answers.
const STEP: &str = include_str!("../../prompts/decompose/step.txt").trim_ascii_end();

/// One configuration.
pub(crate) struct Decompose {
    settings: Arc<DecomposeSettings>,
}

/// Settings shared by all machines of a configuration.
struct DecomposeSettings {
    parameters: DecomposeParameters,
    decomposition: ReplyPrompt,
    reader: ReplyPrompt,
    lines: PassageLines,
}

impl DecomposeParameters {
    /// The project's own prompts of the mode: for the decomposition, and for the reader.
    fn own_texts(&self) -> [&'static str; 2] {
        match self.mode {
            DecomposeMode::Parallel => [PARALLEL, READER],
            DecomposeMode::Sequential => [SEQUENTIAL, STEP],
        }
    }

    /// The prompts in use, in the same order.
    fn texts(&self) -> [&str; 2] {
        let [decomposition, reader] = self.own_texts();
        [self.decomposition_prompt.as_deref().unwrap_or(decomposition), self.prompt.as_deref().unwrap_or(reader)]
    }

    fn reply_prompt(&self, template: PromptTemplate) -> ReplyPrompt {
        ReplyPrompt {
            generator: self.generator.clone(),
            system: self.system.clone(),
            template,
            max_tokens: self.max_tokens,
            temperature: self.temperature,
            attempts: self.attempts,
            format: TextFormat::json_if(self.json),
        }
    }
}

impl ConfigurableMethod for Decompose {
    const INFO: MethodInfo = MethodInfo {
        kind: KIND,
        description: "A language model lists single-hop questions; each is retrieved with, and a reader answers",
        paper: "EfficientRAG (Zhuang et al., 2024), section 4: Decompose-R; Least-to-most (Zhou et al., 2023)",
        parameters: parameters::DOCUMENTATION,
    };

    type Parameters = DecomposeParameters;

    const AS_CODE: &'static [(&'static str, &'static str)] =
        &[EFFICIENTRAG_SYSTEM, ("temperature", "\"server\""), ("answer_json", "\"braces\"")];

    fn complete_parameters(parameters: &mut DecomposeParameters) {
        let [decomposition, reader] = parameters.own_texts();
        parameters.decomposition_prompt.get_or_insert_with(|| decomposition.to_owned());
        parameters.prompt.get_or_insert_with(|| reader.to_owned());
    }

    fn new(parameters: DecomposeParameters, _: &MethodSetting) -> Result<Self, MethodError> {
        let counts = [
            ("k", parameters.k),
            ("most_questions", parameters.most_questions),
            ("max_tokens", parameters.max_tokens),
            ("attempts", parameters.attempts),
        ];
        for (name, value) in counts {
            at_least_one(KIND, name, value)?;
        }
        parameters.temperature.check(KIND)?;
        let [decomposition, reader] = parameters.texts();
        let decomposition = parse_template(
            KIND,
            "decomposition_prompt",
            decomposition,
            &["question"],
            "must have {question} exactly once",
        )?;
        let (fields, allowed): (&[&'static str], _) = match parameters.mode {
            DecomposeMode::Parallel => (&["knowledge", "question"], "must have {knowledge} and {question}, each once"),
            DecomposeMode::Sequential => (
                &["knowledge", "answered", "question"],
                "must have {knowledge}, {answered} and {question}, each once, in the sequential mode",
            ),
        };
        let reader = parse_template(KIND, "prompt", reader, fields, allowed)?;
        let (decomposition, reader) = (parameters.reply_prompt(decomposition), parameters.reply_prompt(reader));
        let form = parameters.chunk.passage_form(&parameters.title_separator);
        let lines = PassageLines { form, context_tokens: parameters.context_tokens };
        Ok(Self { settings: Arc::new(DecomposeSettings { parameters, decomposition, reader, lines }) })
    }
}

impl Method for Decompose {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn version(&self) -> u32 {
        2
    }

    fn context_mode(&self) -> ContextMode {
        ContextMode::Open
    }

    fn chunk_list(&self) -> Option<ChunkList> {
        Some(ChunkList::Paths)
    }

    fn gives_answers(&self) -> bool {
        true
    }

    fn most_ranked(&self) -> Option<u32> {
        let DecomposeParameters { k, most_questions, .. } = self.settings.parameters;
        Some(k.saturating_mul(most_questions))
    }

    fn most_requests(&self) -> Option<Vec<(RequestKind, u64)>> {
        let DecomposeSettings { parameters, reader, .. } = &*self.settings;
        let questions = u64::from(parameters.most_questions);
        let texts = match parameters.mode {
            DecomposeMode::Parallel => 2,
            DecomposeMode::Sequential => questions + 2,
        };
        let draws = texts * u64::from(reader.most_draws());
        Some(vec![(RequestKind::Generate, draws), (RequestKind::Retrieve, questions)])
    }

    fn wording(&self) -> Option<PromptWording> {
        let parameters = &self.settings.parameters;
        let own = parameters.texts() == parameters.own_texts();
        let system = parameters.system.as_deref();
        let texts: Vec<&str> = system.into_iter().chain(parameters.texts()).collect();
        let text = serde_json::to_string(&texts).expect("texts can be written as JSON; this is a bug");
        Some(PromptWording { origin: if own { "hopeval" } else { "job" }.into(), text })
    }

    fn fragments(&self) -> Vec<Fragment> {
        let DecomposeSettings { decomposition, reader, .. } = &*self.settings;
        decomposition.template.fragments().chain(reader.template.fragments()).cloned().collect()
    }

    fn service_uses(&self) -> Vec<ServiceUse> {
        let DecomposeParameters { retriever, generator, json, temperature, .. } = &self.settings.parameters;
        vec![
            ServiceUse::new("generator", generator, RequestKind::Generate)
                .with_sampling(&temperature.sampling())
                .with_json_if(*json),
            ServiceUse::new("retriever", retriever, RequestKind::Retrieve),
        ]
    }

    fn start(&self, question: &Question) -> Box<dyn Machine> {
        Box::new(machine::DecomposeMachine::new(Arc::clone(&self.settings), question.text.clone()))
    }
}
