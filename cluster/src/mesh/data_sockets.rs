//! The second half of forming: one data socket between every two processes.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use nix::sys::socket::{setsockopt, sockopt};

use super::hello::{FormingNonce, Hello, SocketKind, read_challenge, read_verdict};
use super::listener::{MeshListener, is_alive};
use super::rendezvous::{FormingNotes, TICK, answer_handshake};
use super::secret::random_bytes;
use super::{MeshError, MeshRefusal, MeshSecret, MeshSettings};
use crate::heartbeat::HeartbeatSockets;

/// Least time for this half, even if the first half took all: it needs milliseconds, and all processes are there.
const LEAST: Duration = Duration::from_secs(3);
/// Longest wait for one connection or its reply before another attempt.
const ATTEMPT: Duration = Duration::from_secs(5);

/// Connects to the processes before this one and waits for the processes after it.
///
/// Each process waits only for answers of lower indices, so they cannot deadlock.
pub(super) fn connect_all(
    settings: &MeshSettings,
    listener: Option<&mut MeshListener>,
    heartbeat_sockets: &HeartbeatSockets,
    nonce: FormingNonce,
    end: Instant,
) -> Result<Vec<Option<TcpStream>>, MeshError> {
    let end = end.max(Instant::now() + LEAST);
    let mut sockets: Vec<Option<TcpStream>> = settings.hosts.iter().map(|_| None).collect();
    for (process, socket) in sockets.iter_mut().enumerate().take(settings.process) {
        let hello = settings.hello_to(SocketKind::Data, process, nonce);
        let stream = connect_to(settings, process, &hello, end)?;
        stream.set_read_timeout(None).map_err(socket_error)?;
        *socket = Some(stream);
    }
    if let Some(listener) = listener {
        wait_for_later(settings, listener, heartbeat_sockets, nonce, end, &mut sockets)?;
    }
    for socket in sockets.iter().flatten() {
        set_options(socket)?;
    }
    Ok(sockets)
}

fn wait_for_later(
    settings: &MeshSettings,
    listener: &mut MeshListener,
    heartbeat_sockets: &HeartbeatSockets,
    nonce: FormingNonce,
    end: Instant,
    sockets: &mut [Option<TcpStream>],
) -> Result<(), MeshError> {
    let mut notes = FormingNotes::default();
    loop {
        for handshake in listener.completed_handshakes() {
            let verdict = handshake.hello.clone().and_then(|hello| check_data_hello(settings, &hello, nonce, sockets));
            if let Some((process, stream)) = answer_handshake(handshake, verdict, &mut notes) {
                sockets[process] = Some(stream);
            }
        }
        let missing: Vec<usize> = (settings.process + 1..sockets.len()).filter(|p| sockets[*p].is_none()).collect();
        if missing.is_empty() {
            return Ok(());
        }
        // A process with all its sockets may already be at work, so bytes on its heartbeat socket are expected. A
        // closed heartbeat socket is a loss.
        if let Some((process, _)) = heartbeat_sockets.peers().iter().find(|(_, stream)| !is_alive(stream)) {
            return Err(MeshError::Left(settings.missing_process(*process)));
        }
        if Instant::now() >= end {
            let missing = missing.into_iter().map(|p| settings.missing_process(p)).collect();
            return Err(MeshError::Missing { after: settings.deadline, missing, notes: notes.lines });
        }
        std::thread::sleep(TICK);
    }
}

fn check_data_hello(
    settings: &MeshSettings,
    hello: &Hello,
    nonce: FormingNonce,
    sockets: &[Option<TcpStream>],
) -> Result<usize, MeshRefusal> {
    settings.check_hello(hello)?;
    match (hello.kind, sockets.get(hello.from as usize)) {
        (SocketKind::Data, _) if hello.nonce != nonce => Err(MeshRefusal::Generation),
        (SocketKind::Data, Some(None)) => Ok(hello.from as usize),
        _ => Err(MeshRefusal::Taken { process: hello.from }),
    }
}

/// Connects to a process. Tries again until the process accepts or refuses, or the deadline passes.
pub(super) fn connect_to(
    settings: &MeshSettings,
    process: usize,
    hello: &Hello,
    end: Instant,
) -> Result<TcpStream, MeshError> {
    let address = &settings.hosts[process];
    let mut pause = Duration::from_millis(5);
    loop {
        let left = end.saturating_duration_since(Instant::now()).clamp(Duration::from_millis(50), ATTEMPT);
        let why = match attempt(&settings.secret, address, hello, left) {
            Ok(Ok(stream)) => return Ok(stream),
            // After a process was killed and started again, its slot is free as soon as the old socket is noticed.
            Ok(Err(MeshRefusal::Taken { .. }))
                if hello.kind == SocketKind::Heartbeat && Instant::now() + ATTEMPT < end =>
            {
                "its place is taken".to_owned()
            }
            Ok(Err(reason)) => return Err(MeshError::Refused { process, address: address.clone(), reason }),
            Err(e) => e.to_string(),
        };
        if Instant::now() >= end {
            let missing = vec![settings.missing_process(process)];
            return Err(MeshError::Missing { after: settings.deadline, missing, notes: vec![why] });
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(100));
    }
}

/// Connects once. The hello gets a new challenge, so that no answer of before fits.
pub(super) fn attempt(
    secret: &MeshSecret,
    address: &str,
    hello: &Hello,
    limit: Duration,
) -> io::Result<Result<TcpStream, MeshRefusal>> {
    let hello = Hello { challenge: random_bytes()?, ..hello.clone() };
    let mut failed = io::Error::new(ErrorKind::NotFound, "the name has no address");
    for resolved in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&resolved, limit) {
            Ok(mut stream) => {
                stream.set_nodelay(true)?;
                stream.write_all(&hello.encode())?;
                let replies = LimitedReader { stream: stream.try_clone()?, end: Instant::now() + limit };
                let session = match read_challenge(&replies)? {
                    Ok(challenge) => secret.session_key(&hello.encode(), &challenge),
                    Err(refusal) => return Ok(Err(refusal)),
                };
                stream.write_all(session.connector_proof().as_bytes())?;
                return Ok(read_verdict(&replies, &session)?.map(|()| stream));
            }
            Err(e) => failed = e,
        }
    }
    Err(failed)
}

/// Reads until a moment, however few bytes come at a time.
struct LimitedReader {
    stream: TcpStream,
    end: Instant,
}

impl Read for &LimitedReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        (&self.stream).read(buffer)
    }
}

/// Sets the lasting options of a socket: small messages leave at once, and the kernel probes a silent peer.
pub(super) fn set_options(stream: &TcpStream) -> Result<(), MeshError> {
    stream.set_nodelay(true).map_err(socket_error)?;
    stream.set_read_timeout(None).map_err(socket_error)?;
    setsockopt(stream, sockopt::KeepAlive, &true).map_err(|e| socket_error(e.into()))
}

fn socket_error(source: io::Error) -> MeshError {
    MeshError::Socket { what: "a socket refused an option", source }
}
