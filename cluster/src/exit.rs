//! Exit codes of `hopeval`, for schedulers and scripts.

/// Done.
pub const DONE: u8 = 0;
/// Done, but more outcomes failed than the job allows; `lm`: a line has no answer, or compared answers differ.
pub const FAILED_QUESTIONS: u8 = 1;
/// The command line, a job, an input or the machine is wrong, or a script of `train` failed: starting again gives the
/// same.
pub const USAGE: u8 = 2;
/// Interrupted (`EX_TEMPFAIL` of sysexits.h). A run's commits stay, and `hopeval resume` continues from there; `hopeval
/// run` would make a new run. Commands outside a run (`tune` between two searches, `train`, `data fetch`) are started
/// again by the same command line.
pub const RESUMABLE: u8 = 75;
/// A bug: a panic without a lost peer (the code of Rust's own runtime).
pub const BUG: u8 = 101;
/// The reader of standard output went away, as in `hopeval show | head` (128 + SIGPIPE, as a shell reports it).
pub const CLOSED_PIPE: u8 = 141;
