//! Plays the runner of batch files: sends each line of requests to a server, and writes lines of results.

use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};

/// The `*.jsonl` of a folder, by name.
fn json_files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|end| end == "jsonl")).collect();
    files.sort();
    files
}

/// Posts a body of JSON, and returns the status and the answer.
fn post(address: SocketAddr, path: &str, key: &str, body: &str) -> (u16, Value) {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nhost: batch\r\nconnection: close\r\ncontent-type: application/json\r\n\
         authorization: Bearer {key}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    let (head, body) = reply.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap())
}

/// The runner: files that it has answered are not answered again.
#[derive(Default)]
pub(crate) struct BatchRunner {
    answered: Vec<PathBuf>,
}

impl BatchRunner {
    /// Answers the new files of requests below `folder`, lines in reverse order, each file's results in a file of the
    /// same name. `alter` may change a line, given its number among the new ones. Returns the number of lines.
    pub(crate) fn answer_files(
        &mut self,
        folder: &Path,
        address: SocketAddr,
        key: &str,
        alter: impl Fn(usize, Value) -> Vec<Value>,
    ) -> usize {
        let mut count = 0;
        for path in json_files(&folder.join("requests")) {
            if self.answered.contains(&path) {
                continue;
            }
            let mut lines = Vec::new();
            for line in std::fs::read_to_string(&path).unwrap().lines() {
                let request: Value = serde_json::from_str(line).unwrap();
                assert_eq!(request["method"], "POST");
                let body = request["body"].to_string();
                let (status, answer) = post(address, request["url"].as_str().unwrap(), key, &body);
                let response = json!({ "status_code": status, "request_id": "r", "body": answer });
                let id = format!("batch_req_{count}");
                let line = json!({ "id": id, "custom_id": request["custom_id"], "response": response, "error": null });
                lines.extend(alter(count, line).iter().map(Value::to_string));
                count += 1;
            }
            lines.reverse();
            std::fs::write(folder.join("results").join(path.file_name().unwrap()), lines.join("\n") + "\n").unwrap();
            self.answered.push(path);
        }
        count
    }
}
