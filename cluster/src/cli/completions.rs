//! `completions`: the script that completes the command line in a shell.

use crate::print;
use anyhow::Result;
use clap::Args;
use clap_complete::Shell;
use hopeval_cluster::exit;

#[derive(Debug, Args)]
pub(crate) struct CompletionArguments {
    /// The shell.
    shell: Shell,
}

pub(crate) fn print_completions(arguments: &CompletionArguments) -> Result<u8> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut super::command_line(), "hopeval", &mut script);
    print::line(String::from_utf8(script)?.trim_end());
    Ok(exit::DONE)
}
