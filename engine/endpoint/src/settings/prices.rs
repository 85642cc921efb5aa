//! Prices of an endpoint's tokens and requests.

use crate::EndpointError;
use crate::answer::TokenUsage;
use serde::{Deserialize, Serialize};

/// The factor of prices of batch APIs, unless the settings name another.
const BATCH_FACTOR: f64 = 0.5;

/// Prices of one endpoint, in units of `currency`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriceSettings {
    /// For a million tokens of prompts.
    #[serde(default)]
    pub input: f64,
    /// For a million tokens of prompts that the server had in its cache. Default: as `input`.
    #[serde(default)]
    pub cached_input: Option<f64>,
    /// For a million tokens written, thoughts included.
    #[serde(default)]
    pub output: f64,
    /// For each request that is answered.
    #[serde(default)]
    pub request: f64,
    /// The currency, for tables.
    #[serde(default = "us_dollars")]
    pub currency: String,
    /// The factor of all prices where the answers come from batch files. Default: a half.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<f64>,
}

fn us_dollars() -> String {
    "USD".to_owned()
}

impl PriceSettings {
    /// Checks every price.
    ///
    /// # Errors
    /// [`EndpointError::Setting`].
    pub fn check_values(&self) -> Result<(), EndpointError> {
        let (cached, factor) = (self.cached_input.unwrap_or(0.0), self.batch.unwrap_or(BATCH_FACTOR));
        for (key, price) in [
            ("input", self.input),
            ("cached_input", cached),
            ("output", self.output),
            ("request", self.request),
            ("batch", factor),
        ] {
            if !(price.is_finite() && (0.0..=1e9).contains(&price)) {
                return Err(EndpointError::setting(&format!("price.{key}"), price, "0 to 1e9"));
            }
        }
        if self.currency.is_empty() || !self.currency.chars().all(|letter| letter.is_ascii_alphabetic()) {
            return Err(EndpointError::setting("price.currency", &self.currency, "letters, such as USD"));
        }
        Ok(())
    }

    /// These prices for answers from batch files.
    pub fn of_batches(&self) -> Self {
        let factor = self.batch.unwrap_or(BATCH_FACTOR);
        Self {
            input: self.input * factor,
            cached_input: self.cached_input.map(|price| price * factor),
            output: self.output * factor,
            request: self.request * factor,
            ..self.clone()
        }
    }

    /// The price of a usage, in units of the currency.
    pub fn price_of(&self, usage: &TokenUsage, requests: u64) -> f64 {
        let cached = usage.cached_prompt.min(usage.prompt);
        let per_million = (usage.prompt - cached) as f64 * self.input
            + cached as f64 * self.cached_input.unwrap_or(self.input)
            + usage.completion as f64 * self.output;
        per_million / 1e6 + requests as f64 * self.request
    }

    /// The price of a usage in billionths of the currency's unit, rounded up: sums of prices are never below the bill.
    pub fn nanos_of(&self, usage: &TokenUsage, requests: u64) -> u64 {
        nanos_above(self.price_of(usage, requests))
    }

    /// The highest price of one request, in billionths.
    pub fn most_nanos(&self, prompt: u64, written: u64) -> u64 {
        let input = self.input.max(self.cached_input.unwrap_or(0.0));
        nanos_above((prompt as f64 * input + written as f64 * self.output) / 1e6 + self.request)
    }
}

/// Billionths, rounded up. What is above a whole number by less than arithmetic's own error is that number.
fn nanos_above(money: f64) -> u64 {
    (money * 1e9 - 1e-4).max(0.0).ceil() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_tokens_have_their_own_price() {
        let price = PriceSettings {
            input: 2.0,
            cached_input: Some(0.5),
            output: 8.0,
            request: 0.01,
            currency: "USD".to_owned(),
            batch: None,
        };
        let usage =
            TokenUsage { prompt: 1_000_000, cached_prompt: 400_000, completion: 250_000, reasoning: 9, measured: true };
        assert_eq!(price.price_of(&usage, 3), 1.2 + 0.2 + 2.0 + 0.03);
        assert_eq!((price.nanos_of(&usage, 3), price.most_nanos(1_000_000, 250_000)), (3_430_000_000, 4_010_000_000));
        let one = TokenUsage { prompt: 1, ..TokenUsage::default() };
        let odd = PriceSettings { input: 0.000_15, request: 0.0, ..price.clone() };
        assert_eq!(odd.nanos_of(&one, 0), 1, "a part of a billionth is one");
        assert_eq!(price.of_batches().price_of(&usage, 3), 0.6 + 0.1 + 1.0 + 0.015);
        assert_eq!(PriceSettings { cached_input: None, ..price }.price_of(&usage, 0), 4.0);
    }
}
