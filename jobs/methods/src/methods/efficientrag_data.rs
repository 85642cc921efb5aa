//! `efficientrag_data`: a language model annotates the hops of a question. EfficientRAG's models are trained on these
//! annotations.
//!
//! EfficientRAG (Zhuang et al., EMNLP 2024, section 3.2 and appendix B.2) makes its training data in four steps. The
//! question is decomposed into single-hop questions, each answered by one gold passage. The important words of that
//! passage are copied. The next query is the rest of the query with the information found. Passages found by the query
//! are negatives unless they are gold. The first three steps ask a language model. The outcome is its annotation
//! ([`crate::annotation::Annotation`], as JSON in the place of an answer); rows are made of it elsewhere.
//!
//! ```text
//! state      | responses                 | next       | asks or ends with
//! -----------+---------------------------+------------+---------------------------------------------------------------
//! Start      | none                      | Decomposed | generator: Generate(gold passages, question)
//! Start      | none; no gold passages    | end        | failed: refused
//! Decomposed | a text fails to parse     | Decomposed | the next draw, up to `attempts`
//! Decomposed | single-hop questions      | Labelled   | generator: Generate(passage, sub-question, answer) for each
//! Labelled   | some do not parse         | Labelled   | the next draw of those, up to `attempts`
//! Labelled   | words of each; one hop    | Searched   | retriever: Retrieve(question, k + gold)
//! Labelled   | words of each; more hops  | Filtered   | generator: Generate(question, words of the first hop)
//! Filtered   | a text fails to parse     | Filtered   | the next draw, up to `attempts`
//! Filtered   | a query; not the last     | Filtered   | generator: Generate(new query, words of the next hop)
//! Filtered   | the last hop's query      | Searched   | retriever: Retrieve(query, k + gold) for each hop
//! Searched   | hits                      | end        | the annotation
//! (any)      | a failure                 | end        | that failure
//! (any)      | attempts are used up      | end        | failed: parse_failure, with the stage
//! ```
//!
//! # Paper and code
//! The filter gets the *current* query, as in the machine of `efficientrag`; the paper's figure 3 shows the original
//! one. Words come from every step of a hop with an answer needed by another step. The authors have a question of
//! comparison answered hop by hop without dependencies. Here both its steps belong to the first hop, as in the authors'
//! evaluation. A greedy text that fails to parse is not requested again; with a temperature it is. The prompts are this
//! project's own, without examples, as the paper's; the keys of the replies are the paper's, so other wordings fit.

mod annotate;
mod parameters;
mod prompting;
mod reply;

use crate::machine::{ContextMode, Machine, Method, MethodError, MethodSetting, PromptWording, Question, ServiceUse};
use crate::registry::{ConfigurableMethod, MethodInfo, at_least_one};
use crate::request::RequestKind;
use parameters::AnnotationParameters;
use prompting::PromptTemplates;
use std::sync::Arc;

const KIND: &str = "efficientrag_data";

/// One configuration.
pub(crate) struct EfficientRagData {
    settings: Arc<AnnotationSettings>,
}

/// Settings shared by all machines of a configuration.
struct AnnotationSettings {
    parameters: AnnotationParameters,
    templates: PromptTemplates,
}

impl ConfigurableMethod for EfficientRagData {
    const INFO: MethodInfo = MethodInfo {
        kind: KIND,
        description: "A language model annotates the hops of a question, for the training of EfficientRAG's models",
        paper: "EfficientRAG (Zhuang et al., 2024), section 3.2",
        parameters: parameters::DOCUMENTATION,
    };

    type Parameters = AnnotationParameters;

    fn new(parameters: AnnotationParameters, _: &MethodSetting) -> Result<Self, MethodError> {
        let counts = [
            ("k", parameters.k),
            ("most_steps", parameters.most_steps),
            ("max_tokens", parameters.max_tokens),
            ("attempts", parameters.attempts),
        ];
        for (name, value) in counts {
            at_least_one(KIND, name, value)?;
        }
        if !(parameters.temperature.is_finite() && parameters.temperature >= 0.0) {
            return Err(MethodError::Value {
                kind: KIND,
                parameter: "temperature",
                found: parameters.temperature.to_string(),
                allowed: "must be 0 (greedy) or larger",
            });
        }
        let templates = PromptTemplates::new(&parameters)?;
        Ok(Self { settings: Arc::new(AnnotationSettings { parameters, templates }) })
    }
}

impl Method for EfficientRagData {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn version(&self) -> u32 {
        1
    }

    fn context_mode(&self) -> ContextMode {
        ContextMode::Oracle
    }

    fn gives_answers(&self) -> bool {
        false
    }

    fn gives_ranking(&self) -> bool {
        false
    }

    fn reads_gold(&self) -> bool {
        true
    }

    fn most_requests(&self) -> Option<Vec<(RequestKind, u64)>> {
        let parameters = &self.settings.parameters;
        let (steps, draws) = (u64::from(parameters.most_steps), u64::from(parameters.most_draws()));
        // One decomposition, the words of each step, and a query for each hop but the first.
        Some(vec![(RequestKind::Generate, draws * (2 * steps)), (RequestKind::Retrieve, steps)])
    }

    fn wording(&self) -> Option<PromptWording> {
        Some(self.settings.templates.wording())
    }

    fn most_ranked(&self) -> Option<u32> {
        // It does not rank.
        Some(0)
    }

    fn service_uses(&self) -> Vec<ServiceUse> {
        let AnnotationParameters { generator, retriever, .. } = &self.settings.parameters;
        [("generator", generator, RequestKind::Generate), ("retriever", retriever, RequestKind::Retrieve)]
            .map(|(parameter, service, kind)| ServiceUse::new(parameter, service, kind))
            .to_vec()
    }

    fn start(&self, question: &Question) -> Box<dyn Machine> {
        Box::new(annotate::AnnotationMachine::new(Arc::clone(&self.settings), question))
    }
}
