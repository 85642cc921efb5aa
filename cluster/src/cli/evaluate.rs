//! `run`, `resume`, `plan`: evaluating a job.

use super::stages::Stages;
use super::{PlaceArguments, some};
use crate::print::{self, Choice};
use crate::process::{Interrupts, Membership, Process, ProcessEnd, serve_metrics};
use anyhow::{Result, anyhow, bail};
use clap::Args;
use hopeval_cluster::exit;
use hopeval_cluster::mesh;
use hopeval_cluster::signals::Notice;
use hopeval_cluster::supervise::{self, Grace};
use hopeval_jobs::job::Mode;
use hopeval_jobs::run::{self, Generation, Open, Places};
use hopeval_jobs::{DEFAULT_JOB, Job, failures, plan as planning, show};
use hopeval_results::layout;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::Duration;

#[derive(Clone, Debug, Args)]
pub(crate) struct JobArguments {
    /// The job's TOML file; without one, a generated world is evaluated.
    job: Option<PathBuf>,
    /// Overrides a key of the job, as in `--set method.bm25.k=5`.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// The first so many questions only.
    #[arg(long, allow_negative_numbers = true, value_parser = some)]
    limit: Option<u64>,
}

impl JobArguments {
    pub(super) fn load(&self) -> Result<Job> {
        let mut job = match &self.job {
            Some(path) => Job::load(path, &self.sets)?,
            None => Job::parse(DEFAULT_JOB, Path::new("the embedded job"), &self.sets)?,
        };
        job.dataset.limit = self.limit.or(job.dataset.limit);
        Ok(job)
    }
}

/// How the work is spread.
#[derive(Clone, Debug, Args)]
pub(crate) struct MeshArguments {
    /// Workers of each process.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1024))]
    workers: u32,
    /// Processes; without `--process` all are started here.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    processes: u32,
    /// Index of this process, where each is started on its own host.
    #[arg(long, requires = "hosts")]
    process: Option<usize>,
    /// Addresses of all processes, as host:port, the same list everywhere.
    #[arg(long, value_delimiter = ',')]
    hosts: Vec<String>,
    /// Seconds without a sign of work after which a process counts as stalled.
    #[arg(long, default_value_t = 30.0)]
    stall_bound: f64,
    /// Seconds that forming the mesh may take.
    #[arg(long, default_value_t = 60.0)]
    mesh_deadline: f64,
    /// Serves Prometheus metrics at this address, e.g. 127.0.0.1:9464.
    #[arg(long, value_name = "ADDR")]
    metrics: Option<std::net::SocketAddr>,
}

impl MeshArguments {
    /// Sees that the options fit each other: before a run is made, which would stay behind unfinished.
    pub(super) fn check(&self) -> Result<()> {
        if self.supervises() && !self.hosts.is_empty() {
            bail!("--hosts {}: --process is needed too, and says which of them this is", self.hosts.join(","));
        }
        self.membership().map(drop)
    }

    fn membership(&self) -> Result<Membership> {
        let seconds = |name: &str, value: f64| {
            Duration::try_from_secs_f64(value)
                .ok()
                .filter(|d| !d.is_zero())
                .ok_or_else(|| anyhow!("--{name} {value}: more than 0 seconds are allowed"))
        };
        let process = self.process.unwrap_or(0);
        let hosts = if self.hosts.is_empty() { vec!["127.0.0.1:0".to_owned()] } else { self.hosts.clone() };
        if process >= hosts.len() || (self.process.is_some() && self.processes as usize != hosts.len()) {
            bail!("--process {process} of --processes {}: --hosts names {} processes", self.processes, hosts.len());
        }
        if hosts.len() > 1 {
            mesh::check_hosts(&hosts).map_err(|error| anyhow!("--hosts: {error}"))?;
        }
        Ok(Membership {
            process,
            hosts,
            workers: self.workers as usize,
            stall_bound: seconds("stall-bound", self.stall_bound)?,
            deadline: seconds("mesh-deadline", self.mesh_deadline)?,
        })
    }

    /// Whether this is one process of a mesh whose processes are started by others.
    pub(super) fn is_one_of_several(&self) -> bool {
        self.process.is_some()
    }

    /// Whether the processes are started here, by a supervisor.
    fn supervises(&self) -> bool {
        self.processes > 1 && self.process.is_none()
    }
}

#[derive(Clone, Debug, Args)]
pub(crate) struct OutputArguments {
    /// Prints one JSON document instead of tables.
    #[arg(long)]
    pub(crate) json: bool,
    /// Shows this measure instead of the headline ones; may be repeated.
    #[arg(long = "measure", value_name = "NAME")]
    measures: Vec<String>,
    /// Shows this stratum instead of `all`, e.g. type=bridge.
    #[arg(long, value_name = "NAME")]
    stratum: Option<String>,
    /// Shows how every configuration differs from this one, paired by question; replicates count as one configuration.
    #[arg(long, value_name = "CONFIGURATION")]
    against: Option<String>,
}

impl OutputArguments {
    /// Whether something is asked for by name, which a run may not have.
    fn names_something(&self) -> bool {
        !self.measures.is_empty() || self.stratum.is_some() || self.against.is_some()
    }

    /// Sees that the run has the measures, the stratum and the configuration that are asked for.
    fn check(&self, run: &Open) -> Result<()> {
        if let Some(stratum) = &self.stratum
            && !run.judge.strata().contains(stratum)
        {
            bail!("no stratum `{stratum}`; the run has {}", run.judge.strata().join(", "));
        }
        let names = run.judge.set().names();
        if let Some(unknown) = self.measures.iter().find(|name| !names.contains(name)) {
            bail!("no measure `{unknown}`; the run has {}", names.join(", "));
        }
        if let Some(against) = &self.against {
            hopeval_jobs::compare::check(run, against)?;
        }
        Ok(())
    }

    /// Prints a run's figures.
    pub(crate) fn print(&self, run: &Open) -> Result<()> {
        self.check(run)?;
        let shown = show::show(run)?;
        let stratum = self.stratum.as_deref().unwrap_or("all");
        let differences = |against: &String| super::compare::comparisons(run, against, &self.measures, stratum);
        let differences = self.against.as_ref().map(differences).transpose()?;
        if self.json {
            let mut document = show::document(run, &shown);
            if let Some(differences) = differences {
                document["differences"] = serde_json::to_value(differences.differences)?;
                document["differences_left_out"] = serde_json::to_value(differences.left_out)?;
            }
            print::line(&serde_json::to_string(&document)?);
            return Ok(());
        }
        let choice = Choice { measures: self.measures.clone(), stratum: self.stratum.clone() };
        print::line(print::measures(run, &shown, &choice).trim_end());
        if let Some(table) = super::replicates::table(&shown, &self.measures, stratum) {
            print::line(&table);
        }
        if let Some((against, differences)) = self.against.as_ref().zip(differences) {
            print::line(&super::compare::tables(against, &differences));
        }
        print::line(&print::incurred(&shown.costs));
        let out = run.places.store.full_name(&layout::run(run.id()));
        print::line(&format!("results: {out}"));
        Ok(())
    }
}

#[derive(Clone, Debug, Args)]
pub(crate) struct RunArguments {
    #[command(flatten)]
    job: JobArguments,
    #[command(flatten)]
    mesh: MeshArguments,
    #[command(flatten)]
    output: OutputArguments,
    /// What the run is timed for: `throughput`, or `latency`: one question at a time, nothing shared. Figures are the same
    /// [default: the job's `run.mode`].
    #[arg(long, value_name = "MODE")]
    mode: Option<Mode>,
    /// Sets bad rows of the dataset aside in this file instead of failing.
    #[arg(long, value_name = "FILE")]
    quarantine: Option<PathBuf>,
    /// Prints the job as it was understood, overrides applied, and does nothing.
    #[arg(long)]
    show_settings: bool,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct ResumeArguments {
    /// The run's id, or the beginning of it, or `latest`.
    run: String,
    #[command(flatten)]
    mesh: MeshArguments,
    #[command(flatten)]
    output: OutputArguments,
    /// Prints nothing at the end: for the processes that a supervisor starts.
    #[arg(long, hide = true)]
    quiet: bool,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct PlanArguments {
    #[command(flatten)]
    job: JobArguments,
    /// Sets bad rows of the dataset aside in this file instead of failing.
    #[arg(long, value_name = "FILE")]
    quarantine: Option<PathBuf>,
    /// Prints one JSON document.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(places: &PlaceArguments, arguments: RunArguments) -> Result<u8> {
    let mut job = arguments.job.load()?;
    job.run.mode = arguments.mode.unwrap_or(job.run.mode);
    if arguments.show_settings {
        print::line(toml::to_string_pretty(&job)?.trim_end());
        return Ok(exit::DONE);
    }
    arguments.mesh.check()?;
    let opened = places.open_to_compute()?;
    let progress = Stages::new();
    let report = |stage: &str, done: u64| progress.tick(stage, done);
    let interrupts = Interrupts::install(Notice::Print)?;
    let leads = arguments.mesh.process.unwrap_or(0) == 0;
    let run = if leads { Some(run::make(&job, &opened, arguments.quarantine.as_deref(), &report)?) } else { None };
    evaluate(places, &opened, run, &arguments.mesh, &arguments.output, &interrupts, &progress)
}

pub(crate) fn resume(places: &PlaceArguments, arguments: ResumeArguments) -> Result<u8> {
    arguments.mesh.check()?;
    let opened = places.open_existing()?;
    let opened = Places { cache: opened.cache.verifying(), ..opened };
    let run = hopeval_results::run::resolve(&opened.store, &arguments.run)?;
    let progress = Stages::new();
    let notice = if arguments.quiet { Notice::Silent } else { Notice::Print };
    let interrupts = Interrupts::install(notice)?;
    let leads = arguments.mesh.process.unwrap_or(0) == 0;
    if arguments.quiet {
        let ended = member(&opened, leads.then_some(run), &arguments.mesh, &interrupts, &progress)?;
        return finished_code(&opened, &ended);
    }
    evaluate(places, &opened, leads.then_some(run), &arguments.mesh, &arguments.output, &interrupts, &progress)
}

/// Runs one generation to its end, in this process or in children, and prints the figures.
fn evaluate(
    arguments: &PlaceArguments,
    places: &Places,
    run: Option<String>,
    mesh: &MeshArguments,
    output: &OutputArguments,
    interrupts: &Interrupts,
    progress: &Stages,
) -> Result<u8> {
    let Some(run) = run else {
        let ended = member(places, None, mesh, interrupts, progress)?;
        return finished_code(places, &ended);
    };
    if output.names_something() {
        // Now, and not when hours of evaluation are over. What a run has is known once it is made, and then it is in the store.
        let opened = Open::open(places, &run, &|stage, done| progress.tick(stage, done))?;
        output.check(&opened).map_err(|error| {
            anyhow!("{error}\nhint: `hopeval resume {run}` goes on with the run, with other names or none")
        })?;
    }
    let code = complete(arguments, places, &run, mesh, interrupts, progress)?;
    if code != exit::DONE && code != exit::FAILED_QUESTIONS {
        return Ok(code);
    }
    progress.clear();
    output.print(&Open::open(places, &run, &|_, _| ())?)?;
    Ok(code)
}

/// Runs one generation to its end, in this process or in children, and returns the exit code: the run is finished if that is
/// [`exit::DONE`] or [`exit::FAILED_QUESTIONS`].
pub(super) fn complete(
    arguments: &PlaceArguments,
    places: &Places,
    run: &str,
    mesh: &MeshArguments,
    interrupts: &Interrupts,
    progress: &Stages,
) -> Result<u8> {
    if mesh.supervises() {
        return children(arguments, run, mesh, interrupts);
    }
    let ended = member(places, Some(run.to_owned()), mesh, interrupts, progress)?;
    finished_code(places, &ended)
}

/// This process's part in one generation.
fn member(
    places: &Places,
    lead: Option<String>,
    mesh: &MeshArguments,
    interrupts: &Interrupts,
    progress: &Stages,
) -> Result<ProcessEnd> {
    let membership = mesh.membership()?;
    let processes = membership.hosts.len() as u64;
    let report = |stage: &str, done: u64| progress.tick(stage, done);
    let metrics = mesh.metrics;
    let watch = |generation: &Generation| {
        if let Some(address) = metrics
            && let Err(error) = serve_metrics(address, generation)
        {
            print::note(&format!("warning: --metrics {address}: {error}"));
        }
        let counters = std::sync::Arc::clone(&generation.counters);
        let total = generation.run.resolved.outcomes().saturating_sub(generation.outcomes_before());
        // Every process has about its share; this one's is what it can see.
        progress.follow("outcomes", total.div_ceil(processes), move || counters.outcomes.load(Ordering::Relaxed));
    };
    Process { places, membership, interrupts, report: &report, watch: &watch }.live(lead)
}

/// The exit code of a finished run: whether more questions failed than the job allows.
fn finished_code(places: &Places, ended: &ProcessEnd) -> Result<u8> {
    let Some((failed, outcomes)) = ended.outcomes else { return Ok(exit::DONE) };
    let record = hopeval_results::RunRecord::load(&places.store, &ended.run)?;
    let resolved: run::Resolved = serde_json::from_value(record.settings)?;
    let allowed = resolved.job.run.allowed_failed * outcomes as f64;
    if failed as f64 > allowed {
        print::note(&format!(
            "{failed} of {outcomes} outcomes failed; the job allows a share of {}",
            resolved.job.run.allowed_failed
        ));
        for failure in failures::failures(&places.store, &ended.run)? {
            print::note(&format!("  {failure}"));
        }
        let outcomes = places.store.full_name(&layout::final_table(&ended.run, "outcomes"));
        print::note(&format!("hint: `status` and `message` in {outcomes} say more"));
        return Ok(exit::FAILED_QUESTIONS);
    }
    Ok(exit::DONE)
}

/// Starts all processes of the mesh here and waits for them.
fn children(arguments: &PlaceArguments, run: &str, mesh: &MeshArguments, interrupts: &Interrupts) -> Result<u8> {
    let program = std::env::current_exe()?;
    let processes = mesh.processes as usize;
    // Whoever has not noticed a loss within the stall bound will not notice it.
    let grace = Grace::default();
    let grace = Grace { notice: grace.notice.min(mesh.membership()?.stall_bound), ..grace };
    interrupts.joined();
    let ending = supervise::supervise(processes, grace, interrupts.signals(), |process, hosts| {
        let mut command = Command::new(&program);
        command.args(["resume", run, "--quiet", "--store", &arguments.store]);
        if let Some(cache) = &arguments.cache {
            command.arg("--cache").arg(cache);
        }
        command.args(["--workers", &mesh.workers.to_string(), "--processes", &processes.to_string()]);
        command.args(["--process", &process.to_string(), "--hosts", &hosts.join(",")]);
        command.args([
            "--stall-bound",
            &mesh.stall_bound.to_string(),
            "--mesh-deadline",
            &mesh.mesh_deadline.to_string(),
        ]);
        if let Some(address) = mesh.metrics {
            // Each process has counters of its own, and so an address of its own: the ports that follow.
            let port = address.port().saturating_add(process as u16);
            command.args(["--metrics", &std::net::SocketAddr::new(address.ip(), port).to_string()]);
        }
        command
    })?;
    let code = ending.code();
    if code == exit::RESUMABLE {
        for (process, end) in ending.children.iter().enumerate() {
            print::note(&format!("process {process} {end}"));
        }
        print::note(&format!("interrupted: `hopeval resume {run}` goes on from the last commit"));
    }
    Ok(code)
}

pub(crate) fn plan(places: &PlaceArguments, arguments: PlanArguments) -> Result<u8> {
    let job = arguments.job.load()?;
    let progress = Stages::new();
    let report = |stage: &str, done: u64| progress.tick(stage, done);
    let plan = planning::plan(&job, &places.open_to_compute()?, arguments.quarantine.as_deref(), &report)?;
    progress.clear();
    if arguments.json {
        print::line(&serde_json::to_string(&plan)?);
        return Ok(exit::DONE);
    }
    if plan.quarantined > 0 {
        print::note(&format!("{} rows set aside", plan.quarantined));
    }
    print::line(&format!(
        "{} questions x {} configurations = {} outcomes over {} passages; indexes {} bytes; journal {} entries",
        plan.questions, plan.configurations, plan.outcomes, plan.passages, plan.index_bytes, plan.journal_entries
    ));
    for (service, passages) in &plan.passages_to_embed {
        print::line(&format!(
            "`{service}` has no index of this corpus: a run embeds {passages} passages first; its rankings are made up here, so later rounds are rough"
        ));
    }
    let names: BTreeSet<&String> = plan.first_round.keys().chain(plan.estimated.keys()).collect();
    let has_models = !plan.estimated_tokens.is_empty();
    let rows = names.into_iter().map(|name| {
        let first = plan.first_round.get(name).copied().unwrap_or_default();
        let known = |n: Option<u64>| n.map_or(print::UNKNOWN.to_owned(), |n| n.to_string());
        let tokens = plan.estimated_tokens.get(name);
        let mut cells = vec![name.clone()];
        cells.extend([first.asked, first.unique, first.journalled].map(|n| n.to_string()));
        cells.push(known(plan.estimated.get(name).copied()));
        if has_models {
            cells.extend([tokens.map(|t| t.prompt), tokens.map(|t| t.completion), tokens.map(|t| t.scored)].map(known));
        }
        cells
    });
    let mut header = vec!["requests", "first round", "unique", "in the journal", "all rounds (estimate)"];
    if has_models {
        header.extend(["prompt tokens", "written at most", "scored tokens"]);
    }
    print::line(&print::markdown(&header, rows));
    print::line(&format!("the estimate comes from {} questions that were driven through here", plan.sample));
    Ok(exit::DONE)
}
