//! The binary: parses the command line, runs a command, exits with its code.

mod cli;
mod committer;
mod print;
mod process;
mod rewrite;
mod stages;

use hopeval_cluster::{exit, heap, panics, signals};
use std::process::ExitCode;

fn main() -> ExitCode {
    heap::set_limits();
    panics::install();
    if let Err(error) = signals::outlive_file_limits() {
        print::note(&format!("warning: SIGXFSZ cannot be handled: {error}"));
    }
    let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "warn".into());
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false).init();
    let arguments = cli::parse();
    match cli::run(arguments) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            print::error(error.as_ref());
            ExitCode::from(if cli::is_transient(&error) { exit::RESUMABLE } else { exit::USAGE })
        }
    }
}
