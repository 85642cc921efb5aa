//! `self_ask`: a language model asks itself follow-up questions until it gives the final answer.
//!
//! Self-Ask (Press et al., Findings of EMNLP 2023, section 3), and as a baseline of EfficientRAG (Zhuang et al., 2024,
//! section 4, tables 20 to 22). The model continues its own text. What is retrieved with a follow-up question comes
//! into it in one of three ways:
//! * `evidence = "snippet"`: as the intermediate answer, as the paper's search engine gives it: here the first
//!   sentences of the best passage;
//! * `"documents"`: in front of the question, and the model answers itself (Yoran et al. 2023, and the Self-Ask of
//!   Iter-RetGen);
//! * `"reader"`: a reader answers the follow-up question from the passages (EfficientRAG).
//!
//! ```text
//! state     | responses                          | next      | asks or ends with
//! ----------+------------------------------------+-----------+--------------------------------------------------
//! Start     | none                               | Written   | generator: Generate(question, "Are follow up
//!           |                                    |           | questions needed here:"; stop at (*))
//! Start     | none; `first_retrieval`            | First     | retriever: Retrieve(question, k)
//! First     | hits                               | Written   | as from Start, behind the passages
//! Written   | no stop; `stops = "cut"`           | Written   | the next draw; after the last the text is empty
//! Written   | a follow-up question               | Retrieved | retriever: Retrieve(it, k)
//! Written   | a final answer                     | end       | answer, ranked, paths
//! Written   | neither, or `most_follow_ups` used | Ended     | generator: Generate(.., "So the final answer is:";
//!           |                                    |           | stop "\n")
//! Retrieved | hits ("documents")                 | Written   | generator: Generate(passages, .. (*))
//! Retrieved | hits ("snippet")                   | Written   | generator: Generate(.. (*) SNIPPET.)
//! Retrieved | no text ("snippet")                | Answered  | generator: Generate(.. (*); stop at the next
//!           |                                    |           | follow-up question or the final answer)
//! Answered  | a text                             | Written   | generator: Generate(.., the text)
//! Retrieved | hits ("reader")                    | Read      | reader: Generate(passages, follow-up question)
//! Read      | no answer; draws left              | Read      | reader: the next draw
//! Read      | an answer; none: "unknown"         | Written   | generator: Generate(.. (*) ANSWER.)
//! Ended     | no stop; `stops = "cut"`           | Ended     | the next draw; after the last the text is empty
//! Ended     | a text                             | end       | answer, ranked, paths
//! any       | failure                            | end       | that failure
//! (*) "\nIntermediate answer:"
//! ```
//!
//! # Paper and code
//! Defaults follow the paper and its demonstration; the loop has a bound here. In the demonstration a follow-up
//! question without a search result is asked for ever; here the model answers it and goes on. `as = "code"` is
//! EfficientRAG's repository: a reader over ten passages, asked with a message of the system, at most five follow-up
//! questions, 100 tokens of the model's own text (the reader's replies have no bound there), sampling left to the
//! server, no stop strings sent but texts without one refused (`stops = "cut"`), what stands behind the last colon is
//! the question or answer (`extraction`), the text before a forced ending is lost (`last_text`), and the marker of that
//! ending has no line of its own (`final_marker`). With these the forced ending always happens.
//!
//! # Outcome
//! [`crate::Outcome::iterations`] counts follow-up questions; [`crate::Outcome::paths`] has the passages of each, so
//! their lengths add up to EfficientRAG's K of about 33.

mod chain;
mod machine;
mod parameters;

use crate::Fragment;
use crate::machine::{
    ChunkList, ContextMode, Machine, Method, MethodError, MethodSetting, PromptWording, Question, ServiceAbility,
    ServiceUse,
};
use crate::passage_lines::PassageLines;
use crate::registry::{ConfigurableMethod, MethodInfo, at_least_one};
use crate::reply_prompt::{EFFICIENTRAG_SYSTEM, ReplyPrompt, parse_template};
use crate::request::{RequestKind, ServiceName, TextFormat};
use crate::template::PromptTemplate;
use parameters::{Evidence, SelfAskParameters, StopHandling};
use std::sync::Arc;

const KIND: &str = "self_ask";

/// The project's own wording, with four examples as the paper's prompt.
const PROMPT: &str = include_str!("../../prompts/self_ask/prompt.txt");
/// The reader, the same as that of `efficientrag`.
const READER: &str = include_str!("../../prompts/efficientrag/reader.txt").trim_ascii_end();

/// One configuration.
pub(crate) struct SelfAsk {
    settings: Arc<SelfAskSettings>,
}

/// Settings shared by all machines of a configuration.
struct SelfAskSettings {
    parameters: SelfAskParameters,
    template: PromptTemplate,
    reader: ReplyPrompt,
    lines: PassageLines,
}

impl SelfAskParameters {
    /// The project's own prompt; where passages stand in front of the question, it has a place for them.
    fn own_text(&self) -> String {
        match self.evidence {
            Evidence::Documents => PROMPT.replace("Question: {question}", "{knowledge}Question: {question}"),
            Evidence::Snippet | Evidence::Reader => PROMPT.to_owned(),
        }
    }

    fn prompt_text(&self) -> String {
        self.prompt.clone().unwrap_or_else(|| self.own_text())
    }

    fn reader_text(&self) -> &str {
        self.reader_prompt.as_deref().unwrap_or(READER)
    }

    fn reader_service(&self) -> &ServiceName {
        self.reader.as_ref().unwrap_or(&self.generator)
    }

    /// The most requests for one piece of the model's own text.
    fn most_draws(&self) -> u32 {
        match self.stops {
            StopHandling::Sent => 1,
            StopHandling::Cut => self.temperature.most_draws(self.attempts),
        }
    }
}

impl ConfigurableMethod for SelfAsk {
    const INFO: MethodInfo = MethodInfo {
        kind: KIND,
        description: "A language model asks itself follow-up questions until it gives the final answer",
        paper: "Self-Ask (Press et al., 2023), section 3",
        parameters: parameters::DOCUMENTATION,
    };

    type Parameters = SelfAskParameters;

    const AS_CODE: &'static [(&'static str, &'static str)] = &[
        ("evidence", "\"reader\""),
        ("most_follow_ups", "5"),
        ("max_tokens", "100"),
        ("temperature", "\"server\""),
        ("stops", "\"cut\""),
        ("extraction", "\"last_colon\""),
        ("last_text", "\"dropped\""),
        ("final_marker", "\"So the final answer is:\""),
        EFFICIENTRAG_SYSTEM,
        ("answer_json", "\"braces\""),
    ];

    fn complete_parameters(parameters: &mut SelfAskParameters) {
        parameters.prompt = Some(parameters.prompt_text());
        if parameters.evidence == Evidence::Reader {
            parameters.reader_prompt = Some(parameters.reader_text().to_owned());
        }
    }

    fn new(parameters: SelfAskParameters, _: &MethodSetting) -> Result<Self, MethodError> {
        let counts = [
            ("k", parameters.k),
            ("most_follow_ups", parameters.most_follow_ups),
            ("snippet_sentences", parameters.snippet_sentences),
            ("max_tokens", parameters.max_tokens),
            ("reader_tokens", parameters.reader_tokens),
            ("attempts", parameters.attempts),
        ];
        for (name, value) in counts {
            at_least_one(KIND, name, value)?;
        }
        parameters.temperature.check(KIND)?;
        if parameters.final_marker.trim().is_empty() {
            let (found, allowed) = (String::new(), "must have words");
            return Err(MethodError::Value { kind: KIND, parameter: "final_marker", found, allowed });
        }
        let (fields, allowed): (&[&'static str], _) = match parameters.evidence {
            Evidence::Documents => (
                &["knowledge", "question"],
                "must have {knowledge} and {question}, each once, with `evidence = \"documents\"`",
            ),
            Evidence::Snippet | Evidence::Reader => (&["question"], "must have {question} exactly once"),
        };
        let template = parse_template(KIND, "prompt", &parameters.prompt_text(), fields, allowed)?;
        let reader = parse_template(
            KIND,
            "reader_prompt",
            parameters.reader_text(),
            &["knowledge", "question"],
            "must have {knowledge} and {question}, each once",
        )?;
        let reader = ReplyPrompt {
            generator: parameters.reader_service().clone(),
            system: parameters.system.clone(),
            template: reader,
            max_tokens: parameters.reader_tokens,
            temperature: parameters.temperature,
            attempts: parameters.attempts,
            format: TextFormat::json_if(parameters.json),
        };
        let form = parameters.chunk.passage_form(&parameters.title_separator);
        let lines = PassageLines { form, context_tokens: parameters.context_tokens };
        Ok(Self { settings: Arc::new(SelfAskSettings { parameters, template, reader, lines }) })
    }
}

impl Method for SelfAsk {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn version(&self) -> u32 {
        2
    }

    fn check_new(&self) -> Result<(), MethodError> {
        self.settings.parameters.check_new()
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
        let SelfAskParameters { k, most_follow_ups, .. } = self.settings.parameters;
        Some(k.saturating_mul(most_follow_ups.saturating_add(1)))
    }

    fn most_requests(&self) -> Option<Vec<(RequestKind, u64)>> {
        let SelfAskSettings { parameters, reader, .. } = &*self.settings;
        let follow_ups = u64::from(parameters.most_follow_ups);
        let answers = match parameters.evidence {
            Evidence::Documents => 0,
            Evidence::Snippet => follow_ups,
            Evidence::Reader => follow_ups * u64::from(reader.most_draws()),
        };
        // The texts up to each follow-up question, the last one, and the forced ending.
        let texts = (follow_ups + 2) * u64::from(parameters.most_draws());
        Some(vec![(RequestKind::Generate, texts + answers), (RequestKind::Retrieve, follow_ups + 1)])
    }

    fn wording(&self) -> Option<PromptWording> {
        let parameters = &self.settings.parameters;
        let reads = parameters.evidence == Evidence::Reader;
        let own = parameters.prompt_text() == parameters.own_text() && (!reads || parameters.reader_text() == READER);
        let mut texts = vec![parameters.prompt_text()];
        if reads {
            texts.extend(parameters.system.clone());
            texts.push(parameters.reader_text().to_owned());
        }
        let text = serde_json::to_string(&texts).expect("texts can be written as JSON; this is a bug");
        Some(PromptWording { origin: if own { "hopeval" } else { "job" }.into(), text })
    }

    fn fragments(&self) -> Vec<Fragment> {
        let SelfAskSettings { template, reader, .. } = &*self.settings;
        template.fragments().chain(reader.template.fragments()).cloned().collect()
    }

    fn service_uses(&self) -> Vec<ServiceUse> {
        let parameters = &self.settings.parameters;
        let sampling = parameters.temperature.sampling();
        let generator = ServiceUse::new("generator", &parameters.generator, RequestKind::Generate)
            .with_need(ServiceAbility::Continue)
            .with_sampling(&sampling);
        let reader = (parameters.evidence == Evidence::Reader).then(|| {
            ServiceUse::new("reader", parameters.reader_service(), RequestKind::Generate)
                .with_sampling(&sampling)
                .with_json_if(parameters.json)
        });
        let retriever = ServiceUse::new("retriever", &parameters.retriever, RequestKind::Retrieve);
        [generator, retriever].into_iter().chain(reader).collect()
    }

    fn start(&self, question: &Question) -> Box<dyn Machine> {
        Box::new(machine::SelfAskMachine::new(Arc::clone(&self.settings), question.text.clone()))
    }
}
