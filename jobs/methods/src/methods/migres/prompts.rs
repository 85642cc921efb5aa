//! The modules' prompts: an instruction, examples if there are any, and the input.

use super::KIND;
use super::choices::{AnswerTask, DemonstrationSet, KnowledgeForm};
use super::parameters::{MigresParameters, ModuleTexts};
use crate::fragment::Fragment;
use crate::knowledge::compression::{SNIPPET, SUMMARY};
use crate::machine::{MethodError, PromptWording};
use crate::template::{PromptBuilder, PromptTemplate};
use serde_json::json;
use std::collections::BTreeMap;

/// The project's own wording of each module.
macro_rules! own {
    ($name:literal) => {
        include_str!(concat!("../../../prompts/migres/", $name, ".txt")).trim_ascii_end()
    };
}

const DEMONSTRATIONS: &str = include_str!("../../../prompts/migres/demonstrations.json");

/// A prompt with its examples.
#[derive(Debug)]
pub(super) struct ModulePrompt {
    template: PromptTemplate,
    demonstrations: Option<Fragment>,
}

/// The prompts of a configuration.
#[derive(Debug)]
pub(super) struct ModulePrompts {
    pub(super) main: ModulePrompt,
    pub(super) last: ModulePrompt,
    pub(super) direct: ModulePrompt,
    pub(super) leaf: ModulePrompt,
    pub(super) query: ModulePrompt,
    pub(super) forward: ModulePrompt,
    pub(super) compression: ModulePrompt,
    wording: PromptWording,
}

impl ModulePrompt {
    fn new(text: &str, demonstrations: Option<&str>, module: &ModuleFields) -> Result<Self, MethodError> {
        let mistake = |_| MethodError::Value {
            kind: KIND,
            parameter: "prompts",
            found: format!("a text for `{}`", module.name),
            allowed: module.allowed,
        };
        let template = PromptTemplate::parse(text, module.fields).map_err(mistake)?;
        let demonstrations = demonstrations.map(|text| Fragment::new(format!("{}\n\n", text.trim_end())));
        Ok(Self { template, demonstrations })
    }

    /// Appends the prompt; `fill` appends the fields but the examples.
    pub(super) fn append_to(&self, builder: &mut PromptBuilder, mut fill: impl FnMut(&str, &mut PromptBuilder)) {
        self.template.append_to(builder, |field, builder| match (field, &self.demonstrations) {
            ("demonstrations", Some(examples)) => builder.fragment(examples),
            ("demonstrations", None) => {}
            _ => fill(field, builder),
        });
    }

    fn fragments(&self) -> impl Iterator<Item = &Fragment> {
        self.template.fragments().chain(&self.demonstrations)
    }
}

/// A module's name in `prompts`, with the fields of its prompt.
struct ModuleFields {
    name: &'static str,
    fields: &'static [&'static str],
    allowed: &'static str,
}

const MAIN: ModuleFields = ModuleFields {
    name: "main",
    fields: &["demonstrations", "information", "question"],
    allowed: "must have {demonstrations}, {information} and {question}, each once",
};
const LAST: ModuleFields = ModuleFields { name: "final", ..MAIN };
const LEAF: ModuleFields = ModuleFields {
    name: "leaf",
    fields: &["demonstrations", "passages", "question"],
    allowed: "must have {demonstrations}, {passages} and {question}, each once",
};
const DIRECT: ModuleFields = ModuleFields { name: "direct", ..LEAF };
const QUERY: ModuleFields = ModuleFields {
    name: "query",
    fields: &["demonstrations", "question", "history", "information", "missing"],
    allowed: "must have {demonstrations}, {question}, {history}, {information} and {missing}, each once",
};
const FORWARD: ModuleFields =
    ModuleFields { name: "forward", fields: &["question"], allowed: "must have {question}, once" };
const COMPRESSION: ModuleFields = ModuleFields {
    name: "compression",
    fields: &["passage", "question"],
    allowed: "must have {passage} and {question}, each once",
};

impl ModulePrompts {
    pub(super) fn new(parameters: &MigresParameters) -> Result<Self, MethodError> {
        let MigresParameters { prompts, demonstration_texts: given, .. } = parameters;
        let built_in = built_in_demonstrations(parameters.demonstrations);
        let is_open = parameters.task == AnswerTask::Open;
        let by_task = |open, yes_no| if is_open { open } else { yes_no };
        let own_compression = if parameters.knowledge == KnowledgeForm::Snippet { SNIPPET } else { SUMMARY };
        let texts = |texts: &ModuleTexts| {
            let ModuleTexts { main, last, direct, leaf, query, forward, compression } = texts.clone();
            [main, last, direct, leaf, query, forward, compression]
        };
        let own = [
            by_task(own!("main"), own!("main_yes_no")),
            by_task(own!("final"), own!("final_yes_no")),
            by_task(own!("direct"), own!("direct_yes_no")),
            own!("leaf"),
            own!("query"),
            own!("forward"),
            own_compression,
        ];
        let (prompts, given, built_in) = (texts(prompts), texts(given), texts(&built_in));
        let text = |at: usize| prompts[at].as_deref().unwrap_or(own[at]);
        let examples = |at: usize| given[at].as_deref().or(built_in[at].as_deref()).filter(|text| !text.is_empty());
        let module = |at: usize, fields| ModulePrompt::new(text(at), examples(at), fields);
        let is_own = prompts.iter().chain(&given).all(Option::is_none) && parameters.system.is_empty();
        let all: Vec<_> = (0..own.len()).map(|at| (text(at), examples(at))).collect();
        Ok(Self {
            main: module(0, &MAIN)?,
            last: module(1, &LAST)?,
            direct: module(2, &DIRECT)?,
            leaf: module(3, &LEAF)?,
            query: module(4, &QUERY)?,
            forward: module(5, &FORWARD)?,
            compression: module(6, &COMPRESSION)?,
            wording: PromptWording {
                origin: if is_own { "hopeval" } else { "job" }.into(),
                text: json!([parameters.system, all]).to_string(),
            },
        })
    }

    pub(super) fn wording(&self) -> PromptWording {
        self.wording.clone()
    }

    /// The texts that requests name by digest.
    pub(super) fn fragments(&self) -> Vec<Fragment> {
        let Self { main, last, direct, leaf, query, forward, compression, wording: _ } = self;
        let all = [main, last, direct, leaf, query, forward, compression];
        all.into_iter().flat_map(ModulePrompt::fragments).cloned().collect()
    }
}

fn built_in_demonstrations(set: DemonstrationSet) -> ModuleTexts {
    let name = match set {
        DemonstrationSet::None => return ModuleTexts::default(),
        DemonstrationSet::MultiHop => "multi_hop",
        DemonstrationSet::OpenDomain => "open_domain",
        DemonstrationSet::YesNo => "yes_no",
    };
    let mut sets: BTreeMap<String, ModuleTexts> =
        serde_json::from_str(DEMONSTRATIONS).expect("the demonstrations are JSON, as a test shows");
    sets.remove(name).expect("the demonstrations have every set, as a test shows")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_has_examples_for_every_module_that_shows_them() {
        for set in [DemonstrationSet::MultiHop, DemonstrationSet::OpenDomain, DemonstrationSet::YesNo] {
            let ModuleTexts { main, last, direct, leaf, query, forward, compression } = built_in_demonstrations(set);
            for text in [main, last, direct, leaf, query] {
                assert_eq!(text.unwrap().split("\n\n").count(), 2, "{set:?}");
            }
            assert_eq!((forward, compression), (None, None));
        }
    }
}
