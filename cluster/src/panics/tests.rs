//! Checks the output and the exit code of a panicking child process.

use std::process::Command;

use super::*;

/// Names the variable with the panic to make in the child of `run`.
const CHILD: &str = "HOPEVAL_TEST_PANIC";

#[test]
fn causes_are_told_apart() {
    let eof = "timely communication error: reading data: socket closed";
    assert_eq!(panic_cause(eof), PanicCause::Cascade);
    assert_eq!(panic_cause("MergeQueue poisoned."), PanicCause::Cascade);
    assert_eq!(panic_cause("called `Result::unwrap()` on an `Err` value: PoisonError { .. }"), PanicCause::Cascade);
    assert_eq!(panic_cause("failed printing to stdout: Broken pipe (os error 32)"), PanicCause::ClosedPipe);
    assert_eq!(panic_cause("index out of bounds: the len is 3 but the index is 3"), PanicCause::Bug);
}

#[test]
fn a_bug_in_a_thread_is_reported_once_and_ends_the_process() {
    let (code, stderr) = run("attempt to lose a question");
    assert_eq!(code, Some(exit::BUG.into()));
    let line = stderr.lines().find(|line| line.starts_with("error:")).unwrap();
    assert!(line.contains("bug in hopeval: attempt to lose a question (at "), "{stderr}");
    assert!(line.contains("tests.rs") && line.ends_with("thread worker)"), "{stderr}");
    assert!(!stderr.contains("panicked at"), "{stderr}");
}

#[test]
fn a_lost_peer_ends_the_process_silently() {
    let (code, stderr) = run("timely communication error: reading data: socket closed");
    assert_eq!((code, stderr.as_str()), (Some(exit::RESUMABLE.into()), ""));
}

/// Runs `child` in a process of its own.
fn run(message: &str) -> (Option<i32>, String) {
    let this = std::env::current_exe().unwrap();
    let args = ["--exact", "panics::tests::child", "--ignored", "--nocapture", "--quiet"];
    let output = Command::new(this).args(args).env(CHILD, message).env_remove("RUST_BACKTRACE").output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
#[ignore = "the child process of the tests above"]
fn child() {
    let Ok(message) = std::env::var(CHILD) else { return };
    install();
    let worker = std::thread::Builder::new().name("worker".to_owned()).spawn(move || {
        // Unwinding must not be reached, so this must not be seen.
        let _guard = Shout;
        panic!("{message}");
    });
    let _ = worker.unwrap().join();
    process::exit(0);
}

struct Shout;

impl Drop for Shout {
    fn drop(&mut self) {
        let _ = writeln!(std::io::stderr(), "unwound");
    }
}
