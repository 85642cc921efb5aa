//! Files of results: each line by the key of its request; and the reasons why lines are of no use.

use crate::error::JobError;
use hopeval_endpoint::offline::line_id;
use rustc_hash::FxHashMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The place of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LinePlace {
    /// The file, by its position among all files.
    file: u32,
    /// The line's number, from 1.
    number: u32,
    offset: u64,
    bytes: u32,
}

/// One line of results.
pub(super) struct ResultRow {
    /// Its place.
    pub(super) place: LinePlace,
    /// Its bytes.
    pub(super) bytes: Vec<u8>,
}

/// The files of results of one service.
#[derive(Default)]
pub(super) struct ResultFiles {
    files: Vec<(PathBuf, File)>,
    lines: FxHashMap<[u8; 32], Vec<LinePlace>>,
    /// Reasons why lines are of no use, each with its file and number.
    problems: Vec<((u32, u32), String)>,
}

impl ResultFiles {
    /// Reads the keys of all lines of all files `*.jsonl` in the folder, which is made where it is missing.
    pub(super) fn open(folder: &Path) -> Result<Self, JobError> {
        let failed = |source| JobError::Io { path: folder.to_owned(), operation: "cannot be made for results", source };
        fs::create_dir_all(folder).map_err(failed)?;
        let mut found = Self::default();
        for path in json_files(folder, "jsonl")? {
            let file = File::open(&path).map_err(|source| unreadable(&path, source))?;
            found.files.push((path.clone(), file));
            let index = found.files.len() as u32 - 1;
            read_lines(&path, |number, offset, line| {
                let place = LinePlace { file: index, number, offset, bytes: line.len() as u32 };
                match line_id(line) {
                    Ok(id) => match parse_key(&id) {
                        Some(key) => found.lines.entry(key).or_default().push(place),
                        None => found.note(place, &format!("`custom_id` {id:?} is no key of a request")),
                    },
                    Err(reason) => found.note(place, &reason),
                }
            })?;
        }
        Ok(found)
    }

    /// The different lines for a key, in the order of files and lines. A copy of a line counts once.
    pub(super) fn take_results(&mut self, key: &[u8; 32]) -> Result<Vec<ResultRow>, JobError> {
        let mut rows: Vec<ResultRow> = Vec::new();
        for place in self.lines.remove(key).unwrap_or_default() {
            let (path, file) = &self.files[place.file as usize];
            let mut bytes = vec![0; place.bytes as usize];
            file.read_exact_at(&mut bytes, place.offset).map_err(|source| unreadable(path, source))?;
            match rows.iter().find(|row| row.bytes == bytes) {
                Some(first) => {
                    let first = self.place_name(first.place);
                    self.note(place, &format!("a copy of {first}"));
                }
                None => rows.push(ResultRow { place, bytes }),
            }
        }
        Ok(rows)
    }

    /// A line by its file and number.
    pub(super) fn place_name(&self, place: LinePlace) -> String {
        format!("{}:{}", self.files[place.file as usize].0.display(), place.number)
    }

    /// Notes why a line is of no use.
    pub(super) fn note(&mut self, place: LinePlace, reason: &str) {
        let problem = format!("{}: {reason}", self.place_name(place));
        self.problems.push(((place.file, place.number), problem));
    }

    /// The lines that no request of this run asked for, and whose requests nobody wrote here: those of another run, or
    /// of a job that has changed. Lines that earlier generations have used are none of these.
    pub(super) fn unasked(&self, is_written: impl Fn(&[u8; 32]) -> bool) -> Vec<LinePlace> {
        let foreign = self.lines.iter().filter(|(key, _)| !is_written(key)).flat_map(|(_, places)| places);
        let mut places: Vec<LinePlace> = foreign.copied().collect();
        places.sort_by_key(|place| (place.file, place.number));
        places
    }

    /// All reasons, in the order of files and lines; `unasked` lines have one, too.
    pub(super) fn into_problems(mut self, unasked: Vec<LinePlace>) -> Vec<String> {
        for place in unasked {
            self.note(place, "no file of requests has its `custom_id`, and this run did not ask for it");
        }
        self.problems.sort();
        self.problems.into_iter().map(|(_, problem)| problem).collect()
    }
}

/// A key in the form of a `custom_id`.
pub(super) fn parse_key(id: &str) -> Option<[u8; 32]> {
    blake3::Hash::from_hex(id).ok().map(|hash| *hash.as_bytes())
}

/// The files of a folder with this ending, by name.
pub(super) fn json_files(folder: &Path, ending: &str) -> Result<Vec<PathBuf>, JobError> {
    let entries = fs::read_dir(folder).map_err(|source| unreadable(folder, source))?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(|source| unreadable(folder, source))?.path();
        if path.extension().is_some_and(|found| found == ending) && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Visits the lines of a file that are not blank, each with its number from 1 and its offset, without its end.
pub(super) fn read_lines(path: &Path, mut visit: impl FnMut(u32, u64, &[u8])) -> Result<(), JobError> {
    let failed = |source| unreadable(path, source);
    let mut reader = BufReader::with_capacity(1 << 20, File::open(path).map_err(failed)?);
    let (mut line, mut offset) = (Vec::new(), 0);
    for number in 1.. {
        line.clear();
        let read = reader.read_until(b'\n', &mut line).map_err(failed)?;
        if read == 0 {
            break;
        }
        if !line.trim_ascii().is_empty() {
            visit(number, offset, line.trim_ascii_end());
        }
        offset += read as u64;
    }
    Ok(())
}

fn unreadable(path: &Path, source: io::Error) -> JobError {
    JobError::Io { path: path.to_owned(), operation: "cannot be read", source }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u64) -> [u8; 32] {
        parse_key(&format!("{number:064x}")).unwrap()
    }

    #[test]
    fn lines_are_found_by_key_and_useless_ones_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let line = |number: u64, text: &str| format!("{{\"custom_id\":\"{number:064x}\",\"text\":\"{text}\"}}");
        let first =
            [line(2, "a"), String::new(), "<html>".to_owned(), line(1, "b"), "{\"custom_id\":\"x\"}".to_owned()];
        fs::write(dir.path().join("a.jsonl"), first.join("\n") + "\n").unwrap();
        // A copy, a second result, and a line of another run; the last one is cut off.
        let second = [line(1, "b"), line(1, "c"), line(9, "d"), "{\"custom_id\":".to_owned()];
        fs::write(dir.path().join("b.jsonl"), second.join("\r\n")).unwrap();
        fs::write(dir.path().join("notes.txt"), "no result").unwrap();
        let mut results = ResultFiles::open(dir.path()).unwrap();
        let found = results.take_results(&key(1)).unwrap();
        let texts: Vec<_> = found.iter().map(|row| String::from_utf8_lossy(&row.bytes).into_owned()).collect();
        assert_eq!(texts, [line(1, "b"), line(1, "c")], "a copy counts once");
        assert!(results.take_results(&key(1)).unwrap().is_empty(), "taken once");
        assert!(results.take_results(&key(3)).unwrap().is_empty());
        let unasked = results.unasked(|asked| *asked == key(2));
        let problems = results.into_problems(unasked);
        let expected = [
            "a.jsonl:3: not a JSON",
            "a.jsonl:5: `custom_id` \"x\"",
            "b.jsonl:1: a copy of",
            "b.jsonl:3: no file",
            "b.jsonl:4: not a JSON",
        ];
        assert_eq!(problems.len(), expected.len(), "{problems:?}");
        for (problem, expected) in problems.iter().zip(expected) {
            assert!(problem.contains(expected), "{problem}");
        }
    }
}
