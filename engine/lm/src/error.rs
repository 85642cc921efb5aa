//! Errors of the engine.

use crate::chat_template::ChatError;
use crate::heads::HeadKind;
use crate::tokenise::TokeniseError;
use hopeval_checkpoint::CheckpointError;
use hopeval_device::DeviceError;
use std::path::PathBuf;

/// An error of the engine.
#[derive(Debug, thiserror::Error)]
pub enum LmError {
    /// The model's folder is not usable.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A field of `config.json` is missing or has an unsupported value.
    #[error("{}: config.json: {field}: {reason}", folder.display())]
    Config {
        /// The model's folder.
        folder: PathBuf,
        /// The field.
        field: String,
        /// The allowed values and the value found.
        reason: String,
    },
    /// The checkpoint has no such head.
    #[error("{}: this checkpoint has no {wanted}; it has: {has}", folder.display())]
    Head {
        /// The model's folder.
        folder: PathBuf,
        /// The wanted head.
        wanted: HeadKind,
        /// The existing heads.
        has: String,
    },
    /// The tokenizer is not usable.
    #[error(transparent)]
    Tokenise(#[from] TokeniseError),
    /// The chat template is not usable.
    #[error(transparent)]
    Chat(#[from] ChatError),
    /// The engine's thread could not be started.
    #[error("cannot start the engine's thread")]
    Thread(#[source] std::io::Error),
}
