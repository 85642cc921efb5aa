//! Has a T5 fill in the blanks of instructions' templates (PromptRank, section 2.2 and appendix A.2, after Gao et al.,
//! 2021).
//!
//! ```text
//!   template: "{blank} documents above {blank} question."        the model's input, within the frame:
//!   together: "Instruction: <extra_id_0> documents above <extra_id_1> question. Question:"
//!   written:  "<extra_id_0> Look through the<extra_id_1> and write a<extra_id_2>"
//!   candidate: "Look through the documents above and write a question."
//! ```
//!
//! A draw is a sample of the tokens' distribution cut to the likeliest few. It is an ordinary request with the draw's
//! number, so it is journalled and the service's `seed` fixes it. A draw with an empty blank gives no candidate. The
//! wording of templates and frame is hopeval's own. Their structure is the paper's: two blanks, one template for
//! instructions after the documents and one for instructions before them.

use super::asking::JournalledAsker;
use crate::error::JobError;
use crate::job::infill::{BLANK, FillOrder, InfillSettings, PLACE};
use crate::services::catalogue::Catalogue;
use hopeval_methods::request::{GeneratePayload, Sampling, TextFormat};
use hopeval_methods::{Prompt, Request, Response, ServiceName};
use hopeval_results::Store;
use serde_json::Value;

/// The results of all draws.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InfillResult {
    /// Different candidates in the order of their first draw, each with its number of draws.
    pub candidates: Vec<(Value, u32)>,
    /// Draws with an empty blank.
    pub empty: u32,
    /// Requests without an answer in the journal.
    pub computed: u64,
}

/// One unfinished sample.
struct InstructionDraft {
    template: usize,
    draw: u32,
    /// Blanks of the template.
    blanks: usize,
    /// Texts of the first blanks.
    filled: Vec<String>,
}

impl InstructionDraft {
    /// The number of blanks left.
    fn open_blanks(&self) -> usize {
        self.blanks - self.filled.len()
    }
}

/// Answers requests, in their order.
type AnswerFunction<'a> = dyn FnMut(Vec<Request>) -> Result<Vec<Response>, JobError> + 'a;

/// Draws candidates. Answers come from the journal of `store` if it has them, and are kept there.
///
/// # Errors
/// The store; a model cannot be asked now; [`JobError::Unfilled`] if every draw left a blank empty.
pub fn draw_candidates(
    infill: &InfillSettings,
    catalogue: &Catalogue,
    store: &Store,
) -> Result<InfillResult, JobError> {
    let mut asker = JournalledAsker::open(store)?;
    let filled = fill_in(infill, &mut |requests| asker.answer(catalogue, requests))?;
    Ok(InfillResult { computed: asker.computed, ..filled })
}

/// Draws candidates; `answer` answers the requests. Each round asks for the drafts with the most blanks left.
fn fill_in(infill: &InfillSettings, answer: &mut AnswerFunction<'_>) -> Result<InfillResult, JobError> {
    let mut drafts = empty_drafts(infill);
    let (mut empty, mut last) = (0, None);
    while let Some(open) = drafts.iter().map(InstructionDraft::open_blanks).max().filter(|&open| open > 0) {
        let (going, done): (Vec<InstructionDraft>, Vec<InstructionDraft>) =
            drafts.into_iter().partition(|draft| draft.open_blanks() == open);
        let texts = generate_texts(infill, &going, answer)?;
        let wanted = if infill.fill == FillOrder::Together { open } else { 1 };
        drafts = done;
        for (mut draft, text) in going.into_iter().zip(texts) {
            match blank_spans(&text, wanted) {
                Some(found) => {
                    draft.filled.extend(found);
                    drafts.push(draft);
                }
                None => {
                    empty += 1;
                    last = Some(text);
                }
            }
        }
    }
    let candidates = count_candidates(infill, drafts);
    if candidates.is_empty() {
        let example = last.unwrap_or_default();
        return Err(JobError::Unfilled { service: infill.service.clone(), draws: infill.draws, example });
    }
    Ok(InfillResult { candidates, empty, computed: 0 })
}

/// A draft for each draw. Draws go round the templates.
fn empty_drafts(infill: &InfillSettings) -> Vec<InstructionDraft> {
    let templates = infill.templates.len() as u32;
    let blanks: Vec<usize> = infill.templates.iter().map(|template| template.text().matches(BLANK).count()).collect();
    let draft = |n: u32| {
        let template = (n % templates) as usize;
        InstructionDraft { template, draw: n / templates, blanks: blanks[template], filled: Vec::new() }
    };
    (0..infill.draws).map(draft).collect()
}

/// The model's texts for the blanks of some drafts, in their order.
fn generate_texts(
    infill: &InfillSettings,
    drafts: &[InstructionDraft],
    answer: &mut AnswerFunction<'_>,
) -> Result<Vec<String>, JobError> {
    let service = ServiceName::from(infill.service.as_str());
    let requests =
        drafts.iter().map(|draft| Request { draw: draft.draw, ..Request::new(&service, blank_request(infill, draft)) });
    let texts = answer(requests.collect())?.into_iter().map(|response| {
        let generation = response.generation().map_err(|failure| {
            let lost = JobError::device_lost(&infill.service, &failure);
            lost.unwrap_or(JobError::Ungenerated { service: infill.service.clone(), reason: failure.message })
        })?;
        Ok(generation.text)
    });
    texts.collect()
}

/// The candidates from finished drafts, in the order of their draws, each with its number of drafts.
fn count_candidates(infill: &InfillSettings, mut drafts: Vec<InstructionDraft>) -> Vec<(Value, u32)> {
    drafts.sort_by_key(|draft| (draft.draw, draft.template));
    let mut found: Vec<(Value, u32)> = Vec::new();
    for draft in drafts {
        let template = &infill.templates[draft.template];
        let value = template.instruction_value(instruction_text(template.text(), &draft.filled, &infill.drop));
        match found.iter_mut().find(|(known, _)| *known == value) {
            Some((_, times)) => *times += 1,
            None => found.push((value, 1)),
        }
    }
    found
}

/// Asks for the remaining blanks.
fn blank_request(infill: &InfillSettings, draft: &InstructionDraft) -> GeneratePayload {
    let InfillSettings { temperature, top_k, max_tokens, .. } = *infill;
    let text = mark_blanks(infill.templates[draft.template].text(), &draft.filled);
    GeneratePayload {
        prompt: Prompt::text(infill.frame.replacen(PLACE, &text, 1)),
        max_tokens,
        stop: Vec::new(),
        sampling: Sampling::sample(temperature, 1.0, top_k),
        format: TextFormat::WithSpecial,
        logprobs: false,
    }
}

/// The token for the n-th blank.
fn sentinel(n: usize) -> String {
    format!("<extra_id_{n}>")
}

/// A template with its first blanks filled in and sentinels, from 0, in the others.
fn mark_blanks(template: &str, filled: &[String]) -> String {
    let mut pieces = template.split(BLANK);
    let mut text = pieces.next().unwrap_or_default().to_owned();
    for (n, piece) in pieces.enumerate() {
        match filled.get(n) {
            Some(span) => text.push_str(span),
            None => text.push_str(&sentinel(n - filled.len())),
        }
        text.push_str(piece);
    }
    text
}

/// An instruction: the template filled in, without its leading phrases for the model.
fn instruction_text(template: &str, filled: &[String], drop: &[String]) -> String {
    let whole = one_line(&mark_blanks(template, filled));
    one_line(&drop.iter().fold(whole, |text, phrase| text.replace(phrase.as_str(), "")))
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The first `wanted` spans between sentinels in a model's text. Text before any sentinel belongs to the first blank,
/// and the last span may go on to the end.
fn blank_spans(text: &str, wanted: usize) -> Option<Vec<String>> {
    let text = text.trim_start();
    let mut rest = text.strip_prefix(&sentinel(0)).unwrap_or(text);
    let mut found = Vec::with_capacity(wanted);
    for n in 1..=wanted {
        let span = match rest.split_once(&sentinel(n)) {
            Some((span, tail)) => {
                rest = tail;
                span
            }
            None if n == wanted => std::mem::take(&mut rest),
            None => return None,
        };
        found.push(clean_span(span)?);
    }
    Some(found)
}

/// Special tokens in sampled texts. A span with one of them is not usable as wording.
const SPECIAL: [&str; 6] = ["<extra_id_", "<pad>", "<unk>", "</s>", "[PAD]", "[UNK]"];

fn clean_span(span: &str) -> Option<String> {
    let span = one_line(span);
    let usable = !span.is_empty() && !SPECIAL.iter().any(|token| span.contains(token)) && !span.contains(['{', '}']);
    usable.then_some(span)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::infill::{Template, own_templates};
    use hopeval_methods::response::{FinishReason, Generation};
    use hopeval_methods::{Answer, AnswerWork, Content, PromptPart, RequestPayload};
    use serde_json::json;

    const TEMPLATE: &str = "{blank} the documents above {blank} question.";

    #[test]
    fn blanks_are_sentinels_and_come_back_as_spans() {
        assert_eq!(mark_blanks(TEMPLATE, &[]), "<extra_id_0> the documents above <extra_id_1> question.");
        assert_eq!(mark_blanks(TEMPLATE, &["Read".into()]), "Read the documents above <extra_id_0> question.");
        let texts = |texts: &[&str]| Some(texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>());
        assert_eq!(
            blank_spans("<extra_id_0> Look at<extra_id_1> and\n ask a<extra_id_2> more", 2),
            texts(&["Look at", "and ask a"])
        );
        // The end of the text ends the last span, and text without sentinels belongs to the first blank.
        assert_eq!(blank_spans("<extra_id_0> Look at<extra_id_1> and ask a", 2), texts(&["Look at", "and ask a"]));
        assert_eq!(blank_spans(" Look at", 1), texts(&["Look at"]));
        for nothing in
            ["<extra_id_0> Look at", "<extra_id_0><extra_id_1> a<extra_id_2>", "<extra_id_0> <unk> a<extra_id_1> b", ""]
        {
            assert_eq!(blank_spans(nothing, 2), None, "{nothing}");
        }
        assert_eq!(blank_spans("<extra_id_0> a <extra_id_5> b", 1), None, "a sentinel within a span");
        assert_eq!(
            blank_spans("<extra_id_0> a {passages}<extra_id_1>", 1),
            None,
            "what would mean something to a method"
        );
    }

    #[test]
    fn an_instruction_drops_the_leading_phrases() {
        let filled = ["Look at".to_owned(), "and ask a".to_owned()];
        assert_eq!(instruction_text(TEMPLATE, &filled, &[]), "Look at the documents above and ask a question.");
        let drop = [" above".to_owned()];
        assert_eq!(instruction_text(TEMPLATE, &filled, &drop), "Look at the documents and ask a question.");
        let before = Template::Placed { text: TEMPLATE.into(), position: "before".into() };
        assert_eq!(before.instruction_value("Ask.".into()), json!([{"text": "Ask.", "position": "before"}]));
    }

    /// Fills in with a model scripted for each (prompt, draw).
    fn filled(rest: &str, script: &dyn Fn(&str, u32) -> String) -> (Result<InfillResult, JobError>, Vec<String>) {
        let infill: InfillSettings = toml::from_str(&format!("service = \"t5\"\n{rest}")).unwrap();
        let mut asked = Vec::new();
        let found = fill_in(&infill, &mut |requests| {
            let answer = |request: &Request| {
                let RequestPayload::Generate(generate) = &request.ask else { panic!("{request:?}") };
                assert_eq!(generate.format, TextFormat::WithSpecial);
                let [PromptPart { content: Content::Text(prompt), .. }] = &generate.prompt.parts[..] else { panic!() };
                asked.push(format!("{prompt} #{}", request.draw));
                let generation = Generation::new(script(prompt, request.draw), FinishReason::Stop);
                Response::answer(Answer::Generate(generation), AnswerWork::default())
            };
            Ok(requests.iter().map(answer).collect())
        });
        (found, asked)
    }

    #[test]
    fn draws_go_round_the_templates_and_equal_texts_are_merged() {
        let templates = r#"templates = ["{blank} the texts {blank} question.",
                {text = "{blank} below.", position = "before"}]
            draws = 7"#;
        let script = |prompt: &str, draw: u32| match (prompt.contains("below"), draw) {
            (false, 2) => "<extra_id_0> Read<extra_id_3>".to_owned(),
            (false, _) => {
                format!("<extra_id_0> Read{}<extra_id_1> and ask a<extra_id_2>", "s".repeat(draw as usize / 3))
            }
            (true, _) => "<extra_id_0> What is<extra_id_1>".to_owned(),
        };
        let (found, asked) = filled(templates, &script);
        assert_eq!(asked.len(), 7);
        assert_eq!(asked[0], "Instruction: <extra_id_0> the texts <extra_id_1> question. Question: #0");
        let candidates = vec![
            (json!("Read the texts and ask a question."), 2),
            (json!([{"text": "What is below.", "position": "before"}]), 3),
            (json!("Reads the texts and ask a question."), 1),
        ];
        assert_eq!(found.unwrap(), InfillResult { candidates, empty: 1, computed: 0 });
    }

    #[test]
    fn in_turn_each_blank_sees_those_before_it() {
        let rest = "templates = [\"{blank} the texts {blank} question.\"]\ndraws = 1\nfill = \"in_turn\"";
        let script = |prompt: &str, _| {
            if prompt.contains("Read the") { "and ask a".into() } else { "Read<extra_id_1> x".into() }
        };
        let (found, asked) = filled(rest, &script);
        assert_eq!(asked[1], "Instruction: Read the texts <extra_id_0> question. Question: #0");
        assert_eq!(found.unwrap().candidates, [(json!("Read the texts and ask a question."), 1)]);
        // Without sentinels a model has filled in nothing, if all blanks are asked for at once.
        let (found, _) = filled("draws = 3", &|_, _| "Read and ask".into());
        let message = found.unwrap_err().to_string();
        assert!(message.contains("none of 3 draws") && message.contains("\"Read and ask\""), "{message}");
    }

    #[test]
    fn own_templates_have_two_blanks_each() {
        let templates = own_templates();
        assert_eq!(templates.len(), 2);
        assert!(templates.iter().all(|template| template.text().matches(BLANK).count() == 2));
        assert!(matches!(&templates[1], Template::Placed { position, .. } if position == "before"));
    }
}
