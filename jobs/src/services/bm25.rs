//! `kind = "bm25"`: BM25 over the corpus. Its settings are the parameters of the index.

use super::dataset_questions::DatasetQuestions;
use super::fragments::FragmentTexts;
use super::service::{OpeningContext, Services};
use super::sparse::{open_index, word_service};
use crate::cache::ProgressReporter;
use crate::error::JobError;
use crate::mode::TimingMode;
use crate::places::Places;
use hopeval_corpus::Corpus;
use hopeval_index::Bm25Index;
pub use hopeval_index::Bm25Parameters;
use std::sync::Arc;

word_service!(Bm25Index, Bm25Parameters, "bm25");

/// Opens the index itself, for searches without requests. A missing index is built. Errors call it `name`.
///
/// # Errors
/// A full disk, a corrupt or foreign index.
pub fn open_bm25(
    parameters: &Bm25Parameters,
    name: &str,
    corpus: &Arc<Corpus>,
    places: &Places,
    report: ProgressReporter<'_>,
) -> Result<Bm25Index, JobError> {
    let (cache, threads, opened) = (&places.cache, places.threads, &Services::new());
    let (mode, fragments, questions) = (TimingMode::default(), &FragmentTexts::default(), &DatasetQuestions::default());
    let opening = OpeningContext { name, corpus, cache, threads, mode, report, opened, fragments, questions };
    Ok(open_index(parameters, &opening)?.0)
}

#[cfg(test)]
mod tests {
    use crate::services::conformance::{Effect, ServiceKind, check_kind, settings};
    use hopeval_methods::request::{PassageId, RetrievePayload, Statistics};

    #[test]
    fn bm25_conforms() {
        let restricted = vec![PassageId(2), PassageId(5)];
        let mut cases =
            settings(Effect::Answers, &["analyzer = \"whitespace\"", "fields = \"text\"", "formula = \"atire\""]);
        cases.extend(settings(Effect::Answers, &["k1 = 1.2", "b = 0.75"]));
        // Only the formula `okapi` uses it.
        cases.extend(settings(Effect::MovesWithoutNeed, &["epsilon = 0.5"]));
        check_kind(&ServiceKind {
            kind: "bm25",
            asks: vec![
                RetrievePayload::new("bridges of Ghent", 5).into(),
                RetrievePayload::new("city near Corin", 3).within(restricted, Statistics::Corpus).into(),
            ],
            settings: cases,
            ..ServiceKind::default()
        });
    }
}
