//! Exit codes of `hopeval`, which schedulers and scripts act upon.

/// Done.
pub const DONE: u8 = 0;
/// Done, but more questions failed than the job allows.
pub const FAILED_QUESTIONS: u8 = 1;
/// The command line, a job or an input is wrong: starting again gives the same.
pub const USAGE: u8 = 2;
/// Interrupted; what was committed stays, and the same command goes on from there (`EX_TEMPFAIL` of sysexits.h).
pub const RESUMABLE: u8 = 75;
/// A bug: a panic that no lost peer explains (the code of Rust's own runtime).
pub const BUG: u8 = 101;
/// The reader of standard output went away, as in `hopeval show | head` (128 + SIGPIPE, as a shell reports it).
pub const CLOSED_PIPE: u8 = 141;
