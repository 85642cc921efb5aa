//! What can go wrong in the engine.

use crate::heads::HeadKind;
use crate::tokenise::TokeniseError;
use hopeval_checkpoint::CheckpointError;
use hopeval_device::DeviceError;
use std::path::PathBuf;

/// Why the engine gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum LmError {
    /// The model's folder is not usable.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The device could not do it.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A field of `config.json` is missing or has a value that is not supported.
    #[error("{}: config.json: {field}: {reason}", folder.display())]
    Config {
        /// The model's folder.
        folder: PathBuf,
        /// The field.
        field: String,
        /// What is allowed and what was found.
        reason: String,
    },
    /// The checkpoint has no such head.
    #[error("{}: this checkpoint has no {wanted}; it has: {has}", folder.display())]
    Head {
        /// The model's folder.
        folder: PathBuf,
        /// What was asked for.
        wanted: HeadKind,
        /// What it can be asked for.
        has: String,
    },
    /// The tokenizer is not usable.
    #[error(transparent)]
    Tokenise(#[from] TokeniseError),
    /// The engine's thread could not be started.
    #[error("cannot start the engine's thread")]
    Thread(#[source] std::io::Error),
}
