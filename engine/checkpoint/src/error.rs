//! Errors of checkpoints.

use std::path::PathBuf;

/// Reasons why a checkpoint cannot be used; every variant names the file.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// A file could not be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
    /// A file could not be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
    /// A file is not of the format that its name promises.
    #[error("{}: {reason}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The expected and the found content.
        reason: String,
    },
    /// A folder holds no weights in a known format.
    #[error("{}: no model.safetensors and no model.safetensors.index.json; found {found}{hint}", folder.display())]
    NoWeights {
        /// The folder.
        folder: PathBuf,
        /// The files found instead.
        found: String,
        /// Advice; empty, or a line that begins with a line break.
        hint: String,
    },
    /// A tensor required by the configuration is missing.
    #[error("{}: no tensor {name} (shape {shape:?} expected by config.json)", folder.display())]
    Missing {
        /// The folder.
        folder: PathBuf,
        /// The tensor; alternatives are separated by " or ".
        name: String,
        /// The shape by the configuration.
        shape: Vec<usize>,
    },
    /// The shape of a tensor differs from the configuration.
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
    /// The numbers of a tensor have a type unfit for weights.
    #[error("{}: tensor {name}: dtype {found} is not one of F32, F16, BF16", path.display())]
    Dtype {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// The type's name in the file.
        found: String,
    },
    /// A pickle names something outside a state dict; nothing of it was executed.
    #[error(
        "{}: the pickle wants {global}, which is no part of a tensor; nothing was run\n\
         hint: allowed are collections.OrderedDict, torch's storages, dtypes and tensor rebuilders; \
         save the model's state_dict again",
        path.display()
    )]
    Global {
        /// The file.
        path: PathBuf,
        /// `module.name`, as the pickle writes it.
        global: String,
    },
    /// An import would write over a model.
    #[error("{}: already holds {file}\nhint: import into a new or empty folder", folder.display())]
    Exists {
        /// The folder.
        folder: PathBuf,
        /// The existing file.
        file: String,
    },
    /// A vocabulary cannot be made into a tokenizer.
    #[error("{}: {reason}", path.display())]
    Vocabulary {
        /// The file.
        path: PathBuf,
        /// The defect.
        reason: String,
        /// The error of `tokenizers`, if it caused this one.
        #[source]
        source: Option<tokenizers::Error>,
    },
}
