//! The folder of an unfinished corpus, beside its place and under another name.

use std::{
    fs::{self, File},
    io::ErrorKind,
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU64, Ordering},
};

use crate::error::BuildError;

/// A folder that is moved to its place on success and removed otherwise.
///
/// A killed process leaves it behind, named `.NAME.building-PID-N`. It has no `corpus.json` until everything else is
/// on disk, so it is never mistaken for a corpus.
pub(super) struct CorpusStaging {
    path: PathBuf,
    place: PathBuf,
    published: bool,
}

impl CorpusStaging {
    /// Makes the folder. The place itself may be absent or an empty folder.
    pub(super) fn create(place: &Path) -> Result<Self, BuildError> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        if !is_free(place) {
            return Err(BuildError::Exists { path: place.to_owned() });
        }
        let (parent, name) = (parent_folder(place), place.file_name().unwrap_or_default().to_string_lossy());
        fs::create_dir_all(parent).map_err(BuildError::io(parent))?;
        loop {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let path = parent.join(format!(".{name}.building-{}-{number}", process::id()));
            match fs::create_dir(&path) {
                Ok(()) => return Ok(Self { path, place: place.to_owned(), published: false }),
                // Processes of two containers can have one number.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(source) => return Err(BuildError::Io { path, source }),
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Moves the folder to its place, durably. Its files are already on disk.
    pub(super) fn publish(mut self) -> Result<(), BuildError> {
        sync_folder(&self.path)?;
        match fs::rename(&self.path, &self.place) {
            Ok(()) => {}
            Err(error) if is_taken(error.kind()) => return Err(BuildError::Exists { path: self.place.clone() }),
            Err(source) => return Err(BuildError::Io { path: self.place.clone(), source }),
        }
        self.published = true;
        sync_folder(parent_folder(&self.place))
    }
}

impl Drop for CorpusStaging {
    fn drop(&mut self) {
        if !self.published {
            // Leftovers are never read, so a failure is not reported.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

fn parent_folder(place: &Path) -> &Path {
    match place.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

fn is_free(place: &Path) -> bool {
    match fs::read_dir(place) {
        Ok(mut entries) => entries.next().is_none(),
        Err(_) => fs::symlink_metadata(place).is_err(),
    }
}

/// The kinds of errors of a rename to a place taken meanwhile.
fn is_taken(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::DirectoryNotEmpty | ErrorKind::AlreadyExists | ErrorKind::NotADirectory)
}

fn sync_folder(path: &Path) -> Result<(), BuildError> {
    File::open(path).and_then(|folder| folder.sync_all()).map_err(BuildError::io(path))
}
