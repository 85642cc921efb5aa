//! Opens a file, compressed or not, as one stream of bytes.
//!
//! The compression is detected from the first bytes, never from the name: gzip (with any number of members), zstd (with
//! any number of frames), bzip2 (with any number of streams) or none. Memory holds only the decoder's window.
//! [`crate::records`] interprets the bytes.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Bytes read from the disk at a time.
const READ_AHEAD: usize = 256 << 10;

/// The compression of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// Not compressed.
    None,
    /// RFC 1952, one or several members.
    Gzip,
    /// RFC 8878, one or several frames.
    Zstd,
    /// bzip2, one or several streams.
    Bzip2,
}

impl Compression {
    /// The compression of a file with these first bytes.
    pub fn of_magic(bytes: &[u8]) -> Self {
        match bytes {
            [0x1f, 0x8b, ..] => Self::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Self::Zstd,
            [b'B', b'Z', b'h', b'1'..=b'9', ..] => Self::Bzip2,
            _ => Self::None,
        }
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "plain",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
            Self::Bzip2 => "bzip2",
        })
    }
}

/// Why a file cannot be read, or not to its end. The cause is not one of its rows.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// The file is missing, or reading it is not permitted.
    #[error("cannot open {}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// A folder in place of a file.
    #[error("{} is a folder; allowed: a file", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
    },
    /// A pipe, a device or a socket in place of a file.
    #[error(
        "{} is a pipe or a device; allowed: a regular file\nhint: it is read more than once: write it to a file",
        path.display()
    )]
    Irregular {
        /// The pipe or device.
        path: PathBuf,
    },
    /// The compressed stream ends before its end mark: the file was cut short.
    #[error(
        "{}: the {compression} stream is truncated: it ends after {bytes} uncompressed bytes, in line {line}",
        path.display()
    )]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Its compression.
        compression: Compression,
        /// Uncompressed bytes read before the end.
        bytes: u64,
        /// The line (from 1) in which the stream ends.
        line: u64,
    },
    /// Reading failed, or the compressed stream is damaged.
    #[error("{}: cannot read on after {bytes} uncompressed bytes, in line {line}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Uncompressed bytes read before the failure.
        bytes: u64,
        /// The line (from 1) of the failure.
        line: u64,
        /// The error of the system or the decoder.
        #[source]
        source: io::Error,
    },
    /// The file holds neither JSON nor a table allowed by its format.
    #[error("{}: starts with {found}; allowed: {allowed}", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// Its first characters.
        found: String,
        /// The allowed beginnings.
        allowed: &'static str,
    },
    /// The records are not separated or closed as JSON requires. The rest of the file cannot be cut into records.
    #[error("{}:{line}: after record {record}: found {found}; allowed: {allowed}", path.display())]
    Layout {
        /// The file.
        path: PathBuf,
        /// The line (from 1).
        line: u64,
        /// Number of records before this place.
        record: u64,
        /// The text found.
        found: String,
        /// The allowed text.
        allowed: &'static str,
    },
    /// A Parquet file is damaged, or has what is not read here.
    #[error("{}: cannot be read as Parquet: the file is damaged, or of another kind", path.display())]
    Parquet {
        /// The file.
        path: PathBuf,
        /// The reason, with row group and column where they are known.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The file has no record.
    #[error("{}: holds no rows", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
}

/// A file's uncompressed bytes.
pub struct InputStream {
    reader: Box<dyn Read + Send>,
    compression: Compression,
}

impl fmt::Debug for InputStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Input").field("compression", &self.compression).finish_non_exhaustive()
    }
}

impl InputStream {
    /// As [`InputStream::open`], for a file that is read more than once: a pipe or a device is refused.
    ///
    /// # Errors
    /// As [`InputStream::open`], and for anything but a regular file.
    pub fn open_file(path: &Path) -> Result<Self, InputError> {
        // Before it is opened: to open a pipe would wait for its writer.
        let metadata = std::fs::metadata(path).map_err(|source| InputError::Open { path: path.to_owned(), source })?;
        if !metadata.is_file() && !metadata.is_dir() {
            return Err(InputError::Irregular { path: path.to_owned() });
        }
        Self::open(path)
    }

    /// Opens `path`, whatever its extension.
    ///
    /// # Errors
    /// The file is missing or cannot be read or decompressed, or it is a folder.
    pub fn open(path: &Path) -> Result<Self, InputError> {
        let cannot_open = |source| InputError::Open { path: path.to_owned(), source };
        let file = File::open(path).map_err(cannot_open)?;
        if file.metadata().map_err(cannot_open)?.is_dir() {
            return Err(InputError::Folder { path: path.to_owned() });
        }
        let mut file = BufReader::with_capacity(READ_AHEAD, file);
        let compression = Compression::of_magic(file.fill_buf().map_err(cannot_open)?);
        let reader: Box<dyn Read + Send> = match compression {
            Compression::None => Box::new(file),
            Compression::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(file)),
            Compression::Zstd => Box::new(zstd::stream::read::Decoder::with_buffer(file).map_err(cannot_open)?),
            Compression::Bzip2 => Box::new(bzip2::bufread::MultiBzDecoder::new(file)),
        };
        Ok(Self { reader, compression })
    }

    /// The compression of the file.
    pub fn compression(&self) -> Compression {
        self.compression
    }
}

impl Read for InputStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.reader.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }
}
