//! `endpoint`: servers of language models behind HTTP, by themselves.

use super::tables::markdown_table;
use crate::print;
use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use hopeval_cluster::exit;
use hopeval_endpoint::probe::{ProbeReport, probe_server};
use hopeval_endpoint::{AnswerKind, ApiStyle, EndpointDialect, EndpointSettings};
use hopeval_jobs::Job;
use hopeval_jobs::services::ServiceEntry;
use serde::de::DeserializeOwned;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(crate) enum EndpointCommand {
    /// Asks a server about twenty small requests: what it does, refuses and silently ignores. The requests cost money
    /// where the server takes money.
    Probe(ProbeArguments),
}

#[derive(Debug, Args)]
pub(crate) struct ProbeArguments {
    /// The job's TOML file with the service; without one, the options below describe the server.
    job: Option<PathBuf>,
    /// The service of the job, where it has several endpoints.
    #[arg(long, requires = "job")]
    service: Option<String>,
    /// Overrides a key of the job, as in `--set service.llm.model=gpt-4o`.
    #[arg(long = "set", value_name = "KEY=VALUE", requires = "job")]
    sets: Vec<String>,
    /// The model's name at the server.
    #[arg(long, conflicts_with = "job")]
    model: Option<String>,
    /// The server's address with its `/v1` [default: $OPENAI_BASE_URL, then OpenAI's].
    #[arg(long, value_name = "URL", conflicts_with = "job")]
    base_url: Option<String>,
    /// The server's dialect, as in jobs.
    #[arg(long, default_value = "openai", conflicts_with = "job")]
    dialect: String,
    /// The API for generation: chat or completions.
    #[arg(long, default_value = "chat", conflicts_with = "job")]
    api: String,
    /// The kinds of answers to ask for, with commas: generate, score, embed, rerank.
    #[arg(long, value_delimiter = ',', default_value = "generate", conflicts_with = "job")]
    answers: Vec<String>,
    /// The variable with the key [default: OPENAI_API_KEY, for OpenAI's and Azure's hosts and $OPENAI_BASE_URL].
    #[arg(long, value_name = "VARIABLE", conflicts_with = "job")]
    key_env: Option<String>,
    /// Prints one JSON document.
    #[arg(long)]
    json: bool,
}

pub(crate) fn endpoint(command: EndpointCommand) -> Result<u8> {
    match command {
        EndpointCommand::Probe(arguments) => probe(&arguments),
    }
}

fn probe(arguments: &ProbeArguments) -> Result<u8> {
    let settings = match &arguments.job {
        Some(path) => job_settings(&Job::load(path, &arguments.sets)?, path, arguments.service.as_deref())?,
        None => option_settings(arguments)?,
    };
    let key = settings.read_key()?;
    let report = probe_server(&settings, key.as_ref())?;
    if arguments.json {
        print::line(&serde_json::to_string(&report)?);
    } else {
        print_report(&report);
    }
    // A server that keeps no promise of its dialect would give wrong answers: the exit code says so to scripts.
    Ok(if report.broken_promises().next().is_none() { exit::DONE } else { exit::USAGE })
}

/// The settings of the job's endpoint.
fn job_settings(job: &Job, path: &std::path::Path, wanted: Option<&str>) -> Result<EndpointSettings> {
    let endpoints: Vec<(&String, &EndpointSettings)> = job
        .service
        .iter()
        .filter_map(|(name, entry)| match entry {
            ServiceEntry::Endpoint(settings) => Some((name, settings)),
            _ => None,
        })
        .collect();
    let names = || endpoints.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ");
    let found = match (wanted, &endpoints[..]) {
        (_, []) => bail!("{}: no service of kind `endpoint`", path.display()),
        (None, [(_, settings)]) => *settings,
        (None, _) => bail!("{}: several endpoints; allowed for --service: {}", path.display(), names()),
        (Some(wanted), _) => match endpoints.iter().find(|(name, _)| name.as_str() == wanted) {
            Some((_, settings)) => *settings,
            None => bail!("--service {wanted}: {} has {}", path.display(), names()),
        },
    };
    Ok(found.clone())
}

/// The settings by options.
fn option_settings(arguments: &ProbeArguments) -> Result<EndpointSettings> {
    let Some(model) = &arguments.model else {
        bail!("which server? give a job's file, or --model with --base-url");
    };
    let mut settings = EndpointSettings::new(model, arguments.base_url.as_deref().unwrap_or_default());
    settings.base_url.retain(|url| !url.is_empty());
    settings.dialect = parse_name::<EndpointDialect>("--dialect", &arguments.dialect)?;
    settings.api = parse_name::<ApiStyle>("--api", &arguments.api)?;
    let kinds = arguments.answers.iter().map(|name| parse_name::<AnswerKind>("--answers", name));
    settings.answers = kinds.collect::<Result<_>>()?;
    settings.key_env.clone_from(&arguments.key_env);
    settings.check()?;
    Ok(settings)
}

/// A value by its name in jobs; an error lists the names.
fn parse_name<T: DeserializeOwned>(option: &str, name: &str) -> Result<T> {
    serde_json::from_value(name.into()).with_context(|| format!("{option} {name}"))
}

fn print_report(report: &ProbeReport) {
    print::line(&format!("{} at {}, by the dialect {}", report.model, report.address, report.dialect));
    let unknown = || super::tables::UNKNOWN.to_owned();
    let context = report.context_tokens.map_or_else(unknown, |tokens| tokens.to_string());
    let answered = report.answered_model.clone().unwrap_or_else(unknown);
    let fingerprint = report.system_fingerprint.clone().unwrap_or_else(unknown);
    let (read, written) = report.tokens;
    print::line(&format!(
        "answers as {answered}, fingerprint {fingerprint}, context {context} tokens; the probe cost {} requests, \
         {read} tokens read and {written} written",
        report.requests
    ));
    let promise = |promised| match promised {
        Some(true) => "yes",
        Some(false) => "no",
        None => super::tables::UNKNOWN,
    };
    let rows = report.checks.iter().map(|check| {
        let finding = check.finding.name().to_owned();
        vec![check.name.to_owned(), finding, promise(check.promised).to_owned(), check.detail.clone()]
    });
    print::line(&markdown_table(&["field or path", "server", "promised by the dialect", "detail"], rows));
    for check in report.broken_promises() {
        print::note(&format!(
            "`{}` is {}: a job that relies on it is answered wrongly",
            check.name,
            check.finding.name()
        ));
    }
}
