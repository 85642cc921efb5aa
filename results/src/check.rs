//! Checks of stored files: the size and the BLAKE3 digest of a file, stored by the object that names the file.
//!
//! ```text
//!   run.json --questions.parquet      log: commit --parts      log: gold --its edit      log: final --tables
//! ```
//!
//! Files that no object names carry a digest of their own ([`crate::seal`]); segments of the journal do, too. A file is
//! compared before anything in it is decoded. Stores of earlier versions have no checks: their files are read as they
//! are.

use crate::store::{Store, StoreError};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// The largest file that is read at once; a larger one is hashed in pieces, and read by ranges afterwards.
const WHOLE_BYTES: u64 = 64 << 20;

/// Bytes of a piece. The allocator keeps a freed piece for each thread that has read one.
const PIECE_BYTES: u64 = 2 << 20;

/// The size and the digest of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileCheck {
    /// Its size in bytes.
    pub bytes: u64,
    /// BLAKE3 of the file, in hexadecimal.
    pub digest: String,
}

/// The way to get a damaged file back, as a hint for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileRemedy {
    /// The file cannot be made again.
    Restore,
    /// A table of a finished run: `resume` writes it again.
    Rewrite,
    /// A selection: `tune` makes it again.
    Tune,
}

impl FileRemedy {
    /// The hint.
    pub fn hint(self) -> &'static str {
        match self {
            Self::Restore => {
                "restore the file from a copy of the store, or run the job again: the journal answers what was computed"
            }
            Self::Rewrite => "`hopeval resume RUN` writes the tables of a finished run again, from its outcomes",
            Self::Tune => "restore the file from a copy of the store, or remove it and run `hopeval tune` again",
        }
    }
}

impl FileCheck {
    /// The check of a file with these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self { bytes: bytes.len() as u64, digest: blake3::hash(bytes).to_hex().to_string() }
    }

    /// Reads the object `name` and compares it. Returns its bytes, or `None` for a file too large to be held.
    ///
    /// # Errors
    /// [`StoreError::Damaged`], or an error of the store.
    pub fn verify_file(&self, store: &Store, name: &str, remedy: FileRemedy) -> Result<Option<Bytes>, StoreError> {
        let size = store.size(name)?;
        if size != self.bytes {
            let (found, expected) = (format!("it has {size} bytes"), format!("{} bytes", self.bytes));
            return Err(damaged(store, name, found, expected, remedy));
        }
        let (digest, whole) = if size <= WHOLE_BYTES {
            let whole = store.get(name)?;
            (blake3::hash(&whole), Some(whole))
        } else {
            let mut hasher = blake3::Hasher::new();
            for start in (0..size).step_by(PIECE_BYTES as usize) {
                hasher.update(&store.get_range(name, start..(start + PIECE_BYTES).min(size))?);
            }
            (hasher.finalize(), None)
        };
        let found = digest.to_hex();
        if found.as_str() != self.digest {
            let (found, expected) = (format!("its BLAKE3 digest is {found}"), self.digest.clone());
            return Err(damaged(store, name, found, expected, remedy));
        }
        Ok(whole)
    }
}

/// The bytes of the object `name`, compared with `check` if it has one.
///
/// # Errors
/// [`StoreError::Damaged`], or an error of the store.
pub fn get_checked(
    store: &Store,
    name: &str,
    check: Option<&FileCheck>,
    remedy: FileRemedy,
) -> Result<Bytes, StoreError> {
    match check.map(|check| check.verify_file(store, name, remedy)).transpose()?.flatten() {
        Some(bytes) => Ok(bytes),
        None => store.get(name),
    }
}

fn damaged(store: &Store, name: &str, found: String, expected: String, remedy: FileRemedy) -> StoreError {
    StoreError::Damaged { path: store.full_name(name), found, expected, hint: remedy.hint() }
}
