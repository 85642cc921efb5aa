//! Address and undefined-behaviour sanitizers: they must be loaded before anything else, so a test that wants them runs again
//! in a process of its own.

use crate::library::compiler;
use std::path::PathBuf;
use std::process::{Command, Output};

/// Exit status of a process that address sanitizer ended.
const FOUND: &str = "99";

/// The sanitizer's shared library, if the compiler has one.
pub(crate) fn library() -> Option<PathBuf> {
    let answer = Command::new(compiler()).env_remove("LD_PRELOAD").arg("-print-file-name=libasan.so").output().ok()?;
    let path = PathBuf::from(String::from_utf8(answer.stdout).ok()?.trim());
    // A compiler without one answers with the bare name.
    (path.is_absolute() && path.exists()).then_some(path)
}

/// Whether this process began with it.
#[cfg(unix)]
pub fn is_loaded() -> bool {
    // SAFETY: a name is looked up, nothing is called.
    unsafe { libloading::os::unix::Library::this().get::<unsafe extern "C" fn()>("__asan_init").is_ok() }
}

/// Whether this process began with it.
#[cfg(not(unix))]
pub fn is_loaded() -> bool {
    false
}

/// Runs one test of the test binary that this is again, with sanitizers and these variables; none where that cannot be done.
pub fn run_again(test: &str, variables: &[(&str, &str)]) -> Option<Output> {
    let library = library()?;
    let with = |command: &mut Command| {
        // Leaks are those of the test harness; freed memory that is kept needs not be much, buffers live and die in order.
        let options = format!("detect_leaks=0:halt_on_error=1:exitcode={FOUND}:quarantine_size_mb=16");
        let ran =
            command.env("LD_PRELOAD", &library).env("ASAN_OPTIONS", options).envs(variables.iter().copied()).output();
        ran.ok()
    };
    // A machine may forbid its layout of memory.
    with(&mut Command::new("true")).filter(|ran| ran.status.success())?;
    with(Command::new(std::env::current_exe().ok()?).args(["--exact", test, "--nocapture", "--include-ignored"]))
}
