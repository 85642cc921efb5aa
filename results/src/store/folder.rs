//! Many small files of a local folder in one operation: to hand each to a thread of its own would take longer than to
//! read it.

use super::{Store, StoreError};
use bytes::Bytes;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

/// The most files of one operation, so that its time limit is far away.
const TOGETHER: usize = 1024;

impl Store {
    /// The files `names` below `root`; absent ones are `None`.
    pub(super) fn read_files(&self, root: &Path, names: &[String]) -> Result<Vec<Option<Bytes>>, StoreError> {
        let read = |root: &Path, name: &str| match fs::read(root.join(name)) {
            Ok(bytes) => Ok(Some(Bytes::from(bytes))),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(error),
        };
        let again = |store: &Self, name: &str| match store.get(name) {
            Err(StoreError::NotFound { .. }) => Ok(None),
            got => got.map(Some),
        };
        self.do_for_files("read", root, names, read, again)
    }

    /// The files directly in each of `folders` below `root`, with their sizes, sorted by name.
    pub(super) fn list_files(&self, root: &Path, folders: &[String]) -> Result<Vec<Vec<(String, u64)>>, StoreError> {
        self.do_for_files("list", root, folders, list_folder, |store, folder| store.list(folder))
    }

    /// The results of `work` for each name. Where it fails, `again` waits the failure out, or classifies it.
    fn do_for_files<T: Send + 'static>(
        &self,
        operation: &'static str,
        root: &Path,
        names: &[String],
        work: impl Fn(&Path, &str) -> io::Result<T> + Copy + Send + 'static,
        again: impl Fn(&Self, &str) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        let mut found = Vec::with_capacity(names.len());
        for names in names.chunks(TOGETHER) {
            for name in names {
                self.object_path(name, operation)?;
            }
            let (root, owned, first) = (root.to_owned(), names.to_vec(), names.first().map_or("", String::as_str));
            let one = move || Ok(owned.iter().map(|name| work(&root, name)).collect::<Vec<_>>());
            for (name, done) in names.iter().zip(self.do_in_folder(operation, first, one)?) {
                found.push(done.or_else(|_| again(self, name))?);
            }
        }
        Ok(found)
    }
}

/// The files directly in a folder, as [`Store::list`] shows them.
fn list_folder(root: &Path, folder: &str) -> io::Result<Vec<(String, u64)>> {
    let entries = match fs::read_dir(root.join(folder)) {
        Err(error) if is_absent(&error) => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        // Names of objects have no `#`: this is a staging file.
        if name.contains('#') || !entry.file_type()?.is_file() {
            continue;
        }
        match entry.metadata() {
            Ok(metadata) => files.push((format!("{folder}/{name}"), metadata.len())),
            Err(error) if is_absent(&error) => {}
            Err(error) => return Err(error),
        }
    }
    files.sort();
    Ok(files)
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}
