//! Forms the static mesh of one generation: connects every two processes, and a star for the heartbeats.
//!
//! ```text
//! every process   listens on its own address of `hosts`
//! 1 ..            heartbeat hello --------> 0        both prove that they have the token; shape and index are checked
//! 0               waits until all are there, then sends each the welcome and the nonce of this forming
//! i               data hello (nonce) -----> every j < i
//! ```
//!
//! Timely's own start-up polls in steps of a second, has no deadline and accepts every connection. Here there is a
//! deadline, a token keeps out strangers and other runs, and a nonce keeps out processes of an earlier generation.
//! The token is never sent: every socket is given to timely after both sides proved that they have it. The messages
//! after that are neither encrypted nor signed, so someone who can change the network's packets can still do harm. The
//! mesh knows neither the dataflow nor the record of generations.

mod data_sockets;
mod error;
mod hello;
mod listener;
mod refusal;
mod rendezvous;
mod secret;
mod settings;
mod socket_threads;

use std::fmt;
use std::time::{Duration, Instant};

use timely::CommunicationConfig;
use timely::communication::allocator::zero_copy::initialize::initialize_networking_from_sockets;
use timely::communication::allocator::{AllocatorBuilder, ProcessBuilder};

pub use error::{MeshError, MissingProcess};
pub use refusal::MeshRefusal;
pub use secret::{MeshSecret, random_token};
pub use settings::{MeshSettings, check_hosts, stays_on_loopback};
pub use socket_threads::{SocketThreads, SocketThreadsFailed};

use crate::heartbeat::HeartbeatSockets;
use listener::MeshListener;

/// The part of this process in forming the mesh.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FormingRole {
    /// Process 0: waits for the others and sends them these bytes (run and generation; opaque here).
    Lead(Vec<u8>),
    /// Every other process.
    Follow,
}

/// A formed mesh.
pub struct FormedMesh {
    /// For `timely::execute::execute_from`, one for each worker of this process.
    pub allocators: Vec<AllocatorBuilder>,
    /// Timely's socket threads; close it after the workers are joined.
    pub socket_threads: SocketThreads,
    /// The star of heartbeats; start it at once.
    pub heartbeat_sockets: HeartbeatSockets,
    /// The bytes from process 0.
    pub welcome: Vec<u8>,
}

impl fmt::Debug for FormedMesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FormedMesh")
            .field("workers", &self.allocators.len())
            .field("heartbeat_sockets", &self.heartbeat_sockets)
            .finish_non_exhaustive()
    }
}

/// Forms the mesh; every process of `settings.hosts` calls it with the same hosts, workers and token.
///
/// One process alone gets in-process allocators and opens no socket.
///
/// # Errors
/// See [`MeshError`]. Nothing stays open after an error.
pub fn form(settings: &MeshSettings, role: FormingRole) -> Result<FormedMesh, MeshError> {
    settings.check_role(&role)?;
    if settings.hosts.len() == 1 {
        return form_alone(settings, role);
    }
    let end = Instant::now() + settings.deadline;
    let last = settings.process + 1 == settings.hosts.len();
    // The last process connects to all others. Nobody connects to it.
    let mut listener = if last { None } else { Some(open_listener(settings, end)?) };
    let (heartbeat_sockets, nonce, welcome) = match (role, &mut listener) {
        (FormingRole::Lead(welcome), Some(listener)) => {
            let (heartbeat_sockets, nonce) = rendezvous::gather_processes(settings, listener, &welcome, end)?;
            (heartbeat_sockets, nonce, welcome)
        }
        _ => rendezvous::join_leader(settings, end)?,
    };
    let sockets = data_sockets::connect_all(settings, listener.as_mut(), &heartbeat_sockets, nonce, end)?;
    drop(listener);

    let hooks = timely::communication::Hooks::default();
    let inner = ProcessBuilder::new_typed_vector(settings.workers, hooks.refill.clone(), hooks.spill.clone());
    let (builders, guard) =
        initialize_networking_from_sockets(inner, sockets, settings.process, settings.workers, hooks)
            .map_err(|source| MeshError::Socket { what: "timely's socket threads did not start", source })?;
    let allocators = builders.into_iter().map(AllocatorBuilder::Tcp).collect();
    Ok(FormedMesh { allocators, socket_threads: SocketThreads::new(Box::new(guard)), heartbeat_sockets, welcome })
}

fn form_alone(settings: &MeshSettings, role: FormingRole) -> Result<FormedMesh, MeshError> {
    let (allocators, guard) = CommunicationConfig::Process(settings.workers).try_build().map_err(MeshError::Timely)?;
    let welcome = match role {
        FormingRole::Lead(welcome) => welcome,
        FormingRole::Follow => Vec::new(),
    };
    Ok(FormedMesh {
        allocators,
        socket_threads: SocketThreads::new(guard),
        heartbeat_sockets: HeartbeatSockets::new(0, Vec::new()),
        welcome,
    })
}

/// Opens the listener. A port still held by an earlier generation is tried again until the deadline.
fn open_listener(settings: &MeshSettings, end: Instant) -> Result<MeshListener, MeshError> {
    let address = &settings.hosts[settings.process];
    loop {
        match MeshListener::open(address, settings.secret.clone()) {
            Ok(listener) => return Ok(listener),
            Err(e) if e.kind() == std::io::ErrorKind::AddrInUse && Instant::now() < end => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(source) => {
                return Err(MeshError::Bind { process: settings.process, address: address.clone(), source });
            }
        }
    }
}

#[cfg(test)]
mod tests;
