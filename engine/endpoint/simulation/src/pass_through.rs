//! Hands a call on to another server, whose model answers in place of the rules.

use std::sync::{Once, OnceLock};

use reqwest::{Client, redirect, retry};
use serde_json::{Map, Value};

use crate::ledger::CallTokens;
use crate::model::{parse_body, served_model};
use crate::refusal::{CallRefusal, RefusalBody};
use crate::reply::{ReplyChoice, ReplyKind, SimulatedReply, StreamUsage};
use crate::settings::SimulationSettings;

/// The client of the server behind this one. It is made for the first call that is handed on.
#[derive(Default)]
pub(crate) struct PassThrough {
    client: OnceLock<Client>,
}

impl PassThrough {
    /// The other server's answer to `body`, asked for as one document, whatever the caller wants of a stream.
    ///
    /// # Errors
    /// The other server's refusal as it came; 502 if it cannot be reached or its answer cannot be read.
    pub(crate) async fn answer(
        &self,
        settings: &SimulationSettings,
        base: &str,
        kind: ReplyKind,
        body: &[u8],
    ) -> Result<SimulatedReply, CallRefusal> {
        let mut fields: Map<String, Value> = parse_body(body)?;
        let model = served_model(settings, fields.get("model").and_then(Value::as_str).map(str::to_owned))?;
        let stream = fields.remove("stream").is_some_and(|stream| stream == true);
        let options = fields.remove("stream_options").unwrap_or_default();
        let usage = if options["include_usage"] == true { StreamUsage::Included } else { StreamUsage::Omitted };
        let path = match kind {
            ReplyKind::Chat => "chat/completions",
            ReplyKind::Completion => "completions",
            ReplyKind::Embeddings => "embeddings",
            ReplyKind::Rerank => "rerank",
        };
        let url = format!("{}/{path}", base.trim_end_matches('/'));
        let document = self.ask(&url, &Value::Object(fields)).await?;
        let mut reply = read_reply(kind, document, model);
        reply.stream = stream.then_some(usage);
        Ok(reply)
    }

    async fn ask(&self, url: &str, body: &Value) -> Result<Value, CallRefusal> {
        let unreached = |error: &dyn std::error::Error| {
            let mut message = format!("{url}: {error}");
            let mut cause = error.source();
            while let Some(error) = cause {
                message.push_str(&format!(": {error}"));
                cause = error.source();
            }
            CallRefusal::new(502, "server_error", None, message)
        };
        let client = match self.client.get() {
            Some(client) => client,
            None => {
                let made = build_client().map_err(|error| unreached(&error))?;
                self.client.get_or_init(|| made)
            }
        };
        let request = client.post(url).header("content-type", "application/json").body(body.to_string());
        let response = request.send().await.map_err(|error| unreached(&error))?;
        let status = response.status();
        let bytes = response.bytes().await.map_err(|error| unreached(&error))?;
        let document: Result<Value, _> = serde_json::from_slice(&bytes);
        match document {
            Ok(document) if status.is_success() => Ok(document),
            Ok(document) => {
                Err(CallRefusal { status: status.as_u16(), body: RefusalBody::Json(document), headers: vec![] })
            }
            Err(error) => Err(unreached(&error)),
        }
    }
}

/// A client needs a provider of cryptography, one for the process, even where no TLS is spoken. The first one installed
/// stays.
fn build_client() -> reqwest::Result<Client> {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
    Client::builder()
        .http1_only()
        .redirect(redirect::Policy::none())
        .retry(retry::never())
        .no_proxy()
        .tls_certs_only([])
        .build()
}

/// An answer of the other server in our terms, so that faults can spoil it and streams can carry it.
fn read_reply(kind: ReplyKind, mut document: Value, model: String) -> SimulatedReply {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let usage = document["usage"].take();
    let count = |value: &Value| value.as_u64().unwrap_or(0);
    let cached = &usage["prompt_tokens_details"]["cached_tokens"];
    let tokens = CallTokens {
        prompt: count(&usage["prompt_tokens"]),
        cached: count(cached),
        completion: count(&usage["completion_tokens"]),
        reasoning: count(&usage["completion_tokens_details"]["reasoning_tokens"]),
    };
    let list = |value: &mut Value| match value.take() {
        Value::Array(entries) => entries,
        _ => vec![],
    };
    let choices: Vec<Value> = list(&mut document["choices"]);
    let share = if choices.is_empty() { 0 } else { tokens.completion / choices.len() as u64 };
    let read_choice = |mut choice: Value| ReplyChoice {
        text: text(if kind == ReplyKind::Chat { &choice["message"]["content"] } else { &choice["text"] }),
        reasoning: text(&choice["message"]["reasoning_content"]).or_else(|| text(&choice["message"]["reasoning"])),
        finish: match choice["finish_reason"].as_str() {
            Some("length") => "length",
            Some("content_filter") => "content_filter",
            _ => "stop",
        },
        stop_reason: text(&choice["stop_reason"]),
        logprobs: choice["logprobs"].take(),
        prompt_logprobs: Some(choice["prompt_logprobs"].take()).filter(|scores| !scores.is_null()),
        tokens: share,
    };
    let items = match kind {
        ReplyKind::Embeddings => list(&mut document["data"]),
        ReplyKind::Rerank => list(&mut document["results"]),
        ReplyKind::Chat | ReplyKind::Completion => vec![],
    };
    SimulatedReply {
        kind,
        id: text(&document["id"]).unwrap_or_else(|| "passed-through".to_owned()),
        model: text(&document["model"]).unwrap_or(model),
        fingerprint: text(&document["system_fingerprint"]).unwrap_or_default(),
        choices: choices.into_iter().map(read_choice).collect(),
        items,
        shows_cached: !cached.is_null(),
        tokens,
        prompt_logprobs: Some(document["prompt_logprobs"].take()).filter(|scores| !scores.is_null()),
        stream: None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn answers_are_read_whole() {
        let document = json!({
            "id": "a", "model": "m", "system_fingerprint": "f", "prompt_logprobs": [null],
            "choices": [{"message": {"content": "Rome", "reasoning_content": "hm"}, "finish_reason": "length",
                         "logprobs": {"content": []}}],
            "usage": {"prompt_tokens": 7, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}}
        });
        let mut reply = read_reply(ReplyKind::Chat, document, String::new());
        assert_eq!((reply.tokens.prompt, reply.tokens.cached, reply.tokens.completion), (7, 4, 2));
        let again = reply.document();
        assert_eq!(again["choices"][0]["message"]["content"], "Rome");
        assert_eq!(again["choices"][0]["finish_reason"], "length");
        assert_eq!((&again["model"], &again["system_fingerprint"]), (&json!("m"), &json!("f")));
        assert_eq!(again["prompt_logprobs"], json!([null]));
        assert_eq!(again["usage"]["prompt_tokens_details"]["cached_tokens"], 4);
        reply.kind = ReplyKind::Completion;
        assert_eq!(reply.document()["choices"][0]["text"], "Rome");
    }
}
