//! Options for a command's model and its device.

use super::counts::count;
use crate::cli::options::user_cache;
use anyhow::{Context, Result};
use clap::Args;
use hopeval_jobs::services::models::find_model;
use hopeval_lm::devices::DeviceName;
use hopeval_lm::engine::{EngineOptions, PoolTokens};
use hopeval_lm::session::Session;
use hopeval_lm::tokenise::Tokenizer;
use std::path::PathBuf;

/// The model, and the device on which it runs.
#[derive(Clone, Debug, Args)]
pub(crate) struct ModelArguments {
    /// The model: a folder as Hugging Face lays it out, ORG/NAME in the hub's cache on this machine, or hopeval:NAME.
    #[arg(long)]
    model: String,
    /// Where it runs: cpu, cpu-avx2, cpu-avx512, cuda, cuda:N; cuda-f32 or cuda-f32:N to check bf16 against.
    #[arg(long, default_value = "cpu")]
    device: DeviceName,
    /// Tokens in a batch at most [default: 2048; 16384 on CUDA].
    #[arg(long, value_parser = count)]
    batch_tokens: Option<usize>,
    /// Tokens whose encoder states are kept, for prompts that come again (encoder-decoders) [default: 32768; on
    /// CUDA 65536, up to 1048576 in an eighth of the free memory].
    #[arg(long, value_parser = count)]
    states_tokens: Option<usize>,
    /// Tokens that the key/value cache holds (generate) [default: 16384; on CUDA more in an eighth of
    /// the free memory].
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
            states_tokens: self.states_tokens.map_or(usual.states_tokens, PoolTokens::exactly),
            cache_tokens: self.cache_tokens.map_or(usual.cache_tokens, PoolTokens::exactly),
            share: !self.no_share,
        }
    }

    pub(super) fn open(&self, options: EngineOptions, threads: Option<usize>) -> Result<Session> {
        self.device.open(0, threads, &self.folder()?, options).with_context(|| self.cannot_open())
    }

    /// Opens only the tokenizer, without reading weights.
    pub(super) fn open_tokenizer(&self) -> Result<Tokenizer> {
        Tokenizer::open(&self.folder()?).with_context(|| self.cannot_open())
    }

    /// The model's folder. One of hopeval's own is unpacked into the user's cache.
    fn folder(&self) -> Result<PathBuf> {
        find_model(&self.model, &user_cache().join("hopeval")).with_context(|| format!("--model {}", self.model))
    }

    fn cannot_open(&self) -> String {
        format!("cannot open the model {}", self.model)
    }
}
