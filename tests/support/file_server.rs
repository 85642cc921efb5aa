//! A server of files over HTTP whose answers a test writes by hand, byte for byte.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A request: its first line and its headers, in small letters.
#[derive(Clone, Debug)]
pub(crate) struct FileRequest {
    pub(crate) line: String,
    headers: Vec<(String, String)>,
}

impl FileRequest {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// The first byte of the range that is asked for; 0 without one.
    pub(crate) fn start(&self) -> usize {
        let range = self.header("range").and_then(|range| range.strip_prefix("bytes=")?.strip_suffix('-'));
        range.map_or(0, |start| start.parse().expect("a range has a number"))
    }
}

/// The server. It serves until the test's process ends.
pub(crate) struct FileServer {
    /// `http://127.0.0.1:PORT`
    pub(crate) address: String,
    requests: Arc<Mutex<Vec<FileRequest>>>,
}

impl FileServer {
    /// Answers each request with the bytes that `answer` makes of it and of its number, from 0, and closes the
    /// connection.
    pub(crate) fn start(answer: impl Fn(&FileRequest, usize) -> Vec<u8> + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = format!("http://{}", listener.local_addr().expect("a listener has an address"));
        let requests = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&requests);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let Some(request) = read_request(&stream) else { continue };
                let number = {
                    let mut log = log.lock().expect("no test panics with it");
                    log.push(request.clone());
                    log.len() - 1
                };
                // The client may have gone.
                drop((&stream).write_all(&answer(&request, number)));
            }
        });
        Self { address, requests }
    }

    /// The requests so far.
    pub(crate) fn requests(&self) -> Vec<FileRequest> {
        self.requests.lock().expect("no test panics with it").clone()
    }
}

fn read_request(stream: &TcpStream) -> Option<FileRequest> {
    let mut lines = BufReader::new(stream).lines();
    let line = lines.next()?.ok()?;
    let mut headers = Vec::new();
    for header in lines {
        let header = header.ok()?;
        let Some((name, value)) = header.split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    Some(FileRequest { line, headers })
}

/// An answer: status with its words, headers, body.
pub(crate) fn answer(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {}\r\n{headers}\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// The answer to a request for `file`, or for its rest.
pub(crate) fn file_answer(request: &FileRequest, file: &[u8]) -> Vec<u8> {
    match request.start() {
        0 => answer("200 OK", "ETag: \"one\"\r\n", file),
        start => {
            let range = format!("Content-Range: bytes {start}-{}/{}\r\nETag: \"one\"\r\n", file.len() - 1, file.len());
            answer("206 Partial Content", &range, &file[start..])
        }
    }
}
