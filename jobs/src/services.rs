//! Services: the indexes, models and look-ups behind the requests of methods.
//!
//! | file | does |
//! | --- | --- |
//! | [`service`] | the traits of every kind: its settings, and the opened service |
//! | [`corpus`] | look-ups in the mapped corpus of every job; passages as text |
//! | [`dataset_questions`] | the questions of the dataset, for services that know them by their ids |
//! | [`fragments`] | the texts that requests name by their digests |
//! | the kinds | one file each, listed in the table at the end of this file |
//! | `engine_prompt` | prompts in the engine's types |
//! | `sparse` | the common part of [`bm25`] and [`tfidf`]: an index of words |
//! | [`models`], [`model_list`] | finds language models by name; lists those of this machine |
//! | `conformance` | the rules for every kind, as a test |
//! | [`catalogue`] | all services of a run, with their fingerprints |
//! | [`key`], [`served`], [`replies`] | the identity of a request; its answer on the way; its answer for one asker |
//! | [`dispatcher`], [`thread`] | sends one worker's requests to their services; the thread of one service |
//! | [`answer_index`], `journal_reader`, [`record`] | known answers, in memory and in the journal |
//! | [`usage`] | the work of services, counted |
//! | `price_sum` | the prices of endpoints' answers, added where all have one |
//! | [`journal_sums`] | the work behind the answers that a run has journalled |
//!
//! A line of the table below declares the file of a kind and registers it, so a new kind is a file, a line, and a
//! section of `ops/docs/jobs.md`. `cargo fmt` does not see modules declared by a macro; `ops/format.sh` formats them,
//! too.

pub mod answer_index;
pub mod catalogue;
#[cfg(test)]
mod conformance;
pub mod corpus;
pub mod dataset_questions;
pub mod dispatcher;
mod engine_prompt;
pub mod fragments;
mod journal_reader;
pub mod journal_sums;
pub mod key;
pub mod model_list;
pub mod models;
pub(crate) mod price_sum;
pub mod record;
pub mod replies;
pub mod served;
pub mod service;
mod sparse;
pub mod thread;
mod timing;
mod true_nli;
pub mod usage;

use self::service::ServiceSettings;
use serde::{Deserialize, Serialize};

macro_rules! services {
    ($($(#[$documentation:meta])* $file:ident => $Variant:ident($Settings:ty),)*) => {
        $(pub mod $file;)*

        /// A `[service.NAME]` table: its kind (the name of the kind's file) and the settings of the kind.
        ///
        /// Its JSON is stored in the records of runs, and hashed into the fingerprints of retrievers.
        #[derive(Clone, Debug, Serialize, Deserialize)]
        #[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
        pub enum ServiceEntry {
            $($(#[$documentation])* $Variant($Settings),)*
        }

        /// The names of all kinds, as in jobs.
        pub const KINDS: &[&str] = &[$(stringify!($file)),*];

        impl ServiceEntry {
            /// The name of its kind.
            pub fn kind(&self) -> &'static str {
                match self {
                    $(Self::$Variant(_) => stringify!($file),)*
                }
            }

            /// Its settings.
            pub fn settings(&self) -> &dyn ServiceSettings {
                match self {
                    $(Self::$Variant(settings) => settings,)*
                }
            }

            /// Its settings, mutable.
            pub fn settings_mut(&mut self) -> &mut dyn ServiceSettings {
                match self {
                    $(Self::$Variant(settings) => settings,)*
                }
            }
        }
    };
}

services! {
    /// BM25 over the corpus.
    bm25 => Bm25(hopeval_index::Bm25Parameters),
    /// DrQA's hashed TF-IDF over the corpus.
    tfidf => Tfidf(hopeval_index::TfidfParameters),
    /// TF-IDF fitted on just a request's allowed passages, as PromptRank ranks the links of a passage.
    link_tfidf => LinkTfidf(link_tfidf::LinkTfidfSettings),
    /// The corpus's links, each redirected to another passage: a control.
    shuffled_links => ShuffledLinks(shuffled_links::ShuffledLinksSettings),
    /// Exact inner products of vectors from a language model; made and searched by all workers together.
    dense => Dense(dense::DenseSettings),
    /// The same with vectors of the user's own, from files.
    dense_vectors => DenseVectors(dense_vectors::DenseVectorsSettings),
    /// A language model. Its abilities depend on its checkpoint.
    lm => Lm(lm::LmSettings),
    /// A language model behind a server with OpenAI's HTTP interface.
    endpoint => Endpoint(hopeval_endpoint::EndpointSettings),
    /// A retriever behind a server with hopeval's own HTTP contract.
    http_retriever => HttpRetriever(http_retriever::HttpRetrieverSettings),
}
