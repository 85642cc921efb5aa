//! `migres`: a language model says what it still needs to know, and is shown that.
//!
//! MIGRES (Wang et al., 2024, section 3). The *leaf* module draws statements from the passages found for
//! the queries of a round, with citations that may be checked by entailment. The *main* module answers the question by
//! the statements alone, or says what is missing. The *query* module writes the queries of the next round. Passages are
//! kept by a cross-encoder's relevance and cut down to their relevant sentences; where none is left, the model writes
//! what it knows itself (*forward*). The memory keeps passages and queries from coming again. After the last round the
//! *final* module answers with what is known, and with its own knowledge.
//!
//! ```text
//! state           | responses                 | next            | asks or ends with
//! ----------------+---------------------------+-----------------+---------------------------------------------------
//! Start           | none                      | Searched        | search: Retrieve(question), and of the mixture
//! Searched        | hits; some are too few    | Repeated        | search: Retrieve(`retry_prefix` + query) for those
//! Searched or     | hits                      | Ranked          | rerank: Rerank(query, all passages) for each query
//!   Repeated      | hits; no passage at all   | (Filtered)      |
//! Ranked          | relevances; whole         | (Filtered)      |
//! Ranked          | relevances; sentences     | SentencesRanked | sentences: Rerank(query, sentences) of the best
//! SentencesRanked | relevances                | (Filtered)      |
//! Ranked or       | relevances, short texts;  | Compressed      | summ or snippet: Generate(passage, query) for as
//!   Compressed    |   summ, snippet           |                 |   many as are still to be shown
//! Compressed      | no candidate or no place  | (Filtered)      |
//! (Filtered)      | pieces; `iterations` = 0  | Finished        | final: Generate(pieces, question) x draws
//! (Filtered)      | pieces                    | Extracted       | leaf: Generate(pieces, queries) x draws
//! (Filtered)      | no pieces; `forward`      | Forwarded       | forward: Generate(query)
//! (Filtered)      | no pieces                 | (Learnt)        |
//! Forwarded       | texts                     | (Filtered)      |
//! Forwarded       | texts; all are refused    | (Learnt)        |
//! Extracted       | statements; `entailer`    | Entailed        | entail: Entail(cited piece, statement) each
//! Extracted       | statements                | (Learnt)        |
//! Entailed        | probabilities             | (Learnt)        |
//! (Learnt)        | the last round            | Finished        | final: Generate(known, question) x draws
//! (Learnt)        | the last; nothing new;    | end             | no answer, as in the authors' code
//!                 |   `barren_end` is lose    |                 |
//! (Learnt)        | nothing new; `skip_main`  | Queried         | query: Generate(question, history, known, missing)
//! (Learnt)        | otherwise                 | Judged          | main: Generate(known, question) x draws
//! Judged          | answerable                | end             | the answer
//! Judged          | not answerable, or unread | Queried         | query: Generate(question, history, known, missing)
//! Queried         | queries; or the question  | Searched        | search: Retrieve(query) for each
//! Finished        | an answer                 | end             | the answer
//! Finished        | unread                    | end             | failed: parse_failure with the text
//! (any)           | a failure                 | end             | that failure
//! ```
//!
//! States in brackets are passed through. A round is one of retrieval; the first has the question itself, so there are
//! at most `iterations` + 1, as in the code.
//!
//! # Paper and code
//! The parameters with another value in the authors' code are those of `as = "code"`; what each does is documented with
//! it. The code does not run as it was published; its behaviour is what it is meant to do. It gives no answer to a
//! question whose last round found nothing new, and its evaluation leaves such a question out (`barren_end = "lose"`);
//! here it is answered. The order of the leaf module's queries is that of a Python set there, here that in which they
//! were asked. The code's list of words of refusal is longer than the two known ones. Votes of several draws are the
//! code's; `clusters.rs` says how its clusters are found. Wordings, `json` and `system` are not the authors'.

mod choices;
mod clusters;
mod documentation;
mod kinship;
mod literal;
mod machine;
mod memory;
mod parameters;
mod prompts;
mod reply;
mod requests;
mod retrieval;
mod voting;

use crate::fragment::Fragment;
use crate::machine::{ContextMode, Machine, Method, MethodError, MethodSetting, PromptWording, Question, ServiceUse};
use crate::registry::{ConfigurableMethod, MethodInfo};
use crate::request::RequestKind;
use choices::{ForwardQueries, KnowledgeForm};
use parameters::MigresParameters;
use prompts::ModulePrompts;
use requests::MigresSettings;
use std::sync::Arc;

const KIND: &str = "migres";

/// One configuration.
pub(crate) struct Migres {
    settings: Arc<MigresSettings>,
}

impl ConfigurableMethod for Migres {
    const INFO: MethodInfo = MethodInfo {
        kind: KIND,
        description: "A language model draws statements from passages, and asks for what is missing",
        paper: "MIGRES (Wang et al., 2024), section 3",
        parameters: documentation::DOCUMENTATION,
    };

    type Parameters = MigresParameters;

    const AS_CODE: &'static [(&'static str, &'static str)] = parameters::AS_CODE;

    fn new(parameters: MigresParameters, _: &MethodSetting) -> Result<Self, MethodError> {
        parameters.check_values()?;
        let prompts = ModulePrompts::new(&parameters)?;
        Ok(Self { settings: Arc::new(MigresSettings { parameters, prompts }) })
    }
}

impl Method for Migres {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn version(&self) -> u32 {
        5
    }

    fn context_mode(&self) -> ContextMode {
        ContextMode::Open
    }

    fn has_form(&self) -> bool {
        true
    }

    fn gives_answers(&self) -> bool {
        true
    }

    fn most_ranked(&self) -> Option<u32> {
        let MigresParameters { iterations, passages, .. } = self.settings.parameters;
        Some(passages.saturating_mul(iterations.saturating_add(1)))
    }

    fn most_requests(&self) -> Option<Vec<(RequestKind, u64)>> {
        let parameters = &self.settings.parameters;
        let [iterations, most_queries, passages, draws] =
            [parameters.iterations, parameters.most_queries, parameters.passages, parameters.draws].map(u64::from);
        let rounds = iterations + 1;
        let queries = 1 + iterations * most_queries;
        let searches =
            (1 + u64::from(parameters.mixture.is_some())) * (1 + u64::from(!parameters.retry_prefix.is_empty()));
        let sentences = if parameters.knowledge == KnowledgeForm::Sentences { rounds * passages } else { 0 };
        let compressions = match parameters.knowledge {
            KnowledgeForm::Summ | KnowledgeForm::Snippet => rounds * u64::from(parameters.most_compressed),
            KnowledgeForm::Sentences | KnowledgeForm::Whole => 0,
        };
        let forwards = match (parameters.forward, parameters.forward_queries) {
            (false, _) => 0,
            (true, ForwardQueries::First) => rounds,
            (true, ForwardQueries::Each) => queries,
        };
        // A forward text of each query may be cited, too.
        let cited = passages.max(most_queries);
        let statements = u64::from(parameters.most_infos) * draws;
        let entailments = if parameters.entailer.is_some() { rounds * statements * cited } else { 0 };
        Some(vec![
            (RequestKind::Retrieve, queries * searches),
            (RequestKind::Rerank, queries + sentences),
            (RequestKind::Entail, entailments),
            // Leaf and main or final in each round, and the queries of each but the last.
            (RequestKind::Generate, compressions + forwards + 2 * rounds * draws + iterations),
        ])
    }

    fn wording(&self) -> Option<PromptWording> {
        Some(self.settings.prompts.wording())
    }

    fn fragments(&self) -> Vec<Fragment> {
        self.settings.prompts.fragments()
    }

    fn service_uses(&self) -> Vec<ServiceUse> {
        let MigresParameters { retriever, mixture, reranker, sentence_reranker, generator, entailer, .. } =
            &self.settings.parameters;
        let generate = ServiceUse::new("generator", generator, RequestKind::Generate)
            .with_json_if(self.settings.parameters.json)
            .with_sampling(&self.settings.parameters.token_sampling());
        let mut uses = vec![ServiceUse::new("retriever", retriever, RequestKind::Retrieve)];
        uses.extend(mixture.iter().map(|service| ServiceUse::new("mixture", service, RequestKind::Retrieve)));
        uses.push(ServiceUse::new("reranker", reranker, RequestKind::Rerank));
        uses.extend(
            sentence_reranker.iter().map(|service| ServiceUse::new("sentence_reranker", service, RequestKind::Rerank)),
        );
        uses.push(generate);
        uses.extend(entailer.iter().map(|service| ServiceUse::new("entailer", service, RequestKind::Entail)));
        uses
    }

    fn start(&self, question: &Question) -> Box<dyn Machine> {
        Box::new(machine::MigresMachine::new(Arc::clone(&self.settings), question))
    }
}
