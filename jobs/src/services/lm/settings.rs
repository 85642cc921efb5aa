//! The keys of a `kind = "lm"` service.

use crate::bad_value::{BadValue, ensure};
use crate::services::models;
use hopeval_lm::chat_template::{ChatVariable, GIVEN_NAMES};
use hopeval_lm::devices::DeviceName;
use hopeval_lm::engine::{EngineOptions, PoolTokens};
use hopeval_lm::request::EncoderOutput;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The settings of a language model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LmSettings {
    /// The folder of a model, relative to the job; `ORG/NAME` of the hub's cache; or `hopeval:NAME`.
    pub model: String,
    /// The model's device.
    #[serde(default)]
    pub device: DeviceName,
    /// Threads of the device; left out, all threads of the process.
    #[serde(default)]
    pub threads: Option<usize>,
    /// The most tokens in a batch. The default of this and the next two depends on the device
    /// ([`DeviceName::default_options`]).
    #[serde(default)]
    pub batch_tokens: Option<usize>,
    /// Tokens with cached encoder states (encoder-decoders).
    #[serde(default)]
    pub states_tokens: Option<usize>,
    /// Tokens in the key/value cache (generation).
    #[serde(default)]
    pub cache_tokens: Option<usize>,
    /// `score`, `generate`: the form of prompts. Unwritten if plain: as in fingerprints of before chats.
    #[serde(default, skip_serializing_if = "PromptForm::is_plain")]
    pub prompt: PromptForm,
    /// `prompt = "chat"`: variables of the checkpoint's template, by name. Shared, for most services have none.
    #[serde(default, skip_serializing_if = "no_variables")]
    pub chat_variables: Arc<BTreeMap<String, ChatVariable>>,
    /// `score`: whether an encoder-decoder's target ends in a scored end token.
    #[serde(default = "yes")]
    pub target_eos: bool,
    /// `label`: tokens of query and chunk, special ones included; the rest is cut off.
    #[serde(default = "label_tokens")]
    pub label_tokens: usize,
    /// `label`: the part of the sequence for kept tokens.
    #[serde(default)]
    pub label_scope: LabelScope,
    /// `filter`: tokens of query and information, special ones included.
    #[serde(default = "filter_tokens")]
    pub filter_tokens: usize,
    /// `label`, `filter`: whether commas are removed from the model's input.
    #[serde(default = "yes")]
    pub drop_commas: bool,
    /// `label`, `filter`: a file of spaCy's tokenizer, relative to the job, whose rules cut texts into words. Left out:
    /// runs of letters and digits, and every other sign alone. Unwritten then, as before the choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub word_rules: Option<PathBuf>,
    /// `rerank`, `entail`: tokens of a pair, special ones included; the longer text is cut.
    #[serde(default = "pair_tokens")]
    pub pair_tokens: usize,
    /// `entail`: a classifier of pairs, or a text-to-text model. Unwritten if a classifier, as before the choice.
    #[serde(default, skip_serializing_if = "EntailForm::is_classifier")]
    pub entail: EntailForm,
    /// `entail`: the answer is the probability of this label.
    #[serde(default = "entail_label")]
    pub entail_label: String,
    /// `read`: tokens of question and context, special ones included; the context is cut.
    #[serde(default = "read_tokens")]
    pub read_tokens: usize,
    /// `read`: tokens of the question.
    #[serde(default = "question_tokens")]
    pub question_tokens: usize,
    /// `embed`: tokens, special ones included.
    #[serde(default = "max_tokens")]
    pub max_tokens: usize,
    /// `embed`: the pooling of the tokens' states into the text's vector.
    #[serde(default)]
    pub pooling: PoolingName,
    /// `embed`: whether vectors are scaled to length 1.
    #[serde(default)]
    pub normalize: bool,
    /// `embed`: the text before a query.
    #[serde(default)]
    pub query_prefix: String,
    /// `embed`: the text before a passage.
    #[serde(default)]
    pub passage_prefix: String,
    /// `generate`: fixes the draws of sampling.
    #[serde(default)]
    pub seed: u64,
}

/// The form of a language model's prompts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptForm {
    /// The parts' texts one after the other, for completion models.
    #[default]
    Plain,
    /// Messages, as the checkpoint's chat template writes them.
    Chat,
}

impl PromptForm {
    /// Whether roles are ignored.
    pub fn is_plain(&self) -> bool {
        *self == Self::Plain
    }
}

/// The source of an entailment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntailForm {
    /// The probability of a label, by an encoder with several sequence labels.
    #[default]
    Classifier,
    /// The probability that a model with a prompt writes `1` (Honovich et al. 2022).
    TrueNli,
}

impl EntailForm {
    /// Whether it is a classifier.
    pub fn is_classifier(&self) -> bool {
        *self == Self::Classifier
    }
}

/// The scope of information among the tokens with the label "keep".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LabelScope {
    /// Tokens of the chunk: labels of the query's tokens are not information (EfficientRAG, section 3.1: it labels the
    /// tokens of the chunk, and is not trained on tokens of the query).
    #[default]
    Chunk,
    /// Tokens of the whole sequence, as in the official script.
    Sequence,
}

/// The pooling of the tokens' states into a text's vector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PoolingName {
    /// Their mean.
    #[default]
    Mean,
    /// The first one.
    Cls,
}

impl PoolingName {
    pub(super) fn want(self) -> EncoderOutput {
        match self {
            Self::Mean => EncoderOutput::Mean,
            Self::Cls => EncoderOutput::First,
        }
    }
}

fn no_variables(variables: &BTreeMap<String, ChatVariable>) -> bool {
    variables.is_empty()
}

fn yes() -> bool {
    true
}

/// EfficientRAG, section 4 and official script.
fn label_tokens() -> usize {
    384
}

/// EfficientRAG's official script, at inference.
fn filter_tokens() -> usize {
    128
}

fn pair_tokens() -> usize {
    512
}

fn entail_label() -> String {
    "entailment".to_owned()
}

/// MDR's reader, used by PromptRank (section 4.4).
fn read_tokens() -> usize {
    512
}

/// MDR's reader.
fn question_tokens() -> usize {
    64
}

fn max_tokens() -> usize {
    512
}

/// Settings for the speed of answers, and the places of model and rules. What stands there is hashed by itself.
const WITHOUT_EFFECT: [&str; 7] =
    ["model", "word_rules", "device", "threads", "batch_tokens", "states_tokens", "cache_tokens"];

/// Settings that change other answers but not a passage's vector.
const NOT_OF_PASSAGES: [&str; 11] = [
    "target_eos",
    "label_tokens",
    "label_scope",
    "filter_tokens",
    "drop_commas",
    "pair_tokens",
    "entail_label",
    "read_tokens",
    "question_tokens",
    "query_prefix",
    "seed",
];

/// The greatest allowed number of tokens.
const MOST_TOKENS: usize = 1 << 30;

impl LmSettings {
    /// The engine's options for its device.
    pub(super) fn options(&self) -> EngineOptions {
        let usual = self.device.default_options();
        EngineOptions {
            batch_tokens: self.batch_tokens.unwrap_or(usual.batch_tokens),
            states_tokens: self.states_tokens.map_or(usual.states_tokens, PoolTokens::exactly),
            cache_tokens: self.cache_tokens.map_or(usual.cache_tokens, PoolTokens::exactly),
            ..usual
        }
    }

    /// The same settings for timing single requests: encoder states of other requests are not kept.
    pub(super) fn without_sharing(&self) -> Self {
        Self { states_tokens: Some(0), ..self.clone() }
    }

    /// All settings that can change an answer, as text. A new setting is included unless it is listed above.
    pub(super) fn behaviour(&self) -> String {
        self.written_without(&[])
    }

    /// All settings that can change a passage's vector, as text.
    pub(super) fn behaviour_for_passages(&self) -> String {
        self.written_without(&NOT_OF_PASSAGES)
    }

    fn written_without(&self, names: &[&str]) -> String {
        let written = serde_json::to_value(self).and_then(serde_json::from_value::<BTreeMap<String, Value>>);
        let mut fields = written.expect("plain data can be written as JSON; this is a bug");
        fields.retain(|name, _| !WITHOUT_EFFECT.contains(&name.as_str()) && !names.contains(&name.as_str()));
        format!("{fields:?}")
    }

    /// Makes the paths of a model's folder and of the word rules independent of the working directory.
    pub(super) fn resolve_places(&mut self, base: &Path) {
        self.model = models::resolve_name(base, std::mem::take(&mut self.model));
        if let Some(file) = self.word_rules.as_mut().filter(|file| !file.as_os_str().is_empty()) {
            *file = base.join(&*file);
        }
    }

    /// Refuses nonsensical values.
    ///
    /// # Errors
    /// The first such value.
    pub(super) fn check_values(&self) -> Result<(), BadValue> {
        ensure(!self.model.is_empty(), || BadValue::new("model", "nothing", "a folder, ORG/NAME or hopeval:NAME"))?;
        ensure(self.word_rules.as_ref().is_none_or(|file| !file.as_os_str().is_empty()), || {
            BadValue::new("word_rules", "nothing", "a file that spaCy's `nlp.tokenizer.to_disk(FILE)` writes")
        })?;
        ensure(self.chat_variables.is_empty() || self.prompt == PromptForm::Chat, || {
            BadValue::new("chat_variables", "variables for prompt = \"plain\"", "only beside prompt = \"chat\"")
        })?;
        for given in GIVEN_NAMES {
            let allowed = "other names than messages, tools, documents and add_generation_prompt";
            let free = !self.chat_variables.contains_key(given);
            ensure(free, || BadValue::new("chat_variables", given, allowed))?;
        }
        ensure(self.threads != Some(0), || BadValue::new("threads", "0", "at least 1"))?;
        let tokens = [
            ("batch_tokens", self.batch_tokens.unwrap_or(1), 1),
            ("states_tokens", self.states_tokens.unwrap_or(1), 1),
            ("cache_tokens", self.cache_tokens.unwrap_or(1), 1),
            // Room for the special tokens and one more.
            ("label_tokens", self.label_tokens, 4),
            ("filter_tokens", self.filter_tokens, 4),
            ("pair_tokens", self.pair_tokens, 8),
            ("read_tokens", self.read_tokens, 8),
            ("question_tokens", self.question_tokens, 1),
            ("max_tokens", self.max_tokens, 4),
        ];
        let allowed = "a number of tokens, at least a few, at most 1073741824";
        tokens.into_iter().try_for_each(|(key, tokens, least)| {
            ensure((least..=MOST_TOKENS).contains(&tokens), || BadValue::new(key, tokens.to_string(), allowed))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: &str) -> LmSettings {
        toml::from_str(&format!("model = \"m\"\n{text}")).unwrap()
    }

    #[test]
    fn a_vector_depends_on_what_passages_are_embedded_with() {
        let written = serde_json::to_value(settings("word_rules = \"rules\"")).unwrap();
        for name in WITHOUT_EFFECT.iter().chain(&NOT_OF_PASSAGES) {
            assert!(written.get(name).is_some(), "{name} is no setting");
        }
        let plain = settings("").behaviour_for_passages();
        for other in ["query_prefix = \"q: \"", "read_tokens = 99", "seed = 4", "threads = 3"] {
            assert_eq!(settings(other).behaviour_for_passages(), plain, "{other}");
        }
        for own in ["passage_prefix = \"p: \"", "max_tokens = 99", "pooling = \"cls\"", "normalize = true"] {
            assert_ne!(settings(own).behaviour_for_passages(), plain, "{own}");
        }
    }

    #[test]
    fn speed_is_no_behaviour_and_all_else_is() {
        let plain = settings("").behaviour();
        for speed in
            ["threads = 3", "batch_tokens = 64", "states_tokens = 1", "cache_tokens = 9", "device = \"cpu-avx2\""]
        {
            assert_eq!(settings(speed).behaviour(), plain, "{speed}");
        }
        assert_eq!(settings("word_rules = \"rules\"").behaviour(), plain, "the file's rules are hashed, not its place");
        for behaviour in
            ["label_tokens = 128", "drop_commas = false", "label_scope = \"sequence\"", "pooling = \"cls\""]
        {
            assert_ne!(settings(behaviour).behaviour(), plain, "{behaviour}");
        }
    }

    #[test]
    fn plain_prompts_are_not_written_and_chats_are() {
        let plain = settings("").behaviour();
        assert!(!plain.contains("chat") && !plain.contains("\"prompt\""), "{plain}");
        assert_eq!(settings("prompt = \"plain\"").behaviour(), plain);
        let chat = settings("prompt = \"chat\"");
        assert_ne!(chat.behaviour(), plain);
        let quiet = settings("prompt = \"chat\"\nchat_variables = { enable_thinking = false, date = \"1 May\" }");
        assert_eq!(quiet.check_values(), Ok(()));
        assert_ne!(quiet.behaviour(), chat.behaviour());
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        assert_eq!(settings("chat_variables = { a = 1 }").check_values().unwrap_err().key, "chat_variables");
        let given = settings("prompt = \"chat\"\nchat_variables = { tools = 1 }").check_values().unwrap_err();
        assert_eq!((given.key.as_str(), given.found.as_str()), ("chat_variables", "tools"));
        assert_eq!(settings("word_rules = \"\"").check_values().unwrap_err().key, "word_rules");
        assert_eq!(settings("").check_values(), Ok(()));
        assert_eq!(settings("threads = 0").check_values().unwrap_err().key, "threads");
        let few = settings("label_tokens = 3").check_values().unwrap_err();
        assert_eq!((few.key.as_str(), few.found.as_str()), ("label_tokens", "3"));
        let unknown = toml::from_str::<LmSettings>("model = \"m\"\nlabels = 3").unwrap_err().to_string();
        assert!(unknown.contains("label_tokens"), "{unknown}");
    }
}
