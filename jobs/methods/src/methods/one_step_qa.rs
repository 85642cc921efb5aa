//! `one_step_qa`: a language model reads passages and answers, without searching again.
//!
//! OneR QA of IRCoT (section 4.1), Direct-R@k, and the readings of EfficientRAG over oracle and mixed chunks (section
//! 2.1, figure 4).
//!
//! ```text
//! state  | context, responses           | next   | asks or ends with
//! -------+------------------------------+--------+----------------------------------------------------------------
//! Start  | open, and titles are asked   | Titled | generator: Generate("name pages")
//! Titled | titles                       | Mapped | title retriever: Retrieve(title, 1) for each
//! Titled | no title                     | Found  | retriever: Retrieve(question, k)
//! Mapped | pages                        | Found  | retriever: Retrieve(question, k, within the pages)
//! Start  | open                         | Found  | retriever: Retrieve(question, k)
//! Start  | given                        | Found  | corpus: Passages(the candidates)
//! Start  | oracle                       | Found  | corpus: Passages(one for each gold slot)
//! Start  | mixed                        | Found  | corpus: Passages(gold), retriever: Retrieve(question, k)
//! Start  | given, oracle; no passages   | end    | Refused
//! Found  | passages                     | Read   | generator: Generate(demonstrations, passages, question)
//! Read   | a text                       | end    | ranked: the passages; answer: behind "answer is", else all
//! any    | failure                      | end    | that failure
//! ```
//!
//! # Contexts
//! Passages stand in the prompt, and are ranked, in this order: the question's own text (IIRC), gold in path order,
//! candidates as the dataset lists them, hits. Mixed: what the retriever finds stands behind the gold passages, without
//! those that are gold. [`crate::Method::context_mode`] tells the contexts apart. A query without a word finds nothing.
//!
//! # Paper and code
//! `query_words`, `shown_words`, `longest_passage`, `near_duplicates` and `packing` are rules of IRCoT's code; `as =
//! "code"` takes them all, `packing` as for Codex.

mod parameters;
mod read;

use crate::few_shot::{self, FewShotForm, FewShotPrompt};
use crate::fragment::Fragment;
use crate::machine::{
    ChunkList, ContextMode, Machine, Method, MethodError, MethodSetting, PromptWording, Question, ServiceUse,
};
use crate::registry::{ConfigurableMethod, MethodInfo, at_least_one};
use crate::request::{PassageId, RequestKind};
use crate::title_scope::{self, TitleScope};
use parameters::OneStepQaParameters;
use std::collections::BTreeSet;
use std::sync::Arc;

/// One configuration.
pub(crate) struct OneStepQa {
    settings: Arc<OneStepQaSettings>,
}

struct OneStepQaSettings {
    parameters: OneStepQaParameters,
    prompt: FewShotPrompt,
    scope: Option<TitleScope>,
}

const KIND: &str = "one_step_qa";

fn bad_value(parameter: &'static str, found: impl ToString, allowed: &'static str) -> MethodError {
    MethodError::Value { kind: KIND, parameter, found: found.to_string(), allowed }
}

impl ConfigurableMethod for OneStepQa {
    const INFO: MethodInfo = MethodInfo {
        kind: KIND,
        description: "A language model reads the passages found for the question, or given ones, and answers",
        paper: "IRCoT (Trivedi et al., 2023), section 4.1: OneR QA; EfficientRAG (Zhuang et al., 2024), section 2.1",
        parameters: parameters::DOCUMENTATION,
    };

    const AS_CODE: &'static [(&'static str, &'static str)] = &[
        ("query_words", "\"without_question_words\""),
        ("shown_words", "350"),
        ("longest_passage", "600"),
        ("near_duplicates", "90"),
        ("packing", "\"each_and_one_more\""),
    ];

    type Parameters = OneStepQaParameters;

    fn new(parameters: OneStepQaParameters, _: &MethodSetting) -> Result<Self, MethodError> {
        at_least_one(KIND, "k", parameters.k)?;
        if parameters.context == ContextMode::Closed {
            return Err(bad_value("context", "\"closed\"", "must be open, given, oracle or mixed"));
        }
        if parameters.retrieves() && parameters.retriever.is_none() {
            return Err(bad_value("retriever", "nothing", "must name a retriever for open and mixed contexts"));
        }
        let form = FewShotForm {
            style: parameters.style,
            with_passages: true,
            distractors: parameters.distractors,
            instruction: parameters.instruction.clone(),
            title_label: parameters.title_label.clone(),
            shown_words: parameters.shown_words,
            context_tokens: parameters.context_tokens,
            max_tokens: parameters.max_tokens,
            packing: parameters.packing,
        };
        let services = (parameters.title_retriever.as_ref(), &parameters.generator);
        title_scope::check_demonstrations(KIND, services.0, parameters.title_demonstrations.as_ref())?;
        let asked = (parameters.titles, parameters.title_prompt.as_deref());
        let named = parameters.title_demonstrations.as_ref().unwrap_or(&parameters.demonstrations);
        let shown = (named, parameters.demonstration_ids.as_deref());
        let scope = TitleScope::new(KIND, services, asked, shown, &form)?;
        if let (Some(scope), false) = (&scope, parameters.context == ContextMode::Open) {
            return Err(bad_value("title_retriever", scope.retriever(), "must be left out unless context = \"open\""));
        }
        let ids = parameters.demonstration_ids.as_deref();
        let prompt = FewShotPrompt::new(KIND, &parameters.demonstrations, ids, form)?;
        Ok(Self { settings: Arc::new(OneStepQaSettings { parameters, prompt, scope }) })
    }
}

impl Method for OneStepQa {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn version(&self) -> u32 {
        3
    }

    fn context_mode(&self) -> ContextMode {
        self.settings.parameters.context
    }

    fn chunk_list(&self) -> Option<ChunkList> {
        // Of other contexts the ranking has passages that no retrieval found.
        (self.settings.parameters.context == ContextMode::Open).then_some(ChunkList::Ranking)
    }

    fn gives_answers(&self) -> bool {
        true
    }

    fn reads_gold(&self) -> bool {
        matches!(self.settings.parameters.context, ContextMode::Oracle | ContextMode::Mixed)
    }

    fn most_ranked(&self) -> Option<u32> {
        let OneStepQaParameters { context, k, .. } = self.settings.parameters;
        // The question's own text may be a passage.
        (context == ContextMode::Open).then_some(k.saturating_add(1))
    }

    fn most_requests(&self) -> Option<Vec<(RequestKind, u64)>> {
        let OneStepQaSettings { parameters, scope, .. } = &*self.settings;
        let titles = if scope.is_some() { u64::from(parameters.titles) } else { 0 };
        Some(vec![
            (RequestKind::Passages, u64::from(parameters.looks_up())),
            (RequestKind::Retrieve, u64::from(parameters.retrieves()) + titles),
            (RequestKind::Generate, 1 + u64::from(scope.is_some())),
        ])
    }

    fn wording(&self) -> Option<PromptWording> {
        let OneStepQaSettings { parameters, prompt, scope } = &*self.settings;
        let is_own = parameters.instruction.is_empty() && parameters.title_prompt.is_none();
        let titles = scope.as_ref().map(TitleScope::words).unwrap_or_default();
        let sets = [Some(&parameters.demonstrations), parameters.title_demonstrations.as_ref()];
        Some(few_shot::wording(sets.into_iter().flatten(), is_own, [prompt.words(), titles].concat()))
    }

    fn fragments(&self) -> Vec<Fragment> {
        let OneStepQaSettings { prompt, scope, .. } = &*self.settings;
        prompt.fragments().chain(scope.iter().flat_map(TitleScope::fragments)).cloned().collect()
    }

    fn service_uses(&self) -> Vec<ServiceUse> {
        let OneStepQaParameters { retriever, generator, corpus, title_retriever, .. } = &self.settings.parameters;
        let parameters = &self.settings.parameters;
        let retriever = retriever.iter().filter(|_| parameters.retrieves());
        let retriever = retriever.map(|name| ServiceUse::new("retriever", name, RequestKind::Retrieve));
        let corpus = parameters.looks_up().then(|| ServiceUse::new("corpus", corpus, RequestKind::Passages));
        let titles = title_retriever.iter().map(|name| ServiceUse::new("title_retriever", name, RequestKind::Retrieve));
        let generator = ServiceUse::new("generator", generator, RequestKind::Generate);
        retriever.chain(corpus).chain(titles).chain([generator]).collect()
    }

    fn start(&self, question: &Question) -> Box<dyn Machine> {
        let parameters = &self.settings.parameters;
        let lookups = match parameters.context {
            ContextMode::Given => question.candidates.clone(),
            ContextMode::Oracle | ContextMode::Mixed => gold_passages(&question.gold),
            ContextMode::Open | ContextMode::Closed => Vec::new(),
        };
        Box::new(read::OneStepQaMachine::new(Arc::clone(&self.settings), question, lookups))
    }
}

/// One passage for each gold slot: the first one that no earlier slot has.
fn gold_passages(gold: &[Vec<PassageId>]) -> Vec<PassageId> {
    let mut taken = BTreeSet::new();
    gold.iter().filter_map(|slot| slot.iter().copied().find(|&passage| taken.insert(passage))).collect()
}
