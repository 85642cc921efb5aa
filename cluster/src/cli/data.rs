//! `data`: checks a dataset's files, and fetches and verifies public ones.

mod check;
mod fetch;
mod list;
mod verify;

use anyhow::Result;
use clap::{Args, Subcommand};
use hopeval_public_files::{PublicFiles, PublicFilesError};
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(crate) enum DataCommand {
    /// Says what a dataset's files hold.
    Check(check::CheckArguments),
    /// Lists the public files of the papers' jobs: where they come from, sizes, digests, counts.
    List(list::ListArguments),
    /// Fetches public files from their publishers: goes on where it was interrupted, and checks digests.
    Fetch(fetch::FetchArguments),
    /// Compares a folder with the list of public files: missing files, sizes, digests, counts.
    Verify(verify::VerifyArguments),
}

/// The list of public files that a command goes by.
#[derive(Debug, Args)]
struct ListOption {
    /// Another list of public files [default: the project's own].
    #[arg(long, value_name = "FILE")]
    list: Option<PathBuf>,
}

impl ListOption {
    fn load(&self) -> Result<PublicFiles, PublicFilesError> {
        self.list.as_ref().map_or_else(PublicFiles::own, |path| PublicFiles::load(path))
    }
}

pub(crate) fn data(command: DataCommand) -> Result<u8> {
    match command {
        DataCommand::Check(arguments) => check::check(arguments),
        DataCommand::List(arguments) => list::list(&arguments),
        DataCommand::Fetch(arguments) => fetch::fetch(&arguments),
        DataCommand::Verify(arguments) => verify::verify(&arguments),
    }
}
