//! A file of question ids: `dataset.only`.
//!
//! A line is an id, or a JSON object with the key `id`, such as a row of the authors' own files. Empty lines are passed
//! over, and an id may stand there twice. The file may be compressed, as files of datasets may be.

use crate::error::JobError;
use hopeval_datasets::DatasetError;
use hopeval_datasets::input::InputStream;
use serde::Deserialize;
use std::collections::{BTreeSet, HashMap};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// The longest line, in bytes: a row of the authors' files has its passages.
const LONGEST_LINE: u64 = 16 << 20;

/// The characters of an unknown id that an error shows.
const SHOWN: usize = 80;

const BYTE_ORDER_MARK: char = '\u{feff}';

const ALLOWED: &str = "an id in each line, or a JSON object with the text `id`, in lines of at most 16777216 bytes";

/// The ids of a file.
#[derive(Clone, Debug)]
pub(crate) struct QuestionIds {
    path: PathBuf,
    /// The first line of each.
    lines: HashMap<String, u64>,
}

/// A row with an id; its other keys are not read.
#[derive(Deserialize)]
struct IdRow {
    id: String,
}

impl QuestionIds {
    /// The ids in the file `path`.
    ///
    /// # Errors
    /// [`JobError::QuestionIds`] for an unreadable file, a line that is no id, or no id at all.
    pub(crate) fn read(path: &Path) -> Result<Self, JobError> {
        let wrong = |line, found| JobError::QuestionIds { path: path.into(), line, found, allowed: ALLOWED };
        let mut reader = BufReader::new(InputStream::open_file(path).map_err(DatasetError::from)?);
        let mut lines = HashMap::new();
        for number in 1.. {
            let mut text = String::new();
            let read = (&mut reader).take(LONGEST_LINE + 1).read_line(&mut text);
            match read.map_err(|error| wrong(Some(number), error.to_string()))? as u64 {
                0 => break,
                bytes if bytes > LONGEST_LINE => return Err(wrong(Some(number), "a longer line".to_owned())),
                _ => {}
            }
            let id = match text.trim_start_matches(BYTE_ORDER_MARK).trim() {
                "" => continue,
                row if row.starts_with('[') => return Err(wrong(Some(number), "a JSON array".to_owned())),
                row if row.starts_with('{') => {
                    let row: Result<IdRow, _> = serde_json::from_str(row);
                    row.map_err(|error| wrong(Some(number), error.to_string()))?.id
                }
                id => id.to_owned(),
            };
            lines.entry(id).or_insert(number);
        }
        if lines.is_empty() {
            return Err(wrong(None, "no id".to_owned()));
        }
        Ok(Self { path: path.into(), lines })
    }

    /// Whether the file has this id.
    pub(crate) fn contains(&self, id: &str) -> bool {
        self.lines.contains_key(id)
    }

    /// Refuses ids that none of the `known` questions has.
    pub(crate) fn refuse_unknown(&self, known: &BTreeSet<String>) -> Result<(), JobError> {
        let unknown = || self.lines.iter().filter(|(id, _)| !known.contains(*id));
        let count = unknown().count() as u64;
        match unknown().min_by_key(|(_, line)| **line) {
            Some((id, line)) => {
                let id: String = id.chars().take(SHOWN).collect();
                Err(JobError::QuestionIds {
                    path: self.path.clone(),
                    line: Some(*line),
                    found: format!("`{id}`, the first of {count} ids that no readable question of the dataset has"),
                    allowed: "ids of its questions",
                })
            }
            None => Ok(()),
        }
    }

    /// A digest of the ids, whatever their order and form.
    pub(crate) fn digest(&self) -> String {
        let ids: BTreeSet<&String> = self.lines.keys().collect();
        let mut hasher = blake3::Hasher::new_derive_key("hopeval question ids 1");
        for id in ids {
            hasher.update(&(id.len() as u64).to_le_bytes());
            hasher.update(id.as_bytes());
        }
        hasher.finalize().to_hex().to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8]) -> Result<QuestionIds, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ids.txt");
        std::fs::write(&path, text).unwrap();
        QuestionIds::read(&path).map_err(|error| error.to_string().replace(&path.display().to_string(), "FILE"))
    }

    #[test]
    fn ids_are_lines_or_rows() {
        let plain = read(b"b\n\n a \r\nb\n").unwrap();
        let rows = read(b"{\"id\": \"a\", \"answer\": 1}\n{\"question\": \"?\", \"id\": \"b\"}").unwrap();
        assert_eq!(plain.digest(), rows.digest());
        assert!(plain.contains("a") && rows.contains("b") && !rows.contains("c"));
        assert_ne!(read(b"a").unwrap().digest(), plain.digest());
        assert_ne!(read(b"a\nb").unwrap().digest(), read(b"ab").unwrap().digest());
        assert_eq!(read("\u{feff}a\nb".as_bytes()).unwrap().digest(), plain.digest());
    }

    #[test]
    fn what_is_no_id_is_named_with_its_line() {
        for (text, said) in [
            (&b""[..], "FILE: no id; allowed: an id in each line"),
            (b"a\n{\"ids\": 1}\n", "FILE:2: missing field `id`"),
            (b"a\n{\"id\": 7}\n", "FILE:2: invalid type: integer `7`, expected a string"),
            (b"a\n\nb\n{\n", "FILE:4: EOF while parsing"),
            (b"[\"a\", \"b\"]", "FILE:1: a JSON array; allowed: an id in each line"),
            (b"a\n\xff\n", "FILE:2: stream did not contain valid UTF-8"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.starts_with(said), "{error}");
        }
        let long = read(&vec![b'a'; LONGEST_LINE as usize + 1]).unwrap_err();
        assert!(long.starts_with("FILE:1: a longer line"), "{long}");
    }

    #[test]
    fn an_id_without_a_question_is_refused() {
        let ids = read(b"a\nb\nc\n").unwrap();
        let known = BTreeSet::from(["a".to_owned(), "x".to_owned()]);
        let error = ids.refuse_unknown(&known).unwrap_err().to_string();
        assert!(error.contains("ids.txt:2: `b`, the first of 2 ids that no readable question of the"), "{error}");
        read(b"a\nx\n").unwrap().refuse_unknown(&known).unwrap();
    }
}
