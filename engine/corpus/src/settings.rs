//! The choices that shape a corpus while it is built; they stand in its `corpus.json`.

use serde::{Deserialize, Serialize};

/// How a corpus is built.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CorpusSettings {
    /// The corpus's name in reports; empty: the name of its folder.
    pub name: String,
    /// What happens to a passage whose title and text were seen before.
    pub duplicates: Duplicates,
    /// Where links come from.
    pub links: LinkSource,
    /// A link to a title that several passages share goes to the first so many of them, in corpus order.
    ///
    /// Corpora that cut an article into many passages would otherwise have quadratically many links.
    pub targets_per_title: u32,
    /// Rows in a record batch: a power of two from 1 to 32,768. The corpus's digest does not depend on it.
    pub batch_rows: u32,
}

impl Default for CorpusSettings {
    fn default() -> Self {
        Self {
            name: String::new(),
            duplicates: Duplicates::default(),
            links: LinkSource::default(),
            targets_per_title: 8,
            batch_rows: 16_384,
        }
    }
}

/// What happens to a passage whose title and text are byte for byte those of an earlier one.
///
/// Passages with one title and different texts always both stay. One external id for two different passages is always
/// an error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Duplicates {
    /// It stays, as a passage of its own.
    KeepAll,
    /// It is dropped; its external id, sentences and links with it, but its id still finds the one that was kept.
    #[default]
    DropExact,
    /// The build fails and names both.
    Error,
}

/// Where links come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkSource {
    /// From hyperlinks if any passage has them, else from title mentions.
    #[default]
    Auto,
    /// From hyperlinks alone; a corpus without any then has no links.
    Hyperlinks,
    /// From title mentions, whatever hyperlinks there are.
    Mentions,
    /// Nowhere.
    None,
}

/// A file that a corpus was built from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// The file's name, as the user knows it.
    pub name: String,
    /// Digest of its bytes, in whatever notation the caller keeps.
    pub digest: String,
}
