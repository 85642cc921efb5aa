//! `man`: manual pages, one for each command.

use crate::print;
use anyhow::{Context, Result};
use clap::Args;
use hopeval_cluster::exit;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct ManArguments {
    /// The folder of the pages.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

pub(crate) fn write_pages(arguments: &ManArguments) -> Result<u8> {
    let folder = arguments.out.display();
    std::fs::create_dir_all(&arguments.out).with_context(|| format!("cannot make the folder {folder}"))?;
    clap_mangen::generate_to(super::command_line(), &arguments.out)
        .with_context(|| format!("cannot write pages into {folder}"))?;
    print::line(&arguments.out.display().to_string());
    Ok(exit::DONE)
}
