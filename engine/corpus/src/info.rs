//! `corpus.json`: what a corpus is, without looking at its passages.

use std::{fs, io::ErrorKind, path::Path};

use serde::{Deserialize, Serialize};

use crate::{
    digest,
    error::CorpusError,
    settings::{CorpusSettings, Source},
};

/// Version of the folder's format; it changes with every incompatible change of a file's layout or of a stated rule.
pub const FORMAT_VERSION: u64 = 1;

/// Name of the description within the folder.
pub(crate) const INFO_FILE: &str = "corpus.json";

/// What a corpus is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CorpusInfo {
    /// Version of the format, [`FORMAT_VERSION`].
    pub version: u64,
    /// Name in reports.
    pub name: String,
    /// BLAKE3 over the three digests below: identifies all that a corpus can answer.
    pub digest: String,
    /// BLAKE3 over ids, titles, texts and sentence ends, in order: identifies what an index can see.
    pub passages_digest: String,
    /// BLAKE3 over the origin of links and all links, in order.
    pub links_digest: String,
    /// BLAKE3 over the ids of dropped duplicates and what they stand for.
    pub aliases_digest: String,
    /// Where the links come from.
    pub link_origin: LinkOrigin,
    /// How many there are of everything.
    pub counts: Counts,
    /// The settings it was built with.
    pub settings: CorpusSettings,
    /// The files it was built from.
    pub sources: Vec<Source>,
    /// The files it consists of.
    pub files: Vec<FileInfo>,
}

/// Where the links of a corpus come from. Figures that used links say so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkOrigin {
    /// Hyperlinks of the source.
    Hyperlinks,
    /// Titles found in texts.
    TitleMentions,
    /// There are none.
    None,
}

impl LinkOrigin {
    /// The name in files and reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hyperlinks => "hyperlinks",
            Self::TitleMentions => "title_mentions",
            Self::None => "none",
        }
    }
}

/// How many there are of everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counts {
    /// Passages that were handed in.
    pub pushed: u64,
    /// Passages that are there.
    pub passages: u64,
    /// Passages dropped because their title and text were seen before.
    pub dropped_duplicates: u64,
    /// External ids of dropped passages that still find the kept one.
    pub aliases: u64,
    /// Passages that came without an external id.
    pub without_id: u64,
    /// Different titles.
    pub titles: u64,
    /// Titles that more than one passage has.
    pub shared_titles: u64,
    /// Bytes of all texts.
    pub text_bytes: u64,
    /// Sentences.
    pub sentences: u64,
    /// Passages whose sentences are known.
    pub passages_with_sentences: u64,
    /// Links.
    pub links: u64,
    /// Passages with at least one link.
    pub passages_with_links: u64,
    /// Hyperlinks of kept passages whose target is not in the corpus.
    pub unresolved_links: u64,
    /// Links dropped because their target has the title of the passage they stand in.
    pub self_links: u64,
    /// Links dropped because the passage has a link to that target already.
    pub repeated_links: u64,
}

/// A file of the folder, as it was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileInfo {
    /// Its name within the folder.
    pub name: String,
    /// Its length in bytes.
    pub bytes: u64,
    /// BLAKE3 of the parts that say where everything lies; checked whenever it is opened.
    pub structure: String,
    /// BLAKE3 of all its bytes; checked by `verify`.
    pub digest: String,
}

impl CorpusInfo {
    /// Reads the description in folder `dir`.
    pub(crate) fn read(dir: &Path) -> Result<Self, CorpusError> {
        #[derive(Deserialize)]
        struct Version {
            version: u64,
        }
        let path = dir.join(INFO_FILE);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(CorpusError::NotACorpus { path: dir.to_owned() });
            }
            Err(source) => return Err(CorpusError::Io { path, source }),
        };
        // The version comes first: a later one may have fields that this one does not know.
        let Version { version } = match serde_json::from_slice(&text) {
            Ok(version) => version,
            Err(source) => return Err(CorpusError::Info { path, source }),
        };
        if version != FORMAT_VERSION {
            return Err(CorpusError::Version { path, found: version, supported: FORMAT_VERSION });
        }
        let info: Self = match serde_json::from_slice(&text) {
            Ok(info) => info,
            Err(source) => return Err(CorpusError::Info { path, source }),
        };
        let found = digest::of_parts(&info.passages_digest, &info.links_digest, &info.aliases_digest);
        if found != info.digest {
            return Err(CorpusError::Digest { path, expected: info.digest, found });
        }
        if !(info.settings.batch_rows.is_power_of_two() && info.settings.batch_rows <= crate::schema::MAX_BATCH_ROWS) {
            let detail = format!("batch_rows is {}, which is no power of two up to 32,768", info.settings.batch_rows);
            return Err(CorpusError::Damaged { path, detail });
        }
        Ok(info)
    }

    /// What was written about file `name`.
    pub(crate) fn file(&self, dir: &Path, name: &str) -> Result<&FileInfo, CorpusError> {
        self.files.iter().find(|file| file.name == name).ok_or_else(|| CorpusError::Damaged {
            path: dir.join(INFO_FILE),
            detail: format!("it does not list {name}"),
        })
    }
}
