//! The models of `train`: each has a script and a file of rows under its name.

use anyhow::{Result, bail};
use clap::ValueEnum;
use std::path::Path;

/// A trainable model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum TrainableModel {
    /// Scores paths by the likelihood of the question (PromptRank).
    Scorer,
    /// Labels the words of a chunk that matter, and the chunk (EfficientRAG).
    Labeler,
    /// Makes the next hop's query of what was found (EfficientRAG).
    Filter,
    /// Finds the answer's span.
    Reader,
    /// Makes vectors for dense retrieval.
    Encoder,
}

impl TrainableModel {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Scorer => "scorer",
            Self::Labeler => "labeler",
            Self::Filter => "filter",
            Self::Reader => "reader",
            Self::Encoder => "encoder",
        }
    }

    pub(super) fn script(self) -> String {
        format!("{}.py", self.name())
    }

    fn rows(self) -> String {
        format!("{}.parquet", self.name())
    }

    /// The files that the authors' released rows may be in, instead.
    fn released_rows(self) -> Vec<String> {
        match self {
            Self::Labeler | Self::Filter => {
                ["jsonl", "jsonl.gz"].map(|ending| format!("{}.{ending}", self.name())).to_vec()
            }
            Self::Scorer | Self::Reader | Self::Encoder => Vec::new(),
        }
    }

    /// The commands that make the rows, for messages.
    fn made_by(self) -> &'static str {
        match self {
            Self::Scorer | Self::Reader => {
                "`hopeval train-data --questions FILE --out DIR` makes it (with --run it does not), \
                 and ops/train/rows.py of a world"
            }
            Self::Labeler | Self::Filter | Self::Encoder => {
                "`hopeval train-data --out DIR` with --questions FILE or --run RUN makes it, \
                 and ops/train/rows.py of a world"
            }
        }
    }

    /// Checks that the rows exist, before anything is started.
    pub(super) fn check_rows(self, folder: &Path) -> Result<()> {
        let (rows, shown) = (self.rows(), folder.display());
        if !folder.is_dir() {
            bail!("--rows {shown}: there is no such folder, and {rows} is needed in it\nhint: {}", self.made_by());
        }
        let there = [rows.clone()].into_iter().chain(self.released_rows());
        if !there.into_iter().any(|name| folder.join(name).is_file()) {
            let released = self.released_rows().join(" and no ");
            let released = if released.is_empty() { released } else { format!(", and no {released}") };
            bail!("--rows {shown}: there is no {rows}{released} in this folder\nhint: {}", self.made_by());
        }
        Ok(())
    }
}
