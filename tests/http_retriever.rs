//! A retriever behind HTTP: the outcomes of the same rankings brought in as a file, whatever the server does meanwhile.

use crate::harness::{document, final_tables, hopeval, kill_after_commits, run, run_of, succeed};
use crate::ranking_server::{RankingRequest, RankingServer, ranking, reply};
use hopeval_results::tables::{FinalOutcomeRow, read_table};
use hopeval_results::{Store, layout};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

const KEY: &str = "retriever-key-0123456789";
const QUESTIONS: usize = 60;

/// Ids and scores, by query.
type QueryRankings = Arc<BTreeMap<String, Vec<(String, f64)>>>;

fn job(methods: &str) -> String {
    format!(
        "name = \"behind-http\"\n[dataset]\nquestions = \"world/questions.jsonl\"\n[corpus]\n\
         source = \"world/corpus.jsonl\"\n[run]\nchunk = 4\n{methods}"
    )
}

/// A service at `url`, and a method that asks it for `k` passages.
fn over_http(url: &str, more: &str) -> String {
    format!(
        "[service.theirs]\nkind = \"http_retriever\"\nurl = \"{url}\"\nindex = \"world 1\"\nkey_env = \"THEIR_KEY\"\n\
         first_pause_s = 0.01\nlongest_pause_s = 0.05\n{more}\n\
         [method.theirs]\nkind = \"one_step\"\nretriever = \"theirs\"\nk = 20\n"
    )
}

fn run_job(dir: &Path, store: &str, methods: &str) -> std::process::Command {
    std::fs::write(dir.join(format!("{store}.toml")), job(methods)).unwrap();
    let file = format!("{store}.toml");
    let mut command = hopeval(dir, &["run", &file, "--json", "--cache", "cache", "--store", store]);
    command.env("THEIR_KEY", KEY);
    command
}

fn outcomes(dir: &Path, store: &str, run: &str) -> Vec<FinalOutcomeRow> {
    let store = Store::open(dir.join(store).to_str().unwrap()).unwrap();
    read_table(&store, &layout::final_table(run, "outcomes")).unwrap()
}

/// A world, the rankings of hopeval's own BM25 for its questions by their texts, and `theirs.jsonl` with the same.
fn world_rankings(dir: &Path) -> QueryRankings {
    let (questions, seed) = (QUESTIONS.to_string(), "7");
    succeed(&mut hopeval(
        dir,
        &["world", "--questions", &questions, "--passages", "500", "--seed", seed, "--out", "world"],
    ));
    let own = "[service.bm25]\nkind = \"bm25\"\n[method.own]\nkind = \"one_step\"\nretriever = \"bm25\"\nk = 20\n";
    let own = document(&mut run_job(dir, "own", own));
    let text = std::fs::read_to_string(dir.join("world/questions.jsonl")).unwrap();
    let rows = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let texts: BTreeMap<String, String> =
        rows.map(|row| (row["id"].as_str().unwrap().to_owned(), row["text"].as_str().unwrap().to_owned())).collect();
    let (mut rankings, mut lines) = (BTreeMap::new(), String::new());
    for row in outcomes(dir, "own", run_of(&own)) {
        let scored: Vec<(String, f64)> =
            row.ranked_ids.iter().enumerate().map(|(rank, id)| (id.clone(), 20.5 - rank as f64)).collect();
        lines += &format!("{}\n", json!({ "id": row.question, "ranked": scored }));
        rankings.insert(texts[&row.question].clone(), scored);
    }
    std::fs::write(dir.join("theirs.jsonl"), lines).unwrap();
    assert!(rankings.len() > QUESTIONS / 2, "questions differ: {}", rankings.len());
    Arc::new(rankings)
}

/// The ranking for a request, as a good server answers it.
fn good_answer(rankings: &QueryRankings, request: &RankingRequest) -> Vec<u8> {
    assert!(request.head.starts_with("post /search http/1.1") && request.head.contains(KEY), "{}", request.head);
    let found = &rankings[request.body["query"].as_str().unwrap()];
    let wanted = request.body["k"].as_u64().unwrap() as usize;
    ranking(found.iter().take(wanted).map(|(id, score)| (id.as_str(), *score)))
}

/// The measures of a configuration, without its name.
fn figures(document: &Value, configuration: &str) -> BTreeMap<String, Value> {
    let rows = document["measures"].as_array().unwrap().iter();
    rows.filter(|row| row["configuration"] == configuration && !row["value"].is_null())
        .map(|row| (format!("{} {}", row["stratum"], row["measure"]), json!([row["value"], row["n"], row["low"]])))
        .collect()
}

/// The files below a folder that hold the key.
fn files_with_key(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files_with_key(&path));
        } else if std::fs::read(&path).unwrap().windows(KEY.len()).any(|bytes| bytes == KEY.as_bytes()) {
            found.push(path.display().to_string());
        }
    }
    found
}

const BESIDE: &str = "[method.file]\nkind = \"rankings\"\nfile = \"theirs.jsonl\"\n";

#[test]
fn outcomes_are_those_of_the_rankings_brought_as_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let rankings = world_rankings(dir);
    let served = Arc::clone(&rankings);
    let server = RankingServer::start(move |request, _| good_answer(&served, request));
    let methods = [&over_http(&server.url, ""), BESIDE].concat();
    let found = document(&mut run_job(dir, "good", &methods));
    let (theirs, file) = (figures(&found, "theirs"), figures(&found, "file"));
    assert!(theirs.len() > 20, "{}", theirs.len());
    assert_eq!(theirs, file, "the same rankings have the same figures");
    assert_eq!(server.requests().len(), rankings.len(), "each query is asked once");
    let ranked = |name: &str| -> Vec<Vec<String>> {
        let rows = outcomes(dir, "good", run_of(&found)).into_iter();
        rows.filter(|row| row.configuration == name).map(|row| row.ranked_ids).collect()
    };
    assert_eq!(ranked("theirs"), ranked("file"));
    let tables = final_tables(&dir.join("good"), run_of(&found));

    // Another address, with its faults: the journal answers, and nothing is sent.
    let silent = over_http("http://127.0.0.1:9/", "");
    let again = document(&mut run_job(dir, "good", &[&silent, BESIDE].concat()));
    assert!(final_tables(&dir.join("good"), run_of(&again)) == tables);

    // Refusals, errors, cut bodies and nonsense now and then: the same tables.
    let served = Arc::clone(&rankings);
    let faulty = RankingServer::start(move |request, number| match number % 9 {
        1 => reply("503 Service Unavailable", "busy"),
        3 => reply("429 Too Many Requests\r\nretry-after: 0", "{\"error\": \"slower\"}"),
        5 => b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"results\": [".to_vec(),
        7 => reply("200 OK\r\ncontent-type: text/html", "<html>a proxy</html>"),
        _ => good_answer(&served, request),
    });
    let methods = [&over_http(&faulty.url, "attempts = 20"), BESIDE].concat();
    let mended = document(&mut run_job(dir, "faulty", &methods));
    assert!(final_tables(&dir.join("faulty"), run_of(&mended)) == tables, "faults leave no trace");
    assert!(faulty.requests().len() > rankings.len());
    assert_eq!(files_with_key(dir), Vec::<String>::new());
}

#[test]
fn a_kill_and_a_resume_repeat_no_journalled_answer() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let rankings = world_rankings(dir);
    let served = Arc::clone(&rankings);
    // One at a time: whatever is journalled was asked once. Only the request in flight at the kill may come again.
    let slow = RankingServer::start(move |request, _| {
        std::thread::sleep(std::time::Duration::from_millis(120));
        good_answer(&served, request)
    });
    let methods = [&over_http(&slow.url, "concurrency = 1"), BESIDE].concat();
    let whole = document(&mut run_job(dir, "whole", &methods));
    let tables = final_tables(&dir.join("whole"), run_of(&whole));
    let before = slow.requests().len();
    assert_eq!(before, rankings.len());
    kill_after_commits(&mut run_job(dir, "killed", &methods), &dir.join("killed"));
    let killed = slow.requests().len() - before;
    assert!(killed < rankings.len(), "it was killed on its way");
    let mut resume = hopeval(dir, &["resume", "latest", "--json", "--cache", "cache", "--store", "killed"]);
    let resumed = document(resume.env("THEIR_KEY", KEY));
    assert!(final_tables(&dir.join("killed"), run_of(&resumed)) == tables, "killed and resumed");
    let asked = slow.requests().len() - before;
    // An answer is journalled within a second: eight requests of 0.12 s, and the one in flight.
    assert!(asked <= rankings.len() + 9, "{asked} requests for {} queries", rankings.len());
    // A third run asks nothing: no answer was lost.
    document(&mut run_job(dir, "killed", &methods));
    assert_eq!(slow.requests().len() - before, asked);
}

#[test]
fn lying_servers_fail_their_questions_for_this_run_alone() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let rankings = world_rankings(dir);
    let lie = |body: &'static str| RankingServer::start(move |_, _| reply("200 OK", body));
    let cases = [
        ("unknown", r#"{"results":[{"id":"no passage","score":1}]}"#, "field `results[0].id`: found `no passage`"),
        ("number", r#"{"results": [{"id": "a", "score": NaN}]}"#, "field `results[..].score`: found NaN"),
        ("rising", r#"{"results":[{"id":"a","score":1},{"id":"b","score":2}]}"#, "field `results[1].score`: found 2"),
        ("shape", r#"{"hits":[]}"#, "field `results`: found nothing"),
    ];
    for (store, body, says) in cases {
        let server = lie(body);
        let methods = over_http(&server.url, "attempts = 1") + "[dataset.draw]\nquestions = 2\n";
        let ended = run(&mut run_job(dir, store, &methods));
        assert_eq!(ended.status.code(), Some(1), "{store}: {}", String::from_utf8_lossy(&ended.stderr));
        let found: Value = serde_json::from_slice(&ended.stdout).unwrap();
        let rows = outcomes(dir, store, run_of(&found));
        assert_eq!(rows.len(), 2);
        for row in rows {
            let text = format!("{row:?}");
            assert!(text.contains(says), "{store}: {text}");
        }
    }
    // A server that is well again is asked again: failures are not kept.
    let served = Arc::clone(&rankings);
    let good = RankingServer::start(move |request, _| good_answer(&served, request));
    let methods = over_http(&good.url, "") + "[dataset.draw]\nquestions = 2\n";
    document(&mut run_job(dir, "unknown", &methods));
    assert_eq!(good.requests().len(), 2);
}

#[test]
fn a_wrong_address_ends_the_run_and_an_outage_is_resumable() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    world_rankings(dir);
    for (store, status, code, says) in [
        ("absent", "404 Not Found", 2, "has no such model or path"),
        ("locked", "401 Unauthorized", 2, "does not take the key"),
        ("moved", "301 Moved Permanently\r\nlocation: /other", 2, "has no such model or path"),
        ("down", "503 Service Unavailable", 75, "hopeval resume"),
    ] {
        let server = RankingServer::start(move |_, _| reply(status, KEY));
        let ended = run(&mut run_job(dir, store, &over_http(&server.url, "patience_s = 0.5")));
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(code), "{store}: {said}");
        assert!(said.contains(says) && said.contains("service.theirs") && !said.contains(KEY), "{store}: {said}");
    }
    // Nothing listens there; a plan asks nothing.
    let methods = over_http("http://127.0.0.1:9/search", "patience_s = 0.5");
    let ended = run(&mut run_job(dir, "refused", &methods));
    assert_eq!(ended.status.code(), Some(75), "{}", String::from_utf8_lossy(&ended.stderr));
    succeed(&mut hopeval(dir, &["plan", "refused.toml", "--cache", "cache", "--store", "planned"]));
    let mut keyless = run_job(dir, "keyless", &methods);
    let ended = run(keyless.env_remove("THEIR_KEY"));
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.code() == Some(2) && said.contains("THEIR_KEY"), "{said}");
}
