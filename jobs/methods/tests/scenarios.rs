//! Drives every machine through the files in `tests/scenarios`: an event, `----`, what the machine asks or ends with.
//!
//! ```text
//! method one_step {"retriever": "sparse", "k": 2}
//! question q1 "Who directed The Shining?"
//! ----
//! retrieve sparse "Who directed The Shining?" k=2
//!
//! hits 4:2.5 7:1.25
//! ----
//! done ok iterations=1
//! ranked 4:2.5 7:1.25
//! ```
//!
//! An event is the start of a machine (`method KIND PARAMETERS`, `question ID "TEXT"`, and optionally `corpus N`,
//! `kind`, `candidates`, `gold`, `answers`, `prediction`), or one response for each request of the last round, one a
//! line. Lines with a leading `#` are comments; a blank line ends the expected text. `ops/docs/scenarios.md` describes
//! the notation.
//!
//! `HOPEVAL_BLESS=1 cargo test -p hopeval-methods --test scenarios` writes what the machines do into the files: read
//! the difference, and raise the method's version.

#![expect(clippy::unwrap_used, reason = "a panic is the report of a test")]

use hopeval_methods::testing::run_scenarios;
use std::fs;
use std::path::{Path, PathBuf};

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let mut files: Vec<PathBuf> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// The first line that differs, with its number.
fn difference(expected: &str, found: &str) -> String {
    let pairs = expected.lines().map(Some).chain(std::iter::repeat(None)).zip(found.lines().map(Some).chain([None]));
    let differing = (1..).zip(pairs).find(|(_, (expected, found))| expected != found);
    differing.map_or_else(
        || "the files differ at the end".to_owned(),
        |(line, (expected, found))| {
            format!("line {line}\n  expected: {}\n  found:    {}", expected.unwrap_or("-"), found.unwrap_or("-"))
        },
    )
}

#[test]
fn machines_do_what_the_files_say() {
    let bless = std::env::var_os("HOPEVAL_BLESS").is_some_and(|value| value == "1");
    for file in files() {
        let expected = fs::read_to_string(&file).unwrap();
        let found = run_scenarios(&expected, &hopeval_methods::build_method)
            .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        if found != expected {
            if bless {
                fs::write(&file, found).unwrap();
            } else {
                panic!("{}: {}\n(HOPEVAL_BLESS=1 accepts it)", file.display(), difference(&expected, &found));
            }
        }
    }
}

#[test]
fn every_method_has_a_file() {
    // A suffix behind a hyphen names the part of the method under test.
    let method = |file: &PathBuf| file.file_stem().unwrap().to_string_lossy().split('-').next().unwrap().to_owned();
    let mut names: Vec<String> = files().iter().map(method).collect();
    names.sort();
    names.dedup();
    let infos = hopeval_methods::method_kinds().iter().chain(hopeval_methods::judge_kinds());
    let mut kinds: Vec<&str> = infos.map(|info| info.kind).collect();
    kinds.sort_unstable();
    assert_eq!(names, kinds);
}

#[test]
fn mistakes_in_a_file_name_their_line() {
    let message = |file: &str| run_scenarios(file, &hopeval_methods::build_method).unwrap_err().to_string();
    let start = "method one_step {\"retriever\": \"s\"}\nquestion q \"Q?\"\n----\n\n";
    assert_eq!(message(&format!("{start}links x\n----\n")), "line 5: expected a number, found `x`");
    assert_eq!(message(&format!("{start}hits\nhits\n----\n")), "line 7: 2 responses to 1 requests");
    assert_eq!(message("hits\n----\n"), "line 2: 1 responses to 0 requests");
    assert_eq!(message("method one_step {}\n----\n"), "line 2: method kind `one_step`: missing field `retriever`");
    assert_eq!(message(&format!("{start}hits\n")), "line 5: the last event has no `----`");
    assert_eq!(message("----\n"), "line 1: nothing happens before this `----`");
    assert!(message("method oracle {}\nqestion q\n----\n").starts_with("line 2: expected `method`, `corpus`"));
}
