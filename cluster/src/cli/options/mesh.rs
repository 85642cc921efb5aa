//! Options for the processes and workers of a run.

use crate::process::{Membership, MetricsPort};
use anyhow::{Result, anyhow, bail};
use clap::Args;
use hopeval_cluster::mesh;
use std::net::SocketAddr;
use std::time::Duration;

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
    /// Addresses of all processes, as host:port, the same list everywhere.
    #[arg(long, value_delimiter = ',')]
    hosts: Vec<String>,
    /// Seconds without a sign of work after which a process counts as stalled.
    #[arg(long, default_value_t = 30.0)]
    pub(crate) stall_bound: f64,
    /// Seconds that forming the mesh may take.
    #[arg(long, default_value_t = 60.0)]
    pub(crate) mesh_deadline: f64,
    /// Serves Prometheus metrics at this address, e.g. 127.0.0.1:9464.
    #[arg(long, value_name = "ADDR")]
    metrics: Option<SocketAddr>,
}

impl MeshArguments {
    /// Checks that the options fit each other. Called before a run is made, because the run would stay behind
    /// unfinished.
    pub(crate) fn check_options(&self) -> Result<()> {
        if self.supervises() && !self.hosts.is_empty() {
            bail!("--hosts {}: --process is needed too, and says which of them this is", self.hosts.join(","));
        }
        self.membership().map(drop)
    }

    /// Takes the address of this process's metrics, before a run is made. Where processes are started here, looks
    /// whether each finds its address free.
    pub(crate) fn take_metrics(&self) -> Result<MetricsPort> {
        let take = |address: SocketAddr| {
            MetricsPort::take(address).map_err(|error| {
                let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
                anyhow!("--metrics {address}: {error}{cause}\nhint: another port, or port 0 for any free one")
            })
        };
        if !self.supervises() {
            return self.metrics.map(take).transpose().map(Option::unwrap_or_default);
        }
        (0..self.processes).filter_map(|process| self.metrics_of(process)).try_for_each(|of| take(of).map(drop))?;
        Ok(MetricsPort::default())
    }

    /// The address of the metrics of a process started here: each has its own counters, and so its own port.
    pub(crate) fn metrics_of(&self, process: u32) -> Option<SocketAddr> {
        let address = self.metrics?;
        let port = address.port();
        let port = if port == 0 { 0 } else { port.saturating_add(u16::try_from(process).unwrap_or(u16::MAX)) };
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
        Ok(Membership {
            process,
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
