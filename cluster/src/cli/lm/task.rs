//! The engine's tasks in `lm bench` and `lm self-check`, and the requests of a file's lines.

use super::embed::PoolingName;
use super::lines::LineArguments;
use anyhow::{Result, bail};
use clap::ValueEnum;
use hopeval_datasets::input::InputStream;
use hopeval_lm::lines::{self, SamplingOptions, Task};
use hopeval_lm::request::Request;
use hopeval_lm::session::Session;
use std::io::{BufRead, BufReader};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum TaskName {
    Score,
    Label,
    Classify,
    Embed,
    Read,
    Generate,
}

impl TaskName {
    pub(super) fn task(self, temperatures: Vec<(String, f32)>, max_tokens: usize) -> Task {
        match self {
            Self::Score => Task::Score { temperatures, target_eos: true },
            Self::Label => Task::Label,
            Self::Classify => Task::Classify,
            Self::Embed => Task::Embed { pooling: PoolingName::Mean.want(), normalize: false },
            Self::Read => Task::Read { max_answer_tokens: 30 },
            Self::Generate => {
                let sampling = SamplingOptions { temperature: 0.0, top_k: 0, top_p: 1.0, seed: 0 };
                Task::Generate { max_tokens, ignore_eos: true, sampling, stop: Vec::new() }
            }
        }
    }
}

/// The requests of a file's lines; a bad line is an error here.
pub(super) fn read_requests(session: &Session, task: &Task, lines: &LineArguments) -> Result<Vec<Request>> {
    Ok(lines::parse_requests(session, task, read_lines(lines)?)?)
}

/// The lines of the `--input` file.
pub(super) fn read_lines(lines: &LineArguments) -> Result<impl BufRead> {
    let Some(path) = &lines.input else {
        bail!("--input FILE is needed: the lines are read whole before they are answered")
    };
    Ok(BufReader::new(InputStream::open(path)?))
}
