//! `promptrank`: paths of linked passages, ranked by a language model's likelihood of the question after them.
//!
//! PromptRank (Khalifa et al., 2023, "Few-shot Reranking for Multi-hop QA via Language Model Prompting"), sections 2
//! and 3 and appendices B to D. The pool is the `pool` best passages of the retriever (TF-IDF with F = 100 in the
//! paper); each is scored alone. The best `first_hops` (K1) are expanded by their `links_per_passage` (L) links most
//! similar to the question. The paths are scored as wholes, the best `next_hops` (K2, …) of them expanded, and so on
//! until paths are `hops` (H) long. A document is as good as the best path with it.
//!
//! ```text
//! state    | responses                         | next     | asks or ends with
//! ---------+-----------------------------------+----------+---------------------------------------------------------
//! Start    | none                              | Pooled   | retriever: Retrieve(question, pool)
//! Pooled   | no hits                           | end      | ranked: nothing
//! Pooled   | hits                              | Scored   | Score(question) after each passage, in every context
//! Scored   | scores                            | expand   | the paths of this hop have scores
//! Scored   | no passage of the pool has one    | end      | failed: the first refusal
//! (expand) | paths are `hops` long, or no path | finish   |
//! (expand) | links of all last passages known  | extend   |
//! (expand) | otherwise                         | Linked   | Links(last passage) of the best paths
//! Linked   | links                             | Followed | link_ranker: Retrieve(question, all, within the links)
//! Linked   | no links at all                   | extend   |
//! Followed | hits                              | extend   | the links of a passage have an order
//! (extend) | each path, with its best links    | Scored   | Score(question) after each new path, in every context
//! (extend) | nothing is new                    | finish   |
//! (finish) | no reader, or no path             | end      | ranked and paths
//! (finish) | a reader                          | Read     | Read(question) in the `read_paths` best paths
//! Read     | spans                             | end      | ranked, paths, and the best span as answer
//! ```
//!
//! A *context* is one instruction with one set of demonstrations; all contexts of all paths of a hop are one round. No
//! request is sent twice: the links of a passage are ranked once for all paths with this end, and a path is scored once
//! (the authors' code scores 45 prompts for 15 paths). A path does not return to its passages, and links to these do
//! not use up L. A `link_ranker` decides: links that it does not return are not followed. Where the retriever ranks,
//! those follow the ranked ones, as equally similar: with statistics of one or two links TF-IDF weighs no word, and
//! returns none.
//!
//! # Scores
//! Of a path in a context: the mean (or sum) over the question's tokens of their log-probability at `temperature`, the
//! divisor of the logits. Of a path: the contexts' scores combined (`ensemble`). See [`likelihood`]. Rankings are total
//! orders: higher scores first, then by `ties` smaller passage ids, for paths compared from the first hop, or what the
//! search met first.
//!
//! # Failures
//! A failed retrieval ends in that failure. So does an indeterminate failure of any request, and a service with
//! nonsense for an answer. If any context of a path is refused in every run (it does not fit, the service refuses), the
//! path has no score: it is left out and not expanded. Passages of the pool without a score follow after all scored
//! ones, in the retriever's order. If no passage has a score, the question fails with the first refusal. Links with a
//! failure in every run are no links. A path refused by the reader in every run is not read; if the reader refuses all
//! paths, the question fails.
//!
//! # Paper and code
//! Defaults are the paper's. `as = "code"` takes what only the authors' code has:
//!
//! | parameter | the code |
//! | --- | --- |
//! | `ensemble`, `next_ensemble` | `mean`: the default of its command line; from the second hop on always |
//! | `overflow` | `right`: too long a prompt loses its instruction |
//! | `question_mark` | true: every scored question ends with one |
//! | `link_ties`, `ties` | `later`, `pool`: the orders of its `argsort` and of its dict |
//! | `read_form`, `span_text`, `max_answer_tokens` | `mdr`, `final_text`, 31: the reader is MDR's |
//!
//! `titles = "first_hop"`, `demonstration_tokens = 100` and `path_order = "inverted"` are options there, and
//! `question_prefix = " "` is its form for decoders. With token-level ensembles the code divides by the temperature
//! twice: square it. Some of what the authors ran is no parameter of this method: the links are ranked by a service of
//! kind `link_tfidf`, named as `link_ranker`; the pool comes from a `tfidf` over the texts alone (`fields = "text"`,
//! `normalisation = "none"`); answer recall is that of the code with `answer_recall_at` and that of the paper with
//! `bridge_answer_recall_at`; the questions of its older evaluation are those of `missing_gold =
//! "leave_out_as_promptrank"`.
//!
//! Not kept, with an effect on figures: the code ends a text that was cut at `passage_tokens` with a full stop and a
//! space, and cuts the first passage of a path twice; it has two spaces before an instruction, which tells with
//! decoders alone (a whole prompt with `{passages}` can have them); it skips empty texts; its paths may return to their
//! first passage; its database drops links whose titles are not written exactly as pages', where this corpus folds
//! titles; MDR's own script weighs its rank head, and by 0.8; and answer recall looks at first
//! passages as they were cut. Its instructions are in its paper's table A1: `instructions = { file = "ten.json" }`
//! takes them from a file of yours, a JSON list of texts or of tables of `text` and `position`.

mod beam;
mod demonstrations;
mod documentation;
mod documents;
mod instructions;
mod likelihood;
mod parameters;
mod prompting;
mod reading;

use crate::machine::{ContextMode, Machine, Method, MethodError, MethodSetting, PromptWording, Question, ServiceUse};
use crate::registry::{ConfigurableMethod, MethodInfo};
use crate::request::RequestKind;
use parameters::PromptRankParameters;
use prompting::ScoringContext;
use std::sync::Arc;

/// The name in a job's `kind`.
const KIND: &str = "promptrank";

/// One configuration.
pub(crate) struct PromptRank(Arc<PromptRankSettings>);

/// Settings shared by all questions.
struct PromptRankSettings {
    parameters: PromptRankParameters,
    /// Each instruction with each set of demonstrations, no two alike.
    contexts: Vec<ScoringContext>,
}

impl ConfigurableMethod for PromptRank {
    const INFO: MethodInfo = MethodInfo {
        kind: KIND,
        description: "Paths of linked passages, ranked by the question's likelihood after them",
        paper: "PromptRank (Khalifa et al., 2023), sections 2 and 3",
        parameters: documentation::PARAMETERS,
    };

    const AS_CODE: &'static [(&'static str, &'static str)] = &[
        ("ensemble", "\"mean\""),
        ("next_ensemble", "\"mean\""),
        ("overflow", "\"right\""),
        ("question_mark", "true"),
        ("link_ties", "\"later\""),
        ("ties", "\"pool\""),
        ("read_form", "\"mdr\""),
        ("span_text", "\"final_text\""),
        ("max_answer_tokens", "31"),
    ];

    type Parameters = PromptRankParameters;

    fn new(parameters: PromptRankParameters, _: &MethodSetting) -> Result<Self, MethodError> {
        parameters.check()?;
        let contexts = prompting::scoring_contexts(&parameters)?;
        Ok(Self(Arc::new(PromptRankSettings { parameters, contexts })))
    }
}

impl Method for PromptRank {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn version(&self) -> u32 {
        2
    }

    fn check_new(&self) -> Result<(), MethodError> {
        self.0.parameters.check_new()
    }

    fn context_mode(&self) -> ContextMode {
        ContextMode::Open
    }

    fn gives_answers(&self) -> bool {
        self.0.parameters.reader.is_some()
    }

    fn service_uses(&self) -> Vec<ServiceUse> {
        let PromptRankParameters { retriever, links, link_ranker, scorer, reader, hops, .. } = &self.0.parameters;
        let service = ServiceUse::new;
        let mut used = vec![service("retriever", retriever, RequestKind::Retrieve)];
        if *hops > 1 {
            used.push(service("links", links, RequestKind::Links));
            used.extend(link_ranker.iter().map(|name| service("link_ranker", name, RequestKind::Retrieve)));
        }
        used.push(service("scorer", scorer, RequestKind::Score));
        used.extend(reader.iter().map(|name| service("reader", name, RequestKind::Read)));
        used
    }

    fn score_temperatures(&self) -> Vec<f64> {
        vec![self.0.parameters.temperature]
    }

    fn most_ranked(&self) -> Option<u32> {
        // A path adds one passage at most.
        let (paths, _) = self.most_paths();
        Some(u32::try_from(paths).unwrap_or(u32::MAX))
    }

    fn most_requests(&self) -> Option<Vec<(RequestKind, u64)>> {
        let PromptRankSettings { parameters, contexts } = &*self.0;
        let (paths, expanded) = self.most_paths();
        let mut most = vec![
            (RequestKind::Retrieve, expanded.saturating_add(1)),
            (RequestKind::Links, expanded),
            (RequestKind::Score, paths.saturating_mul(contexts.len() as u64)),
        ];
        if parameters.reader.is_some() {
            most.push((RequestKind::Read, paths.min(u64::from(parameters.read_paths))));
        }
        Some(most)
    }

    fn wording(&self) -> Option<PromptWording> {
        Some(PromptWording {
            origin: self.0.parameters.instructions.origin().into(),
            text: prompting::prompt_wording(&self.0),
        })
    }

    fn start(&self, question: &Question) -> Box<dyn Machine> {
        Box::new(beam::PromptRankMachine::new(Arc::clone(&self.0), &question.text))
    }
}

impl PromptRank {
    /// The most paths with a score, and the most of them that are expanded, of one question.
    fn most_paths(&self) -> (u64, u64) {
        let parameters = &self.0.parameters;
        let (mut paths, mut expanded) = (u64::from(parameters.pool), 0_u64);
        // Paths of the last hop.
        let mut last = paths;
        for hop in 1..parameters.hops {
            let beam = last.min(u64::from(parameters.paths_to_expand(hop)));
            last = beam.saturating_mul(u64::from(parameters.links_per_passage.at(hop)));
            expanded = expanded.saturating_add(beam);
            paths = paths.saturating_add(last);
        }
        (paths, expanded)
    }
}
