//! Services: the indexes, models and look-ups that answer the requests of methods.
//!
//! | file | does |
//! | --- | --- |
//! | [`service`] | the face of every kind: its settings, and the opened service |
//! | [`corpus`] | look-ups in the mapped corpus, which every job has; how a passage is written out |
//! | the kinds | one file each: the table at the end of this file says what they are |
//! | `sparse` | what [`bm25`] and [`tfidf`] share: an index of words |
//! | [`models`] | finds language models by name |
//! | `conformance` | the rules that every kind keeps to, as a test |
//! | [`catalogue`] | all services of a run, with their fingerprints |
//! | [`key`], [`served`], [`replies`] | the identity of a request; its answer on the way; its answer as one asker reads it |
//! | [`desk`], [`thread`] | one worker's requests on their way; the thread of one service |
//! | [`shelf`], `archive`, [`record`] | answers that are known already, in memory and in the journal |
//! | [`usage`] | the work of services, counted |
//!
//! A line of the table below declares the file of a kind and enters it, so a new kind is a file, a line, and a section of
//! `ops/docs/jobs.md`. `cargo fmt` does not see modules that a macro declares; `ops/format.sh` formats them, too.

mod archive;
pub mod catalogue;
#[cfg(test)]
mod conformance;
pub mod corpus;
pub mod desk;
pub mod key;
pub mod models;
pub mod record;
pub mod replies;
pub mod served;
pub mod service;
pub mod shelf;
mod sparse;
pub mod thread;
mod timing;
pub mod usage;

use self::service::ServiceSettings;
use serde::{Deserialize, Serialize};

macro_rules! services {
    ($($(#[$documentation:meta])* $file:ident => $Variant:ident($Settings:ty),)*) => {
        $(pub mod $file;)*

        /// A `[service.NAME]` table: its kind, which is the name of the kind's file, and the settings of that kind.
        ///
        /// Its JSON is stored: in the records of runs, and hashed into the fingerprints of retrievers.
        #[derive(Clone, Debug, Serialize, Deserialize)]
        #[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
        pub enum ServiceEntry {
            $($(#[$documentation])* $Variant($Settings),)*
        }

        /// The names of all kinds, as jobs say them.
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

            /// Its settings, to be changed.
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
    /// TF-IDF fitted on just the passages that a request allows, as PromptRank ranks the links of a passage.
    link_tfidf => LinkTfidf(link_tfidf::LinkTfidfSettings),
    /// The corpus's links, each to another passage than it leads to: a control.
    shuffled_links => ShuffledLinks(shuffled_links::ShuffledLinksSettings),
    /// Exact inner products of vectors that a language model makes; made and searched by all workers together.
    dense => Dense(dense::DenseSettings),
    /// A language model: its checkpoint says what it answers.
    lm => Lm(lm::LmSettings),
}
