//! Heartbeats between process 0 and every other process, on a thread of their own beside timely's sockets.
//!
//! Timely notices the death of a peer, and nothing else: neither a stopped process, nor a cut network, nor a hanging
//! worker. So each process beats a few times within the stall bound, and its beat counter rises if every worker has
//! stepped. Process 0 watches the others, the others watch process 0, and process 0 passes its findings to all.
//!
//! The others say goodbye when their workers are done, and watch process 0 until its goodbye: it still writes the final
//! tables then, and must not stop unnoticed.
//!
//! | seen | verdict |
//! | --- | --- |
//! | a socket closed without a goodbye | [`MeshVerdict::PeerLost`] |
//! | no frame, or no change of the counter, for the stall bound | [`MeshVerdict::PeerStalled`] |
//! | some process was asked to drain | [`MeshVerdict::Drain`] |
//! | every process is quiet | [`MeshVerdict::Flush`] |
//! | every process has drained | [`MeshVerdict::StopNow`] |
//!
//! A verdict is reported once, and the caller acts upon it. The rules are in `failure_detector`, without socket and
//! clock.

mod beat_thread;
mod connection;
mod failure_detector;
mod frame;
mod worker_steps;

use std::fmt;
use std::io;
use std::net::TcpStream;
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use beat_thread::{ClosingStep, HeartbeatCommand, HeartbeatThread};
use connection::HeartbeatConnection;
use failure_detector::FailureDetector;

pub use worker_steps::{StepSampler, WorkerSteps};

/// Settings of the heartbeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeartbeatSettings {
    /// Time without a sign of work after which a process counts as stalled.
    pub stall_bound: Duration,
}

impl Default for HeartbeatSettings {
    fn default() -> Self {
        Self { stall_bound: Duration::from_secs(30) }
    }
}

impl HeartbeatSettings {
    /// Time between two beats: a tenth of the bound, at most half a second. Workers must step at least as often, even
    /// without work: park with this as the limit.
    pub fn interval(&self) -> Duration {
        (self.stall_bound / 10).min(Duration::from_millis(500))
    }
}

/// News of the mesh, for this process to act upon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MeshVerdict {
    /// The process went away; leave as resumable.
    PeerLost {
        /// Its index.
        process: usize,
    },
    /// The process shows no sign of life or of work; leave as resumable.
    PeerStalled {
        /// Its index; may be the own one, when process 0 gave up on this process.
        process: usize,
        /// Time since its last sign.
        since: Duration,
    },
    /// Another process was asked to stop: begin no more work, finish what is under way, then say `quiet`.
    Drain,
    /// All are quiet, so all computing has ended: make everything durable, then say `drained`.
    Flush,
    /// All have drained: leave as resumable, together.
    StopNow,
}

impl fmt::Display for MeshVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PeerLost { process } => write!(f, "process {process} was lost"),
            Self::PeerStalled { process, since } => {
                write!(f, "process {process} made no progress for {:.1} s", since.as_secs_f64())
            }
            Self::Drain => f.write_str("another process was asked to stop"),
            Self::Flush => f.write_str("no process has work under way"),
            Self::StopNow => f.write_str("all processes have drained"),
        }
    }
}

/// The heartbeat sockets of one process, formed by the mesh: process 0 has one to every other process, the others have
/// one to process 0.
#[derive(Debug)]
pub struct HeartbeatSockets {
    process: usize,
    peers: Vec<(usize, TcpStream)>,
}

impl HeartbeatSockets {
    pub(crate) fn new(process: usize, peers: Vec<(usize, TcpStream)>) -> Self {
        Self { process, peers }
    }

    pub(crate) fn peers(&self) -> &[(usize, TcpStream)] {
        &self.peers
    }
}

/// Running heartbeats. If dropped without [`Heartbeat::goodbye`], it closes its sockets, and the process counts as
/// lost.
#[derive(Debug)]
pub struct Heartbeat {
    handle: HeartbeatHandle,
    thread: Option<JoinHandle<()>>,
}

/// A handle to report this process's state to the heartbeat thread, from any thread.
#[derive(Debug, Clone)]
pub struct HeartbeatHandle(Sender<HeartbeatCommand>);

impl Heartbeat {
    /// Starts to beat. `beats` is called at every beat, as [`StepSampler::sample_beats`]: its number must keep growing,
    /// else the process counts as stalled. While it is 0 the process is starting up, and only its silence counts.
    /// `on_verdict` is called on the heartbeat thread.
    ///
    /// # Errors
    /// If a socket or the thread cannot be set up.
    pub fn start(
        sockets: HeartbeatSockets,
        settings: HeartbeatSettings,
        beats: impl FnMut() -> u64 + Send + 'static,
        on_verdict: impl FnMut(MeshVerdict) + Send + 'static,
    ) -> io::Result<Self> {
        let detector = FailureDetector::new(
            sockets.process,
            sockets.peers.iter().map(|(p, _)| *p),
            settings.stall_bound,
            Instant::now(),
        );
        let mut connections = Vec::new();
        for (process, stream) in sockets.peers {
            connections.push(HeartbeatConnection::new(process, stream)?);
        }
        let (send, commands) = mpsc::channel();
        let leads = sockets.process == 0;
        let thread = HeartbeatThread { leads, detector, connections, settings, commands, beats, on_verdict };
        let thread = std::thread::Builder::new().name("heartbeat".to_owned()).spawn(move || thread.run())?;
        Ok(Self { handle: HeartbeatHandle(send), thread: Some(thread) })
    }

    /// A handle for other threads.
    pub fn handle(&self) -> HeartbeatHandle {
        self.handle.clone()
    }

    /// The work of this process is done: to the others its closed socket is not a loss. Process 0 ends its heartbeats
    /// when all others have received the goodbye, at most two seconds later. Another process goes on watching process
    /// 0, and ends its heartbeats at the goodbye of process 0.
    pub fn say_goodbye(&self) {
        self.handle.send_command(HeartbeatCommand::Goodbye);
    }

    /// Whether the heartbeats have ended. All verdicts were reported before.
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Says goodbye and waits for the end of the heartbeats.
    pub fn goodbye(mut self) {
        self.say_goodbye();
        self.join();
    }

    fn join(&mut self) {
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
            && thread.join().is_err()
        {
            tracing::error!("the heartbeat thread panicked");
        }
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        self.handle.send_command(HeartbeatCommand::Abandon);
        self.join();
    }
}

impl HeartbeatHandle {
    /// This process was asked to stop; all others will receive [`MeshVerdict::Drain`].
    pub fn drain(&self) {
        self.send_command(HeartbeatCommand::Tell(ClosingStep::Drain));
    }

    /// This process has no work under way, and begins none. When all have said so, all receive
    /// [`MeshVerdict::Flush`].
    pub fn quiet(&self) {
        self.send_command(HeartbeatCommand::Tell(ClosingStep::Quiet));
    }

    /// This process has made everything durable, after [`MeshVerdict::Flush`]. When all have said so, all receive
    /// [`MeshVerdict::StopNow`].
    pub fn drained(&self) {
        self.send_command(HeartbeatCommand::Tell(ClosingStep::Drained));
    }

    fn send_command(&self, command: HeartbeatCommand) {
        // An error means the heartbeat thread has ended.
        let _ = self.0.send(command);
    }
}

#[cfg(test)]
mod tests;
