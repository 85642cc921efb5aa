//! What of a store's journal and of a machine's cache no run needs: for `hopeval gc`.
//!
//! *Journal.* A run needs the answers that its machines got: a transcript answers a question with them again. Its
//! commits name the segments that its last generations wrote, not those that it read. So a run needs every segment that
//! it has written, in any generation and merged or not, and every segment that was there before its last record: it may
//! have read from it. A run that is not finished needs all segments, since any may have the answer that it asks for
//! next.
//!
//! *Cache.* A run needs its corpus, the indexes over it and its world. They can be built again, but their sources may
//! be gone. While a run is being made, it may need anything. Models of the binary are small and stay.
//!
//! Only garbage is removed: what is older than a bound, and the oldest of the rest while a place is larger than
//! another bound. A segment removed while a run begins to read it is no fault: its answers are computed again.

use crate::clock::now_ms;
use crate::error::JobError;
use crate::places::Places;
use crate::prepare::worlds::world_name;
use crate::run::settings::ResolvedSettings;
use hopeval_index::indexed_corpus;
use hopeval_results::{Log, RunRecord, Store, layout};
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Unfinished files in a cache are a builder's if they were written this short a time ago.
const LONGEST_SILENCE: Duration = Duration::from_secs(6 * 3600);

/// The bounds beyond which garbage is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GarbageBounds {
    /// Garbage older than this is removed.
    pub older_than: Duration,
    /// The most bytes of the journal, and of the cache: the oldest garbage beyond is removed, too, whatever its age.
    pub most_bytes: Option<u64>,
}

/// The store's journal, or the machine's cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GarbagePlace {
    /// A segment of the store's journal.
    Journal,
    /// A corpus, an index or a world in the cache.
    Cache,
}

/// Something that no run of the store needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GarbageItem {
    /// Where it is.
    pub place: GarbagePlace,
    /// The object of a segment; the path of a cached file or folder.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// Seconds since it was written.
    pub age_s: u64,
}

/// A place in figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PlaceFigures {
    /// Its items: segments, or corpora, indexes and worlds.
    pub items: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes of those that no run needs.
    pub unneeded_bytes: u64,
}

/// The garbage of a store's journal and of a machine's cache.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Garbage {
    /// What is beyond the bounds, and to be removed: of each place, oldest first.
    pub items: Vec<GarbageItem>,
    /// The journal.
    pub journal: PlaceFigures,
    /// The cache.
    pub cache: PlaceFigures,
    /// Runs that are not finished. With any, the whole journal is needed.
    pub unfinished: Vec<String>,
}

/// What the runs of a store need.
#[derive(Debug, Default)]
struct RunNeeds {
    /// All runs.
    runs: BTreeSet<String>,
    /// The last record of any run, in milliseconds since 1970: later segments were read by none.
    last_ms: u64,
    unfinished: Vec<String>,
    /// Whether a run is being made.
    making: bool,
    /// Corpora by their keys, worlds by their names.
    cached: BTreeSet<String>,
    /// Digests of corpora.
    corpora: BTreeSet<String>,
    /// Files that jobs name.
    paths: Vec<PathBuf>,
}

/// Finds the garbage beyond `bounds`, and removes nothing.
///
/// # Errors
/// A run whose record or log cannot be read: its needs are not known. A folder cannot be listed.
pub fn find_garbage(places: &Places, bounds: &GarbageBounds) -> Result<Garbage, JobError> {
    let needs = RunNeeds::of_store(&places.store)?;
    let (segments, journal) = journal_items(&places.store, &needs)?;
    let (cached, cache) = cached_items(places.cache.root(), &needs)?;
    let mut items = beyond_bounds(segments, journal, bounds);
    items.extend(beyond_bounds(cached, cache, bounds));
    Ok(Garbage { items, journal, cache, unfinished: needs.unfinished })
}

/// Removes what [`find_garbage`] found.
///
/// # Errors
/// A segment or a cached file cannot be removed. The rest stays, and can be found again.
pub fn remove_garbage(places: &Places, garbage: &Garbage) -> Result<(), JobError> {
    for item in &garbage.items {
        match item.place {
            GarbagePlace::Journal => places.store.delete(&item.name)?,
            GarbagePlace::Cache => remove_cached(Path::new(&item.name))?,
        }
    }
    Ok(())
}

impl RunNeeds {
    fn of_store(store: &Store) -> Result<Self, JobError> {
        let mut needs = Self::default();
        for run in store.list_folders(layout::RUNS)? {
            if !store.exists(&layout::run_record(&run))? {
                // Of a folder without either, nothing can become a run.
                if store.exists(&layout::making_order(&run))? {
                    needs.making = true;
                    needs.unfinished.push(run);
                }
                continue;
            }
            let record = RunRecord::load(store, &run)?;
            let resolved: ResolvedSettings = serde_json::from_value(record.settings)
                .map_err(|source| JobError::Stored { what: "the settings", run: run.clone(), source })?;
            let log = Log::open(store, &run)?;
            needs.last_ms = needs.last_ms.max(log.state().last_ms);
            needs.runs.insert(run.clone());
            if log.state().finished.is_none() {
                needs.unfinished.push(run);
            }
            needs.add_cached(resolved);
        }
        Ok(needs)
    }

    fn add_cached(&mut self, resolved: ResolvedSettings) {
        let job = &resolved.job;
        self.cached.extend(job.dataset.world.as_ref().map(world_name));
        let named = job.dataset.questions.paths().iter().chain(job.corpus.source.paths());
        self.paths.extend(named.cloned());
        self.cached.extend(resolved.corpus_key);
        self.corpora.insert(resolved.corpus_digest);
    }

    /// Whether a run wrote the segment `name`, or may have read it.
    fn needs_segment(&self, name: &str, created: u64) -> bool {
        let written = layout::segment_writer(name).is_some_and(|(writer, _)| self.runs.contains(writer));
        written || created <= self.last_ms
    }

    /// Whether a run needs the entry `name` of the cache, at `path`.
    fn needs_cached(&self, kind: CacheFolder, name: &str, path: &Path) -> bool {
        self.making
            || self.paths.iter().any(|named| named.starts_with(path))
            || match kind {
                CacheFolder::Corpora | CacheFolder::Worlds => self.cached.contains(name),
                // A damaged index is built again.
                CacheFolder::Indexes => indexed_corpus(path).is_ok_and(|corpus| self.corpora.contains(&corpus)),
            }
    }
}

/// The folders of a cache whose entries can be garbage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CacheFolder {
    Corpora,
    Indexes,
    Worlds,
}

impl CacheFolder {
    const ALL: [(Self, &'static str); 3] =
        [(Self::Corpora, "corpora"), (Self::Indexes, "indexes"), (Self::Worlds, "worlds")];

    /// Whether a builder has not finished the entry `name`, or was killed before.
    fn is_unfinished(self, name: &str) -> bool {
        name.starts_with('.') || (self == Self::Indexes && !name.ends_with(".idx"))
    }
}

/// The unneeded segments of the journal, and its figures.
fn journal_items(store: &Store, needs: &RunNeeds) -> Result<(Vec<GarbageItem>, PlaceFigures), JobError> {
    let (mut items, mut figures, now) = (Vec::new(), PlaceFigures::default(), now_ms());
    for (name, bytes) in store.list(layout::JOURNAL)? {
        let Some(created) = layout::segment_created(&name) else { continue };
        figures.items += 1;
        figures.bytes += bytes;
        if needs.unfinished.is_empty() && !needs.needs_segment(&name, created) {
            figures.unneeded_bytes += bytes;
            let age_s = now.saturating_sub(created) / 1000;
            items.push(GarbageItem { place: GarbagePlace::Journal, name, bytes, age_s });
        }
    }
    Ok((items, figures))
}

/// The unneeded entries of the cache at `root`, and its figures. Files of killed builders are among them.
fn cached_items(root: &Path, needs: &RunNeeds) -> Result<(Vec<GarbageItem>, PlaceFigures), JobError> {
    let (mut items, mut figures) = (Vec::new(), PlaceFigures::default());
    for (kind, name) in CacheFolder::ALL {
        for path in entries_of(&root.join(name))? {
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
            let (bytes, written) = size_and_time(&path)?;
            figures.items += 1;
            figures.bytes += bytes;
            let age_s = SystemTime::now().duration_since(written).unwrap_or_default().as_secs();
            let being_built = kind.is_unfinished(name) && age_s < LONGEST_SILENCE.as_secs();
            if !being_built && !needs.needs_cached(kind, name, &path) {
                figures.unneeded_bytes += bytes;
                let name = path.display().to_string();
                items.push(GarbageItem { place: GarbagePlace::Cache, name, bytes, age_s });
            }
        }
    }
    Ok((items, figures))
}

/// The unneeded items of a place beyond the bounds, oldest first.
fn beyond_bounds(mut items: Vec<GarbageItem>, figures: PlaceFigures, bounds: &GarbageBounds) -> Vec<GarbageItem> {
    items.sort_by(|a, b| b.age_s.cmp(&a.age_s).then_with(|| a.name.cmp(&b.name)));
    let mut left = figures.bytes;
    items.retain(|item| {
        let beyond = item.age_s > bounds.older_than.as_secs() || bounds.most_bytes.is_some_and(|most| left > most);
        if beyond {
            left -= item.bytes;
        }
        beyond
    });
    items
}

fn io_error(path: &Path, operation: &'static str) -> impl FnOnce(std::io::Error) -> JobError {
    move |source| JobError::Io { path: path.to_owned(), operation, source }
}

/// The entries of a folder, sorted; none of an absent one.
fn entries_of(folder: &Path) -> Result<Vec<PathBuf>, JobError> {
    const LISTING: &str = "cannot list the folder";
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(io_error(folder, LISTING))?,
    };
    let paths: Result<Vec<PathBuf>, _> = entries.map(|entry| entry.map(|entry| entry.path())).collect();
    let mut paths = paths.map_err(io_error(folder, LISTING))?;
    paths.sort();
    Ok(paths)
}

/// The size of a file or of a folder's files, and the time of the last write. A file removed meanwhile counts nothing.
fn size_and_time(path: &Path) -> Result<(u64, SystemTime), JobError> {
    let metadata = match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok((0, SystemTime::UNIX_EPOCH)),
        metadata => metadata.map_err(io_error(path, "cannot look at"))?,
    };
    let written = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
    if !metadata.is_dir() {
        return Ok((metadata.len(), written));
    }
    let mut whole = (0, written);
    for entry in entries_of(path)? {
        let (bytes, written) = size_and_time(&entry)?;
        whole = (whole.0 + bytes, whole.1.max(written));
    }
    Ok(whole)
}

/// Removes an entry of the cache. A folder is renamed first, so that no reader finds a half of it.
fn remove_cached(path: &Path) -> Result<(), JobError> {
    let removing = |source: std::io::Error| match source.kind() {
        std::io::ErrorKind::NotFound => Ok(()),
        _ => Err(JobError::Io { path: path.to_owned(), operation: "cannot remove", source }),
    };
    if !path.is_dir() {
        return std::fs::remove_file(path).or_else(removing);
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let aside = path.with_file_name(format!(".{}.removed-{}", name.trim_start_matches('.'), std::process::id()));
    std::fs::rename(path, &aside).and_then(|()| std::fs::remove_dir_all(&aside)).or_else(removing)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(name: &str, bytes: u64, age_s: u64) -> GarbageItem {
        GarbageItem { place: GarbagePlace::Journal, name: name.into(), bytes, age_s }
    }

    #[test]
    fn garbage_goes_by_age_and_then_by_size_oldest_first() {
        let items = vec![item("young", 10, 5), item("old", 10, 500), item("middle", 10, 50)];
        let figures = PlaceFigures { items: 4, bytes: 130, unneeded_bytes: 30 };
        let beyond = |older_than, most_bytes| {
            let bounds = GarbageBounds { older_than: Duration::from_secs(older_than), most_bytes };
            let found = beyond_bounds(items.clone(), figures, &bounds);
            found.into_iter().map(|item| item.name).collect::<Vec<_>>()
        };
        assert_eq!(beyond(1000, None), [""; 0]);
        assert_eq!(beyond(100, None), ["old"]);
        assert_eq!(beyond(1000, Some(130)), [""; 0]);
        assert_eq!(beyond(1000, Some(115)), ["old", "middle"]);
        assert_eq!(beyond(0, Some(0)), ["old", "middle", "young"]);
    }
}
