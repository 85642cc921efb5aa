//! Files of requests: written within the batch API's limits, each whole or absent; and the requests written earlier.

use super::result_files::{json_files, parse_key, read_lines};
use crate::error::JobError;
use hopeval_endpoint::offline::{MOST_FILE_BYTES, MOST_LINES, line_id};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// The ending of a file that is not whole yet.
const PART: &str = "part";

/// The folder with the files of requests of one service.
pub(super) struct RequestFiles {
    folder: PathBuf,
    /// Held as long as this run writes here.
    _lock: File,
    /// The lines written earlier, by key.
    earlier: FxHashMap<[u8; 32], usize>,
    /// The number of the next file.
    next: u32,
    /// The file under construction of each path of the API.
    open: BTreeMap<&'static str, OpenFile>,
    /// The files that are complete, to be given their names.
    full: Vec<PathBuf>,
}

/// A file under construction.
struct OpenFile {
    path: PathBuf,
    writer: BufWriter<File>,
    lines: usize,
    bytes: u64,
}

fn failed(path: &Path, operation: &'static str, source: io::Error) -> JobError {
    JobError::Io { path: path.to_owned(), operation, source }
}

impl RequestFiles {
    /// Opens the folder, made where it is missing, and reads which requests stand in its files.
    pub(super) fn open(folder: &Path) -> Result<Self, JobError> {
        fs::create_dir_all(folder).map_err(|source| failed(folder, "cannot be made for batch files", source))?;
        let lock = lock_folder(folder)?;
        // Only a run that was killed leaves an unfinished file: the lock is ours.
        let parts = json_files(folder, PART)?;
        for part in &parts {
            fs::remove_file(part).map_err(|source| failed(part, "cannot be removed", source))?;
        }
        let mut earlier: FxHashMap<[u8; 32], usize> = FxHashMap::default();
        let mut next = 1;
        for path in json_files(folder, "jsonl")? {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let number = name.split('-').next().and_then(|number| number.parse::<u32>().ok()).unwrap_or(0);
            next = next.max(number + 1);
            read_lines(&path, |_, _, line| {
                if let Some(key) = line_id(line).ok().as_deref().and_then(parse_key) {
                    *earlier.entry(key).or_default() += 1;
                }
            })?;
        }
        let (open, full) = (BTreeMap::new(), Vec::new());
        Ok(Self { folder: folder.to_owned(), _lock: lock, earlier, next, open, full })
    }

    /// The lines of a request in the files that were whole when the folder was opened.
    pub(super) fn times_written(&self, key: &[u8; 32]) -> usize {
        self.earlier.get(key).copied().unwrap_or(0)
    }

    /// Writes the line of a request for the path `route` of the API.
    pub(super) fn write_line(&mut self, route: &'static str, line: &[u8]) -> Result<(), JobError> {
        let bytes = line.len() as u64;
        if self.open.get(route).is_some_and(|open| open.lines >= MOST_LINES || open.bytes + bytes > MOST_FILE_BYTES)
            && let Some(open) = self.open.remove(route)
        {
            self.full.push(open.complete()?);
        }
        let open = match self.open.remove(route) {
            Some(open) => open,
            None => self.new_file(route)?,
        };
        let open = self.open.entry(route).or_insert(open);
        open.writer.write_all(line).map_err(|source| failed(&open.path, "cannot be written", source))?;
        open.lines += 1;
        open.bytes += bytes;
        Ok(())
    }

    fn new_file(&mut self, route: &str) -> Result<OpenFile, JobError> {
        let path = self.folder.join(format!("{:04}-{route}.jsonl.{PART}", self.next));
        self.next += 1;
        let file = File::create_new(&path).map_err(|source| failed(&path, "cannot be made", source))?;
        Ok(OpenFile { path, writer: BufWriter::new(file), lines: 0, bytes: 0 })
    }

    /// Gives the written files their names, and returns them.
    pub(super) fn finish(mut self) -> Result<Vec<PathBuf>, JobError> {
        for (_, open) in std::mem::take(&mut self.open) {
            self.full.push(open.complete()?);
        }
        self.full.sort();
        let mut named = Vec::new();
        for part in &self.full {
            let path = part.with_extension("");
            fs::rename(part, &path).map_err(|source| failed(part, "cannot be renamed", source))?;
            named.push(path);
        }
        let folder = File::open(&self.folder).and_then(|folder| folder.sync_all());
        folder.map_err(|source| failed(&self.folder, "cannot be made durable", source))?;
        Ok(named)
    }
}

impl OpenFile {
    /// Writes everything to the disk.
    fn complete(self) -> Result<PathBuf, JobError> {
        let Self { path, writer, .. } = self;
        let written = writer.into_inner().map_err(io::IntoInnerError::into_error).and_then(|file| file.sync_all());
        written.map_err(|source| failed(&path, "cannot be written", source))?;
        Ok(path)
    }
}

/// The lock of the folder: two runs that write at once would both write what they both ask.
fn lock_folder(folder: &Path) -> Result<File, JobError> {
    let path = folder.join("lock");
    let open = File::options().create(true).truncate(false).write(true).open(&path);
    let lock = open.map_err(|source| failed(&path, "cannot be opened", source))?;
    lock.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => {
            let held = io::Error::new(io::ErrorKind::ResourceBusy, "it is locked");
            failed(&path, "another run writes batch files here; wait for its end", held)
        }
        TryLockError::Error(source) => failed(&path, "cannot be locked", source),
    })?;
    Ok(lock)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line of the request `number`, of about `bytes` bytes.
    fn line(number: u64, bytes: usize) -> Vec<u8> {
        format!("{{\"custom_id\":\"{number:064x}\",\"x\":\"{}\"}}\n", "x".repeat(bytes)).into_bytes()
    }

    #[test]
    fn files_are_split_at_the_limits_and_whole_or_absent() {
        let dir = tempfile::tempdir().unwrap();
        let mut files = RequestFiles::open(dir.path()).unwrap();
        assert!(RequestFiles::open(dir.path()).is_err_and(|error| error.to_string().contains("another run")));
        for number in 0..MOST_LINES as u64 + 1 {
            files.write_line("chat", &line(number, 1)).unwrap();
        }
        files.write_line("completions", &line(7, MOST_FILE_BYTES as usize - 50)).unwrap();
        files.write_line("completions", &line(8, 100)).unwrap();
        assert!(json_files(dir.path(), "jsonl").unwrap().is_empty(), "none is whole before the end");
        let names = files.finish().unwrap();
        let names: Vec<_> = names.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
        assert_eq!(names, ["0001-chat.jsonl", "0002-chat.jsonl", "0003-completions.jsonl", "0004-completions.jsonl"]);
        let text = fs::read_to_string(dir.path().join("0001-chat.jsonl")).unwrap();
        assert_eq!(text.lines().count(), MOST_LINES);
        fs::remove_file(dir.path().join("0003-completions.jsonl")).unwrap();

        // A killed run's file goes; the next number is free; requests are known by their keys.
        fs::write(dir.path().join("0009-chat.jsonl.part"), "{").unwrap();
        let mut files = RequestFiles::open(dir.path()).unwrap();
        let key = |number: u64| parse_key(&format!("{number:064x}")).unwrap();
        assert_eq!([0, 7, 8, 1_000_000].map(|number| files.times_written(&key(number))), [1, 1, 2, 0]);
        files.write_line("chat", &line(1, 1)).unwrap();
        assert_eq!(files.finish().unwrap(), [dir.path().join("0005-chat.jsonl")]);
    }
}
