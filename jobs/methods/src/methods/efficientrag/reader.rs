//! Requests the answer, and finds it in the response: a span of the chunks, or JSON written by a language model.

use super::EfficientRagSettings;
use super::parameters::EfficientRagParameters;
use crate::prompt::{ChatRole, Content, LengthLimit, OverflowRule, Prompt, PromptPart};
use crate::reply_prompt;
use crate::request::{GeneratePayload, PassageId, ReadPayload, Request, TextFormat};
use crate::response::{Failure, FailureKind, Generation, Response};

/// The project's own wording of the paper's three-shot prompt (appendix B.3).
pub(super) const PROMPT: &str = include_str!("../../../prompts/efficientrag/reader.txt").trim_ascii_end();

const KNOWLEDGE: &str = "{knowledge}";
const QUESTION: &str = "{question}";

/// A piece of the generator's prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PromptPiece {
    Text(String),
    Knowledge,
    Question,
}

/// Cuts a prompt at its two fields; `None` if one is missing or there twice.
pub(super) fn split_prompt(prompt: &str) -> Option<Vec<PromptPiece>> {
    let place = |field: &str| {
        let mut places = prompt.match_indices(field).map(|(at, _)| at);
        places.next().filter(|_| places.next().is_none())
    };
    let mut fields =
        [(place(KNOWLEDGE)?, KNOWLEDGE, PromptPiece::Knowledge), (place(QUESTION)?, QUESTION, PromptPiece::Question)];
    fields.sort_by_key(|(at, _, _)| *at);
    let mut pieces = Vec::new();
    let mut from = 0;
    for (at, field, piece) in fields {
        pieces.extend([PromptPiece::Text(prompt[from..at].to_owned()), piece]);
        from = at + field.len();
    }
    pieces.push(PromptPiece::Text(prompt[from..].to_owned()));
    pieces.retain(|piece| *piece != PromptPiece::Text(String::new()));
    Some(pieces)
}

/// The request for an answer, if a service can give one. `asked` counts the earlier requests.
pub(super) fn answer_request(
    settings: &EfficientRagSettings,
    question: &str,
    passages: &[PassageId],
    asked: u32,
) -> Option<Request> {
    let parameters = &settings.parameters;
    let most = parameters.read_passages.map_or(usize::MAX, |most| most as usize);
    let passages = &passages[..passages.len().min(most)];
    if let Some(reader) = &parameters.reader {
        // Without a kept chunk there is no text for an extractive reader.
        return (!passages.is_empty()).then(|| Request::new(reader, read_payload(parameters, question, passages)));
    }
    let generator = parameters.generator.as_ref()?;
    Some(Request { draw: asked, ..Request::new(generator, generate_payload(settings, question, passages)) })
}

/// Whether another draw is allowed and may have another result.
pub(super) fn asks_again(settings: &EfficientRagSettings, asked: u32) -> bool {
    let parameters = &settings.parameters;
    parameters.generator.is_some() && asked + 1 < parameters.temperature.most_draws(parameters.attempts)
}

fn read_payload(parameters: &EfficientRagParameters, question: &str, passages: &[PassageId]) -> ReadPayload {
    let mut parts = Vec::new();
    if parameters.yes_no {
        parts.push(PromptPart::text("yes no "));
    }
    let knowledge = passage_parts(&mut parts, parameters, passages, " ");
    let context =
        Prompt { parts, budget: parameters.context_tokens, overflow: cut_last_first(knowledge), ..Prompt::default() };
    ReadPayload {
        question: question.to_owned(),
        context,
        max_answer_tokens: parameters.max_answer_tokens,
        spans: 1,
        span_text: parameters.span_text,
        ..ReadPayload::default()
    }
}

fn generate_payload(settings: &EfficientRagSettings, question: &str, passages: &[PassageId]) -> GeneratePayload {
    let parameters = &settings.parameters;
    let as_system = |text: &String| PromptPart { role: ChatRole::System, ..PromptPart::text(text) };
    let mut parts: Vec<PromptPart> = parameters.system.iter().map(as_system).collect();
    let mut knowledge = Vec::new();
    for piece in &settings.prompt {
        match piece {
            PromptPiece::Text(text) => parts.push(PromptPart::text(text)),
            PromptPiece::Question => parts.push(PromptPart::text(question)),
            PromptPiece::Knowledge => knowledge = passage_parts(&mut parts, parameters, passages, "\n"),
        }
    }
    let prompt =
        Prompt { parts, budget: parameters.context_tokens, overflow: cut_last_first(knowledge), ..Prompt::default() };
    GeneratePayload {
        prompt,
        max_tokens: parameters.max_tokens,
        stop: Vec::new(),
        sampling: parameters.temperature.sampling(),
        format: TextFormat::json_if(parameters.json),
        logprobs: false,
    }
}

/// Appends the passages with `between` between them. Returns the indices of their parts.
fn passage_parts(
    parts: &mut Vec<PromptPart>,
    parameters: &EfficientRagParameters,
    passages: &[PassageId],
    between: &str,
) -> Vec<u32> {
    let mut places = Vec::with_capacity(passages.len());
    for (index, &passage) in passages.iter().enumerate() {
        if index > 0 {
            parts.push(PromptPart { content: Content::Text(between.to_owned()), ..PromptPart::text("") });
        }
        places.push(parts.len() as u32);
        parts.push(PromptPart::passage(passage, parameters.chunk_form(), None));
    }
    places
}

/// Cuts the last passage first: the knowledge is cut from the right, and instruction and question stay.
fn cut_last_first(places: Vec<u32>) -> Vec<OverflowRule> {
    places.into_iter().rev().map(|part| OverflowRule::Cut { part, to: LengthLimit::Tokens(0) }).collect()
}

/// The failure of a language model without an answer in its text.
pub(super) fn unparsed_failure() -> Failure {
    let message = "what the generator wrote has no JSON with the key `answer`";
    Failure { kind: FailureKind::ParseFailure, message: message.to_owned() }
}

/// The answer in a response; `None` for a text without an answer and for an empty list of spans.
pub(super) fn answer_in(settings: &EfficientRagSettings, response: Response) -> Result<Option<String>, Failure> {
    if settings.parameters.reader.is_some() {
        return Ok(response.spans()?.into_iter().next().map(|span| span.text));
    }
    let Generation { text, .. } = response.generation()?;
    Ok(settings.parameters.answer_json.find(&text, |value| reply_prompt::short_text(value, "answer")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_has_each_field_once() {
        let pieces = split_prompt("Q: {question}\n{knowledge}").unwrap();
        let text = |text: &str| PromptPiece::Text(text.to_owned());
        assert_eq!(pieces, [text("Q: "), PromptPiece::Question, text("\n"), PromptPiece::Knowledge]);
        assert_eq!(split_prompt("{question}"), None);
        assert_eq!(split_prompt("{question}{knowledge}{question}"), None);
        assert!(split_prompt(PROMPT).is_some());
    }
}
