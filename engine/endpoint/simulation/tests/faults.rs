//! Every fault does what its name says; limits, keys and the log.

#[path = "support/http.rs"]
mod http;
#[path = "support/prompts.rs"]
#[expect(dead_code, reason = "the other test compares answers with those of the questions")]
mod prompts;

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use hopeval_simulated_llm::{CallOutcome, FAULTS, FaultKind, LogEntry, SimulatedServer, SimulationSettings};
use http::{HttpReply, get, post};
use prompts::{chat, gold_prompts, with};
use serde_json::{Value, json};

const CHAT: &str = "/v1/chat/completions";

fn start(toml: &str) -> SimulatedServer {
    let settings = SimulationSettings::parse(toml, &[]).expect("settings");
    SimulatedServer::start(settings).expect("a server")
}

fn ask(server: &SimulatedServer, body: &Value) -> io::Result<HttpReply> {
    post(server.address(), CHAT, &[], &body.to_string())
}

/// Asks again until there is a reply: the port may be closed for a while.
fn ask_until(server: &SimulatedServer, body: &Value) -> HttpReply {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        match ask(server, body) {
            Ok(reply) => return reply,
            Err(error) => assert!(Instant::now() < until, "{error}"),
        }
        std::thread::yield_now();
    }
}

/// A server whose calls all fail once for each body.
fn failing(kind: FaultKind) -> SimulatedServer {
    let name = kind.row().name;
    start(&format!(
        "[faults]\nper_body = 1\nrates.{name} = 1.0\nrefused_ms = 1000\nstall_ms = 300\ndrip_bytes = 16\ndrip_ms = 5"
    ))
}

#[test]
fn every_fault_does_what_its_name_says() {
    let prompt = format!("Answer step by step.\n\n{}", gold_prompts(1)[0].prompt);
    let body = with(chat(&prompt), json!({"n": 2}));
    let plain = ask(&start(""), &body).expect("a reply");
    for row in FAULTS {
        let server = failing(row.kind);
        let begun = Instant::now();
        let reply = ask(&server, &body);
        let took = begun.elapsed();
        check_fault(row.kind, reply, took, &plain, server.address());
        let logged = server.log();
        assert_eq!((logged.len(), logged[0].fault, logged[0].attempt), (1, Some(row.kind), 1), "{}", row.name);
        // The body failed once: now it is answered as without faults.
        let again = ask_until(&server, &body);
        assert_eq!((again.status, &again.body), (200, &plain.body), "{}", row.name);
        let summary = server.summary();
        let reached = u64::from(server.log()[0].outcome == CallOutcome::Answered);
        assert_eq!((summary.answered, summary.repeated_answers, summary.failed), (1 + reached, reached, 1 - reached));
    }
}

fn check_fault(kind: FaultKind, reply: io::Result<HttpReply>, took: Duration, plain: &HttpReply, address: SocketAddr) {
    let name = kind.row().name;
    if let FaultKind::Refused | FaultKind::ResetBeforeHeaders = kind {
        let error = reply.expect_err(name).kind();
        assert_eq!(error, io::ErrorKind::ConnectionReset, "{name}");
        if kind == FaultKind::Refused {
            // The reset may come before the port is closed, and a call that comes while it closes is reset, too.
            let mut errors = std::iter::repeat_with(|| TcpStream::connect(address)).filter_map(Result::err);
            let closed = errors.find(|error| error.kind() != io::ErrorKind::ConnectionReset);
            assert_eq!(closed.map(|error| error.kind()), Some(io::ErrorKind::ConnectionRefused));
        }
        return;
    }
    let reply = reply.expect(name);
    assert_eq!(reply.status, kind.row().status, "{name}");
    let half = plain.body.len() / 2;
    let error = reply.json()["error"].clone();
    let choice = &reply.json()["choices"][0];
    let is_short = reply.body == plain.body[..half];
    match kind {
        FaultKind::LimitSeconds => assert_eq!(reply.header("retry-after"), Some("1")),
        FaultKind::LimitDate => assert!(reply.header("retry-after").is_some_and(|date| date.ends_with(" gmt"))),
        FaultKind::LimitBare => assert_eq!(reply.header("retry-after"), None),
        FaultKind::BadGateway | FaultKind::HtmlPage => assert!(reply.text().starts_with("<html>")),
        FaultKind::ResetAfterHeaders => assert!(reply.is_reset && !reply.is_complete, "{reply:?}"),
        FaultKind::CutBody => assert!(is_short && !reply.is_reset && !reply.is_complete, "{reply:?}"),
        FaultKind::BadJson => assert!(is_short && reply.is_complete, "{reply:?}"),
        FaultKind::NoChoices => assert_eq!(reply.json()["choices"], json!([])),
        FaultKind::NullContent => assert_eq!(choice["message"]["content"], Value::Null),
        FaultKind::FewerChoices => assert_eq!(reply.json()["choices"].as_array().map(Vec::len), Some(1)),
        FaultKind::ContentFilter => assert_eq!(choice["finish_reason"], "content_filter"),
        FaultKind::Length => assert_eq!(choice["finish_reason"], "length"),
        FaultKind::StallBeforeHeaders | FaultKind::StallInBody => {
            assert!(took >= Duration::from_millis(300) && reply.body == plain.body, "{name}: {took:?}");
        }
        FaultKind::Drip => {
            let pieces = plain.body.len() as u32 / 16 - 1;
            assert!(took >= Duration::from_millis(5) * pieces && reply.body == plain.body, "{took:?}");
        }
        FaultKind::OverflowOpenai => assert_eq!(error["code"], "context_length_exceeded"),
        FaultKind::OverflowVllm => assert_eq!(error["param"], "input_tokens"),
        FaultKind::OverflowLlamaCpp => assert_eq!(error["type"], "exceed_context_size_error"),
        FaultKind::OverflowTgi => assert_eq!(reply.json()["error_type"], "validation"),
        FaultKind::WrongModel => assert_eq!(reply.json()["model"], "simulated-llm-other"),
        FaultKind::QuotaUsedUp => assert_eq!(error["code"], "insufficient_quota"),
        FaultKind::NotFound => assert_eq!(error["code"], "model_not_found"),
        _ => assert!(error.is_object(), "{name}: {}", reply.text()),
    }
}

#[test]
fn a_stream_is_cut_within_an_event() {
    let server = failing(FaultKind::CutBody);
    let body = with(chat(&gold_prompts(1)[0].prompt), json!({"stream": true}));
    let reply = ask(&server, &body).expect("a reply");
    assert!(!reply.is_complete && !reply.text().contains("[DONE]"));
}

#[test]
fn faults_are_drawn_by_body_and_attempt() {
    let toml = "[faults]\nrate = 0.2\nkinds = ['internal_error', 'overloaded', 'bad_json']\nper_body = 3";
    let prompts = gold_prompts(150);
    // A question may come twice.
    let different = prompts.iter().map(|asked| asked.prompt.as_str()).collect::<BTreeSet<_>>().len() as u64;
    let run = || -> Vec<(String, u64, Option<FaultKind>)> {
        let server = start(toml);
        for asked in &prompts {
            while ask(&server, &chat(&asked.prompt)).is_ok_and(|reply| reply.json()["choices"].is_null()) {}
        }
        let summary = server.summary();
        assert_eq!((summary.answered_bodies, summary.repeated_answers), (different, 150 - different));
        assert_eq!(summary.calls, summary.answered + summary.failed);
        server.log().into_iter().map(|entry| (entry.body, entry.attempt, entry.fault)).collect()
    };
    let (first, second) = (run(), run());
    assert_eq!(first, second);
    let failed = first.iter().filter(|(_, _, fault)| fault.is_some()).count();
    assert!((20..=60).contains(&failed), "{failed} of {}", first.len());
}

#[test]
fn a_schedule_closes_the_port() {
    let until = Instant::now() + Duration::from_secs(2);
    let server = start("faults.schedule = [{ from_s = 0.0, to_s = 2.0, kind = 'refused' }]");
    // The port closes within one look at the schedule.
    while TcpStream::connect(server.address()).is_ok() {
        assert!(Instant::now() < until, "the port never closed");
    }
    assert_eq!(ask(&server, &chat("Hello?")).expect_err("a closed port").kind(), io::ErrorKind::ConnectionRefused);
    let reply = ask_until(&server, &chat("Hello?"));
    assert!(reply.status == 200 && Instant::now() >= until);
}

#[test]
fn context_overflow_has_four_dialects() {
    let body = with(chat(&"word ".repeat(200)), json!({"max_tokens": 10}));
    for (dialect, status, pointer, wanted) in [
        ("openai", 400, "/error/code", json!("context_length_exceeded")),
        ("vllm", 400, "/error/param", json!("input_tokens")),
        ("llama_cpp", 400, "/error/n_ctx", json!(100)),
        ("tgi", 422, "/error_type", json!("validation")),
    ] {
        let server = start(&format!("context_tokens = 100\noverflow = '{dialect}'"));
        let reply = ask(&server, &body).expect("a reply");
        assert_eq!((reply.status, reply.json().pointer(pointer)), (status, Some(&wanted)), "{dialect}");
        assert_eq!(server.log()[0].outcome, CallOutcome::Refused);
    }
}

#[test]
fn limits_are_enforced_and_shown() {
    let server = start("limits = { requests_per_minute = 12, burst_s = 10.0, tokens_per_minute = 1000000 }");
    let replies: Vec<HttpReply> = (0..3).map(|n| ask(&server, &chat(&format!("{n}?"))).expect("a reply")).collect();
    assert_eq!(replies.iter().map(|reply| reply.status).collect::<Vec<_>>(), [200, 200, 429]);
    assert_eq!(replies[0].header("x-ratelimit-limit-requests"), Some("12"));
    assert_eq!(replies[0].header("x-ratelimit-remaining-requests"), Some("1"));
    let wait: Option<u64> = replies[2].header("retry-after").and_then(|seconds| seconds.parse().ok());
    assert!(wait.is_some_and(|seconds| (1..=5).contains(&seconds)), "{wait:?}");
    let summary = server.summary();
    assert_eq!((summary.answered, summary.limited), (2, 1));

    let server = start("price.output = 1000000.0\nlimits.quota_money = 0.5");
    assert_eq!(ask(&server, &chat("Is it so?")).expect("a reply").status, 200);
    let reply = ask(&server, &chat("Is it so?")).expect("a reply");
    assert_eq!((reply.status, &reply.json()["error"]["type"]), (429, &json!("insufficient_quota")));
}

#[test]
fn calls_at_the_same_time_are_counted_and_bounded() {
    let server = start("limits.concurrency = 2\nlatency.first_ms = 1500.0");
    let address = server.address();
    let calls: Vec<_> = (0..4)
        .map(|n| {
            let body = chat(&format!("{n}?")).to_string();
            std::thread::spawn(move || post(address, CHAT, &[], &body).map(|reply| reply.status).unwrap_or(0))
        })
        .collect();
    let mut statuses: Vec<u16> = calls.into_iter().map(|call| call.join().expect("a call")).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 200, 429, 429]);
    assert!((2..=4).contains(&server.summary().peak_in_flight));
}

#[test]
fn slots_make_calls_wait() {
    let server = start("limits.slots = 1\nlatency.first_ms = 150.0");
    let address = server.address();
    let begun = Instant::now();
    let calls: Vec<_> = (0..3)
        .map(|n| {
            let body = chat(&format!("{n}?")).to_string();
            std::thread::spawn(move || post(address, CHAT, &[], &body).map(|reply| reply.status).unwrap_or(0))
        })
        .collect();
    assert!(calls.into_iter().all(|call| call.join().is_ok_and(|status| status == 200)));
    assert!(begun.elapsed() >= Duration::from_millis(450));
}

#[test]
fn a_caller_who_leaves_is_noted_and_billed() {
    let server = start("latency.first_ms = 60000.0\nprice.request = 1.0");
    let body = chat("Hello?").to_string();
    let mut stream = TcpStream::connect(server.address()).expect("a connection");
    let length = body.len();
    io::Write::write_all(
        &mut stream,
        format!("POST {CHAT} HTTP/1.1\r\nhost: simulation\r\ncontent-length: {length}\r\n\r\n{body}").as_bytes(),
    )
    .expect("a request");
    let wait = |done: &dyn Fn() -> bool| {
        let until = Instant::now() + Duration::from_secs(10);
        while !done() {
            assert!(Instant::now() < until);
            std::thread::yield_now();
        }
    };
    wait(&|| server.summary().in_flight == 1);
    // The answer is computed as soon as the call is open.
    wait(&|| get(server.address(), "/simulation/summary").is_ok());
    drop(stream);
    wait(&|| server.summary().callers_gone == 1);
    assert_eq!((server.summary().in_flight, server.summary().money), (0, 1.0));
}

#[test]
fn keys_are_needed_and_never_shown() {
    let server = start("api_key = 'sk-simulated-secret'");
    let body = chat("Hello?").to_string();
    let status = |headers: &[&str]| post(server.address(), CHAT, headers, &body).expect("a reply").status;
    assert_eq!(status(&[]), 401);
    assert_eq!(status(&["authorization: Bearer wrong"]), 401);
    assert_eq!(status(&["authorization: Bearer sk-simulated-secret"]), 200);
    assert_eq!(status(&["api-key: sk-simulated-secret"]), 200);
    assert_eq!(get(server.address(), "/v1/models").expect("a reply").status, 401);
    for path in ["/simulation/settings", "/simulation/log", "/simulation/summary"] {
        assert!(!get(server.address(), path).expect("a reply").text().contains("secret"), "{path}");
    }
}

#[test]
fn settings_are_changed_over_http() {
    let server = start("");
    let change = json!({"faults": {"rates": {"unavailable": 1.0}}}).to_string();
    let reply = post(server.address(), "/simulation/settings", &[], &change).expect("a reply");
    assert_eq!((reply.status, &reply.json()["faults"]["rates"]["unavailable"]), (200, &json!(1.0)));
    assert_eq!(ask(&server, &chat("Hello?")).expect("a reply").status, 503);
    let bad = post(server.address(), "/simulation/settings", &[], "{\"sed\": 1}").expect("a reply");
    assert!(bad.status == 400 && bad.text().contains("unknown field `sed`"), "{}", bad.text());
    let summary = get(server.address(), "/simulation/summary").expect("a reply").json();
    assert_eq!((&summary["simulated"], &summary["faults"]["unavailable"]), (&json!(true), &json!(1)));
}

#[test]
fn the_log_file_has_every_call() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("log.jsonl");
    let file = OpenOptions::new().create(true).append(true).open(&path).expect("a file");
    let settings = SimulationSettings::parse("log.entries = 1\nfaults.rates.overloaded = 0.5", &[]).expect("settings");
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let server = SimulatedServer::start_at(settings, address, Some(file)).expect("a server");
    for asked in gold_prompts(20) {
        ask(&server, &chat(&asked.prompt)).expect("a reply");
    }
    let (summary, log): (_, Vec<LogEntry>) = (server.summary(), server.log());
    assert_eq!((log.len(), summary.dropped_entries), (1, 19));
    let text = std::fs::read_to_string(&path).expect("a log");
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines.len(), 20);
    let failed = lines.iter().filter(|line| line["fault"] == "overloaded" && line["status"] == 529).count() as u64;
    assert!(failed > 0 && failed == summary.failed);
    let body = chat(&gold_prompts(1)[0].prompt).to_string();
    assert_eq!(lines[0]["body"], blake3::hash(body.as_bytes()).to_hex().as_str());
}
