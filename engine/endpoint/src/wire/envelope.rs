//! The parts that all answers share: an error in place of an answer, the usage, the model's own name.

use crate::answer::TokenUsage;
use crate::classify::{classify_error, shorten_text};
use crate::verdict::AttemptCause;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The facts about a reply beside its answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ReplyFacts {
    /// The tokens by the server's account.
    pub(crate) usage: Option<TokenUsage>,
    /// The model's own name.
    pub(crate) model: Option<String>,
    /// The fingerprint of software and weights.
    pub(crate) system_fingerprint: Option<String>,
}

/// A 200 that is no answer.
#[derive(Debug, PartialEq)]
pub(crate) struct ReadingFault {
    /// The cause.
    pub(crate) cause: AttemptCause,
    /// The reason, for people.
    pub(crate) message: String,
    /// The facts about the reply: an answer that cannot be used is paid for, too.
    pub(crate) facts: Box<ReplyFacts>,
}

impl ReadingFault {
    pub(super) fn new(cause: AttemptCause, message: impl Into<String>) -> Self {
        Self { cause, message: message.into(), facts: Box::default() }
    }

    /// The fault of a reply with these facts.
    pub(super) fn with_facts(self, facts: ReplyFacts) -> Self {
        Self { facts: Box::new(facts), ..self }
    }
}

/// The fields of an answer that stand beside its content.
#[derive(Default, Deserialize)]
pub(super) struct EnvelopeFields {
    #[serde(default)]
    usage: Option<UsageFields>,
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    system_fingerprint: Option<String>,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Default, Deserialize)]
struct UsageFields {
    #[serde(default)]
    prompt_tokens: Option<u64>,
    #[serde(default)]
    completion_tokens: Option<u64>,
    #[serde(default)]
    total_tokens: Option<u64>,
    #[serde(default)]
    prompt_tokens_details: Option<PromptDetails>,
    #[serde(default)]
    completion_tokens_details: Option<CompletionDetails>,
    /// DeepSeek's name.
    #[serde(default)]
    prompt_cache_hit_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct PromptDetails {
    #[serde(default)]
    cached_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct CompletionDetails {
    #[serde(default)]
    reasoning_tokens: Option<u64>,
}

impl EnvelopeFields {
    /// Takes the fields of a later part of the same answer: what it has replaces what was there.
    pub(super) fn update_fields(&mut self, later: Self) {
        self.usage = later.usage.or(self.usage.take());
        self.model = later.model.or(self.model.take());
        self.system_fingerprint = later.system_fingerprint.or(self.system_fingerprint.take());
        self.error = later.error.or(self.error.take());
    }

    /// The facts, or the error in place of an answer.
    pub(super) fn into_facts(self, model_known: bool) -> Result<ReplyFacts, ReadingFault> {
        if let Some(error) = self.error.filter(|error| !error.is_null()) {
            let found = classify_error(&error, model_known);
            return Err(ReadingFault::new(found.cause, found.message));
        }
        let usage = self.usage.and_then(UsageFields::into_usage);
        Ok(ReplyFacts { usage, model: self.model, system_fingerprint: self.system_fingerprint })
    }
}

impl UsageFields {
    /// The usage; none without a prompt's tokens, which no answer lacks.
    ///
    /// Tokens of thoughts are some of the completion's. Servers that count them beside it (xAI's models on Vertex AI,
    /// gateways to Gemini) show it by a total that is larger, or by more thoughts than completion. A total that has the
    /// prompt's cached tokens once more is another thing.
    fn into_usage(self) -> Option<TokenUsage> {
        let written = self.completion_tokens.unwrap_or(0);
        let total = self.total_tokens.map(|total| total.saturating_sub(written));
        let prompt = self.prompt_tokens.or(total).filter(|prompt| *prompt > 0)?;
        let cached = self.prompt_tokens_details.and_then(|details| details.cached_tokens);
        let reasoning = self.completion_tokens_details.and_then(|details| details.reasoning_tokens);
        let surplus = self.total_tokens.unwrap_or(0).saturating_sub(prompt.saturating_add(written));
        let beside = match reasoning {
            Some(reasoning) if reasoning > written => reasoning.max(surplus),
            _ if self.completion_tokens.is_none() || cached == Some(surplus) => 0,
            _ => surplus,
        };
        let completion = written.saturating_add(beside);
        Some(TokenUsage {
            prompt,
            cached_prompt: cached.or(self.prompt_cache_hit_tokens).unwrap_or(0).min(prompt),
            completion,
            reasoning: reasoning.unwrap_or(0).min(completion),
            measured: true,
        })
    }
}

/// Reads JSON of a known form; other JSON is of the wrong shape, and other bytes are no JSON.
pub(super) fn read_json<T: DeserializeOwned>(body: &[u8]) -> Result<T, ReadingFault> {
    serde_json::from_slice(body).map_err(|error| {
        let shown = shorten_text(&String::from_utf8_lossy(&body[..body.len().min(400)]));
        let cause = match serde_json::from_slice::<Value>(body) {
            Ok(_) => AttemptCause::WrongShape,
            Err(_) => AttemptCause::NotJson,
        };
        ReadingFault::new(cause, format!("{error} in: {shown}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(text: &str) -> Option<TokenUsage> {
        serde_json::from_str::<EnvelopeFields>(text).unwrap().into_facts(false).unwrap().usage
    }

    #[test]
    fn usage_of_several_servers() {
        let full = r#"{"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,
            "prompt_tokens_details":{"cached_tokens":4,"audio_tokens":0},
            "completion_tokens_details":{"reasoning_tokens":3}}}"#;
        let expected = TokenUsage { prompt: 10, cached_prompt: 4, completion: 5, reasoning: 3, measured: true };
        assert_eq!(usage(full), Some(expected));
        let nulls = r#"{"usage":{"prompt_tokens":10,"completion_tokens":5,"prompt_tokens_details":null}}"#;
        assert_eq!(usage(nulls), Some(TokenUsage { cached_prompt: 0, reasoning: 0, ..expected }));
        let deepseek = r#"{"usage":{"prompt_tokens":10,"completion_tokens":5,"prompt_cache_hit_tokens":4}}"#;
        assert_eq!(usage(deepseek), Some(TokenUsage { reasoning: 0, ..expected }));
        let beside = r#"{"usage":{"prompt_tokens":21,"completion_tokens":0,"total_tokens":81,
            "completion_tokens_details":{"reasoning_tokens":60}}}"#;
        let thoughts =
            TokenUsage { prompt: 21, completion: 60, reasoning: 60, measured: true, ..TokenUsage::default() };
        assert_eq!(usage(beside), Some(thoughts), "thoughts are paid for");
        let contradiction = r#"{"usage":{"prompt_tokens":21,"completion_tokens":5,"total_tokens":26,
            "completion_tokens_details":{"reasoning_tokens":60}}}"#;
        assert_eq!(usage(contradiction), Some(TokenUsage { completion: 65, ..thoughts }));
        let cached_beside = r#"{"usage":{"prompt_tokens":6,"completion_tokens":5,"total_tokens":25,
            "prompt_tokens_details":{"cached_tokens":14}}}"#;
        assert_eq!(usage(cached_beside).map(|usage| usage.completion), Some(5));
        let without_total = r#"{"usage":{"prompt_tokens":21,"completion_tokens":5,
            "completion_tokens_details":{"reasoning_tokens":60}}}"#;
        assert_eq!(usage(without_total), Some(TokenUsage { completion: 65, ..thoughts }));
        let rerank = r#"{"usage":{"total_tokens":10}}"#;
        let read_alone = TokenUsage { prompt: 10, measured: true, ..TokenUsage::default() };
        assert_eq!(usage(rerank), Some(read_alone));
        for absent in [r#"{}"#, r#"{"usage":null}"#, r#"{"usage":{"prompt_tokens":0,"completion_tokens":0}}"#] {
            assert_eq!(usage(absent), None);
        }
    }

    #[test]
    fn bytes_that_are_no_answer() {
        for (body, cause) in [
            ("<html>", AttemptCause::NotJson),
            ("", AttemptCause::NotJson),
            ("{\"usage\":", AttemptCause::NotJson),
            ("{\"model\":[]}", AttemptCause::WrongShape),
            ("[1]", AttemptCause::WrongShape),
        ] {
            let Err(found) = read_json::<EnvelopeFields>(body.as_bytes()) else { panic!("{body}") };
            assert_eq!(found.cause, cause, "{body}");
        }
    }
}
