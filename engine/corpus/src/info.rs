//! `corpus.json`: describes a corpus without its passages.

use std::{fs, io::ErrorKind, path::Path};

use serde::{Deserialize, Serialize};

use crate::{
    digest,
    error::CorpusError,
    settings::{CorpusSettings, CorpusSource},
};

/// Version of the folder's format. It changes with every incompatible change of a file's layout or of a stated rule.
pub const FORMAT_VERSION: u64 = 1;

/// Name of the description within the folder.
pub(crate) const INFO_FILE: &str = "corpus.json";

/// The description of a corpus.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CorpusInfo {
    /// Version of the format, [`FORMAT_VERSION`].
    pub version: u64,
    /// Name in reports.
    pub name: String,
    /// BLAKE3 over the three digests below: identifies the whole content of the corpus.
    pub digest: String,
    /// BLAKE3 over ids, titles, texts and sentence ends, in order: identifies everything visible to an index.
    pub passages_digest: String,
    /// BLAKE3 over the origin of links and all links, in order.
    pub links_digest: String,
    /// BLAKE3 over the ids of dropped duplicates and their kept passages.
    pub aliases_digest: String,
    /// Origin of the links.
    pub link_origin: LinkOrigin,
    /// Numbers of passages, titles, links and so on.
    pub counts: CorpusCounts,
    /// The settings it was built with.
    pub settings: CorpusSettings,
    /// The files of the build's input.
    pub sources: Vec<CorpusSource>,
    /// The files of the corpus.
    pub files: Vec<FileInfo>,
}

/// The origin of a corpus's links. Figures computed with links report it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkOrigin {
    /// Hyperlinks of the source.
    Hyperlinks,
    /// Titles found in texts.
    TitleMentions,
    /// No links.
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

/// Numbers of passages, titles, links and so on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CorpusCounts {
    /// Passages handed to the builder.
    pub pushed: u64,
    /// Passages in the corpus.
    pub passages: u64,
    /// Passages dropped because of an earlier one with the same title and text.
    pub dropped_duplicates: u64,
    /// External ids of dropped passages; they still find the kept one.
    pub aliases: u64,
    /// Passages handed in without an external id.
    pub without_id: u64,
    /// Different titles.
    pub titles: u64,
    /// Titles of more than one passage.
    pub shared_titles: u64,
    /// Bytes of all texts.
    pub text_bytes: u64,
    /// Sentences.
    pub sentences: u64,
    /// Passages with known sentences.
    pub passages_with_sentences: u64,
    /// Links.
    pub links: u64,
    /// Passages with at least one link.
    pub passages_with_links: u64,
    /// Hyperlinks of kept passages to targets outside the corpus.
    pub unresolved_links: u64,
    /// Links dropped because their target has the title of their own passage.
    pub self_links: u64,
    /// Links dropped because the passage already has a link to the same target.
    pub repeated_links: u64,
}

/// A file of the folder, as written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileInfo {
    /// Its name within the folder.
    pub name: String,
    /// Its length in bytes.
    pub bytes: u64,
    /// BLAKE3 of the parts with offsets and lengths; checked whenever the file is opened.
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
        // The version comes first: a later one may have unknown fields.
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

    /// The written description of file `name`.
    pub(crate) fn listed_file(&self, dir: &Path, name: &str) -> Result<&FileInfo, CorpusError> {
        self.files.iter().find(|file| file.name == name).ok_or_else(|| CorpusError::Damaged {
            path: dir.join(INFO_FILE),
            detail: format!("it does not list {name}"),
        })
    }
}
