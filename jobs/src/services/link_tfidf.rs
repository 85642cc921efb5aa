//! `kind = "link_tfidf"`: TF-IDF fitted on just a request's allowed passages, as PromptRank ranks the links of a
//! passage. It has no index.

use super::corpus;
use super::service::{Availability, OpeningContext, Service, ServiceSettings, refuse_kind};
use super::sparse;
use crate::cache::ProgressReporter;
use crate::error::JobError;
use hopeval_corpus::Corpus;
use hopeval_index::{Hit, link_tfidf};
use hopeval_methods::{AnswerWork, FailureKind, Request, RequestKind, RequestPayload, Response};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The keys of a `kind = "link_tfidf"` service: there are no keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkTfidfSettings {}

impl ServiceSettings for LinkTfidfSettings {
    fn may_answer(&self, kind: RequestKind) -> bool {
        kind == RequestKind::Retrieve
    }

    fn open(&self, _: &OpeningContext<'_>) -> Result<Arc<dyn Service>, JobError> {
        Ok(Arc::new(LinkTfidf { definition: sparse::service_definition("link_tfidf", self) }))
    }
}

/// The service.
struct LinkTfidf {
    definition: String,
}

impl Service for LinkTfidf {
    fn probe(&self, _: &Corpus, _: ProgressReporter<'_>) -> Result<Availability, JobError> {
        Ok(sparse::retriever_availability(&self.definition, None))
    }

    fn answer(&self, corpus: &Corpus, request: &Request) -> Response {
        let RequestPayload::Retrieve(asked) = &request.ask else { return refuse_kind(request) };
        let Some(within) = &asked.within else {
            return Response::failure(
                FailureKind::Refused,
                "link_tfidf ranks only what a request allows; it has no `within`",
            );
        };
        let passages = corpus::passages_of(corpus, &within.passages);
        let texts: Vec<(&str, &str)> = passages.iter().map(|&p| (corpus.title(p), corpus.text(p))).collect();
        let ranking = link_tfidf::rank(&asked.query, &texts).into_iter().take(asked.k as usize);
        sparse::ranking_response(
            ranking.map(|(i, score)| Hit { id: passages[i].0, score }).collect(),
            AnswerWork::default(),
        )
    }
}

#[cfg(test)]
mod tests {
    use crate::services::conformance::{ServiceKind, check_kind};
    use hopeval_methods::request::{PassageId, RetrievePayload, Statistics};

    #[test]
    fn link_tfidf_conforms() {
        let links = vec![PassageId(1), PassageId(3), PassageId(6)];
        check_kind(&ServiceKind {
            kind: "link_tfidf",
            asks: vec![RetrievePayload::new("bridges of Ghent", 2).within(links, Statistics::Restriction).into()],
            ..ServiceKind::default()
        });
    }
}
