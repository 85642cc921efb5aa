//! The command line: what can be said, and which command does it.

mod artefacts;
mod compare;
mod costs;
mod evaluate;
mod inspect;
mod lm;
mod model;
mod replicates;
mod score;
mod stages;
mod train;
mod train_data;
mod tune;
mod world;

use anyhow::{Context, Result};
use clap::builder::NonEmptyStringValueParser;
use clap::{Arg, Args, CommandFactory, FromArgMatches, Parser, Subcommand, value_parser};
use hopeval_cluster::mesh::MeshError;
use hopeval_jobs::JobError;
use hopeval_jobs::corpora::Cache;
use hopeval_jobs::run::Places;
use hopeval_results::Store;
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// Evaluates multi-hop question answering over whole datasets: how good, at what cost, at which setting.
#[derive(Debug, Parser)]
#[command(name = "hopeval", version, max_term_width = 120)]
pub(crate) struct Arguments {
    #[command(flatten)]
    places: PlaceArguments,
    #[command(subcommand)]
    command: Command,
}

/// Where a command works.
#[derive(Clone, Debug, Args)]
struct PlaceArguments {
    /// Where runs and the journal are: a folder or s3://BUCKET/PREFIX (AWS_* variables are honoured).
    #[arg(long, global = true, env = "HOPEVAL_STORE", default_value = "hopeval-store", value_parser = NonEmptyStringValueParser::new())]
    store: String,
    /// Where corpora and indexes of this machine are [default: in a local store, else under XDG_CACHE_HOME].
    #[arg(long, global = true, env = "HOPEVAL_CACHE")]
    cache: Option<PathBuf>,
    /// Threads that building a corpus or an index, and each model on the CPU, may use [default: all cores].
    #[arg(long, global = true, value_parser = at_least_one)]
    threads: Option<NonZeroUsize>,
}

impl PlaceArguments {
    fn open(&self) -> Result<Places> {
        let store = Store::open(&self.store).with_context(|| format!("cannot open the store {}", self.store))?;
        Ok(self.around(store))
    }

    /// As [`PlaceArguments::open`], for commands about runs that are there: a store that is not is an error.
    fn open_existing(&self) -> Result<Places> {
        Ok(self.around(Store::open_existing(&self.store)?))
    }

    fn threads(&self) -> Option<usize> {
        self.threads.map(NonZeroUsize::get)
    }

    fn around(&self, store: Store) -> Places {
        let cache = match (&self.cache, store.local_path()) {
            (Some(path), _) => path.clone(),
            (None, Some(path)) => path.join("cache"),
            (None, None) => user_cache().join("hopeval"),
        };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Places { store, cache: Cache::new(cache), threads: self.threads().unwrap_or(cores) }
    }
}

impl PlaceArguments {
    /// As [`PlaceArguments::open`], for commands that compute figures: no index is trusted unread.
    fn open_to_compute(&self) -> Result<Places> {
        let places = self.open()?;
        Ok(Places { cache: places.cache.verifying(), ..places })
    }
}

/// The user's cache folder, by the XDG base directory specification.
fn user_cache() -> PathBuf {
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home).unwrap_or_else(std::env::temp_dir)
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs a job: builds what is missing, evaluates every configuration, writes the tables.
    Run(evaluate::RunArguments),
    /// Goes on with a run that was interrupted, with any number of workers and processes.
    Resume(evaluate::ResumeArguments),
    /// Says what a job would do: questions, requests as far as known, bytes, journal hits.
    Plan(evaluate::PlanArguments),
    /// Chooses values of parameters on questions that are not evaluated, as a job's [tune] says, and keeps them in the store.
    Tune(tune::TuneArguments),
    /// Shows a run's figures, live or finished.
    Show(inspect::ShowArguments),
    /// Shows what a question of a run costs under each configuration: calls, passages, tokens, time.
    Costs(costs::CostsArguments),
    /// Computes the measures of a run's committed outcomes anew and prints them.
    Rescore(inspect::RescoreArguments),
    /// Writes a configuration's outcomes in a format that others read.
    Export(inspect::ExportArguments),
    /// Writes the table of a run's journalled requests.
    Requests(inspect::RequestsArguments),
    /// Lists the runs of the store.
    Ls(inspect::LsArguments),
    /// Edits of a run's gold.
    #[command(subcommand)]
    Gold(inspect::GoldCommand),
    /// Scores predictions as the official scripts do.
    Score(score::ScoreArguments),
    /// Datasets.
    #[command(subcommand)]
    Data(artefacts::DataCommand),
    /// Corpora.
    #[command(subcommand)]
    Corpus(artefacts::CorpusCommand),
    /// Indexes.
    #[command(subcommand)]
    Index(artefacts::IndexCommand),
    /// Writes a generated world, or calibrates one against a real corpus.
    World(world::WorldArguments),
    /// Makes training data of the small models from a dataset's gold annotations.
    TrainData(train_data::TrainDataArguments),
    /// Trains a model on such data with PyTorch; for this command alone a Python interpreter that has it is needed.
    Train(train::TrainArguments),
    /// The language-model engine by itself: scores, labels, embeds, reads and generates, JSON Lines in and out.
    #[command(subcommand)]
    Lm(Box<lm::LmCommand>),
    /// Model folders.
    #[command(subcommand)]
    Model(model::ModelCommand),
    /// Says what this machine has and what is missing.
    Doctor(inspect::DoctorArguments),
}

/// Reads the command line; ends the process with a message where it asks for help or cannot be understood.
pub(crate) fn parse() -> Arguments {
    let command = Arguments::command().mut_subcommands(|command| match command.get_name() {
        "lm" => without_places(command).arg(threads("Threads of the device [default: all cores]")),
        "model" => without_places(command).arg(threads("").hide(true)),
        "train" => without_places(command).arg(threads("Threads of PyTorch [default: the script's]")),
        _ => command,
    });
    Arguments::from_arg_matches(&command.get_matches()).unwrap_or_else(|error| error.exit())
}

/// Takes options about stores, for scripts that give them to every command, and does not show them: an argument of a command's own
/// stands in for the global one of its name.
fn without_places(command: clap::Command) -> clap::Command {
    let hidden = |name: &'static str| Arg::new(name).long(name).global(true).hide(true);
    command.arg(hidden("store")).arg(hidden("cache").value_parser(value_parser!(PathBuf)))
}

fn at_least_one(text: &str) -> Result<NonZeroUsize, &'static str> {
    text.parse().map_err(|_| "allowed is a whole number, at least 1")
}

/// A number of questions.
fn some(text: &str) -> Result<u64, &'static str> {
    at_least_one(text).map(|number| number.get() as u64)
}

fn threads(help: &'static str) -> Arg {
    Arg::new("threads").long("threads").global(true).value_parser(at_least_one).value_name("THREADS").help(help)
}

/// Runs a command and returns its exit code.
pub(crate) fn run(arguments: Arguments) -> Result<u8> {
    let places = &arguments.places;
    match arguments.command {
        Command::Run(run) => evaluate::run(places, run),
        Command::Resume(resume) => evaluate::resume(places, resume),
        Command::Plan(plan) => evaluate::plan(places, plan),
        Command::Tune(arguments) => tune::tune(places, arguments),
        Command::Show(show) => inspect::show(places, show),
        Command::Costs(costs) => costs::costs(places, costs),
        Command::Rescore(rescore) => inspect::rescore(places, rescore),
        Command::Export(export) => inspect::export(places, export),
        Command::Requests(requests) => inspect::requests(places, requests),
        Command::Ls(ls) => inspect::ls(places, ls),
        Command::Gold(gold) => inspect::gold(places, gold),
        Command::Score(score) => score::score(score),
        Command::Data(data) => artefacts::data(data),
        Command::Corpus(corpus) => artefacts::corpus(places, corpus),
        Command::Index(index) => artefacts::index(places, index),
        Command::World(world) => world::world(world),
        Command::TrainData(arguments) => train_data::train_data(places, arguments),
        Command::Train(training) => train::train(&training, arguments.places.threads()),
        Command::Lm(command) => lm::lm(*command, arguments.places.threads()),
        Command::Model(command) => model::model(command),
        Command::Doctor(doctor) => inspect::doctor(places, doctor),
    }
}

/// Whether the same command may succeed later: then its exit code says "resumable".
pub(crate) fn is_transient(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<MeshError>().is_some_and(MeshError::may_pass)
            || cause.downcast_ref::<JobError>().is_some_and(JobError::is_transient)
    })
}
