//! Options for a command's model and its device.

use super::counts::count;
use anyhow::{Context, Result, bail};
use clap::Args;
use hopeval_lm::devices::DeviceName;
use hopeval_lm::engine::EngineOptions;
use hopeval_lm::session::Session;
use hopeval_lm::tokenise::Tokenizer;
use std::path::PathBuf;

/// Where the model is, and how it runs.
#[derive(Clone, Debug, Args)]
pub(crate) struct ModelArguments {
    /// The model's folder, as Hugging Face lays it out.
    #[arg(long, value_name = "DIR")]
    model: PathBuf,
    /// Where it runs: cpu, cpu-avx2, cpu-avx512, cuda, cuda:N; cuda-f32 or cuda-f32:N to check bf16 against.
    #[arg(long, default_value = "cpu")]
    device: DeviceName,
    /// Tokens in a batch at most [default: 2048; 16384 on CUDA].
    #[arg(long, value_parser = count)]
    batch_tokens: Option<usize>,
    /// Tokens whose encoder states are kept, for prompts that come again (encoder-decoders) [default: 32768; 65536 on
    /// CUDA].
    #[arg(long, value_parser = count)]
    states_tokens: Option<usize>,
    /// Tokens that the key/value cache holds (generate) [default: 16384].
    #[arg(long, value_parser = count)]
    cache_tokens: Option<usize>,
    /// Computes every request for itself: to measure what sharing brings.
    #[arg(long)]
    no_share: bool,
}

impl ModelArguments {
    pub(super) fn options(&self) -> EngineOptions {
        let usual = self.device.default_options();
        EngineOptions {
            batch_tokens: self.batch_tokens.unwrap_or(usual.batch_tokens),
            states_tokens: self.states_tokens.unwrap_or(usual.states_tokens),
            cache_tokens: self.cache_tokens.unwrap_or(usual.cache_tokens),
            share: !self.no_share,
        }
    }

    pub(super) fn open(&self, options: EngineOptions, threads: Option<usize>) -> Result<Session> {
        self.check_folder()?;
        self.device.open(0, threads, &self.model, options).with_context(|| self.cannot_open())
    }

    /// Opens only the tokenizer, without reading weights.
    pub(super) fn open_tokenizer(&self) -> Result<Tokenizer> {
        self.check_folder()?;
        Tokenizer::open(&self.model).with_context(|| self.cannot_open())
    }

    /// Checks that the model is a folder. Most missing folders are models' names from job files.
    fn check_folder(&self) -> Result<()> {
        if !self.model.is_dir() {
            bail!(
                "--model {}: there is no such folder\nhint: a model's folder is needed, as Hugging Face lays it out; \
                 names as `hopeval:NAME` and `ORG/NAME` are for jobs",
                self.model.display()
            );
        }
        Ok(())
    }

    fn cannot_open(&self) -> String {
        format!("cannot open the model {}", self.model.display())
    }
}
