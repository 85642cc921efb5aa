//! Turns questions with gold annotations into rows, one question at a time.

use crate::error::ConstructError;
use crate::hops::{Annotated, Making, walk};
use crate::library::{Chunk, Library};
use crate::paths::{reader, scorer};
use crate::report::Report;
use crate::rows::Rows;
use crate::settings::{Draw, Settings};
use crate::skip::Skip;
use crate::steps::steps;
use crate::tables::Tables;
use hopeval_datasets::{DatasetSpec, Policy, Question, Questions};
use std::path::Path;

/// Reads the questions of `spec`, finds negatives in `library`, and writes `labeler`, `filter`, `scorer`, `reader` and
/// `encoder.parquet` into `folder`. Files there are replaced. `progress` gets the number of questions done.
///
/// The same input gives the same bytes. Memory holds one question and, for each table, one row group.
///
/// # Errors
/// A bad row of the dataset, no question with rows, an unreadable or unwritable file.
pub fn construct(
    spec: &DatasetSpec,
    library: &mut Library<'_>,
    settings: &Settings,
    folder: &Path,
    progress: &mut dyn FnMut(u64),
) -> Result<Report, ConstructError> {
    let questions = Questions::open(spec, Policy::Strict)?;
    let mut tables = Tables::all(folder)?;
    let mut report = Report::default();
    for question in questions {
        tables.extend(rows(&question?, library, settings, &mut report))?;
        progress(report.questions);
    }
    tables.finish(&report)?;
    Ok(report)
}

/// The rows of one question. `report` counts them, and the reasons for missing ones.
pub fn rows(question: &Question, library: &mut Library<'_>, settings: &Settings, report: &mut Report) -> Rows {
    report.questions += 1;
    // Counted here, even if both stay 0.
    report.negatives_with_answer.get_or_insert(0);
    report.answers_not_found.get_or_insert(0);
    let mut rows = Rows::default();
    match annotated(question, library) {
        Err(skip) => report.skip(skip),
        Ok(annotated) => {
            let mut draw = Draw::new(settings.seed, &question.id);
            let mut making = Making { library, settings, draw: &mut draw, rows: &mut rows, report };
            let found = walk(&annotated, &mut making);
            scorer(&annotated, &mut making, &found);
            reader(&annotated, &mut making, &found);
        }
    }
    report.count(&rows);
    rows
}

fn annotated<'q>(question: &'q Question, library: &Library<'_>) -> Result<Annotated<'q>, Skip> {
    if question.answers.is_empty() {
        return Err(Skip::NoAnswer);
    }
    let steps = steps(question)?;
    let chunks: Option<Vec<Chunk>> = steps.iter().map(|step| library.gold(&step.passage)).collect();
    let chunks = chunks.ok_or(Skip::PassageNotFound)?;
    let mut gold: std::collections::BTreeSet<_> = chunks.iter().filter_map(|chunk| chunk.number).collect();
    if question.decomposition.is_empty() {
        // Gold is known by title, so every passage of that title is gold.
        gold.extend(library.titled(question.gold.iter().filter_map(|gold| gold.title.as_deref())));
    }
    // The corpus may have a gold passage in other words. It could be any passage of its title, so none is a negative.
    let elsewhere = chunks.iter().filter(|chunk| chunk.number.is_none() && !chunk.title.is_empty());
    gold.extend(library.titled(elsewhere.map(|chunk| chunk.title.as_str())));
    Ok(Annotated { question, steps, chunks, gold })
}
