//! The rows of scorer and reader: gold paths beside wrong ones, and passages with and without the answer.

use crate::hops::{AnnotatedQuestion, RowMaker};
use crate::library::{ChunkText, CorpusLibrary};
use crate::rows::{ReaderRow, ScorerRow};
use crate::words::lower_case;
use hopeval_corpus::PassageId;

/// Wrong passages beside the gold ones of a question, and wrong ends of a path, as in `ops/train/rows.py`.
const SINGLES: usize = 4;
const ENDS: usize = 3;

/// Gold passages and paths, then other passages found, then paths with a right beginning and a wrong end. The wrong end
/// is a link of the first passage to another passage, or a passage found by the second hop's query if there is no link.
pub(crate) fn push_scorer_rows(
    annotated: &AnnotatedQuestion<'_>,
    maker: &mut RowMaker<'_, '_>,
    found: &[Vec<PassageId>],
) {
    let library: &CorpusLibrary<'_> = maker.library;
    let text = |passage: PassageId| library.corpus_chunk(passage).text;
    let gold = |at: usize| annotated.chunks[at].text.clone();
    let mut rows: Vec<(Vec<String>, i8)> = Vec::new();
    let branches = gold_branches(annotated);
    for branch in &branches {
        rows.push((vec![gold(branch[0])], if branch.len() == 1 { 2 } else { 1 }));
        if branch.len() > 1 {
            rows.push((vec![gold(branch[1])], 1));
            // PromptRank has two hops; a longer path is scored by its beginning.
            rows.push((branch[..2].iter().map(|&at| gold(at)).collect(), 2));
        }
    }
    let first = found.first().map_or(&[][..], Vec::as_slice);
    rows.extend(first.iter().take(SINGLES).map(|&passage| (vec![text(passage)], 0)));
    for branch in &branches {
        let linked = annotated.chunks[branch[0]].number.map_or(&[][..], |number| library.links(number));
        let mut ends: Vec<PassageId> = linked.to_vec();
        ends.retain(|end| !annotated.gold.contains(end));
        if ends.is_empty() {
            ends.extend(found.get(1).map_or(first, Vec::as_slice));
        }
        rows.extend(ends.into_iter().take(ENDS).map(|end| (vec![gold(branch[0]), text(end)], 0)));
    }
    // Branches may share passages.
    let mut seen = std::collections::BTreeSet::new();
    rows.retain(|(path, _)| seen.insert(path.clone()));
    maker.rows.scorer.extend(rows.into_iter().map(|(path, relevance)| ScorerRow {
        question_id: annotated.question.id.clone(),
        question: annotated.question.text.clone(),
        path,
        relevance,
    }));
}

/// One branch for each step not needed by others: the steps that lead to it, in order, and each passage once. Of
/// several needed steps a branch follows the first.
fn gold_branches(annotated: &AnnotatedQuestion<'_>) -> Vec<Vec<usize>> {
    let steps = &annotated.steps;
    let ends = (0..steps.len()).filter(|&at| steps[at].needed_by.is_empty());
    ends.map(|end| {
        let way = std::iter::successors(Some(end), |&at| steps[at].needs.first().copied());
        let mut way: Vec<usize> = way.collect();
        way.reverse();
        let mut seen: Vec<&ChunkText> = Vec::new();
        way.retain(|&at| {
            let new = !seen.contains(&&annotated.chunks[at]);
            seen.push(&annotated.chunks[at]);
            new
        });
        way
    })
    .collect()
}

/// The gold passages with the answer, and passages without it: a gold one beside a wrong one, or two wrong ones.
pub(crate) fn push_reader_rows(
    annotated: &AnnotatedQuestion<'_>,
    maker: &mut RowMaker<'_, '_>,
    found: &[Vec<PassageId>],
) {
    let shown = |chunk: &ChunkText| format!("{} {}", chunk.title, chunk.text);
    let mut gold: Vec<String> = Vec::new();
    for chunk in &annotated.chunks {
        if !gold.contains(&shown(chunk)) {
            gold.push(shown(chunk));
        }
    }
    let mut row = |passages: Vec<String>, answer: String, relevance: i8| {
        maker.rows.reader.push(ReaderRow {
            question_id: annotated.question.id.clone(),
            question: annotated.question.text.clone(),
            passages,
            answer,
            relevance,
        });
    };
    let held = |answer: &&String| {
        let yes_no = matches!(lower_case(answer.trim()).as_str(), "yes" | "no");
        yes_no || gold.iter().any(|passage| passage.contains(answer.as_str()))
    };
    match annotated.question.answers.iter().find(held) {
        Some(answer) => {
            let folded = lower_case(answer.trim());
            let answer = if matches!(folded.as_str(), "yes" | "no") { folded } else { answer.clone() };
            row(gold.clone(), answer, 1);
        }
        None => *maker.report.answers_not_found.get_or_insert(0) += 1,
    }
    let mut wrong: Vec<String> =
        found.iter().flatten().take(2).map(|&id| shown(&maker.library.corpus_chunk(id))).collect();
    if maker.random.below(2) == 0 && wrong.len() > 1 {
        wrong[1] = gold[0].clone();
        wrong.reverse();
    }
    // Two passages may have the same title and text.
    wrong.dedup();
    if !wrong.is_empty() {
        row(wrong, String::new(), 0);
    }
}
