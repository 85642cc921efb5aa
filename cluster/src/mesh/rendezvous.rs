//! The first half of forming: process 0 gathers the others and tells them the generation.

use std::io::{ErrorKind, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::data_sockets::{self, set_options};
use super::hello::{self, FinalMessage, FormingNonce, Hello, SocketKind};
use super::listener::{Handshake, MeshListener, is_alive};
use super::secret::random_bytes;
use super::{MeshError, MeshRefusal, MeshSettings, MissingProcess};
use crate::heartbeat::HeartbeatSockets;

/// Pause between two looks at the listener.
pub(super) const TICK: Duration = Duration::from_millis(2);
/// Most notes in an error.
const NOTES: usize = 8;
/// Longest wait for a socket to take a byte. After it the reader counts as hanging.
const WRITE_LIMIT: Duration = Duration::from_secs(5);

/// The part of process 0: waits for a heartbeat socket of every other process, then welcomes all.
pub(super) fn gather_processes(
    settings: &MeshSettings,
    listener: &mut MeshListener,
    welcome: &[u8],
    end: Instant,
) -> Result<(HeartbeatSockets, FormingNonce), MeshError> {
    let mut seats: Vec<Option<TcpStream>> = settings.hosts.iter().map(|_| None).collect();
    let mut notes = FormingNotes::default();
    loop {
        // A process frees its slot if it gives up or is started again.
        for seat in &mut seats {
            if seat.as_ref().is_some_and(|stream| !is_alive(stream)) {
                *seat = None;
            }
        }
        for handshake in listener.completed_handshakes() {
            let verdict = handshake.hello.clone().and_then(|hello| check_slot(settings, &hello, &seats));
            if let Some((process, stream)) = answer_handshake(handshake, verdict, &mut notes) {
                seats[process] = Some(stream);
            }
        }
        if seats[1..].iter().all(Option::is_some) {
            break;
        }
        if Instant::now() >= end {
            return Err(report_missing(settings, seats, notes));
        }
        std::thread::sleep(TICK);
    }
    let nonce: FormingNonce =
        random_bytes().map_err(|source| MeshError::Socket { what: "the system has no random numbers", source })?;
    let message = FinalMessage::Welcome { nonce, bytes: welcome.to_vec() };
    let mut peers = Vec::new();
    for (process, stream) in seats.into_iter().enumerate().filter_map(|(p, s)| Some((p, s?))) {
        set_options(&stream)?;
        send_message(&stream, &message).map_err(|_| MeshError::Left(settings.missing_process(process)))?;
        peers.push((process, stream));
    }
    Ok((HeartbeatSockets::new(settings.process, peers), nonce))
}

fn check_slot(settings: &MeshSettings, hello: &Hello, seats: &[Option<TcpStream>]) -> Result<usize, MeshRefusal> {
    settings.check_hello(hello)?;
    if hello.kind != SocketKind::Heartbeat {
        return Err(MeshRefusal::Generation);
    }
    match seats.get(hello.from as usize) {
        Some(None) => Ok(hello.from as usize),
        _ => Err(MeshRefusal::Taken { process: hello.from }),
    }
}

/// Reports the missing processes to the connected ones.
fn report_missing(settings: &MeshSettings, seats: Vec<Option<TcpStream>>, notes: FormingNotes) -> MeshError {
    let missing: Vec<usize> = (1..seats.len()).filter(|p| seats[*p].is_none()).collect();
    let message = FinalMessage::Missing(missing.iter().map(|p| *p as u32).collect());
    for stream in seats.iter().flatten() {
        // A process without this message finds out at its own deadline.
        let _ = send_message(stream, &message);
    }
    let missing = missing.into_iter().map(|p| settings.missing_process(p)).collect();
    MeshError::Missing { after: settings.deadline, missing, notes: notes.lines }
}

fn send_message(stream: &TcpStream, message: &FinalMessage) -> std::io::Result<()> {
    stream.set_write_timeout(Some(WRITE_LIMIT))?;
    message.write(stream)?;
    stream.set_write_timeout(None)
}

/// The part of every other process: joins process 0 and waits for its welcome.
pub(super) fn join_leader(
    settings: &MeshSettings,
    end: Instant,
) -> Result<(HeartbeatSockets, FormingNonce, Vec<u8>), MeshError> {
    loop {
        let hello = settings.hello_to(SocketKind::Heartbeat, 0, [0; 16]);
        let stream = data_sockets::connect_to(settings, 0, &hello, end)?;
        // Process 0 may have started later and keeps its own deadline. A moment more lets its message arrive.
        let patience = end.saturating_duration_since(Instant::now()) + Duration::from_millis(500);
        let waited = stream.set_read_timeout(Some(patience)).and_then(|()| FinalMessage::read(&stream));
        match waited {
            Ok(FinalMessage::Welcome { nonce, bytes }) => {
                set_options(&stream)?;
                return Ok((HeartbeatSockets::new(settings.process, vec![(0, stream)]), nonce, bytes));
            }
            Ok(FinalMessage::Missing(missing)) => {
                let missing = missing.into_iter().map(|p| settings.missing_process(p as usize)).collect();
                let notes = vec!["process 0 gave up".to_owned()];
                return Err(MeshError::Missing { after: settings.deadline, missing, notes });
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return Err(MeshError::Incomplete { address: settings.hosts[0].clone(), after: settings.deadline });
            }
            // Process 0 went away: this was an earlier one about to end, or it is being started again.
            Err(_) if Instant::now() < end => std::thread::sleep(Duration::from_millis(20)),
            Err(_) => return Err(MeshError::Left(MissingProcess { process: 0, address: settings.hosts[0].clone() })),
        }
    }
}

/// Answers a connection and returns its socket if it is accepted.
pub(super) fn answer_handshake(
    handshake: Handshake,
    verdict: Result<usize, MeshRefusal>,
    notes: &mut FormingNotes,
) -> Option<(usize, TcpStream)> {
    let Handshake { mut stream, from, hello, session } = handshake;
    stream.set_write_timeout(Some(WRITE_LIMIT)).ok()?;
    hello::write_verdict(&mut stream, verdict.as_ref().err(), session.as_ref()).and_then(|()| stream.flush()).ok()?;
    stream.set_write_timeout(None).ok()?;
    match verdict {
        Ok(process) => Some((process, stream)),
        Err(refusal) => {
            let who = hello.map_or_else(|_| from.to_string(), |h| format!("{from} as process {}", h.from));
            tracing::warn!(%who, %refusal, "refused a connection");
            notes.push(format!("{who} was refused: {refusal}"));
            None
        }
    }
}

/// Events during the wait, for the error at the deadline; each once.
#[derive(Debug, Default)]
pub(super) struct FormingNotes {
    pub(super) lines: Vec<String>,
}

impl FormingNotes {
    fn push(&mut self, line: String) {
        if self.lines.len() < NOTES && !self.lines.contains(&line) {
            self.lines.push(line);
        }
    }
}
