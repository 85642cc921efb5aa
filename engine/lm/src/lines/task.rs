//! The task for every line.

use crate::request::{EncoderOutput, Sampling};

/// A command and its options.
#[derive(Clone, Debug, PartialEq)]
pub enum Task {
    /// `{"id", "prompt", "target"}` to `{"id", "target_tokens", "logprobs": {TEMPERATURE: [..]}}`.
    Score {
        /// The values, each with its spelling on the command line; the spellings name them in the output.
        temperatures: Vec<(String, f32)>,
        /// Whether an encoder-decoder's text target ends in a scored end token.
        target_eos: bool,
    },
    /// `{"id", "text"[, "text_pair"]}` to token and sequence logits.
    Label,
    /// `{"id", "text"[, "text_pair"]}` to sequence logits.
    Classify,
    /// As [`Task::Classify`], with the one logit of a cross-encoder as `score`. Models with several labels give no
    /// score.
    Rerank,
    /// `{"id", "text"}` to `{"id", "embedding"}`.
    Embed {
        /// [`EncoderOutput::Mean`] or [`EncoderOutput::First`].
        pooling: EncoderOutput,
        /// Whether to scale to length 1.
        normalize: bool,
    },
    /// `{"id", "question", "context"}` to the best span.
    Read {
        /// The largest number of tokens of an answer.
        max_answer_tokens: usize,
    },
    /// `{"id", "prompt"}` to `{"id", "text", "ids"}`.
    Generate {
        /// The largest number of tokens.
        max_tokens: usize,
        /// Whether end tokens count as ordinary tokens.
        ignore_eos: bool,
        /// The choice of tokens; the line may give its draw.
        sampling: SamplingOptions,
        /// Stop strings.
        stop: Vec<String>,
    },
}

impl Task {
    /// The command.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Score { .. } => "score",
            Self::Label => "label",
            Self::Classify => "classify",
            Self::Rerank => "rerank",
            Self::Embed { .. } => "embed",
            Self::Read { .. } => "read",
            Self::Generate { .. } => "generate",
        }
    }

    /// Fields allowed in a line beside `id`.
    pub fn fields(&self) -> &'static [&'static str] {
        match self {
            Self::Score { .. } => &["prompt", "prompt_ids", "target", "target_ids"],
            Self::Label | Self::Classify | Self::Rerank | Self::Embed { .. } => {
                &["text", "text_pair", "ids", "token_type_ids"]
            }
            Self::Read { .. } => &["question", "context", "ids", "token_type_ids"],
            Self::Generate { .. } => &["prompt", "prompt_ids", "draw"],
        }
    }
}

/// Sampling options; temperature 0 is greedy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SamplingOptions {
    /// 0 for greedy.
    pub temperature: f32,
    /// 0 for all.
    pub top_k: usize,
    /// 1 for all.
    pub top_p: f32,
    /// The seed of the draws.
    pub seed: u64,
}

impl SamplingOptions {
    /// The sampling of one line.
    pub fn for_draw(self, draw: u32) -> Sampling {
        let Self { temperature, top_k, top_p, seed } = self;
        if temperature == 0.0 { Sampling::Greedy } else { Sampling::Sample { temperature, top_k, top_p, seed, draw } }
    }
}
