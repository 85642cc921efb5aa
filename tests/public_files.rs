//! Public files: `data fetch` over servers that cut connections, ignore ranges or have other files, its exit codes, and
//! `data verify`.

use crate::file_server::{FileServer, answer, file_answer};
use crate::harness::{LIMIT, document, hopeval, run, succeed};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;

/// The served file: 6,000 bytes, no two parts alike.
fn file() -> Vec<u8> {
    (0..1000).flat_map(|number: u32| format!("{number:05}\n").into_bytes()).collect()
}

/// Its SHA-256.
const DIGEST: &str = "d890a25b4c67b28a962ddd628c47a17702110b94328d2e7b7099bb5b644dff04";

/// Writes a list with the file at these addresses, and with its size and digest if `known`.
fn write_list(dir: &Path, addresses: &[String], known: bool) {
    let mut list = format!("[numbers]\npath = \"set/numbers.txt\"\nfrom = {addresses:?}\n");
    if known {
        list.push_str(&format!("bytes = 6000\nsha256 = \"{DIGEST}\"\nevidence = \"the test\"\n"));
    }
    std::fs::write(dir.join("list.toml"), list).unwrap();
}

/// `data fetch numbers`, without proxies.
fn fetch(dir: &Path) -> Command {
    fetch_all(dir, &["numbers"])
}

/// `data fetch` of these names, without proxies.
fn fetch_all(dir: &Path, entries: &[&str]) -> Command {
    let mut command = hopeval(dir, &["data", "fetch", "--to", "data", "--list", "list.toml", "--json"]);
    command.args(entries);
    for proxy in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"] {
        command.env_remove(proxy).env_remove(proxy.to_ascii_lowercase());
    }
    command
}

fn fetched(dir: &Path) -> Value {
    document(&mut fetch(dir))["files"][0].clone()
}

/// The message of a fetch that fails with this exit code. Nothing has the file's name then.
fn failure(dir: &Path, code: i32) -> String {
    failure_of(dir, &mut fetch(dir), code)
}

fn failure_of(dir: &Path, command: &mut Command, code: i32) -> String {
    let output = run(command);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{message}");
    assert!(!dir.join("data/set/numbers.txt").exists(), "{message}");
    message
}

/// The names in the file's folder.
fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir.join("data/set")).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn a_cut_connection_goes_on_where_it_broke() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    // 2,500 bytes a connection.
    let server = FileServer::start(|request, _| {
        let whole = file_answer(request, &file());
        let head = whole.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap() + 4;
        whole[..whole.len().min(head + 2500)].to_vec()
    });
    write_list(dir, &[format!("{}/numbers.txt", server.address)], true);
    let told = fetched(dir);
    assert_eq!((&told["was_there"], &told["bytes"], &told["is_verified"]), (&false.into(), &6000.into(), &true.into()));
    assert_eq!(std::fs::read(dir.join("data/set/numbers.txt")).unwrap(), file());
    assert_eq!(names(dir), ["numbers.txt"], "nothing is left beside it");
    let starts: Vec<usize> = server.requests().iter().map(|request| request.start()).collect();
    assert_eq!(starts, [0, 2500, 5000]);
    assert!(server.requests()[1..].iter().all(|request| request.header("if-range") == Some("\"one\"")));

    // Again: it is compared, and the server is not asked.
    let told = fetched(dir);
    assert_eq!((&told["was_there"], &told["bytes"]), (&true.into(), &0.into()));
    assert_eq!(server.requests().len(), 3);
}

#[test]
fn another_process_goes_on_and_a_busy_server_is_resumable() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let busy = FileServer::start(|_, _| answer("503 Service Unavailable", "", b""));
    write_list(dir, &[format!("{}/numbers.txt", busy.address)], true);
    std::fs::create_dir_all(dir.join("data/set")).unwrap();
    std::fs::write(dir.join("data/set/numbers.txt.part"), &file()[..4000]).unwrap();
    let message = failure(dir, 75);
    assert!(
        message.contains("503") && message.contains("goes on later") && message.contains(&busy.address),
        "{message}"
    );
    assert_eq!(names(dir), ["numbers.txt.part"]);

    let server = FileServer::start(|request, _| file_answer(request, &file()));
    write_list(dir, &[format!("{}/numbers.txt", server.address)], true);
    assert_eq!(fetched(dir)["bytes"], 2000);
    assert_eq!(server.requests()[0].start(), 4000);
    assert_eq!(std::fs::read(dir.join("data/set/numbers.txt")).unwrap(), file());
}

#[test]
fn a_server_that_ignores_ranges_or_has_another_version_sends_all() {
    for validator in [Some("\"other\""), None] {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let server = FileServer::start(|_, _| answer("200 OK", "ETag: \"two\"\r\n", &file()));
        write_list(dir, &[format!("{}/numbers.txt", server.address)], validator.is_none());
        std::fs::create_dir_all(dir.join("data/set")).unwrap();
        std::fs::write(dir.join("data/set/numbers.txt.part"), "of another file").unwrap();
        if let Some(validator) = validator {
            std::fs::write(dir.join("data/set/numbers.txt.part.validator"), validator).unwrap();
        }
        let told = fetched(dir);
        assert_eq!((&told["bytes"], &told["is_verified"]), (&6000.into(), &validator.is_none().into()));
        assert_eq!(server.requests()[0].start(), "of another file".len());
        assert_eq!(server.requests()[0].header("if-range"), validator);
        assert_eq!(std::fs::read(dir.join("data/set/numbers.txt")).unwrap(), file());
        assert_eq!(names(dir), ["numbers.txt"]);
    }
}

#[test]
fn a_part_that_nothing_can_tell_begins_anew() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let server = FileServer::start(|request, _| file_answer(request, &file()));
    write_list(dir, &[format!("{}/numbers.txt", server.address)], false);
    std::fs::create_dir_all(dir.join("data/set")).unwrap();
    std::fs::write(dir.join("data/set/numbers.txt.part"), "of another file").unwrap();
    assert_eq!(fetched(dir)["bytes"], 6000);
    assert_eq!(server.requests()[0].start(), 0);
}

/// An answer without a length: its end is the connection's.
fn endless_answer(body: &[u8]) -> Vec<u8> {
    [b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", body].concat()
}

#[test]
fn a_body_of_unknown_end_is_taken_only_where_something_tells_it() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let server = FileServer::start(|_, number| endless_answer(&file()[..if number < 3 { 2500 } else { 6000 }]));
    let addresses = [format!("{}/numbers.txt", server.address)];
    write_list(dir, &addresses, false);
    let message = failure(dir, 2);
    assert!(message.contains("does not say how long") && message.contains("`sha256`"), "{message}");
    assert_eq!(names(dir), Vec::<String>::new());
    // Two broken bodies, and a whole one.
    write_list(dir, &addresses, true);
    assert_eq!(fetched(dir)["is_verified"], true);
    assert_eq!(std::fs::read(dir.join("data/set/numbers.txt")).unwrap(), file());

    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let server = FileServer::start(|_, number| {
        let chunk = [b"1770\r\n", &file()[..], b"\r\n0\r\n\r\n"].concat();
        let head = b"HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n";
        [&head[..], &chunk[..if number == 0 { 2500 } else { chunk.len() }]].concat()
    });
    write_list(dir, &[format!("{}/numbers.txt", server.address)], false);
    fetched(dir);
    assert_eq!((std::fs::read(dir.join("data/set/numbers.txt")).unwrap(), server.requests().len()), (file(), 2));
}

#[test]
fn a_server_that_sends_short_ranges_is_asked_again() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let server = FileServer::start(|request, _| match request.start() {
        0 => file_answer(request, &file())[..2500].to_vec(),
        start => {
            let end = 6000.min(start + 2500);
            let headers = format!("Content-Range: bytes {start}-{}/6000\r\n", end - 1);
            answer("206 Partial Content", &headers, &file()[start..end])
        }
    });
    write_list(dir, &[format!("{}/numbers.txt", server.address)], false);
    assert_eq!(fetched(dir)["bytes"], 6000);
    assert_eq!(std::fs::read(dir.join("data/set/numbers.txt")).unwrap(), file());
}

#[test]
fn signals_and_other_processes_make_it_resumable() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let (asked, stalls) = mpsc::channel();
        let server = FileServer::start(move |request, number| {
            if number > 0 {
                asked.send(()).unwrap();
                std::thread::sleep(LIMIT);
            }
            let whole = file_answer(request, &file());
            whole[..whole.len() - 3500].to_vec()
        });
        write_list(dir, &[format!("{}/numbers.txt", server.address)], true);
        drop(std::fs::remove_file(dir.join("data/set/numbers.txt.part")));
        let child = fetch(dir).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        stalls.recv_timeout(LIMIT).unwrap();
        kill(Pid::from_raw(child.id() as i32), signal).unwrap();
        let output = child.wait_with_output().unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(75) && message.contains("interrupted"), "{:?} {message}", output.status);
        let told: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(told["files"], json!([]));
        let part = std::fs::read(dir.join("data/set/numbers.txt.part")).unwrap();
        assert_eq!(part, file()[..part.len()]);
        assert!(!part.is_empty());
    }

    let part = File::open(dir.join("data/set/numbers.txt.part")).unwrap();
    part.lock().unwrap();
    let server = FileServer::start(|request, _| file_answer(request, &file()));
    write_list(dir, &[format!("{}/numbers.txt", server.address)], true);
    let message = failure(dir, 75);
    assert!(message.contains("another process is fetching it"), "{message}");
    drop(part);
    assert!(fetched(dir)["bytes"].as_u64().unwrap() < 6000);
    assert_eq!(std::fs::read(dir.join("data/set/numbers.txt")).unwrap(), file());
}

#[test]
fn redirects_without_end_are_followed_once() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let server = FileServer::start(|_, _| answer("302 Found", "Location: /numbers.txt\r\n", b""));
    write_list(dir, &[format!("{}/numbers.txt", server.address)], true);
    let message = failure(dir, 2);
    assert!(message.contains("redirect") && message.contains(&server.address), "{message}");
    assert!(server.requests().len() < 20, "{}", server.requests().len());
    assert_eq!(names(dir), Vec::<String>::new());
}

#[test]
fn passwords_in_addresses_are_sent_and_not_shown() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let server = FileServer::start(|_, _| answer("404 Not Found", "", b""));
    let hidden = |text: &str| assert!(!text.contains("sekret") && !text.contains("someone"), "{text}");
    write_list(dir, &[format!("{}/numbers.txt", server.address.replace("//", "//someone:sekret@"))], true);
    let message = failure(dir, 2);
    assert!(message.contains(&format!("{}/numbers.txt answers 404", server.address)), "{message}");
    hidden(&message);
    assert!(server.requests()[0].header("authorization").is_some_and(|sent| sent.starts_with("Basic ")));
    for json in [&[][..], &["--json"]] {
        hidden(&succeed(hopeval(dir, &["data", "list", "--list", "list.toml"]).args(json)));
    }

    write_list(dir, &["ftp://someone:sekret@files.invalid/a".to_owned()], true);
    hidden(&failure(dir, 2));
    std::fs::write(dir.join("list.toml"), "[numbers]\npath = \"org/tiny\"\nrepository = \"org/tiny\"\n").unwrap();
    for hub in [server.address.replace("//", "//someone:sekret@"), "http://someone:sekret@a:b".to_owned()] {
        hidden(&failure_of(dir, fetch(dir).env("HF_ENDPOINT", hub), 2));
    }
}

#[test]
fn a_failure_hides_no_other_file() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let server = FileServer::start(|request, _| match request.line.split(' ').nth(1) {
        Some("/gone") => answer("404 Not Found", "", b""),
        _ => file_answer(request, &file()),
    });
    write_list(dir, &[format!("{}/numbers.txt", server.address)], true);
    let entry = |name: &str, address: &str| format!("[{name}]\npath = \"set/{name}\"\nfrom = [\"{address}\"]\n");
    let list = std::fs::read_to_string(dir.join("list.toml")).unwrap()
        + &entry("a-busy", &server.address)
        + &entry("a-gone", &format!("{}/gone", server.address));
    std::fs::write(dir.join("list.toml"), list).unwrap();
    std::fs::create_dir_all(dir.join("data/set")).unwrap();
    let other_process = File::create(dir.join("data/set/a-busy.part")).unwrap();
    other_process.lock().unwrap();
    let output = run(&mut fetch_all(dir, &["numbers", "a-busy", "a-gone"]));
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &told["files"][0]["name"]), (Some(2), &"numbers".into()));
    let failed = told["failed"].as_array().unwrap().iter();
    let failed: Vec<Value> = failed.map(|failed| json!([failed["name"], failed["exit_code"]])).collect();
    assert_eq!(failed, [json!(["a-busy", 75]), json!(["a-gone", 2])]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("a-gone was not fetched") && message.contains("404"), "{message}");
    assert_eq!(names(dir), ["a-busy.part", "numbers.txt"]);
    assert_eq!(run(&mut fetch_all(dir, &["numbers", "a-busy"])).status.code(), Some(75));
}

#[test]
fn another_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let changed = FileServer::start(|request, _| {
        let mut file = file();
        file[17] = b'x';
        file_answer(request, &file)
    });
    write_list(dir, &[format!("{}/numbers.txt", changed.address)], true);
    let message = failure(dir, 2);
    assert!(message.contains(DIGEST) && message.contains("damaged on its way"), "{message}");
    assert_eq!(names(dir), Vec::<String>::new(), "the next attempt begins anew");

    let short = FileServer::start(|request, _| file_answer(request, &file()[..5999]));
    write_list(dir, &[format!("{}/numbers.txt", short.address)], true);
    let message = failure(dir, 2);
    assert!(message.contains("5999 bytes, and the list says 6000"), "{message}");

    let page = FileServer::start(|_, _| answer("200 OK", "Content-Type: text/html; charset=utf-8\r\n", b"<html>"));
    write_list(dir, &[format!("{}/numbers.txt", page.address)], true);
    let message = failure(dir, 2);
    assert!(message.contains("a web page in place of the file") && message.contains("browser"), "{message}");
    assert_eq!(names(dir), Vec::<String>::new(), "nothing came, nothing is left");

    // Nothing that is there is overwritten.
    std::fs::write(dir.join("data/set/numbers.txt"), "mine").unwrap();
    let output = run(&mut fetch(dir));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.code() == Some(2) && message.contains("4 bytes") && message.contains("move it away"),
        "{message}"
    );
    assert_eq!(std::fs::read(dir.join("data/set/numbers.txt")).unwrap(), b"mine");
}

#[test]
fn the_next_address_is_tried_and_all_failures_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let gone = FileServer::start(|_, _| answer("404 Not Found", "", b""));
    let forbidden = FileServer::start(|_, _| answer("403 Forbidden", "", b""));
    let urls = [&gone, &forbidden].map(|server| format!("{}/numbers.txt", server.address));
    write_list(dir, &urls, true);
    let message = failure(dir, 2);
    for part in ["none of 2 addresses", "404 Not Found", "403 Forbidden", "consent", &urls[0], &urls[1]] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert_eq!(names(dir), Vec::<String>::new());
    let server = FileServer::start(|request, _| file_answer(request, &file()));
    write_list(dir, &[urls[0].clone(), format!("{}/numbers.txt", server.address)], true);
    assert_eq!(fetched(dir)["bytes"], 6000);
}

#[test]
fn proxies_of_the_environment_are_honoured() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let proxy = FileServer::start(|request, _| file_answer(request, &file()));
    write_list(dir, &["http://files.invalid/numbers.txt".to_owned()], true);
    let told = document(fetch(dir).env("HTTP_PROXY", &proxy.address));
    assert_eq!(told["files"][0]["bytes"], 6000);
    assert_eq!(proxy.requests()[0].line, "GET http://files.invalid/numbers.txt HTTP/1.1");
}

#[test]
fn a_model_comes_from_the_hub() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let hub = FileServer::start(|request, _| {
        let path = request.line.split(' ').nth(1).unwrap();
        if path == "/api/models/org/tiny?blobs=true" {
            let weights = format!(
                r#"{{"rfilename": "model.safetensors", "size": 6000, "lfs": {{"sha256": "{DIGEST}", "size": 6000}}}}"#
            );
            let listed = format!(
                r#"{{"sha": "c0ffee", "siblings": [{{"rfilename": "config.json", "size": 2}}, {weights},
                    {{"rfilename": "pytorch_model.bin", "size": 9}}, {{"rfilename": "README.md", "size": 9}}]}}"#
            );
            return answer("200 OK", "Content-Type: application/json\r\n", listed.as_bytes());
        }
        match path {
            "/org/tiny/resolve/c0ffee/config.json" => answer("200 OK", "", b"{}"),
            "/org/tiny/resolve/c0ffee/model.safetensors" => file_answer(request, &file()),
            _ => answer("404 Not Found", "", b""),
        }
    });
    std::fs::write(dir.join("list.toml"), "[numbers]\npath = \"org/tiny\"\nrepository = \"org/tiny\"\n").unwrap();
    let environment = |mut command: Command| {
        command.env("HF_ENDPOINT", &hub.address).env("HF_TOKEN", "secret\n");
        document(&mut command)["files"][0].clone()
    };
    let told = environment(fetch(dir));
    assert_eq!((&told["was_there"], &told["bytes"]), (&false.into(), &6002.into()));
    assert_eq!(std::fs::read(dir.join("data/org/tiny/model.safetensors")).unwrap(), file());
    assert!(hub.requests().iter().all(|request| request.header("authorization") == Some("Bearer secret")));
    let told = environment(fetch(dir));
    assert_eq!((&told["was_there"], &told["bytes"]), (&true.into(), &0.into()));
    let verified = succeed(&mut hopeval(dir, &["data", "verify", "data", "--list", "list.toml"]));
    assert!(verified.contains("nothing is known to compare it with"), "{verified}");
    let weights = dir.join("data/org/tiny/model.safetensors");
    std::fs::rename(&weights, dir.join("data/org/tiny/model.safetensors.part")).unwrap();
    let (code, found, _) = verify(dir, "numbers");
    assert_eq!((code, &found["finding"]), (Some(2), &"incomplete".into()), "{found}");
    assert_eq!(found["remedy"], "`hopeval data fetch numbers --to data --list list.toml`");

    let message = failure_of(dir, fetch(dir).env("HF_ENDPOINT", &hub.address).env("HF_TOKEN", "sek ret"), 2);
    assert!(message.contains("HF_TOKEN is no token") && !message.contains("sek ret"), "{message}");
}

#[test]
fn an_archive_is_fetched_with_the_command_that_unpacks_it() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let server = FileServer::start(|request, _| file_answer(request, &file()));
    let list = format!(
        "[archive]\npath = \"set/a.tar\"\nfrom = [\"{}/a.tar\"]\n\
         [numbers]\npath = \"set/numbers.txt\"\narchive = \"archive\"\nunpack = \"tar -xf set/a.tar\"\n",
        server.address
    );
    std::fs::write(dir.join("list.toml"), list).unwrap();
    let told = fetched(dir);
    assert_eq!((&told["unpack"], &told["bytes"]), (&"tar -xf set/a.tar".into(), &6000.into()));
    let text = succeed(&mut hopeval(dir, &["data", "fetch", "numbers", "--to", "data", "--list", "list.toml"]));
    assert!(text.contains("is to be unpacked") && text.contains("to unpack, in data:\n  tar -xf set/a.tar"), "{text}");
}

/// A data folder that is right by `list.toml`: a file, and a corpus of three passages.
fn right_folder(dir: &Path) {
    std::fs::create_dir_all(dir.join("data/set")).unwrap();
    std::fs::write(dir.join("data/set/numbers.txt"), file()).unwrap();
    let passages = (0..3).map(|number| format!("{{\"title\": \"T{number}\", \"text\": \"text {number}\"}}\n"));
    std::fs::write(dir.join("data/set/corpus.jsonl"), passages.collect::<String>()).unwrap();
    write_list(dir, &["http://files.invalid/numbers.txt".to_owned()], true);
    let list = std::fs::read_to_string(dir.join("list.toml")).unwrap();
    let corpus = "[corpus]\npath = \"set/corpus.jsonl\"\nfrom = [\"http://files.invalid/corpus\"]\npassages = 3\n";
    std::fs::write(dir.join("list.toml"), list + corpus).unwrap();
}

/// The finding of a file, with exit code and document of `data verify`.
fn verify(dir: &Path, name: &str) -> (Option<i32>, Value, String) {
    let output = run(&mut hopeval(dir, &["data", "verify", "data", "--list", "list.toml", "--json"]));
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    let file = told["files"].as_array().unwrap().iter().find(|file| file["name"] == name).unwrap().clone();
    (output.status.code(), file, String::from_utf8(output.stderr).unwrap())
}

#[test]
fn verify_finds_a_missing_file_a_changed_byte_and_a_short_corpus() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    right_folder(dir);
    let (code, file_finding, _) = verify(dir, "numbers");
    assert_eq!((code, &file_finding["finding"]), (Some(0), &"same".into()));
    let (_, corpus, _) = verify(dir, "corpus");
    assert_eq!(
        (&corpus["finding"], &corpus["compared"]),
        (&"as_far_as_known".into(), &serde_json::json!(["passages"]))
    );

    let path = dir.join("data/set/numbers.txt");
    let mut changed = file();
    changed[4321] ^= 1;
    std::fs::write(&path, &changed).unwrap();
    let (code, found, message) = verify(dir, "numbers");
    assert_eq!((code, &found["finding"], &found["expected"]), (Some(2), &"digest".into(), &DIGEST.into()));
    assert!(message.contains("1 of 2 files"), "{message}");

    std::fs::remove_file(&path).unwrap();
    let (code, found, _) = verify(dir, "numbers");
    assert_eq!((code, &found["finding"]), (Some(2), &"missing".into()));
    assert_eq!(found["remedy"], "`hopeval data fetch numbers --to data --list list.toml`");

    let corpus = dir.join("data/set/corpus.jsonl");
    let text = std::fs::read_to_string(&corpus).unwrap();
    std::fs::write(&corpus, text.lines().take(2).collect::<Vec<_>>().join("\n")).unwrap();
    let (_, found, _) = verify(dir, "corpus");
    assert_eq!((&found["finding"], &found["found"], &found["expected"]), (&"count".into(), &2.into(), &3.into()));
    let text = run(&mut hopeval(dir, &["data", "verify", "data", "corpus", "--list", "list.toml"]));
    assert!(String::from_utf8(text.stdout).unwrap().contains("2 passages, and the list says 3"));

    let output = run(&mut hopeval(dir, &["data", "verify", "nowhere"]));
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn the_projects_own_list_is_told_with_what_is_unknown() {
    let dir = tempfile::tempdir().unwrap();
    let text = succeed(&mut hopeval(dir.path(), &["data", "list", "iirc"]));
    assert!(text.contains("| iirc-test ") && text.contains("iirc_test.json") && text.contains('–'), "{text}");
    let all = document(&mut hopeval(dir.path(), &["data", "list", "--json"]));
    assert_eq!(all["hotpotqa-dev-distractor"]["questions"], 7405);
    assert_eq!(all["t5-xl-lm-adapt"]["repository"], "google/t5-xl-lm-adapt");
    let output = run(&mut hopeval(dir.path(), &["data", "fetch", "hotpot"]));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && message.contains("allowed: 2wikimultihopqa, hotpotqa"), "{message}");
}
