//! A bucket with faults: `ops/ci/faulty-s3.py`, started by a test.

#![expect(unreachable_pub, reason = "a module of test files")]

use crate::harness::hopeval;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

/// The server. It holds one bucket, in memory.
pub struct FaultyServer {
    child: Child,
    /// The server ends when this is closed.
    _stdin: Option<ChildStdin>,
    port: u16,
}

impl FaultyServer {
    /// Starts the server, without a fault.
    pub fn start() -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ops/ci/faulty-s3.py");
        let mut command = Command::new("python3");
        let mut child = command.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut first = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
        let port = first.trim().parse().unwrap_or_else(|error| panic!("{command:?} printed {first:?}: {error}"));
        Self { _stdin: child.stdin.take(), child, port }
    }

    /// Orders a fault, as the script's header has it, and returns the requests that the last one met.
    pub fn order(&self, fault: &str) -> u64 {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let head = format!("POST /_fault?mode={fault} HTTP/1.0\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let body = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{fault}: {answer}")).1;
        serde_json::from_str::<serde_json::Value>(body).unwrap()["requests"].as_u64().unwrap()
    }

    /// A command over the bucket, with the cache in `dir`.
    pub fn hopeval(&self, dir: &Path, arguments: &[&str]) -> Command {
        let mut command = hopeval(dir, arguments);
        for name in std::env::vars_os().map(|(name, _)| name).filter(|name| name.to_string_lossy().starts_with("AWS_"))
        {
            command.env_remove(name);
        }
        command.env("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{}", self.port));
        command.env("AWS_ACCESS_KEY_ID", "test").env("AWS_SECRET_ACCESS_KEY", "test").env("AWS_TIMEOUT", "2s");
        command.args(["--store", "s3://bucket/runs", "--cache", "cache"]);
        command
    }
}

impl Drop for FaultyServer {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
