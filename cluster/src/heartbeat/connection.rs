//! A heartbeat socket, never blocking.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;

use super::frame::{HeartbeatFrame, LENGTH};

/// One socket, never blocking.
pub(super) struct HeartbeatConnection {
    pub(super) process: usize,
    stream: TcpStream,
    incoming: Vec<u8>,
    pub(super) outgoing: Vec<u8>,
    pub(super) open: bool,
}

impl HeartbeatConnection {
    pub(super) fn new(process: usize, stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self { process, stream, incoming: Vec::new(), outgoing: Vec::new(), open: true })
    }

    pub(super) fn send(&mut self) {
        while !self.outgoing.is_empty() {
            match self.stream.write(&self.outgoing) {
                Ok(n) => drop(self.outgoing.drain(..n)),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                // Reading shows a broken socket, after its remaining bytes.
                Err(_) => return,
            }
        }
    }

    pub(super) fn receive(&mut self) -> Vec<HeartbeatFrame> {
        let mut buffer = [0u8; 1024];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => self.open = false,
                Ok(n) => {
                    self.incoming.extend_from_slice(&buffer[..n]);
                    continue;
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                Err(_) => self.open = false,
            }
            break;
        }
        let whole = self.incoming.len() / LENGTH * LENGTH;
        let mut frames = Vec::new();
        for bytes in self.incoming.drain(..whole).as_slice().chunks_exact(LENGTH) {
            match HeartbeatFrame::decode(bytes) {
                Some(frame) => frames.push(frame),
                None => self.open = false,
            }
        }
        frames
    }
}
