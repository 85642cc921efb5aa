//! The settings of a mesh, and the checks of hellos against them.

use std::time::Duration;

use super::hello::{FormingNonce, Hello, SocketKind};
use super::listener::is_loopback;
use super::{FormingRole, MeshError, MeshRefusal, MeshSecret, MissingProcess};

/// Settings of a process of a mesh, known before forming.
#[derive(Debug, Clone)]
pub struct MeshSettings {
    /// Index of this process.
    pub process: usize,
    /// Address of every process as `host:port`, the same list everywhere; the index is the process.
    pub hosts: Vec<String>,
    /// Timely workers in each process.
    pub workers: usize,
    /// Secret of the mesh, the same everywhere.
    pub secret: MeshSecret,
    /// Longest time for forming.
    pub deadline: Duration,
}

impl MeshSettings {
    /// Whether a process with these settings can take the role.
    pub(super) fn check_role(&self, role: &FormingRole) -> Result<(), MeshError> {
        let wrong = if self.hosts.is_empty() {
            "the list of hosts is empty"
        } else if self.process >= self.hosts.len() {
            "the index of this process is not in the list of hosts"
        } else if self.workers == 0 {
            "a process needs a worker"
        } else if u32::try_from(self.hosts.len().max(self.workers)).is_err() {
            "there are too many processes or workers"
        } else if (self.process == 0) != matches!(role, FormingRole::Lead(_)) {
            "process 0 leads, and only process 0"
        } else if self.hosts.len() == 1 {
            // A single process does not listen.
            return Ok(());
        } else {
            return check_hosts(&self.hosts);
        };
        Err(MeshError::Settings(wrong))
    }

    /// The name of a missing process.
    pub(super) fn missing_process(&self, process: usize) -> MissingProcess {
        MissingProcess { process, address: self.hosts.get(process).cloned().unwrap_or_default() }
    }

    /// The hello to another process; each connection adds a challenge.
    pub(super) fn hello_to(&self, kind: SocketKind, to: usize, nonce: FormingNonce) -> Hello {
        // `check` has checked that the numbers fit.
        Hello {
            kind,
            from: self.process as u32,
            to: to as u32,
            processes: self.hosts.len() as u32,
            workers: self.workers as u32,
            challenge: [0; 32],
            nonce,
        }
    }

    /// Checks the hello of a process that has proved that it has the token.
    pub(super) fn check_hello(&self, hello: &Hello) -> Result<(), MeshRefusal> {
        let ours = self.hello_to(hello.kind, hello.from as usize, [0; 16]);
        if hello.to != ours.from {
            return Err(MeshRefusal::Misaddressed { ours: ours.from, wanted: hello.to });
        }
        if hello.processes != ours.processes {
            return Err(MeshRefusal::Processes { ours: ours.processes, theirs: hello.processes });
        }
        if hello.workers != ours.workers {
            return Err(MeshRefusal::Workers { ours: ours.workers, theirs: hello.workers });
        }
        // Connections go from higher indices to lower ones.
        if hello.from <= ours.from || hello.from >= ours.processes {
            return Err(MeshRefusal::OutOfRange { process: hello.from, processes: ours.processes });
        }
        Ok(())
    }
}

/// Checks the form of every address in `hosts`, without asking the network.
///
/// # Errors
/// [`MeshError::Address`].
pub fn check_hosts(hosts: &[String]) -> Result<(), MeshError> {
    for (process, address) in hosts.iter().enumerate() {
        let wrong = match address.rsplit_once(':') {
            None => Some("has no port"),
            Some((host, _)) if host.is_empty() || host.contains(char::is_whitespace) => Some("names no host"),
            Some((host, _)) if host.contains(':') && !(host.starts_with('[') && host.ends_with(']')) => {
                Some("is an IPv6 address without brackets")
            }
            Some((_, port)) if port.parse::<u16>().map_or(true, |port| port == 0) => {
                Some("has no port from 1 to 65535")
            }
            Some(_) if hosts[..process].contains(address) => Some("is there twice"),
            Some(_) => None,
        };
        if let Some(wrong) = wrong {
            return Err(MeshError::Address { address: address.clone(), wrong });
        }
    }
    Ok(())
}

/// Whether a mesh of these addresses is for this machine alone, so that it may do without a token.
pub fn stays_on_loopback(hosts: &[String]) -> bool {
    hosts.iter().all(|address| is_loopback(address))
}
