//! What the engine is asked, in token ids, and what it answers.

use std::sync::Arc;

/// Token ids, shared.
pub type Ids = Arc<[u32]>;

/// One request.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// The log-likelihood of a target after a prompt.
    Score(Score),
    /// Everything a checkpoint's heads say of one sequence.
    Encode(Encode),
    /// A continuation.
    Generate(Generate),
}

impl Request {
    /// The score that this asks for.
    pub(crate) fn as_score(&self) -> &Score {
        match self {
            Self::Score(score) => score,
            other => panic!("a score was expected, not {other:?}; this is a bug"),
        }
    }

    /// The encoding that this asks for.
    pub(crate) fn as_encode(&self) -> &Encode {
        match self {
            Self::Encode(encode) => encode,
            other => panic!("an encoding was expected, not {other:?}; this is a bug"),
        }
    }

    /// The continuation that this asks for.
    pub(crate) fn as_generate(&self) -> &Generate {
        match self {
            Self::Generate(generate) => generate,
            other => panic!("a continuation was expected, not {other:?}; this is a bug"),
        }
    }
}

/// Asks for the log-likelihood of `target` after `prompt`.
#[derive(Clone, Debug, PartialEq)]
pub struct Score {
    /// What stands before the target; for encoder-decoders, what the encoder reads.
    pub prompt: Ids,
    /// At least one token.
    pub target: Ids,
    /// The grid of temperatures: finite and positive.
    pub temperatures: Vec<f32>,
}

/// Asks for what an encoder's heads say of a sequence.
#[derive(Clone, Debug, PartialEq)]
pub struct Encode {
    /// With special tokens.
    pub ids: Ids,
    /// As many as `ids`, or none.
    pub type_ids: Ids,
    /// What is wanted.
    pub want: Want,
}

/// Results of an encoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Want {
    /// Token and sequence logits, as far as the checkpoint has the heads.
    Labels,
    /// Sequence logits.
    Logits,
    /// Start and end logits, and the rank head's where there is one.
    Span,
    /// The mean of the tokens' states.
    Mean,
    /// The first token's state.
    First,
}

/// Asks for a continuation of a prompt.
#[derive(Clone, Debug, PartialEq)]
pub struct Generate {
    /// For encoder-decoders, what the encoder reads.
    pub prompt: Ids,
    /// At most this many tokens.
    pub max_tokens: usize,
    /// How a token is chosen.
    pub sampling: Sampling,
    /// The text ends before the first of these; needs a tokenizer.
    pub stop: Vec<String>,
    /// Tokens that end it: the model's own; empty to ignore them.
    pub ends: Vec<u32>,
}

/// How a token is chosen from its logits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sampling {
    /// The highest logit; the lowest id of equals.
    Greedy,
    /// Drawn, as transformers does it: temperature, then top-k, then top-p.
    Sample {
        /// Finite and positive.
        temperature: f32,
        /// The highest `top_k` tokens; 0 for all.
        top_k: usize,
        /// The fewest highest tokens that hold this probability; 1 for all.
        top_p: f32,
        /// Fixes the draw.
        seed: u64,
        /// Numbers independent samples of one prompt.
        draw: u32,
    },
}

/// What came out.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// For [`Request::Score`].
    Scored(Scored),
    /// For [`Request::Encode`].
    Encoded(Encoded),
    /// For [`Request::Generate`].
    Generated(Generated),
}

/// Rows from which any temperature's log-probabilities follow.
#[derive(Clone, Debug, PartialEq)]
pub struct Scored {
    /// The logit of each target token.
    pub target_logits: Vec<f32>,
    /// For each temperature that was asked for, in that order, one log-sum-exp for each target token.
    pub log_sum_exps: Vec<Vec<f32>>,
}

impl Scored {
    /// Log-probabilities of the target's tokens at the `t`-th of the `temperatures` that were asked for.
    pub fn log_probs(&self, t: usize, temperature: f32) -> Vec<f32> {
        let at = |(logit, sum): (&f32, &f32)| logit / temperature - sum;
        self.target_logits.iter().zip(&self.log_sum_exps[t]).map(at).collect()
    }
}

/// What an encoder's heads said; empty where not asked for, or where the checkpoint has no such head.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Encoded {
    /// `[tokens][labels]`.
    pub token_logits: Vec<Vec<f32>>,
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
pub struct Generated {
    /// Without the token that ended it.
    pub ids: Vec<u32>,
    /// Log-probability of each of `ids`, at temperature 1 over the whole vocabulary.
    pub log_probs: Vec<f32>,
    /// Why it ended.
    pub finish: Finish,
}

/// Why a continuation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// One of its ends came.
    End,
    /// A stop string came; the text is to be cut before it.
    Stop,
    /// As many tokens as allowed.
    Length,
}

/// The work that a request needs alone, whatever was shared: deterministic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Tokens read.
    pub prompt_tokens: u64,
    /// Tokens written.
    pub completion_tokens: u64,
    /// Target tokens scored.
    pub scored_tokens: u64,
    /// Floating-point operations when nothing is padded and logits are taken where they are needed.
    pub operations: u64,
}
