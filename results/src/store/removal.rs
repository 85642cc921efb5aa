//! Removes everything under a folder of a store.

use super::{Store, StoreError};
use std::path::Path;

impl Store {
    /// Removes all objects under `folder`, those named in `last` after the others and in their order; in a local folder
    /// the staging files of all writers and the empty folders, too. After an error the rest is still there, and the
    /// same call goes on. No process may be writing there.
    ///
    /// # Errors
    /// A folder cannot be listed, or an object cannot be removed.
    pub fn remove_folder(&self, folder: &str, last: &[String]) -> Result<(), StoreError> {
        for (name, _) in self.list(folder)? {
            if !last.contains(&name) {
                self.delete(&name)?;
            }
        }
        self.remove_staging(folder, &|_| true)?;
        for name in last {
            self.delete(name)?;
        }
        if let Some(path) = self.local_path().map(|root| root.join(folder)) {
            self.do_in_folder("remove", folder, move || {
                remove_empty_folders(&path);
                Ok(())
            })?;
        }
        Ok(())
    }
}

/// Removes a local folder and those in it, as far as they are empty. What another process has put there stays.
fn remove_empty_folders(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_empty_folders(&entry.path());
        }
    }
    let _ = std::fs::remove_dir(folder);
}
