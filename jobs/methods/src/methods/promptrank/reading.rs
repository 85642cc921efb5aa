//! The reader's step: an answer from each of the best paths, and the best of them (section 3.2, appendix C.1).
//!
//! Answers are ranked by `lambda * path score + (1 - lambda) * span score`. The paper takes MDR's reader. MDR itself
//! has the reader's rank head in the path's place (`lambda_on = "rank"`; Xiong et al., 2021). A context is "yes no" and
//! the path's passages, so both words can be a span. Its service cuts it to the reader's limit (512 tokens, 64 of the
//! question in the paper).
//!
//! The weights of MDR know one form of context (`read_form = "mdr"`; `qa_dataset.py`, `prepare`), in which `[SEP]` and
//! `[unused1]` are single tokens, and questions have no question mark at their end:
//!
//! ```text
//! yes no [SEP] TITLE [unused1] SENTENCE [unused1] SENTENCE [SEP] TITLE [unused1] SENTENCE
//! ```

use super::likelihood::nonsense_failure;
use super::parameters::{LambdaTarget, PromptRankParameters, ReadForm};
use crate::outcome::PassagePath;
use crate::prompt::{PassageForm, Prompt, PromptPart};
use crate::request::ReadPayload;
use crate::response::{AnswerSpan, Failure, Response};

/// MDR's tokens between the parts of a context, and before each sentence.
const SEPARATOR: &str = "[SEP]";
const SENTENCE_MARK: &str = "[unused1]";

/// Requests the best span in a path.
pub(super) fn read_payload(parameters: &PromptRankParameters, question: &str, path: &PassagePath) -> ReadPayload {
    let marked = parameters.read_form == ReadForm::Mdr;
    let titled = parameters.read_titles;
    let form = match parameters.read_form {
        ReadForm::Mdr => PassageForm::MarkedSentences { mark: SENTENCE_MARK.to_owned(), titled },
        ReadForm::Plain if titled => PassageForm::TitleAndText { between: " ".to_owned() },
        ReadForm::Plain => PassageForm::Text,
    };
    let between = if marked { format!(" {SEPARATOR} ") } else { " ".to_owned() };
    let mut parts = Vec::new();
    if parameters.yes_no {
        parts.push(PromptPart::text(format!("yes no{between}")));
    }
    for (position, &passage) in path.passages.iter().enumerate() {
        if position > 0 {
            parts.push(PromptPart::text(&*between));
        }
        parts.push(PromptPart::passage(passage, form.clone(), None));
    }
    let question = if marked { question.strip_suffix('?').unwrap_or(question) } else { question };
    let markers = if marked { vec![SEPARATOR.to_owned(), SENTENCE_MARK.to_owned()] } else { Vec::new() };
    ReadPayload {
        question: question.to_owned(),
        context: Prompt { parts, ..Prompt::default() },
        max_answer_tokens: parameters.max_answer_tokens,
        spans: 1,
        markers,
        span_text: parameters.span_text,
    }
}

/// The best answer from the responses for `paths`, best first; of equally good ones the answer of the better path.
/// `None` if no path has a span.
///
/// # Errors
/// An indeterminate failure, a nonsensical answer, or, if no path could be read at all, the first refusal.
pub(super) fn best_answer(
    parameters: &PromptRankParameters,
    paths: &[PassagePath],
    responses: Vec<Response>,
) -> Result<Option<String>, Failure> {
    let mut best: Option<(f64, String)> = None;
    let mut refused = None;
    let mut read = false;
    for (path, response) in paths.iter().zip(responses) {
        match &response.result {
            Err(failure) if failure.kind.is_determinate() => {
                refused.get_or_insert_with(|| failure.clone());
                continue;
            }
            _ => read = true,
        }
        let Some(span) = response.spans()?.into_iter().next().filter(|span| !span.text.trim().is_empty()) else {
            continue;
        };
        let weight = answer_weight(parameters, path, &span)?;
        if best.as_ref().is_none_or(|(known, _)| weight > *known) {
            best = Some((weight, span.text));
        }
    }
    match refused {
        Some(failure) if !read => Err(failure),
        _ => Ok(best.map(|(_, text)| text)),
    }
}

fn answer_weight(parameters: &PromptRankParameters, path: &PassagePath, span: &AnswerSpan) -> Result<f64, Failure> {
    let PromptRankParameters { lambda, lambda_on, .. } = *parameters;
    let context = match (lambda_on, span.rank) {
        (LambdaTarget::Path, _) => path.score,
        (LambdaTarget::Rank, Some(rank)) => rank,
        (LambdaTarget::Rank, None) => {
            let message = "lambda_on is \"rank\", and the reader has no rank head";
            return Err(nonsense_failure(message.to_owned()));
        }
    };
    let weight = lambda * context + (1.0 - lambda) * span.score;
    if weight.is_finite() {
        Ok(weight)
    } else {
        Err(nonsense_failure(format!("the score of a span is {}", span.score)))
    }
}
