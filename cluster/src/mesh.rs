//! Forms the static mesh of one generation: every process connected with every other, and a star for the pulse.
//!
//! ```text
//! every process   door on its own address of `hosts`
//! 1 ..            pulse hello ------------> 0        token, shape and index are checked
//! 0               waits until all are there, then sends each the welcome and the nonce of this forming
//! i               data hello (nonce) -----> every j < i
//! ```
//!
//! Timely's own start-up polls in steps of a second, has no deadline and takes whoever connects. Here there is a
//! deadline, a token keeps out strangers and other runs, and a nonce keeps out processes of an earlier generation.
//! The token is sent in the clear, as are timely's messages: it protects against accidents, not against someone who
//! reads the network. Nothing here knows what the dataflow does or where generations are recorded.

mod comms;
mod door;
mod gather;
mod hello;
mod wire;

use std::fmt;
use std::time::{Duration, Instant};

use timely::CommunicationConfig;
use timely::communication::allocator::zero_copy::initialize::initialize_networking_from_sockets;
use timely::communication::allocator::{AllocatorBuilder, ProcessBuilder};

pub use comms::{Comms, CommsFailed};
pub use hello::Refusal;

use crate::pulse::Link;
use door::Door;
use hello::{Hello, Kind, Nonce};

/// What every process of a mesh is told beforehand.
#[derive(Debug, Clone)]
pub struct MeshSettings {
    /// Index of this process.
    pub process: usize,
    /// Address of every process as `host:port`, the same list everywhere; the index is the process.
    pub hosts: Vec<String>,
    /// Timely workers in each process.
    pub workers: usize,
    /// Secret of the run, the same everywhere.
    pub token: [u8; 32],
    /// How long forming may take.
    pub deadline: Duration,
}

/// The part of this process in forming.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    /// Process 0: waits for the others and sends them these bytes (run and generation; not looked at here).
    Lead(Vec<u8>),
    /// Every other process.
    Follow,
}

/// A formed mesh.
pub struct Formed {
    /// For `timely::execute::execute_from`, one for each worker of this process.
    pub allocators: Vec<AllocatorBuilder>,
    /// Timely's socket threads; close it after the workers are joined.
    pub comms: Comms,
    /// The star of heartbeats; start it at once.
    pub pulse: Link,
    /// What process 0 had to say.
    pub welcome: Vec<u8>,
}

impl fmt::Debug for Formed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Formed")
            .field("workers", &self.allocators.len())
            .field("pulse", &self.pulse)
            .finish_non_exhaustive()
    }
}

/// A process that did not come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Absent {
    /// Its index.
    pub process: usize,
    /// Its address, as in `hosts`.
    pub address: String,
}

impl fmt::Display for Absent {
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
    /// An address in the list of hosts is none, or is there twice.
    #[error("`{address}` {wrong}; allowed is host:port for each process, as node1:4500 or [::1]:4500")]
    Address {
        /// As in `hosts`.
        address: String,
        /// What is wrong with it.
        wrong: &'static str,
    },
    /// This process cannot listen on its own address.
    #[error("process {process} cannot listen on {address}")]
    Bind {
        /// Index of this process.
        process: usize,
        /// Its address, as in `hosts`.
        address: String,
        /// What the system said last.
        #[source]
        source: std::io::Error,
    },
    /// Another process turned this one away.
    #[error("process {process} at {address} refused this process: {reason}")]
    Refused {
        /// Who refused.
        process: usize,
        /// Its address, as in `hosts`.
        address: String,
        /// Why.
        #[source]
        reason: Refusal,
    },
    /// At the deadline, some were not there.
    #[error("missing after {} s: process {}{}", after.as_secs_f64(), list(missing), noted(notes))]
    Missing {
        /// The deadline.
        after: Duration,
        /// Who did not come.
        missing: Vec<Absent>,
        /// What was seen meanwhile: the last error of a connection, who was refused and why.
        notes: Vec<String>,
    },
    /// Process 0 was reached and this process was accepted, but the others never were complete.
    #[error("process 0 at {address} still waits for other processes after {} s", after.as_secs_f64())]
    Incomplete {
        /// Address of process 0.
        address: String,
        /// The deadline of this process.
        after: Duration,
    },
    /// A process went away between its hello and the last socket.
    #[error("process {0} went away while the mesh was formed")]
    Left(Absent),
    /// A socket could not be set up or used.
    #[error("the mesh cannot be formed: {what}")]
    Socket {
        /// What was tried.
        what: &'static str,
        /// What the system said.
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

fn list(missing: &[Absent]) -> String {
    missing.iter().map(Absent::to_string).collect::<Vec<_>>().join(", ")
}

fn noted(notes: &[String]) -> String {
    if notes.is_empty() { String::new() } else { format!("; seen meanwhile: {}", notes.join("; ")) }
}

/// Forms the mesh; every process of `settings.hosts` calls it with the same hosts, workers and token.
///
/// One process alone gets in-process allocators and opens no socket.
///
/// # Errors
/// See [`MeshError`]. Nothing stays open after an error.
pub fn form(settings: &MeshSettings, role: Role) -> Result<Formed, MeshError> {
    check(settings, &role)?;
    if settings.hosts.len() == 1 {
        return alone(settings, role);
    }
    let end = Instant::now() + settings.deadline;
    let last = settings.process + 1 == settings.hosts.len();
    // The last process connects to all others and nobody connects to it.
    let mut door = if last { None } else { Some(open(settings, end)?) };
    let (link, nonce, welcome) = match (role, &mut door) {
        (Role::Lead(welcome), Some(door)) => {
            let (link, nonce) = gather::gather(settings, door, &welcome, end)?;
            (link, nonce, welcome)
        }
        _ => gather::follow(settings, end)?,
    };
    let sockets = wire::wire(settings, door.as_mut(), &link, nonce, end)?;
    drop(door);

    let hooks = timely::communication::Hooks::default();
    let inner = ProcessBuilder::new_typed_vector(settings.workers, hooks.refill.clone(), hooks.spill.clone());
    let (builders, guard) =
        initialize_networking_from_sockets(inner, sockets, settings.process, settings.workers, hooks)
            .map_err(|source| MeshError::Socket { what: "timely's socket threads did not start", source })?;
    let allocators = builders.into_iter().map(AllocatorBuilder::Tcp).collect();
    Ok(Formed { allocators, comms: Comms::new(Box::new(guard)), pulse: link, welcome })
}

/// Whether every process of `hosts` can be reached as it is written there, so far as that can be told without asking the network.
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

fn check(settings: &MeshSettings, role: &Role) -> Result<(), MeshError> {
    let wrong = if settings.hosts.is_empty() {
        "the list of hosts is empty"
    } else if settings.process >= settings.hosts.len() {
        "the index of this process is not in the list of hosts"
    } else if settings.workers == 0 {
        "a process needs a worker"
    } else if u32::try_from(settings.hosts.len().max(settings.workers)).is_err() {
        "there are too many processes or workers"
    } else if (settings.process == 0) != matches!(role, Role::Lead(_)) {
        "process 0 leads, and only process 0"
    } else if settings.hosts.len() == 1 {
        // One process alone listens nowhere.
        return Ok(());
    } else {
        return check_hosts(&settings.hosts);
    };
    Err(MeshError::Settings(wrong))
}

fn alone(settings: &MeshSettings, role: Role) -> Result<Formed, MeshError> {
    let (allocators, guard) = CommunicationConfig::Process(settings.workers).try_build().map_err(MeshError::Timely)?;
    let welcome = match role {
        Role::Lead(welcome) => welcome,
        Role::Follow => Vec::new(),
    };
    Ok(Formed { allocators, comms: Comms::new(guard), pulse: Link::new(0, Vec::new()), welcome })
}

/// Opens the door; a port that an earlier generation still holds is tried again until the deadline.
fn open(settings: &MeshSettings, end: Instant) -> Result<Door, MeshError> {
    let address = &settings.hosts[settings.process];
    loop {
        match Door::open(address) {
            Ok(door) => return Ok(door),
            Err(e) if e.kind() == std::io::ErrorKind::AddrInUse && Instant::now() < end => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(source) => {
                return Err(MeshError::Bind { process: settings.process, address: address.clone(), source });
            }
        }
    }
}

impl MeshSettings {
    fn absent(&self, process: usize) -> Absent {
        Absent { process, address: self.hosts.get(process).cloned().unwrap_or_default() }
    }

    fn hello(&self, kind: Kind, to: usize, nonce: Nonce) -> Hello {
        // `check` has seen that the numbers fit.
        Hello {
            kind,
            from: self.process as u32,
            to: to as u32,
            processes: self.hosts.len() as u32,
            workers: self.workers as u32,
            token: self.token,
            nonce,
        }
    }

    /// Whether a hello may come in, as far as the settings tell. The token comes first: who does not have it learns
    /// nothing else.
    fn judge(&self, hello: &Hello) -> Result<(), Refusal> {
        let ours = self.hello(hello.kind, hello.from as usize, [0; 16]);
        if hello.token != ours.token {
            return Err(Refusal::Token);
        }
        if hello.to != ours.from {
            return Err(Refusal::Misaddressed { ours: ours.from, wanted: hello.to });
        }
        if hello.processes != ours.processes {
            return Err(Refusal::Processes { ours: ours.processes, theirs: hello.processes });
        }
        if hello.workers != ours.workers {
            return Err(Refusal::Workers { ours: ours.workers, theirs: hello.workers });
        }
        // Connections go from higher indices to lower ones.
        if hello.from <= ours.from || hello.from >= ours.processes {
            return Err(Refusal::OutOfRange { process: hello.from, processes: ours.processes });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
