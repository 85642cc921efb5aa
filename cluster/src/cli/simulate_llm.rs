//! `simulate-llm`: a simulated, OpenAI-compatible server, for rehearsals and tests.

use crate::print;
use anyhow::{Context, Result};
use clap::Args;
use hopeval_cluster::exit;
use hopeval_cluster::signals::{self, DrainNotice};
use hopeval_simulated_llm::{SimulatedServer, SimulationSettings};
use std::fs::OpenOptions;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::mpsc;

#[derive(Debug, Args)]
pub(crate) struct SimulationArguments {
    /// The port; 0 takes a free one.
    #[arg(long, default_value_t = 8400)]
    port: u16,
    /// The address to listen on.
    #[arg(long, default_value = "127.0.0.1")]
    host: IpAddr,
    /// The settings' TOML file; without one, everything has its default.
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,
    /// Overrides a setting, as in `--set faults.rate=0.2`.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// A file to append the log to, a line of JSON for each call.
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
}

/// Serves until the first SIGINT or SIGTERM.
pub(crate) fn simulate_llm(arguments: SimulationArguments) -> Result<u8> {
    let signals = signals::install(DrainNotice::Silent)?;
    let text = match &arguments.settings {
        Some(path) => std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?,
        None => String::new(),
    };
    let place = || arguments.settings.as_ref().map_or("--set".to_owned(), |path| path.display().to_string());
    let settings = SimulationSettings::parse(&text, &arguments.sets).with_context(place)?;
    let open = |path: &PathBuf| {
        let file = OpenOptions::new().create(true).append(true).open(path);
        file.with_context(|| format!("cannot write {}", path.display()))
    };
    let log = arguments.log.as_ref().map(open).transpose()?;
    let address = SocketAddr::new(arguments.host, arguments.port);
    let server = SimulatedServer::start_at(settings, address, log)
        .with_context(|| format!("cannot start the simulated server at {address}"))?;
    print::line(&format!("simulated LLM at {}", server.base_url()));
    let (stop, stopped) = mpsc::channel();
    signals.on_drain(move || {
        // The receiver waits below until this is sent.
        let _ = stop.send(());
    });
    stopped.recv().context("the signals' thread has ended")?;
    Ok(exit::DONE)
}
