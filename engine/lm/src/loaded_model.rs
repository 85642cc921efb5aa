//! A model of any family, ready on its device.

use crate::heads::CheckpointHeads;
use crate::model::{Decoder, Encoder, EncoderDecoder, ModelSizes, Operations};
use crate::request::{EncoderOutput, Request, RequestWork};
use crate::score::{causal_operations, head_operations};
use hopeval_device::Device;

/// A model on a device.
#[derive(Debug)]
pub enum LoadedModel<D: Device> {
    /// Continues and scores.
    Decoder(Box<dyn Decoder<D>>),
    /// Scores and answers over an encoded prompt.
    EncoderDecoder(Box<dyn EncoderDecoder<D>>),
    /// Labels, classifies, reads and embeds.
    Encoder(EncoderWithHeads<D>),
}

/// An encoder with the heads of its checkpoint.
#[derive(Debug)]
pub struct EncoderWithHeads<D: Device> {
    /// The body.
    pub encoder: Box<dyn Encoder<D>>,
    /// The heads.
    pub heads: CheckpointHeads<D>,
}

impl<D: Device> LoadedModel<D> {
    /// Sizes of the model.
    pub fn sizes(&self) -> ModelSizes {
        match self {
            Self::Decoder(model) => model.sizes(),
            Self::EncoderDecoder(model) => model.sizes(),
            Self::Encoder(model) => model.encoder.sizes(),
        }
    }

    /// The supported tasks, by the names of their commands.
    pub fn tasks(&self) -> Vec<&'static str> {
        match self {
            Self::Decoder(_) | Self::EncoderDecoder(_) => vec!["score", "generate"],
            Self::Encoder(model) => model.tasks(),
        }
    }

    /// The work of a continuation of `tokens` tokens, alone.
    pub fn generation_work(&self, request: &Request, tokens: usize) -> RequestWork {
        let prompt = request.as_generate().prompt.len();
        let n = prompt as u64;
        let operations = match self {
            Self::Decoder(model) => {
                // The last token is not read again.
                causal_operations(model.operations(), 0, prompt + tokens.saturating_sub(1))
                    + head_operations(model.head(), model.sizes().hidden, tokens)
            }
            Self::EncoderDecoder(model) => {
                let (encoder, cross) = (model.encoder_operations(), model.cross_operations());
                n * (encoder.per_token + cross.per_token)
                    + n * n * encoder.per_pair
                    + n * tokens as u64 * cross.per_pair
                    + causal_operations(model.decoder_operations(), 0, tokens)
                    + head_operations(model.head(), model.sizes().hidden, tokens)
            }
            Self::Encoder(_) => 0,
        };
        RequestWork { prompt_tokens: n, completion_tokens: tokens as u64, scored_tokens: 0, operations }
    }

    /// The number of token types; 0 if token types mean nothing.
    pub fn token_types(&self) -> usize {
        match self {
            Self::Encoder(model) => model.encoder.type_vocabulary(),
            _ => 0,
        }
    }

    /// Operations of encoding a sequence; zero for decoders.
    pub fn encoder_operations(&self) -> Operations {
        match self {
            Self::Decoder(_) => Operations::default(),
            Self::EncoderDecoder(model) => model.encoder_operations(),
            Self::Encoder(model) => model.encoder.operations(),
        }
    }
}

impl EncoderOutput {
    /// The name of the command.
    pub fn task(self) -> &'static str {
        match self {
            Self::Labels => "label",
            Self::Logits => "classify",
            Self::Span => "read",
            Self::Mean | Self::First => "embed",
        }
    }
}
