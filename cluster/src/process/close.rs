//! Joins the workers and closes the sockets of the mesh.

use super::LOOK;
use super::early_end::EarlyEnd;
use super::supervise::ProcessEvent;
use anyhow::{Result, anyhow};
use hopeval_cluster::heartbeat::MeshVerdict;
use hopeval_cluster::mesh::SocketThreads;
use std::sync::mpsc::{Receiver, channel};
use timely::communication::WorkerGuards;

/// Joins the workers and closes the sockets. Both wait for the other processes, so a peer may still be lost or stall.
pub(super) fn close_mesh(
    guards: WorkerGuards<()>,
    socket_threads: SocketThreads,
    happened: &Receiver<ProcessEvent>,
    early: &EarlyEnd,
) -> Result<()> {
    let (closed, closing) = channel();
    std::thread::Builder::new().name("closing".to_owned()).spawn(move || {
        let workers: Result<Vec<()>, String> = guards.join().into_iter().collect();
        drop(closed.send((workers, socket_threads.close())));
    })?;
    let (workers, sockets) = loop {
        if let Ok(ended) = closing.recv_timeout(LOOK) {
            break ended;
        }
        if let Ok(ProcessEvent::Verdict(verdict @ (MeshVerdict::PeerLost { .. } | MeshVerdict::PeerStalled { .. }))) =
            happened.try_recv()
        {
            early.exit_interrupted(&verdict.to_string());
        }
    };
    workers.map_err(|message| anyhow!("a worker ended badly: {message}"))?;
    if let Err(error) = sockets {
        tracing::warn!(%error, "a socket thread ended badly after the work was done");
    }
    Ok(())
}
