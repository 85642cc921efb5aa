//! Builds an index file, in memory independent of the number of postings.
//!
//! ```text
//! passages --chunks of 32,768--> runs (parallel) --in order--> term numbers --> spilled runs
//!                                                                                   |
//!          sections <--in order-- lists encoded (parallel) <-- terms, batch by batch +
//! ```
//!
//! Chunks have a fixed size and get their term numbers in corpus order, so the bytes do not depend on the number of
//! threads. Only the vocabulary, a length for each passage, and `threads` chunks stay in memory.

mod merge;
mod run;

use std::path::Path;

use rayon::prelude::*;

use crate::{
    bm25::description::{FieldNumbers, IndexDescription},
    container::{ContainerWriter, SectionKind},
    error::IndexError,
    parameters::{IndexLayout, PassageNormalisation, SearchedFields},
    passages::Passages,
    tfidf::grams,
    vocabulary::TermInterner,
};
use merge::SpillFile;
use run::PassageRun;

/// Passages in a run.
const RUN: u32 = 1 << 15;

/// Maximum number of passages of an index; higher numbers mark ends.
const MOST_PASSAGES: u32 = u32::MAX - 2;

/// Builds the index of `passages` at `path`.
pub(crate) fn build_index(
    passages: &dyn Passages,
    corpus_digest: &str,
    layout: IndexLayout,
    path: &Path,
    threads: usize,
) -> Result<(), IndexError> {
    if passages.len() > MOST_PASSAGES {
        return Err(IndexError::TooLarge { what: "passages", limit: u64::from(MOST_PASSAGES) });
    }
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.max(1)).build().map_err(|e| IndexError::Io {
        action: "start threads to build",
        path: path.to_owned(),
        source: std::io::Error::other(e),
    })?;
    pool.install(|| {
        let fields = layout.fields();
        let mut writer = ContainerWriter::create(path, 1 + 5 * fields.count())?;
        let mut numbers = Vec::new();
        for field in 0..fields.count() {
            numbers.push(build_field(passages, layout, field as u32, path, &mut writer)?);
        }
        let description =
            IndexDescription { corpus: corpus_digest.to_owned(), layout, passages: passages.len(), fields: numbers };
        writer.begin_section(SectionKind::Description, 0);
        writer.write(&description.to_bytes())?;
        writer.end_section()?;
        writer.finish()
    })
}

/// The text of a passage's field, in `scratch` if it must be composed.
fn field_text<'a>(
    passages: &'a dyn Passages,
    fields: SearchedFields,
    field: u32,
    id: u32,
    scratch: &'a mut String,
) -> &'a str {
    match (fields, field) {
        (SearchedFields::TitleText, _) => {
            scratch.clear();
            scratch.push_str(passages.title(id));
            scratch.push(' ');
            scratch.push_str(passages.text(id));
            scratch
        }
        (SearchedFields::Title, _) | (SearchedFields::TitleAndText, 0) => passages.title(id),
        (SearchedFields::Text | SearchedFields::TitleAndText, _) => passages.text(id),
    }
}

/// Calls `emit` with each term of `text` under `layout`.
fn each_term(layout: IndexLayout, text: &str, scratch: &mut String, emit: impl FnMut(&[u8])) {
    match layout {
        IndexLayout::Bm25 { analyzer, .. } => analyzer.each_term(text, scratch, emit),
        IndexLayout::Tfidf { ngrams, hash_bits, normalisation, .. } => match normalisation {
            PassageNormalisation::Nfd => grams::each_gram(text, ngrams, hash_bits, emit),
            PassageNormalisation::None => grams::each_gram_as_written(text, ngrams, hash_bits, emit),
        },
    }
}

/// The terms of a field, the number of passages with each, and the length of each passage.
#[derive(Default)]
struct FieldTerms {
    terms: TermInterner,
    frequencies: Vec<u32>,
    lengths: Vec<u32>,
}

fn build_field(
    passages: &dyn Passages,
    layout: IndexLayout,
    field: u32,
    path: &Path,
    writer: &mut ContainerWriter,
) -> Result<FieldNumbers, IndexError> {
    let mut spill = SpillFile::create(path)?;
    let FieldTerms { terms, frequencies, lengths } = gather_terms(passages, layout, field, &mut spill)?;
    if terms.text().len() as u64 > u64::from(u32::MAX) {
        return Err(IndexError::TooLarge { what: "bytes of distinct terms", limit: u64::from(u32::MAX) });
    }
    let numbers = FieldNumbers::new(&lengths, &frequencies);
    write_numbers(writer, SectionKind::Lengths, field, &lengths)?;
    let records = spill.merge_lists(&terms, &frequencies, &lengths, field, writer)?;
    write_bytes(writer, SectionKind::Terms, field, &records)?;
    drop(records);
    write_bytes(writer, SectionKind::TermText, field, terms.text())?;
    write_numbers(writer, SectionKind::Slots, field, &terms.file_slots())?;
    Ok(numbers)
}

/// Numbers the terms of a field in corpus order, and spills the runs with their passages.
fn gather_terms(
    passages: &dyn Passages,
    layout: IndexLayout,
    field: u32,
    spill: &mut SpillFile,
) -> Result<FieldTerms, IndexError> {
    let mut found = FieldTerms { lengths: Vec::with_capacity(passages.len() as usize), ..FieldTerms::default() };
    let mut runs: Vec<PassageRun> = (0..rayon::current_num_threads()).map(|_| PassageRun::default()).collect();
    let mut start = 0;
    while start < passages.len() {
        // One chunk for each thread; then the terms are numbered chunk by chunk.
        let starts: Vec<u32> = (0..runs.len() as u32).map_while(|i| start.checked_add(i * RUN)).collect();
        let starts: Vec<u32> = starts.into_iter().take_while(|&s| s < passages.len()).collect();
        let runs = &mut runs[..starts.len()];
        runs.par_iter_mut().zip(&starts).for_each(|(run, &from)| {
            let mut text = String::new();
            let mut scratch = String::new();
            run.fill_terms(from, passages.len().min(from.saturating_add(RUN)), |id, emit| {
                each_term(layout, field_text(passages, layout.fields(), field, id, &mut text), &mut scratch, emit);
            });
        });
        for run in runs.iter_mut() {
            run.check_size()?;
            run.number_terms(&mut found.terms, &mut found.frequencies);
            found.lengths.extend_from_slice(run.lengths());
        }
        runs.par_iter_mut().for_each(PassageRun::encode_lists);
        for run in runs.iter() {
            spill.push_run(run)?;
        }
        start = start.saturating_add(RUN.saturating_mul(starts.len() as u32));
    }
    Ok(found)
}

fn write_bytes(writer: &mut ContainerWriter, kind: SectionKind, field: u32, bytes: &[u8]) -> Result<(), IndexError> {
    writer.begin_section(kind, field);
    writer.write(bytes)?;
    writer.end_section()
}

fn write_numbers(
    writer: &mut ContainerWriter,
    kind: SectionKind,
    field: u32,
    numbers: &[u32],
) -> Result<(), IndexError> {
    writer.begin_section(kind, field);
    for chunk in numbers.chunks(1 << 16) {
        writer.write(&chunk.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<u8>>())?;
    }
    writer.end_section()
}
