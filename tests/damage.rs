//! Single damages of stored files: every command gives the bytes that it gave before, or an error that names the file.
//! `ops/chaos/damage.py` tries thousands; here is one damage of each file of two stores.

#![cfg(target_os = "linux")]

use crate::harness::{final_tables, hopeval, kill_after_records, run, succeed};
use hopeval_results::{Log, Store};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Output;

const JOB: &str = r#"
name = "damage"
[dataset.world]
questions = 24
passages = 400
seed = 5
[service.bm25]
kind = "bm25"
[method.bm25]
kind = "one_step"
retriever = "bm25"
[method.oracle]
kind = "oracle"
[run]
chunk = 4
in_flight = 1
"#;

/// Outcomes of [`JOB`].
const OUTCOMES: u64 = 48;

/// The commands that read a run's files, without the run.
const READERS: [&[&str]; 4] = [&["show", "--json"], &["rescore", "--json"], &["export", "--format", "qrels"], &["ls"]];

/// A store with one run, and its commands' answers while it was whole.
struct SoundStore {
    dir: tempfile::TempDir,
    run: String,
    answers: Vec<Output>,
}

impl SoundStore {
    fn new(make: impl FnOnce(&Path)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("job.toml"), JOB).unwrap();
        make(dir.path());
        let run = std::fs::read_dir(dir.path().join("store/runs")).unwrap().next().unwrap().unwrap().file_name();
        let mut sound = Self { dir, run: run.into_string().unwrap(), answers: Vec::new() };
        sound.answers = READERS.iter().map(|reader| sound.read(sound.dir.path(), reader)).collect();
        assert!(sound.answers.iter().all(|answer| answer.status.success()), "{}", ended(&sound.answers[0]));
        sound
    }

    fn log(&self) -> Log {
        Log::open(&Store::open(self.dir.path().join("store").to_str().unwrap()).unwrap(), &self.run).unwrap()
    }

    fn command(&self, dir: &Path, arguments: &[&str]) -> Output {
        run(hopeval(dir, arguments).args(["--store", "store", "--cache", "cache"]))
    }

    /// A reading command over the store in `dir`.
    fn read(&self, dir: &Path, reader: &[&str]) -> Output {
        let run = (reader[0] != "ls").then_some(self.run.as_str());
        let mut output = self.command(dir, &[reader, run.as_slice()].concat());
        // A document names its folder.
        let text = String::from_utf8(output.stdout).unwrap();
        output.stdout = text.replace(dir.to_str().unwrap(), "DIR").into_bytes();
        output
    }

    /// All files of the store, with their contents.
    fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = BTreeMap::new();
        let mut folders = vec![self.dir.path().join("store")];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let content = std::fs::read(&path).unwrap();
                    found.insert(path.strip_prefix(self.dir.path()).unwrap().to_owned(), content);
                }
            }
        }
        found
    }

    /// Whether the file is an outcome part that no commit names: its writer was killed before.
    fn is_unused(&self, path: &Path) -> bool {
        let name = path.strip_prefix("store").unwrap().to_str().unwrap();
        let log = self.log();
        let mut parts = log.state().commits.iter().flat_map(|commit| &commit.parts);
        name.contains("/outcomes/") && parts.all(|part| part != name)
    }

    /// A copy of the folder in which `damaged` has another content.
    fn copy_with(&self, damaged: &Path, content: &[u8]) -> tempfile::TempDir {
        let copy = tempfile::tempdir().unwrap();
        for path in self.files().keys() {
            std::fs::create_dir_all(copy.path().join(path).parent().unwrap()).unwrap();
            std::fs::hard_link(self.dir.path().join(path), copy.path().join(path)).unwrap();
        }
        std::fs::remove_file(copy.path().join(damaged)).unwrap();
        std::fs::write(copy.path().join(damaged), content).unwrap();
        std::os::unix::fs::symlink(self.dir.path().join("cache"), copy.path().join("cache")).unwrap();
        copy
    }

    /// Damages every file. `write` is a command that makes the run's final tables, with their bytes.
    fn try_damages(&self, write: &[&str], tables: &[Vec<u8>]) {
        let files = self.files();
        assert!(files.len() >= 12, "{:?}", files.keys());
        for (number, (path, whole)) in files.iter().enumerate() {
            let copy = self.copy_with(path, &damaged(whole, number));
            let name = path.file_name().unwrap().to_str().unwrap();
            for (reader, answer) in READERS.iter().zip(&self.answers) {
                let found = self.read(copy.path(), reader);
                let same = found.status == answer.status && found.stdout == answer.stdout;
                assert!(same || is_told(&found, name), "{reader:?}, {}: {}", path.display(), ended(&found));
            }
            let verified = self.command(copy.path(), &["store", "verify"]);
            // Damage to the name of a seal makes its document look like one of an earlier version.
            let unsealed = String::from_utf8_lossy(&verified.stderr).contains("carry no checks");
            let found = verified.status.code() == Some(2) && is_told(&verified, name) || unsealed;
            assert!(found || self.is_unused(path), "{}: {}", path.display(), ended(&verified));
            let written = self.command(copy.path(), write);
            let refused = written.status.code() == Some(2) && is_told(&written, name);
            assert!(written.status.success() || refused, "{write:?}, {}: {}", path.display(), ended(&written));
            let rewritten = || final_tables(&copy.path().join("store"), &self.run) == tables;
            assert!(refused || rewritten(), "{write:?} of damaged {} made other tables", path.display());
        }
    }
}

/// Whether a command that ended with 0 or 2 names the file in its error or its warning.
fn is_told(output: &Output, name: &str) -> bool {
    let said = [&output.stdout[..], &output.stderr].concat();
    matches!(output.status.code(), Some(0 | 2)) && String::from_utf8_lossy(&said).contains(name)
}

/// The end of a command, for a message.
fn ended(output: &Output) -> String {
    format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr))
}

/// A flipped bit, a truncation or a block of zeroes, by turns, somewhere else for each `number`.
fn damaged(whole: &[u8], number: usize) -> Vec<u8> {
    let at = (number * 7919 + 13) % whole.len();
    let mut changed = whole.to_vec();
    match number % 3 {
        0 => changed[at] ^= 1 << (number % 8),
        1 => changed.truncate(at),
        _ => changed[at..(at + 16).min(whole.len())].fill(0),
    }
    if changed == whole {
        changed[0] = !changed[0];
    }
    changed
}

fn whole_run(dir: &Path) -> Vec<Vec<u8>> {
    succeed(hopeval(dir, &["run", "job.toml"]).args(["--store", "store", "--cache", "cache"]));
    let run = std::fs::read_dir(dir.join("store/runs")).unwrap().next().unwrap().unwrap().file_name();
    final_tables(&dir.join("store"), run.to_str().unwrap())
}

#[test]
fn damage_of_a_finished_run_is_found() {
    let mut tables = Vec::new();
    let sound = SoundStore::new(|dir| tables = whole_run(dir));
    assert!(sound.log().state().finished.is_some());
    sound.try_damages(&["rescore", "--write"], &tables);
}

#[test]
fn damage_of_an_interrupted_run_is_found() {
    let other = tempfile::tempdir().unwrap();
    std::fs::write(other.path().join("job.toml"), JOB).unwrap();
    let tables = whole_run(other.path());
    let sound = SoundStore::new(|dir| {
        let mut command = hopeval(dir, &["run", "job.toml", "--workers", "1"]);
        kill_after_records(command.args(["--store", "store", "--cache", "cache"]), &dir.join("store"), 3);
        // A killed writer's file would be cleared by the resumed run, and the copies are made without it.
        for path in staging_files(&dir.join("store")) {
            std::fs::remove_file(path).unwrap();
        }
    });
    let log = sound.log();
    let committed = log.state().total_outcomes();
    assert!(log.state().finished.is_none() && committed > 0 && committed < OUTCOMES, "{committed}");
    sound.try_damages(&["resume", "latest"], &tables);
}

fn staging_files(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.to_string_lossy().contains('#') {
                found.push(path);
            }
        }
    }
    found
}
