//! The settings of a corpus build, stored in its `corpus.json`.

use serde::{Deserialize, Serialize};

/// The settings of a corpus build.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CorpusSettings {
    /// The corpus's name in reports; empty: the name of its folder.
    pub name: String,
    /// Treatment of a passage with the title and text of an earlier one.
    pub duplicates: DuplicatePolicy,
    /// Source of the links.
    pub links: LinkSource,
    /// Maximum number of targets of a link to a title shared by several passages: the first ones in corpus order.
    ///
    /// Without this limit, corpora with articles cut into many passages would have quadratically many links.
    pub targets_per_title: u32,
    /// Rows in a record batch: a power of two from 1 to 32,768. The corpus's digest does not depend on it.
    pub batch_rows: u32,
}

impl Default for CorpusSettings {
    fn default() -> Self {
        Self {
            name: String::new(),
            duplicates: DuplicatePolicy::default(),
            links: LinkSource::default(),
            targets_per_title: 8,
            batch_rows: 16_384,
        }
    }
}

/// Treatment of a passage whose title and text are byte for byte those of an earlier one.
///
/// Passages with one title and different texts always both stay. One external id for two different passages is always
/// an error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DuplicatePolicy {
    /// It stays, as a passage of its own.
    KeepAll,
    /// It is dropped with its external id, sentences and links, but its id still finds the kept passage.
    #[default]
    DropExact,
    /// The build fails and names both.
    Error,
}

/// Source of a corpus's links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkSource {
    /// From hyperlinks if any passage has them, else from title mentions.
    #[default]
    Auto,
    /// From hyperlinks only; without any, the corpus has no links.
    Hyperlinks,
    /// From title mentions, regardless of hyperlinks.
    Mentions,
    /// Nowhere.
    None,
}

/// A source file of a corpus.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CorpusSource {
    /// The file's name, as the user knows it.
    pub name: String,
    /// Digest of its bytes, in the caller's notation.
    pub digest: String,
}
