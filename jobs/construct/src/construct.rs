//! Turns questions with gold annotations into rows, one question at a time.

use crate::error::ConstructError;
use crate::hops::{AnnotatedQuestion, RowMaker, walk_hops};
use crate::library::{ChunkText, CorpusLibrary};
use crate::paths::{push_reader_rows, push_scorer_rows};
use crate::report::ConstructReport;
use crate::rows::QuestionRows;
use crate::settings::{ConstructSettings, QuestionRandom};
use crate::skip::SkipReason;
use crate::steps::question_steps;
use crate::tables::TrainingTables;
use hopeval_datasets::{DatasetSpec, Question, Questions, RowPolicy};
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
    library: &mut CorpusLibrary<'_>,
    settings: &ConstructSettings,
    folder: &Path,
    progress: &mut dyn FnMut(u64),
) -> Result<ConstructReport, ConstructError> {
    let questions = Questions::open(spec, RowPolicy::Strict)?;
    let mut tables = TrainingTables::create_all(folder)?;
    let mut report = ConstructReport::default();
    for question in questions {
        tables.extend(question_rows(&question?, library, settings, &mut report))?;
        progress(report.questions);
    }
    tables.finish_files(&report)?;
    Ok(report)
}

/// The rows of one question. `report` counts them, and the reasons for missing ones.
pub fn question_rows(
    question: &Question,
    library: &mut CorpusLibrary<'_>,
    settings: &ConstructSettings,
    report: &mut ConstructReport,
) -> QuestionRows {
    report.questions += 1;
    // Counted here, even if both stay 0.
    report.negatives_with_answer.get_or_insert(0);
    report.answers_not_found.get_or_insert(0);
    let mut rows = QuestionRows::default();
    match annotate_question(question, library) {
        Err(skip) => report.count_skipped(skip),
        Ok(annotated) => {
            let mut random = QuestionRandom::new(settings.seed, &question.id);
            let mut maker = RowMaker { library, settings, random: &mut random, rows: &mut rows, report };
            let found = walk_hops(&annotated, &mut maker);
            push_scorer_rows(&annotated, &mut maker, &found);
            push_reader_rows(&annotated, &mut maker, &found);
        }
    }
    report.count_rows(&rows);
    rows
}

fn annotate_question<'q>(
    question: &'q Question,
    library: &CorpusLibrary<'_>,
) -> Result<AnnotatedQuestion<'q>, SkipReason> {
    if question.answers.is_empty() {
        return Err(SkipReason::NoAnswer);
    }
    let steps = question_steps(question)?;
    let chunks: Option<Vec<ChunkText>> = steps.iter().map(|step| library.gold_chunk(&step.passage)).collect();
    let chunks = chunks.ok_or(SkipReason::PassageNotFound)?;
    let mut gold: std::collections::BTreeSet<_> = chunks.iter().filter_map(|chunk| chunk.number).collect();
    if question.decomposition.is_empty() {
        // Gold is known by title, so every passage of that title is gold.
        gold.extend(library.passages_titled(question.gold.iter().filter_map(|gold| gold.title.as_deref())));
    }
    // The corpus may have a gold passage in other words. It could be any passage of its title, so none is a negative.
    let elsewhere = chunks.iter().filter(|chunk| chunk.number.is_none() && !chunk.title.is_empty());
    gold.extend(library.passages_titled(elsewhere.map(|chunk| chunk.title.as_str())));
    Ok(AnnotatedQuestion { question, steps, chunks, gold })
}
