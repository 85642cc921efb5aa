//! `iter_retgen`: the last generation beside the question is the next query, for a fixed number of iterations.
//!
//! Iter-RetGen (Shao et al., Findings of EMNLP 2023, section 3.2), and as a baseline of EfficientRAG (Zhuang et al.,
//! 2024, section 4 and tables 17 to 19). Each iteration retrieves anew: its passages replace those of the last one in
//! the prompt.
//!
//! ```text
//! state     | responses                        | next      | asks or ends with
//! ----------+----------------------------------+-----------+---------------------------------------------------------
//! Start     | none                             | Retrieved | retriever: Retrieve(question, k)
//! Retrieved | hits, or none                    | Written   | generator: Generate(passages of this iteration, question)
//! Written   | a reply without JSON; draws left | Written   | generator: the next draw
//! Written   | a reply without JSON             | end       | failed: parse_failure
//! Written   | a reply; iterations left         | Retrieved | retriever: Retrieve(question and last generation, k)
//! Written   | a reply                          | end       | answer, ranked, paths
//! any       | failure                          | end       | that failure
//! ```
//!
//! # Paper and code
//! The paper has no code. Its behaviour is the default: five passages, two iterations, a chain of thought that ends
//! with the answer, and the whole of it in the next query. `as = "code"` is EfficientRAG's repository: ten passages,
//! three iterations, JSON of which only the thought is in the next query, a message of the system, and sampling left
//! to the server. There a reply without JSON drops the question; here the outcome is a `parse_failure`.
//!
//! # Outcome
//! [`crate::Outcome::ranked`] is the union over the iterations, in order: its length is EfficientRAG's K of 14 to 17.
//! [`crate::Outcome::paths`] has the passages of each iteration.

mod machine;
mod parameters;

use crate::Fragment;
use crate::machine::{
    ChunkList, ContextMode, Machine, Method, MethodError, MethodSetting, PromptWording, Question, ServiceUse,
};
use crate::passage_lines::PassageLines;
use crate::registry::{ConfigurableMethod, MethodInfo, at_least_one};
use crate::reply_prompt::{ReplyPrompt, all_words, parse_template};
use crate::request::{RequestKind, TextFormat};
use parameters::{IterRetGenParameters, ReplyForm};
use std::sync::Arc;

const KIND: &str = "iter_retgen";

/// The project's own wording of three-shot prompts: a chain of thought with the answer behind it, as the paper's, and
/// the JSON of EfficientRAG's tables 17 to 19.
const TEXT_PROMPT: &str = include_str!("../../prompts/iter_retgen/text.txt").trim_ascii_end();
const JSON_PROMPT: &str = include_str!("../../prompts/iter_retgen/json.txt").trim_ascii_end();

/// One configuration.
pub(crate) struct IterRetGen {
    settings: Arc<IterRetGenSettings>,
}

/// Settings shared by all machines of a configuration.
struct IterRetGenSettings {
    parameters: IterRetGenParameters,
    prompt: ReplyPrompt,
    lines: PassageLines,
}

impl IterRetGenParameters {
    /// The project's own prompt of the form.
    fn own_text(&self) -> &'static str {
        match self.form {
            ReplyForm::Text => TEXT_PROMPT,
            ReplyForm::Json => JSON_PROMPT,
        }
    }

    fn prompt_text(&self) -> &str {
        self.prompt.as_deref().unwrap_or(self.own_text())
    }

    /// Whether the generator must promise JSON.
    fn wants_json(&self) -> bool {
        self.json && self.form == ReplyForm::Json
    }
}

impl ConfigurableMethod for IterRetGen {
    const INFO: MethodInfo = MethodInfo {
        kind: KIND,
        description: "The last generation beside the question is the next query",
        paper: "Iter-RetGen (Shao et al., 2023), section 3.2",
        parameters: parameters::DOCUMENTATION,
    };

    type Parameters = IterRetGenParameters;

    const AS_CODE: &'static [(&'static str, &'static str)] = &[
        ("k", "10"),
        ("iterations", "3"),
        ("form", "\"json\""),
        ("query_part", "\"thought\""),
        ("answer_json", "\"braces\""),
        ("system", "\"Think step by step. Reply in JSON with the keys thought and answer.\""),
        ("temperature", "\"server\""),
    ];

    fn complete_parameters(parameters: &mut IterRetGenParameters) {
        let own = parameters.own_text();
        parameters.prompt.get_or_insert_with(|| own.to_owned());
    }

    fn new(parameters: IterRetGenParameters, _: &MethodSetting) -> Result<Self, MethodError> {
        let counts = [
            ("k", parameters.k),
            ("iterations", parameters.iterations),
            ("max_tokens", parameters.max_tokens),
            ("attempts", parameters.attempts),
        ];
        for (name, value) in counts {
            at_least_one(KIND, name, value)?;
        }
        parameters.temperature.check(KIND)?;
        let fields = &["knowledge", "question"];
        let allowed = "must have {knowledge} and {question}, each once";
        let template = parse_template(KIND, "prompt", parameters.prompt_text(), fields, allowed)?;
        let prompt = ReplyPrompt {
            generator: parameters.generator.clone(),
            system: parameters.system.clone(),
            template,
            max_tokens: parameters.max_tokens,
            temperature: parameters.temperature,
            attempts: parameters.attempts,
            format: TextFormat::json_if(parameters.wants_json()),
        };
        let form = parameters.chunk.passage_form(&parameters.title_separator);
        let lines = PassageLines { form, context_tokens: parameters.context_tokens };
        Ok(Self { settings: Arc::new(IterRetGenSettings { parameters, prompt, lines }) })
    }
}

impl Method for IterRetGen {
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
        let IterRetGenParameters { k, iterations, .. } = self.settings.parameters;
        Some(k.saturating_mul(iterations))
    }

    fn most_requests(&self) -> Option<Vec<(RequestKind, u64)>> {
        let IterRetGenSettings { parameters, prompt, .. } = &*self.settings;
        let iterations = u64::from(parameters.iterations);
        let draws = iterations * u64::from(prompt.most_draws());
        Some(vec![(RequestKind::Retrieve, iterations), (RequestKind::Generate, draws)])
    }

    fn wording(&self) -> Option<PromptWording> {
        let parameters = &self.settings.parameters;
        let own = parameters.prompt_text() == parameters.own_text();
        let origin = if own { "hopeval" } else { "job" };
        let text = all_words(parameters.system.as_deref(), parameters.prompt_text());
        Some(PromptWording { origin: origin.into(), text })
    }

    fn fragments(&self) -> Vec<Fragment> {
        self.settings.prompt.template.fragments().cloned().collect()
    }

    fn service_uses(&self) -> Vec<ServiceUse> {
        let parameters = &self.settings.parameters;
        vec![
            ServiceUse::new("retriever", &parameters.retriever, RequestKind::Retrieve),
            ServiceUse::new("generator", &parameters.generator, RequestKind::Generate)
                .with_sampling(&parameters.temperature.sampling())
                .with_json_if(parameters.wants_json()),
        ]
    }

    fn start(&self, question: &Question) -> Box<dyn Machine> {
        Box::new(machine::IterRetGenMachine::new(Arc::clone(&self.settings), question.text.clone()))
    }
}
