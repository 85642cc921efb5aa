//! A client that sees connections as they are: one call, one connection, every byte.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// The response to a call, as far as it came.
#[derive(Debug)]
pub(crate) struct HttpReply {
    pub(crate) status: u16,
    /// The header lines, in lower case.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
    /// All announced bytes came.
    pub(crate) is_complete: bool,
    /// The connection was reset after what came.
    pub(crate) is_reset: bool,
}

impl HttpReply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

/// Posts a document; `headers` are whole lines.
pub(crate) fn post(address: SocketAddr, path: &str, headers: &[&str], body: &str) -> io::Result<HttpReply> {
    send(address, "POST", path, headers, body)
}

/// Gets a path.
pub(crate) fn get(address: SocketAddr, path: &str) -> io::Result<HttpReply> {
    send(address, "GET", path, &[], "")
}

fn send(address: SocketAddr, method: &str, path: &str, headers: &[&str], body: &str) -> io::Result<HttpReply> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    let headers: String = headers.iter().map(|line| format!("{line}\r\n")).collect();
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: simulation\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n{headers}\r\n{body}"
    )?;
    let mut bytes = vec![];
    let mut chunk = [0; 4096];
    let is_reset = loop {
        match stream.read(&mut chunk) {
            Ok(0) => break false,
            Ok(count) => bytes.extend_from_slice(&chunk[..count]),
            Err(error) if bytes.is_empty() => return Err(error),
            Err(_) => break true,
        }
    };
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n");
    let end = end.ok_or(io::ErrorKind::UnexpectedEof)?;
    let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    let body = bytes.split_off(end + 4);
    let announced = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
    let (body, is_complete) = match announced {
        Some(length) => (body.clone(), body.len() == length),
        None => read_chunks(&body),
    };
    Ok(HttpReply { status, head, body, is_complete, is_reset })
}

/// The bytes of a chunked body, and whether its end came.
fn read_chunks(mut rest: &[u8]) -> (Vec<u8>, bool) {
    let mut body = vec![];
    while let Some(at) = rest.windows(2).position(|window| window == b"\r\n") {
        let size = std::str::from_utf8(&rest[..at]).ok().and_then(|size| usize::from_str_radix(size, 16).ok());
        let Some(size) = size.filter(|size| rest.len() >= at + 2 + size) else { break };
        if size == 0 {
            return (body, true);
        }
        body.extend_from_slice(&rest[at + 2..at + 2 + size]);
        rest = rest.get(at + 4 + size..).unwrap_or_default();
    }
    (body, false)
}
