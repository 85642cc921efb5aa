//! The names of all objects of a store. No other file spells one.
//!
//! ```text
//!   journal/{created_ms:013}-{run}-{generation:06}-{worker:04}-{seq:06}.seg
//!   journal/{created_ms:013}-{run}-{generation:06}-{worker:04}-{seq:06}_{merge:06}.seg       several of them, merged
//!   runs/{run}/run.json
//!   runs/{run}/making.json                                    the job, while the run is being made
//!   runs/{run}/note.json                                      a person's note; the last one holds
//!   runs/{run}/log/{seq:020}.json
//!   runs/{run}/questions.parquet
//!   runs/{run}/gold/{edit:06}.jsonl
//!   runs/{run}/journal/...                                    as above: failures kept by this run only
//!   runs/{run}/spending/{number:010}.json                     what endpoints have cost at most; the last one counts
//!   runs/{run}/outcomes/{generation:06}-{worker:04}-{n:06}.parquet
//!   runs/{run}/tables/{generation:06}-{records:06}/{table}.parquet   final tables, named by a `Final` record
//!   runs/{run}/final/{table}.parquet                          the last ones again, for people: links or copies
//!   selections/{name}.json                                    choices of a search; never replaced
//! ```
//!
//! Numbers are padded, so that the order of names is the order of numbers.

/// The folder of the journal, shared by all runs.
pub const JOURNAL: &str = "journal";

/// The folder of all runs.
pub const RUNS: &str = "runs";

/// The folder of all selections.
pub const SELECTIONS: &str = "selections";

/// A run's folder.
pub fn run_folder(run: &str) -> String {
    format!("{RUNS}/{run}")
}

/// A run's record.
pub fn run_record(run: &str) -> String {
    format!("{RUNS}/{run}/run.json")
}

/// The order to make a run: there until its record is.
pub fn making_order(run: &str) -> String {
    format!("{RUNS}/{run}/making.json")
}

/// A person's note on a run.
pub fn run_note(run: &str) -> String {
    format!("{RUNS}/{run}/note.json")
}

/// The folder of a run's commit log.
pub fn log_folder(run: &str) -> String {
    format!("{RUNS}/{run}/log")
}

/// A record of a run's commit log.
pub fn log_record(run: &str, seq: u64) -> String {
    format!("{RUNS}/{run}/log/{seq:020}.json")
}

/// A run's questions.
pub fn questions_table(run: &str) -> String {
    format!("{RUNS}/{run}/questions.parquet")
}

/// The folder of the edits of a run's gold.
pub fn gold_folder(run: &str) -> String {
    format!("{RUNS}/{run}/gold/")
}

/// An edit of a run's gold.
pub fn gold_edit(run: &str, edit: u64) -> String {
    format!("{RUNS}/{run}/gold/{edit:06}.jsonl")
}

/// The folder of the journal segments read by this run only: indeterminate failures.
pub fn run_journal(run: &str) -> String {
    format!("{RUNS}/{run}/journal")
}

/// A journal segment in `folder`: [`JOURNAL`] or [`run_journal`]. Earlier creation sorts first.
pub fn segment_name(folder: &str, created_ms: u64, run: &str, generation: u64, worker: u32, seq: u64) -> String {
    format!("{folder}/{created_ms:013}-{run}-{generation:06}-{worker:04}-{seq:06}.seg")
}

/// The parts of a segment's name behind its folder and its run, in the order of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentId {
    /// Time of creation, in milliseconds since 1970; of a merged segment that of its latest source.
    pub created_ms: u64,
    /// The generation of its writer.
    pub generation: u64,
    /// The worker that wrote it.
    pub worker: u32,
    /// Number of the segment, by its writer; of a merged segment that of its latest source.
    pub seq: u64,
    /// Number of the merge, by its writer, from 1; 0 for a segment as it was first written.
    pub merge: u32,
}

/// A segment's name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentName {
    /// The folder: [`JOURNAL`] or [`run_journal`].
    pub folder: String,
    /// The run that wrote it.
    pub run: String,
    /// The other parts.
    pub id: SegmentId,
}

impl SegmentName {
    /// Reads an object's name; `None` if the object is no segment, or was named by something else.
    pub fn parse(name: &str) -> Option<Self> {
        let (folder, file) = name.rsplit_once('/')?;
        let (created_ms, writer) = file.strip_suffix(".seg")?.split_once('-')?;
        let mut parts = writer.rsplitn(4, '-');
        let (number, worker, generation, run) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let (seq, merge) = number.split_once('_').map_or((number, None), |(seq, merge)| (seq, Some(merge)));
        let id = SegmentId {
            created_ms: created_ms.parse().ok()?,
            generation: generation.parse().ok()?,
            worker: worker.parse().ok()?,
            seq: seq.parse().ok()?,
            merge: merge.map_or(Some(0), |merge| merge.parse().ok())?,
        };
        let parsed = Self { folder: folder.to_owned(), run: run.to_owned(), id };
        (parsed.object_name() == name).then_some(parsed)
    }

    /// The object's name.
    pub fn object_name(&self) -> String {
        segment_object(&self.folder, &self.run, &self.id)
    }
}

/// The name of a segment from its parts. A merged segment sorts after its sources, which a reader of a listing needs:
/// a listing in pages that lacks a source, because it is gone, is then sure to have the merged segment.
pub fn segment_object(folder: &str, run: &str, id: &SegmentId) -> String {
    let SegmentId { created_ms, generation, worker, seq, merge } = *id;
    match merge {
        0 => segment_name(folder, created_ms, run, generation, worker, seq),
        _ => format!("{folder}/{created_ms:013}-{run}-{generation:06}-{worker:04}-{seq:06}_{merge:06}.seg"),
    }
}

/// The run and the generation that wrote a segment; `None` if the name is another object's.
pub fn segment_writer(name: &str) -> Option<(&str, u64)> {
    let (_, file) = name.rsplit_once('/')?;
    let (_, writer) = file.strip_suffix(".seg")?.split_once('-')?;
    let mut parts = writer.rsplitn(4, '-').skip(2);
    let generation = parts.next()?.parse().ok()?;
    Some((parts.next()?, generation))
}

/// The creation of a segment, in milliseconds since 1970; `None` if the name is another object's.
pub fn segment_created(name: &str) -> Option<u64> {
    segment_writer(name)?;
    name.rsplit_once('/')?.1.split_once('-')?.0.parse().ok()
}

/// The folder of the notes of a run's spending.
pub fn spending_folder(run: &str) -> String {
    format!("{RUNS}/{run}/spending")
}

/// A note of a run's spending.
pub fn spending_note(run: &str, number: u64) -> String {
    format!("{RUNS}/{run}/spending/{number:010}.json")
}

/// The number of a note of a run's spending; `None` if the name is another object's.
pub fn spending_number(run: &str, name: &str) -> Option<u64> {
    let number = name.rsplit_once('/')?.1.strip_suffix(".json")?.parse().ok()?;
    (spending_note(run, number) == name).then_some(number)
}

/// The folder of a run's outcome parts.
pub fn outcome_parts(run: &str) -> String {
    format!("{RUNS}/{run}/outcomes")
}

/// An outcome part.
pub fn outcome_part(run: &str, generation: u64, worker: u32, n: u64) -> String {
    format!("{RUNS}/{run}/outcomes/{generation:06}-{worker:04}-{n:06}.parquet")
}

/// A table of a finished run, as `generation` writes it after reading `records` records of the log. The name is unique,
/// so the object is never replaced.
pub fn written_table(run: &str, generation: u64, records: u64, table: &str) -> String {
    format!("{RUNS}/{run}/tables/{generation:06}-{records:06}/{table}.parquet")
}

/// The folder of the tables for people.
pub fn final_folder(run: &str) -> String {
    format!("{RUNS}/{run}/final/")
}

/// A finished run's table, for people: a link to the original that the log's last `Final` record names, or a copy.
pub fn final_table(run: &str, table: &str) -> String {
    format!("{RUNS}/{run}/final/{table}.parquet")
}

/// A selection.
pub fn selection_record(name: &str) -> String {
    format!("{SELECTIONS}/{name}.json")
}
