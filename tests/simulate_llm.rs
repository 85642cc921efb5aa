//! The command `simulate-llm`: it says its address, answers, logs, and ends with a signal.

#![cfg(unix)]
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

fn hopeval(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hopeval"));
    command.args(arguments).env_remove("RUST_LOG").env("NO_COLOR", "1");
    command
}

#[test]
fn the_command_serves_until_a_signal() {
    let folder = tempfile::tempdir().unwrap();
    let (settings, log) = (folder.path().join("settings.toml"), folder.path().join("log.jsonl"));
    std::fs::write(&settings, "models = ['simulated-a']\n").unwrap();
    let arguments = ["simulate-llm", "--port", "0", "--set", "price.request=0.25", "--settings"];
    let mut command = hopeval(&arguments);
    let mut child = command.arg(&settings).arg("--log").arg(&log).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("simulated LLM at http://").unwrap().strip_suffix("/v1").unwrap();

    let body = json!({"model": "simulated-a", "messages": [{"role": "user", "content": "Is it so?"}]}).to_string();
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    write!(
        stream,
        "POST /v1/chat/completions HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    assert!(response.starts_with("HTTP/1.1 200 ") && response.contains("\"model\":\"simulated-a\""), "{response}");

    kill(Pid::from_raw(child.id().try_into().unwrap()), Signal::SIGTERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let entry: Value = serde_json::from_str(std::fs::read_to_string(&log).unwrap().trim()).unwrap();
    assert_eq!((&entry["outcome"], &entry["money"]), (&json!("answered"), &json!(0.25)));
}

#[test]
fn bad_settings_name_the_key() {
    let refused = |set: &str| {
        let output = hopeval(&["simulate-llm", "--port", "0", "--set", set]).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    let error = refused("faults.rate=2.0");
    assert!(error.contains("`faults.rate` is 2; allowed is 0 to 1"), "{error}");
    assert!(refused("fault.rate=0.1").contains("unknown field `fault`"));
}
