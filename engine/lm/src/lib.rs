//! The language-model engine: scores, labels, embeds, reads and generates, on packed batches, without a dataflow.
//!
//! ```text
//!   text --tokenise--> ids --queue--> pack --batches--> model over Device --rows--> answers
//! ```
//!
//! | module | what it is |
//! | --- | --- |
//! | [`model`] | what the engine asks of an architecture: [`Encoder`], [`Decoder`], [`EncoderDecoder`] |
//! | [`weights`] | tensors of a checkpoint, checked against the configuration and made usable on a device |
//! | [`architectures`] | each architecture, once, over `hopeval_device::Device` |
//! | [`heads`] | labels, scores, spans and embeddings of an encoder's states |
//! | [`config`] | `config.json`, by type, with errors that name the field |
//!
//! Forbidden here: timely, tokio, networks, datasets.

pub mod architectures;
pub mod config;
pub mod error;
pub mod heads;
pub mod model;
pub mod weights;

pub use config::Config;
pub use error::LmError;
pub use model::{Batch, Cache, Decoder, Encoder, EncoderDecoder, Head};
pub use weights::Weights;
