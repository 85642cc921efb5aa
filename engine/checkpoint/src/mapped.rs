//! Memory maps of weight files; the only place of the crate with `unsafe`.

use crate::CheckpointError;
use crate::digest::FileStamp;
use bytes::Bytes;
use std::fs::File;
use std::path::Path;

/// The bytes of a file, mapped: a page is read on first access.
///
/// # Errors
/// [`CheckpointError::Read`].
pub(crate) fn map_file(path: &Path) -> Result<Bytes, CheckpointError> {
    map_stamped(path).map(|(bytes, _)| bytes)
}

/// The same, and the size and time of this very file, whatever stands at the path later.
///
/// # Errors
/// [`CheckpointError::Read`].
pub(crate) fn map_stamped(path: &Path) -> Result<(Bytes, FileStamp), CheckpointError> {
    let read = |source| CheckpointError::Read { path: path.to_owned(), source };
    let file = File::open(path).map_err(read)?;
    let stamp = FileStamp::of_file(&file).map_err(read)?;
    // SAFETY: the map is read-only. A file that changes beneath it is the operator's mistake, as with every mapped
    // index.
    let map = unsafe { memmap2::Mmap::map(&file) }.map_err(read)?;
    Ok((Bytes::from_owner(map), stamp))
}
