//! `kind = "shuffled_links"`: the corpus's links with permuted targets, as a control of methods that follow links.
//!
//! Every passage keeps its number of links, and the permutation keeps the distribution of incoming links, but for links
//! that would lead to their own passage: these are dropped, as no passage links to itself. All links to one passage
//! lead to the same other passage. If a method still finds a passage, the links did not help it.

use super::service::{Availability, OpeningContext, Service, ServiceSettings, refuse_kind};
use super::sparse;
use crate::cache::ProgressReporter;
use crate::error::JobError;
use hopeval_corpus::{Corpus, PassageId};
use hopeval_methods::request::{self, Direction, LinksPayload};
use hopeval_methods::{Answer, AnswerWork, FailureKind, Request, RequestKind, RequestPayload, Response};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The keys of a `kind = "shuffled_links"` service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShuffledLinksSettings {
    /// Another seed exchanges other passages.
    #[serde(default)]
    pub seed: u64,
}

impl ServiceSettings for ShuffledLinksSettings {
    fn may_answer(&self, kind: RequestKind) -> bool {
        kind == RequestKind::Links
    }

    fn is_journalled(&self) -> bool {
        false
    }

    fn open(&self, opening: &OpeningContext<'_>) -> Result<Arc<dyn Service>, JobError> {
        Ok(Arc::new(ShuffledLinks::new(self, opening.corpus.len() as u32)))
    }
}

/// A permutation of a corpus's passages, both ways.
struct ShuffledLinks {
    /// Part of the fingerprint.
    definition: String,
    /// For each passage, the new target of links to it.
    instead: Vec<u32>,
    /// The inverse of `instead`.
    origin: Vec<u32>,
}

impl ShuffledLinks {
    /// The permutation for a corpus of `passages`; the same on every machine.
    fn new(settings: &ShuffledLinksSettings, passages: u32) -> Self {
        let mut draws = blake3::Hasher::new_derive_key("hopeval shuffled links 1")
            .update(&settings.seed.to_le_bytes())
            .finalize_xof();
        let mut instead: Vec<u32> = (0..passages).collect();
        // Fisher and Yates. The bias of the remainder is at most one part in 2^32.
        for last in (1..instead.len()).rev() {
            let mut draw = [0; 8];
            draws.fill(&mut draw);
            instead.swap(last, (u64::from_le_bytes(draw) % (last as u64 + 1)) as usize);
        }
        let mut origin = vec![0; instead.len()];
        for (from, &to) in (0..passages).zip(&instead) {
            origin[to as usize] = from;
        }
        Self { definition: sparse::service_definition("shuffled_links", settings), instead, origin }
    }
}

impl Service for ShuffledLinks {
    fn probe(&self, _: &Corpus, _: ProgressReporter<'_>) -> Result<Availability, JobError> {
        Ok(Availability { answers: vec![RequestKind::Links], ..sparse::retriever_availability(&self.definition, None) })
    }

    fn answer(&self, corpus: &Corpus, request: &Request) -> Response {
        let RequestPayload::Links(LinksPayload { passage, direction, .. }) = &request.ask else {
            return refuse_kind(request);
        };
        let asked = PassageId(passage.0);
        if !corpus.contains(asked) {
            return Response::failure(FailureKind::Refused, format!("no passage {}", passage.0));
        }
        let found: Vec<u32> = match direction {
            Direction::Outgoing => corpus.links(asked).iter().map(|to| self.instead[to.0 as usize]).collect(),
            Direction::Incoming => {
                corpus.linked_from(PassageId(self.origin[asked.0 as usize])).iter().map(|from| from.0).collect()
            }
        };
        // A passage never links to itself.
        let others = found.into_iter().filter(|&other| other != asked.0);
        Response::answer(Answer::Links(others.map(request::PassageId).collect()), AnswerWork::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::services::conformance::{Effect, ServiceKind, check_kind, corpus, settings};

    #[test]
    fn shuffled_links_conforms() {
        let links = |direction| LinksPayload { passage: request::PassageId(3), direction, read: false }.into();
        check_kind(&ServiceKind {
            kind: "shuffled_links",
            asks: vec![links(Direction::Outgoing), links(Direction::Incoming)],
            settings: settings(Effect::Answers, &["seed = 7"]),
            ..ServiceKind::default()
        });
    }

    #[test]
    fn links_that_would_lead_to_their_own_passage_are_dropped() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let corpus = corpus(dir.path());
        let linked = corpus.links(PassageId(0));
        assert_eq!(linked.len(), 1);
        let links_found = |leads_back: bool| {
            let of_seed = |seed| ShuffledLinks::new(&ShuffledLinksSettings { seed }, corpus.len() as u32);
            let is_meant = |one: &ShuffledLinks| (one.instead[linked[0].0 as usize] == 0) == leads_back;
            let shuffled = (0..100).map(of_seed).find(is_meant).expect("one seed in eight leads back");
            let ask = LinksPayload { passage: request::PassageId(0), direction: Direction::Outgoing, read: false };
            let response = shuffled.answer(&corpus, &Request::new(&"links".into(), ask));
            let Ok(Answer::Links(links)) = response.result else { panic!("{response:?}") };
            links.len()
        };
        assert_eq!([false, true].map(links_found), [1, 0]);
    }

    #[test]
    fn a_seed_is_one_permutation() {
        let of = |seed| ShuffledLinks::new(&ShuffledLinksSettings { seed }, 1000);
        let (first, other) = (of(1), of(2));
        assert_eq!(first.instead, of(1).instead);
        assert_ne!(first.instead, other.instead);
        let mut sorted = first.instead.clone();
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..1000), "each passage once");
        assert!((0..1000).all(|p| first.origin[first.instead[p] as usize] == p as u32));
        let kept = first.instead.iter().enumerate().filter(|&(from, &to)| from == to as usize).count();
        assert!(kept < 10, "{kept} passages stay where they are");
        assert!(ShuffledLinks::new(&ShuffledLinksSettings { seed: 1 }, 0).instead.is_empty());
    }
}
