//! The file of the page, which replaces an earlier page alone, and the folder of the plots: checked before the work.

use super::page::PAGE_START;
use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

/// A file that takes the page.
pub(super) struct PageFile {
    path: PathBuf,
    /// A device or a pipe is written as it is; a file is replaced when the new one is whole.
    is_replaced: bool,
}

impl PageFile {
    /// Checks that the page can go to `path`: a new file of an existing folder, or the file of an earlier page.
    ///
    /// # Errors
    /// The folder does not exist; the path is a folder; its file is no page of `hopeval report`.
    pub(super) fn new(path: &Path) -> Result<Self> {
        let folder = folder_of(path);
        if !folder.is_dir() {
            bail!("cannot write {}: there is no folder {}", path.display(), folder.display());
        }
        let found = match fs::metadata(path) {
            Ok(found) => found,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Ok(Self { path: path.to_owned(), is_replaced: true });
            }
            Err(error) => return Err(error).with_context(|| format!("cannot look at {}", path.display())),
        };
        if found.is_dir() {
            bail!("cannot write {}: it is a folder; name a file in it", path.display());
        }
        if found.is_file() && found.len() > 0 && !is_page(path)? {
            bail!(
                "cannot write {}: the file is there and is no page of hopeval report; name another one or remove it",
                path.display()
            );
        }
        Ok(Self { path: path.to_owned(), is_replaced: found.is_file() })
    }

    /// Writes the page: who reads the file meanwhile has the earlier page or the new one.
    pub(super) fn write(&self, text: &str) -> Result<()> {
        let failed = || format!("cannot write {}", self.path.display());
        if !self.is_replaced {
            return fs::write(&self.path, text).with_context(failed);
        }
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let beside = folder_of(&self.path).join(format!(".{name}.{}", std::process::id()));
        let written = fs::write(&beside, text).and_then(|()| fs::rename(&beside, &self.path));
        if written.is_err() {
            // The first error is the one that is told.
            let _ = fs::remove_file(&beside);
        }
        written.with_context(failed)
    }
}

/// Makes the folder of the plots, and returns the names of the SVG files that are there already.
pub(super) fn plot_folder(folder: &Path) -> Result<Vec<String>> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read the folder {}", folder.display()))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        names.extend(name.ends_with(".svg").then_some(name));
    }
    Ok(names)
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Whether a file begins as pages do.
fn is_page(path: &Path) -> Result<bool> {
    let mut start = Vec::new();
    let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    file.take(PAGE_START.len() as u64).read_to_end(&mut start)?;
    Ok(start == PAGE_START.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pages_are_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("page.html");
        PageFile::new(&path).unwrap().write("other text").unwrap();
        let refused = PageFile::new(&path).err().unwrap().to_string();
        assert!(refused.contains("is no page of hopeval report"), "{refused}");
        fs::write(&path, format!("{PAGE_START} and more")).unwrap();
        PageFile::new(&path).unwrap().write("new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no file beside it is left");
        let refused = PageFile::new(&dir.path().join("none/page.html")).err().unwrap().to_string();
        assert!(refused.contains("there is no folder"), "{refused}");
        let refused = PageFile::new(dir.path()).err().unwrap().to_string();
        assert!(refused.contains("it is a folder"), "{refused}");
    }

    #[test]
    fn earlier_plots_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("plots");
        assert!(plot_folder(&folder).unwrap().is_empty());
        fs::write(folder.join("old.svg"), "").unwrap();
        fs::write(folder.join("notes.txt"), "").unwrap();
        assert_eq!(plot_folder(&folder).unwrap(), ["old.svg"]);
    }
}
