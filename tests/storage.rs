//! Storage that fails: which faults a run outlives, how it ends otherwise, and with what exit code.

#![cfg(target_os = "linux")]

use crate::faulty_s3::FaultyServer;
use crate::harness::{self, hopeval, kill_after_records, run, succeed, wait_for};
use std::path::Path;
use std::process::{Command, Output, Stdio};

const JOB: &str = r#"
name = "storage"
[dataset.world]
questions = 60
passages = 600
seed = 12
[service.bm25]
kind = "bm25"
[method.bm25]
kind = "one_step"
retriever = "bm25"
[method.bm25.sweep]
k = [5, 20]
[run]
chunk = 8
"#;

/// The command that runs [`JOB`] in `dir`.
fn run_job(server: &FaultyServer, dir: &Path, patience: &str) -> Command {
    std::fs::write(dir.join("job.toml"), JOB).unwrap();
    server.hopeval(dir, &["run", "job.toml", "--json", "--workers", "1", "--storage-patience", patience])
}

/// The figures of a run, without what belongs to it alone.
fn figures(out: &str) -> serde_json::Value {
    serde_json::from_str::<serde_json::Value>(out).unwrap()["measures"].clone()
}

fn run_id(out: &str) -> String {
    serde_json::from_str::<serde_json::Value>(out).unwrap()["run"].as_str().unwrap().to_owned()
}

#[track_caller]
fn assert_ends(output: &Output, code: i32, words: &[&str]) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
    for word in words {
        assert!(said.contains(word), "no `{word}` in: {said}");
    }
}

#[test]
fn faults_that_pass_change_no_figure() {
    let server = FaultyServer::start();
    let dir = tempfile::tempdir().unwrap();
    let reference = figures(&succeed(&mut run_job(&server, dir.path(), "0")));
    for fault in [
        "500&count=12",
        "503&count=12",
        "reset&count=12",
        "lost&count=6&method=PUT",
        "truncated&count=6&method=GET",
        "slow&count=3",
        "hang&count=1&method=PUT",
    ] {
        server.order(fault);
        let out = succeed(&mut run_job(&server, dir.path(), "60"));
        assert!(server.order("none") > 0, "{fault}: no request met it");
        assert_eq!(figures(&out), reference, "{fault}");
    }
}

#[test]
fn missing_rights_are_final_on_every_path() {
    let server = FaultyServer::start();
    let dir = tempfile::tempdir().unwrap();
    let made = &run_id(&succeed(&mut run_job(&server, dir.path(), "60")));
    // Each order denies other requests first: all, the questions' put, the record's, the log's, parts, tables.
    for path in ["", "&path=questions.parquet", "&path=run.json", "&path=/log/", "&path=outcomes", "&path=tables"] {
        server.order(&format!("403&method=PUT{path}"));
        assert_ends(&run(&mut run_job(&server, dir.path(), "60")), 2, &["permission denied"]);
        assert!(server.order("none") > 0, "{path}: no request met it");
    }
    server.order("403&method=GET");
    for command in [&["show", made][..], &["resume", "latest"], &["ls"], &["costs", made]] {
        assert_ends(&run(&mut server.hopeval(dir.path(), command)), 2, &["permission denied"]);
    }
}

#[test]
fn faults_that_do_not_pass_in_time_are_resumable_on_every_path() {
    let server = FaultyServer::start();
    let dir = tempfile::tempdir().unwrap();
    succeed(&mut run_job(&server, dir.path(), "60"));
    for fault in ["500", "reset", "truncated&method=GET", "hang"] {
        server.order(fault);
        for command in [&["show", "latest"][..], &["resume", "latest"], &["ls"]] {
            let mut command = server.hopeval(dir.path(), command);
            assert_ends(&run(command.args(["--storage-patience", "0"])), 75, &["cannot "]);
        }
        server.order("none");
    }
    for path in ["questions.parquet", "/log/", "outcomes", "tables"] {
        server.order(&format!("500&method=PUT&path={path}"));
        assert_ends(&run(&mut run_job(&server, dir.path(), "0")), 75, &["500"]);
        server.order("none");
    }
}

/// The order to make the run stays in the store, so that 75 is true.
#[test]
fn a_run_that_could_not_be_made_in_time_is_resumable() {
    let server = FaultyServer::start();
    let dir = tempfile::tempdir().unwrap();
    let reference = succeed(&mut run_job(&server, dir.path(), "60"));
    for path in ["questions.parquet", "run.json"] {
        server.order(&format!("500&method=PUT&path={path}"));
        assert_ends(&run(&mut run_job(&server, dir.path(), "0")), 75, &["500"]);
        assert!(server.order("none") > 0, "{path}: no request met it");
        let out = succeed(&mut server.hopeval(dir.path(), &["resume", "latest", "--json"]));
        assert_eq!(figures(&out), figures(&reference), "{path}");
        assert_ne!(run_id(&out), run_id(&reference), "{path}: the new run is the latest");
    }
}

#[test]
fn a_server_that_ignores_the_condition_is_refused_by_name() {
    let server = FaultyServer::start();
    let dir = tempfile::tempdir().unwrap();
    server.order("unconditional");
    let words = ["ignores `If-None-Match: *`", "s3://bucket/runs", "hint: "];
    assert_ends(&run(&mut run_job(&server, dir.path(), "60")), 2, &words);
    // Nothing is left behind, and the same bucket is found out again.
    assert_ends(&run(&mut run_job(&server, dir.path(), "60")), 2, &words);
    server.order("none");
    assert!(!succeed(&mut server.hopeval(dir.path(), &["ls"])).contains("storage"));
    succeed(&mut run_job(&server, dir.path(), "60"));
}

#[test]
fn sigterm_ends_the_wait_for_storage() {
    let server = FaultyServer::start();
    let dir = tempfile::tempdir().unwrap();
    for fault in ["500&method=PUT&path=outcomes", "hang&method=PUT&path=outcomes"] {
        server.order(fault);
        let mut command = run_job(&server, dir.path(), "3600");
        let errors = dir.path().join("errors");
        command.stdout(Stdio::null()).stderr(std::fs::File::create(&errors).unwrap());
        let mut child = command.spawn().unwrap();
        let waits = || std::fs::read_to_string(&errors).unwrap().contains("trying again").then_some(());
        wait_for("word about the outage", waits);
        succeed(Command::new("kill").args(["-TERM", &child.id().to_string()]));
        let status = wait_for("end of the run", || child.try_wait().unwrap());
        assert_eq!(status.code(), Some(75), "{fault}: {}", std::fs::read_to_string(&errors).unwrap());
        server.order("none");
    }
}

#[test]
fn a_limit_of_file_sizes_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let command = format!("ulimit -f 1; exec {} world --out w --questions 50 --passages 500", harness::HOPEVAL);
    let output = run(Command::new("bash").current_dir(dir.path()).args(["-c", &command]));
    assert_ends(&output, 2, &["error: ", "File too large"]);
    std::fs::write(dir.path().join("job.toml"), JOB).unwrap();
    let whole = hopeval(dir.path(), &["run", "job.toml", "--store", "whole"]).output().unwrap();
    assert!(whole.status.success());
    // The cache is there, so the first file beyond the limit is the store's.
    let command = format!("ulimit -f 4; exec {} run job.toml --store s --cache whole/cache", harness::HOPEVAL);
    let output = run(Command::new("bash").current_dir(dir.path()).args(["-c", &command]));
    assert_ends(&output, 2, &["the file would be larger than allowed", "ulimit -f"]);
}

#[test]
fn a_reader_of_an_export_may_go_away() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("job.toml"), JOB).unwrap();
    succeed(&mut hopeval(dir.path(), &["run", "job.toml"]));
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut export = hopeval(dir.path(), &["export", "latest", "--format", "trec", "--configuration", "bm25{k=20}"]);
    // `output` would replace the pipe.
    let output = export.stdout(writer).stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
    assert_ends(&output, 141, &[]);
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Live figures are for people: a run does without them.
#[test]
fn live_figures_that_cannot_be_written_end_no_run() {
    let dir = tempfile::tempdir().unwrap();
    harness::world_job(dir.path());
    let store = dir.path().join("hopeval-store");
    kill_after_records(&mut hopeval(dir.path(), &["run", "job.toml", "--workers", "1"]), &store, 3);
    let run_folder = std::fs::read_dir(store.join("runs")).unwrap().next().unwrap().unwrap().path();
    let live = run_folder.join("live.json");
    let _ = std::fs::remove_file(&live);
    std::fs::create_dir_all(live.join("in the way")).unwrap();
    let output = run(&mut hopeval(dir.path(), &["resume", "latest"]));
    assert_ends(&output, 0, &["the live figures are not updated"]);
}
