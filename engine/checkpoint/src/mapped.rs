//! Memory maps of weight files, the one place of the crate that needs `unsafe`.

use crate::CheckpointError;
use bytes::Bytes;
use std::fs::File;
use std::path::Path;

/// The bytes of a file, mapped: nothing is read before it is looked at.
///
/// # Errors
/// [`CheckpointError::Read`].
pub(crate) fn map(path: &Path) -> Result<Bytes, CheckpointError> {
    let read = |source| CheckpointError::Read { path: path.to_owned(), source };
    let file = File::open(path).map_err(read)?;
    // SAFETY: the map is read only; a file that changes beneath it is the operator's mistake, as with every mapped index.
    let map = unsafe { memmap2::Mmap::map(&file) }.map_err(read)?;
    Ok(Bytes::from_owner(map))
}
