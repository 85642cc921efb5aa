//! Checkpoints: folders of a model's configuration, tokenizer and weights, as Hugging Face lays them out.
//!
//! | module | contents |
//! | --- | --- |
//! | [`folder`] | [`Checkpoint`]: an open folder, its weights memory-mapped |
//! | [`digest`] | fingerprints of weights and tokenizer, taken once and remembered |
//! | [`mod@import`] | older formats (`pytorch_model.bin`, SentencePiece, vocabulary and merges) into such a folder |
//!
//! Knows file formats only: neither architectures nor device kernels. Weights are memory-mapped and handed out as
//! [`HostTensor`](hopeval_device::HostTensor)s sharing the map. Nothing in a file is ever executed.

pub mod digest;
pub mod error;
pub mod folder;
pub mod import;
mod mapped;

pub use error::CheckpointError;
pub use folder::Checkpoint;
pub use import::import;
