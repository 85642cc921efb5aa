//! `kind = "tfidf"`: DrQA's hashed TF-IDF over the corpus. Its settings are the parameters of the index.

use super::sparse::word_service;
use hopeval_index::{TfidfIndex, TfidfParameters};

word_service!(TfidfIndex, TfidfParameters, "tfidf");

#[cfg(test)]
mod tests {
    use crate::services::conformance::{Effect, ServiceKind, check_kind, settings};
    use hopeval_methods::request::{PassageId, RetrievePayload, Statistics};

    #[test]
    fn tfidf_conforms() {
        let restricted = vec![PassageId(2), PassageId(5)];
        check_kind(&ServiceKind {
            kind: "tfidf",
            asks: vec![
                RetrievePayload::new("bridges of Ghent", 5).into(),
                RetrievePayload::new("city near Corin", 3).within(restricted, Statistics::Restriction).into(),
            ],
            settings: settings(
                Effect::Answers,
                &["fields = \"text\"", "ngrams = 1", "hash_bits = 12", "ties = \"later\"", "normalisation = \"none\""],
            ),
            ..ServiceKind::default()
        });
    }
}
