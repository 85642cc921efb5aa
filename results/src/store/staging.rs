//! Staging files of a local folder. An object is written under `NAME#N` and renamed; a killed writer leaves that file.
//!
//! Listings do not show them, and no name of an object has a `#`. A bucket has none: it expires unfinished uploads by
//! itself.

use super::{Store, StoreError};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// A staging file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StagingFile {
    /// The object that was to be written.
    pub object: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// The time since its last write.
    pub age: Duration,
}

impl Store {
    /// Removes the staging files under `folder`, at any depth, whose writer is `dead`, and returns how many there were.
    /// A writer that is not dead finds its file gone. Its put is tried again: [`Store::put_if_absent`] then finds the
    /// object that was made meanwhile. A large object of several parts fails.
    ///
    /// # Errors
    /// A folder cannot be listed, or a file cannot be removed.
    pub fn remove_staging(&self, folder: &str, dead: &dyn Fn(&StagingFile) -> bool) -> Result<u64, StoreError> {
        let Some(root) = self.local_path().map(Path::to_owned) else { return Ok(0) };
        let (mut removed, below) = (0, folder.to_owned());
        for (name, staged) in self.do_in_folder("list", folder, move || staging_files(&root, below))? {
            if dead(&staged) {
                let path = PathBuf::from(self.full_name(&name));
                self.do_in_folder("remove", &name, move || match fs::remove_file(&path) {
                    Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
                    _ => Ok(()),
                })?;
                removed += 1;
            }
        }
        Ok(removed)
    }
}

/// All staging files under the folder `below` of `root`, with their names.
fn staging_files(root: &Path, below: String) -> std::io::Result<Vec<(String, StagingFile)>> {
    let (mut found, mut folders) = (Vec::new(), vec![below]);
    while let Some(folder) = folders.pop() {
        let entries = match fs::read_dir(root.join(&folder)) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            let name = format!("{folder}/{name}");
            if entry.file_type()?.is_dir() {
                folders.push(name);
            } else if let Some(staged) = staging_file(&entry.path(), &name) {
                found.push((name, staged));
            }
        }
    }
    Ok(found)
}

/// The staging file at `path`; `None` if it is another file, or gone.
fn staging_file(path: &Path, name: &str) -> Option<StagingFile> {
    let (object, number) = name.rsplit_once('#')?;
    if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let metadata = path.metadata().ok()?;
    let age = SystemTime::now().duration_since(metadata.modified().ok()?).unwrap_or_default();
    Some(StagingFile { object: object.to_owned(), bytes: metadata.len(), age })
}

/// Links the object `from` to the name `to`, in place of what has it, and waits until that is on the disk.
pub(super) fn link_file(root: &Path, from: &str, to: &str) -> std::io::Result<()> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let (place, number) = (root.join(to), NUMBER.fetch_add(1, Ordering::Relaxed));
    let folder = place.parent().unwrap_or(root);
    fs::create_dir_all(folder)?;
    let staged = root.join(format!("{to}#{}{number}", process::id()));
    fs::hard_link(root.join(from), &staged)?;
    let renamed = fs::rename(&staged, &place);
    // If both were names of one file already, the renaming has changed nothing and left the staging name.
    match fs::remove_file(&staged) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => renamed?,
    }
    File::open(folder)?.sync_all()
}
