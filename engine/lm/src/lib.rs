//! The language-model engine: scores, labels, embeds, reads and generates, on packed batches, without a dataflow.
//!
//! ```text
//!   text --tokenise--> ids --queue--> pack --batches--> model over Device --rows--> answers
//! ```
//!
//! | module | content |
//! | --- | --- |
//! | [`tokenise`] | text to ids and back; word by word, pairs, special tokens by role |
//! | [`prompt`] | prompts in parts, put together within a budget |
//! | [`chat_template`], [`chat_prompt`] | messages in a checkpoint's own form; parts as messages, within a budget |
//! | [`model`] | interface of an architecture: [`Encoder`], [`Decoder`], [`EncoderDecoder`] |
//! | [`weights`] | tensors of a checkpoint, checked against the configuration and made usable on a device |
//! | [`architectures`] | each architecture, once, over `hopeval_device::Device` |
//! | [`heads`] | labels, scores, spans and embeddings of an encoder's states |
//! | [`request`] | requests to the engine, and its answers |
//! | [`engine`] | a thread with a device and a model: queue in, completions out |
//! | [`pack`] | batches under a token budget, without I/O |
//! | [`prefix`], [`states_pool`] | shared work: prefixes and encoder states, computed once |
//! | [`score`], [`encode`], [`generate`] | batches of each sort |
//! | [`sample`], [`stop`] | the rule for a next token; stop strings in a growing text |
//! | [`devices`] | devices by name: the one place with a list of them |
//! | [`session`], [`lines`] | a folder opened whole; JSON Lines in, JSON Lines out |
//! | [`self_check`] | the same requests in other batches, compared bit by bit |
//! | [`config`] | `config.json`, by type, with errors that name the field |
//!
//! Forbidden here: timely, tokio, networks, datasets.

pub mod architectures;
pub mod blocks;
pub mod chat_prompt;
pub mod chat_template;
pub mod config;
pub mod devices;
pub mod encode;
pub mod engine;
pub mod error;
pub mod generate;
pub mod heads;
pub mod lines;
pub mod loaded_model;
pub mod model;
pub mod pack;
pub mod prefix;
mod prefix_cache;
pub mod prompt;
pub mod request;
pub mod sample;
pub mod score;
pub mod self_check;
pub mod session;
pub mod states_pool;
pub mod stop;
pub mod tokenise;
mod warm_up;
pub mod weights;

pub use config::ModelConfig;
pub use error::LmError;
pub use model::{Decoder, Encoder, EncoderDecoder, KeyValueCache, LmHead, ModelSizes, PackedBatch};
pub use weights::Weights;
