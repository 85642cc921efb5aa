//! `note`: a person's note is kept beside a run, is shown with it, changes none of its files, and goes with it.

use crate::harness::{document, hopeval, run, run_of, succeed};
use crate::tiny;
use std::collections::BTreeMap;
use std::path::Path;

/// The contents of the files of a run, without its note.
fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        match entry.path() {
            path if path.is_dir() => found.extend(contents(&path)),
            path if path.ends_with("note.json") => {}
            path => drop(found.insert(path.display().to_string(), std::fs::read(&path).unwrap())),
        }
    }
    found
}

#[test]
fn a_note_is_kept_shown_verified_and_removed() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    tiny::write(dir);
    let made = document(&mut hopeval(dir, &["run", "job.toml", "--json"]));
    let (id, folder) = (run_of(&made), dir.join("hopeval-store/runs").join(run_of(&made)));
    let before = contents(&folder);
    assert!(!succeed(&mut hopeval(dir, &["ls"])).contains("note"), "no run has a note");
    assert_eq!(succeed(&mut hopeval(dir, &["note", "latest"])).trim(), format!("run {id}: no note"));

    succeed(&mut hopeval(dir, &["note", "latest", "a", "first try"]));
    succeed(&mut hopeval(dir, &["note", "tiny", "with  k = 5,\nfor the paper"]));
    let text = "with k = 5, for the paper";
    let listed = succeed(&mut hopeval(dir, &["ls"]));
    assert!(listed.contains("| note ") && listed.contains(&format!("| {text} |")), "{listed}");
    let shown = succeed(&mut hopeval(dir, &["show"]));
    assert!(shown.contains(&format!("\nnote: {text}\n")) && !shown.contains("first try"), "{shown}");
    assert_eq!(document(&mut hopeval(dir, &["ls", "--json"]))["runs"][0]["note"], text);
    assert_eq!(document(&mut hopeval(dir, &["show", "--json"]))["note"], text);
    assert_eq!(document(&mut hopeval(dir, &["note", "latest", "--json"]))["note"], text);
    assert!(contents(&folder) == before, "nothing else changed");
    let verified = document(&mut hopeval(dir, &["store", "verify", "--json"]));
    assert_eq!((&verified["unchecked"], &verified["unnamed"]), (&0.into(), &0.into()), "{verified}");

    let said = run(&mut hopeval(dir, &["note", "latest", "a\u{1b}[31m"]));
    assert_eq!(said.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&said.stderr).contains("control character"));
    let note = folder.join("note.json");
    let damaged = std::fs::read_to_string(&note).unwrap().replace("paper", "papyr");
    std::fs::write(&note, damaged).unwrap();
    let said = run(&mut hopeval(dir, &["store", "verify"]));
    assert!(!said.status.success(), "damage is found");
    let listed = run(&mut hopeval(dir, &["ls"]));
    assert!(listed.status.success() && String::from_utf8_lossy(&listed.stderr).contains("note.json"), "ls goes on");

    succeed(&mut hopeval(dir, &["note", "latest", ""]));
    assert!(!note.exists() && !succeed(&mut hopeval(dir, &["ls"])).contains("note"));
    succeed(&mut hopeval(dir, &["note", "latest", "again"]));
    succeed(&mut hopeval(dir, &["rm", "latest", "--yes"]));
    assert!(!folder.exists(), "the note goes with its run");
}
