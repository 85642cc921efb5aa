//! The engine's requests, in token ids, and its answers.

use crate::heads::HostRows;
use std::sync::Arc;

/// Token ids, shared.
pub type TokenIds = Arc<[u32]>;

/// One request.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// The log-likelihood of a target after a prompt.
    Score(ScoreRequest),
    /// Outputs of a checkpoint's heads for one sequence.
    Encode(EncodeRequest),
    /// A continuation.
    Generate(GenerateRequest),
}

impl Request {
    /// The score request; panics for another kind.
    pub(crate) fn as_score(&self) -> &ScoreRequest {
        match self {
            Self::Score(score) => score,
            other => panic!("a score was expected, not {other:?}; this is a bug"),
        }
    }

    /// The encoding request; panics for another kind.
    pub(crate) fn as_encode(&self) -> &EncodeRequest {
        match self {
            Self::Encode(encode) => encode,
            other => panic!("an encoding was expected, not {other:?}; this is a bug"),
        }
    }

    /// The generation request; panics for another kind.
    pub(crate) fn as_generate(&self) -> &GenerateRequest {
        match self {
            Self::Generate(generate) => generate,
            other => panic!("a continuation was expected, not {other:?}; this is a bug"),
        }
    }
}

/// Asks for the log-likelihood of `target` after `prompt`.
#[derive(Clone, Debug, PartialEq)]
pub struct ScoreRequest {
    /// The tokens before the target; for encoder-decoders, the encoder's input.
    pub prompt: TokenIds,
    /// At least one token.
    pub target: TokenIds,
    /// The grid of temperatures: finite and positive.
    pub temperatures: Vec<f32>,
}

/// Asks for outputs of an encoder's heads for a sequence.
#[derive(Clone, Debug, PartialEq)]
pub struct EncodeRequest {
    /// With special tokens.
    pub ids: TokenIds,
    /// As many as `ids`, or empty.
    pub type_ids: TokenIds,
    /// The wanted output.
    pub want: EncoderOutput,
}

/// Outputs of an encoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EncoderOutput {
    /// Token and sequence logits, as far as the checkpoint has the heads.
    Labels,
    /// Sequence logits.
    Logits,
    /// Start and end logits, and the rank head's logit if there is one.
    Span,
    /// The mean of the tokens' states.
    Mean,
    /// The first token's state.
    First,
}

/// Asks for a continuation of a prompt.
#[derive(Clone, Debug, PartialEq)]
pub struct GenerateRequest {
    /// For encoder-decoders, the encoder's input.
    pub prompt: TokenIds,
    /// At most this many tokens.
    pub max_tokens: usize,
    /// The rule for choosing tokens.
    pub sampling: Sampling,
    /// The text ends before the first of these; needs a tokenizer.
    pub stop: Vec<String>,
    /// Tokens that end the continuation: the model's own; empty to ignore them.
    pub ends: Vec<u32>,
}

/// The rule for choosing a token from its logits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sampling {
    /// The highest logit; the lowest id of equals.
    Greedy,
    /// Drawn as in transformers: temperature, then top-k, then top-p.
    Sample {
        /// Finite and positive.
        temperature: f32,
        /// The highest `top_k` tokens; 0 for all.
        top_k: usize,
        /// The fewest highest tokens with this probability together; 1 for all.
        top_p: f32,
        /// The seed of the draw.
        seed: u64,
        /// Numbers independent samples of one prompt.
        draw: u32,
    },
}

/// The result of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// For [`Request::Score`].
    Scored(ScoreResult),
    /// For [`Request::Encode`].
    Encoded(EncodeResult),
    /// For [`Request::Generate`].
    Generated(GenerateResult),
}

/// Rows for computing the log-probabilities at any temperature.
#[derive(Clone, Debug, PartialEq)]
pub struct ScoreResult {
    /// The logit of each target token.
    pub target_logits: Vec<f32>,
    /// For each requested temperature, in the order of the request, one log-sum-exp for each target token.
    pub log_sum_exps: Vec<Vec<f32>>,
}

impl ScoreResult {
    /// Log-probabilities of the target's tokens at the `t`-th of the requested temperatures.
    pub fn log_probs(&self, t: usize, temperature: f32) -> Vec<f32> {
        let at = |(logit, sum): (&f32, &f32)| logit / temperature - sum;
        self.target_logits.iter().zip(&self.log_sum_exps[t]).map(at).collect()
    }
}

/// Outputs of an encoder's heads; empty if not requested, or if the checkpoint has no such head.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EncodeResult {
    /// `[tokens, labels]`.
    pub token_logits: HostRows,
    /// `[labels]`.
    pub sequence_logits: Vec<f32>,
    /// `[tokens]`.
    pub start_logits: Vec<f32>,
    /// `[tokens]`.
    pub end_logits: Vec<f32>,
    /// The rank head's score of the passage.
    pub rank: Option<f32>,
    /// `[hidden]`, not normalised.
    pub embedding: Vec<f32>,
}

/// A continuation.
#[derive(Clone, Debug, PartialEq)]
pub struct GenerateResult {
    /// Without the token that ended it.
    pub ids: Vec<u32>,
    /// Log-probability of each of `ids`, at temperature 1 over the whole vocabulary.
    pub log_probs: Vec<f32>,
    /// The reason for its end.
    pub finish: FinishReason,
}

/// The reason for the end of a continuation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// The model chose one of the end tokens.
    End,
    /// The text contains a stop string; the caller cuts the text before it.
    Stop,
    /// It has the allowed number of tokens.
    Length,
}

/// The work of a request alone, as if nothing were shared: deterministic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestWork {
    /// Prompt tokens.
    pub prompt_tokens: u64,
    /// Generated tokens.
    pub completion_tokens: u64,
    /// Target tokens scored.
    pub scored_tokens: u64,
    /// Floating-point operations without padding, with logits only for the needed rows.
    pub operations: u64,
}
