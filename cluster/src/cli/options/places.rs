//! Options for the places of a command: the store, and the cache of this machine.

use super::thread_count;
use anyhow::{Context, Result};
use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use clap::value_parser;
use hopeval_jobs::cache::Cache;
use hopeval_jobs::places::Places;
use hopeval_jobs::run::open::OpenRun;
use hopeval_results::{DEFAULT_PATIENCE, Store};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

/// The longest allowed patience, in seconds: a day.
const MOST_PATIENCE: u64 = 86_400;

/// Where a command works.
#[derive(Clone, Debug, Args)]
pub(crate) struct PlaceArguments {
    /// Where runs and the journal are: a folder or s3://BUCKET/PREFIX (AWS_* variables are honoured).
    #[arg(long, global = true, env = "HOPEVAL_STORE", default_value = "hopeval-store")]
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub(crate) store: String,
    /// Where corpora and indexes of this machine are [default: in a local store, else under XDG_CACHE_HOME].
    #[arg(long, global = true, env = "HOPEVAL_CACHE")]
    pub(crate) cache: Option<PathBuf>,
    /// Threads that building a corpus or an index, and each model on the CPU, may use [default: all cores].
    #[arg(long, global = true, value_parser = thread_count)]
    threads: Option<NonZeroUsize>,
    /// Seconds that an outage of the store is waited out, with growing pauses, before the command ends with 75.
    #[arg(long, global = true, value_name = "SECONDS", default_value_t = DEFAULT_PATIENCE.as_secs())]
    #[arg(value_parser = value_parser!(u64).range(..=MOST_PATIENCE))]
    pub(crate) storage_patience: u64,
}

impl PlaceArguments {
    pub(crate) fn open(&self) -> Result<Places> {
        let store = Store::open_patiently(&self.store, self.patience())
            .with_context(|| format!("cannot open the store {}", self.store))?;
        Ok(self.with_store(store))
    }

    /// As [`PlaceArguments::open`], for commands about existing runs: a missing store is an error.
    pub(crate) fn open_existing(&self) -> Result<Places> {
        Ok(self.with_store(Store::open_existing(&self.store, self.patience())?))
    }

    /// As [`PlaceArguments::open`], for commands that compute figures: corpora and indexes are read before they are
    /// trusted.
    pub(crate) fn open_to_compute(&self) -> Result<Places> {
        let places = self.open()?;
        Ok(Places { cache: places.cache.verifying(), ..places })
    }

    /// As [`PlaceArguments::open_existing`], for commands that compute something from corpora and indexes.
    pub(crate) fn open_existing_to_compute(&self) -> Result<Places> {
        let places = self.open_existing()?;
        Ok(Places { cache: places.cache.verifying(), ..places })
    }

    /// Opens a run of the store to compute something: by one of its names.
    pub(crate) fn open_run(&self, run: &str) -> Result<OpenRun> {
        let places = self.open_existing_to_compute()?;
        let run = hopeval_results::run::resolve_run(&places.store, run)?;
        Ok(OpenRun::open(&places, &run, &|_, _| ())?)
    }

    /// Opens a run of the store to read its figures. A finished one needs no corpus and no cache.
    pub(crate) fn open_figures(&self, run: &str) -> Result<OpenRun> {
        let places = self.open_existing()?;
        let run = hopeval_results::run::resolve_run(&places.store, run)?;
        Ok(OpenRun::open_figures(&places, &run, &|_, _| ())?)
    }

    /// Opens a run of the store to read its outcomes. A finished one needs no corpus and no cache.
    pub(crate) fn open_outcomes(&self, run: &str) -> Result<OpenRun> {
        let places = self.open_existing()?;
        let run = hopeval_results::run::resolve_run(&places.store, run)?;
        Ok(OpenRun::open_outcomes(&places, &run, &|_, _| ())?)
    }

    fn patience(&self) -> Duration {
        Duration::from_secs(self.storage_patience)
    }

    pub(crate) fn threads(&self) -> Option<usize> {
        self.threads.map(NonZeroUsize::get)
    }

    fn with_store(&self, store: Store) -> Places {
        let cache = match (&self.cache, store.local_path()) {
            (Some(path), _) => path.clone(),
            (None, Some(path)) => path.join("cache"),
            (None, None) => user_cache().join("hopeval"),
        };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Places { store, cache: Cache::new(cache), threads: self.threads().unwrap_or(cores) }
    }
}

/// The user's cache folder, by the XDG base directory specification.
pub(crate) fn user_cache() -> PathBuf {
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home).unwrap_or_else(std::env::temp_dir)
}
