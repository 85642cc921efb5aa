//! The corpus service of every job: its passages and links. Also writes out passages for models.

use super::fragments::FragmentTexts;
use super::replies;
use super::service::{Availability, Service, refuse_kind};
use crate::cache::ProgressReporter;
use crate::error::JobError;
use hopeval_corpus::{Corpus, PassageId};
use hopeval_index::{QueryRestriction, Statistics};
use hopeval_methods::request::{self, Direction, PassageSet};
use hopeval_methods::{
    Answer, AnswerWork, Content, Failure, FailureKind, PassageForm, Request, RequestKind, RequestPayload, Response,
};
use std::borrow::Cow;

/// Its name, reserved for it.
pub const CORPUS: &str = "corpus";

/// The service over a run's corpus. It computes nothing: its answers are look-ups in mapped memory.
pub(super) struct CorpusLookup;

impl Service for CorpusLookup {
    fn probe(&self, _: &Corpus, _: ProgressReporter<'_>) -> Result<Availability, JobError> {
        Ok(Availability { answers: vec![RequestKind::Passages, RequestKind::Links], ..Availability::default() })
    }

    fn answer(&self, corpus: &Corpus, request: &Request) -> Response {
        let ids = |found: Vec<PassageId>| found.into_iter().map(|p| request::PassageId(p.0)).collect::<Vec<_>>();
        let answer = match &request.ask {
            RequestPayload::Passages(asked) => Answer::Passages(ids(passages_of(corpus, &asked.passages))),
            RequestPayload::Links(links) => {
                let passage = PassageId(links.passage.0);
                if !corpus.contains(passage) {
                    return Response::failure(FailureKind::Refused, format!("no passage {}", links.passage.0));
                }
                let found = match links.direction {
                    Direction::Outgoing => corpus.links(passage),
                    Direction::Incoming => corpus.linked_from(passage),
                };
                Answer::Links(ids(found.to_vec()))
            }
            _ => return refuse_kind(request),
        };
        Response::answer(answer, AnswerWork::default())
    }
}

/// The passages of a set, without those missing from the corpus, in the requested order.
pub(super) fn passages_of(corpus: &Corpus, set: &PassageSet) -> Vec<PassageId> {
    match set {
        PassageSet::Ids(ids) => ids.iter().map(|id| PassageId(id.0)).filter(|&id| corpus.contains(id)).collect(),
        PassageSet::Titles(titles) => titles.iter().flat_map(|title| corpus.by_title(title)).copied().collect(),
        PassageSet::FoldedTitles(titles) => {
            titles.iter().flat_map(|title| corpus.by_title_folded(title)).copied().collect()
        }
    }
}

/// A restriction of retrieval in an index's form: ids ascending, each once.
pub(super) fn index_restriction(corpus: &Corpus, within: &request::RetrievalRestriction) -> QueryRestriction {
    let mut ids: Vec<u32> = passages_of(corpus, &within.passages).into_iter().map(|id| id.0).collect();
    ids.sort_unstable();
    ids.dedup();
    let statistics = match within.statistics {
        request::Statistics::Corpus => Statistics::Corpus,
        request::Statistics::Restriction => Statistics::Restriction,
    };
    QueryRestriction { ids, statistics }
}

/// The text of a part of a prompt.
///
/// # Errors
/// [`FailureKind::Refused`] for a missing passage, sentence or fragment.
pub(super) fn content_text<'a>(
    corpus: &'a Corpus,
    fragments: &FragmentTexts,
    content: &'a Content,
) -> Result<Cow<'a, str>, Failure> {
    let known = |passage: &request::PassageId| {
        let id = PassageId(passage.0);
        let missing = || Failure { kind: FailureKind::Refused, message: format!("no passage {}", passage.0) };
        corpus.contains(id).then_some(id).ok_or_else(missing)
    };
    Ok(match content {
        Content::Text(text) => Cow::Borrowed(text),
        Content::Fragment(digest) => Cow::Owned(fragments.text(*digest)?.text().as_ref().to_owned()),
        Content::Passage { passage, form } => passage_text(corpus, known(passage)?, form),
        Content::Sentence { passage, sentence } => {
            let missing = || Failure {
                kind: FailureKind::Refused,
                message: format!("passage {} has no sentence {sentence}", passage.0),
            };
            let found = corpus.sentence(known(passage)?, *sentence as usize).ok_or_else(missing)?;
            Cow::Borrowed(found.trim())
        }
    })
}

/// A passage as text in the given form.
pub(super) fn passage_text<'a>(corpus: &'a Corpus, passage: PassageId, form: &PassageForm) -> Cow<'a, str> {
    let (title, text) = (corpus.title(passage), corpus.text(passage));
    match form {
        PassageForm::Text => Cow::Borrowed(text),
        PassageForm::TitleAndText { between } => Cow::Owned([title, between, text].concat()),
        PassageForm::TitleTwice { between } => Cow::Owned([title, between, title, between, text].concat()),
        PassageForm::Labelled { before, between } => Cow::Owned([before, title, between, text].concat()),
        PassageForm::MarkedSentences { mark, titled } => {
            let read = replies::passage_text(corpus, request::PassageId(passage.0));
            Cow::Owned(PassageForm::mark_sentences(mark, titled.then_some(title), read.sentence_texts()))
        }
    }
}
