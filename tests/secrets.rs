//! An endpoint's key: nowhere in what a run writes, logs, prints, names in command lines or gives to processes that ask
//! no endpoint.

#![cfg(target_os = "linux")]

use crate::harness::{HOPEVAL, hopeval, wait_for};
use hopeval_simulated_llm::{FaultKind, FaultSettings, LatencySettings, SimulatedServer, SimulationSettings};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The key. Its base64 is looked for, too: headers of other schemes carry keys so.
const KEY: &str = "sk-secret-5f2d7c91e08b4a63";
const KEY_BASE64: &str = "c2stc2VjcmV0LTVmMmQ3YzkxZTA4YjRhNjM";

fn job(url: &str, key: &str) -> String {
    format!(
        r#"
name = "secret"
[dataset.world]
questions = 12
passages = 400
seed = 3
[service.bm25]
kind = "bm25"
[service.labeler]
kind = "lm"
model = "hopeval:labeler"
threads = 1
[service.filter]
kind = "lm"
model = "hopeval:filter"
threads = 1
[service.llm]
kind = "endpoint"
model = "simulated-llm"
base_url = "{url}"
{key}
first_pause_s = 0.01
longest_pause_s = 0.05
[method.efficientrag]
kind = "efficientrag"
retriever = "bm25"
labeler = "labeler"
filter = "filter"
generator = "llm"
k = 4
"#
    )
}

/// A server that answers slowly and, at first, with faults: their words are logged.
fn server(key: &str) -> SimulatedServer {
    let kinds = vec![FaultKind::InternalError, FaultKind::LimitBare, FaultKind::BadJson, FaultKind::HtmlPage];
    let faults = FaultSettings { rate: 0.6, kinds, per_body: Some(1), ..FaultSettings::default() };
    let latency = LatencySettings { first_ms: 120.0, ..LatencySettings::default() };
    let api_key = Some(key.to_owned());
    SimulatedServer::start(SimulationSettings { api_key, faults, latency, ..SimulationSettings::default() }).unwrap()
}

fn has_key(bytes: &[u8]) -> bool {
    [KEY, KEY_BASE64].iter().any(|key| bytes.windows(key.len()).any(|part| part == key.as_bytes()))
}

/// All files below a folder, with the number of their bytes.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        match entry.path() {
            path if path.is_dir() => found.extend(files_below(&path)),
            path => found.push(path),
        }
    }
    found
}

/// A process of hopeval: its command line and its environment.
struct FoundProcess {
    line: Vec<u8>,
    environment: Vec<u8>,
}

/// The processes of the binary under test that work in `dir`, by number.
fn processes_in(dir: &Path) -> BTreeMap<u32, FoundProcess> {
    let read = |entry: std::fs::DirEntry| {
        let number: u32 = entry.file_name().to_str()?.parse().ok()?;
        let place = entry.path();
        let ours = std::fs::read_link(place.join("exe")).ok()? == Path::new(HOPEVAL).canonicalize().ok()?
            && std::fs::read_link(place.join("cwd")).ok()? == dir;
        let line = std::fs::read(place.join("cmdline")).ok()?;
        let environment = std::fs::read(place.join("environ")).ok()?;
        (ours && !line.is_empty()).then_some((number, FoundProcess { line, environment }))
    };
    std::fs::read_dir("/proc").unwrap().flatten().filter_map(read).collect()
}

/// Runs a command to its end, and looks at its processes meanwhile. Those seen last with all of their arguments.
fn watch(dir: &Path, command: &mut Command, server: &SimulatedServer) -> Vec<FoundProcess> {
    let log = std::fs::File::create(dir.join("log.txt")).unwrap();
    let output = std::fs::File::create(dir.join("output.txt")).unwrap();
    // The tokenizers' own lines are 300 MB a run, and know of no key.
    let mut child =
        command.env("RUST_LOG", "trace,tokenizers=info").stdout(output).stderr(Stdio::from(log)).spawn().unwrap();
    // The supervisor and its two children, while calls are under way.
    let seen = wait_for("calls of a run", || {
        assert!(child.try_wait().unwrap().is_none(), "the run ended before it was looked at");
        let found = processes_in(dir);
        (server.summary().in_flight > 0 && found.len() == 3).then_some(found)
    });
    let status = child.wait().unwrap();
    assert!(status.success(), "{status}: {}", std::fs::read_to_string(dir.join("log.txt")).unwrap());
    seen.into_values().collect()
}

fn is_asked_to_be(process: &FoundProcess, number: &str) -> bool {
    let arguments: Vec<&[u8]> = process.line.split(|byte| *byte == 0).collect();
    arguments.windows(2).any(|pair| pair[0] == b"--process" && pair[1] == number.as_bytes())
}

#[test]
fn a_key_is_in_nothing_that_a_run_leaves_or_shows() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    for (origin, key) in [("variable", "key_env = \"THE_KEY\""), ("file", "key_file = \"../the-key\"")] {
        let (dir, server) = (root.join(origin), server(KEY));
        std::fs::create_dir(&dir).unwrap();
        std::fs::write(root.join("the-key"), format!("{KEY}\n")).unwrap();
        std::fs::write(dir.join("job.toml"), job(&server.base_url(), key)).unwrap();
        let arguments = ["run", "job.toml", "--store", "store", "--cache", "cache", "--processes", "2"];
        let mut command = hopeval(&dir, &arguments);
        if origin == "variable" {
            command.env("THE_KEY", KEY);
        }
        let processes = watch(&dir, &mut command, &server);
        assert!(processes.iter().all(|process| !has_key(&process.line)), "{origin}: a command line has the key");
        let asker = processes.iter().find(|process| is_asked_to_be(process, "0")).unwrap();
        let other = processes.iter().find(|process| is_asked_to_be(process, "1")).unwrap();
        assert!(!has_key(&other.environment), "{origin}: a process that asks no endpoint has the key");
        assert_eq!(has_key(&asker.environment), origin == "variable", "this test looks at the right processes");
        let summary = server.summary();
        assert!(summary.answered >= 10 && summary.failed + summary.limited >= 3, "{summary:?}");

        let files = files_below(&dir);
        let bytes: u64 = files.iter().map(|file| file.metadata().unwrap().len()).sum();
        assert!(files.len() > 20 && bytes > 50_000, "{} files, {bytes} bytes", files.len());
        let log = std::fs::read_to_string(dir.join("log.txt")).unwrap();
        assert!(log.contains("TRACE") && log.contains("cause="), "the log has the attempts' ends: {log}");
        let with_key: Vec<_> = files.iter().filter(|file| has_key(&std::fs::read(file).unwrap())).collect();
        assert!(with_key.is_empty(), "{origin}: {with_key:?}");
    }
    assert!(has_key(&std::fs::read(root.join("the-key")).unwrap()), "the search finds what is there");
}

#[test]
fn a_server_that_repeats_the_key_does_not_spread_it() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().canonicalize().unwrap();
    // The simulated server refuses another key, in words that are shown.
    let server = server("sk-another-key-00000000000");
    std::fs::write(dir.join("job.toml"), job(&server.base_url(), "key_env = \"THE_KEY\"")).unwrap();
    let mut command = hopeval(&dir, &["run", "job.toml", "--store", "store", "--cache", "cache"]);
    let ended = command.env("THE_KEY", KEY).env("RUST_LOG", "trace,tokenizers=info").output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(ended.status.code() == Some(2) && said.contains("does not take the key"), "{said}");
    assert!(!has_key(&ended.stdout) && !has_key(&ended.stderr), "a refused key is printed");
    let with_key: Vec<_> =
        files_below(&dir).into_iter().filter(|file| has_key(&std::fs::read(file).unwrap())).collect();
    assert!(with_key.is_empty(), "{with_key:?}");
}
