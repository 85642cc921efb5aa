//! Vectors that another program made: the rows of a NumPy file, a safetensors file or a Parquet file.
//!
//! ```text
//!   .npy          header --\
//!   .safetensors  header ---+-> TensorRows, a row at a time --+--> VectorRow: name, numbers
//!   names, one a line ------------------------ NameLines ----/
//!   .parquet      columns of names and vectors --------------/
//! ```
//!
//! The kind of a file is told by its content. Memory holds one row (of Parquet, one batch of rows), whatever size a
//! file claims to have: a claimed size is compared with the file's before a row is read. Every vector of a file has
//! the same width and finite numbers of single precision; a row that breaks a rule is an error with the row's number.

mod error;
mod names;
mod npy;
mod number;
mod parquet;
mod safetensors;
mod tensor;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::error::{RecordPosition, RowError};
use crate::input::{Compression, InputError};
use crate::parquet_file::is_parquet;
use error::file_error;
use names::NameLines;
use parquet::ParquetVectors;
use tensor::TensorRows;

pub use error::VectorError;

/// The column of vectors in a Parquet file, unless another one is named.
const VECTOR_COLUMN: &str = "vector";

/// A file of vectors, and where it has what it is read by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VectorSpec {
    /// The file.
    pub file: PathBuf,
    /// The tensor of a safetensors file. It may be left out if the file has one tensor.
    pub tensor: Option<String>,
    /// A file with the rows' names, one a line. For NumPy and safetensors files.
    pub names: Option<NameFile>,
    /// The column of vectors in a Parquet file; `vector` if it is left out.
    pub vector_column: Option<String>,
    /// The column of names in a Parquet file.
    pub name_column: String,
    /// The setting that names this column, for messages; `None` if no setting does.
    pub name_setting: Option<&'static str>,
}

/// A text file with the names of rows, and the setting that it is named by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameFile {
    /// The file.
    pub path: PathBuf,
    /// The setting, for messages.
    pub setting: &'static str,
}

/// The rows of a file of vectors, in their order.
pub struct VectorFile {
    path: PathBuf,
    rows: SourceRows,
    /// The word for a name in an error's field.
    name_field: String,
    row: Vec<f32>,
    count: u64,
}

enum SourceRows {
    Tensor(Box<TensorRows>, Option<NameLines>),
    Parquet(Box<ParquetVectors>),
}

/// One row.
#[derive(Clone, Debug, PartialEq)]
pub struct VectorRow<'r> {
    /// Its number; the line is that of its name, if the names stand in a file of lines.
    pub position: RecordPosition,
    /// Its name; `None` in a file without names.
    pub name: Option<String>,
    /// The vector.
    pub numbers: &'r [f32],
}

impl VectorFile {
    /// Opens the file, and reads its heading.
    ///
    /// # Errors
    /// A file of another kind, a damaged heading, a tensor that is no list of vectors, settings of another kind of
    /// file.
    pub fn open(spec: &VectorSpec) -> Result<Self, VectorError> {
        let path = &spec.file;
        let name_column = &spec.name_column;
        let rows = match FileKind::of_file(path)? {
            FileKind::Parquet => {
                refuse(path, "tensor", spec.tensor.as_deref(), "a safetensors file")?;
                let names = spec.names.as_ref();
                refuse(path, names.map_or("", |names| names.setting), names.map(|_| "a file of names"), TENSORS)?;
                let column = spec.vector_column.as_deref().unwrap_or(VECTOR_COLUMN);
                SourceRows::Parquet(Box::new(ParquetVectors::open(path, column, name_column)?))
            }
            kind => {
                refuse(path, "vector", spec.vector_column.as_deref(), "a Parquet file")?;
                let setting = spec.name_setting.unwrap_or_default();
                refuse(path, setting, spec.name_setting.map(|_| "a column"), "a Parquet file")?;
                let tensor = match kind {
                    FileKind::Npy => {
                        refuse(path, "tensor", spec.tensor.as_deref(), "a safetensors file")?;
                        npy::open(path)?
                    }
                    _ => safetensors::open(path, spec.tensor.as_deref())?,
                };
                let names = spec.names.as_ref().map(|names| NameLines::open(&names.path)).transpose()?;
                SourceRows::Tensor(Box::new(tensor), names)
            }
        };
        let name_field = if matches!(rows, SourceRows::Parquet(_)) { name_column.clone() } else { String::new() };
        Ok(Self { path: path.clone(), rows, name_field, row: Vec::new(), count: 0 })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its number of rows, by its heading.
    pub fn row_count(&self) -> u64 {
        match &self.rows {
            SourceRows::Tensor(tensor, _) => tensor.row_count(),
            SourceRows::Parquet(vectors) => vectors.row_count(),
        }
    }

    /// Whether its rows have names.
    pub fn has_names(&self) -> bool {
        matches!(self.rows, SourceRows::Tensor(_, Some(_)) | SourceRows::Parquet(_))
    }

    /// The next row; `None` at the end. Not to be called again after an error.
    ///
    /// # Errors
    /// A row without a usable vector or a usable name; more or fewer names than rows; a file that was cut short.
    pub fn next_row(&mut self) -> Result<Option<VectorRow<'_>>, VectorError> {
        let name = match &mut self.rows {
            SourceRows::Tensor(tensor, names) => {
                let more = tensor.read_row(&mut self.row)?;
                let rows = tensor.row_count();
                let name = names.as_mut().map(|names| names.next_name(more, &self.path, rows)).transpose()?.flatten();
                more.then_some(name)
            }
            SourceRows::Parquet(vectors) => vectors.read_row(&mut self.row)?.map(Some),
        };
        let Some(name) = name else {
            return if self.count > 0 { Ok(None) } else { Err(InputError::Empty { path: self.path.clone() }.into()) };
        };
        self.count += 1;
        let line = name.as_ref().map_or(0, |name| name.line);
        let position = RecordPosition { record: self.count, line };
        Ok(Some(VectorRow { position, name: name.map(|name| name.text), numbers: &self.row }))
    }

    /// The error of a row's name.
    pub fn name_error(
        &self,
        position: RecordPosition,
        found: impl Into<String>,
        allowed: impl Into<String>,
    ) -> VectorError {
        let path = match &self.rows {
            SourceRows::Tensor(_, Some(names)) => names.path(),
            _ => &self.path,
        };
        let field = self.name_field.clone();
        RowError { path: path.to_owned(), position, field, found: found.into(), allowed: allowed.into() }.into()
    }

    /// The error of a row's vector.
    pub fn vector_error(
        &self,
        position: RecordPosition,
        found: impl Into<String>,
        allowed: impl Into<String>,
    ) -> VectorError {
        let field = match &self.rows {
            SourceRows::Tensor(..) => String::new(),
            SourceRows::Parquet(vectors) => vectors.column().to_owned(),
        };
        let position = RecordPosition { line: 0, ..position };
        RowError { path: self.path.clone(), position, field, found: found.into(), allowed: allowed.into() }.into()
    }

    /// The error of the file as a whole.
    pub fn file_error(&self, found: impl Into<String>, allowed: impl Into<String>) -> VectorError {
        file_error(&self.path, "", found, allowed)
    }
}

/// The files whose rows may have names in another file.
const TENSORS: &str = "a NumPy or safetensors file";

/// Refuses a setting of another kind of file.
fn refuse(path: &Path, setting: &str, found: Option<&str>, of: &str) -> Result<(), VectorError> {
    match found {
        None => Ok(()),
        Some(found) => Err(file_error(path, "", format!("the setting `{setting}` ({found})"), format!("it with {of}"))),
    }
}

/// The kind of a file of vectors, by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileKind {
    Npy,
    Safetensors,
    Parquet,
}

impl FileKind {
    fn of_file(path: &Path) -> Result<Self, VectorError> {
        let failed = |source| InputError::Open { path: path.to_owned(), source };
        // Before it is opened: to open a pipe would wait for its writer.
        let metadata = std::fs::metadata(path).map_err(failed)?;
        if metadata.is_dir() {
            return Err(InputError::Folder { path: path.to_owned() }.into());
        }
        if !metadata.is_file() {
            return Err(InputError::Irregular { path: path.to_owned() }.into());
        }
        if is_parquet(path)? {
            return Ok(Self::Parquet);
        }
        let mut head = Vec::new();
        File::open(path).and_then(|file| file.take(9).read_to_end(&mut head)).map_err(failed)?;
        match &head[..] {
            [] => Err(InputError::Empty { path: path.to_owned() }.into()),
            head if head.starts_with(npy::MAGIC) => Ok(Self::Npy),
            // The length of the header, and its first character.
            [_, _, _, _, _, _, _, _, b'{'] => Ok(Self::Safetensors),
            head => {
                let found = match Compression::of_magic(head) {
                    Compression::None if head.starts_with(b"PK") => "`PK`, as zip archives and .npz files".to_owned(),
                    Compression::None => format!("`{}`", head.escape_ascii()),
                    compression => format!("a {compression} stream"),
                };
                let allowed = "a .npy file (`\\x93NUMPY`), a .safetensors file (eight bytes and `{`), or a Parquet \
                               file (`PAR1`), none of them compressed as a whole";
                Err(InputError::Foreign { path: path.to_owned(), found, allowed }.into())
            }
        }
    }
}
