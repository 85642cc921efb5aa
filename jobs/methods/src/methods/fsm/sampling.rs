//! The sampling of FSM's texts and of its baselines': vLLM's settings in the released code.

use crate::machine::{MethodError, ServiceUse};
use crate::registry::at_least_one;
use crate::request::{GeneratePayload, RequestKind, Sampling, SamplingPenalties, ServiceName, TextFormat};

/// How texts are drawn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SamplingParameters {
    pub(crate) temperature: f64,
    pub(crate) top_p: f64,
    pub(crate) repetition_penalty: f64,
    pub(crate) max_tokens: u32,
    pub(crate) json: bool,
}

impl SamplingParameters {
    pub(crate) fn check(&self, kind: &'static str) -> Result<(), MethodError> {
        at_least_one(kind, "max_tokens", self.max_tokens)?;
        let refuse = |parameter, found: f64, allowed| {
            Err(MethodError::Value { kind, parameter, found: found.to_string(), allowed })
        };
        if self.temperature != 0.0 && !(1e-3..=1e3).contains(&self.temperature) {
            return refuse("temperature", self.temperature, "must be 0 (greedy) or from 0.001 to 1000");
        }
        if !(self.top_p > 0.0 && self.top_p <= 1.0) {
            return refuse("top_p", self.top_p, "must be above 0 and at most 1");
        }
        if !(1e-3..=1e3).contains(&self.repetition_penalty) {
            return refuse("repetition_penalty", self.repetition_penalty, "must be from 0.001 to 1000; 1 is none");
        }
        Ok(())
    }

    /// The use of the service that writes.
    pub(crate) fn service_use(&self, generator: &ServiceName) -> ServiceUse {
        ServiceUse::new("generator", generator, RequestKind::Generate)
            .with_sampling(&self.sampling())
            .with_json_if(self.json)
    }

    fn sampling(&self) -> Sampling {
        if self.temperature == 0.0 {
            return Sampling::Greedy;
        }
        let penalties = SamplingPenalties { repetition: self.repetition_penalty, ..SamplingPenalties::default() };
        Sampling::Sample { temperature: self.temperature, top_p: self.top_p, top_k: 0, penalties }
    }

    /// A request for a text.
    pub(crate) fn payload(&self, prompt: crate::prompt::Prompt) -> GeneratePayload {
        let (sampling, format) = (self.sampling(), TextFormat::json_if(self.json));
        GeneratePayload { prompt, max_tokens: self.max_tokens, stop: Vec::new(), sampling, format, logprobs: false }
    }
}

pub(crate) fn default_temperature() -> f64 {
    0.8
}

pub(crate) fn default_top_p() -> f64 {
    0.8
}

pub(crate) fn default_repetition_penalty() -> f64 {
    1.1
}

pub(crate) fn default_max_tokens() -> u32 {
    500
}
