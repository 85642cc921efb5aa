//! Prompts: a path's documents within a context (figure 2 of the paper).
//!
//! ```text
//!   [before] Document: D Document: D [after] demonstration's question   ... for each demonstration
//!   [before] Document: P1 Document: P2 [after]                          the path
//! ```
//!
//! A demonstration is worded as the path, with its question in the place of the scored one. Rules state the cuts of a
//! prompt over its budget, since only the answering service can count tokens ([`PromptLayout::overflow_rules`]).

use super::PromptRankSettings;
use super::demonstrations::Demonstration;
use super::instructions::DocumentFrame;
use super::parameters::{OverflowPolicy, PathOrder, PromptRankParameters, ShownTitles};
use crate::machine::MethodError;
use crate::prompt::{ChatRole, Content, LengthLimit, OverflowRule, PassageForm, Prompt, PromptPart};
use crate::request::{PassageId, ScorePayload};

/// One instruction with one set of demonstrations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ScoringContext {
    frame: DocumentFrame,
    demonstrations: Vec<Demonstration>,
}

/// Each instruction with each set of demonstrations, in that order. Equal contexts count once, so no request is sent
/// twice: without an instruction (`position = "none"`) all instructions are the same.
pub(super) fn scoring_contexts(parameters: &PromptRankParameters) -> Result<Vec<ScoringContext>, MethodError> {
    let PromptRankParameters { instructions, position, cue, separator, demonstrations, .. } = parameters;
    let mut contexts: Vec<ScoringContext> = Vec::new();
    for frame in instructions.document_frames(*position, cue, separator)? {
        for set in demonstrations.sets() {
            let context = ScoringContext { frame: frame.clone(), demonstrations: set.to_vec() };
            if !contexts.contains(&context) {
                contexts.push(context);
            }
        }
    }
    Ok(contexts)
}

/// The wording of a configuration's prompts, as text: each context around a path of `{passages}`.
pub(super) fn prompt_wording(fixed: &PromptRankSettings) -> String {
    let PromptRankParameters { label, separator, .. } = &fixed.parameters;
    let one = |context: &ScoringContext| {
        let DocumentFrame { before, after } = &context.frame;
        let shown = context.demonstrations.iter().map(|demonstration| {
            let texts: Vec<String> = demonstration.texts.iter().map(|text| format!("{label}{text}")).collect();
            format!("{before}{}{after}{separator}{}{separator}", texts.join(separator.as_str()), demonstration.question)
        });
        format!("{}{before}{label}{{passages}}{after}", shown.collect::<String>())
    };
    fixed.contexts.iter().map(one).collect::<Vec<_>>().join("\n")
}

/// Requests the question's likelihood after `path` in `context`.
pub(super) fn score_payload(
    parameters: &PromptRankParameters,
    context: &ScoringContext,
    path: &[PassageId],
    question: &str,
) -> ScorePayload {
    ScorePayload {
        prompt: build_prompt(parameters, context, path),
        target: Prompt::text(format!("{}{question}", parameters.question_prefix)),
        temperatures: vec![parameters.temperature],
    }
}

fn build_prompt(parameters: &PromptRankParameters, context: &ScoringContext, path: &[PassageId]) -> Prompt {
    let PromptRankParameters { separator, .. } = parameters;
    let DocumentFrame { before, after } = &context.frame;
    let mut layout = PromptLayout::default();
    for Demonstration { texts, question } in &context.demonstrations {
        layout.push_text(before);
        let limit = parameters.demonstration_tokens.map(LengthLimit::Tokens);
        let document = |text: &String| (Content::Text(text.clone()), limit);
        let shown = layout.push_documents(parameters, texts.iter().map(document).collect());
        layout.shown.extend(shown);
        layout.push_text(after);
        layout.push_text(&format!("{separator}{question}{separator}"));
    }
    layout.push_text(before);
    let document = |(hop, &passage)| {
        let form = passage_form(parameters.titles, hop);
        (Content::Passage { passage, form }, Some(LengthLimit::Tokens(parameters.passage_tokens)))
    };
    layout.ranked = layout.push_documents(parameters, path.iter().enumerate().map(document).collect());
    layout.push_text(after);
    let budget = parameters.prompt_budget();
    let overflow = layout.overflow_rules(parameters.overflow, budget);
    Prompt { parts: layout.parts, budget: Some(budget), overflow, ..Prompt::default() }
}

/// The written form of the passage at `hop` (from 0, in link order).
fn passage_form(titles: ShownTitles, hop: usize) -> PassageForm {
    let titled = match titles {
        ShownTitles::None => false,
        ShownTitles::FirstHop => hop == 0,
        ShownTitles::All => true,
    };
    if titled {
        PassageForm::Labelled { before: "Title: ".to_owned(), between: ". ".to_owned() }
    } else {
        PassageForm::Text
    }
}

/// A prompt in the making. Literal texts without cuts are joined; each document is a part of its own.
#[derive(Default)]
struct PromptLayout {
    parts: Vec<PromptPart>,
    /// Whether the last part may be continued.
    open: bool,
    /// Indices of the demonstrations' documents.
    shown: Vec<u32>,
    /// Indices of the path's documents.
    ranked: Vec<u32>,
}

impl PromptLayout {
    fn push_text(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        match self.parts.last_mut() {
            Some(PromptPart { content: Content::Text(last), .. }) if self.open => last.push_str(text),
            _ => self.parts.push(PromptPart::text(text)),
        }
        self.open = true;
    }

    /// Adds documents, given in link order; returns the indices of their parts.
    fn push_documents(
        &mut self,
        parameters: &PromptRankParameters,
        mut documents: Vec<(Content, Option<LengthLimit>)>,
    ) -> Vec<u32> {
        let mut indices = Vec::with_capacity(documents.len());
        if parameters.path_order == PathOrder::Inverted {
            documents.reverse();
        }
        for (position, (content, truncate)) in documents.into_iter().enumerate() {
            if position > 0 {
                self.push_text(&parameters.separator);
            }
            self.push_text(&parameters.label);
            indices.push(self.parts.len() as u32);
            self.parts.push(PromptPart { role: ChatRole::User, content, truncate });
            self.open = false;
        }
        indices
    }

    /// The cuts, in order.
    ///
    /// `passages`: documents alone. The demonstrations' come first, from the first on, then the path's, from the last
    /// on. Each is cut down to an equal share of the budget (the instruction counts as one more); if this is not
    /// enough, in the same order to nothing. `right`: the last parts, with the instruction, as the authors' tokenizer
    /// truncates. `refuse`: no cut.
    fn overflow_rules(&self, rule: OverflowPolicy, budget: u32) -> Vec<OverflowRule> {
        let cut = |part: u32, tokens: u32| OverflowRule::Cut { part, to: LengthLimit::Tokens(tokens) };
        match rule {
            OverflowPolicy::Refuse => Vec::new(),
            OverflowPolicy::Right => (0..self.parts.len() as u32).rev().map(|part| cut(part, 0)).collect(),
            OverflowPolicy::Passages => {
                let order: Vec<u32> = self.shown.iter().chain(self.ranked.iter().rev()).copied().collect();
                let share = budget / (order.len() as u32 + 1);
                let down_to = |tokens: u32| order.iter().map(move |&part| cut(part, tokens));
                down_to(share).chain(down_to(0)).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn parameters(more: Value) -> PromptRankParameters {
        let mut all = json!({"retriever": "t", "scorer": "lm", "instructions": "Ask.", "prompt_tokens": 40});
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(all).unwrap()
    }

    fn prompts(more: Value, path: &[u32]) -> Vec<String> {
        let parameters = parameters(more);
        let path: Vec<PassageId> = path.iter().copied().map(PassageId).collect();
        let contexts = scoring_contexts(&parameters).unwrap();
        contexts.iter().map(|context| build_prompt(&parameters, context, &path).to_string()).collect()
    }

    #[test]
    fn a_path_is_its_documents_and_the_instruction() {
        let expected = "{user \"Document: \" | user passage 4 at most 230 tokens | user \" Document: \" | \
                        user passage 9 at most 230 tokens | user \" Ask. Question:\"; budget 40 tokens; \
                        cut 3 to 13 tokens; cut 1 to 13 tokens; cut 3 to 0 tokens; cut 1 to 0 tokens}";
        assert_eq!(prompts(json!({}), &[4, 9]), [expected]);
    }

    #[test]
    fn what_stands_last_is_cut_first_where_the_code_is_followed() {
        let expected = "{user \"Ask. Document: \" | user passage 4 at most 230 tokens | user \" Question:\"; budget 40 \
                        tokens; cut 2 to 0 tokens; cut 1 to 0 tokens; cut 0 to 0 tokens}";
        assert_eq!(prompts(json!({"overflow": "right", "position": "before"}), &[4]), [expected]);
    }

    #[test]
    fn without_an_instruction_the_documents_are_the_prompt_once() {
        let more = json!({"position": "none", "instructions": ["Ask.", "Say."], "overflow": "refuse", "label": ""});
        assert_eq!(prompts(more, &[4]), ["{user passage 4 at most 230 tokens; budget 40 tokens}"]);
    }

    #[test]
    fn orders_and_titles() {
        let more = json!({"path_order": "inverted", "titles": "first_hop", "position": "none", "overflow": "refuse"});
        let expected = "{user \"Document: \" | user passage 9 at most 230 tokens | user \" Document: \" | \
                        user passage 4 \"Title: \"+title+\". \"+text at most 230 tokens; budget 40 tokens}";
        assert_eq!(prompts(more, &[4, 9]), [expected]);
    }

    #[test]
    fn demonstrations_are_worded_as_the_path_is_and_give_way_first() {
        let set = |n: u32| json!([{"texts": [format!("a{n}"), format!("b{n}")], "question": format!("q{n}?")}]);
        let more = json!({"demonstrations": [set(1), set(2)], "demonstration_tokens": 100, "prompt_tokens": 80});
        let found = prompts(more, &[4]);
        let expected = "{user \"Document: \" | user \"a1\" at most 100 tokens | user \" Document: \" | user \"b1\" at \
                        most 100 tokens | user \" Ask. Question: q1? Document: \" | \
                        user passage 4 at most 230 tokens | user \" Ask. Question:\"; budget 80 tokens; \
                        cut 1 to 20 tokens; cut 3 to 20 tokens; cut 5 to 20 tokens; \
                        cut 1 to 0 tokens; cut 3 to 0 tokens; cut 5 to 0 tokens}";
        assert_eq!(found[0], expected);
        assert_eq!(found.len(), 2);
        assert_eq!(found[1], expected.replace("a1", "a2").replace("b1", "b2").replace("q1", "q2"));
    }

    #[test]
    fn contexts_are_instructions_times_sets() {
        let set = |n: u32| json!([{"texts": [format!("a{n}")], "question": "q?"}]);
        let more = json!({"demonstrations": [set(1), set(2), set(1)], "instructions": ["A.", "B.", "C."]});
        assert_eq!(scoring_contexts(&parameters(more)).unwrap().len(), 6);
    }
}
