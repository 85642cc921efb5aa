//! Turns a language model's annotations into rows, one question at a time.
//!
//! The method `efficientrag_data` asks the model, in a run. Its outcomes become rows here, as in section 3.2 of
//! EfficientRAG. The copied words are found again in the chunk, and the next query's words in `Query: … Info: …`.
//! Passages found by a query are negatives unless they are gold. The query of a hop is the model's own text, as in the
//! authors' data.

use crate::align::align;
use crate::error::ConstructError;
use crate::hops::{CONTINUE, FINISH, TERMINATE, encoder_row, labeler_row};
use crate::library::{ChunkText, CorpusLibrary};
use crate::report::ConstructReport;
use crate::rows::{FilterRow, QueryInfo, QuestionRows};
use crate::settings::ConstructSettings;
use crate::spans::ChunkWords;
use crate::words::{folded_words, is_content, owned_words};
use hopeval_corpus::PassageId;
use hopeval_methods::annotation::{Annotation, STAGES};

/// How a question ended under `efficientrag_data`.
#[derive(Clone, Copy, Debug)]
pub struct AnnotationOutcome<'o> {
    /// The question's id.
    pub question: &'o str,
    /// `ok`, or the kind of failure.
    pub status: &'o str,
    /// The message of a failure.
    pub message: Option<&'o str>,
    /// The annotation, as JSON.
    pub annotation: Option<&'o str>,
}

/// A passage of a hop with the words copied from it by the model.
struct CopiedPassage {
    passage: PassageId,
    name: String,
    words: ChunkWords,
    labels: Vec<bool>,
    continues: bool,
}

/// The rows of one question: of labeler, filter and encoder. A failed question gives no rows; `report` counts the
/// reason.
///
/// # Errors
/// [`ConstructError::Annotation`]: the outcome comes from another method than `efficientrag_data`, or from another
/// corpus.
pub fn annotated_rows(
    ended: &AnnotationOutcome<'_>,
    library: &CorpusLibrary<'_>,
    settings: &ConstructSettings,
    report: &mut ConstructReport,
) -> Result<QuestionRows, ConstructError> {
    report.questions += 1;
    let mut rows = QuestionRows::default();
    if ended.status == "ok" {
        let annotation = read_annotation(ended, library)?;
        for hop in 0..annotation.hops.len() {
            hop_rows(ended.question, &annotation, hop, library, settings, &mut rows, report);
        }
    } else {
        report.count_skipped(failure_reason(ended));
    }
    report.count_rows(&rows);
    Ok(rows)
}

/// The kind of failure, with its stage if the message begins with one.
fn failure_reason(ended: &AnnotationOutcome<'_>) -> String {
    let stage = ended.message.and_then(|message| message.split_once(':')).map(|(stage, _)| stage);
    match stage.filter(|stage| STAGES.contains(stage)) {
        Some(stage) => format!("{} ({stage})", ended.status),
        None => ended.status.to_owned(),
    }
}

fn read_annotation(ended: &AnnotationOutcome<'_>, library: &CorpusLibrary<'_>) -> Result<Annotation, ConstructError> {
    let wrong = |reason: String| ConstructError::Annotation { question: ended.question.to_owned(), reason };
    let text = ended.annotation.ok_or_else(|| wrong("there is none".to_owned()))?;
    let annotation: Annotation = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
    let hops = annotation.depths().into_iter().max().map_or(0, |deepest| deepest + 1);
    if hops != annotation.hops.len() || hops == 0 {
        return Err(wrong(format!("{} hops for steps of {hops}", annotation.hops.len())));
    }
    for (at, step) in annotation.steps.iter().enumerate() {
        if step.needs.iter().any(|&need| need as usize >= at) {
            return Err(wrong(format!("step {} needs one that is not before it", at + 1)));
        }
    }
    let named = annotation.steps.iter().map(|step| step.passage);
    let mut named = named.chain(annotation.hops.iter().flat_map(|hop| hop.found.iter().copied()));
    match named.find(|passage| !library.contains(PassageId(passage.0))) {
        Some(passage) => Err(wrong(format!("passage {passage} is not in the corpus"))),
        None => Ok(annotation),
    }
}

fn hop_rows(
    id: &str,
    annotation: &Annotation,
    hop: usize,
    library: &CorpusLibrary<'_>,
    settings: &ConstructSettings,
    rows: &mut QuestionRows,
    report: &mut ConstructReport,
) {
    let copied = copied_passages(annotation, hop, library, report);
    let found = &annotation.hops[hop].found;
    let asked = (annotation.hops[hop].query.as_str(), hop as i32);
    let others: Vec<ChunkText> =
        found.iter().take(settings.k).map(|passage| library.corpus_chunk(PassageId(passage.0))).collect();
    report.hops_without_negative += u64::from(others.is_empty());
    let listed: Vec<String> = others.iter().map(ChunkText::written).collect();
    if let Some(next) = annotation.hops.get(hop + 1) {
        rows.filter.push(filter_row(id, asked, &next.query, &copied, report));
    }
    let count = settings.negatives.saturating_mul(copied.len());
    for CopiedPassage { name, words, labels, continues, .. } in copied {
        report.gold_without_span += u64::from(!labels.contains(&true));
        report.gold_words += labels.len() as u64;
        report.kept_words += labels.iter().filter(|kept| **kept).count() as u64;
        let tag = if continues { CONTINUE } else { FINISH };
        rows.encoder.push(encoder_row(id, asked, words.text.clone(), listed.clone()));
        rows.labeler.push(labeler_row(id, asked, words, labels, tag, &name));
    }
    for chunk in others.iter().take(count) {
        let words = ChunkWords::from_chunk(chunk);
        let labels = vec![false; words.words.len()];
        rows.labeler.push(labeler_row(id, asked, words, labels, TERMINATE, &chunk.name));
    }
}

/// The passages of a hop, each once, in the order of the steps.
fn copied_passages(
    annotation: &Annotation,
    hop: usize,
    library: &CorpusLibrary<'_>,
    report: &mut ConstructReport,
) -> Vec<CopiedPassage> {
    let depths = annotation.depths();
    let mut all: Vec<CopiedPassage> = Vec::new();
    for (at, step) in annotation.steps.iter().enumerate().filter(|(at, _)| depths[*at] == hop) {
        let passage = PassageId(step.passage.0);
        let place = all.iter().position(|copied| copied.passage == passage).unwrap_or_else(|| {
            let chunk = library.corpus_chunk(passage);
            let words = ChunkWords::from_chunk(&chunk);
            let labels = vec![false; words.words.len()];
            all.push(CopiedPassage { passage, name: chunk.name, words, labels, continues: false });
            all.len() - 1
        });
        let copied = &mut all[place];
        copied.continues |= annotation.is_needed(at);
        let wanted = folded_words(&step.words);
        let (kept, missing) = align(&wanted, &copied.words.folded, |_| true);
        report.copied_words += wanted.len() as u64;
        report.copied_words_not_found += missing;
        copied.labels.iter_mut().zip(kept).for_each(|(label, kept)| *label |= kept);
    }
    all
}

fn filter_row(
    id: &str,
    (query, hop): (&str, i32),
    next: &str,
    copied: &[CopiedPassage],
    report: &mut ConstructReport,
) -> FilterRow {
    let asked = owned_words(query);
    let continuing = copied.iter().filter(|copied| copied.continues);
    let information = continuing.map(|copied| {
        let words = copied.words.words.iter().zip(&copied.labels);
        words.filter(|(_, kept)| **kept).map(|(word, _)| word.as_str()).collect()
    });
    let made = QueryInfo::new(asked.iter().map(String::as_str), information);
    let within: Vec<String> = made.tokens.iter().map(|word| crate::words::lower_case(word)).collect();
    let wanted = folded_words(next);
    let (labels, missing) = align(&wanted, &within, |at| !made.template[at]);
    report.copied_words += wanted.len() as u64;
    report.copied_words_not_found += missing;
    let mut of_query = within.iter().zip(&labels).skip(2).take(asked.len());
    let still_asks = of_query.any(|(word, kept)| *kept && is_content(word));
    report.queries_without_question += u64::from(!still_asks);
    FilterRow { query_info_tokens: made.tokens, query_info_labels: labels, question_id: id.to_owned(), hop }
}
