//! The device seam: the operations of language models, on packed tensors.
//!
//! An architecture is written once, over [`Device`]; a device is written once, under it. Between them are about a dozen
//! fused operations ([`seam`]) and a few descriptions of packed sequences ([`layout`]).
//!
//! ```text
//!   architectures, scoring, generation      (hopeval-lm: knows models, no kernel)
//!   ------------------------------------ Device
//!   Cpu (AVX2, AVX-512)      Reference (slow, obviously right)
//! ```
//!
//! Forbidden here: files, tokenizers, configurations of models, queues. Every device calls the [`conformance`] suite.

pub mod conformance;
pub mod cpu;
pub mod energy;
pub mod error;
pub mod host;
pub mod layout;
pub mod pending;
pub mod reference;
pub mod sampling;
pub mod seam;

pub use cpu::Cpu;
pub use energy::DeviceEnergy;
pub use error::DeviceError;
pub use host::{Dtype, HostTensor};
pub use layout::{DistanceBuckets, Packing, TensorColumns};
pub use pending::PendingRead;
pub use reference::Reference;
pub use sampling::{ChosenToken, TokenRule, UnusableLogits};
pub use seam::{
    Activation, Attention, AttentionBias, AttentionMask, Device, DeviceIdentity, DisentangledBias, Epilogue, LogProbs,
    NextToken, Norm, RotaryAngles, RotaryStyle, TableLookup, WeightLayout,
};
