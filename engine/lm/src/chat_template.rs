//! [`ChatTemplate`]: messages as the text that a chat model was trained on, by the checkpoint's own template.
//!
//! ```text
//!   chat_template.jinja, or chat_template in tokenizer_config.json --compile--> ChatTemplate
//!   messages, special tokens, variables --render--> text --without further special tokens--> ids
//! ```
//!
//! A template gives the text of transformers' `apply_chat_template` for the same messages: without tools and documents,
//! with `continue_final_message` if the last message is the assistant's, else with `add_generation_prompt`. The
//! environment is transformers' own (`utils/chat_template_utils.py`): `trim_blocks`, `lstrip_blocks`, loop controls,
//! `raise_exception`, Python's `tojson`, and methods of Python's texts and dictionaries.
//!
//! `strftime_now` is missing: the text is part of what a request's key stands for, and keys must not depend on the day.
//! Templates that ask whether it is defined use their fixed date; others need a variable, or are refused.

mod python;

use crate::tokenise::SpecialRole;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Value as TemplateValue;
use minijinja::{Environment, Error, ErrorKind, UndefinedBehavior};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The file with a template of its own; it has precedence over `tokenizer_config.json`, as in transformers.
const TEMPLATE_FILE: &str = "chat_template.jinja";

/// The file with the special tokens, and perhaps the template.
const CONFIG_FILE: &str = "tokenizer_config.json";

/// Marks the end of the message to be continued; transformers' own mark, because a template could treat another one
/// differently. Templates may remove the space.
const CONTINUE_MARK: &str = "CONTINUE_FINAL_MESSAGE_TAG ";

/// Steps of one rendering at most: a template of thousands of messages needs fewer, one without an end is refused.
const MOST_STEPS: u64 = 20_000_000;

/// The reason for a failure.
#[derive(Debug, thiserror::Error)]
pub enum ChatError {
    /// The folder has no template.
    #[error(
        "{}: no chat template, neither chat_template.jinja nor chat_template in tokenizer_config.json\n\
         hint: this is a completion model; or put the template of its publisher there",
        folder.display()
    )]
    Absent {
        /// The model's folder.
        folder: PathBuf,
    },
    /// A file is unreadable.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
    /// A file has another format.
    #[error("{}: {reason}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The allowed content and the content found.
        reason: String,
    },
    /// The template refuses these messages, or fails.
    #[error("the chat template refuses the messages: {reason}")]
    Refused {
        /// The template's own words, or the environment's.
        reason: String,
    },
    /// The template does not write the last message, so it cannot be continued.
    #[error("the chat template does not write the assistant's last message as it is, so nothing can continue it")]
    NotContinued,
    /// There is nothing to render.
    #[error("the prompt has no message")]
    NoMessage,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatMessage {
    /// The speaker.
    pub role: ChatRole,
    /// The text.
    pub content: String,
}

/// A speaker of a chat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of every template")]
pub enum ChatRole {
    System,
    User,
    Assistant,
}

impl ChatRole {
    /// Its name in templates.
    pub const fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

/// The value of a variable for a template.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(untagged)]
pub enum ChatVariable {
    /// True or false.
    Flag(bool),
    /// A whole number.
    Number(i64),
    /// A text.
    Text(String),
}

impl From<&ChatVariable> for TemplateValue {
    fn from(variable: &ChatVariable) -> Self {
        match variable {
            ChatVariable::Flag(flag) => Self::from(*flag),
            ChatVariable::Number(number) => Self::from(*number),
            ChatVariable::Text(text) => Self::from(text),
        }
    }
}

/// Names that every template is given, so no variable may have them.
pub const GIVEN_NAMES: [&str; 4] = ["messages", "tools", "documents", "add_generation_prompt"];

/// The compiled template of a checkpoint.
#[derive(Debug)]
pub struct ChatTemplate {
    environment: Environment<'static>,
    source: String,
    /// Special tokens by role (`bos_token`), then the caller's variables, which replace them.
    variables: BTreeMap<String, TemplateValue>,
}

impl ChatTemplate {
    /// The template of a folder. `variables` are given to it by name, as `chat_template_kwargs` of inference servers.
    ///
    /// # Errors
    /// [`ChatError::Absent`], [`ChatError::Read`], [`ChatError::Format`].
    pub fn open(folder: &Path, variables: &BTreeMap<String, ChatVariable>) -> Result<Self, ChatError> {
        let config_path = folder.join(CONFIG_FILE);
        let config = match read_text(&config_path)? {
            None => Map::new(),
            Some(text) => serde_json::from_str(&text)
                .map_err(|error| format_error(&config_path, format!("not a JSON object: {error}")))?,
        };
        let own_path = folder.join(TEMPLATE_FILE);
        let (path, source) = match read_text(&own_path)? {
            Some(text) => (own_path, text),
            None => match named_template(&config_path, &config)? {
                Some(text) => (config_path, text),
                None => return Err(ChatError::Absent { folder: folder.to_owned() }),
            },
        };
        let mut known: BTreeMap<String, TemplateValue> = SpecialRole::ALL
            .iter()
            .filter_map(|role| {
                let name = format!("{}_token", role.name());
                let text = token_text(config.get(&name)?)?;
                Some((name, TemplateValue::from(text)))
            })
            .collect();
        known.extend(variables.iter().map(|(name, value)| (name.clone(), TemplateValue::from(value))));
        let environment = new_environment(&path, &source)?;
        Ok(Self { environment, source, variables: known })
    }

    /// The template's text, for digests.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The text of `messages` up to where the model goes on: in the last message if it is the assistant's, else in a
    /// new one.
    ///
    /// # Errors
    /// [`ChatError::Refused`], [`ChatError::NotContinued`], [`ChatError::NoMessage`].
    pub fn render(&self, messages: &[ChatMessage]) -> Result<String, ChatError> {
        let last = messages.last().ok_or(ChatError::NoMessage)?;
        if last.role != ChatRole::Assistant {
            return self.render_whole(messages, true);
        }
        let (continued, before) = (last, &messages[..messages.len() - 1]);
        let marked = ChatMessage { role: continued.role, content: [&continued.content, CONTINUE_MARK].concat() };
        let text = self.render_whole(&[before, &[marked]].concat(), false)?;
        let bare = CONTINUE_MARK.trim_end();
        let at = text.rfind(bare).ok_or(ChatError::NotContinued)?;
        if !text.contains(python::strip(&continued.content)) {
            return Err(ChatError::NotContinued);
        }
        let kept = &text[..at];
        // A template that removes the mark's space removes that of messages, too.
        let kept = if text[at..].starts_with(CONTINUE_MARK) { kept } else { python::strip_end(kept) };
        Ok(kept.to_owned())
    }

    fn render_whole(&self, messages: &[ChatMessage], add_generation_prompt: bool) -> Result<String, ChatError> {
        let message = |message: &ChatMessage| {
            TemplateValue::from_pairs([("role", message.role.name()), ("content", &message.content)])
        };
        let (none, messages) = (TemplateValue::from(()), messages.iter().map(message).collect());
        let given = [messages, none.clone(), none, TemplateValue::from(add_generation_prompt)];
        let given = GIVEN_NAMES.into_iter().zip(given);
        let known = self.variables.iter().map(|(name, value)| (name.as_str(), value.clone()));
        let context: TemplateValue = TemplateValue::from_pairs(known.chain(given));
        let template = self.environment.get_template(NAME).map_err(|error| refusal(&error))?;
        template.render(context).map_err(|error| refusal(&error))
    }
}

/// The template's name in its environment; no suffix, so nothing is escaped.
const NAME: &str = "chat";

fn new_environment(path: &Path, source: &str) -> Result<Environment<'static>, ChatError> {
    let mut environment = Environment::new();
    let mut syntax = SyntaxConfig::builder();
    syntax.trim_blocks(true).lstrip_blocks(true);
    let syntax = syntax.build().map_err(|error| format_error(path, error.to_string()))?;
    environment.set_syntax(syntax);
    environment.set_undefined_behavior(UndefinedBehavior::Lenient);
    environment.set_fuel(Some(MOST_STEPS));
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.add_filter("tojson", python::to_json);
    environment.add_function("raise_exception", |message: String| -> Result<TemplateValue, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, message))
    });
    environment
        .add_template_owned(NAME, python::without_generation_tags(source))
        .map_err(|error| format_error(path, format!("the chat template: {}", described(&error))))?;
    Ok(environment)
}

/// `chat_template` of a configuration: a text, or several with names, of which `default` is for chats without tools.
fn named_template(path: &Path, config: &Map<String, Value>) -> Result<Option<String>, ChatError> {
    let expected = |found: &Value| {
        let reason = format!("chat_template: expected a text, or a list of name and template, found {found}");
        format_error(path, reason)
    };
    match config.get("chat_template") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(found @ Value::Array(named)) => {
            for one in named {
                let field = |name: &str| one.get(name).and_then(Value::as_str).ok_or_else(|| expected(found));
                if field("name")? == "default" {
                    return Ok(Some(field("template")?.to_owned()));
                }
            }
            Err(format_error(path, "chat_template: several templates, none of them named default".to_owned()))
        }
        Some(found) => Err(expected(found)),
    }
}

/// The text of a token: a string, or an object with `content`.
fn token_text(token: &Value) -> Option<&str> {
    token.as_str().or_else(|| token.get("content")?.as_str())
}

/// The text of a file, if it exists.
fn read_text(path: &Path) -> Result<Option<String>, ChatError> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(source) if source.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(ChatError::Read { path: path.to_owned(), source }),
    }
}

fn format_error(path: &Path, reason: String) -> ChatError {
    ChatError::Format { path: path.to_owned(), reason }
}

fn refusal(error: &Error) -> ChatError {
    ChatError::Refused { reason: described(error) }
}

/// The innermost reason, and its line.
fn described(error: &Error) -> String {
    let line = error.line().map_or_else(String::new, |line| format!(" (its line {line})"));
    let reason = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
    format!("{reason}{line}")
}
