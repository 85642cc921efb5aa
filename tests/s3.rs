//! A bucket instead of a folder: the contract of stores, and a short sequence of faults, against an S3-compatible
//! server that the test starts (moto, from PyPI).

#![cfg(target_os = "linux")]
#![expect(clippy::print_stderr, reason = "a test that skips itself says so")]

use crate::faults::{Fault, FaultSequence, Random};
use crate::harness::{final_tables, hopeval, succeed};
use hopeval_results::Store;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

/// The server, with its packages for S3 alone.
const MOTO: &str = "moto[server,s3]==5.2.5";

/// Requests to the server cost milliseconds each, so this is smaller than the job of `kill.rs`.
const JOB: &str = r#"
name = "faults"
[dataset.world]
questions = 240
passages = 1000
seed = 12
[service.bm25]
kind = "bm25"
[method.bm25]
kind = "one_step"
retriever = "bm25"
[method.bm25.sweep]
k = [5, 20]
[method.hops]
kind = "iterative_title"
retriever = "bm25"
[run]
chunk = 4
in_flight = 1
"#;

/// Questions and configurations of [`JOB`].
const SHAPE: (u64, u64) = (240, 3);

#[test]
fn a_bucket_is_a_store_like_a_folder() {
    let Some(server) = Server::start() else { return };
    for test in ["s3::a_bucket_conforms", "s3::a_run_on_a_bucket_survives_kills_and_stops"] {
        // The settings of a bucket come from the environment, which a process should not change once it runs.
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", test, "--ignored", "--nocapture"]);
        for name in std::env::vars_os().map(|(name, _)| name).filter(|name| name.to_string_lossy().starts_with("AWS_"))
        {
            command.env_remove(name);
        }
        command.env("AWS_ENDPOINT_URL", server.url());
        command.env("AWS_ACCESS_KEY_ID", "test").env("AWS_SECRET_ACCESS_KEY", "test");
        let output = command.output().unwrap();
        let [out, err] = [&output.stdout, &output.stderr].map(|said| String::from_utf8_lossy(said));
        eprintln!("{out}{err}");
        // Without a test of this name, none would run, and that would be a success.
        assert!(output.status.success() && out.contains(" 1 passed;"), "{test}: {}", output.status);
    }
}

#[test]
#[ignore = "needs a bucket: run by a_bucket_is_a_store_like_a_folder"]
fn a_bucket_conforms() {
    hopeval_results::conformance::conformance(&Store::open("s3://bucket/conformance").unwrap());
}

#[test]
#[ignore = "needs a bucket: run by a_bucket_is_a_store_like_a_folder"]
fn a_run_on_a_bucket_survives_kills_and_stops() {
    let dir = tempfile::tempdir().unwrap();
    let job = dir.path().join("job.toml");
    std::fs::write(&job, JOB).unwrap();
    let mut random = Random::from_environment();

    let undisturbed = ["run", "job.toml", "--json", "--workers", "1", "--store", "undisturbed", "--cache", "cache"];
    let out = succeed(&mut hopeval(dir.path(), &undisturbed));
    let document: serde_json::Value = serde_json::from_str(&out).unwrap();
    let reference = final_tables(&dir.path().join("undisturbed"), document["run"].as_str().unwrap());

    let mut faults: Vec<Fault> = (0..4).map(|_| Fault::kill(&mut random, 3)).collect();
    let victim = random.below(3);
    faults.push(Fault::stop(&mut random, victim));
    random.shuffle(&mut faults);
    faults.push(Fault::kill_at_the_end(&mut random, 3));
    faults.push(Fault::stop_at_the_tables(3));
    let stores = "s3://bucket/runs".to_owned();
    let look = Duration::from_millis(20);
    let mut sequence = FaultSequence { dir: dir.path().into(), job, stores, look, shape: SHAPE, reference, random };
    let start = Instant::now();
    let tally = sequence.inject(faults);
    eprintln!("with faults on a bucket: {:?}, {tally:?}", start.elapsed());
    assert!(tally.killed[2] >= 4 && tally.stopped == 2, "{tally:?}");
}

/// The server, with one bucket.
struct Server {
    child: Child,
    /// The server ends when this is closed.
    _stdin: Option<ChildStdin>,
    port: u16,
}

impl Server {
    /// Installs and starts the server; `None`, with a message, if it cannot be installed.
    fn start() -> Option<Self> {
        let python = match python() {
            Ok(python) => python,
            Err(reason) => {
                eprintln!("SKIPPED: s3: {MOTO} cannot be installed: {reason}");
                return None;
            }
        };
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ops/ci/s3-server.py");
        let mut command = Command::new(python);
        command.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut first = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
        let port = first.trim().parse().unwrap_or_else(|error| panic!("{command:?} printed {first:?}: {error}"));
        let server = Self { _stdin: child.stdin.take(), child, port };
        server.create("bucket");
        Some(server)
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Makes a bucket: a store does not.
    fn create(&self, bucket: &str) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let request = format!(
            "PUT /{bucket} HTTP/1.0\r\nHost: 127.0.0.1:{}\r\n\
             Authorization: AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request\r\n\
             Content-Length: 0\r\n\r\n",
            self.port
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let status = answer.lines().next().unwrap_or_default();
        assert!(status.contains(" 200 "), "{request}\n{answer}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A Python with the server, in its own environment below `target`, made once.
fn python() -> Result<PathBuf, String> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let venv = target.join("s3-server");
    let python = venv.join("bin/python");
    let ready = venv.join(format!("{MOTO}.installed"));
    if ready.exists() {
        return Ok(python);
    }
    let attempt = |command: &mut Command| match command.output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim())),
        Err(error) => Err(format!("{command:?}: {error}")),
    };
    attempt(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&venv))?;
    attempt(Command::new(&python).args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", MOTO]))?;
    std::fs::write(&ready, "").map_err(|error| format!("{}: {error}", ready.display()))?;
    Ok(python)
}
