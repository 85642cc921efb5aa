//! `corpus`: builds, describes and verifies corpora, which are folders of their own.

mod build;

use crate::print;
use anyhow::Result;
use build::BuildArguments;
use clap::Subcommand;
use hopeval_cluster::exit;
use hopeval_corpus::Corpus;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(crate) enum CorpusCommand {
    /// Builds a corpus.
    Build(BuildArguments),
    /// Says what a corpus holds.
    Info {
        /// Its folder.
        dir: PathBuf,
    },
    /// Reads all of a corpus and compares it with its digest.
    Verify {
        /// Its folder.
        dir: PathBuf,
    },
}

pub(crate) fn corpus(command: CorpusCommand) -> Result<u8> {
    match command {
        CorpusCommand::Build(arguments) => build::build_corpus(&arguments),
        CorpusCommand::Info { dir } => {
            let corpus = Corpus::open(&dir)?;
            print::line(&serde_json::to_string_pretty(corpus.info())?);
            Ok(exit::DONE)
        }
        CorpusCommand::Verify { dir } => {
            let corpus = Corpus::open(&dir)?;
            corpus.verify()?;
            print::line(&format!("{}: {} passages, digest {}", dir.display(), corpus.len(), corpus.digest()));
            Ok(exit::DONE)
        }
    }
}
