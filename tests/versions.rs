//! A run whose methods have other versions in this program: it is not gone on with, and it is still read.

#![cfg(unix)]

use crate::harness::{self, document, final_tables, hopeval, kill_after_records, run, run_of, succeed};
use crate::tiny;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The folder of the only run of `store`.
fn run_folder(store: &Path) -> PathBuf {
    std::fs::read_dir(store.join("runs")).unwrap().next().unwrap().unwrap().path()
}

/// Changes the versions of methods in a run's record, as an earlier program would have written them.
fn rewrite_versions(folder: &Path, change: impl FnOnce(&mut serde_json::Map<String, Value>)) {
    let path = folder.join("run.json");
    let mut record: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let record = record.as_object_mut().unwrap();
    // A record without a seal is one of before.
    record.remove("blake3");
    change(record);
    std::fs::write(path, serde_json::to_vec_pretty(record).unwrap()).unwrap();
}

fn refused(dir: &Path, arguments: &[&str]) -> String {
    let output = run(&mut hopeval(dir, arguments));
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn outcomes_of_two_versions_are_not_mixed() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let job = harness::world_job(dir);
    let job = job.to_str().unwrap();
    let whole = document(&mut hopeval(dir, &["run", job, "--store", "whole", "--cache", "cache", "--json"]));
    let tables = final_tables(&dir.join("whole"), run_of(&whole));

    let places = ["--store", "store", "--cache", "cache"];
    let begin = [&["run", job, "--workers", "1"], &places[..]].concat();
    kill_after_records(&mut hopeval(dir, &begin), &dir.join("store"), 3);
    let folder = run_folder(&dir.join("store"));
    let mut own = Value::Null;
    rewrite_versions(&folder, |record| {
        own = record["method_versions"]["one_step"].clone();
        record["method_versions"]["one_step"] = 77.into();
    });
    assert!(own.is_u64(), "the record has the version: {own}");
    let records = || std::fs::read_dir(folder.join("log")).unwrap().count();
    let before = records();
    for more in [&["--processes", "2"][..], &[]] {
        let said = refused(dir, &[&["resume", "latest"], &places[..], more].concat());
        let named = format!("`one_step` has version {own}, and run ");
        assert!(said.contains(&named) && said.contains("with version 77"), "{said}");
    }
    assert_eq!(records(), before, "no generation is begun");
    succeed(&mut hopeval(dir, &[&["show", "latest"], &places[..]].concat()));

    // A run of an earlier version has no versions to compare, and says so.
    rewrite_versions(&folder, |record| record.retain(|name, _| name != "method_versions"));
    let output = run(&mut hopeval(dir, &[&["resume", "latest"], &places[..]].concat()));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && said.contains("carries no versions of its methods"), "{said}");
    let run = folder.file_name().unwrap().to_str().unwrap();
    assert!(final_tables(&dir.join("store"), run) == tables);
}

#[test]
fn a_finished_run_of_another_version_is_read_but_not_computed_anew() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    tiny::write(dir);
    let id = run_of(&document(&mut hopeval(dir, &["run", "job.toml", "--json"]))).to_owned();
    let store = dir.join("hopeval-store");
    let (shown, tables) = (succeed(&mut hopeval(dir, &["show"])), final_tables(&store, &id));
    rewrite_versions(&run_folder(&store), |record| {
        for kind in ["one_step", "oracle"] {
            record["method_versions"][kind] = 77.into();
        }
    });
    assert_eq!(succeed(&mut hopeval(dir, &["show"])), shown);
    succeed(&mut hopeval(dir, &["rescore", "--write"]));
    succeed(&mut hopeval(dir, &["resume", "latest"]));
    assert!(final_tables(&store, &id) == tables, "no outcome is computed again");

    // `oracle` reads gold, so an edit computes its outcomes again.
    let mut rows = tiny::questions();
    rows[0]["answer"] = "Another Town".into();
    std::fs::write(dir.join("edited.json"), tiny::array(&rows)).unwrap();
    let said = refused(dir, &["gold", "apply", "latest", "edited.json"]);
    assert!(said.contains("`oracle` has version 1, and run ") && said.contains("with version 77"), "{said}");
    assert!(final_tables(&store, &id) == tables && !run_folder(&store).join("gold").exists());
}
