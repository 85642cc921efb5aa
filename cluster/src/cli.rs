//! Command-line arguments and dispatch.

mod compare;
mod completions;
mod corpus;
mod costs;
mod data;
mod doctor;
mod endpoint;
mod export;
mod gc;
mod gold;
mod index;
mod init;
mod judge;
mod lm;
mod ls;
mod man;
mod methods;
mod model;
mod note;
mod options;
mod plan;
mod prompts;
mod report;
mod reproduce;
mod requests;
mod rescore;
mod resume;
mod rm;
mod run;
mod run_sequence;
mod score;
mod session;
mod show;
mod simulate_llm;
mod store;
mod sweep_races;
mod tables;
mod train;
mod train_data;
mod tune;
mod world;

use crate::print;
use anyhow::Result;
use clap::builder::Resettable;
use clap::{Arg, CommandFactory, FromArgMatches, Parser, Subcommand, value_parser};
use hopeval_cluster::mesh::MeshError;
use hopeval_jobs::JobError;
use hopeval_jobs::report::export::ExportError;
use hopeval_jobs::report::reproduce::ReproduceError;
use hopeval_public_files::FetchError;
use hopeval_results::StoreError;
use options::{PlaceArguments, thread_count};
use std::path::PathBuf;

/// Evaluates multi-hop question answering over whole datasets: how good, at what cost, at which setting.
#[derive(Debug, Parser)]
#[command(name = "hopeval", version = env!("HOPEVAL_VERSION"), max_term_width = 120)]
pub(crate) struct CommandLine {
    #[command(flatten)]
    places: PlaceArguments,
    /// Shows all columns of tables, however wide the terminal is [default: those that fit COLUMNS or the terminal].
    #[arg(long, global = true)]
    wide: bool,
    #[command(subcommand)]
    command: HopevalCommand,
}

#[derive(Debug, Subcommand)]
enum HopevalCommand {
    /// Runs a job: builds what is missing, evaluates every configuration, writes the tables.
    Run(run::RunArguments),
    /// Looks at a dataset's file and prints a job for it.
    Init(init::InitArguments),
    /// Goes on with a run that was interrupted, with any number of workers and processes.
    Resume(resume::ResumeArguments),
    /// Judges the answers of a finished run by models, in a run of its own: accuracies, and agreement with others.
    Judge(judge::JudgeArguments),
    /// Says what a job would do: questions, requests as far as known, bytes, journal hits.
    Plan(plan::PlanArguments),
    /// Chooses values of parameters on questions that are not evaluated, as a job's [tune] says, and keeps them in
    /// the store.
    Tune(tune::TuneArguments),
    /// Shows a run's figures, live or finished.
    Show(show::ShowArguments),
    /// Shows what a question of a run costs under each configuration: calls, passages, tokens, time.
    Costs(costs::CostsArguments),
    /// Sets configurations of several runs beside each other: what differs, quality paired by question, cost.
    Compare(compare::CompareArguments),
    /// Writes a page about runs: tables, plots, quality against cost, transcripts; one file, without a network.
    Report(report::ReportArguments),
    /// Sets a run's figures beside the published ones of its job, and says which of them compare.
    Reproduce(reproduce::ReproduceArguments),
    /// Computes the measures of a run's committed outcomes anew and prints them.
    Rescore(rescore::RescoreArguments),
    /// Writes a configuration's outcomes in a format that others read.
    Export(export::ExportArguments),
    /// Writes the table of a run's journalled requests.
    Requests(requests::RequestsArguments),
    /// Lists the runs of the store.
    Ls(ls::LsArguments),
    /// Keeps a note on a run, which `ls` and `show` print; without a text, prints it.
    Note(note::NoteArguments),
    /// Removes runs: says what would be removed, and does it with --yes.
    Rm(rm::RmArguments),
    /// Removes what no run needs of the journal and of this machine's cache: says what, and does it with --yes.
    Gc(gc::GcArguments),
    /// The files of the store.
    #[command(subcommand)]
    Store(store::StoreCommand),
    /// Edits of a run's gold.
    #[command(subcommand)]
    Gold(gold::GoldCommand),
    /// Scores predictions as the official scripts do.
    Score(score::ScoreArguments),
    /// Datasets: their content; public ones, fetched and verified.
    #[command(subcommand)]
    Data(data::DataCommand),
    /// Corpora.
    #[command(subcommand)]
    Corpus(corpus::CorpusCommand),
    /// Indexes.
    #[command(subcommand)]
    Index(index::IndexCommand),
    /// Writes a generated world, or calibrates one against a real corpus.
    World(world::WorldArguments),
    /// Makes training data of the small models from a dataset's gold annotations.
    TrainData(train_data::TrainDataArguments),
    /// Trains a model on such data with PyTorch; for this command alone a Python interpreter that has it is needed.
    Train(train::TrainArguments),
    /// The language-model engine by itself: scores, labels, embeds, reads and generates, JSON Lines in and out.
    #[command(subcommand)]
    Lm(Box<lm::LmCommand>),
    /// Lists methods and judges, and shows their parameters with defaults and meanings.
    Methods(methods::MethodsArguments),
    /// Models: those that a job can name here; conversion of older formats.
    #[command(subcommand)]
    Model(model::ModelCommand),
    /// Prompts of others: reads their files into files of demonstrations for jobs.
    #[command(subcommand)]
    Prompts(prompts::PromptsCommand),
    /// Servers of language models behind HTTP.
    #[command(subcommand)]
    Endpoint(endpoint::EndpointCommand),
    /// Serves a *simulated*, OpenAI-compatible language model with limits, latencies and faults: for rehearsals, tests
    /// and capacity planning. It says nothing about real models.
    SimulateLlm(simulate_llm::SimulationArguments),
    /// Says what this machine has and what is missing.
    Doctor(doctor::DoctorArguments),
    /// Prints a script that completes commands and options in a shell.
    Completions(completions::CompletionArguments),
    /// Writes manual pages, one for each command.
    Man(man::ManArguments),
}

/// Reads the command line. Ends the process with a message if it asks for help or cannot be understood.
pub(crate) fn parse() -> CommandLine {
    CommandLine::from_arg_matches(&command_line().get_matches()).unwrap_or_else(|error| error.exit())
}

/// The command line with the options that its commands take.
fn command_line() -> clap::Command {
    without_empty_variables(CommandLine::command()).mut_subcommands(|command| match command.get_name() {
        "lm" => without_places(command).arg(threads_option("Threads of the device [default: all cores]")),
        "methods" | "model" | "endpoint" | "prompts" | "simulate-llm" => {
            without_places(command).arg(threads_option("").hide(true))
        }
        "train" => without_places(command).arg(threads_option("Threads of PyTorch [default: the script's]")),
        _ => command,
    })
}

/// Treats an empty environment variable as an unset one.
fn without_empty_variables(command: clap::Command) -> clap::Command {
    let is_empty = |variable: &str| std::env::var_os(variable).is_some_and(|value| value.is_empty());
    let variables = [("store", "HOPEVAL_STORE"), ("cache", "HOPEVAL_CACHE")];
    variables
        .into_iter()
        .filter(|(_, variable)| is_empty(variable))
        .fold(command, |command, (argument, _)| command.mut_arg(argument, |argument| argument.env(Resettable::Reset)))
}

/// Takes options about stores without showing them, for scripts giving them to every command. A command's own argument
/// replaces the global one of its name.
fn without_places(command: clap::Command) -> clap::Command {
    let hidden = |name: &'static str| Arg::new(name).long(name).global(true).hide(true);
    let patience = hidden("storage_patience").long("storage-patience").value_parser(value_parser!(u64));
    command.arg(patience).arg(hidden("store")).arg(hidden("cache").value_parser(value_parser!(PathBuf)))
}

fn threads_option(help: &'static str) -> Arg {
    Arg::new("threads").long("threads").global(true).value_parser(thread_count).value_name("THREADS").help(help)
}

/// Runs a command and returns its exit code.
pub(crate) fn run(arguments: CommandLine) -> Result<u8> {
    if arguments.wide {
        print::show_wide();
    }
    let places = &arguments.places;
    match arguments.command {
        HopevalCommand::Run(run) => run::run(places, run),
        HopevalCommand::Resume(resume) => resume::resume(places, resume),
        HopevalCommand::Judge(judge) => judge::judge(places, judge),
        HopevalCommand::Plan(plan) => plan::plan(places, plan),
        HopevalCommand::Tune(arguments) => tune::tune(places, arguments),
        HopevalCommand::Show(show) => show::show(places, show),
        HopevalCommand::Costs(costs) => costs::costs(places, costs),
        HopevalCommand::Compare(arguments) => compare::compare(places, &arguments),
        HopevalCommand::Report(arguments) => report::report(places, &arguments),
        HopevalCommand::Reproduce(arguments) => reproduce::reproduce(places, &arguments),
        HopevalCommand::Rescore(rescore) => rescore::rescore(places, rescore),
        HopevalCommand::Export(export) => export::export(places, export),
        HopevalCommand::Requests(requests) => requests::requests(places, requests),
        HopevalCommand::Ls(ls) => ls::list_runs(places, ls),
        HopevalCommand::Note(note) => note::note(places, &note),
        HopevalCommand::Rm(rm) => rm::remove_runs(places, rm),
        HopevalCommand::Gc(gc) => gc::collect_garbage(places, gc),
        HopevalCommand::Store(command) => store::store(places, command),
        HopevalCommand::Gold(gold) => gold::gold(places, gold),
        HopevalCommand::Score(score) => score::score(score),
        HopevalCommand::Data(data) => data::data(data),
        HopevalCommand::Corpus(corpus) => corpus::corpus(corpus),
        HopevalCommand::Index(index) => index::index(places, index),
        HopevalCommand::World(world) => world::world(world),
        HopevalCommand::TrainData(arguments) => train_data::train_data(places, arguments),
        HopevalCommand::Train(training) => train::train(&training, arguments.places.threads()),
        HopevalCommand::Lm(command) => lm::lm(*command, arguments.places.threads()),
        HopevalCommand::Init(arguments) => init::init(&arguments),
        HopevalCommand::Methods(arguments) => methods::methods(&arguments),
        HopevalCommand::Model(command) => model::model(command),
        HopevalCommand::Prompts(command) => prompts::prompts(&command),
        HopevalCommand::Endpoint(command) => endpoint::endpoint(command),
        HopevalCommand::SimulateLlm(arguments) => simulate_llm::simulate_llm(arguments),
        HopevalCommand::Doctor(doctor) => doctor::doctor(places, doctor),
        HopevalCommand::Completions(arguments) => completions::print_completions(&arguments),
        HopevalCommand::Man(arguments) => man::write_pages(&arguments),
    }
}

/// Whether the same command may succeed later: then its exit code says "resumable".
pub(crate) fn is_transient(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<MeshError>().is_some_and(MeshError::may_pass)
            || cause.downcast_ref::<JobError>().is_some_and(JobError::is_transient)
            || cause.downcast_ref::<ExportError>().is_some_and(ExportError::is_transient)
            || cause.downcast_ref::<ReproduceError>().is_some_and(ReproduceError::is_transient)
            || cause.downcast_ref::<FetchError>().is_some_and(FetchError::may_pass)
            || hopeval_results::store_error(cause).is_some_and(StoreError::may_pass)
    })
}
