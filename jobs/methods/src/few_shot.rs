//! Few-shot prompts of question answering over passages, in IRCoT's layout (section 3.1).
//!
//! ```text
//! demonstration
//! (two empty lines)
//! demonstration
//! (two empty lines)
//! Wikipedia Title: TITLE
//! TEXT
//! (an empty line)
//! Wikipedia Title: TITLE
//! TEXT
//! (an empty line)
//! Q: INSTRUCTION QUESTION
//! A: THE CHAIN OF THOUGHT SO FAR
//! ```
//!
//! A demonstration has the same layout with its whole chain of thought, or with its answer alone. Each is one shared
//! text ([`crate::Fragment`]). A prompt ends without a space.
//!
//! # Too long a prompt
//! Demonstrations are left out from the first one on until the prompt fits, and then passages from the first one on (as
//! the authors' code does, which removes the upper lines of passages one by one). The question, the chain and the
//! passage that belongs to the question always stay.
//!
//! `packing` says which tokens count. The authors' code counts each demonstration alone (`each`). For Codex it first
//! leaves out demonstrations from the last one on, until one more, as long as the longest, fits the context
//! (`each_and_one_more`). What it then sends may exceed the context by the spaces between demonstrations; the code then
//! asks for a shorter answer. Here the model's own limit still holds, and leaves out one more demonstration.

use crate::demonstration::{Demonstration, DemonstrationPassage, DemonstrationSet};
use crate::fragment::Fragment;
use crate::machine::{GivenContext, MethodError, PromptWording};
use crate::prompt::{LengthLimit, OverflowRule, PassageForm, ShotPacking};
use crate::registry::{ParameterInfo, at_least_one};
use crate::request::{GeneratePayload, PassageId, Sampling, TextFormat};
use crate::template::PromptBuilder;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The form of a demonstrated answer, and so of the answer that a model gives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AnswerStyle {
    /// A chain of thought that ends with the answer.
    #[default]
    Cot,
    /// The answer alone.
    Direct,
}

/// The tokens that decide which demonstrations a context has room for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PackingRule {
    /// Those of the whole prompt.
    #[default]
    Whole,
    /// Those of each demonstration alone (IRCoT's code for Flan-T5).
    Each,
    /// The same, after the last demonstrations made room for one more (IRCoT's code for Codex).
    EachAndOneMore,
}

/// The form of a few-shot prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FewShotForm {
    pub(crate) style: AnswerStyle,
    /// Whether the passages of demonstrations are shown.
    pub(crate) with_passages: bool,
    /// Distractors shown with each demonstration.
    pub(crate) distractors: u32,
    /// Stands before each question.
    pub(crate) instruction: String,
    /// Stands before each title.
    pub(crate) title_label: String,
    /// The most words of a passage; `None` for all.
    pub(crate) shown_words: Option<u32>,
    /// The most tokens of prompt and answer; `None` for the model's own limit.
    pub(crate) context_tokens: Option<u32>,
    /// The most tokens of an answer.
    pub(crate) max_tokens: u32,
    /// The tokens that count against `context_tokens`.
    pub(crate) packing: PackingRule,
}

/// A few-shot prompt without its question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FewShotPrompt {
    form: FewShotForm,
    shots: Vec<Fragment>,
}

/// A passage in a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShownPassage {
    /// The passage of the corpus; `None` for a text that is not in it.
    pub(crate) passage: Option<PassageId>,
    /// Its title.
    pub(crate) title: String,
    /// Its text.
    pub(crate) text: String,
}

/// Stands between demonstrations.
const BETWEEN_SHOTS: &str = "\n\n\n";
/// Stands between passages, and before the question.
const BETWEEN_PASSAGES: &str = "\n\n";

impl From<&GivenContext> for ShownPassage {
    fn from(context: &GivenContext) -> Self {
        Self { passage: context.passage, title: context.title.clone(), text: context.text.clone() }
    }
}

impl FewShotPrompt {
    /// A prompt with the demonstrations of `set` that `ids` names, or with all of them.
    ///
    /// # Errors
    /// Unknown ids; demonstrations without the reasoning that the style shows; a budget without room for a prompt.
    pub(crate) fn new(
        kind: &'static str,
        set: &DemonstrationSet,
        ids: Option<&[String]>,
        form: FewShotForm,
    ) -> Result<Self, MethodError> {
        let bad = |parameter, found, allowed| MethodError::Value { kind, parameter, found, allowed };
        at_least_one(kind, "max_tokens", form.max_tokens)?;
        if let Some(most) = form.context_tokens
            && most <= form.max_tokens
        {
            return Err(bad("context_tokens", most.to_string(), "must be more than `max_tokens`"));
        }
        let chosen = chosen_rows(kind, set, ids)?;
        let mute = |row: &&&Demonstration| form.style == AnswerStyle::Cot && row.reasoning.is_empty();
        if let Some(row) = chosen.iter().find(mute) {
            let allowed = "must have `reasoning` in each row where a chain of thought is shown";
            return Err(bad("demonstrations", format!("a row without it: \"{}\"", row.question), allowed));
        }
        let shots = chosen.into_iter().map(|row| Fragment::new(form.written_demonstration(row))).collect();
        Ok(Self { form, shots })
    }

    /// Its form.
    pub(crate) fn form(&self) -> &FewShotForm {
        &self.form
    }

    /// The texts that requests name by digest.
    pub(crate) fn fragments(&self) -> impl Iterator<Item = &Fragment> {
        self.shots.iter()
    }

    /// All words that do not come from a question or the corpus.
    pub(crate) fn words(&self) -> String {
        let shots = self.shots.iter().map(|shot| &**shot.text());
        let FewShotForm { instruction, title_label, .. } = &self.form;
        shots.chain([&title_label[..], "\nQ: ", instruction, "\nA:"]).collect()
    }

    /// Asks for the answer to `question`, or for the next sentences behind `chain`. The first `pinned` passages always
    /// stay in the prompt.
    pub(crate) fn payload(
        &self,
        passages: &[ShownPassage],
        pinned: usize,
        question: &str,
        chain: &[String],
    ) -> GeneratePayload {
        let form = &self.form;
        let mut builder = PromptBuilder::new();
        form.append_shots(&mut builder, &self.shots);
        for (place, passage) in passages.iter().enumerate() {
            let first = builder.next_part();
            form.append_passage(&mut builder, passage);
            if place >= pinned {
                builder.overflow(OverflowRule::DropParts { first, count: builder.next_part() - first });
            }
        }
        let chain: String = chain.iter().flat_map(|sentence| [" ", sentence]).collect();
        let mut asked = ["Q: ", &form.instruction, question, "\nA:", &chain].concat();
        asked.truncate(asked.trim_end_matches(hopeval_pytext::is_space).len());
        builder.separate_text(asked, None);
        GeneratePayload {
            prompt: builder.finish(),
            max_tokens: form.max_tokens,
            stop: vec!["\n".to_owned()],
            sampling: Sampling::Greedy,
            format: TextFormat::Text,
            logprobs: false,
        }
    }
}

impl FewShotForm {
    /// Begins a prompt with its demonstrations, and with the rules that leave them out.
    pub(crate) fn append_shots(&self, builder: &mut PromptBuilder, shots: &[Fragment]) {
        match (self.context_tokens, self.packing) {
            (None, _) => {}
            (Some(most), PackingRule::Whole) => builder.budget(Some(most - self.max_tokens)),
            (Some(context_tokens), rule) => builder.pack(ShotPacking {
                shots: shots.len() as u32,
                context_tokens,
                answer_tokens: self.max_tokens,
                spares_longest: rule == PackingRule::EachAndOneMore,
            }),
        }
        for (part, shot) in (0..).zip(shots) {
            builder.fragment(shot);
            builder.overflow(OverflowRule::Drop { part });
        }
    }

    /// Appends the parts of a passage: its heading, its text, which may be cut, and the space behind it.
    pub(crate) fn append_passage(&self, builder: &mut PromptBuilder, shown: &ShownPassage) {
        let limit = self.shown_words.map(LengthLimit::SpacedWords);
        builder.separate_text([&self.title_label, &shown.title, "\n"].concat(), None);
        match shown.passage {
            Some(passage) => builder.passage(passage, PassageForm::Text, limit),
            None => builder.separate_text(shown.text.as_str(), limit),
        };
        builder.separate_text(BETWEEN_PASSAGES, None);
    }

    fn written_demonstration(&self, row: &Demonstration) -> String {
        let mut passages: Vec<&DemonstrationPassage> = row.main.iter().collect();
        if self.with_passages {
            passages.extend(self.mixed_passages(row));
        }
        let passages = passages.into_iter().flat_map(|passage| {
            [&self.title_label, &passage.title[..], "\n", &passage.text, BETWEEN_PASSAGES].map(str::to_owned)
        });
        let passages: String = passages.collect();
        let answer = match self.style {
            AnswerStyle::Cot => &row.reasoning,
            AnswerStyle::Direct => &row.answer,
        };
        format!("{passages}Q: {}{}\nA: {answer}{BETWEEN_SHOTS}", self.instruction, row.question)
    }

    /// The passages that a demonstration needs, mixed with the first of its distractors. A hash of question and title
    /// gives their order, so another number of distractors leaves the order of the others.
    fn mixed_passages<'a>(&self, row: &'a Demonstration) -> Vec<&'a DemonstrationPassage> {
        let distractors = row.distractors.iter().take(self.distractors as usize);
        let mut passages: Vec<&DemonstrationPassage> = row.passages.iter().chain(distractors).collect();
        // Imported passages hold their distractors, in the authors' order.
        if !row.distractors.is_empty() && self.distractors > 0 {
            let place = |passage: &&DemonstrationPassage| {
                *blake3::hash(format!("{}\n{}", row.question, passage.title).as_bytes()).as_bytes()
            };
            passages.sort_by_cached_key(place);
        }
        passages
    }
}

/// The rows of a set that `ids` names, in that order, or all.
///
/// # Errors
/// The first id that no row has.
pub(crate) fn chosen_rows<'a>(
    kind: &'static str,
    set: &'a DemonstrationSet,
    ids: Option<&[String]>,
) -> Result<Vec<&'a Demonstration>, MethodError> {
    let Some(ids) = ids else { return Ok(set.demonstrations().iter().collect()) };
    set.chosen(ids).map_err(|id| MethodError::Value {
        kind,
        parameter: "demonstration_ids",
        found: format!("\"{id}\""),
        allowed: "must be ids of rows of `demonstrations`",
    })
}

/// The wording of few-shot prompts: the origin of all its demonstrations, if the instructions are the project's too.
/// Sets of several origins are the job's.
pub(crate) fn wording<'a>(
    sets: impl IntoIterator<Item = &'a DemonstrationSet>,
    is_own: bool,
    text: String,
) -> PromptWording {
    let origins: BTreeSet<_> = sets.into_iter().map(DemonstrationSet::origin).collect();
    let origin = match origins.into_iter().collect::<Vec<_>>().as_mut_slice() {
        [origin] if is_own || origin != "hopeval" => std::mem::take(origin),
        _ => "job".into(),
    };
    PromptWording { origin, text }
}

/// The label of titles by default.
pub(crate) fn default_title_label() -> String {
    "Wikipedia Title: ".to_owned()
}

/// The most tokens of an answer by default.
pub(crate) fn default_max_tokens() -> u32 {
    300
}

/// Distractors by default.
pub(crate) fn default_distractors() -> u32 {
    2
}

/// The demonstrations by default.
pub(crate) fn default_demonstrations() -> DemonstrationSet {
    DemonstrationSet::shipped("hopeval:multihop")
}

pub(crate) const GENERATOR: ParameterInfo = ParameterInfo {
    name: "generator",
    values: "name of a language model",
    default: None,
    documentation: "Writes the answer, and the chain of thought before it.",
};

pub(crate) const STYLE: ParameterInfo = ParameterInfo {
    name: "style",
    values: "\"cot\" or \"direct\"",
    default: Some("\"cot\""),
    documentation: "Whether demonstrations, and so answers, have a chain of thought or are the answer alone.",
};

pub(crate) const INSTRUCTION: ParameterInfo = ParameterInfo {
    name: "instruction",
    values: "text",
    default: Some("\"\""),
    documentation: "Stands before each question, demonstrations included; end it with a space or a line break.",
};

pub(crate) const DEMONSTRATIONS: ParameterInfo = ParameterInfo {
    name: "demonstrations",
    values: "\"hopeval:multihop\", \"hopeval:grounded\", a list of rows, or a file of them",
    default: Some("\"hopeval:multihop\""),
    documentation: "Solved questions that stand before the question.",
};

pub(crate) const DEMONSTRATION_IDS: ParameterInfo = ParameterInfo {
    name: "demonstration_ids",
    values: "list of ids, or nothing for all rows",
    default: Some("null"),
    documentation: "The rows that are shown, in this order.",
};

pub(crate) const DISTRACTORS: ParameterInfo = ParameterInfo {
    name: "distractors",
    values: "integer",
    default: Some("2"),
    documentation: "Distractors shown with each demonstration, at most those that it has (M: 1, 2 or 3).",
};

pub(crate) const TITLE_LABEL: ParameterInfo = ParameterInfo {
    name: "title_label",
    values: "text",
    default: Some("\"Wikipedia Title: \""),
    documentation: "Stands before each title.",
};

pub(crate) const QUERY_WORDS: ParameterInfo = ParameterInfo {
    name: "query_words",
    values: "\"all\" or \"without_question_words\"",
    default: Some("\"all\""),
    documentation: "The code leaves out who, what, when, where, why, which, how, does and is where they stand alone.",
};

pub(crate) const LONGEST_PASSAGE: ParameterInfo = ParameterInfo {
    name: "longest_passage",
    values: "integer, or nothing for any length",
    default: Some("null"),
    documentation: "Passages of more words are passed over; the code's limit is 600.",
};

pub(crate) const NEAR_DUPLICATES: ParameterInfo = ParameterInfo {
    name: "near_duplicates",
    values: "integer from 0 to 100, or nothing for equal texts alone",
    default: Some("null"),
    documentation: "A passage whose title and text have this ratio with another's is passed over; the code has 90.",
};

pub(crate) const SHOWN_WORDS: ParameterInfo = ParameterInfo {
    name: "shown_words",
    values: "integer, or nothing for all",
    default: Some("null"),
    documentation: "Words of a passage that a prompt shows, as pieces between single spaces; the code shows 350.",
};

pub(crate) const CONTEXT_TOKENS: ParameterInfo = ParameterInfo {
    name: "context_tokens",
    values: "integer, or nothing for what the model takes",
    default: Some("null"),
    documentation: "Most tokens of prompt and answer; demonstrations are left out first, the first ones first.",
};

pub(crate) const PACKING: ParameterInfo = ParameterInfo {
    name: "packing",
    values: "\"whole\", \"each\" or \"each_and_one_more\"",
    default: Some("\"whole\""),
    documentation: "The tokens that count against `context_tokens`: the whole prompt's, or those of each demonstration \
                    alone; with one more, the last ones first leave room for another. The code's two rules.",
};

pub(crate) const MAX_TOKENS: ParameterInfo = ParameterInfo {
    name: "max_tokens",
    values: "integer, at least 1",
    default: Some("300"),
    documentation: "Most tokens that a model writes at once.",
};

#[cfg(test)]
mod tests {
    use super::*;

    fn form(style: AnswerStyle) -> FewShotForm {
        FewShotForm {
            style,
            with_passages: true,
            distractors: 1,
            instruction: String::new(),
            title_label: default_title_label(),
            shown_words: None,
            context_tokens: None,
            max_tokens: 300,
            packing: PackingRule::Whole,
        }
    }

    fn passage(title: &str) -> DemonstrationPassage {
        DemonstrationPassage { title: title.to_owned(), text: format!("Text of {title}.") }
    }

    fn row() -> Demonstration {
        Demonstration {
            passages: vec![passage("Gold"), passage("Lead")],
            distractors: vec![passage("Sand"), passage("Mud")],
            question: "Who?".to_owned(),
            reasoning: "It is Ann. So the answer is: Ann.".to_owned(),
            answer: "Ann".to_owned(),
            ..Demonstration::default()
        }
    }

    #[test]
    fn a_demonstration_is_written_as_a_solved_question() {
        let form = form(AnswerStyle::Direct);
        let without = FewShotForm { with_passages: false, instruction: "Be short. ".to_owned(), ..form.clone() };
        assert_eq!(without.written_demonstration(&row()), "Q: Be short. Who?\nA: Ann\n\n\n");
        let none = FewShotForm { distractors: 0, style: AnswerStyle::Cot, ..form.clone() };
        assert_eq!(
            none.written_demonstration(&row()),
            "Wikipedia Title: Gold\nText of Gold.\n\nWikipedia Title: Lead\nText of Lead.\n\nQ: Who?\n\
             A: It is Ann. So the answer is: Ann.\n\n\n"
        );
        let grounded = Demonstration { main: Some(passage("Main")), ..row() };
        assert!(without.written_demonstration(&grounded).starts_with("Wikipedia Title: Main\nText of Main.\n\nQ: "));
    }

    #[test]
    fn more_distractors_leave_the_order_of_the_others() {
        let titles = |distractors| {
            let form = FewShotForm { distractors, ..form(AnswerStyle::Cot) };
            form.mixed_passages(&row()).iter().map(|passage| passage.title.clone()).collect::<Vec<_>>()
        };
        let (one, two) = (titles(1), titles(2));
        assert_eq!((one.len(), two.len(), titles(9).len()), (3, 4, 4));
        assert_eq!(two.iter().filter(|title| *title != "Mud").collect::<Vec<_>>(), one.iter().collect::<Vec<_>>());
        let imported = Demonstration { distractors: Vec::new(), ..row() };
        assert_eq!(form(AnswerStyle::Cot).mixed_passages(&imported)[0].title, "Gold", "the order of the file");
    }

    #[test]
    fn what_a_set_lacks_is_named() {
        let message = |row: Demonstration, ids: Option<&[String]>| {
            FewShotPrompt::new("m", &DemonstrationSet::new(vec![row]), ids, form(AnswerStyle::Cot))
                .map(|_| ())
                .unwrap_err()
                .to_string()
        };
        let mute = Demonstration { reasoning: String::new(), ..row() };
        assert!(message(mute, None).contains("must have `reasoning` in each row"));
        assert!(message(row(), Some(&["x".to_owned()])).contains("`demonstration_ids` = \"x\""));
    }
}
