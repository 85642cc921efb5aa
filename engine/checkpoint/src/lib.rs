//! Checkpoints: folders of a model's configuration, tokenizer and weights, as Hugging Face lays them out.
//!
//! Knows formats of files only: neither architectures nor devices' kernels. Weights are memory-mapped and handed out as
//! [`HostTensor`](hopeval_device::HostTensor)s, which share the map.

pub mod error;
pub mod folder;

pub use error::CheckpointError;
pub use folder::Checkpoint;
