//! The reader's step: an answer from each of the best paths, and the best of them (section 3.2, appendix C.1).
//!
//! Answers are ranked by `lambda * path score + (1 - lambda) * span score`. The paper takes MDR's reader. MDR itself
//! has the reader's rank head in the path's place (`lambda_on = "rank"`; Xiong et al., 2021). A context is "yes no" and
//! the path's passages, so both words can be a span. Its service cuts it to the reader's limit (512 tokens, 64 of the
//! question in the paper).

use super::likelihood::nonsense_failure;
use super::parameters::{LambdaTarget, PromptRankParameters};
use crate::outcome::PassagePath;
use crate::prompt::{PassageForm, Prompt, PromptPart};
use crate::request::ReadPayload;
use crate::response::{AnswerSpan, Failure, Response};

/// Requests the best span in a path.
pub(super) fn read_payload(parameters: &PromptRankParameters, question: &str, path: &PassagePath) -> ReadPayload {
    let form =
        if parameters.read_titles { PassageForm::TitleAndText { between: " ".to_owned() } } else { PassageForm::Text };
    let mut parts = Vec::new();
    if parameters.yes_no {
        parts.push(PromptPart::text("yes no "));
    }
    for (position, &passage) in path.passages.iter().enumerate() {
        if position > 0 {
            parts.push(PromptPart::text(" "));
        }
        parts.push(PromptPart::passage(passage, form.clone(), None));
    }
    ReadPayload {
        question: question.to_owned(),
        context: Prompt { parts, ..Prompt::default() },
        max_answer_tokens: parameters.max_answer_tokens,
        spans: 1,
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
