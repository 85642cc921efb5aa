//! Listens for other processes and reads their hellos, many at a time, without waiting for a single one.
//!
//! A connection without a hello, or with other bytes, is closed and never delays the others. The mesh decides about the
//! hellos.

use std::io::{self, ErrorKind, Read};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use super::MeshRefusal;
use super::hello::{Hello, ParsedHello};

/// Longest time between the start of a connection and its whole hello.
const PATIENCE: Duration = Duration::from_secs(3);
/// Most unfinished connections at a time; the oldest is closed for a new one.
const CROWD: usize = 256;

/// A listening socket, and the connections with unfinished hellos.
#[derive(Debug)]
pub(super) struct MeshListener {
    listener: TcpListener,
    waiting: Vec<PendingHello>,
}

#[derive(Debug)]
struct PendingHello {
    stream: TcpStream,
    from: SocketAddr,
    since: Instant,
    bytes: Vec<u8>,
}

/// A connection with a whole hello, or with a fault in it.
#[derive(Debug)]
pub(super) struct Handshake {
    /// The socket, blocking again.
    pub(super) stream: TcpStream,
    pub(super) from: SocketAddr,
    /// Its hello, or the reason for a refusal without asking the mesh.
    pub(super) hello: Result<Hello, MeshRefusal>,
}

impl MeshListener {
    /// Listens on the port of `address`: only on the loopback interface if the address is there, else on all
    /// interfaces.
    ///
    /// # Errors
    /// The address has no port, or the port is in use.
    pub(super) fn open(address: &str) -> io::Result<Self> {
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
        Ok(Self { listener, waiting: Vec::new() })
    }

    /// Connections with complete hellos. Never blocks.
    pub(super) fn completed_handshakes(&mut self) -> Vec<Handshake> {
        self.accept();
        let mut handshakes = Vec::new();
        for mut waiting in std::mem::take(&mut self.waiting) {
            match waiting.read_hello() {
                ParsedHello::More if waiting.since.elapsed() < PATIENCE => self.waiting.push(waiting),
                ParsedHello::More => tracing::debug!(from = %waiting.from, "a connection said no hello; closed"),
                ParsedHello::Stranger => tracing::debug!(from = %waiting.from, "a stranger connected; closed"),
                ParsedHello::Hello(hello) => handshakes.extend(waiting.into_handshake(Ok(hello))),
                ParsedHello::Refuse(refusal) => handshakes.extend(waiting.into_handshake(Err(refusal))),
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
                    self.waiting.push(PendingHello { stream, from, since: Instant::now(), bytes: Vec::new() });
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                // Nobody is waiting, or a connection ended before it was accepted, or file descriptors ran out: all
                // pass, and the deadline bounds them.
                Err(_) => return,
            }
        }
    }
}

impl PendingHello {
    fn read_hello(&mut self) -> ParsedHello {
        let mut buffer = [0u8; 128];
        loop {
            // Not a byte more than the hello: later bytes belong to the owner of the socket.
            let want = Hello::missing_bytes(self.bytes.len());
            match self.stream.read(&mut buffer[..want]) {
                Ok(0) => return if want == 0 { Hello::parse(&self.bytes) } else { ParsedHello::Stranger },
                Ok(n) => self.bytes.extend_from_slice(&buffer[..n]),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Hello::parse(&self.bytes),
                Err(_) => return ParsedHello::Stranger,
            }
            match Hello::parse(&self.bytes) {
                ParsedHello::More => {}
                parsed => return parsed,
            }
        }
    }

    fn into_handshake(self, hello: Result<Hello, MeshRefusal>) -> Option<Handshake> {
        self.stream.set_nonblocking(false).ok()?;
        Some(Handshake { stream: self.stream, from: self.from, hello })
    }
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
