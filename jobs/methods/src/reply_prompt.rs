//! Prompts with templates: their requests, the JSON objects in their replies, and further draws.

use crate::machine::MethodError;
use crate::prompt::ChatRole;
use crate::request::{GeneratePayload, Request, ServiceName, TextFormat};
use crate::response::{Failure, FailureKind};
use crate::sampling::TemperatureChoice;
use crate::template::{PromptBuilder, PromptTemplate};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The place of the JSON in a reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum JsonRule {
    /// The first JSON object with the wanted keys.
    #[default]
    Object,
    /// From the first brace to the next closing one, so nested braces break it (the pattern of EfficientRAG's authors).
    Braces,
}

impl JsonRule {
    /// The first value in `text` that `read` accepts.
    pub(crate) fn find<T>(self, text: &str, read: impl Fn(&Value) -> Option<T>) -> Option<T> {
        match self {
            Self::Object => text.match_indices('{').find_map(|(at, _)| {
                let mut values = serde_json::Deserializer::from_str(&text[at..]).into_iter::<Value>();
                read(&values.next()?.ok()?)
            }),
            Self::Braces => {
                let from = &text[text.find('{')?..];
                read(&serde_json::from_str(&from[..=from.find('}')?]).ok()?)
            }
        }
    }
}

/// The message of the system that the client of EfficientRAG's authors sends where its caller has none
/// (`language_models/llama.py`), as a line of [`crate::registry::ConfigurableMethod::AS_CODE`].
pub(crate) const EFFICIENTRAG_SYSTEM: (&str, &str) = ("system", "\"You are a helpful assistant.\"");

/// A job's own message of the system: `None` for that of the authors' client, which `as = "code"` sets.
pub(crate) fn own_system(system: Option<&str>) -> Option<&str> {
    // As JSON.
    let of_code: Option<String> = serde_json::from_str(EFFICIENTRAG_SYSTEM.1).ok();
    system.filter(|&system| of_code.as_deref() != Some(system))
}

/// All words of a prompt, for its digest: the message of the system, if there is one, stands before the text.
pub(crate) fn all_words(system: Option<&str>, text: &str) -> String {
    system.into_iter().chain([text]).collect::<Vec<_>>().join("\n\n")
}

/// The short text under `key`: a string without the spaces around it, or a number or boolean as in JSON.
pub(crate) fn short_text(value: &Value, key: &str) -> Option<String> {
    match value.get(key)? {
        Value::String(text) => Some(text.trim().to_owned()),
        number @ (Value::Number(_) | Value::Bool(_)) => Some(number.to_string()),
        _ => None,
    }
}

/// A prompt, and the way to draw replies to it.
pub(crate) struct ReplyPrompt {
    /// The service that replies.
    pub(crate) generator: ServiceName,
    /// The message of the system, if there is one.
    pub(crate) system: Option<String>,
    /// The user's.
    pub(crate) template: PromptTemplate,
    /// Most tokens of a reply.
    pub(crate) max_tokens: u32,
    /// The choice of tokens.
    pub(crate) temperature: TemperatureChoice,
    /// Replies drawn until one has the wanted object.
    pub(crate) attempts: u32,
    /// The form of replies.
    pub(crate) format: TextFormat,
}

impl ReplyPrompt {
    /// The request for a reply, after `asked` that were of no use; `fill` appends the values of fields.
    pub(crate) fn request(
        &self,
        step: &'static str,
        asked: u32,
        fill: impl FnMut(&'static str, &mut PromptBuilder),
    ) -> Request {
        let mut builder = PromptBuilder::new();
        if let Some(system) = &self.system {
            builder.speak_as(ChatRole::System);
            builder.text(system);
            builder.speak_as(ChatRole::User);
        }
        self.template.append_to(&mut builder, fill);
        let generate = GeneratePayload {
            prompt: builder.finish(),
            max_tokens: self.max_tokens,
            stop: Vec::new(),
            sampling: self.temperature.sampling(),
            format: self.format.clone(),
            logprobs: false,
        };
        Request { draw: asked, ..Request::new(&self.generator, generate).at_step(step) }
    }

    /// The most requests for one object.
    pub(crate) fn most_draws(&self) -> u32 {
        self.temperature.most_draws(self.attempts)
    }

    /// The failure of a reply without the object, once `asked` replies have not had it either; `None` if another is to
    /// be drawn.
    pub(crate) fn last_failure(&self, asked: u32, wanted: &str) -> Option<Failure> {
        (asked + 1 >= self.most_draws()).then(|| Failure {
            kind: FailureKind::ParseFailure,
            message: format!("what the generator wrote has no JSON with {wanted}"),
        })
    }
}

/// Cuts `given`, else the project's own text, at its fields.
pub(crate) fn parse_template(
    kind: &'static str,
    parameter: &'static str,
    text: &str,
    fields: &[&'static str],
    allowed: &'static str,
) -> Result<PromptTemplate, MethodError> {
    let wrong = |_| MethodError::Value { kind, parameter, found: "a text".to_owned(), allowed };
    PromptTemplate::parse(text, fields).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(text: &str, rule: JsonRule) -> Option<String> {
        rule.find(text, |value| short_text(value, "answer"))
    }

    #[test]
    fn the_answer_is_found_in_whatever_surrounds_it() {
        let object = |text| answer(text, JsonRule::Object);
        assert_eq!(object("```json\n{\"answer\": \" 1979 \"}\n```"), Some("1979".to_owned()));
        assert_eq!(object("{not} {\"why\": {\"n\": 1}, \"answer\": 7}"), Some("7".to_owned()));
        assert_eq!(object("{\"thought\": \"x\"} {\"answer\": true}"), Some("true".to_owned()));
        assert_eq!(object("the answer is Rome"), None);
        assert_eq!(object("{\"answer\": [\"Rome\"]}"), None);
        assert_eq!(object("{\"answer\": \"Ro"), None);
    }

    #[test]
    fn braces_break_on_nested_objects_as_in_the_authors_code() {
        let nested = "{\"why\": {\"n\": 1}, \"answer\": \"Rome\"}";
        assert_eq!(answer(nested, JsonRule::Object), Some("Rome".to_owned()));
        assert_eq!(answer(nested, JsonRule::Braces), None);
        assert_eq!(answer("so {\"answer\": \"Rome\"}", JsonRule::Braces), Some("Rome".to_owned()));
        assert_eq!(answer("} {", JsonRule::Braces), None);
    }
}
