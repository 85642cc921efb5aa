//! Retrieval by words, the common part of BM25 and TF-IDF: one index file over the corpus, searched in batches.

use super::corpus;
use super::service::{Availability, IndexState, OpeningContext, Service, refuse_kind};
use super::thread::{ServiceTask, ServiceThread};
use crate::cache::ProgressReporter;
use crate::error::JobError;
use hopeval_corpus::{Corpus, PassageId};
use hopeval_index::{Hit, IndexError, Passages, Query, SearchScratch};
use hopeval_methods::response::RetrievalHit as RankedPassage;
use hopeval_methods::{Answer, AnswerWork, Request, RequestKind, RequestPayload, Response, request};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Receiver;

/// Version of the answers. It rises when they change for other reasons than parameters.
const NUMERICS: &str = "f64 1";

/// An index of words over a corpus: a mapped file.
pub(super) trait WordIndex: Sized + Send + Sync + 'static {
    /// Its parameters.
    type Parameters: Serialize;

    /// Its kind of service.
    const KIND: &'static str;

    /// The name of its file: a hash of the corpus and of the parameters for building.
    fn key(digest: &str, parameters: &Self::Parameters) -> String;

    /// Builds the file.
    fn build(
        passages: &CorpusTexts<'_>,
        digest: &str,
        parameters: &Self::Parameters,
        path: &Path,
        threads: usize,
    ) -> Result<(), IndexError>;

    /// Maps the file.
    fn open(path: &Path, digest: &str, parameters: &Self::Parameters) -> Result<Self, IndexError>;

    /// Reads every byte of it.
    fn verify(&self) -> Result<(), IndexError>;

    /// The best passages for each query, in the order of the queries.
    fn search(&self, queries: &[Query<'_>], scratch: &mut SearchScratch) -> Vec<Vec<Hit>>;
}

/// Makes a kind of service from an index of words and its parameters.
macro_rules! word_service {
    ($index:ty, $parameters:ty, $kind:literal) => {
        impl $crate::services::service::ServiceSettings for $parameters {
            fn check(
                &self,
                _: $crate::services::service::OtherSettings<'_>,
            ) -> Result<(), $crate::services::service::SettingsError> {
                Ok(<$parameters>::check(self)?)
            }

            fn may_answer(&self, kind: hopeval_methods::RequestKind) -> bool {
                kind == hopeval_methods::RequestKind::Retrieve
            }

            fn open(
                &self,
                opening: &$crate::services::service::OpeningContext<'_>,
            ) -> Result<std::sync::Arc<dyn $crate::services::service::Service>, $crate::error::JobError> {
                $crate::services::sparse::open::<$index>(self, opening)
            }
        }

        impl $crate::services::sparse::WordIndex for $index {
            type Parameters = $parameters;

            const KIND: &'static str = $kind;

            fn key(digest: &str, parameters: &$parameters) -> String {
                <$index>::key(digest, parameters)
            }

            fn build(
                passages: &$crate::services::sparse::CorpusTexts<'_>,
                digest: &str,
                parameters: &$parameters,
                path: &std::path::Path,
                threads: usize,
            ) -> Result<(), hopeval_index::IndexError> {
                <$index>::build(passages, digest, parameters, path, threads).map(drop)
            }

            fn open(
                path: &std::path::Path,
                digest: &str,
                parameters: &$parameters,
            ) -> Result<Self, hopeval_index::IndexError> {
                <$index>::open(path, digest, parameters)
            }

            fn verify(&self) -> Result<(), hopeval_index::IndexError> {
                <$index>::verify(self)
            }

            fn search(
                &self,
                queries: &[hopeval_index::Query<'_>],
                scratch: &mut hopeval_index::SearchScratch,
            ) -> Vec<Vec<hopeval_index::Hit>> {
                <$index>::search(self, queries, scratch)
            }
        }
    };
}
pub(super) use word_service;

/// Opens a service over an index of words. A missing index is built.
///
/// # Errors
/// A full disk, a corrupt or foreign index.
pub(super) fn open<I: WordIndex>(
    parameters: &I::Parameters,
    opening: &OpeningContext<'_>,
) -> Result<Arc<dyn Service>, JobError> {
    let (index, path) = open_index::<I>(parameters, opening)?;
    Ok(Arc::new(WordRetriever { index, path, definition: service_definition(I::KIND, parameters) }))
}

/// Opens an index of words, and returns it with its file. A missing index is built.
///
/// # Errors
/// As [`open`].
pub(super) fn open_index<I: WordIndex>(
    parameters: &I::Parameters,
    opening: &OpeningContext<'_>,
) -> Result<(I, PathBuf), JobError> {
    let OpeningContext { name, corpus, cache, threads, report, .. } = opening;
    let failed = |source| JobError::Index { name: (*name).to_owned(), source };
    let digest = corpus.digest();
    let path = cache.ensure_folder("indexes")?.join(format!("{}.idx", I::key(digest, parameters)));
    if !path.is_file() {
        report(&format!("index {name}"), 0);
        I::build(&CorpusTexts(corpus), digest, parameters, &path, *threads).map_err(failed)?;
        report(&format!("index {name}"), corpus.len() as u64);
        tracing::info!(service = name, passages = corpus.len(), "an index is built");
    }
    let index = I::open(&path, digest, parameters).map_err(failed)?;
    cache.verify_once(&path, || index.verify()).map_err(failed)?;
    Ok((index, path))
}

/// The table of a service in a job, with every default filled in.
pub(super) fn service_definition(kind: &'static str, settings: &impl Serialize) -> String {
    #[derive(Serialize)]
    struct Definition<'a, S> {
        kind: &'static str,
        #[serde(flatten)]
        settings: &'a S,
    }
    serde_json::to_string(&Definition { kind, settings }).expect("plain data can be written as JSON; this is a bug")
}

/// The facts about a retriever identified by its definition. Its index, if any, exists.
pub(super) fn retriever_availability(definition: &str, index: Option<IndexState>) -> Availability {
    let identity = vec![definition.to_owned(), NUMERICS.to_owned()];
    Availability { answers: vec![RequestKind::Retrieve], identity, index, ..Availability::default() }
}

/// A service over an index of words.
struct WordRetriever<I> {
    index: I,
    path: PathBuf,
    definition: String,
}

impl<I: WordIndex> WordRetriever<I> {
    /// Answers a batch, in its order.
    fn retrieve_batch(&self, corpus: &Corpus, requests: &[&Request], scratch: &mut SearchScratch) -> Vec<Response> {
        let asked = requests.iter().map(|request| match &request.ask {
            RequestPayload::Retrieve(asked) => Ok(asked),
            _ => Err(Box::new(refuse_kind(request))),
        });
        let asked: Vec<_> = asked.collect();
        let queries = asked.iter().flatten().map(|asked| {
            let within = asked.within.as_ref().map(|within| corpus::index_restriction(corpus, within));
            Query { text: &asked.query, k: asked.k as usize, within }
        });
        let mut found = self.index.search(&queries.collect::<Vec<_>>(), scratch).into_iter();
        let answered = asked.iter().map(|asked| match asked {
            Ok(_) => ranking_response(found.next().unwrap_or_default(), AnswerWork::default()),
            Err(refused) => Response::clone(refused),
        });
        answered.collect()
    }
}

impl<I: WordIndex> Service for WordRetriever<I> {
    fn probe(&self, _: &Corpus, _: ProgressReporter<'_>) -> Result<Availability, JobError> {
        let bytes = self.path.metadata().map_or(0, |file| file.len());
        let index = IndexState { path: self.path.clone(), bytes, passages_to_embed: 0 };
        Ok(retriever_availability(&self.definition, Some(index)))
    }

    fn serve(&self, thread: &ServiceThread, tasks: &Receiver<ServiceTask>) {
        let mut scratch = SearchScratch::default();
        thread.serve_batches(tasks, |requests| (self.retrieve_batch(&thread.corpus, requests, &mut scratch), 0));
    }

    fn answer(&self, corpus: &Corpus, request: &Request) -> Response {
        self.retrieve_batch(corpus, &[request], &mut SearchScratch::default()).remove(0)
    }
}

/// The response with these hits.
pub(super) fn ranking_response(hits: Vec<Hit>, work: AnswerWork) -> Response {
    let ranked = |hit: Hit| RankedPassage { passage: request::PassageId(hit.id), score: hit.score };
    Response::answer(Answer::Retrieve(hits.into_iter().map(ranked).collect()), work)
}

/// The corpus, for building an index.
pub(super) struct CorpusTexts<'a>(&'a Corpus);

impl Passages for CorpusTexts<'_> {
    fn len(&self) -> u32 {
        // A corpus has at most u32::MAX passages: its ids are u32.
        self.0.len() as u32
    }

    fn title(&self, id: u32) -> &str {
        self.0.title(PassageId(id))
    }

    fn text(&self, id: u32) -> &str {
        self.0.text(PassageId(id))
    }
}
