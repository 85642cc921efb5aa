//! The three prompts: templates with named fields, and their requests.

use super::parameters::AnnotationParameters;
use super::{AnnotationSettings, KIND};
use crate::annotation::AnnotatedStep;
use crate::machine::{MethodError, PromptWording};
use crate::prompt::{PassageForm, Prompt, PromptPart};
use crate::request::{GeneratePayload, PassageId, Request, Sampling, TextFormat};

const DECOMPOSITION: &str = include_str!("../../../prompts/efficientrag/decomposition.txt").trim_ascii_end();
const LABELLING: &str = include_str!("../../../prompts/efficientrag/labelling.txt").trim_ascii_end();
const FILTERING: &str = include_str!("../../../prompts/efficientrag/filtering.txt").trim_ascii_end();

const EVIDENCE: &str = "{evidence}";

/// The prompts of a configuration.
pub(super) struct PromptTemplates {
    decomposition: PromptTemplate,
    labelling: PromptTemplate,
    filtering: PromptTemplate,
    wording: PromptWording,
}

impl PromptTemplates {
    pub(super) fn new(parameters: &AnnotationParameters) -> Result<Self, MethodError> {
        let given = [&parameters.decomposition_prompt, &parameters.labelling_prompt, &parameters.filtering_prompt];
        let own = [DECOMPOSITION, LABELLING, FILTERING];
        let texts = [0, 1, 2].map(|at| given[at].as_deref().unwrap_or(own[at]));
        let cut = |at: usize, fields: &[&'static str], parameter, allowed| {
            let optional = if at == 0 { &[EVIDENCE][..] } else { &[] };
            let template = PromptTemplate::cut_at_fields(texts[at], fields, optional);
            // Evidence of the whole question belongs to its decomposition.
            template.filter(|_| at == 0 || !texts[at].contains(EVIDENCE)).ok_or_else(|| MethodError::Value {
                kind: KIND,
                parameter,
                found: "a text".to_owned(),
                allowed,
            })
        };
        let origin = if given.iter().any(|given| given.is_some()) { "job" } else { "hopeval" };
        let text = serde_json::to_string(&texts).expect("texts can be written as JSON; this is a bug");
        Ok(Self {
            decomposition: cut(
                0,
                &["{documents}", "{question}"],
                "decomposition_prompt",
                "must have {documents} and {question}, each once, and may have {evidence} once",
            )?,
            labelling: cut(
                1,
                &["{passage}", "{question}", "{answer}"],
                "labelling_prompt",
                "must have {passage}, {question} and {answer}, each once",
            )?,
            filtering: cut(
                2,
                &["{question}", "{information}"],
                "filtering_prompt",
                "must have {question} and {information}, each once",
            )?,
            wording: PromptWording { origin: origin.into(), text },
        })
    }

    /// Whether the model sees the gold evidence of a question.
    pub(super) fn shows_evidence(&self) -> bool {
        self.decomposition.0.iter().any(|piece| matches!(piece, TemplatePiece::Field(EVIDENCE)))
    }

    pub(super) fn wording(&self) -> PromptWording {
        self.wording.clone()
    }
}

/// A text cut at its fields.
struct PromptTemplate(Vec<TemplatePiece>);

enum TemplatePiece {
    Text(String),
    Field(&'static str),
}

impl PromptTemplate {
    /// Cuts a text; `None` if a field is missing or there twice. An `optional` one may be missing.
    fn cut_at_fields(text: &str, fields: &[&'static str], optional: &[&'static str]) -> Option<Self> {
        let mut places = Vec::with_capacity(fields.len());
        for &field in fields.iter().chain(optional) {
            let mut found = text.match_indices(field);
            match found.next() {
                Some((at, _)) => places.push((at, field)),
                None if optional.contains(&field) => continue,
                None => return None,
            }
            if found.next().is_some() {
                return None;
            }
        }
        places.sort_unstable();
        let mut pieces = Vec::new();
        let mut from = 0;
        for (at, field) in places {
            pieces.extend([TemplatePiece::Text(text[from..at].to_owned()), TemplatePiece::Field(field)]);
            from = at + field.len();
        }
        pieces.push(TemplatePiece::Text(text[from..].to_owned()));
        Some(Self(pieces))
    }

    /// The prompt's parts, with `fill` for each field.
    fn fill_fields(&self, fill: impl Fn(&'static str) -> Vec<PromptPart>) -> Vec<PromptPart> {
        let parts = self.0.iter().flat_map(|piece| match piece {
            TemplatePiece::Text(text) if text.is_empty() => Vec::new(),
            TemplatePiece::Text(text) => vec![PromptPart::text(text)],
            TemplatePiece::Field(field) => fill(field),
        });
        parts.collect()
    }
}

fn generate_request(settings: &AnnotationSettings, draw: u32, parts: Vec<PromptPart>) -> Request {
    let parameters = &settings.parameters;
    let sampling =
        if parameters.temperature > 0.0 { Sampling::sample(parameters.temperature, 1.0, 0) } else { Sampling::Greedy };
    let generate = GeneratePayload {
        prompt: Prompt { parts, ..Prompt::default() },
        max_tokens: parameters.max_tokens,
        stop: Vec::new(),
        sampling,
        format: TextFormat::Json,
        logprobs: false,
    };
    Request { draw, ..Request::new(&parameters.generator, generate) }
}

fn passage_part(settings: &AnnotationSettings, passage: PassageId) -> PromptPart {
    PromptPart::passage(
        passage,
        PassageForm::TitleAndText { between: settings.parameters.title_separator.clone() },
        None,
    )
}

/// Requests the single-hop questions of `question`; the passages are numbered from 1.
pub(super) fn decomposition_request(
    settings: &AnnotationSettings,
    draw: u32,
    question: &str,
    passages: &[PassageId],
    evidence: Option<&str>,
) -> Request {
    let documents = || {
        let numbered = passages.iter().enumerate().flat_map(|(at, &id)| {
            let between = if at > 0 { "\n" } else { "" };
            [PromptPart::text(format!("{between}#{} ", at + 1)), passage_part(settings, id)]
        });
        numbered.collect()
    };
    let parts = settings.templates.decomposition.fill_fields(|field| match field {
        "{documents}" => documents(),
        EVIDENCE => vec![PromptPart::text(evidence.unwrap_or_default())],
        _ => vec![PromptPart::text(question)],
    });
    generate_request(settings, draw, parts)
}

/// Requests the words of a step's passage; `question` is its question with answers in the place of references.
pub(super) fn labelling_request(
    settings: &AnnotationSettings,
    draw: u32,
    question: &str,
    step: &AnnotatedStep,
) -> Request {
    let parts = settings.templates.labelling.fill_fields(|field| match field {
        "{passage}" => vec![passage_part(settings, step.passage)],
        "{question}" => vec![PromptPart::text(question)],
        _ => vec![PromptPart::text(&step.answer)],
    });
    generate_request(settings, draw, parts)
}

/// Requests the next query.
pub(super) fn filtering_request(
    settings: &AnnotationSettings,
    draw: u32,
    query: &str,
    information: &[&str],
) -> Request {
    let lines: Vec<String> = information.iter().map(|words| format!("Info: {words}")).collect();
    let parts = settings.templates.filtering.fill_fields(|field| match field {
        "{question}" => vec![PromptPart::text(query)],
        _ => vec![PromptPart::text(lines.join("\n"))],
    });
    generate_request(settings, draw, parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_has_each_field_once() {
        let shown = |text: &str| {
            let template = PromptTemplate::cut_at_fields(text, &["{a}", "{b}"], &["{c}"])?;
            let parts = template.fill_fields(|field| vec![PromptPart::text(format!("<{field}>"))]);
            Some(Prompt { parts, ..Prompt::default() })
        };
        let parts = |texts: &[&str]| texts.iter().map(|text| PromptPart::text(*text)).collect::<Vec<_>>();
        assert_eq!(shown("x{b}y{a}").map(|prompt| prompt.parts), Some(parts(&["x", "<{b}>", "y", "<{a}>"])));
        assert_eq!(shown("{c}{b}{a}").map(|prompt| prompt.parts), Some(parts(&["<{c}>", "<{b}>", "<{a}>"])));
        assert!(shown("{a}").is_none() && shown("{a}{b}{a}").is_none() && shown("{a}{b}{c}{c}").is_none());
    }
}
