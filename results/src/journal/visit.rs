//! Visits the segments of a folder, also while they are merged.
//!
//! A listing and the reads after it are not one moment: a segment may be merged and removed in between. A removed
//! segment's successor was durable before, so another listing has it. In one listing a segment or its successor is
//! seen: a bucket lists in the order of names, and a merged segment sorts after its sources; a folder on a disk lists
//! in any order, but sources stay for [`super::merge::GRACE_MS`] after the merge, which is longer than a listing takes.

use super::error::JournalError;
use super::format::Lineage;
use crate::layout::{SegmentId, SegmentName};
use crate::parallel;
use crate::store::{Store, StoreError};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;

/// Segments read at once. It bounds the keys held twice.
const WINDOW: usize = 128;

/// The most listings of a visit. A merge of merged segments takes minutes.
const ROUNDS: usize = 4;

/// The segments to visit.
pub(super) struct JournalVisit<'a> {
    /// The store.
    pub(super) store: &'a Store,
    /// The folders.
    pub(super) prefixes: &'a [String],
    /// Selects by the object's name.
    pub(super) wanted: &'a dyn Fn(&str) -> bool,
}

/// A segment as read for a visit.
pub(super) struct SegmentPart<T> {
    /// The segments it replaces, if it is merged.
    pub(super) lineage: Option<Lineage>,
    /// The rest.
    pub(super) content: T,
}

/// Takes a segment with its name and size.
pub(super) type SegmentViewer<'a, T> =
    &'a mut dyn FnMut(&str, u64, Result<SegmentPart<T>, JournalError>) -> Result<(), JournalError>;

/// Reads every segment with `read`, several at once, and hands it to `see` with name and size, the latest first.
/// Segments that another one replaces are left out, and returned. A segment that vanished, in `read` or in `see`, is
/// looked for under its successor; one without a successor is seen at the end, with its error.
///
/// # Errors
/// Of `see`, or of a listing.
pub(super) fn visit_segments<T: Send>(
    visit: &JournalVisit<'_>,
    read: impl Fn(&str, u64) -> Result<SegmentPart<T>, JournalError> + Sync,
    see: SegmentViewer<'_, T>,
) -> Result<Vec<(String, u64)>, JournalError> {
    let mut visited: FxHashSet<String> = FxHashSet::default();
    let (mut replaced, mut left_out) = (ReplacedNames::default(), Vec::new());
    let mut absent: BTreeMap<String, (u64, JournalError)> = BTreeMap::new();
    for _ in 0..ROUNDS {
        let mut listed = Vec::new();
        for prefix in visit.prefixes {
            let found = visit.store.list(prefix)?.into_iter();
            listed.extend(
                found.filter(|(name, _)| name.ends_with(".seg") && !visited.contains(name) && (visit.wanted)(name)),
            );
        }
        listed.sort_by(|(a, _), (b, _)| file_order(b).cmp(&file_order(a)));
        listed.dedup();
        for window in listed.chunks(WINDOW) {
            let (gone, open): (Vec<_>, Vec<_>) = window.iter().partition(|(name, _)| replaced.contains(name));
            left_out.extend(gone.into_iter().cloned());
            let parts = parallel::map(&open, |(name, size)| read(name, *size));
            for ((name, size), part) in open.into_iter().zip(parts) {
                visited.insert(name.clone());
                if replaced.contains(name) {
                    left_out.push((name.clone(), *size));
                    continue;
                }
                if let Ok(SegmentPart { lineage: Some(lineage), .. }) = &part {
                    replaced.add_lineage(lineage);
                }
                let seen = match part {
                    Err(error) if is_absent(&error) => Err(error),
                    part => see(name, *size, part),
                };
                match seen {
                    Err(error) if is_absent(&error) => drop(absent.insert(name.clone(), (*size, error))),
                    seen => seen?,
                }
            }
        }
        visited.extend(left_out.iter().map(|(name, _)| name.clone()));
        absent.retain(|name, _| !replaced.contains(name));
        if absent.is_empty() {
            break;
        }
    }
    for (name, (size, error)) in absent {
        see(&name, size, Err(error))?;
    }
    Ok(left_out)
}

fn is_absent(error: &JournalError) -> bool {
    matches!(error, JournalError::Store(StoreError::NotFound { .. }))
}

/// The order of segments: by file name, then by folder.
fn file_order(name: &str) -> (&str, &str) {
    (name.rsplit('/').next().unwrap_or(name), name)
}

/// The names in lineages.
#[derive(Default)]
struct ReplacedNames(FxHashMap<(String, String), FxHashSet<SegmentId>>);

impl ReplacedNames {
    fn add_lineage(&mut self, lineage: &Lineage) {
        let ids = self.0.entry((lineage.folder.clone(), lineage.run.clone())).or_default();
        ids.extend(lineage.replaced.iter().map(|replaced| replaced.id));
    }

    fn contains(&self, name: &str) -> bool {
        // Most journals have no merged segments of most writers, and their names need not be taken apart.
        !self.0.is_empty()
            && SegmentName::parse(name).is_some_and(|SegmentName { folder, run, id }| {
                self.0.get(&(folder, run)).is_some_and(|ids| ids.contains(&id))
            })
    }
}
