//! `hopeval lm` and `hopeval model` for users: help, options out of range, a tokenizer without weights, imports.

#![cfg(unix)]

mod cuda;

use crate::harness::{hopeval, run, succeed};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Output;

/// A folder of the engine's or the importer's tests.
fn engine(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine").join(path)
}

fn gpt2() -> String {
    engine("lm/tests/fixtures/gpt2").display().to_string()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A folder with a tokenizer and texts, and without a model.
fn tokenizer_alone() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let tokenizer = engine("lm/tests/fixtures/gpt2/tokenizer.json");
    std::fs::create_dir(dir.path().join("model")).unwrap();
    std::fs::copy(tokenizer, dir.path().join("model/tokenizer.json")).unwrap();
    std::fs::write(dir.path().join("texts.jsonl"), "{\"text\":\"The bridge\"}\n{\"text\":\"of Arlen\"}\n").unwrap();
    dir
}

#[test]
fn help_shows_what_a_command_uses_and_takes_what_all_do() {
    let dir = tokenizer_alone();
    let help = |arguments: &[&str]| succeed(&mut hopeval(dir.path(), arguments));
    for command in [&["lm", "--help"][..], &["lm", "score", "--help"], &["model", "import", "--help"]] {
        let text = help(command);
        // `--cache-tokens` is another thing.
        assert!(!text.contains("--store ") && !text.contains("--cache "), "{command:?}: {text}");
    }
    assert!(help(&["lm", "score", "--help"]).contains("Threads of the device"));
    let run = help(&["run", "--help"]);
    assert!(run.contains("--store ") && run.contains("--cache "), "{run}");
    let tokenize = ["lm", "tokenize", "--model", "model", "--input", "texts.jsonl"];
    let plain = help(&tokenize);
    assert_eq!(help(&[&["--store", "s", "--cache", "c", "--threads", "1"][..], &tokenize].concat()), plain);
    assert_eq!(help(&[&tokenize[..], &["--store", "s", "--cache", "c", "--threads", "1"]].concat()), plain);
}

#[test]
fn threads_are_bounded_by_an_error() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("one.jsonl"), r#"{"id":1,"prompt_ids":[1],"target_ids":[2]}"#).unwrap();
    let score = |threads: &str| {
        run(&mut hopeval(
            dir.path(),
            &["--threads", threads, "lm", "score", "--model", &gpt2(), "--input", "one.jsonl"],
        ))
    };
    for (threads, says) in [
        ("0", "invalid value '0' for '--threads <THREADS>'"),
        ("4096", "4096 threads; 1 to "),
        ("100000", "from 1 to 4096"),
    ] {
        let output = score(threads);
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(said(&output).contains(says), "{}", said(&output));
    }
    // The allowed maximum must work.
    let output = score("64");
    assert!(output.status.success(), "{}", said(&output));
}

#[test]
fn a_model_is_named_as_in_a_job() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("one.jsonl"), r#"{"id":1,"text":"Where was she born?"}"#).unwrap();
    let tokenize = |model: &str| {
        let mut command = hopeval(dir.path(), &["lm", "tokenize", "--model", model, "--input", "one.jsonl"]);
        succeed(command.env("XDG_CACHE_HOME", dir.path()).env("HF_HUB_CACHE", dir.path().join("hub")))
    };
    let own = tokenize("hopeval:scorer");
    assert!(lines(&own)[0]["ids"].as_array().unwrap().len() > 3, "{own}");
    // The same model in the hub's cache.
    let unpacked = std::fs::read_dir(dir.path().join("hopeval/models")).unwrap().next().unwrap().unwrap().path();
    let snapshots = dir.path().join("hub/models--some--scorer/snapshots");
    std::fs::create_dir_all(&snapshots).unwrap();
    std::os::unix::fs::symlink(unpacked, snapshots.join("a1")).unwrap();
    assert_eq!(tokenize("some/scorer"), own);
}

#[test]
fn a_tokenizer_needs_no_weights() {
    let dir = tokenizer_alone();
    let run_lm = |arguments: &[&str]| lines(&succeed(&mut hopeval(dir.path(), &[&["lm"], arguments].concat())));
    let there = ["--model", "model", "--input", "texts.jsonl"];
    let told = run_lm(&[&["tokenize"][..], &there].concat());
    let tokens: usize = told.iter().map(|line| line["ids"].as_array().unwrap().len()).sum();
    assert!(tokens > 2 && told.iter().all(|line| line["tokens"].is_array()));
    let measured = run_lm(&[&["bench", "--task", "tokenize", "--repeat", "2"][..], &there].concat());
    assert_eq!(measured.len(), 2);
    for pass in measured {
        assert_eq!((&pass["texts"], &pass["tokens"], &pass["bytes"]), (&2.into(), &tokens.into(), &18.into()));
    }
    let output = run(&mut hopeval(dir.path(), &["lm", "tokenize", "--model", "nowhere"]));
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("--model nowhere") && said(&output).contains("no such folder"), "{}", said(&output));
}

#[test]
fn a_refused_import_leaves_no_folder() {
    let dir = tempfile::tempdir().unwrap();
    let pickle = engine("checkpoint/tests/pickles/evil-legacy").display().to_string();
    let output = run(&mut hopeval(dir.path(), &["model", "import", &pickle, "--out", "models/new"]));
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("wants posix.system"), "{}", said(&output));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left");
    let good = engine("checkpoint/tests/pickles/zip").display().to_string();
    succeed(&mut hopeval(dir.path(), &["model", "import", &good, "--out", "models/new"]));
    assert!(dir.path().join("models/new/model.safetensors").exists());
}
