//! A finished corpus, mapped. All texts and lists are borrowed from the map.

use std::{
    fmt,
    ops::Range,
    path::{Path, PathBuf},
};

use arrow::datatypes::SchemaRef;

use crate::{
    digest,
    error::CorpusError,
    fold::fold_title,
    info::CorpusInfo,
    lookup::{self, LookupTable},
    mapped::{self, as_passages},
    passage::PassageId,
    passages::{AliasColumns, PassageColumns, PassageLists},
    schema,
};

/// A mapped corpus. Share it between threads by reference or [`std::sync::Arc`]; opening it twice costs memory once.
///
/// # Panics
///
/// Methods with a [`PassageId`] argument panic, as indexing does, if it is not below [`Corpus::len`]. Methods for
/// texts, titles and ids panic if the bytes are no longer valid UTF-8; [`Corpus::verify`] finds such damage.
pub struct Corpus {
    dir: PathBuf,
    info: CorpusInfo,
    pub(crate) passages: PassageColumns,
    pub(crate) aliases: AliasColumns,
    pub(crate) links: PassageLists,
    backlinks: PassageLists,
    lookups: LookupTables,
}

struct LookupTables {
    ids: LookupTable,
    titles: LookupTable,
    folded: LookupTable,
    contents: LookupTable,
}

/// A link and its anchor in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkAnchor {
    /// The passage linked to.
    pub target: PassageId,
    /// The anchor's bytes in the text. Targets with the same title share an anchor.
    pub span: Range<usize>,
}

impl Corpus {
    /// Maps the corpus in folder `dir`.
    ///
    /// Checks the format version, the files' lengths, all offsets and all passage numbers, which reads about 60 bytes
    /// per passage and 4 per link. Texts are not read: see [`Corpus::verify`].
    ///
    /// # Errors
    ///
    /// The folder holds no corpus, one of another format version, or files that are missing, truncated or damaged.
    pub fn open(dir: &Path) -> Result<Self, CorpusError> {
        let info = CorpusInfo::read(dir)?;
        let rows = info.settings.batch_rows;
        let batches = |name, schema: SchemaRef| mapped::open_listed(dir, info.listed_file(dir, name)?, &schema);
        let passages = {
            let path = dir.join(schema::PASSAGES_FILE);
            let passages = PassageColumns::new(&path, batches(schema::PASSAGES_FILE, schema::passages())?, rows)?;
            if passages.len() as u64 != info.counts.passages {
                let detail = format!("it has {} passages, corpus.json states {}", passages.len(), info.counts.passages);
                return Err(CorpusError::Damaged { path, detail });
            }
            passages
        };
        let len = passages.len();
        let aliases = batches(schema::ALIASES_FILE, schema::aliases())?;
        let aliases = AliasColumns::new(&dir.join(schema::ALIASES_FILE), aliases, rows, len)?;
        let links = batches(schema::LINKS_FILE, schema::links())?;
        let links = PassageLists::new(&dir.join(schema::LINKS_FILE), links, rows, len)?;
        let backlinks = batches(schema::BACKLINKS_FILE, schema::backlinks())?;
        let backlinks = PassageLists::new(&dir.join(schema::BACKLINKS_FILE), backlinks, rows, len)?;
        let table = |name, bound| LookupTable::open(dir, info.listed_file(dir, name)?, bound);
        let lookups = LookupTables {
            ids: table(lookup::IDS_FILE, len + aliases.len())?,
            titles: table(lookup::TITLES_FILE, len)?,
            folded: table(lookup::FOLDED_FILE, len)?,
            contents: table(lookup::CONTENTS_FILE, len)?,
        };
        Ok(Self { dir: dir.to_owned(), info, passages, aliases, links, backlinks, lookups })
    }

    /// The corpus's folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Name, counts, settings and sources.
    pub fn info(&self) -> &CorpusInfo {
        &self.info
    }

    /// Identifies the whole content of this corpus; part of the keys of everything computed from it.
    pub fn digest(&self) -> &str {
        &self.info.digest
    }

    /// Number of passages.
    pub fn len(&self) -> usize {
        self.passages.len()
    }

    /// Whether the corpus is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All passages, in order.
    pub fn passages(&self) -> impl ExactSizeIterator<Item = PassageId> + DoubleEndedIterator + Clone + use<> {
        (0..self.len() as u32).map(PassageId)
    }

    /// Whether `passage` is a passage of this corpus.
    pub fn contains(&self, passage: PassageId) -> bool {
        passage.index() < self.len()
    }

    /// The external id.
    pub fn id(&self, passage: PassageId) -> &str {
        self.passages.id(passage.0)
    }

    /// The title; empty if the source has none.
    pub fn title(&self, passage: PassageId) -> &str {
        self.passages.title(passage.0)
    }

    /// The text.
    pub fn text(&self, passage: PassageId) -> &str {
        self.passages.text(passage.0)
    }

    /// Byte offset in the text of each sentence's end; empty if the sentences are unknown.
    pub fn sentence_ends(&self, passage: PassageId) -> &[u32] {
        self.passages.sentence_ends(passage.0)
    }

    /// Sentence `n` of a passage, counted from 0, with the space before or after it in the text.
    pub fn sentence(&self, passage: PassageId, n: usize) -> Option<&str> {
        let ends = self.sentence_ends(passage);
        let end = *ends.get(n)?;
        let start = n.checked_sub(1).map_or(0, |before| ends[before]);
        self.text(passage).get(start as usize..end as usize)
    }

    /// The sentences of a passage; joined, they are its text. Empty if they are unknown.
    pub fn sentences(&self, passage: PassageId) -> impl Iterator<Item = &str> {
        let text = self.text(passage);
        let mut start = 0;
        self.sentence_ends(passage).iter().filter_map(move |&end| {
            let sentence = text.get(start..end as usize);
            start = end as usize;
            sentence
        })
    }

    /// The passages linked from this one, each once, in the order of their first anchors.
    pub fn links(&self, passage: PassageId) -> &[PassageId] {
        as_passages(self.links.list_column(passage.0, 0))
    }

    /// The links of a passage with their anchors in the text.
    pub fn anchors(&self, passage: PassageId) -> impl ExactSizeIterator<Item = LinkAnchor> {
        let (starts, ends) = (self.links.list_column(passage.0, 1), self.links.list_column(passage.0, 2));
        self.links(passage)
            .iter()
            .zip(starts.iter().zip(ends))
            .map(|(&target, (&start, &end))| LinkAnchor { target, span: start as usize..end as usize })
    }

    /// The passages linking to this one, ascending.
    pub fn linked_from(&self, passage: PassageId) -> &[PassageId] {
        as_passages(self.backlinks.list_column(passage.0, 0))
    }

    /// The passage with this external id. The id of a dropped duplicate gives the kept passage.
    pub fn by_external_id(&self, id: &str) -> Option<PassageId> {
        let entry = *self
            .lookups
            .ids
            .equal_values(digest::string_key(id), |entry| self.id_entry(entry).0 == id.as_bytes())
            .first()?;
        Some(PassageId(self.id_entry(entry).1))
    }

    /// The passages with exactly this title, ascending.
    pub fn by_title(&self, title: &str) -> &[PassageId] {
        as_passages(exact_title(&self.passages, &self.lookups.titles, title))
    }

    /// The passages with this title after folding, as wiki links are written (see [`fold_title`]). Passages with the
    /// same exact title are neither first nor together.
    pub fn by_title_folded(&self, title: &str) -> &[PassageId] {
        as_passages(folded_title(&self.passages, &self.lookups.folded, title))
    }

    /// The first passage with exactly this title and this text.
    pub fn by_title_and_text(&self, title: &str, text: &str) -> Option<PassageId> {
        let is_equal = |passage: u32| {
            self.passages.title_bytes(passage) == title.as_bytes()
                && self.passages.text_bytes(passage) == text.as_bytes()
        };
        self.lookups.contents.equal_values(digest::content_key(title, text).0, is_equal).first().copied().map(PassageId)
    }

    /// The id and passage of an entry of the id table: passages, then aliases.
    fn id_entry(&self, entry: u32) -> (&[u8], u32) {
        id_entry(&self.passages, &self.aliases, entry)
    }
}

/// The id and passage of entry `entry` of the id table: passages first, then aliases.
pub(crate) fn id_entry<'a>(passages: &'a PassageColumns, aliases: &'a AliasColumns, entry: u32) -> (&'a [u8], u32) {
    match entry.checked_sub(passages.len() as u32) {
        None => (passages.id_bytes(entry), entry),
        Some(alias) => aliases.get(alias),
    }
}

/// The passages with exactly this title.
pub(crate) fn exact_title<'a>(passages: &PassageColumns, titles: &'a LookupTable, title: &str) -> &'a [u32] {
    titles.equal_values(digest::string_key(title), |passage| passages.title_bytes(passage) == title.as_bytes())
}

/// The passages with this title, folded.
pub(crate) fn folded_title<'a>(passages: &PassageColumns, folded: &'a LookupTable, title: &str) -> &'a [u32] {
    let wanted = fold_title(title);
    folded.equal_values(digest::string_key(&wanted), |passage| {
        std::str::from_utf8(passages.title_bytes(passage)).is_ok_and(|title| fold_title(title) == wanted)
    })
}

impl fmt::Debug for Corpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Corpus").field("dir", &self.dir).field("digest", &self.info.digest).finish_non_exhaustive()
    }
}
