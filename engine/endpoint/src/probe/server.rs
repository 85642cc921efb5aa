//! The server under a probe: requests, and the usage of all of them.

use super::report::{ProbeCheck, ProbeFinding, ProbeReport};
use crate::classify::shorten_text;
use crate::error::EndpointError;
use crate::exchange::{ExchangeBounds, exchange_once};
use crate::key::ApiKey;
use crate::settings::{ApiStyle, EndpointSettings};
use crate::transport::{ApiRoute, build_client, build_headers, extend_path, root_address, route_address};
use reqwest::header::HeaderMap;
use reqwest::{Body, Client, Method, Request, Url};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

/// The longest body of a probe's reply.
const MOST_BYTES: usize = 16 << 20;

/// A server and what a probe has learnt of it.
pub(super) struct ProbedServer {
    pub(super) settings: EndpointSettings,
    pub(super) context_tokens: Option<u64>,
    pub(super) models: Vec<String>,
    address: Url,
    client: Client,
    headers: HeaderMap,
    key: Option<ApiKey>,
    answered_model: Option<String>,
    system_fingerprint: Option<String>,
    /// Whether it has answered a call with choices: the model generates.
    generates: bool,
    requests: u32,
    tokens: (u64, u64),
}

/// A reply: its status (0 without one), its JSON (null without any) and its text.
pub(super) struct ProbeReply {
    pub(super) status: u16,
    pub(super) json: Value,
    pub(super) text: String,
}

impl ProbedServer {
    pub(super) fn connect(settings: &EndpointSettings, key: Option<&ApiKey>) -> Result<Self, EndpointError> {
        // The addresses were checked, and are never empty.
        let address = settings.addresses()?.swap_remove(0);
        crate::transport::install_crypto();
        Ok(Self {
            client: build_client(settings, &address)?,
            headers: build_headers(settings, key),
            settings: settings.clone(),
            key: key.cloned(),
            address,
            context_tokens: None,
            models: Vec::new(),
            answered_model: None,
            system_fingerprint: None,
            generates: false,
            requests: 0,
            tokens: (0, 0),
        })
    }

    /// Reads a path below the address.
    pub(super) async fn get_below(&mut self, path: &str) -> ProbeReply {
        let url = extend_path(&self.address, &[path]);
        self.exchange(Method::GET, url, None).await
    }

    /// Posts to a path at the server's root.
    pub(super) async fn post_root(&mut self, path: &str, body: Value) -> ProbeReply {
        let url = root_address(&self.address, path);
        self.exchange(Method::POST, url, Some(body)).await
    }

    /// Posts to a route of the API, with the model and the settings' fields.
    pub(super) async fn post_route(&mut self, route: ApiRoute, body: Value) -> ProbeReply {
        let url = route_address(&self.settings, &self.address, route);
        let mut whole = Map::new();
        whole.insert("model".to_owned(), Value::from(self.settings.model.as_str()));
        whole.extend(self.settings.body.clone());
        if let Value::Object(fields) = body {
            whole.extend(fields);
        }
        self.exchange(Method::POST, url, Some(Value::Object(whole))).await
    }

    /// Generates a few greedy tokens after a prompt, with further fields.
    pub(super) async fn generate(&mut self, prompt: &str, max_tokens: u32, fields: Value) -> ProbeReply {
        let mut body = match self.settings.api {
            ApiStyle::Chat => json!({"messages": [{"role": "user", "content": prompt}]}),
            ApiStyle::Completions => json!({"prompt": prompt}),
        };
        let name = match self.settings.api {
            ApiStyle::Chat => self.settings.facts().chat_max_tokens,
            ApiStyle::Completions => "max_tokens",
        };
        body[name] = max_tokens.into();
        if let (Value::Object(body), Value::Object(fields)) = (&mut body, fields) {
            body.extend(fields);
        }
        self.post_route(self.route(), body).await
    }

    /// What the dialect promises of a model that does not generate. A server of the dialect need not do it with a model
    /// that does: nothing is promised then.
    pub(super) fn promise_beside_generation(&self, promised: bool) -> Option<bool> {
        if promised && self.generates { None } else { Some(promised) }
    }

    /// The route of generation.
    pub(super) fn route(&self) -> ApiRoute {
        match self.settings.api {
            ApiStyle::Chat => ApiRoute::Chat,
            ApiStyle::Completions => ApiRoute::Completions,
        }
    }

    async fn exchange(&mut self, method: Method, url: Url, body: Option<Value>) -> ProbeReply {
        self.requests += 1;
        let mut request = Request::new(method, url);
        *request.headers_mut() = self.headers.clone();
        *request.body_mut() = body.map(|body| Body::from(body.to_string()));
        let bounds = ExchangeBounds {
            stall: self.settings.stall_timeout(),
            deadline: Instant::now() + self.settings.call_timeout(),
            most_bytes: MOST_BYTES,
        };
        match exchange_once(&self.client, false, request, bounds).await {
            Ok(reply) => {
                let text = String::from_utf8_lossy(&reply.body).into_owned();
                let json: Value = serde_json::from_str(&text).unwrap_or_default();
                self.learn_from(&json);
                ProbeReply { status: reply.status, json, text: self.redact(&text) }
            }
            Err(broken) => ProbeReply { status: 0, json: Value::Null, text: self.redact(&broken.message) },
        }
    }

    fn learn_from(&mut self, json: &Value) {
        let count = |name: &str| json["usage"][name].as_u64().unwrap_or(0);
        self.tokens.0 += count("prompt_tokens");
        self.tokens.1 += count("completion_tokens");
        if json["choices"].is_array() {
            self.generates = true;
            let text = |name: &str| json[name].as_str().map(str::to_owned);
            self.answered_model = text("model").or(self.answered_model.take());
            self.system_fingerprint = text("system_fingerprint").or(self.system_fingerprint.take());
        }
    }

    fn redact(&self, text: &str) -> String {
        self.key.as_ref().map_or_else(|| text.to_owned(), |key| key.redact_text(text))
    }

    /// The report, with the checks.
    pub(super) fn into_report(self, checks: Vec<ProbeCheck>) -> ProbeReport {
        ProbeReport {
            address: self.address.to_string(),
            model: self.settings.model.clone(),
            dialect: self.settings.facts().name,
            answered_model: self.answered_model,
            system_fingerprint: self.system_fingerprint,
            models: self.models,
            context_tokens: self.context_tokens,
            requests: self.requests,
            tokens: self.tokens,
            checks,
        }
    }
}

impl ProbeReply {
    /// The text of a choice.
    pub(super) fn choice_text(&self, choice: usize) -> Option<&str> {
        let choice = &self.json["choices"][choice];
        choice["message"]["content"].as_str().or_else(|| choice["text"].as_str())
    }

    /// Whether it is an answer with a choice.
    pub(super) fn is_answer(&self) -> bool {
        self.status == 200 && self.json["choices"].as_array().is_some_and(|choices| !choices.is_empty())
    }

    /// A check by this reply: with a 200 as `judge` finds, else by its status.
    pub(super) fn check(
        &self,
        name: &'static str,
        promised: Option<bool>,
        judge: impl FnOnce(&Self) -> (ProbeFinding, String),
    ) -> ProbeCheck {
        let words = || format!("HTTP {}: {}", self.status, shorten_text(&self.text));
        let (finding, detail) = match self.status {
            200 => judge(self),
            404 | 405 => (ProbeFinding::Absent, words()),
            400..=499 if self.status != 429 => (ProbeFinding::Refused, words()),
            0 => (ProbeFinding::Failed, shorten_text(&self.text)),
            _ => (ProbeFinding::Failed, words()),
        };
        ProbeCheck { name, finding, promised, detail }
    }
}

/// A finding with its reason.
pub(super) fn found(yes: bool, supported: &str, ignored: &str) -> (ProbeFinding, String) {
    if yes { (ProbeFinding::Supported, supported.to_owned()) } else { (ProbeFinding::Ignored, ignored.to_owned()) }
}
