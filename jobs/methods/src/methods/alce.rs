//! `alce`: readers with citations, which MIGRES compares itself with.
//!
//! ALCE (Gao et al., EMNLP 2023, section 3), with the re-ranking of MIGRES (Wang et al., 2024, section 4.2). A
//! cross-encoder ranks the passages found for the question, and a language model answers from the best ones with
//! citations such as [1]. The variants differ in the documents that it reads: passages (VANILLA), their relevant
//! sentences (VANILLA-s of MIGRES), summaries (SUMM) or copied parts (SNIPPET); RERANK writes several answers and takes
//! the one with the highest share of sentences that are entailed by the documents they cite.
//!
//! ```text
//! state           | responses                | next            | asks or ends with
//! ----------------+--------------------------+-----------------+-----------------------------------------------------
//! Start           | none                     | Retrieved       | search: Retrieve(question)
//! Retrieved       | hits                     | Ranked          | rerank: Rerank(question, all passages)
//! Retrieved       | no passage               | Answered        | reader: Generate(no documents, question)
//! Ranked          | relevances               | Answered        | reader: Generate(best passages, question) x draws
//! Ranked          | relevances; `sentences`  | SentencesRanked | sentences: Rerank(question, sentences) of the best
//! SentencesRanked | relevances               | Answered        | reader: Generate(sentences, question)
//! Ranked,         | relevances, short texts; | Compressed      | summ or snippet: Generate(passage, question) for as
//!   Compressed    |   `summ`, `snippet`      |                 |   many as are still to be shown
//! Compressed      | none left to ask about   | Answered        | reader: Generate(short texts, question)
//! Answered        | a text                   | end             | the answer without citations
//! Answered        | texts; `rerank`          | Entailed        | entail: Entail(documents, sentence) for each sentence
//! Entailed        | probabilities            | end             |   with citations; then the best supported answer
//! (any)           | a failure                | end             | that failure
//! ```
//!
//! # Paper and code
//! ALCE's code takes all documents as premise of a sentence with citations, ends with the empty text if no sentence is
//! entailed, and looks for "irrelevant" anywhere in a short text; `as = "code"` has these. A sentence without citations
//! is not entailed in either. Temperatures and lengths are those of ALCE's runs. ALCE asks for long answers; the prompt
//! here asks for short ones, since MIGRES compares by exact match.

mod citations;
mod machine;
mod parameters;
mod prompts;

use crate::fragment::Fragment;
use crate::machine::{ContextMode, Machine, Method, MethodError, MethodSetting, PromptWording, Question, ServiceUse};
use crate::registry::{ConfigurableMethod, MethodInfo};
use crate::request::RequestKind;
use parameters::{AlceParameters, ReaderVariant};
use prompts::AlceSettings;
use std::sync::Arc;

const KIND: &str = "alce";

/// One configuration.
pub(crate) struct Alce {
    settings: Arc<AlceSettings>,
}

impl ConfigurableMethod for Alce {
    const INFO: MethodInfo = MethodInfo {
        kind: KIND,
        description: "A language model answers from ranked passages, their sentences or summaries, with citations",
        paper: "ALCE (Gao et al., 2023), section 3; MIGRES (Wang et al., 2024), section 4.2",
        parameters: parameters::DOCUMENTATION,
    };

    type Parameters = AlceParameters;

    const AS_CODE: &'static [(&'static str, &'static str)] = parameters::AS_CODE;

    fn new(parameters: AlceParameters, _: &MethodSetting) -> Result<Self, MethodError> {
        parameters.check_values()?;
        Ok(Self { settings: Arc::new(AlceSettings::new(parameters)?) })
    }
}

impl Method for Alce {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn version(&self) -> u32 {
        2
    }

    fn context_mode(&self) -> ContextMode {
        ContextMode::Open
    }

    fn gives_answers(&self) -> bool {
        true
    }

    fn most_ranked(&self) -> Option<u32> {
        Some(self.settings.parameters.passages)
    }

    fn most_requests(&self) -> Option<Vec<(RequestKind, u64)>> {
        let parameters = &self.settings.parameters;
        let [passages, draws, sentences, compressed] =
            [parameters.passages, parameters.most_draws(), parameters.most_sentences, parameters.most_compressed]
                .map(u64::from);
        let if_variant = |variants: &[ReaderVariant], most: u64| {
            if variants.contains(&parameters.variant) { most } else { 0 }
        };
        Some(vec![
            (RequestKind::Retrieve, 1),
            (RequestKind::Rerank, 1 + if_variant(&[ReaderVariant::Sentences], passages)),
            (RequestKind::Generate, draws + if_variant(&[ReaderVariant::Summ, ReaderVariant::Snippet], compressed)),
            (RequestKind::Entail, if_variant(&[ReaderVariant::Rerank], draws * sentences)),
        ])
    }

    fn wording(&self) -> Option<PromptWording> {
        Some(self.settings.wording.clone())
    }

    fn fragments(&self) -> Vec<Fragment> {
        self.settings.fragments()
    }

    fn service_uses(&self) -> Vec<ServiceUse> {
        let AlceParameters { retriever, reranker, sentence_reranker, generator, entailer, .. } =
            &self.settings.parameters;
        let sentence_reranker = sentence_reranker.as_ref();
        let optional = [
            sentence_reranker.map(|service| ServiceUse::new("sentence_reranker", service, RequestKind::Rerank)),
            Some(ServiceUse::new("generator", generator, RequestKind::Generate)),
            entailer.as_ref().map(|service| ServiceUse::new("entailer", service, RequestKind::Entail)),
        ];
        let mut uses = vec![
            ServiceUse::new("retriever", retriever, RequestKind::Retrieve),
            ServiceUse::new("reranker", reranker, RequestKind::Rerank),
        ];
        uses.extend(optional.into_iter().flatten());
        uses
    }

    fn start(&self, question: &Question) -> Box<dyn Machine> {
        Box::new(machine::AlceMachine::new(Arc::clone(&self.settings), question))
    }
}
