//! The keys of an endpoint's table: their defaults, their checks, and the ones that can change an answer.
//!
//! [`EndpointSettings::identity`] lists everything that can change an answer. Keys, limits, timeouts and prices are
//! not among it: they may change from run to run without another answer.

mod addresses;
mod prices;

pub use addresses::URL_VARIABLE;
pub use prices::PriceSettings;

use crate::EndpointError;
use crate::dialect::{DialectFacts, EndpointDialect, RerankForm, ScoreForm};
use crate::key::ApiKey;
use reqwest::Url;
use reqwest::header::{HeaderName, HeaderValue};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// The variable with the key, unless the settings name another.
pub const KEY_VARIABLE: &str = "OPENAI_API_KEY";

/// The most calls in flight at one endpoint: more than one process's sockets.
const MOST_CONCURRENCY: usize = 20_000;

/// The most calls that share a connection. Servers allow 100 to 256 streams as a rule.
const MOST_STREAMS: usize = 1_000;

/// The longest time that a setting may name, in seconds: a week.
const LONGEST_TIME: f64 = 604_800.0;

/// Fields of bodies that belong to the calls: `body` must not set them.
const OWN_FIELDS: [&str; 16] = [
    "model",
    "messages",
    "prompt",
    "input",
    "query",
    "documents",
    "texts",
    "n",
    "stop",
    "stream",
    "stream_options",
    "echo",
    "logprobs",
    "top_logprobs",
    "prompt_logprobs",
    "response_format",
];

/// Headers with secrets, or that belong to the client.
const FORBIDDEN_HEADERS: [&str; 12] = [
    "authorization",
    "api-key",
    "x-api-key",
    "x-goog-api-key",
    "proxy-authorization",
    "cookie",
    "content-type",
    "content-length",
    "content-encoding",
    "transfer-encoding",
    "connection",
    "host",
];

/// Words before `token` that name a piece of text.
const TOKENS_OF_TEXT: [&str; 5] = ["bos", "eos", "pad", "stop", "unk"];

/// Whether a header or a field sounds like a secret, which would then stand in the record of a run.
fn names_secret(name: &str) -> bool {
    // The words of `api_key`, `api-key` and `apiKey`; `API_KEY` has no word of one letter.
    let mut spaced = String::with_capacity(name.len() + 4);
    let mut before_is_small = false;
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && before_is_small {
            spaced.push('_');
        }
        before_is_small = letter.is_ascii_lowercase() || letter.is_ascii_digit();
        spaced.push(if letter == '-' { '_' } else { letter.to_ascii_lowercase() });
    }
    let words: Vec<&str> = spaced.split('_').collect();
    let secret =
        |word: &&str| ["key", "apikey", "secret", "auth", "authorization", "password", "cookie"].contains(word);
    // `max_tokens` and `tokens` count, `eos_token` is a text; `token` alone opens doors.
    let of_text = matches!(words[..], [.., before, "token"] if TOKENS_OF_TEXT.contains(&before));
    words.iter().any(secret) || words.last() == Some(&"token") && !of_text
}

/// The path of a text within a value that sounds like a secret by its name. A name alone does not: a JSON schema may
/// have a property `key`.
fn secret_within(name: &str, value: &Value) -> Option<String> {
    let is_secret = names_secret(name);
    let path = |part: String| format!("{name}.{part}");
    match value {
        Value::String(_) => is_secret.then(|| name.to_owned()),
        Value::Object(fields) => fields.iter().find_map(|(part, value)| secret_within(part, value)).map(path),
        // The elements have their list's name.
        Value::Array(values) => values.iter().enumerate().find_map(|(place, value)| match value {
            Value::String(_) => is_secret.then(|| path(place.to_string())),
            value => secret_within(&place.to_string(), value).map(path),
        }),
        _ => None,
    }
}

/// A kind of answer that an endpoint gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerKind {
    /// Texts.
    Generate,
    /// Log-probabilities of given texts.
    Score,
    /// Vectors.
    Embed,
    /// Relevance of texts to a query.
    Rerank,
    /// Entailment: by the score of a word, or by whether it is written.
    Entail,
    /// Rankings of a retriever's passages. No table of an endpoint may list it: [`EndpointSettings::for_retriever`].
    #[serde(skip)]
    Retrieve,
}

/// The source of an entailment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntailForm {
    /// The log-probability of a given word.
    #[default]
    Score,
    /// The text that the model writes.
    Generate,
}

impl EntailForm {
    /// Whether it needs scores.
    pub fn scores(&self) -> bool {
        *self == Self::Score
    }
}

/// The API for generation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApiStyle {
    /// `/chat/completions`: messages with roles.
    #[default]
    Chat,
    /// `/completions`: one text, or token ids.
    Completions,
}

/// The treatment of a reasoning model's thoughts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasoningText {
    /// A leading `<think>…</think>` is taken out of the text, into the choice's `reasoning`.
    #[default]
    Split,
    /// The text stays as the server wrote it.
    Keep,
}

/// The settings of one endpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndpointSettings {
    /// The model's name at the server.
    pub model: String,
    /// The server's address with its `/v1`, or those of several replicas. Default: `OPENAI_BASE_URL`, then OpenAI's.
    #[serde(default, deserialize_with = "one_or_many")]
    pub base_url: Vec<String>,
    /// The API for generation.
    #[serde(default)]
    pub api: ApiStyle,
    /// The server's dialect.
    #[serde(default)]
    pub dialect: EndpointDialect,
    /// The kinds of answers that the model gives.
    #[serde(default = "generate_alone")]
    pub answers: Vec<AnswerKind>,
    /// Replaces the addresses in the fingerprint: the same model elsewhere has the same answers. Required with several
    /// replicas.
    #[serde(default)]
    pub identity: Option<String>,
    /// The model's revision, where its name does not say it. Part of the fingerprint, never sent.
    #[serde(default)]
    pub revision: Option<String>,
    /// Azure: `api-version` of the paths by deployment. Without it the paths are those of the `/openai/v1` API.
    #[serde(default)]
    pub api_version: Option<String>,
    /// The source of scores, where it is another than the dialect's.
    #[serde(default)]
    pub score_by: Option<ScoreForm>,
    /// The source of entailments.
    #[serde(default, skip_serializing_if = "EntailForm::scores")]
    pub entail_by: EntailForm,
    /// The treatment of thoughts in the text.
    #[serde(default)]
    pub reasoning: ReasoningText,
    /// The variable with the key. Default: [`KEY_VARIABLE`], and only for OpenAI's and Azure's hosts and the address
    /// of [`URL_VARIABLE`].
    #[serde(default)]
    pub key_env: Option<String>,
    /// A file with the key.
    #[serde(default)]
    pub key_file: Option<PathBuf>,
    /// The folder of the model's tokenizer (`tokenizer.json`): counts prompts exactly, and makes the ids of scores.
    /// Whoever opens it adds its digest to the fingerprint.
    #[serde(default)]
    pub tokenizer: Option<PathBuf>,
    /// The model's context, in tokens: prompts are put together within it. Default: no bound; the server refuses.
    #[serde(default)]
    pub context_tokens: Option<u32>,
    /// The seed of samples; each draw has the next one. Default: none is sent.
    #[serde(default)]
    pub seed: Option<u64>,
    /// Further fields of every body, as JSON. A call's own field wins.
    #[serde(default)]
    pub body: Map<String, Value>,
    /// Further headers, none of them secret.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Whether answers are streamed: then stalls show within seconds.
    #[serde(default)]
    pub stream: bool,
    /// The most calls in flight, over all replicas.
    #[serde(default = "default_concurrency")]
    pub concurrency: usize,
    /// Calls in flight share connections by HTTP/2, at most so many each. Default: HTTP/1.1, one call a connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streams_per_connection: Option<usize>,
    /// The server's limit of requests a minute.
    #[serde(default)]
    pub requests_per_minute: Option<f64>,
    /// The server's limit of tokens a minute, read and written.
    #[serde(default)]
    pub tokens_per_minute: Option<f64>,
    /// The longest time of a call at the server over all its attempts, in seconds; waiting for limits and outages
    /// does not count.
    #[serde(default = "default_call_timeout")]
    pub call_timeout_s: f64,
    /// The longest time without a byte, in seconds. Default: 300, and 60 if answers are streamed.
    #[serde(default)]
    pub stall_s: Option<f64>,
    /// The longest time to connect, in seconds.
    #[serde(default = "default_connect_timeout")]
    pub connect_timeout_s: f64,
    /// The longest outage that is waited out, in seconds.
    #[serde(default = "default_patience")]
    pub patience_s: f64,
    /// The most attempts of a call that fail while the server answers others. Limits and outages do not count.
    #[serde(default = "default_attempts")]
    pub attempts: u32,
    /// The first pause before another attempt, in seconds; it doubles each time.
    #[serde(default = "default_first_pause")]
    pub first_pause_s: f64,
    /// The longest pause, in seconds, unless the server names a longer one.
    #[serde(default = "default_longest_pause")]
    pub longest_pause_s: f64,
    /// Prices.
    #[serde(default)]
    pub price: Option<PriceSettings>,
    /// The folder of batch files: calls are written there instead of sent, and answered by files of results
    /// ([`crate::offline`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<PathBuf>,
}

fn generate_alone() -> Vec<AnswerKind> {
    vec![AnswerKind::Generate]
}

fn default_concurrency() -> usize {
    64
}

fn default_call_timeout() -> f64 {
    600.0
}

/// The longest time to connect, in seconds.
pub fn default_connect_timeout() -> f64 {
    10.0
}

/// The longest outage that is waited out, in seconds.
pub fn default_patience() -> f64 {
    600.0
}

fn default_attempts() -> u32 {
    10
}

/// The first pause before another attempt, in seconds.
pub fn default_first_pause() -> f64 {
    0.5
}

/// The longest pause before another attempt, in seconds.
pub fn default_longest_pause() -> f64 {
    30.0
}

/// Reads one text or a list of them.
///
/// # Errors
/// The deserializer's, for any other value.
pub fn one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum TextOrList {
        One(String),
        Many(Vec<String>),
    }
    Ok(match TextOrList::deserialize(deserializer)? {
        TextOrList::One(text) => vec![text],
        TextOrList::Many(texts) => texts,
    })
}

impl EndpointSettings {
    /// Settings of a model at one server, otherwise the defaults.
    pub fn new(model: impl Into<String>, base_url: impl Into<String>) -> Self {
        Self {
            model: model.into(),
            base_url: vec![base_url.into()],
            api: ApiStyle::default(),
            dialect: EndpointDialect::default(),
            answers: generate_alone(),
            identity: None,
            revision: None,
            api_version: None,
            score_by: None,
            entail_by: EntailForm::default(),
            reasoning: ReasoningText::default(),
            key_env: None,
            key_file: None,
            tokenizer: None,
            context_tokens: None,
            seed: None,
            body: Map::new(),
            headers: BTreeMap::new(),
            stream: false,
            concurrency: default_concurrency(),
            streams_per_connection: None,
            requests_per_minute: None,
            tokens_per_minute: None,
            call_timeout_s: default_call_timeout(),
            stall_s: None,
            connect_timeout_s: default_connect_timeout(),
            patience_s: default_patience(),
            attempts: default_attempts(),
            first_pause_s: default_first_pause(),
            longest_pause_s: default_longest_pause(),
            price: None,
            batch: None,
        }
    }

    /// Settings of a retriever that speaks hopeval's own contract ([`crate::RetrieveCall`]) at one address or several.
    /// `index` names its index and version, whatever its address. Everything else has the defaults.
    pub fn for_retriever(index: impl Into<String>, addresses: Vec<String>) -> Self {
        let index = index.into();
        let (base_url, answers, identity) = (addresses, vec![AnswerKind::Retrieve], Some(index.clone()));
        Self { base_url, answers, identity, ..Self::new(index, "") }
    }

    /// Whether the server is a retriever, which answers nothing else.
    pub fn is_retriever(&self) -> bool {
        self.answers == [AnswerKind::Retrieve]
    }

    /// Checks every value, and that the dialect can do what `answers` lists.
    ///
    /// # Errors
    /// [`EndpointError::Setting`], with the key and the allowed values.
    pub fn check(&self) -> Result<(), EndpointError> {
        self.check_names()?;
        self.check_answers()?;
        self.check_limits()?;
        self.check_extras()?;
        self.addresses().map(drop)
    }

    fn check_names(&self) -> Result<(), EndpointError> {
        for (key, text) in [
            ("model", Some(&self.model)),
            ("identity", self.identity.as_ref()),
            ("revision", self.revision.as_ref()),
            ("api_version", self.api_version.as_ref()),
            ("key_env", self.key_env.as_ref()),
        ] {
            if text.is_some_and(|text| text.trim().is_empty()) {
                return Err(EndpointError::setting(key, "empty", "a text"));
            }
        }
        if self.base_url.len() > 1 && self.identity.is_none() {
            let allowed = "a name of the model that all replicas serve: the same answers, whatever their addresses";
            return Err(EndpointError::setting("identity", "absent with several addresses", allowed));
        }
        if self.api_version.is_some() && self.dialect != EndpointDialect::Azure {
            let found = format!("set for the dialect {}", self.dialect);
            return Err(EndpointError::setting("api_version", found, "only with the dialect azure"));
        }
        if self.key_env.is_some() && self.key_file.is_some() {
            return Err(EndpointError::setting("key_file", "set beside key_env", "one of the two"));
        }
        Ok(())
    }

    fn check_answers(&self) -> Result<(), EndpointError> {
        if self.answers.is_empty() {
            return Err(EndpointError::setting("answers", "empty", "generate, score, embed, rerank, entail"));
        }
        for (place, kind) in self.answers.iter().enumerate() {
            let name = format!("{kind:?}").to_lowercase();
            if self.answers[..place].contains(kind) {
                return Err(EndpointError::setting("answers", format!("{name} twice"), "each once"));
            }
            if !self.can_answer(*kind) {
                let able: Vec<String> = [
                    AnswerKind::Generate,
                    AnswerKind::Score,
                    AnswerKind::Embed,
                    AnswerKind::Rerank,
                    AnswerKind::Entail,
                ]
                .into_iter()
                .filter(|kind| self.can_answer(*kind))
                .map(|kind| format!("{kind:?}").to_lowercase())
                .collect();
                let allowed = format!("{} (scores need `score_by` or a dialect with them)", able.join(", "));
                return Err(EndpointError::setting("answers", format!("{name} of {}", self.dialect), allowed));
            }
        }
        let needs_scores = |kind: &AnswerKind| match kind {
            AnswerKind::Score => true,
            AnswerKind::Entail => self.entail_by.scores(),
            AnswerKind::Generate | AnswerKind::Embed | AnswerKind::Rerank | AnswerKind::Retrieve => false,
        };
        let scores = self.answers.iter().any(needs_scores);
        if scores && self.tokenizer.is_none() {
            let allowed = "the folder of the model's tokenizer.json: scores and entailment are asked for by token ids";
            return Err(EndpointError::setting("tokenizer", "absent", allowed));
        }
        Ok(())
    }

    /// Whether the dialect has the routes for such answers.
    pub fn can_answer(&self, kind: AnswerKind) -> bool {
        let facts = self.facts();
        match kind {
            AnswerKind::Generate => facts.generates,
            AnswerKind::Score => self.score_form().is_some(),
            AnswerKind::Embed => facts.embeds,
            AnswerKind::Rerank => facts.reranks != RerankForm::Absent,
            AnswerKind::Entail if self.entail_by.scores() => self.score_form().is_some(),
            AnswerKind::Entail => facts.generates,
            AnswerKind::Retrieve => self.is_retriever(),
        }
    }

    fn check_limits(&self) -> Result<(), EndpointError> {
        if !(1..=MOST_CONCURRENCY).contains(&self.concurrency) {
            let allowed = format!("1 to {MOST_CONCURRENCY}");
            return Err(EndpointError::setting("concurrency", self.concurrency, allowed));
        }
        if let Some(streams) = self.streams_per_connection
            && !(1..=MOST_STREAMS).contains(&streams)
        {
            return Err(EndpointError::setting("streams_per_connection", streams, format!("1 to {MOST_STREAMS}")));
        }
        if !(1..=1_000).contains(&self.attempts) {
            return Err(EndpointError::setting("attempts", self.attempts, "1 to 1000"));
        }
        for (key, limit) in
            [("requests_per_minute", self.requests_per_minute), ("tokens_per_minute", self.tokens_per_minute)]
        {
            if let Some(limit) = limit
                && !(limit.is_finite() && limit >= 1.0)
            {
                return Err(EndpointError::setting(key, limit, "at least 1"));
            }
        }
        for (key, seconds, least) in [
            ("call_timeout_s", Some(self.call_timeout_s), f64::MIN_POSITIVE),
            ("stall_s", self.stall_s, f64::MIN_POSITIVE),
            ("connect_timeout_s", Some(self.connect_timeout_s), f64::MIN_POSITIVE),
            ("patience_s", Some(self.patience_s), 0.0),
            ("first_pause_s", Some(self.first_pause_s), f64::MIN_POSITIVE),
            ("longest_pause_s", Some(self.longest_pause_s), self.first_pause_s),
        ] {
            if let Some(seconds) = seconds
                && !(least..=LONGEST_TIME).contains(&seconds)
            {
                let more = if least == f64::MIN_POSITIVE { "more than 0".to_owned() } else { format!("{least}") };
                let allowed = format!("seconds, {more} to {LONGEST_TIME}");
                return Err(EndpointError::setting(key, seconds, allowed));
            }
        }
        self.price.as_ref().map_or(Ok(()), PriceSettings::check_values)
    }

    fn check_extras(&self) -> Result<(), EndpointError> {
        if let Some(field) = self.body.keys().find(|field| OWN_FIELDS.contains(&field.as_str())) {
            let allowed = "fields that the calls do not write themselves";
            return Err(EndpointError::setting(&format!("body.{field}"), "set", allowed));
        }
        let secret = |(name, value): (&String, &Value)| match names_secret(name) {
            true => Some(name.clone()),
            false => secret_within(name, value),
        };
        if let Some(field) = self.body.iter().find_map(secret) {
            let allowed = "fields without secrets: a run's record has them; a key belongs into `key_env` or `key_file`";
            return Err(EndpointError::setting(&format!("body.{field}"), "set", allowed));
        }
        for (name, value) in &self.headers {
            let key = format!("headers.{name}");
            if FORBIDDEN_HEADERS.contains(&name.to_ascii_lowercase().as_str()) || names_secret(name) {
                let allowed =
                    "headers that are neither secret nor the client's own; a key belongs into `key_env` or `key_file`";
                return Err(EndpointError::setting(&key, "set", allowed));
            }
            if HeaderName::from_bytes(name.as_bytes()).is_err() || HeaderValue::from_str(value).is_err() {
                return Err(EndpointError::setting(&key, "not a header", "a header's name and visible letters"));
            }
        }
        Ok(())
    }

    /// The replicas' addresses, without a slash at the end.
    ///
    /// # Errors
    /// [`EndpointError::Setting`] of `base_url` or its variable.
    pub fn addresses(&self) -> Result<Vec<Url>, EndpointError> {
        addresses::resolve_addresses(&self.base_url, set_variable(URL_VARIABLE))
    }

    /// The key by these settings; `None` for a server that wants none.
    ///
    /// Without `key_env` and `key_file` the variable [`KEY_VARIABLE`] counts, but only where the address is OpenAI's,
    /// Azure's or that of [`URL_VARIABLE`]: OpenAI's key is not sent to any other server by accident.
    ///
    /// # Errors
    /// [`EndpointError::NoKey`] for a named variable that is not set, and those of [`ApiKey`].
    pub fn read_key(&self) -> Result<Option<ApiKey>, EndpointError> {
        if let Some(path) = &self.key_file {
            return ApiKey::from_file(path).map(Some);
        }
        if let Some(variable) = &self.key_env {
            let key = ApiKey::from_variable(variable)?;
            return key.map(Some).ok_or_else(|| EndpointError::NoKey { variable: variable.clone() });
        }
        let usual = self.base_url.is_empty() || self.addresses()?.iter().all(addresses::takes_openai_keys);
        if usual { ApiKey::from_variable(KEY_VARIABLE) } else { Ok(None) }
    }

    /// Everything that can change an answer, as texts for a fingerprint; values that are the default are left out.
    ///
    /// # Errors
    /// [`EndpointError::Setting`] of the address.
    pub fn identity(&self) -> Result<Vec<String>, EndpointError> {
        let mut parts = vec![format!("model={}", self.model)];
        match &self.identity {
            Some(identity) => parts.push(format!("identity={identity}")),
            None => parts.extend(self.addresses()?.iter().map(|url| format!("url={url}"))),
        }
        let mut add = |name: &str, value: Option<String>| parts.extend(value.map(|value| format!("{name}={value}")));
        add("api", (self.api == ApiStyle::Completions).then(|| "completions".to_owned()));
        add("dialect", (self.dialect != EndpointDialect::OpenAi).then(|| self.dialect.to_string()));
        add("revision", self.revision.clone());
        add("api_version", self.api_version.clone());
        add("score_by", self.score_by.map(|form| format!("{form:?}")));
        add("entail_by", (!self.entail_by.scores()).then(|| "generate".to_owned()));
        add("reasoning", (self.reasoning == ReasoningText::Keep).then(|| "keep".to_owned()));
        add("context_tokens", self.context_tokens.map(|tokens| tokens.to_string()));
        let own_relevance = self.answers.contains(&AnswerKind::Rerank) && self.facts().own_relevance.is_some();
        add("relevance", own_relevance.then(|| "own".to_owned()));
        add("seed", self.seed.map(|seed| seed.to_string()));
        add("body", (!self.body.is_empty()).then(|| canonical_json(&Value::Object(self.body.clone()))));
        for (name, value) in &self.headers {
            parts.push(format!("header={}: {value}", name.to_ascii_lowercase()));
        }
        Ok(parts)
    }

    /// The dialect's facts.
    pub fn facts(&self) -> &'static DialectFacts {
        self.dialect.facts()
    }

    /// The source of scores, if there is one.
    pub fn score_form(&self) -> Option<ScoreForm> {
        self.score_by.or(self.facts().scores)
    }

    /// Whether a trailing assistant message is continued.
    pub fn continues(&self) -> bool {
        self.api == ApiStyle::Completions || self.facts().continues != crate::dialect::ContinueForm::Absent
    }

    /// The longest time of a call at the server.
    pub fn call_timeout(&self) -> Duration {
        Duration::from_secs_f64(self.call_timeout_s)
    }

    /// The longest time without a byte.
    pub fn stall_timeout(&self) -> Duration {
        let usual = if self.stream { 60.0 } else { 300.0 };
        Duration::from_secs_f64(self.stall_s.unwrap_or(usual))
    }

    /// The longest outage that is waited out.
    pub fn patience(&self) -> Duration {
        Duration::from_secs_f64(self.patience_s)
    }
}

/// A variable's value; an empty one counts as not set.
fn set_variable(variable: &str) -> Option<String> {
    std::env::var(variable).ok().filter(|value| !value.trim().is_empty())
}

/// JSON with sorted keys, whatever order a map keeps.
fn canonical_json(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let sorted: BTreeMap<&String, &Value> = map.iter().collect();
            let fields = sorted
                .into_iter()
                .map(|(key, value)| format!("{}:{}", Value::from(key.as_str()), canonical_json(value)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(canonical_json).collect::<Vec<_>>().join(",")),
        plain => plain.to_string(),
    }
}

#[cfg(test)]
mod tests;
