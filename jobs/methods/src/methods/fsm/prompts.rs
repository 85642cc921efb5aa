//! FSM's prompts, one for each step, in the project's own words.

use super::KIND;
use super::parameters::FsmParameters;
use crate::fragment::Fragment;
use crate::machine::{MethodError, PromptWording};
use crate::prompt::{ChatRole, Prompt};
use crate::template::{PromptBuilder, PromptTemplate};
use std::collections::BTreeMap;

/// A step that the model writes for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FsmStep {
    Decompose,
    Judge,
    Search,
    Check,
    Revise,
    Review,
}

impl FsmStep {
    /// The name in prompts, requests and notes.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Decompose => "decompose",
            Self::Judge => "judge",
            Self::Search => "search",
            Self::Check => "check",
            Self::Revise => "revise",
            Self::Review => "review",
        }
    }

    /// The form of its reply, in words for the model that rewrites it.
    pub(super) fn form(self, support: bool) -> &'static str {
        match (self, support) {
            (Self::Decompose, _) => "a JSON object with the keys \"simple\" (true or false) and \"subquestion\"",
            (Self::Judge, _) => "a JSON object with the key \"identical\" (true or false)",
            (Self::Search, false) => {
                "a JSON object with the keys \"question\", \"paragraph title\" (the title of one of the paragraphs) \
                 and \"answer\" (a few words)"
            }
            (Self::Search, true) => {
                "a JSON object with the keys \"question\", \"paragraph title\" (the title of one of the paragraphs), \
                 \"answer\" (a few words), \"supporting-facts\" (pairs of a title and an index) and \"evidences\" \
                 (triples)"
            }
            (Self::Check, _) => "a JSON object with the keys \"simple\" (true or false) and \"answer\"",
            (Self::Revise, _) => "a JSON object with the keys \"question\" and \"relation\"",
            (Self::Review, false) => "a JSON object with the keys \"explain\" and \"answer\"",
            (Self::Review, true) => {
                "a JSON object with the keys \"explain\", \"supporting-facts\" (pairs of a title and an index), \
                 \"evidences\" (triples) and \"answer\""
            }
        }
    }
}

/// A prompt's name, the project's text, and its fields.
type PromptSource = (&'static str, &'static str, &'static [&'static str]);

macro_rules! own {
    ($file:literal) => {
        include_str!(concat!("../../../prompts/fsm/", $file, ".txt")).trim_ascii_end()
    };
}

const DECOMPOSE: PromptSource = ("decompose", own!("decompose"), &["question"]);
const JUDGE: PromptSource = ("judge", own!("judge"), &["question", "subquestion"]);
const SEARCH: PromptSource = ("search", own!("search"), &["paragraphs", "question", "words"]);
const SEARCH_SUPPORT: PromptSource = ("search", own!("search_support"), &["paragraphs", "question", "words"]);
const CHECK: PromptSource = ("check", own!("check"), &["subquestion", "answer"]);
const REVISE: PromptSource = ("revise", own!("revise"), &["question", "subquestion", "answer"]);
const REWRITE: PromptSource = ("rewrite", own!("rewrite"), &["form", "problem", "text"]);
const REVIEW: PromptSource = ("review", own!("review"), &["paragraphs", "steps", "question", "words"]);
const REVIEW_SUPPORT: PromptSource = ("review", own!("review_support"), &["paragraphs", "steps", "question", "words"]);

/// The prompts of a configuration.
pub(super) struct FsmPrompts {
    templates: BTreeMap<&'static str, PromptTemplate>,
    wording: PromptWording,
}

impl FsmPrompts {
    pub(super) fn new(parameters: &FsmParameters) -> Result<Self, MethodError> {
        let (search, review) =
            if parameters.wants_support() { (SEARCH_SUPPORT, REVIEW_SUPPORT) } else { (SEARCH, REVIEW) };
        let sources = [DECOMPOSE, JUDGE, search, CHECK, REVISE, REWRITE, review];
        let bad = |found: String, allowed| MethodError::Value { kind: KIND, parameter: "prompts", found, allowed };
        if let Some(unknown) = parameters.prompts.keys().find(|name| !sources.iter().any(|source| source.0 == **name)) {
            const ALLOWED: &str = "names must be decompose, judge, search, check, revise, rewrite or review";
            return Err(bad(unknown.clone(), ALLOWED));
        }
        let mut texts = BTreeMap::new();
        let mut templates = BTreeMap::new();
        for (name, own, fields) in sources {
            let text = parameters.prompts.get(name).map_or(own, String::as_str);
            let template = PromptTemplate::parse(text, fields).map_err(|mistake| {
                let found = format!("`{{{}}}` {} times in `{name}`", mistake.field, mistake.places);
                bad(found, "each field of a prompt must be there once")
            })?;
            texts.insert(name, text);
            templates.insert(name, template);
        }
        let origin = if parameters.prompts.is_empty() { "hopeval" } else { "job" };
        let text = serde_json::to_string(&texts).expect("texts can be written as JSON; this is a bug");
        Ok(Self { templates, wording: PromptWording { origin: origin.into(), text } })
    }

    pub(super) fn wording(&self) -> PromptWording {
        self.wording.clone()
    }

    pub(super) fn fragments(&self) -> Vec<Fragment> {
        self.templates.values().flat_map(PromptTemplate::fragments).cloned().collect()
    }

    /// The user's message of the prompt `name`.
    pub(super) fn message(&self, name: &str, fill: impl FnMut(&'static str, &mut PromptBuilder)) -> Prompt {
        let mut builder = PromptBuilder::new();
        if let Some(template) = self.templates.get(name) {
            template.append_to(&mut builder, fill);
        }
        builder.finish()
    }
}

/// A message and its reply, as a later prompt begins with them.
#[derive(Clone, Debug)]
pub(super) struct ChatTurn {
    message: Prompt,
    reply: String,
}

impl ChatTurn {
    pub(super) fn new(message: Prompt, reply: String) -> Self {
        Self { message, reply }
    }

    /// The prompt that begins with these turns.
    pub(super) fn begin_with(turns: &[ChatTurn], message: Prompt) -> Prompt {
        let mut parts = Vec::new();
        for turn in turns {
            parts.extend(turn.message.parts.iter().cloned());
            let mut reply = PromptBuilder::new();
            reply.speak_as(ChatRole::Assistant);
            reply.text(&turn.reply);
            parts.extend(reply.finish().parts);
        }
        parts.extend(message.parts);
        Prompt { parts, ..Prompt::default() }
    }
}
