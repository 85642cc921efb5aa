//! The compiler's sanitizers. They must be loaded before anything else, so a test with one runs again in a process of
//! its own.

use crate::library::compiler_path;
use std::path::PathBuf;
use std::process::{Command, Output};

/// Exit status of a process ended by a sanitizer.
const FOUND: &str = "99";

/// A sanitizer of the C++ compiler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sanitizer {
    /// Addresses, and undefined behaviour.
    Address,
    /// Data races: two accesses to the same memory, one of them a write, that no barrier orders. Fibres pass for
    /// threads; `emulator.cpp` says which of a GPU's operations order memory.
    Thread,
}

impl Sanitizer {
    pub(crate) fn compiler_flags(self) -> &'static [&'static str] {
        match self {
            Self::Address => &[
                "-O1",
                "-g",
                "-fno-omit-frame-pointer",
                "-fsanitize=address,undefined",
                "-fno-sanitize-recover=undefined",
            ],
            Self::Thread => &["-O1", "-g", "-fno-omit-frame-pointer", "-fsanitize=thread", "-DHOPEVAL_RACES"],
        }
    }

    /// Flags for the emulator itself, whose own accesses are no kernel's.
    pub(crate) fn emulator_flags(self) -> &'static [&'static str] {
        match self {
            Self::Address => &[],
            Self::Thread => &["-fno-sanitize=thread"],
        }
    }

    pub(crate) fn library_name(self) -> &'static str {
        match self {
            Self::Address => "libasan.so",
            Self::Thread => "libtsan.so",
        }
    }

    /// The sanitizer's shared library, if the compiler has one.
    pub(crate) fn library(self) -> Option<PathBuf> {
        let name = format!("-print-file-name={}", self.library_name());
        let answer = Command::new(compiler_path()).env_remove("LD_PRELOAD").arg(name).output().ok()?;
        let path = PathBuf::from(String::from_utf8(answer.stdout).ok()?.trim());
        // A compiler without the library prints the bare name.
        (path.is_absolute() && path.exists()).then_some(path)
    }

    /// True if the sanitizer was loaded when this process began.
    #[cfg(unix)]
    pub fn is_loaded(self) -> bool {
        let name = match self {
            Self::Address => "__asan_init",
            Self::Thread => "__tsan_init",
        };
        // SAFETY: a name is looked up; nothing is called.
        unsafe { libloading::os::unix::Library::this().get::<unsafe extern "C" fn()>(name).is_ok() }
    }

    /// True if the sanitizer was loaded when this process began.
    #[cfg(not(unix))]
    pub fn is_loaded(self) -> bool {
        false
    }

    /// The variable of its options, and their values.
    fn options(self) -> (&'static str, String) {
        match self {
            // Leaks are the test harness's. A small quarantine of freed memory is enough: buffers live and die in
            // order.
            Self::Address => {
                ("ASAN_OPTIONS", format!("detect_leaks=0:halt_on_error=1:exitcode={FOUND}:quarantine_size_mb=16"))
            }
            // Rust's own locks are not seen, so only the kernels' library is looked at.
            Self::Thread => (
                "TSAN_OPTIONS",
                format!("halt_on_error=1:exitcode={FOUND}:ignore_noninstrumented_modules=1:report_thread_leaks=0"),
            ),
        }
    }

    /// Runs one test of this test binary again, with the sanitizer and these variables; `None` if that is not possible.
    pub fn run_again(self, test: &str, variables: &[(&str, &str)]) -> Option<Output> {
        let library = self.library()?;
        let (name, options) = self.options();
        let with = |mut command: Command| {
            command.env("LD_PRELOAD", &library).env(name, &options).envs(variables.iter().copied()).output().ok()
        };
        // The machine may forbid the sanitizer's layout of memory. Some allow it where addresses are not random.
        let plain = |program: &std::ffi::OsStr| Command::new(program);
        let fixed = |program: &std::ffi::OsStr| {
            let mut command = Command::new("setarch");
            command.arg("-R").arg(program);
            command
        };
        let starts = |command: Command| with(command).is_some_and(|ran| ran.status.success());
        let test_binary = std::env::current_exe().ok()?;
        let mut again = if starts(plain("true".as_ref())) {
            plain(test_binary.as_os_str())
        } else if starts(fixed("true".as_ref())) {
            fixed(test_binary.as_os_str())
        } else {
            return None;
        };
        again.args(["--exact", test, "--nocapture", "--include-ignored"]);
        with(again)
    }
}
