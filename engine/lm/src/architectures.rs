//! Architectures, one a file: the configuration of transformers 4 and 5, weights by their names in transformers, and a
//! forward pass over packed sequences.
//!
//! | file | `model_type` |
//! | --- | --- |
//! | [`bert`] | bert |
//! | [`roberta`] | roberta, xlm-roberta |
//! | [`electra`] | electra |
//! | [`deberta`] | deberta-v2 |
//! | [`gpt2`] | gpt2 |
//! | [`opt`] | opt |
//! | [`llama`] | llama, mistral, qwen2, qwen3 |
//! | [`t5`] | t5 |

pub mod bert;
pub mod deberta;
pub mod electra;
pub mod gpt2;
pub mod llama;
pub mod opt;
pub mod post_norm;
pub mod roberta;
pub mod t5;

mod attend;
mod norm;
mod projection;
mod rope;
mod vocabulary;

use crate::config::ModelConfig;
use crate::{Decoder, Encoder, EncoderDecoder, LmError};
use hopeval_checkpoint::Checkpoint;
use hopeval_device::Device;

/// The stacks of a model. They decide the tasks of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ModelFamily {
    /// Bidirectional: labels, classifies, embeds, reads.
    Encoder,
    /// Causal: scores and generates.
    Decoder,
    /// Reads with one stack, scores and generates with the other.
    EncoderDecoder,
}

/// Architectures by `model_type`.
const ARCHITECTURES: [(&str, ModelFamily); 12] = [
    ("bert", ModelFamily::Encoder),
    ("deberta-v2", ModelFamily::Encoder),
    ("electra", ModelFamily::Encoder),
    ("gpt2", ModelFamily::Decoder),
    ("llama", ModelFamily::Decoder),
    ("mistral", ModelFamily::Decoder),
    ("opt", ModelFamily::Decoder),
    ("qwen2", ModelFamily::Decoder),
    ("qwen3", ModelFamily::Decoder),
    ("roberta", ModelFamily::Encoder),
    ("t5", ModelFamily::EncoderDecoder),
    ("xlm-roberta", ModelFamily::Encoder),
];

/// A checkpoint's `model_type` and its family.
///
/// # Errors
/// [`LmError::Config`] for an unsupported type; the message lists the supported ones.
pub fn identify(checkpoint: &Checkpoint) -> Result<(&'static str, ModelFamily), LmError> {
    let config = ModelConfig::new(checkpoint);
    let found = config.text("model_type")?;
    ARCHITECTURES
        .iter()
        .copied()
        .find(|(name, _)| Some(*name) == found)
        .ok_or_else(|| unsupported_type(&config, |_| true))
}

/// Opens a bidirectional encoder. [`crate::heads::open`] opens its heads.
///
/// # Errors
/// [`LmError::Config`], naming the field; [`LmError::Checkpoint`], naming the tensor; [`LmError::Device`].
pub fn open_encoder<D: Device>(checkpoint: &Checkpoint, device: &D) -> Result<Box<dyn Encoder<D>>, LmError> {
    Ok(Box::new(match identify(checkpoint)?.0 {
        "bert" => bert::open(checkpoint, device)?,
        "deberta-v2" => deberta::open(checkpoint, device)?,
        "electra" => electra::open(checkpoint, device)?,
        "roberta" | "xlm-roberta" => roberta::open(checkpoint, device)?,
        _ => return Err(unsupported_type(&ModelConfig::new(checkpoint), |family| family == ModelFamily::Encoder)),
    }))
}

/// Opens a causal decoder.
///
/// # Errors
/// [`LmError`], naming the field of the configuration or the tensor.
pub fn open_decoder<D: Device>(checkpoint: &Checkpoint, device: &D) -> Result<Box<dyn Decoder<D>>, LmError> {
    Ok(match identify(checkpoint)?.0 {
        "gpt2" => Box::new(gpt2::open(checkpoint, device)?),
        "opt" => Box::new(opt::open(checkpoint, device)?),
        "llama" | "mistral" | "qwen2" | "qwen3" => Box::new(llama::open(checkpoint, device)?),
        _ => return Err(unsupported_type(&ModelConfig::new(checkpoint), |family| family == ModelFamily::Decoder)),
    })
}

/// Opens an encoder with a decoder.
///
/// # Errors
/// [`LmError`], naming the field of the configuration or the tensor.
pub fn open_encoder_decoder<D: Device>(
    checkpoint: &Checkpoint,
    device: &D,
) -> Result<Box<dyn EncoderDecoder<D>>, LmError> {
    Ok(match identify(checkpoint)?.0 {
        "t5" => Box::new(t5::open(checkpoint, device)?),
        _ => {
            return Err(unsupported_type(&ModelConfig::new(checkpoint), |family| {
                family == ModelFamily::EncoderDecoder
            }));
        }
    })
}

/// The error for a `model_type` outside the wanted families.
pub(crate) fn unsupported_type(config: &ModelConfig<'_>, wanted: impl Fn(ModelFamily) -> bool) -> LmError {
    let allowed = ARCHITECTURES.iter().filter(|(_, family)| wanted(*family)).map(|(name, _)| *name).collect::<Vec<_>>();
    let found = config.text("model_type").ok().flatten().map_or("nothing".into(), |name| format!("{name:?}"));
    config.field_error("model_type", &format!("expected one of {}, found {found}", allowed.join(", ")))
}
