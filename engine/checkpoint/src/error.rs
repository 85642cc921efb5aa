//! What can be wrong with a checkpoint.

use std::path::PathBuf;

/// Why a checkpoint cannot be used; every variant names the file.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// A file could not be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// A file is not what its name says.
    #[error("{}: {reason}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What was expected and what was found.
        reason: String,
    },
    /// A tensor that the configuration calls for is not there.
    #[error("{}: no tensor {name} (shape {shape:?} expected by config.json)", folder.display())]
    Missing {
        /// The folder.
        folder: PathBuf,
        /// The tensor; alternatives are separated by " or ".
        name: String,
        /// What the configuration makes it.
        shape: Vec<usize>,
    },
    /// A tensor has another shape than the configuration says.
    #[error("{}: tensor {name}: expected shape {expected:?} by config.json, found {found:?}", folder.display())]
    Shape {
        /// The folder.
        folder: PathBuf,
        /// The tensor.
        name: String,
        /// By the configuration.
        expected: Vec<usize>,
        /// In the file.
        found: Vec<usize>,
    },
    /// A tensor holds numbers of a type that weights cannot have.
    #[error("{}: tensor {name}: dtype {found} is not one of F32, F16, BF16", path.display())]
    Dtype {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// As the file names it.
        found: String,
    },
}
