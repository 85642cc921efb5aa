//! The settings of the simulated server: defaults, checks, and how a file, `KEY=VALUE` and a posted change are read.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::fault::{FAULTS, FaultKind};

/// All settings. A key that is missing has its default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SimulationSettings {
    /// Changes every draw: mistakes, sampled wordings, latencies and faults.
    pub seed: u64,
    /// The names under which the model is listed and asked for. Other names get 404, unless the list is empty.
    pub models: Vec<String>,
    /// The `system_fingerprint` of answers. Changed while a run goes on, it is drift.
    pub fingerprint: String,
    /// If set, calls without `Authorization: Bearer KEY` (or `api-key: KEY`) get 401.
    pub api_key: Option<String>,
    /// The model's context in tokens: prompt and answer.
    pub context_tokens: u64,
    /// The words in which a prompt beyond it is refused.
    pub overflow: OverflowDialect,
    /// The most tokens of an answer whose request names no limit.
    pub answer_tokens: u64,
    /// Unknown fields of a request: ignored, or refused with 422.
    pub unknown_fields: FieldRule,
    /// A trailing assistant message is continued; otherwise it is answered.
    pub continues: bool,
    /// Share of answers that are wrong but plausible.
    pub mistake_rate: f64,
    /// Further share of wrong answers among sampled ones (temperature above 0).
    pub sampled_mistake_rate: f64,
    /// Share of answers that ignore the format asked for.
    pub format_error_rate: f64,
    /// Reasoning text: none, in a field of its own, or in the content between `<think>` and `</think>`.
    pub reasoning: ReasoningPlace,
    /// Prompts' prefixes that were seen before count as cached tokens. Then usage depends on the order of calls.
    pub prompt_cache: bool,
    /// The numbers of an embedding.
    pub embedding_dimension: usize,
    /// The base URL of another server, as in `http://127.0.0.1:8000/v1`. Its model answers in place of the rules; keys,
    /// limits, latencies, faults, prices and the log are still those of the simulation.
    pub pass_through: Option<String>,
    /// Limits that are enforced.
    pub limits: LimitSettings,
    /// The duration of an answer.
    pub latency: LatencySettings,
    /// Prices, for the log's own account.
    pub price: PriceSettings,
    /// Faults.
    pub faults: FaultSettings,
    /// The log's bounds.
    pub log: LogSettings,
}

impl Default for SimulationSettings {
    fn default() -> Self {
        Self {
            seed: 0,
            models: vec!["simulated-llm".to_owned()],
            fingerprint: "simulated".to_owned(),
            api_key: None,
            context_tokens: 32_768,
            overflow: OverflowDialect::Openai,
            answer_tokens: 512,
            unknown_fields: FieldRule::Ignore,
            continues: true,
            mistake_rate: 0.0,
            sampled_mistake_rate: 0.0,
            format_error_rate: 0.0,
            reasoning: ReasoningPlace::None,
            prompt_cache: false,
            embedding_dimension: 256,
            pass_through: None,
            limits: LimitSettings::default(),
            latency: LatencySettings::default(),
            price: PriceSettings::default(),
            faults: FaultSettings::default(),
            log: LogSettings::default(),
        }
    }
}

/// The words for a context overflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OverflowDialect {
    /// `context_length_exceeded`.
    Openai,
    /// `param` is `input_tokens`.
    Vllm,
    /// `exceed_context_size_error`.
    LlamaCpp,
    /// 422, `inputs` tokens + `max_new_tokens`.
    Tgi,
}

/// The treatment of a request's unknown fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FieldRule {
    /// They change nothing, as with vLLM.
    Ignore,
    /// 422, as with `transformers serve`.
    Refuse,
}

/// The place of the reasoning text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasoningPlace {
    /// There is none.
    None,
    /// `reasoning_content` of the message.
    Field,
    /// Between `<think>` and `</think>` at the start of the content.
    Think,
    /// Counted in the usage and not shown.
    Hidden,
}

/// The form of `Retry-After`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetryAfter {
    /// Whole seconds.
    Seconds,
    /// An HTTP date.
    Date,
    /// The header is missing.
    None,
}

/// Limits. Those that are missing are not enforced.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LimitSettings {
    /// Calls a minute.
    pub requests_per_minute: Option<f64>,
    /// Tokens of prompts and answers a minute.
    pub tokens_per_minute: Option<f64>,
    /// Seconds of both limits that may be used at once (the buckets' size).
    pub burst_s: f64,
    /// Calls at the same time; a further one gets 429.
    pub concurrency: Option<u64>,
    /// Calls that are computed at the same time; further ones wait.
    pub slots: Option<usize>,
    /// The form of `Retry-After`.
    pub retry_after: RetryAfter,
    /// The account in the price's currency; afterwards 429 `insufficient_quota`.
    pub quota_money: Option<f64>,
    /// The same in tokens.
    pub quota_tokens: Option<u64>,
}

impl Default for LimitSettings {
    fn default() -> Self {
        Self {
            requests_per_minute: None,
            tokens_per_minute: None,
            burst_s: 60.0,
            concurrency: None,
            slots: None,
            retry_after: RetryAfter::Seconds,
            quota_money: None,
            quota_tokens: None,
        }
    }
}

/// The duration of an answer: a time until the first token, then a time for each token.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LatencySettings {
    /// Milliseconds until the first token; the median, if `sigma` is above 0.
    pub first_ms: f64,
    /// Standard deviation of that time's logarithm (a lognormal distribution).
    pub sigma: f64,
    /// Milliseconds for each token of the answer.
    pub per_token_ms: f64,
    /// Milliseconds for each thousand tokens of the prompt.
    pub per_prompt_kilotoken_ms: f64,
}

impl Default for LatencySettings {
    fn default() -> Self {
        Self { first_ms: 0.0, sigma: 0.0, per_token_ms: 0.0, per_prompt_kilotoken_ms: 0.0 }
    }
}

/// Prices in one currency, for a million tokens each.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PriceSettings {
    /// Tokens of prompts that are not cached.
    pub input: f64,
    /// Cached tokens of prompts.
    pub cached_input: f64,
    /// Tokens of answers, with those of reasoning.
    pub output: f64,
    /// A call.
    pub request: f64,
}

/// Faults: which, how often, when.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FaultSettings {
    /// Share of calls that fail, over `kinds` alike.
    pub rate: f64,
    /// The kinds that share `rate`; by default all that pass when the call is sent again.
    pub kinds: Vec<FaultKind>,
    /// The share of each kind by itself. If any is given, `rate` and `kinds` are not used.
    pub rates: BTreeMap<FaultKind, f64>,
    /// A body fails at most this many times, then it is answered. Without a bound it may fail for ever.
    pub per_body: Option<u64>,
    /// Times in which every call fails.
    pub schedule: Vec<FaultWindow>,
    /// Milliseconds for which the port is closed.
    pub refused_ms: u64,
    /// Milliseconds of a stall.
    pub stall_ms: u64,
    /// Bytes of a drip's piece.
    pub drip_bytes: usize,
    /// Milliseconds between two pieces.
    pub drip_ms: u64,
    /// Seconds in `Retry-After` of a fault.
    pub retry_after_s: u64,
}

impl Default for FaultSettings {
    fn default() -> Self {
        Self {
            rate: 0.0,
            kinds: FAULTS.iter().filter(|row| row.passes).map(|row| row.kind).collect(),
            rates: BTreeMap::new(),
            per_body: None,
            schedule: vec![],
            refused_ms: 200,
            stall_ms: 60_000,
            drip_bytes: 64,
            drip_ms: 20,
            retry_after_s: 1,
        }
    }
}

/// A time in which every call fails.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultWindow {
    /// Its begin, in seconds after the server's start or the last change of its settings.
    pub from_s: f64,
    /// Its end.
    pub to_s: f64,
    /// The fault.
    pub kind: FaultKind,
}

/// The log's bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogSettings {
    /// Entries in memory; the oldest are dropped first. A log file has them all.
    pub entries: usize,
    /// Bodies whose attempts are counted; the oldest are forgotten first.
    pub bodies: usize,
}

impl Default for LogSettings {
    fn default() -> Self {
        Self { entries: 100_000, bodies: 1_000_000 }
    }
}

/// A setting that cannot be.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The text is no TOML, or a key or type is unknown.
    #[error("cannot read the settings of the simulation")]
    Toml(#[from] toml::de::Error),
    /// The same in a posted change.
    #[error("cannot read the change of the simulation's settings")]
    Json(#[from] serde_json::Error),
    /// A value out of range.
    #[error("simulation: `{key}` is {given}; allowed is {allowed}")]
    Value {
        /// The key.
        key: String,
        /// The value.
        given: String,
        /// The allowed ones.
        allowed: &'static str,
    },
    /// A `KEY=VALUE` that is none.
    #[error("--set {set}: {reason}")]
    Set {
        /// The argument.
        set: String,
        /// Why not.
        reason: &'static str,
    },
}

impl SimulationSettings {
    /// Reads settings from TOML and applies `KEY=VALUE` overrides (`faults.rate=0.2`). A value is TOML, or a text if it
    /// does not parse as TOML.
    ///
    /// # Errors
    /// If a key is unknown or a value is out of range.
    pub fn parse(toml: &str, sets: &[String]) -> Result<Self, SettingsError> {
        let mut document: toml::Table = toml.parse()?;
        for set in sets {
            apply_override(&mut document, set)?;
        }
        let settings: Self = document.try_into()?;
        settings.check()?;
        Ok(settings)
    }

    /// These settings with the keys of a JSON object in place of theirs; tables are merged key by key.
    ///
    /// # Errors
    /// If a key is unknown or a value is out of range.
    pub fn changed_by(&self, change: &serde_json::Value) -> Result<Self, SettingsError> {
        let mut document = serde_json::to_value(self)?;
        merge_into(&mut document, change);
        let settings: Self = serde_json::from_value(document)?;
        settings.check()?;
        Ok(settings)
    }

    /// Checks every value.
    ///
    /// # Errors
    /// The first key whose value is out of range.
    pub fn check(&self) -> Result<(), SettingsError> {
        let faults = &self.faults;
        let shares = [
            ("mistake_rate", self.mistake_rate),
            ("sampled_mistake_rate", self.sampled_mistake_rate),
            ("format_error_rate", self.format_error_rate),
            ("faults.rate", faults.rate),
            ("faults.rates (their sum)", faults.rates.values().sum()),
        ];
        for (key, value) in shares {
            require((0.0..=1.0).contains(&value), key, value, "0 to 1")?;
        }
        let latency = &self.latency;
        let (price, limits) = (&self.price, &self.limits);
        let amounts = [
            ("latency.first_ms", latency.first_ms),
            ("latency.sigma", latency.sigma),
            ("latency.per_token_ms", latency.per_token_ms),
            ("latency.per_prompt_kilotoken_ms", latency.per_prompt_kilotoken_ms),
            ("price.input", price.input),
            ("price.cached_input", price.cached_input),
            ("price.output", price.output),
            ("price.request", price.request),
            ("limits.quota_money", limits.quota_money.unwrap_or(0.0)),
        ];
        for (key, value) in amounts.into_iter().chain(faults.rates.values().map(|&rate| ("faults.rates", rate))) {
            require(value.is_finite() && value >= 0.0, key, value, "0 and above")?;
        }
        let rates = [
            ("limits.requests_per_minute", limits.requests_per_minute.unwrap_or(1.0)),
            ("limits.tokens_per_minute", limits.tokens_per_minute.unwrap_or(1.0)),
            ("limits.burst_s", limits.burst_s),
        ];
        for (key, value) in rates {
            require(value.is_finite() && value > 0.0, key, value, "above 0")?;
        }
        let counts = [
            ("context_tokens", self.context_tokens),
            ("answer_tokens", self.answer_tokens),
            ("embedding_dimension", self.embedding_dimension as u64),
            ("faults.drip_bytes", faults.drip_bytes as u64),
            ("limits.concurrency", limits.concurrency.unwrap_or(1)),
            ("limits.slots", limits.slots.unwrap_or(1) as u64),
            ("log.entries", self.log.entries as u64),
            ("log.bodies", self.log.bodies as u64),
        ];
        for (key, value) in counts {
            require(value > 0, key, value, "1 and above")?;
        }
        require(self.embedding_dimension <= 65_536, "embedding_dimension", self.embedding_dimension, "1 to 65536")?;
        if let Some(url) = &self.pass_through {
            let is_url = url.starts_with("http://");
            require(is_url, "pass_through", url, "a base URL, as in http://127.0.0.1:8000/v1")?;
        }
        for window in &faults.schedule {
            let fits = window.from_s >= 0.0 && window.to_s > window.from_s;
            let given = format!("from_s = {}, to_s = {}", window.from_s, window.to_s);
            require(fits, "faults.schedule", given, "0 <= from_s < to_s")?;
        }
        require(
            faults.rate == 0.0 || !faults.kinds.is_empty(),
            "faults.kinds",
            "empty",
            "a list of kinds, where faults.rate is above 0",
        )
    }
}

fn require(holds: bool, key: &str, given: impl std::fmt::Display, allowed: &'static str) -> Result<(), SettingsError> {
    if holds { Ok(()) } else { Err(SettingsError::Value { key: key.to_owned(), given: given.to_string(), allowed }) }
}

/// Applies `a.b=VALUE`.
fn apply_override(document: &mut toml::Table, set: &str) -> Result<(), SettingsError> {
    let malformed = |reason| SettingsError::Set { set: set.to_owned(), reason };
    let (key, value) = set.split_once('=').ok_or_else(|| malformed("expected KEY=VALUE"))?;
    let (key, value) = (key.trim(), value.trim());
    let parsed = format!("value = {value}").parse::<toml::Table>().ok().and_then(|mut table| table.remove("value"));
    let parsed = parsed.unwrap_or_else(|| toml::Value::String(value.to_owned()));
    let mut names: Vec<&str> = key.split('.').collect();
    let last = names.pop().filter(|name| !name.is_empty()).ok_or_else(|| malformed("expected KEY=VALUE"))?;
    let mut table = document;
    for name in names {
        let entry = table.entry(name).or_insert_with(|| toml::Value::Table(toml::Table::new()));
        table = entry.as_table_mut().ok_or_else(|| malformed("a key on the way is a value, not a table"))?;
    }
    table.insert(last.to_owned(), parsed);
    Ok(())
}

/// Puts the keys of `change` into `document`.
fn merge_into(document: &mut serde_json::Value, change: &serde_json::Value) {
    use serde_json::Value;
    match (document, change) {
        (Value::Object(fields), Value::Object(changes)) => {
            for (key, value) in changes {
                match fields.get_mut(key) {
                    // The kinds' rates are one value: a change replaces all of them.
                    Some(field) if field.is_object() && key != "rates" => merge_into(field, value),
                    _ => {
                        fields.insert(key.clone(), value.clone());
                    }
                }
            }
        }
        (document, change) => *document = change.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_overrides_and_changes_are_read() {
        let sets = ["faults.rate=0.2".to_owned(), "limits.retry_after=date".to_owned()];
        let settings = SimulationSettings::parse("[faults.rates]\ncut_body = 0.5", &sets).expect("settings");
        assert_eq!((settings.faults.rate, settings.limits.retry_after), (0.2, RetryAfter::Date));
        assert_eq!(settings.faults.rates[&FaultKind::CutBody], 0.5);
        let changed = settings.changed_by(&serde_json::json!({"faults": {"rates": {}}})).expect("settings");
        assert_eq!((changed.faults.rates.len(), changed.faults.rate), (0, 0.2));
    }

    #[test]
    fn bad_settings_name_the_key() {
        let error = |toml: &str| match SimulationSettings::parse(toml, &[]) {
            Err(SettingsError::Toml(error)) => error.message().to_owned(),
            Err(error) => error.to_string(),
            Ok(_) => String::new(),
        };
        assert_eq!(error("mistake_rate = 2.0"), "simulation: `mistake_rate` is 2; allowed is 0 to 1");
        assert!(error("mistake = 1").contains("unknown field `mistake`"));
        assert!(error("[[faults.schedule]]\nfrom_s = 3.0\nto_s = 1.0\nkind = 'refused'").contains("from_s < to_s"));
        assert!(error("faults = { kinds = ['fire'] }").contains("unknown variant `fire`"));
    }
}
