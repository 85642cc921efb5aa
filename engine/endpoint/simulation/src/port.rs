//! The server's port: it can be closed for a while, and a connection can be reset or cut.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Notify;

/// Connections that wait to be accepted.
const BACKLOG: u32 = 4096;
/// The pause before a port that is still taken is tried again.
const BIND_AGAIN: Duration = Duration::from_millis(2);

/// Closes the port until a moment; shared by the port and whoever closes it.
#[derive(Debug, Default)]
pub(crate) struct PortGate {
    closed_until: Mutex<Option<Instant>>,
    changed: Notify,
    /// Connections accepted so far.
    accepted: AtomicU64,
}

impl PortGate {
    pub(crate) fn close_until(&self, until: Instant) {
        let mut closed = self.closed_until.lock().unwrap_or_else(PoisonError::into_inner);
        if closed.is_none_or(|known| known < until) {
            *closed = Some(until);
            self.changed.notify_one();
        }
    }

    /// The connections that were accepted so far.
    pub(crate) fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    /// Ends a closing before its time.
    pub(crate) fn open(&self) {
        *self.closed_until.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.changed.notify_one();
    }

    fn closed_until(&self) -> Option<Instant> {
        self.closed_until.lock().unwrap_or_else(PoisonError::into_inner).filter(|&until| until > Instant::now())
    }
}

/// The listening port.
pub(crate) struct SimulatedPort {
    address: SocketAddr,
    listener: Option<TcpListener>,
    gate: Arc<PortGate>,
    /// Bound and never listening: while the port is closed, nobody else gets it.
    _reservation: TcpSocket,
}

impl SimulatedPort {
    /// Opens the port; port 0 becomes a free one.
    pub(crate) fn open(address: SocketAddr, gate: Arc<PortGate>) -> io::Result<Self> {
        let reservation = bound_socket(address)?;
        let address = reservation.local_addr()?;
        let listener = bound_socket(address)?.listen(BACKLOG)?;
        Ok(Self { address, listener: Some(listener), gate, _reservation: reservation })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

fn bound_socket(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

impl Listener for SimulatedPort {
    type Io = SimulatedConnection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            if let Some(until) = self.gate.closed_until() {
                // Connections that nobody accepted are reset by this.
                self.listener = None;
                tokio::select! {
                    () = tokio::time::sleep_until(until.into()) => {}
                    () = self.gate.changed.notified() => {}
                }
                continue;
            }
            let Some(listener) = &self.listener else {
                match bound_socket(self.address).and_then(|socket| socket.listen(BACKLOG)) {
                    Ok(listener) => self.listener = Some(listener),
                    Err(_) => tokio::time::sleep(BIND_AGAIN).await,
                }
                continue;
            };
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((stream, peer)) => {
                        // Small pieces of a body must leave at once.
                        let _ = stream.set_nodelay(true);
                        self.gate.accepted.fetch_add(1, Ordering::Relaxed);
                        return (SimulatedConnection { stream, switch: ConnectionSwitch::default() }, peer);
                    }
                    // Out of file descriptors, or a connection that is gone again.
                    Err(_) => tokio::time::sleep(BIND_AGAIN).await,
                },
                () = self.gate.changed.notified() => {}
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}

/// Resets a connection, from where its requests are answered.
#[derive(Debug, Clone, Default)]
pub(crate) struct ConnectionSwitch(Arc<AtomicBool>);

impl ConnectionSwitch {
    /// The next read or write fails, and the connection ends with a reset.
    pub(crate) fn reset(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn is_reset(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl Connected<IncomingStream<'_, SimulatedPort>> for ConnectionSwitch {
    fn connect_info(stream: IncomingStream<'_, SimulatedPort>) -> Self {
        stream.io().switch.clone()
    }
}

/// A connection that can be reset.
pub(crate) struct SimulatedConnection {
    stream: TcpStream,
    switch: ConnectionSwitch,
}

impl SimulatedConnection {
    /// Fails if the connection is to be reset.
    fn check(&self) -> io::Result<()> {
        if self.switch.is_reset() { Err(io::ErrorKind::ConnectionReset.into()) } else { Ok(()) }
    }
}

impl Drop for SimulatedConnection {
    fn drop(&mut self) {
        if self.switch.is_reset() {
            // If it fails, the connection is gone already.
            let _ = self.stream.set_zero_linger();
        }
    }
}

impl AsyncRead for SimulatedConnection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.check()?;
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for SimulatedConnection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.check()?;
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check()?;
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check()?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // An orderly end would come before the reset.
        self.check()?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
