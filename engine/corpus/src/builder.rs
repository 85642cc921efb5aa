//! Builds a corpus from passages pushed one by one.
//!
//! Passages are written to disk in batches and mapped again to make tables and links, so memory does not grow with
//! the text:
//!
//! ```text
//! push     8 bytes per passage, and a map of 15 to 30 more unless duplicates are kept; one batch of text
//! finish   24 bytes per passage while a table is sorted; 8 per passage, 4 per link and, with title mentions, about
//!          30 per form of a title while links are made
//! ```
//!
//! (21 million passages: about 0.6 GB.) Ids of dropped duplicates are kept too, at about 120 bytes plus twice the
//! id's length each.

mod batches;
mod duplicates;
mod links;
mod spool;
mod staging;

use std::{
    borrow::Cow,
    collections::BTreeMap,
    fs::{self, File},
    io::Write,
    path::Path,
    sync::Arc,
};

use arrow::array::{StringArray, UInt32Array};

use crate::{
    corpus::id_entry,
    digest::{self, PassagesDigest},
    error::BuildError,
    fold::fold_title,
    info::{CorpusCounts, CorpusInfo, FORMAT_VERSION, INFO_FILE, LinkOrigin},
    lookup::{self, LookupTable},
    mapped,
    passage::{NewPassage, PassageId},
    passages::{self, AliasColumns, PassageColumns},
    schema,
    settings::{CorpusSettings, CorpusSource, DuplicatePolicy, LinkSource},
};
use batches::{BatchFile, PassageRows};
use duplicates::{DroppedPositions, SeenContents};
use spool::{HyperlinkSpool, SpoolReader};
use staging::CorpusStaging;

const SPOOL_FILE: &str = "hyperlinks.spool";

/// A corpus being built. Dropping it before [`CorpusBuilder::finish`] leaves nothing behind.
pub struct CorpusBuilder {
    staging: CorpusStaging,
    settings: CorpusSettings,
    sources: Vec<CorpusSource>,
    file: BatchFile,
    rows: PassageRows,
    digest: PassagesDigest,
    seen: SeenContents,
    dropped: DroppedPositions,
    aliases: Vec<DuplicateAlias>,
    spool: HyperlinkSpool,
    has_hyperlinks: bool,
    counts: CorpusCounts,
}

/// The external id of a dropped duplicate.
struct DuplicateAlias {
    id: Box<str>,
    passage: u32,
    position: u64,
}

/// The result of a build.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BuildReport {
    /// The new corpus's description, as in its `corpus.json`.
    pub info: CorpusInfo,
}

impl CorpusBuilder {
    /// Begins a corpus for the place `dir`, which must be absent or an empty folder.
    ///
    /// # Errors
    ///
    /// `dir` is occupied, a setting is out of range, or the system refuses to write.
    pub fn create(dir: &Path, settings: CorpusSettings) -> Result<Self, BuildError> {
        check_settings(&settings)?;
        let staging = CorpusStaging::create(dir)?;
        let file = BatchFile::create(staging.path(), schema::PASSAGES_FILE, schema::passages())?;
        let spool = HyperlinkSpool::create(staging.path().join(SPOOL_FILE))?;
        let mut settings = settings;
        if settings.name.is_empty() {
            settings.name = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        }
        Ok(Self {
            seen: SeenContents::new(settings.duplicates != DuplicatePolicy::KeepAll),
            staging,
            settings,
            sources: Vec::new(),
            file,
            rows: PassageRows::new(),
            digest: PassagesDigest::new(),
            dropped: DroppedPositions::default(),
            aliases: Vec::new(),
            spool,
            has_hyperlinks: false,
            counts: CorpusCounts::default(),
        })
    }

    /// Notes a source file of the passages.
    pub fn add_source(&mut self, source: CorpusSource) {
        self.sources.push(source);
    }

    /// Stores the next passage and returns its id; for a dropped duplicate, the id of the kept passage.
    ///
    /// # Errors
    ///
    /// The passage breaks a rule of [`NewPassage`] or a limit of the format, it is a duplicate and the settings
    /// forbid duplicates, or the system refuses to write. After an error the builder must not be used again.
    pub fn push(&mut self, passage: NewPassage<'_>) -> Result<PassageId, BuildError> {
        let position = self.counts.pushed;
        check_passage(position, &passage)?;
        self.counts.pushed += 1;
        let kept = self.seen.kept_count() as u32;
        if kept == schema::MAX_PASSAGES {
            return Err(BuildError::TooMany { allowed: schema::MAX_PASSAGES });
        }
        if let Some(first) = self.seen.earlier_or_push(digest::content_key(passage.title, passage.text)) {
            if self.settings.duplicates == DuplicatePolicy::Error {
                let (title, first) = (passage.title.to_owned(), self.dropped.input_position(first));
                return Err(BuildError::DuplicatePassage { title, first, second: position });
            }
            self.dropped.push(position);
            if let Some(id) = passage.id {
                self.aliases.push(DuplicateAlias { id: id.into(), passage: first, position });
            }
            return Ok(PassageId(first));
        }
        let id = passage.id.map_or_else(|| Cow::Owned(kept.to_string()), Cow::Borrowed);
        self.digest.push_passage(&id, passage.title, passage.text, passage.sentences);
        self.rows.push(&id, passage.title, passage.text, passage.sentences);
        self.spool.push_links(passage.links.unwrap_or_default())?;
        self.has_hyperlinks |= passage.links.is_some();
        self.count_passage(&passage);
        if self.rows.len() == self.settings.batch_rows as usize {
            self.file.write_batch(self.rows.take_columns())?;
        }
        Ok(PassageId(kept))
    }

    fn count_passage(&mut self, passage: &NewPassage<'_>) {
        let counts = &mut self.counts;
        counts.without_id += u64::from(passage.id.is_none());
        counts.text_bytes += passage.text.len() as u64;
        counts.sentences += passage.sentences.len() as u64;
        counts.passages_with_sentences += u64::from(!passage.sentences.is_empty());
    }

    /// Makes tables and links and moves the corpus to its place, all at once.
    ///
    /// # Errors
    ///
    /// Two passages have one external id, the place was taken meanwhile, or the system refuses to write. After an
    /// error nothing is left behind.
    pub fn finish(mut self) -> Result<BuildReport, BuildError> {
        if self.rows.len() > 0 {
            self.file.write_batch(self.rows.take_columns())?;
        }
        self.file.finish()?;
        let dir = self.staging.path().to_owned();
        let spool = self.spool.into_reader()?;
        let mut rest = CorpusFinisher {
            dir: &dir,
            passages: passages::read_back(&dir, self.settings.batch_rows)?,
            settings: &self.settings,
            counts: self.counts,
            passages_digest: self.digest.finish(),
            origin: link_origin(self.settings.links, self.has_hyperlinks),
        };
        rest.counts.passages = rest.passages.len() as u64;
        rest.counts.dropped_duplicates = self.dropped.len() as u64;
        rest.contents_table(self.seen)?;
        let aliases_digest = rest.ids_table(self.aliases, &self.dropped)?;
        let links_digest = rest.titles_and_links(spool)?;
        let info = rest.corpus_info(self.sources, links_digest, aliases_digest)?;
        write_info(&dir, &info)?;
        drop(rest);
        self.staging.publish()?;
        Ok(BuildReport { info })
    }
}

/// The remaining steps of a build, once all passages are on disk.
struct CorpusFinisher<'a> {
    dir: &'a Path,
    passages: PassageColumns,
    settings: &'a CorpusSettings,
    counts: CorpusCounts,
    passages_digest: String,
    origin: LinkOrigin,
}

impl CorpusFinisher<'_> {
    fn contents_table(&self, seen: SeenContents) -> Result<(), BuildError> {
        let mut entries = seen.into_entries();
        lookup::sort_entries(&mut entries, |passage| {
            (self.passages.title_bytes(passage), self.passages.text_bytes(passage))
        });
        lookup::write_table(&self.dir.join(lookup::CONTENTS_FILE), &entries)
    }

    /// Writes aliases and the table of ids, and checks that every id stands for one passage.
    fn ids_table(&mut self, aliases: Vec<DuplicateAlias>, dropped: &DroppedPositions) -> Result<String, BuildError> {
        let aliases = self.distinct_aliases(aliases, dropped)?;
        self.counts.aliases = aliases.len() as u64;
        let digest = digest::of_aliases(aliases.iter().map(|alias| (&*alias.id, alias.passage)));
        let mut file = BatchFile::create(self.dir, schema::ALIASES_FILE, schema::aliases())?;
        for batch in aliases.chunks(self.settings.batch_rows as usize) {
            let ids = StringArray::from_iter_values(batch.iter().map(|alias| &*alias.id));
            let targets = UInt32Array::from_iter_values(batch.iter().map(|alias| alias.passage));
            file.write_batch(vec![Arc::new(ids), Arc::new(targets)])?;
        }
        file.finish()?;
        let path = self.dir.join(schema::ALIASES_FILE);
        let batches =
            mapped::ArrowFile::new(path.clone(), mapped::map_file(&path)?)?.decode_batches(&schema::aliases())?;
        let mapped = AliasColumns::new(&path, batches, self.settings.batch_rows, self.passages.len())?;
        let count = self.passages.len() + mapped.len();
        let id = |entry| id_entry(&self.passages, &mapped, entry).0;
        let mut entries: Vec<_> = (0..count as u32).map(|entry| (bytes_key(id(entry)), entry)).collect();
        lookup::sort_entries(&mut entries, id);
        for pair in entries.windows(2) {
            let [(first_key, first), (second_key, second)] = [pair[0], pair[1]];
            if first_key == second_key && id(first) == id(second) {
                let place = |entry: u32| match entry.checked_sub(self.passages.len() as u32) {
                    None => dropped.input_position(entry),
                    Some(alias) => aliases[alias as usize].position,
                };
                let (first, second) = (place(first).min(place(second)), place(first).max(place(second)));
                let id = String::from_utf8_lossy(id(pair[0].1)).into_owned();
                return Err(BuildError::DuplicateId { id, first, second });
            }
        }
        lookup::write_table(&self.dir.join(lookup::IDS_FILE), &entries)?;
        Ok(digest)
    }

    /// Drops useless aliases (a passage's own id, or a repeated one). Refuses an alias of two passages.
    fn distinct_aliases(
        &self,
        aliases: Vec<DuplicateAlias>,
        dropped: &DroppedPositions,
    ) -> Result<Vec<DuplicateAlias>, BuildError> {
        let mut seen: BTreeMap<Box<str>, (u32, u64)> = BTreeMap::new();
        let mut distinct = Vec::with_capacity(aliases.len());
        for alias in aliases {
            if self.passages.id_bytes(alias.passage) == alias.id.as_bytes() {
                continue;
            }
            match seen.get(&alias.id) {
                Some(&(passage, _)) if passage == alias.passage => {}
                Some(&(_, first)) => {
                    return Err(BuildError::DuplicateId { id: alias.id.into(), first, second: alias.position });
                }
                None => {
                    seen.insert(alias.id.clone(), (alias.passage, alias.position));
                    distinct.push(alias);
                }
            }
        }
        debug_assert!(distinct.len() <= dropped.len(), "only dropped passages have aliases");
        Ok(distinct)
    }

    fn titles_and_links(&mut self, spool: SpoolReader) -> Result<String, BuildError> {
        let exact = self.title_table(lookup::TITLES_FILE, |title| Cow::Borrowed(title))?;
        let folded = self.title_table(lookup::FOLDED_FILE, |title| Cow::Owned(fold_title(title)))?;
        let same = |a, b| self.passages.title_bytes(a) == self.passages.title_bytes(b);
        for group in exact.value_groups(same) {
            self.counts.titles += 1;
            self.counts.shared_titles += u64::from(group.len() > 1);
        }
        let titles = links::TitleTables { passages: &self.passages, exact: &exact, folded: &folded };
        links::write_links(self.dir, self.settings, &titles, self.origin, spool, &mut self.counts)
    }

    /// Writes a table over titles in the given form, and maps it.
    fn title_table(&self, name: &str, form: impl Fn(&str) -> Cow<'_, str>) -> Result<LookupTable, BuildError> {
        let string = |passage| form(self.passages.title(passage));
        let mut entries: Vec<_> =
            (0..self.passages.len() as u32).map(|passage| (digest::string_key(&string(passage)), passage)).collect();
        lookup::sort_entries(&mut entries, string);
        let path = self.dir.join(name);
        lookup::write_table(&path, &entries)?;
        Ok(LookupTable::read_back(&path)?)
    }

    fn corpus_info(
        &self,
        sources: Vec<CorpusSource>,
        links_digest: String,
        aliases_digest: String,
    ) -> Result<CorpusInfo, BuildError> {
        let spool = self.dir.join(SPOOL_FILE);
        fs::remove_file(&spool).map_err(BuildError::io(&spool))?;
        let arrow = [schema::PASSAGES_FILE, schema::LINKS_FILE, schema::BACKLINKS_FILE, schema::ALIASES_FILE];
        let tables = [lookup::IDS_FILE, lookup::TITLES_FILE, lookup::FOLDED_FILE, lookup::CONTENTS_FILE];
        let mut files = Vec::with_capacity(arrow.len() + tables.len());
        for name in arrow {
            files.push(mapped::describe_arrow(self.dir, name)?);
        }
        for name in tables {
            files.push(lookup::describe_table(self.dir, name)?);
        }
        Ok(CorpusInfo {
            version: FORMAT_VERSION,
            name: self.settings.name.clone(),
            digest: digest::of_parts(&self.passages_digest, &links_digest, &aliases_digest),
            passages_digest: self.passages_digest.clone(),
            links_digest,
            aliases_digest,
            link_origin: self.origin,
            counts: self.counts,
            settings: self.settings.clone(),
            sources,
            files,
        })
    }
}

fn bytes_key(bytes: &[u8]) -> u64 {
    digest::string_key(std::str::from_utf8(bytes).unwrap_or_default())
}

fn link_origin(source: LinkSource, has_hyperlinks: bool) -> LinkOrigin {
    match (source, has_hyperlinks) {
        (LinkSource::Auto | LinkSource::Hyperlinks, true) => LinkOrigin::Hyperlinks,
        (LinkSource::Auto, false) | (LinkSource::Mentions, _) => LinkOrigin::TitleMentions,
        (LinkSource::Hyperlinks, false) | (LinkSource::None, _) => LinkOrigin::None,
    }
}

fn check_settings(settings: &CorpusSettings) -> Result<(), BuildError> {
    let rows = settings.batch_rows;
    if !rows.is_power_of_two() || rows > schema::MAX_BATCH_ROWS {
        let allowed = "a power of two from 1 to 32768";
        return Err(BuildError::Setting { setting: "batch_rows", found: rows.into(), allowed });
    }
    if settings.targets_per_title == 0 {
        return Err(BuildError::Setting { setting: "targets_per_title", found: 0, allowed: "1 or more" });
    }
    Ok(())
}

fn check_passage(position: u64, passage: &NewPassage<'_>) -> Result<(), BuildError> {
    let text_bytes = passage.text.len();
    let lengths = [
        ("id", passage.id.map_or(0, str::len), "bytes", schema::MAX_FIELD),
        ("title", passage.title.len(), "bytes", schema::MAX_FIELD),
        ("text", text_bytes, "bytes", i32::MAX as usize),
        ("sentences", passage.sentences.len(), "sentences", schema::MAX_FIELD),
    ];
    for (field, found, unit, allowed) in lengths {
        if found > allowed {
            return Err(BuildError::TooLong { position, field, found, unit, allowed });
        }
    }
    let mut before = 0;
    for (sentence, &end) in passage.sentences.iter().enumerate() {
        let is_last = sentence + 1 == passage.sentences.len();
        let fits =
            end >= before && passage.text.is_char_boundary(end as usize) && (!is_last || end as usize == text_bytes);
        if !fits {
            return Err(BuildError::Sentence { position, sentence, end, text_bytes });
        }
        before = end;
    }
    for (link, &found) in passage.links.unwrap_or_default().iter().enumerate() {
        if passage.text.get(found.start as usize..found.end as usize).is_none() {
            return Err(BuildError::Link { position, link, start: found.start, end: found.end, text_bytes });
        }
    }
    Ok(())
}

/// Writes `corpus.json`, the last file, durably.
fn write_info(dir: &Path, info: &CorpusInfo) -> Result<(), BuildError> {
    let path = dir.join(INFO_FILE);
    let write = || {
        let mut text = serde_json::to_string_pretty(info)?;
        text.push('\n');
        let mut file = File::create(&path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    };
    write().map_err(BuildError::io(&path))
}
