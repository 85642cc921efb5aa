//! Compares the files of a data folder with the list: size, SHA-256, and counts where the digest is not known.
//!
//! A digest that fits needs no counts. A corpus of many files has no digest, so its passages are counted. What the list
//! does not know is not compared, and the finding says so.

use crate::checksum::file_sha256;
use crate::files::{PublicFile, PublicFiles};
use hopeval_datasets::{DatasetError, DatasetSpec, PassageSpec, Passages, Questions, RowPolicy};
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The comparison of one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VerifiedFile {
    /// The entry's name.
    pub name: String,
    /// Its place.
    pub path: PathBuf,
    /// The result.
    #[serde(flatten)]
    pub finding: FileFinding,
}

/// The result of a comparison.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "finding", rename_all = "snake_case")]
pub enum FileFinding {
    /// The digest is the list's.
    Same,
    /// All that the list knows of it fits, and that is no digest.
    AsFarAsKnown {
        /// The compared facts; empty if the list has none.
        compared: Vec<&'static str>,
    },
    /// An archive is not there, and all that is unpacked from it is.
    Unpacked,
    /// It is not there.
    Missing {
        /// The way to get it.
        remedy: String,
    },
    /// A model's folder lacks a file.
    Incomplete {
        /// The missing part.
        lack: String,
        /// The way to get it.
        remedy: String,
    },
    /// A file in place of a folder, or the other way round.
    Kind {
        /// The kind that is needed.
        expected: &'static str,
    },
    /// Another size.
    Size {
        /// Its bytes.
        found: u64,
        /// The list's.
        expected: u64,
    },
    /// Another digest: other bytes.
    Digest {
        /// Its SHA-256.
        found: String,
        /// The list's.
        expected: String,
    },
    /// Another number of questions or passages.
    Count {
        /// `questions` or `passages`.
        of: &'static str,
        /// Its number.
        found: u64,
        /// The list's.
        expected: u64,
    },
    /// It cannot be read to its end.
    Unreadable {
        /// The error, with its causes.
        reason: String,
    },
}

impl FileFinding {
    /// Whether the file can be used.
    pub fn is_good(&self) -> bool {
        matches!(self, Self::Same | Self::AsFarAsKnown { .. } | Self::Unpacked)
    }
}

impl fmt::Display for FileFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Same => f.write_str("the same: its SHA-256 is the list's"),
            Self::AsFarAsKnown { compared } if compared.is_empty() => {
                f.write_str("there; nothing is known to compare it with")
            }
            Self::AsFarAsKnown { compared } => {
                write!(f, "fits as far as known: {}; its digest is unknown", compared.join(", "))
            }
            Self::Unpacked => f.write_str("not there, and not needed: its files are unpacked"),
            Self::Missing { remedy } => write!(f, "missing: {remedy}"),
            Self::Incomplete { lack, remedy } => write!(f, "incomplete: {lack}: {remedy}"),
            Self::Kind { expected } => write!(f, "not a {expected}"),
            Self::Size { found, expected } => write!(f, "{found} bytes, and the list says {expected}"),
            Self::Digest { found, expected } => {
                write!(f, "other bytes: its SHA-256 is {found}, and the list says {expected}")
            }
            Self::Count { of, found, expected } => write!(f, "{found} {of}, and the list says {expected}"),
            Self::Unreadable { reason } => write!(f, "cannot be read: {reason}"),
        }
    }
}

/// Compares entries of `list` with the files in `folder`. `report` gets an entry's name and the bytes or rows read.
pub fn verify_folder(
    folder: &Path,
    list: &PublicFiles,
    entries: &[(&str, &PublicFile)],
    report: &mut dyn FnMut(&str, u64),
) -> Vec<VerifiedFile> {
    let verify = |&(name, file): &(&str, &PublicFile)| VerifiedFile {
        name: name.to_owned(),
        path: file.place(folder),
        finding: match verify_file(folder, list, name, file, &mut |done| report(name, done)) {
            FileFinding::Missing { .. } if is_unpacked(folder, list, name) => FileFinding::Unpacked,
            finding => finding,
        },
    };
    entries.iter().map(verify).collect()
}

/// Whether the entry is an archive, and all that is unpacked from it is there.
fn is_unpacked(folder: &Path, list: &PublicFiles, archive: &str) -> bool {
    let mut files = list.iter().filter(|(_, file)| file.archive.as_deref() == Some(archive)).peekable();
    files.peek().is_some() && files.all(|(_, file)| file.place(folder).exists())
}

/// Compares one file.
pub(crate) fn verify_file(
    folder: &Path,
    list: &PublicFiles,
    name: &str,
    file: &PublicFile,
    report: &mut dyn FnMut(u64),
) -> FileFinding {
    let path = file.place(folder);
    let Ok(metadata) = std::fs::metadata(&path) else {
        return FileFinding::Missing { remedy: remedy(folder, list, name, file) };
    };
    if file.repository.is_some() {
        return verify_model(&path, metadata.is_dir(), || remedy(folder, list, name, file));
    }
    // A corpus from an archive is a file or a folder: the list does not say which, and passages are counted in both.
    let may_be_folder =
        file.bytes.is_none() && file.sha256.is_none() && file.passages.is_some() && file.archive.is_some();
    if metadata.is_dir() && !may_be_folder {
        return FileFinding::Kind { expected: "file" };
    }
    if let Some(expected) = file.bytes.filter(|&expected| expected != metadata.len()) {
        return FileFinding::Size { found: metadata.len(), expected };
    }
    if let Some(expected) = &file.sha256 {
        return match file_sha256(&path, report) {
            Ok(found) if found == *expected => FileFinding::Same,
            Ok(found) => FileFinding::Digest { found, expected: expected.clone() },
            Err(error) => FileFinding::Unreadable { reason: error.to_string() },
        };
    }
    verify_counts(&path, file, report)
}

/// Compares the numbers of questions and passages with the list's.
fn verify_counts(path: &Path, file: &PublicFile, report: &mut dyn FnMut(u64)) -> FileFinding {
    let mut compared: Vec<&'static str> = file.bytes.iter().map(|_| "size").collect();
    type Counter = fn(&Path, &PublicFile, &mut dyn FnMut(u64)) -> Result<u64, DatasetError>;
    let counts: [(&'static str, Option<u64>, Counter); 2] =
        [("questions", file.questions, count_questions), ("passages", file.passages, count_passages)];
    for (of, expected, count) in counts {
        let Some(expected) = expected else { continue };
        match count(path, file, report) {
            Ok(found) if found == expected => compared.push(of),
            Ok(found) => return FileFinding::Count { of, found, expected },
            Err(error) => return FileFinding::Unreadable { reason: with_causes(&error) },
        }
    }
    FileFinding::AsFarAsKnown { compared }
}

/// A model's folder has at least a configuration and weights, and no file whose fetch was interrupted. Digests of
/// models are not in the list.
fn verify_model(path: &Path, is_folder: bool, remedy: impl FnOnce() -> String) -> FileFinding {
    if !is_folder {
        return FileFinding::Kind { expected: "folder" };
    }
    match file_names(path).map(|names| model_lack(&names)) {
        Ok(None) => FileFinding::AsFarAsKnown { compared: Vec::new() },
        Ok(Some(lack)) => FileFinding::Incomplete { lack, remedy: remedy() },
        Err(error) => FileFinding::Unreadable { reason: error.to_string() },
    }
}

/// The names of the files in a folder; links to files are some.
fn file_names(folder: &Path) -> io::Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.path().is_file() {
            names.insert(entry.file_name().to_string_lossy().into_owned());
        }
    }
    Ok(names)
}

/// The missing part of a model's folder of these files, if any.
fn model_lack(names: &BTreeSet<String>) -> Option<String> {
    let is_weights =
        |name: &String| name.ends_with(".safetensors") || (name.starts_with("pytorch_model") && name.ends_with(".bin"));
    let is_begun = |name: &&String| name.strip_suffix(".part").is_some_and(|whole| !names.contains(whole));
    if !names.contains("config.json") {
        return Some("it has no config.json".to_owned());
    }
    if let Some(part) = names.iter().find(is_begun) {
        return Some(format!("{part} is the beginning of a file"));
    }
    let has_weights = names.iter().any(is_weights);
    (!has_weights).then(|| "it has no weights, *.safetensors or pytorch_model*.bin".to_owned())
}

/// Counts rows: questions, and rows that hopeval would refuse.
fn count_questions(path: &Path, file: &PublicFile, report: &mut dyn FnMut(u64)) -> Result<u64, DatasetError> {
    let spec = DatasetSpec { format: file.format, ..DatasetSpec::file(path) };
    let mut questions = Questions::open(&spec, RowPolicy::Quarantine(Box::new(|_| ())))?;
    let mut found = 0;
    for question in questions.by_ref() {
        question?;
        found += 1;
        report(found);
    }
    Ok(found + questions.quarantined())
}

/// Counts the passages of a file or folder, duplicates included.
fn count_passages(path: &Path, _: &PublicFile, report: &mut dyn FnMut(u64)) -> Result<u64, DatasetError> {
    let mut passages = Passages::open(&PassageSpec::file(path), RowPolicy::Quarantine(Box::new(|_| ())))?;
    let mut found = 0;
    for passage in passages.by_ref() {
        passage?;
        found += 1;
        report(found);
    }
    Ok(found + passages.quarantined())
}

/// The way to get a missing file.
fn remedy(folder: &Path, list: &PublicFiles, name: &str, file: &PublicFile) -> String {
    let to = quoted(&folder.display().to_string());
    let list = list.origin().map(|list| format!(" --list {}", quoted(&list.display().to_string()))).unwrap_or_default();
    let fetch = |name: &str| format!("`hopeval data fetch {} --to {to}{list}`", quoted(name));
    match &file.unpack {
        Some(unpack) if file.from.is_empty() => {
            let archive = file.archive.as_deref().unwrap_or_default();
            format!("{}, then in {to}: {unpack}", fetch(archive))
        }
        _ => fetch(name),
    }
}

/// A word of a command, as a shell reads it.
fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./,:=+@%".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// An error with its causes, in a line.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const TITLED: &str = "{\"title\": \"A\", \"text\": \"one\"}\n{\"title\": \"B\", \"text\": \"two\"}\n";

    /// A folder with a file, an archive's file and a corpus, and their list.
    fn folder() -> (tempfile::TempDir, PublicFiles) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("set/corpus")).unwrap();
        std::fs::write(dir.path().join("set/abc"), "abc").unwrap();
        std::fs::write(dir.path().join("set/corpus/corpus.jsonl"), TITLED).unwrap();
        let list = dir.path().join("list.toml");
        let text = "[abc]\npath = \"set/abc\"\nfrom = [\"http://a/abc\"]\nbytes = 3\n\
             sha256 = \"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\"\n\
             [archive]\npath = \"set/archive.tar\"\nfrom = [\"http://a/archive.tar\"]\n\
             [corpus]\npath = \"set/corpus/corpus.jsonl\"\nfrom = [\"http://a/corpus\"]\npassages = 2\n\
             [member]\npath = \"set/member\"\narchive = \"archive\"\nunpack = \"tar -xf set/archive.tar\"\n";
        std::fs::write(&list, text).unwrap();
        let list = PublicFiles::load(&list).unwrap();
        (dir, list)
    }

    fn finding(dir: &Path, list: &PublicFiles, name: &str) -> FileFinding {
        let entries = list.select(&[name.to_owned()]).unwrap();
        verify_folder(dir, list, &entries, &mut |_, _| ()).remove(0).finding
    }

    #[test]
    fn right_files_are_the_same_or_fit_as_far_as_known() {
        let (dir, list) = folder();
        assert_eq!(finding(dir.path(), &list, "abc"), FileFinding::Same);
        let fits = FileFinding::AsFarAsKnown { compared: vec!["passages"] };
        assert_eq!(finding(dir.path(), &list, "corpus"), fits);
        assert!(fits.to_string().contains("passages") && fits.is_good());
    }

    #[test]
    fn a_missing_file_a_changed_byte_and_a_short_corpus_are_found() {
        let (dir, list) = folder();
        let path = dir.path().join("set/abc");
        std::fs::write(&path, "abd").unwrap();
        assert!(matches!(finding(dir.path(), &list, "abc"), FileFinding::Digest { .. }));
        std::fs::write(&path, "ab").unwrap();
        assert_eq!(finding(dir.path(), &list, "abc"), FileFinding::Size { found: 2, expected: 3 });
        std::fs::remove_file(&path).unwrap();
        let missing = finding(dir.path(), &list, "abc");
        let command = format!("`hopeval data fetch abc --to {0} --list {0}/list.toml`", dir.path().display());
        assert!(missing.to_string().contains(&command) && !missing.is_good(), "{missing}");
        let corpus = dir.path().join("set/corpus/corpus.jsonl");
        std::fs::write(&corpus, TITLED.lines().next().unwrap()).unwrap();
        let short = FileFinding::Count { of: "passages", found: 1, expected: 2 };
        assert_eq!(finding(dir.path(), &list, "corpus"), short);
        std::fs::write(&corpus, "{\"title\": \"A\", ").unwrap();
        assert!(!finding(dir.path(), &list, "corpus").is_good());
    }

    #[test]
    fn an_archive_is_not_needed_once_it_is_unpacked() {
        let (dir, list) = folder();
        assert!(matches!(finding(dir.path(), &list, "archive"), FileFinding::Missing { .. }));
        let member = finding(dir.path(), &list, "member").to_string();
        let command = format!("`hopeval data fetch archive --to {0} --list {0}/list.toml`, then", dir.path().display());
        assert!(member.contains(&command) && member.contains("tar -xf set/archive.tar"), "{member}");
        std::fs::write(dir.path().join("set/member"), "").unwrap();
        assert_eq!(finding(dir.path(), &list, "archive"), FileFinding::Unpacked);
    }

    #[test]
    fn a_corpus_from_an_archive_is_a_file_or_a_folder() {
        let (dir, _) = folder();
        for path in ["set/corpus", "set/corpus/corpus.jsonl"] {
            let list = dir.path().join("list.toml");
            let text = format!(
                "[archive]\npath = \"set/archive.tar\"\nfrom = [\"http://a/archive.tar\"]\n\
                 [corpus]\npath = \"{path}\"\narchive = \"archive\"\nunpack = \"tar\"\npassages = 2\n"
            );
            std::fs::write(&list, text).unwrap();
            let fits = FileFinding::AsFarAsKnown { compared: vec!["passages"] };
            assert_eq!(finding(dir.path(), &PublicFiles::load(&list).unwrap(), "corpus"), fits, "{path}");
        }
    }

    #[test]
    fn a_model_has_a_configuration_and_whole_weights() {
        let lack = |names: &[&str]| model_lack(&names.iter().map(|name| (*name).to_owned()).collect());
        assert_eq!(lack(&["config.json", "model.safetensors"]), None);
        assert_eq!(lack(&["config.json", "pytorch_model-00001-of-00001.bin"]), None);
        assert_eq!(lack(&["config.json", "model.safetensors", "model.safetensors.part"]), None, "a left one");
        for (names, says) in [
            (&["model.safetensors"][..], "no config.json"),
            (&["config.json", "model.safetensors.part"], "model.safetensors.part"),
            (&["config.json", "merges.txt.part", "model.safetensors"], "merges.txt.part"),
            (&["config.json", "training_args.bin"], "no weights"),
        ] {
            assert!(lack(names).is_some_and(|lack| lack.contains(says)), "{names:?}");
        }
    }

    #[test]
    fn words_of_commands_are_quoted() {
        assert_eq!(quoted("a/b-1.toml"), "a/b-1.toml");
        assert_eq!(quoted("my data's"), r"'my data'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
