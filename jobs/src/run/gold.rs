//! Edits of gold: corrections of questions' right answers and passages.
//!
//! An edit is an object of the run with the questions' rows and their new gold. It counts from its record in the log
//! on. Outcomes stay as they are; scores and measures are computed again. Only configurations that read gold are
//! driven again, for the edited questions alone.

use super::edits::{edited_row, read_edits};
use super::leftovers;
use crate::error::JobError;
use crate::prepare::questions::QuestionResolver;
use crate::prepare::rankings::keep_brought;
use crate::run::open::OpenRun;
use hopeval_datasets::{Questions, RowPolicy};
use hopeval_results::tables::{QuestionRow, questions as question_table};
use hopeval_results::{FileCheck, Log, layout};
use std::collections::BTreeMap;
use std::path::Path;

/// Counts of an edit's questions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GoldEditCounts {
    /// Questions of the file.
    pub questions: u64,
    /// Questions with new gold.
    pub changed: u64,
}

/// Applies the gold of `path`, a file in the run's dataset format with some or all of its questions.
///
/// # Errors
/// A file without any of the run's questions; a question with another text, other candidates, type, hops or strata:
/// those need a new run. Gold missing from the corpus, unless the run keeps such questions.
pub fn apply_edit(run: &OpenRun, path: &Path, committer: &str) -> Result<GoldEditCounts, JobError> {
    if let Some(judged) = &run.resolved.judged {
        let reason = format!("it judges run {}: edit that one's gold, and judge it again", judged.run);
        return Err(JobError::Unfit { run: run.id().to_owned(), reason });
    }
    // Their outcomes are computed again.
    let mut readers = run.methods.iter().filter(|method| method.reads_gold());
    readers.try_for_each(|method| run.check_version(method.as_ref()))?;
    let mut log = Log::open(&run.places.store, run.id())?;
    let known = known_questions(run, &log)?;
    let format = run.resolved.prepared.format;
    let fields = run.resolved.job.dataset.fields.clone();
    let spec = hopeval_datasets::DatasetSpec { format, paths: vec![path.into()], limit: None, fields };
    let questions = Questions::open(&spec, RowPolicy::Strict)?;
    let policy = run.resolved.job.dataset.missing_gold;
    let gold_by = (run.resolved.job.gold_by(questions.format()), policy);
    let mut resolver = QuestionResolver::new(&run.configurations()?.catalogue.corpus, gold_by, path, false);
    let mut counts = GoldEditCounts::default();
    let mut lines = Vec::new();
    for question in questions {
        let question = question?;
        let Some(old) = known.get(&question.id) else {
            // A limited run has only the first questions of its file, and it lacks the quarantined rows.
            continue;
        };
        counts.questions += 1;
        let mut new = resolver.resolve_row(old.index, &question)?;
        check_rest(run, old, &new)?;
        keep_brought(old, &mut new);
        if new.gold_digest != old.gold_digest {
            counts.changed += 1;
            serde_json::to_writer(&mut lines, &new).map_err(|source| JobError::Stored {
                what: "an edit of gold",
                run: run.id().to_owned(),
                source,
            })?;
            lines.push(b'\n');
        }
    }
    if counts.questions == 0 {
        let reason = format!("none of its questions is in {}", path.display());
        return Err(JobError::Unfit { run: run.id().to_owned(), reason });
    }
    if counts.changed > 0 {
        commit_edit(run, &mut log, committer, &lines)?;
    }
    Ok(counts)
}

/// The run's questions by id, with the log's edits of gold applied.
fn known_questions(run: &OpenRun, log: &Log) -> Result<BTreeMap<String, QuestionRow>, JobError> {
    let store = &run.places.store;
    let before = read_edits(store, log)?;
    let mut known = BTreeMap::new();
    for row in question_table::stream_questions(store, run.id(), run.record.questions_check(), 0)? {
        let row = edited_row(&before, row?);
        known.insert(row.id.clone(), row);
    }
    Ok(known)
}

/// Refuses an edited question if more than its gold differs.
fn check_rest(run: &OpenRun, old: &QuestionRow, new: &QuestionRow) -> Result<(), JobError> {
    if new.text != old.text || new.candidates != old.candidates {
        let reason = format!("question `{}` has another text or other candidates; that needs a new run", new.id);
        return Err(JobError::Unfit { run: run.id().to_owned(), reason });
    }
    if let Some(other) = other_group(old, new) {
        let reason = format!("question `{}` has {other}; that needs a new run", new.id);
        return Err(JobError::Unfit { run: run.id().to_owned(), reason });
    }
    Ok(())
}

/// Stores the edited rows under the first free edit number, and records the edit in the log.
fn commit_edit(run: &OpenRun, log: &mut Log, committer: &str, lines: &[u8]) -> Result<(), JobError> {
    let mut edit = log.state().golds.last().map_or(1, |last| last.edit + 1);
    while !run.places.store.put_if_absent(&layout::gold_edit(run.id(), edit), lines.to_vec().into())? {
        edit += 1;
    }
    let check = Some(FileCheck::of(lines));
    log.append_gold(committer, edit, &layout::gold_edit(run.id(), edit), check)?;
    leftovers::clear_gold(&run.places.store, run.id(), edit)?;
    Ok(())
}

/// The first of the groups with means of their own (type, hops, strata) in which the edited question differs, with both
/// values.
fn other_group(old: &QuestionRow, new: &QuestionRow) -> Option<String> {
    let other = |what: &str, new: String, old: String| Some(format!("another {what}, {new} instead of {old}"));
    if new.kind != old.kind {
        let name = |row: &QuestionRow| row.kind.clone().unwrap_or_else(|| "none".to_owned());
        return other("type", name(new), name(old));
    }
    if new.hops != old.hops {
        let count = |row: &QuestionRow| row.hops.map_or("none".to_owned(), |hops| hops.to_string());
        // Formats without a number of hops count the gold passages.
        return other("number of hops or of gold passages", count(new), count(old));
    }
    let written = |row: &QuestionRow| {
        let strata = row.strata.iter().map(|(name, value)| format!("{name}={value}"));
        strata.collect::<Vec<_>>().join(" ")
    };
    if new.strata == old.strata { None } else { other("set of strata", written(new), written(old)) }
}
