//! An answer and its form on the wire: one document, or the events of a stream.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::ledger::CallTokens;
use crate::tokens::split_tokens;

/// The interface that an answer belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReplyKind {
    Chat,
    Completion,
    Embeddings,
    Rerank,
}

/// An answer.
#[derive(Debug, Clone)]
pub(crate) struct SimulatedReply {
    pub(crate) kind: ReplyKind,
    pub(crate) id: String,
    pub(crate) model: String,
    pub(crate) fingerprint: String,
    pub(crate) choices: Vec<ReplyChoice>,
    /// The entries of `data` or `results`.
    pub(crate) items: Vec<Value>,
    pub(crate) tokens: CallTokens,
    /// `prompt_tokens_details` has the cached tokens.
    pub(crate) shows_cached: bool,
    /// The log-probabilities of a chat's prompt, as vLLM has them.
    pub(crate) prompt_logprobs: Option<Value>,
    /// `None` for one document, else whether the stream ends with the usage.
    pub(crate) stream: Option<StreamUsage>,
}

/// Whether a stream ends with the usage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamUsage {
    Included,
    Omitted,
}

/// A choice of an answer.
#[derive(Debug, Clone)]
pub(crate) struct ReplyChoice {
    pub(crate) text: Option<String>,
    pub(crate) reasoning: Option<String>,
    pub(crate) finish: &'static str,
    pub(crate) stop_reason: Option<String>,
    pub(crate) logprobs: Value,
    pub(crate) prompt_logprobs: Option<Value>,
    /// Tokens of text and reasoning.
    pub(crate) tokens: u64,
}

/// A piece of a stream and the tokens that it stands for.
pub(crate) struct StreamPiece {
    pub(crate) bytes: Bytes,
    pub(crate) tokens: u64,
}

impl SimulatedReply {
    /// The document.
    pub(crate) fn document(&self) -> Value {
        match self.kind {
            ReplyKind::Chat => {
                let choices: Vec<Value> = self.choices.iter().enumerate().map(chat_choice).collect();
                let mut document = self.envelope("chat.completion", &choices);
                if let Some(scores) = &self.prompt_logprobs {
                    document["prompt_logprobs"] = scores.clone();
                }
                document["usage"] = self.usage();
                document
            }
            ReplyKind::Completion => {
                let choices: Vec<Value> = self.choices.iter().enumerate().map(completion_choice).collect();
                let mut document = self.envelope("text_completion", &choices);
                document["usage"] = self.usage();
                document
            }
            ReplyKind::Embeddings => json!({
                "object": "list", "model": self.model, "data": self.items,
                "usage": {"prompt_tokens": self.tokens.prompt, "total_tokens": self.tokens.prompt}
            }),
            ReplyKind::Rerank => json!({
                "id": self.id, "model": self.model, "results": self.items,
                "usage": {"prompt_tokens": self.tokens.prompt, "total_tokens": self.tokens.prompt}
            }),
        }
    }

    fn envelope(&self, object: &str, choices: &[Value]) -> Value {
        json!({
            "id": self.id, "object": object, "created": 0, "model": self.model,
            "system_fingerprint": self.fingerprint, "choices": choices
        })
    }

    fn usage(&self) -> Value {
        let tokens = &self.tokens;
        let mut usage = json!({
            "prompt_tokens": tokens.prompt,
            "completion_tokens": tokens.completion,
            "total_tokens": tokens.prompt + tokens.completion
        });
        if self.shows_cached {
            usage["prompt_tokens_details"] = json!({"cached_tokens": tokens.cached});
        }
        if tokens.reasoning > 0 {
            usage["completion_tokens_details"] = json!({"reasoning_tokens": tokens.reasoning});
        }
        usage
    }

    /// The events of a stream; `group` tokens of text share one.
    pub(crate) fn stream_pieces(&self, usage: StreamUsage, group: usize) -> Vec<StreamPiece> {
        let mut pieces = vec![];
        let object = if self.kind == ReplyKind::Chat { "chat.completion.chunk" } else { "text_completion" };
        let event = |choice: Value, tokens: u64| {
            let data = self.envelope(object, &[choice]);
            StreamPiece { bytes: Bytes::from(format!("data: {data}\n\n")), tokens }
        };
        for (index, choice) in self.choices.iter().enumerate() {
            let is_chat = self.kind == ReplyKind::Chat;
            if is_chat {
                pieces.push(event(json!({"index": index, "delta": {"role": "assistant"}, "finish_reason": null}), 0));
            }
            for (field, text) in [("reasoning_content", &choice.reasoning), ("content", &choice.text)] {
                for (words, tokens) in token_groups(text.as_deref().unwrap_or_default(), group) {
                    let choice = match is_chat {
                        true => json!({"index": index, "delta": {field: words}, "finish_reason": null}),
                        false => json!({"index": index, "text": words, "finish_reason": null}),
                    };
                    pieces.push(event(choice, tokens));
                }
            }
            let (finish, stop) = (choice.finish, &choice.stop_reason);
            let mut last = match is_chat {
                true => json!({"index": index, "delta": {}, "finish_reason": finish, "stop_reason": stop}),
                false => json!({"index": index, "text": "", "finish_reason": finish, "stop_reason": stop}),
            };
            if !choice.logprobs.is_null() {
                last["logprobs"] = choice.logprobs.clone();
            }
            pieces.push(event(last, 0));
        }
        if usage == StreamUsage::Included {
            let mut data = self.envelope(object, &[]);
            data["usage"] = self.usage();
            pieces.push(StreamPiece { bytes: Bytes::from(format!("data: {data}\n\n")), tokens: 0 });
        }
        pieces.push(StreamPiece { bytes: Bytes::from_static(b"data: [DONE]\n\n"), tokens: 0 });
        pieces
    }
}

fn chat_choice((index, choice): (usize, &ReplyChoice)) -> Value {
    let mut message = json!({"role": "assistant", "content": choice.text});
    if let Some(reasoning) = &choice.reasoning {
        message["reasoning_content"] = json!(reasoning);
    }
    json!({
        "index": index, "message": message, "logprobs": choice.logprobs, "finish_reason": choice.finish,
        "stop_reason": choice.stop_reason
    })
}

fn completion_choice((index, choice): (usize, &ReplyChoice)) -> Value {
    let mut document = json!({
        "index": index, "text": choice.text, "logprobs": choice.logprobs, "finish_reason": choice.finish,
        "stop_reason": choice.stop_reason
    });
    if let Some(scores) = &choice.prompt_logprobs {
        document["prompt_logprobs"] = scores.clone();
    }
    document
}

/// A text in pieces of about `group` tokens, cut between characters.
fn token_groups(text: &str, group: usize) -> Vec<(&str, u64)> {
    let mut groups = vec![];
    let (mut start, mut end, mut count) = (0, 0, 0);
    for token in split_tokens(text) {
        end += token.len();
        count += 1;
        if count >= group as u64 && text.is_char_boundary(end) {
            groups.push((&text[start..end], count));
            (start, count) = (end, 0);
        }
    }
    if start < text.len() {
        groups.push((&text[start..], count));
    }
    groups
}
