//! A retriever over HTTP that answers with the bytes that a test gives it, each connection on its own thread.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A request: its head in small letters, and its body.
#[derive(Clone, Debug)]
pub(crate) struct RankingRequest {
    pub(crate) head: String,
    pub(crate) body: serde_json::Value,
}

/// The server. It serves until the test's process ends.
pub(crate) struct RankingServer {
    /// `http://127.0.0.1:PORT/search`
    pub(crate) url: String,
    requests: Arc<Mutex<Vec<RankingRequest>>>,
}

impl RankingServer {
    /// Answers each request with the bytes that `answer` makes of it and of its number, from 0, and closes the
    /// connection.
    pub(crate) fn start(answer: impl Fn(&RankingRequest, usize) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let url = format!("http://{}/search", listener.local_addr().expect("a listener has an address"));
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (log, answer) = (Arc::clone(&requests), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (log, answer) = (Arc::clone(&log), Arc::clone(&answer));
                std::thread::spawn(move || {
                    let Some(request) = read_request(&stream) else { return };
                    let number = {
                        let mut log: std::sync::MutexGuard<'_, Vec<RankingRequest>> =
                            log.lock().expect("no test panics with it");
                        log.push(request.clone());
                        log.len() - 1
                    };
                    // The client may have gone.
                    drop((&stream).write_all(&answer(&request, number)));
                });
            }
        });
        Self { url, requests }
    }

    /// The requests so far.
    pub(crate) fn requests(&self) -> Vec<RankingRequest> {
        self.requests.lock().expect("no test panics with it").clone()
    }
}

fn read_request(stream: &TcpStream) -> Option<RankingRequest> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        (reader.read_line(&mut head).ok()? > 0).then_some(())?;
    }
    let head = head.to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok())?;
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(RankingRequest { head, body: serde_json::from_slice(&body).ok()? })
}

/// A whole reply with this status and body, of no content type.
pub(crate) fn reply(status: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len()).into_bytes()
}

/// The reply with a ranking.
pub(crate) fn ranking<'a>(rows: impl IntoIterator<Item = (&'a str, f64)>) -> Vec<u8> {
    let rows: Vec<_> = rows.into_iter().map(|(id, score)| serde_json::json!({ "id": id, "score": score })).collect();
    reply("200 OK", &serde_json::json!({ "results": rows }).to_string())
}
