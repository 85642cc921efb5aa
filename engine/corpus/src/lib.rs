//! Memory-mapped passage corpora.
//!
//! A corpus is a folder. [`CorpusBuilder`] builds it once; then every process maps it read-only by [`Corpus::open`].
//! Passages are addressed by [`PassageId`], their position in the corpus. Texts, titles, ids, sentence ends and links
//! are borrowed straight from the map.
//!
//! ```text
//! corpus.json        name, format version, digests, counts, settings, sources, link origin   (CorpusInfo)
//! passages.arrow     id, title, text, sentence ends; Arrow IPC, a fixed number of rows per batch
//! links.arrow        for each passage its outgoing links: target, start and end of the anchor
//! backlinks.arrow    for each passage the passages linking to it
//! aliases.arrow      external ids of dropped duplicates and their kept passages
//! ids.lookup         hash table over external ids and aliases
//! titles.lookup      hash table over titles; folded.lookup: over folded titles; contents.lookup: over title and text
//! ```
//!
//! This crate reads no dataset format, runs no query and spawns no thread. It must not depend on timely, tokio,
//! parquet, object_store or any crate of `jobs`.

#[cfg(not(target_endian = "little"))]
compile_error!("corpora are mapped as they lie on disk, which is little-endian");

mod builder;
mod corpus;
mod digest;
mod error;
mod fold;
mod info;
mod lookup;
mod mapped;
mod mentions;
mod passage;
mod passages;
mod schema;
mod settings;
mod verify;

pub use builder::{BuildReport, CorpusBuilder};
pub use corpus::{Corpus, LinkAnchor};
pub use error::{BuildError, CorpusError};
pub use fold::fold_title;
pub use info::{CorpusCounts, CorpusInfo, FORMAT_VERSION, FileInfo, LinkOrigin};
pub use passage::{NewLink, NewPassage, PassageId};
pub use settings::{CorpusSettings, CorpusSource, DuplicatePolicy, LinkSource};
