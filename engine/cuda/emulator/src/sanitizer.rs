//! Address and undefined-behaviour sanitizers. They must be loaded before anything else, so a test with sanitizers runs
//! again in a process of its own.

use crate::library::compiler_path;
use std::path::PathBuf;
use std::process::{Command, Output};

/// Exit status of a process ended by address sanitizer.
const FOUND: &str = "99";

/// The sanitizer's shared library, if the compiler has one.
pub(crate) fn sanitizer_library() -> Option<PathBuf> {
    let answer =
        Command::new(compiler_path()).env_remove("LD_PRELOAD").arg("-print-file-name=libasan.so").output().ok()?;
    let path = PathBuf::from(String::from_utf8(answer.stdout).ok()?.trim());
    // A compiler without the library prints the bare name.
    (path.is_absolute() && path.exists()).then_some(path)
}

/// True if the sanitizer was loaded when this process began.
#[cfg(unix)]
pub fn is_loaded() -> bool {
    // SAFETY: a name is looked up; nothing is called.
    unsafe { libloading::os::unix::Library::this().get::<unsafe extern "C" fn()>("__asan_init").is_ok() }
}

/// True if the sanitizer was loaded when this process began.
#[cfg(not(unix))]
pub fn is_loaded() -> bool {
    false
}

/// Runs one test of this test binary again, with sanitizers and these variables; `None` if that is not possible.
pub fn run_again(test: &str, variables: &[(&str, &str)]) -> Option<Output> {
    let library = sanitizer_library()?;
    let with = |command: &mut Command| {
        // Leaks are the test harness's. A small quarantine of freed memory is enough: buffers live and die in order.
        let options = format!("detect_leaks=0:halt_on_error=1:exitcode={FOUND}:quarantine_size_mb=16");
        let ran =
            command.env("LD_PRELOAD", &library).env("ASAN_OPTIONS", options).envs(variables.iter().copied()).output();
        ran.ok()
    };
    // The machine may forbid the sanitizer's layout of memory.
    with(&mut Command::new("true")).filter(|ran| ran.status.success())?;
    with(Command::new(std::env::current_exe().ok()?).args(["--exact", test, "--nocapture", "--include-ignored"]))
}
