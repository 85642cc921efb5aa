//! Turns hyperlinks or title mentions into links between passages, both ways.
//!
//! A hyperlink goes to the passages with exactly its title, else to those with its folded title. A link never goes to
//! a passage with the title of its own passage. It goes to each target once, from the first anchor in the text.

use std::path::Path;

use rustc_hash::FxHashSet;

use super::{
    batches::{self, BatchFile, LinkRows},
    spool::SpoolReader,
};
use crate::{
    corpus::{exact_title, folded_title},
    digest::LinksDigest,
    error::BuildError,
    info::{CorpusCounts, LinkOrigin},
    lookup::LookupTable,
    mentions::MentionFinder,
    passages::PassageColumns,
    schema,
    settings::CorpusSettings,
};

/// The tables for resolving links.
pub(super) struct TitleTables<'a> {
    pub(super) passages: &'a PassageColumns,
    pub(super) exact: &'a LookupTable,
    pub(super) folded: &'a LookupTable,
}

/// An anchor and the passages with its title.
struct ResolvedAnchor<'a> {
    targets: &'a [u32],
    start: u32,
    end: u32,
}

/// The origin of a passage's anchors.
enum AnchorSource<'a> {
    Hyperlinks(SpoolReader),
    Mentions(Box<MentionFinder<'a>>),
    None,
}

/// Writes `links.arrow` and `backlinks.arrow`. Returns the links' digest.
///
/// Holds 4 bytes per link and 8 per passage in memory, for the backlinks.
pub(super) fn write_links(
    dir: &Path,
    settings: &CorpusSettings,
    titles: &TitleTables<'_>,
    origin: LinkOrigin,
    spool: SpoolReader,
    counts: &mut CorpusCounts,
) -> Result<String, BuildError> {
    let mut anchors = match origin {
        LinkOrigin::Hyperlinks => AnchorSource::Hyperlinks(spool),
        LinkOrigin::TitleMentions => {
            AnchorSource::Mentions(Box::new(MentionFinder::new(titles.passages, titles.exact)))
        }
        LinkOrigin::None => AnchorSource::None,
    };
    let path = dir.join(schema::LINKS_FILE);
    let mut file = BatchFile::create(dir, schema::LINKS_FILE, schema::links())?;
    let mut rows = LinkRows::default();
    let mut digest = LinksDigest::new(origin);
    let (mut lengths, mut targets) = (Vec::with_capacity(titles.passages.len()), Vec::new());
    for passage in 0..titles.passages.len() as u32 {
        let resolved = resolve_anchors(&mut anchors, titles, passage, counts)?;
        let links = select_links(titles.passages, passage, &resolved, settings.targets_per_title as usize, counts);
        counts.links += links.len() as u64;
        counts.passages_with_links += u64::from(!links.is_empty());
        digest.push_passage(links.iter().copied());
        lengths.push(links.len() as u32);
        targets.extend(links.iter().map(|link| link[0]));
        rows.push(&links);
        if rows.len() == settings.batch_rows as usize {
            file.write_batch(rows.take_columns().map_err(BuildError::arrow(&path))?)?;
        }
    }
    if rows.len() > 0 {
        file.write_batch(rows.take_columns().map_err(BuildError::arrow(&path))?)?;
    }
    file.finish()?;
    write_backlinks(dir, settings.batch_rows as usize, &lengths, &targets)?;
    Ok(digest.finish())
}

/// The anchors of a passage, in the order of the text.
fn resolve_anchors<'a>(
    anchors: &mut AnchorSource<'_>,
    titles: &TitleTables<'a>,
    passage: u32,
    counts: &mut CorpusCounts,
) -> Result<Vec<ResolvedAnchor<'a>>, BuildError> {
    match anchors {
        AnchorSource::None => Ok(Vec::new()),
        AnchorSource::Mentions(mentions) => {
            let mut found = Vec::new();
            mentions.find_mentions(passage, &mut found);
            let resolved = found.into_iter().map(|mention| ResolvedAnchor {
                targets: exact_title(titles.passages, titles.exact, titles.passages.title(mention.passage)),
                start: mention.span.start as u32,
                end: mention.span.end as u32,
            });
            Ok(resolved.collect())
        }
        AnchorSource::Hyperlinks(spool) => {
            let mut links = spool.next_links()?;
            links.sort_by_key(|link| (link.start, link.end));
            let mut resolved = Vec::with_capacity(links.len());
            for link in &links {
                let mut targets = exact_title(titles.passages, titles.exact, &link.title);
                if targets.is_empty() {
                    targets = folded_title(titles.passages, titles.folded, &link.title);
                }
                if targets.is_empty() {
                    counts.unresolved_links += 1;
                } else {
                    resolved.push(ResolvedAnchor { targets, start: link.start, end: link.end });
                }
            }
            Ok(resolved)
        }
    }
}

/// The links of a passage: target, start and end of each.
fn select_links(
    passages: &PassageColumns,
    passage: u32,
    resolved: &[ResolvedAnchor<'_>],
    targets_per_title: usize,
    counts: &mut CorpusCounts,
) -> Vec<[u32; 3]> {
    let title = passages.title_bytes(passage);
    let mut linked = FxHashSet::default();
    let mut links = Vec::with_capacity(resolved.len());
    for anchor in resolved {
        let foreign = |target: &&u32| passages.title_bytes(**target) != title;
        if !anchor.targets.iter().any(|target| foreign(&target)) {
            counts.self_links += 1;
            continue;
        }
        for &target in anchor.targets.iter().filter(foreign).take(targets_per_title) {
            if linked.insert(target) {
                links.push([target, anchor.start, anchor.end]);
            } else {
                counts.repeated_links += 1;
            }
        }
    }
    links
}

/// Writes for each passage the passages linking to it, by a counting sort.
fn write_backlinks(dir: &Path, batch_rows: usize, lengths: &[u32], targets: &[u32]) -> Result<(), BuildError> {
    let mut ends = vec![0u64; lengths.len() + 1];
    for &target in targets {
        ends[target as usize + 1] += 1;
    }
    for passage in 0..lengths.len() {
        ends[passage + 1] += ends[passage];
    }
    let mut sources = vec![0u32; targets.len()];
    let mut next = ends.clone();
    let mut outgoing = targets.iter();
    for (source, &length) in (0u32..).zip(lengths) {
        for &target in outgoing.by_ref().take(length as usize) {
            let slot = &mut next[target as usize];
            sources[*slot as usize] = source;
            *slot += 1;
        }
    }
    let path = dir.join(schema::BACKLINKS_FILE);
    let mut file = BatchFile::create(dir, schema::BACKLINKS_FILE, schema::backlinks())?;
    for first in (0..lengths.len()).step_by(batch_rows) {
        let bounds = &ends[first..=(first + batch_rows).min(lengths.len())];
        let range = bounds[0] as usize..bounds[bounds.len() - 1] as usize;
        let lengths = bounds.windows(2).map(|pair| (pair[1] - pair[0]) as usize);
        file.write_batch(batches::list_column(lengths, &sources[range]).map_err(BuildError::arrow(&path))?)?;
    }
    file.finish()
}
