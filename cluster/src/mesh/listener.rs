//! Listens for other processes and reads their hellos, many at a time, without waiting for a single one.
//!
//! A connection without a hello, or with other bytes, is closed and never delays the others. One that does not prove
//! that it has the mesh's token is refused here. The mesh decides about the hellos of the others.

use std::io::{self, ErrorKind, Read};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use super::hello::{self, HELLO, Hello, ParsedHello};
use super::secret::{PROOF, SessionKey, random_bytes};
use super::{MeshRefusal, MeshSecret};

/// Longest time between the start of a connection and its proof.
const PATIENCE: Duration = Duration::from_secs(3);
/// Most unfinished connections at a time; the oldest is closed for a new one.
const CROWD: usize = 256;

/// A listening socket, and the connections with unfinished handshakes.
#[derive(Debug)]
pub(super) struct MeshListener {
    listener: TcpListener,
    secret: MeshSecret,
    waiting: Vec<PendingHandshake>,
}

#[derive(Debug)]
struct PendingHandshake {
    stream: TcpStream,
    from: SocketAddr,
    since: Instant,
    /// Of the hello, then of the proof.
    bytes: Vec<u8>,
    /// The hello, once it is whole and the challenge is sent.
    challenged: Option<(Hello, SessionKey)>,
}

/// The state of a connection after a look at it.
#[derive(Debug)]
enum HandshakeState {
    /// Not enough bytes yet.
    More,
    /// Not hopeval.
    Stranger,
    /// Ready for the mesh's verdict.
    Complete(Result<Hello, MeshRefusal>),
}

/// A connection with a whole hello and a proof, or with a fault in them.
#[derive(Debug)]
pub(super) struct Handshake {
    /// The socket, blocking again.
    pub(super) stream: TcpStream,
    pub(super) from: SocketAddr,
    /// Its hello, or the reason for a refusal without asking the mesh.
    pub(super) hello: Result<Hello, MeshRefusal>,
    /// For the reply; absent before the challenge.
    pub(super) session: Option<SessionKey>,
}

impl MeshListener {
    /// Listens on the port of `address`: only on the loopback interface if the address is there, else on all
    /// interfaces.
    ///
    /// # Errors
    /// The address has no port, or the port is in use.
    pub(super) fn open(address: &str, secret: MeshSecret) -> io::Result<Self> {
        let listener = if let Some(loopback) = loopback_address(address) {
            TcpListener::bind(loopback)?
        } else {
            let port = address_port(address)?;
            // One socket for both families if the kernel has IPv6, else IPv4 alone.
            TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).or_else(|e| match e.kind() {
                ErrorKind::AddrInUse => Err(e),
                _ => TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)),
            })?
        };
        listener.set_nonblocking(true)?;
        Ok(Self { listener, secret, waiting: Vec::new() })
    }

    /// Connections with complete handshakes. Never blocks.
    pub(super) fn completed_handshakes(&mut self) -> Vec<Handshake> {
        self.accept();
        let mut handshakes = Vec::new();
        for mut waiting in std::mem::take(&mut self.waiting) {
            match waiting.advance(&self.secret) {
                HandshakeState::More if waiting.since.elapsed() < PATIENCE => self.waiting.push(waiting),
                HandshakeState::More => tracing::debug!(from = %waiting.from, "a connection said no hello; closed"),
                HandshakeState::Stranger => tracing::debug!(from = %waiting.from, "a stranger connected; closed"),
                HandshakeState::Complete(hello) => handshakes.extend(waiting.into_handshake(hello)),
            }
        }
        handshakes
    }

    fn accept(&mut self) {
        loop {
            match self.listener.accept() {
                Ok((stream, from)) => {
                    if stream.set_nonblocking(true).is_err() {
                        continue;
                    }
                    if self.waiting.len() >= CROWD {
                        self.waiting.remove(0);
                    }
                    let (since, bytes) = (Instant::now(), Vec::new());
                    self.waiting.push(PendingHandshake { stream, from, since, bytes, challenged: None });
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                // Nobody is waiting, or a connection ended before it was accepted, or file descriptors ran out: all
                // pass, and the deadline bounds them.
                Err(_) => return,
            }
        }
    }
}

impl PendingHandshake {
    /// Goes on as far as the bytes received allow.
    fn advance(&mut self, secret: &MeshSecret) -> HandshakeState {
        self.try_advance(secret).unwrap_or(HandshakeState::Stranger)
    }

    fn try_advance(&mut self, secret: &MeshSecret) -> io::Result<HandshakeState> {
        if self.challenged.is_none() {
            let received = self.receive_bytes(HELLO);
            let hello = match Hello::parse(&self.bytes) {
                ParsedHello::More => return received.map(|()| HandshakeState::More),
                ParsedHello::Stranger => return Ok(HandshakeState::Stranger),
                ParsedHello::Refuse(refusal) => return Ok(HandshakeState::Complete(Err(refusal))),
                ParsedHello::Hello(hello) => hello,
            };
            let challenge = random_bytes()?;
            // A new socket has room for these few bytes, so this does not block.
            hello::write_challenge(&self.stream, &challenge)?;
            let session = secret.session_key(&hello.encode(), &challenge);
            self.challenged = Some((hello, session));
            self.bytes.clear();
        }
        self.receive_bytes(PROOF)?;
        let Some((hello, session)) = &self.challenged else { return Ok(HandshakeState::More) };
        let Ok(proof) = <[u8; PROOF]>::try_from(self.bytes.as_slice()) else { return Ok(HandshakeState::More) };
        let known = session.connector_proof() == proof;
        Ok(HandshakeState::Complete(if known { Ok(hello.clone()) } else { Err(MeshRefusal::Token) }))
    }

    /// Receives until there are `length` bytes or no more for now. Takes not a byte more: later bytes belong to the
    /// owner of the socket.
    fn receive_bytes(&mut self, length: usize) -> io::Result<()> {
        let mut buffer = [0u8; HELLO];
        while self.bytes.len() < length {
            match self.stream.read(&mut buffer[..length - self.bytes.len()]) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(n) => self.bytes.extend_from_slice(&buffer[..n]),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    fn into_handshake(self, hello: Result<Hello, MeshRefusal>) -> Option<Handshake> {
        self.stream.set_nonblocking(false).ok()?;
        let session = self.challenged.map(|(_, session)| session);
        Some(Handshake { stream: self.stream, from: self.from, hello, session })
    }
}

/// Whether a process with this address listens only on the loopback interface.
pub(super) fn is_loopback(address: &str) -> bool {
    loopback_address(address).is_some()
}

fn loopback_address(address: &str) -> Option<SocketAddr> {
    if let Ok(literal) = address.parse::<SocketAddr>() {
        return literal.ip().is_loopback().then_some(literal);
    }
    let (host, _) = address.rsplit_once(':')?;
    (host == "localhost").then(|| address.to_socket_addrs().ok()?.find(|a| a.ip().is_loopback())).flatten()
}

fn address_port(address: &str) -> io::Result<u16> {
    let port = address.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
    port.ok_or_else(|| io::Error::new(ErrorKind::InvalidInput, "the address has no port: host:port is wanted"))
}

/// Whether the other side of a quiet socket is still there.
pub(super) fn is_alive(stream: &TcpStream) -> bool {
    if stream.set_nonblocking(true).is_err() {
        return false;
    }
    let alive = match stream.peek(&mut [0u8; 1]) {
        Ok(n) => n > 0,
        Err(e) => matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
    };
    stream.set_nonblocking(false).is_ok() && alive
}
