//! Joins the workers and closes the sockets of the mesh; then waits for the end of process 0.

use super::LOOK;
use super::early_end::EarlyEnd;
use super::supervise::ProcessEvent;
use anyhow::{Result, anyhow};
use hopeval_cluster::heartbeat::{Heartbeat, MeshVerdict};
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
        exit_on_loss(happened, early);
    };
    workers.map_err(|message| anyhow!("a worker ended badly: {message}"))?;
    if let Err(error) = sockets {
        tracing::warn!(%error, "a socket thread ended badly after the work was done");
    }
    Ok(())
}

/// Says goodbye, and watches process 0 while it writes the final tables, until its goodbye.
pub(super) fn watch_lead(heartbeat: &Heartbeat, happened: &Receiver<ProcessEvent>, early: &EarlyEnd) {
    heartbeat.say_goodbye();
    loop {
        // Read first: a heartbeat that has ended has reported everything.
        let ended = heartbeat.has_ended();
        exit_on_loss(happened, early);
        if ended {
            return;
        }
        std::thread::sleep(LOOK);
    }
}

/// Exits as resumable if a loss was reported. Other events have no meaning after the work of this process.
fn exit_on_loss(happened: &Receiver<ProcessEvent>, early: &EarlyEnd) {
    for event in happened.try_iter() {
        if let ProcessEvent::Verdict(verdict @ (MeshVerdict::PeerLost { .. } | MeshVerdict::PeerStalled { .. })) = event
        {
            early.exit_interrupted(&verdict.to_string());
        }
    }
}
