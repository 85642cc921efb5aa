//! Errors of forming a mesh.

use std::fmt;
use std::time::Duration;

use super::MeshRefusal;

/// A process missing in the mesh.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingProcess {
    /// Its index.
    pub process: usize,
    /// Its address, as in `hosts`.
    pub address: String,
}

impl fmt::Display for MissingProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.process, self.address)
    }
}

/// Why a mesh was not formed.
#[derive(Debug, thiserror::Error)]
pub enum MeshError {
    /// The settings contradict themselves.
    #[error("the mesh cannot be formed: {0}")]
    Settings(&'static str),
    /// The list of hosts has a malformed address, or an address twice.
    #[error("`{address}` {wrong}; allowed is host:port for each process, as node1:4500 or [::1]:4500")]
    Address {
        /// As in `hosts`.
        address: String,
        /// The fault in it.
        wrong: &'static str,
    },
    /// This process cannot listen on its own address.
    #[error("process {process} cannot listen on {address}")]
    Bind {
        /// Index of this process.
        process: usize,
        /// Its address, as in `hosts`.
        address: String,
        /// The system's last error.
        #[source]
        source: std::io::Error,
    },
    /// Another process turned this one away.
    #[error("process {process} at {address} refused this process: {reason}")]
    Refused {
        /// The process that refused.
        process: usize,
        /// Its address, as in `hosts`.
        address: String,
        /// Why.
        #[source]
        reason: MeshRefusal,
    },
    /// Processes were missing at the deadline.
    #[error("missing after {} s: process {}{}", after.as_secs_f64(), list(missing), noted(notes))]
    Missing {
        /// The deadline.
        after: Duration,
        /// The missing processes.
        missing: Vec<MissingProcess>,
        /// Events meanwhile: the last error of a connection, refused processes with reasons.
        notes: Vec<String>,
    },
    /// Process 0 accepted this process, but other processes were missing at the deadline.
    #[error("process 0 at {address} still waits for other processes after {} s", after.as_secs_f64())]
    Incomplete {
        /// Address of process 0.
        address: String,
        /// The deadline of this process.
        after: Duration,
    },
    /// A process went away between its hello and the last socket.
    #[error("process {0} went away while the mesh was formed")]
    Left(MissingProcess),
    /// A socket could not be set up or used.
    #[error("the mesh cannot be formed: {what}")]
    Socket {
        /// The failed step.
        what: &'static str,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
    /// Timely could not build its allocators.
    #[error("timely cannot build its workers: {0}")]
    Timely(String),
}

impl MeshError {
    /// Whether the same settings may form a mesh another time.
    pub fn may_pass(&self) -> bool {
        !matches!(self, Self::Settings(_) | Self::Address { .. })
    }
}

fn list(missing: &[MissingProcess]) -> String {
    missing.iter().map(MissingProcess::to_string).collect::<Vec<_>>().join(", ")
}

fn noted(notes: &[String]) -> String {
    if notes.is_empty() { String::new() } else { format!("; seen meanwhile: {}", notes.join("; ")) }
}
