//! A folder that appears whole or not at all: written beside its place, moved there at the end, removed on failure.

use crate::CheckpointError;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Files on their way to a folder.
#[derive(Debug)]
pub(super) struct ImportStaging {
    path: PathBuf,
    out: PathBuf,
}

impl ImportStaging {
    /// Creates a folder on `out`'s file system: inside `out` if that exists, else in its nearest existing parent.
    ///
    /// # Errors
    /// [`CheckpointError::Write`].
    pub(super) fn create_beside(out: &Path) -> Result<Self, CheckpointError> {
        let write = |path: PathBuf| move |source| CheckpointError::Write { path, source };
        let out = std::path::absolute(out).map_err(write(out.to_owned()))?;
        let home = out.ancestors().find(|path| path.is_dir()).unwrap_or(&out).to_owned();
        // Another import into the same place, running or killed, has its own.
        for number in 0_u64.. {
            let path = home.join(format!(".hopeval-import-{}-{number}", std::process::id()));
            match std::fs::create_dir(&path) {
                Ok(()) => return Ok(Self { path, out }),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(write(out)(error)),
            }
        }
        unreachable!("a free number comes before 2^64; this is a bug")
    }

    /// The folder to write into.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Moves all files to their place, `config.json` last: without it no folder is a model.
    ///
    /// # Errors
    /// [`CheckpointError::Write`].
    pub(super) fn commit(self) -> Result<(), CheckpointError> {
        let write = |path: &Path| {
            let path = path.to_owned();
            move |source| CheckpointError::Write { path, source }
        };
        if !self.out.is_dir() {
            if let Some(parent) = self.out.parent() {
                std::fs::create_dir_all(parent).map_err(write(parent))?;
            }
            return std::fs::rename(&self.path, &self.out).map_err(write(&self.out));
        }
        let entries = std::fs::read_dir(&self.path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let mut names: Vec<_> =
            entries.map_err(write(&self.path))?.into_iter().map(|entry| entry.file_name()).collect();
        names.sort_by_key(|name| (name == OsStr::new("config.json"), name.clone()));
        for name in names {
            let to = self.out.join(&name);
            std::fs::rename(self.path.join(&name), &to).map_err(write(&to))?;
        }
        Ok(())
    }
}

impl Drop for ImportStaging {
    fn drop(&mut self) {
        // A folder moved as a whole is gone already. Otherwise this is best effort.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}
