//! Walks a question hop by hop, and makes the rows of labeler, filter and encoder on the way.

use crate::clauses::word_depths;
use crate::library::{ChunkText, CorpusLibrary};
use crate::report::ConstructReport;
use crate::rows::{EncoderRow, FilterRow, LabelerRow, QueryInfo, QuestionRows};
use crate::settings::{ConstructSettings, KeptWords, QuestionRandom};
use crate::skip::SkipReason;
use crate::spans::ChunkWords;
use crate::steps::QuestionStep;
use crate::words::{is_content, lower_case, split_words};
use hopeval_corpus::PassageId;
use hopeval_datasets::Question;
use std::collections::BTreeSet;

/// A question with its steps and their passages.
pub(crate) struct AnnotatedQuestion<'q> {
    pub(crate) question: &'q Question,
    pub(crate) steps: Vec<QuestionStep>,
    /// The gold passage of each step.
    pub(crate) chunks: Vec<ChunkText>,
    /// Numbers of all gold passages.
    pub(crate) gold: BTreeSet<PassageId>,
}

/// A word of a query.
#[derive(Clone, Debug)]
struct QueryWord {
    text: String,
    /// The hop, from 1, at which the word is dropped: queries after that hop lack it.
    until: u32,
}

/// A passage of a hop with the steps it answers.
struct PositivePassage {
    steps: Vec<usize>,
    words: ChunkWords,
    /// For each kept word the last hop that needs it (0: needed by none); `None` for other words.
    kept: Vec<Option<u32>>,
    /// Whether an answer of one of the steps is needed by another step and missing here.
    lost: bool,
}

/// The means to make the rows of one question.
pub(crate) struct RowMaker<'a, 'c> {
    pub(crate) library: &'a mut CorpusLibrary<'c>,
    pub(crate) settings: &'a ConstructSettings,
    pub(crate) random: &'a mut QuestionRandom,
    pub(crate) rows: &'a mut QuestionRows,
    pub(crate) report: &'a mut ConstructReport,
}

/// Makes the rows. Returns the passages found for each hop's query without gold ones, best first.
pub(crate) fn walk_hops(annotated: &AnnotatedQuestion<'_>, maker: &mut RowMaker<'_, '_>) -> Vec<Vec<PassageId>> {
    let AnnotatedQuestion { question, steps, .. } = annotated;
    let deepest = steps.iter().map(|step| step.depth).max().unwrap_or(0);
    let asked = split_words(&question.text).into_iter().zip(word_depths(&question.text, steps));
    let mut query: Vec<QueryWord> =
        asked.map(|(word, until)| QueryWord { text: word.text.to_owned(), until }).collect();
    let mut text = question.text.clone();
    let mut found = Vec::new();
    for hop in 1..=deepest {
        let negatives = other_passages(annotated, maker.library, &text, maker.settings.k);
        let positives = positive_passages(annotated, hop, maker.settings.keep);
        let lost = label_hop(annotated, maker, (hop, &text), &positives, &negatives);
        found.push(negatives);
        if lost {
            maker.report.count_cut_short(SkipReason::AnswerNotInPassage);
            break;
        }
        if hop < deepest {
            let continuing = positives.iter().filter(|positive| continues(steps, positive));
            let information: Vec<Vec<QueryWord>> = continuing.map(kept_words).collect();
            maker.rows.filter.push(filter_row(&question.id, hop, &query, &information));
            query.retain(|word| word.until > hop);
            if !query.iter().any(|word| is_content(&lower_case(&word.text))) {
                maker.report.queries_without_question += 1;
            }
            query.extend(information.into_iter().flatten().filter(|word| word.until > hop));
            text = query.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ");
        }
    }
    found
}

/// The best passages for a query, without gold ones.
fn other_passages(
    annotated: &AnnotatedQuestion<'_>,
    library: &mut CorpusLibrary<'_>,
    query: &str,
    k: usize,
) -> Vec<PassageId> {
    let mut found = library.search(query, k.saturating_add(annotated.gold.len()));
    found.retain(|passage| !annotated.gold.contains(passage));
    found.truncate(k);
    found
}

fn positive_passages(annotated: &AnnotatedQuestion<'_>, hop: u32, keep: KeptWords) -> Vec<PositivePassage> {
    let AnnotatedQuestion { question, steps, chunks, .. } = annotated;
    let mut positives: Vec<PositivePassage> = Vec::new();
    for (at, step) in steps.iter().enumerate().filter(|(_, step)| step.depth == hop) {
        let same = positives.iter().position(|positive| chunks[positive.steps[0]] == chunks[at]);
        let place = same.unwrap_or_else(|| {
            let words = ChunkWords::from_chunk(&chunks[at]);
            positives.push(PositivePassage {
                steps: Vec::new(),
                kept: vec![None; words.words.len()],
                words,
                lost: false,
            });
            positives.len() - 1
        });
        let positive = &mut positives[place];
        positive.steps.push(at);
        if keep == KeptWords::SubjectAndAnswer {
            for named in positive.words.subject_words(step) {
                positive.kept[named].iter_mut().for_each(|kept| *kept = Some(kept.unwrap_or(0)));
            }
        }
        let is_last = at + 1 == steps.len() && step.needed_by.is_empty();
        let aliases = question.answers.iter().filter(|_| is_last);
        let answers: Vec<&str> = std::iter::once(&step.answer).chain(aliases).map(String::as_str).collect();
        let Some(answer) = positive.words.answer_words(step, &answers) else {
            positive.lost |= !step.needed_by.is_empty();
            continue;
        };
        let until = step.needed_by.iter().map(|&by| steps[by].depth).max().unwrap_or(0);
        positive.kept[answer].iter_mut().for_each(|kept| *kept = Some(kept.unwrap_or(0).max(until)));
    }
    positives
}

fn continues(steps: &[QuestionStep], positive: &PositivePassage) -> bool {
    positive.steps.iter().any(|&step| !steps[step].needed_by.is_empty())
}

fn kept_words(positive: &PositivePassage) -> Vec<QueryWord> {
    let words = positive.words.words.iter().zip(&positive.kept);
    words.filter_map(|(word, kept)| Some(QueryWord { text: word.clone(), until: (*kept)? })).collect()
}

/// Makes the labeler and encoder rows of a hop. Returns whether an answer needed later was not found.
fn label_hop(
    annotated: &AnnotatedQuestion<'_>,
    maker: &mut RowMaker<'_, '_>,
    (hop, query): (u32, &str),
    positives: &[PositivePassage],
    negatives: &[PassageId],
) -> bool {
    let RowMaker { library, settings, random, rows, report } = maker;
    let (steps, id) = (&annotated.steps, annotated.question.id.as_str());
    let hop = (query, hop as i32 - 1);
    if negatives.is_empty() {
        report.hops_without_negative += 1;
    }
    let wanted = settings.random_negatives.saturating_mul(positives.len());
    let random_ids = random_passages(annotated, library, negatives, wanted, random);
    if wanted > 0 {
        *report.random_negatives_missing.get_or_insert(0) += (wanted - random_ids.len()) as u64;
    }
    let wrong = negatives.iter().take(settings.negatives.saturating_mul(positives.len())).chain(&random_ids);
    let wrong: Vec<ChunkText> = wrong.map(|&passage| library.corpus_chunk(passage)).collect();
    let listed: Vec<String> =
        negatives.iter().chain(&random_ids).map(|&passage| library.corpus_chunk(passage).written()).collect();
    for positive in positives {
        let chunk = &annotated.chunks[positive.steps[0]];
        let tag = if continues(steps, positive) { CONTINUE } else { FINISH };
        let labels: Vec<bool> = positive.kept.iter().map(Option::is_some).collect();
        report.gold_without_span += u64::from(!labels.contains(&true));
        report.gold_words += labels.len() as u64;
        report.kept_words += labels.iter().filter(|kept| **kept).count() as u64;
        rows.encoder.push(encoder_row(id, hop, chunk.written(), listed.clone()));
        rows.labeler.push(labeler_row(id, hop, positive.words.clone(), labels, tag, &chunk.name));
    }
    for chunk in &wrong {
        let words = ChunkWords::from_chunk(chunk);
        let mut of_hop = positives.iter().flat_map(|positive| &positive.steps).map(|&at| &steps[at]);
        let has_answer = of_hop.any(|step| words.whole_answer(step, &[step.answer.as_str()]).is_some());
        *report.negatives_with_answer.get_or_insert(0) += u64::from(has_answer);
        let labels = vec![false; words.words.len()];
        rows.labeler.push(labeler_row(id, hop, words, labels, TERMINATE, &chunk.name));
    }
    positives.iter().any(|positive| positive.lost)
}

/// The tags, as in the authors' files.
pub(crate) const CONTINUE: &str = "<CONTINUE>";
pub(crate) const TERMINATE: &str = "<TERMINATE>";
pub(crate) const FINISH: &str = "<FINISH>";

/// A labeler's row for a query and its hop, from 0.
pub(crate) fn labeler_row(
    id: &str,
    (query, hop): (&str, i32),
    words: ChunkWords,
    labels: Vec<bool>,
    tag: &'static str,
    passage: &str,
) -> LabelerRow {
    let matched = words.words.iter().zip(&labels).filter(|(_, kept)| **kept);
    LabelerRow {
        question: query.to_owned(),
        matched: matched.map(|(word, _)| word.as_str()).collect::<Vec<_>>().join(" "),
        chunk: words.text,
        chunk_tokens: words.words,
        labels,
        tag,
        question_id: id.to_owned(),
        passage: passage.to_owned(),
        hop,
    }
}

/// An encoder's row for a query and its hop, from 0.
pub(crate) fn encoder_row(
    id: &str,
    (query, hop): (&str, i32),
    positive: String,
    mut negatives: Vec<String>,
) -> EncoderRow {
    // Two passages may have the same title and text.
    negatives.retain(|negative| *negative != positive);
    EncoderRow { question_id: id.to_owned(), query: query.to_owned(), positive, negatives, hop }
}

/// Random passages of the whole corpus, neither gold nor in `found`.
fn random_passages(
    annotated: &AnnotatedQuestion<'_>,
    library: &CorpusLibrary<'_>,
    found: &[PassageId],
    count: usize,
    random: &mut QuestionRandom,
) -> Vec<PassageId> {
    let mut drawn = Vec::new();
    // A corpus of gold alone has no such passage; elsewhere a few tries are enough.
    for _ in 0..count.saturating_mul(16) {
        if drawn.len() == count || library.len() == 0 {
            break;
        }
        let passage = PassageId(random.below(library.len()) as u32);
        if !annotated.gold.contains(&passage) && !found.contains(&passage) && !drawn.contains(&passage) {
            drawn.push(passage);
        }
    }
    drawn
}

/// The filter's row of a hop. Words needed by a later hop are kept.
fn filter_row(id: &str, hop: u32, query: &[QueryWord], information: &[Vec<QueryWord>]) -> FilterRow {
    let told = information.iter().map(|words| words.iter().map(|word| word.text.as_str()).collect());
    let made = QueryInfo::new(query.iter().map(|word| word.text.as_str()), told);
    let mut needed = query.iter().chain(information.iter().flatten()).map(|word| word.until > hop);
    let labels = made.template.iter().map(|template| !template && needed.next().unwrap_or(false)).collect();
    FilterRow {
        query_info_tokens: made.tokens,
        query_info_labels: labels,
        question_id: id.to_owned(),
        hop: hop as i32 - 1,
    }
}
