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
    /// A file could not be written.
    #[error("cannot write {}", path.display())]
    Write {
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
    /// A folder holds no weights that can be opened.
    #[error("{}: no model.safetensors and no model.safetensors.index.json; found {found}{hint}", folder.display())]
    NoWeights {
        /// The folder.
        folder: PathBuf,
        /// What is there instead.
        found: String,
        /// What to do about it; empty, or a line that begins with a line break.
        hint: String,
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
    /// A pickle names something that is no part of a state dict; nothing of it was run.
    #[error(
        "{}: the pickle wants {global}, which is no part of a tensor; nothing was run\n\
         hint: allowed are collections.OrderedDict, torch's storages, dtypes and tensor rebuilders; save the model's state_dict again",
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
        /// What is there.
        file: String,
    },
    /// A vocabulary cannot be made into a tokenizer.
    #[error("{}: {reason}", path.display())]
    Vocabulary {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
        /// What `tokenizers` said, where it said something.
        #[source]
        source: Option<tokenizers::Error>,
    },
}
