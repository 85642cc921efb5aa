//! Options for the processes and workers of a run.

use crate::process::Membership;
use anyhow::{Result, anyhow, bail};
use clap::Args;
use hopeval_cluster::mesh::{self, MeshSecret};
use hopeval_cluster::metrics::{MetricsError, MetricsListener};
use std::net::SocketAddr;
use std::time::Duration;

/// The variable with the mesh's token, which stands in no command line.
pub(crate) const MESH_TOKEN: &str = "HOPEVAL_MESH_TOKEN";

/// The most workers of all processes.
const MOST_WORKERS: u64 = 4096;

/// How the work is spread.
#[derive(Clone, Debug, Args)]
pub(crate) struct MeshArguments {
    /// Workers of each process.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) workers: u32,
    /// Processes; without `--process` all are started here.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) processes: u32,
    /// Index of this process, where each is started on its own host.
    #[arg(long, requires = "hosts")]
    process: Option<usize>,
    /// Addresses of all processes, as host:port, the same list everywhere; beyond loopback set HOPEVAL_MESH_TOKEN.
    #[arg(long, value_delimiter = ',')]
    hosts: Vec<String>,
    /// Seconds without a step of each of its workers, or without a sign, after which a process counts as stalled; from
    /// the forming of the mesh until the final tables are written.
    #[arg(long, default_value_t = 30.0)]
    pub(crate) stall_bound: f64,
    /// Seconds that forming the mesh may take.
    #[arg(long, default_value_t = 60.0)]
    pub(crate) mesh_deadline: f64,
    /// Serves Prometheus metrics at this address, e.g. 127.0.0.1:9464.
    #[arg(long, value_name = "ADDR:PORT", value_parser = metrics_address)]
    pub(crate) metrics: Option<SocketAddr>,
}

impl MeshArguments {
    /// One process with its default workers, for a command without these options.
    pub(crate) fn alone() -> Self {
        Self {
            workers: 2,
            processes: 1,
            process: None,
            hosts: Vec::new(),
            stall_bound: 30.0,
            mesh_deadline: 60.0,
            metrics: None,
        }
    }

    /// Checks that the options fit each other. Called before a run is made, because the run would stay behind
    /// unfinished.
    pub(crate) fn check_options(&self) -> Result<()> {
        if self.supervises() && !self.hosts.is_empty() {
            bail!("--hosts {}: --process is needed too, and says which of them this is", self.hosts.join(","));
        }
        let workers = u64::from(self.workers) * u64::from(self.processes);
        if workers > MOST_WORKERS {
            bail!(
                "--workers {} of each of --processes {} are {workers} workers; allowed: {MOST_WORKERS} in all",
                self.workers,
                self.processes
            );
        }
        self.membership()?;
        self.check_metrics()
    }

    /// Checks that the ports for metrics are free.
    fn check_metrics(&self) -> Result<()> {
        let processes = if self.supervises() { self.processes as usize } else { 1 };
        if let Some(address) = self.metrics
            && address.port() > 0
            && self.metrics_address(processes - 1).is_none()
        {
            bail!("--metrics {address}: {processes} processes need as many ports, and the last port is 65535");
        }
        for address in (0..processes).filter_map(|process| self.metrics_address(process)) {
            MetricsListener::open(address).map(drop).map_err(metrics_error)?;
        }
        Ok(())
    }

    /// The address for metrics of a process started here. Each has its own counters, and so its own address, on
    /// consecutive ports; port 0 is any free one. `None` without `--metrics`, and beyond the last port.
    pub(crate) fn metrics_address(&self, process: usize) -> Option<SocketAddr> {
        let address = self.metrics?;
        let port = match address.port() {
            0 => 0,
            first => first.checked_add(u16::try_from(process).ok()?)?,
        };
        Some(SocketAddr::new(address.ip(), port))
    }

    /// The part of this process in the mesh.
    pub(crate) fn membership(&self) -> Result<Membership> {
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
        let token = mesh_token()?;
        if token.is_none() && !mesh::stays_on_loopback(&hosts) {
            bail!(
                "--hosts {}: HOPEVAL_MESH_TOKEN is not set, and without it anyone on the network could join\n\
                 hint: set it to the same secret on every host, e.g. the output of `openssl rand -hex 16`",
                hosts.join(",")
            );
        }
        Ok(Membership {
            process,
            secret: MeshSecret::derive(token.as_deref().unwrap_or_default(), &hosts),
            hosts,
            workers: self.workers as usize,
            stall_bound: seconds("stall-bound", self.stall_bound)?,
            deadline: seconds("mesh-deadline", self.mesh_deadline)?,
        })
    }

    /// Whether this is one process of a mesh started by other programs.
    pub(crate) fn is_one_of_several(&self) -> bool {
        self.process.is_some()
    }

    /// Whether this is process 0.
    pub(crate) fn leads(&self) -> bool {
        self.process.unwrap_or(0) == 0
    }

    /// Whether the processes are started here, by a supervisor.
    pub(crate) fn supervises(&self) -> bool {
        self.processes > 1 && self.process.is_none()
    }
}

/// `HOPEVAL_MESH_TOKEN`, unless it is absent or empty.
pub(crate) fn mesh_token() -> Result<Option<String>> {
    let Some(token) = std::env::var_os(MESH_TOKEN).filter(|token| !token.is_empty()) else { return Ok(None) };
    token.into_string().map(Some).map_err(|_| anyhow!("{MESH_TOKEN} is not UTF-8"))
}

/// The error of an address that cannot be served, in the words of the command line.
pub(crate) fn metrics_error(error: MetricsError) -> anyhow::Error {
    anyhow!("--metrics: {:#}\nhint: give a free port; another program may hold this one", anyhow::Error::new(error))
}

/// The address of `--metrics`.
fn metrics_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "allowed: an IP address and a port, such as 127.0.0.1:9464".to_owned())
}
