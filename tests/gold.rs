//! Edits of gold: `gold apply` on a finished, an interrupted and a running run ends in the tables of a fresh run on the
//! edited file. Meanwhile `show` agrees with `rescore`.

use crate::harness::{
    LIMIT, METHODS_WITHOUT_MODELS, document, every_method, file_job, final_tables, hopeval, run, run_of, shared,
    succeed, wait_for,
};
use flate2::read::MultiGzDecoder;
use hopeval_results::{Log, Store, layout};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// A measure's value, standard error, questions and coverage.
type Row = (Option<f64>, Option<f64>, u64, Option<f64>);

/// A world's questions and corpus below `dir`, and a job over them with small cohorts.
fn world(dir: &Path, questions: &str, passages: &str) -> (Vec<Value>, PathBuf) {
    let sizes = ["--questions", questions, "--passages", passages, "--seed", "3"];
    succeed(&mut hopeval(dir, &[&["world", "--out", "world"], &sizes[..]].concat()));
    let text = std::fs::read_to_string(dir.join("world/questions.jsonl")).unwrap();
    let rows = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (rows, world_job(dir, "job", "questions.jsonl"))
}

fn world_job(dir: &Path, name: &str, questions: &str) -> PathBuf {
    world_job_under(METHODS_WITHOUT_MODELS, dir, name, questions)
}

fn world_job_under(methods: &str, dir: &Path, name: &str, questions: &str) -> PathBuf {
    let failed = if methods == METHODS_WITHOUT_MODELS { 0.0 } else { 1.0 };
    let rest = format!("{methods}[run]\nchunk = 20\nin_flight = 20\nallowed_failed = {failed:?}\n");
    let world = dir.join("world");
    file_job(dir, name, "world", &world.join(questions), &world.join("corpus.jsonl"), &rest)
}

/// Edits every seventh question, the first and the last among them, each in another way, and returns the edited ones.
fn edit_world(rows: &mut [Value]) -> Vec<usize> {
    let last = rows.len() - 1;
    let edited: Vec<usize> = (0..rows.len()).filter(|index| index % 7 == 0 || *index == last).collect();
    for (turn, &index) in edited.iter().enumerate() {
        let row = &mut rows[index];
        match turn % 4 {
            0 => row["answers"] = json!(["Nobody Inparticular", "N. Inparticular"]),
            1 => {
                // Another of the candidates is gold instead of the first hop.
                let gold: Vec<Value> = row["gold"].as_array().unwrap().iter().map(|gold| gold["id"].clone()).collect();
                let candidates = row["candidates"].as_array().unwrap();
                let other = candidates.iter().find(|candidate| !gold.contains(&candidate["id"])).unwrap();
                row["gold"][0] = json!({"id": other["id"], "title": other["title"]});
            }
            2 => row["supporting_facts"][0][1] = json!(0),
            _ => row["evidences"][0][1] = json!("sibling"),
        }
    }
    edited
}

fn write_lines<'a>(path: &Path, rows: impl IntoIterator<Item = &'a Value>) {
    let lines: Vec<String> = rows.into_iter().map(Value::to_string).collect();
    std::fs::write(path, lines.join("\n") + "\n").unwrap();
}

/// The arguments shared by every command of a test: one cache, and this store.
fn at<'a>(arguments: &[&'a str], store: &'a str) -> Vec<&'a str> {
    [arguments, &["--cache", "cache", "--store", store]].concat()
}

fn run_job(dir: &Path, job: &Path, store: &str, more: &[&str]) -> (String, Vec<Vec<u8>>) {
    let arguments = [&["run", job.to_str().unwrap(), "--json"], more].concat();
    let found = document(&mut hopeval(dir, &at(&arguments, store)));
    let id = run_of(&found).to_owned();
    let tables = final_tables(&dir.join(store), &id);
    (id, tables)
}

fn apply(dir: &Path, store: &str, file: &str) -> String {
    let output = run(&mut hopeval(dir, &at(&["gold", "apply", "last", file], store)));
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8(said).unwrap();
    assert!(output.status.success(), "{said}");
    said
}

/// The run's tables are now the expected ones, and differ from what they were.
fn became(dir: &Path, store: &str, id: &str, before: &[Vec<u8>], expected: &[Vec<u8>]) {
    let now = final_tables(&dir.join(store), id);
    for (n, name) in ["outcomes", "scores", "measures"].iter().enumerate() {
        assert!(now[n] == expected[n], "{name} are not those of a fresh run on the edited file");
        assert!(now[n] != before[n], "the edit changes {name}");
    }
}

#[test]
fn edits_of_a_finished_run_end_in_the_tables_of_a_fresh_one() {
    edits_end_in_the_tables_of_a_fresh_run(METHODS_WITHOUT_MODELS, "200", "1500");
}

#[test]
fn edits_under_every_method_end_in_the_tables_of_a_fresh_run() {
    edits_end_in_the_tables_of_a_fresh_run(&every_method(), "40", "400");
}

fn edits_end_in_the_tables_of_a_fresh_run(methods: &str, questions: &str, passages: &str) {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (mut rows, _) = world(dir, questions, passages);
    let job = world_job_under(methods, dir, "job", "questions.jsonl");
    let (id, before) = run_job(dir, &job, "store", &["--workers", "2"]);
    let edited = edit_world(&mut rows);
    write_lines(&dir.join("world/edited.jsonl"), &rows);
    let fresh = world_job_under(methods, dir, "edited", "edited.jsonl");
    let (_, expected) = run_job(dir, &fresh, "fresh", &["--workers", "1"]);

    // Only the edited questions, in another order than the dataset's.
    write_lines(&dir.join("some.jsonl"), edited.iter().rev().map(|&index| &rows[index]));
    // A killed `gold apply` has left its file.
    let left = dir.join("store/runs").join(&id).join("gold/000001.jsonl#7");
    std::fs::create_dir_all(left.parent().unwrap()).unwrap();
    std::fs::write(&left, "{").unwrap();
    let said = apply(dir, "store", "some.jsonl");
    assert!(said.contains(&format!("gold of {} changed", edited.len())), "{said}");
    assert!(!left.exists(), "an edit clears what others of its number left");
    became(dir, "store", &id, &before, &expected);

    // Applied twice, by a part of the file or by all of it, nothing changes.
    let log = |dir: &Path| std::fs::read_dir(dir.join("store/runs").join(&id).join("log")).unwrap().count();
    let records = log(dir);
    for file in ["some.jsonl", "world/edited.jsonl"] {
        let said = apply(dir, "store", file);
        assert!(said.contains("gold of 0 changed"), "{said}");
        became(dir, "store", &id, &before, &expected);
    }
    assert_eq!(log(dir), records, "an edit that changes nothing leaves no record");
    let shown = document(&mut hopeval(dir, &at(&["show", &id, "--json"], "store")));
    let rescored = document(&mut hopeval(dir, &at(&["rescore", &id, "--json"], "store")));
    assert_eq!(shown["measures"], rescored["measures"], "a finished run shows its tables");

    // And the way back: the old gold gives the old tables.
    apply(dir, "store", "world/questions.jsonl");
    assert!(final_tables(&dir.join("store"), &id) == before, "the old gold gives the old tables");
}

#[test]
fn what_is_more_than_gold_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (rows, job) = world(dir, "40", "600");
    let (id, before) = run_job(dir, &job, "store", &[]);
    let refused = |row: &Value, words: &[&str]| {
        write_lines(&dir.join("wrong.jsonl"), [row]);
        let output = run(&mut hopeval(dir, &at(&["gold", "apply", "last", "wrong.jsonl"], "store")));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        for word in words {
            assert!(said.contains(word), "`{word}` is not in: {said}");
        }
        assert!(final_tables(&dir.join("store"), &id) == before, "a refused edit leaves the tables alone");
    };
    let question = rows[5]["id"].as_str().unwrap();
    let with = |field: &str, value: Value| {
        let mut row = rows[5].clone();
        row[field] = value;
        row
    };
    refused(&with("text", json!("Another question?")), &[question, "text", "new run"]);
    let mut bare = with("candidates", json!([]));
    bare["decomposition"] = json!([]);
    refused(&bare, &[question, "candidates", "new run"]);
    // The message names the group of the means that would change, with its new and its old value.
    let (kind, hops) = (rows[5]["kind"].as_str().unwrap(), &rows[5]["hops"]);
    let other = |what: String| format!("question `{question}` has another {what}; that needs a new run");
    let hops = other(format!("number of hops or of gold passages, 9 instead of {hops}"));
    refused(&with("hops", json!(9)), &[&hops]);
    refused(&with("kind", json!("riddle")), &[&other(format!("type, riddle instead of {kind}"))]);
    refused(&with("kind", Value::Null), &[&other(format!("type, none instead of {kind}"))]);
    let strata = rows[5]["strata"].as_object().unwrap().iter();
    let strata: Vec<String> = strata.map(|(name, value)| format!("{name}={}", value.as_str().unwrap())).collect();
    let strata = other(format!("set of strata, place=moon instead of {}", strata.join(" ")));
    refused(&with("strata", json!({"place": "moon"})), &[&strata]);
    refused(&with("gold", json!([{"id": "no-such-passage"}])), &[question, "no-such-passage", "not in the corpus"]);
    refused(&with("id", json!("nobody")), &["none of its questions"]);
    refused(&with("answers", json!(7)), &["wrong.jsonl", "answers"]);
}

#[test]
fn edits_of_hotpotqa_end_in_the_tables_of_a_fresh_run() {
    let Some(shared) = shared("edits of HotpotQA") else { return };
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let data = shared.join("data/hotpotqa");
    let (questions, corpus) = (data.join("dev_1267.json.gz"), data.join("corpus.jsonl.gz"));
    let mut rows: Vec<Value> =
        serde_json::from_reader(MultiGzDecoder::new(std::fs::File::open(&questions).unwrap())).unwrap();
    rows.truncate(300);
    for (turn, row) in rows.iter_mut().step_by(11).enumerate() {
        match turn % 3 {
            0 => row["answer"] = json!("no"),
            1 => {
                // Another title of the context takes the place of the first fact's.
                let facts = row["supporting_facts"].as_array_mut().unwrap();
                let old = facts[0][0].clone();
                let known: Vec<Value> = facts.iter().map(|fact| fact[0].clone()).collect();
                let context = row["context"].as_array().unwrap();
                let other = context.iter().map(|passage| &passage[0]).find(|title| !known.contains(title));
                let other = other.unwrap().clone();
                for fact in row["supporting_facts"].as_array_mut().unwrap().iter_mut().filter(|fact| fact[0] == old) {
                    fact[0] = other.clone();
                }
            }
            _ => {
                let fact = &mut row["supporting_facts"][0][1];
                *fact = json!(fact.as_u64().unwrap() + 1);
            }
        }
    }
    let edited = dir.join("edited.json");
    std::fs::write(&edited, Value::from(rows).to_string()).unwrap();
    let job = file_job(dir, "job", "hotpotqa", &questions, &corpus, METHODS_WITHOUT_MODELS);
    let fresh = file_job(dir, "fresh", "hotpotqa", &edited, &corpus, METHODS_WITHOUT_MODELS);
    let (id, before) = run_job(dir, &job, "store", &["--limit", "300", "--workers", "2"]);
    let (_, expected) = run_job(dir, &fresh, "fresh", &["--workers", "2"]);
    apply(dir, "store", "edited.json");
    became(dir, "store", &id, &before, &expected);
}

#[test]
fn edits_count_in_the_order_of_their_records() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (mut rows, job) = world(dir, "100", "1000");
    let (id, before) = run_job(dir, &job, "store", &[]);
    let (twin, _) = run_job(dir, &job, "twin", &[]);
    let edited = edit_world(&mut rows);
    write_lines(&dir.join("world/edited.jsonl"), &rows);
    let (_, expected) = run_job(dir, &world_job(dir, "edited", "edited.jsonl"), "fresh", &[]);
    let (slow, quick) = edited.split_at(edited.len() / 2);
    write_lines(&dir.join("slow.jsonl"), slow.iter().map(|&index| &rows[index]));
    // Both edit one question, each in another way: the edit recorded last counts.
    let mut both = rows[slow[0]].clone();
    both["answers"] = json!(["Somebody Else"]);
    write_lines(&dir.join("quick.jsonl"), quick.iter().map(|&index| &rows[index]).chain([&both]));

    // Somebody takes the first number, and is stopped before the log has the edit; another takes the second.
    apply(dir, "twin", "slow.jsonl");
    let lines = std::fs::read(dir.join("twin").join(layout::gold_edit(&twin, 1))).unwrap();
    let store = Store::open(dir.join("store").to_str().unwrap()).unwrap();
    let first = layout::gold_edit(&id, 1);
    assert!(store.put_if_absent(&first, lines.into()).unwrap());
    apply(dir, "store", "quick.jsonl");
    let mut log = Log::open(&store, &id).unwrap();
    assert_eq!(log.state().finished.as_ref().unwrap().gold_edit, 2);
    log.append_gold("slow", 1, &first, None).unwrap();
    assert!(log.state().lacks_gold());

    let said = apply(dir, "store", "slow.jsonl");
    assert!(said.contains("gold of 0 changed"), "{said}");
    became(dir, "store", &id, &before, &expected);
}

/// A run in the background.
struct Running {
    child: Child,
    dir: PathBuf,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    /// Starts `job` in `store` and waits for its first commits.
    fn start(dir: &Path, job: &Path, store: &str) -> Self {
        let mut command = hopeval(dir, &at(&["run", job.to_str().unwrap(), "--workers", "2"], store));
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let mut running = Self { child, dir: dir.to_owned() };
        wait_for("commit to look at", || {
            assert!(running.child.try_wait().unwrap().is_none(), "the run ended before anything could be looked at");
            (commits(&dir.join(store)) >= 3).then_some(())
        });
        running
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    /// Halts the run again and again until `show` and `rescore` speak of the same commits, compares them then, and
    /// lets it go on. Halted between a commit and its live table, they do not.
    fn shows_what_rescoring_gives(&mut self, store: &str) {
        let begun = Instant::now();
        loop {
            self.signal(Signal::SIGSTOP);
            let (shown, rescored) = shown_and_rescored(&self.dir, store);
            assert_eq!(shown["finished"], false, "the run is over before it was looked at");
            self.signal(Signal::SIGCONT);
            if shown["outcomes"] == rescored["outcomes"] && differences(&shown, &rescored).is_empty() {
                return;
            }
            let differences = differences(&shown, &rescored);
            assert!(begun.elapsed() < LIMIT, "`show` does not catch up with `rescore`: {differences:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Commits in the logs of a store's runs.
fn commits(store: &Path) -> usize {
    let Ok(runs) = std::fs::read_dir(store.join("runs")) else { return 0 };
    let logs = runs.filter_map(|run| std::fs::read_dir(run.unwrap().path().join("log")).ok());
    let records = logs.flatten().map(|record| std::fs::read_to_string(record.unwrap().path()).unwrap_or_default());
    records.filter(|record| record.contains("\"kind\": \"commit\"")).count()
}

fn shown_and_rescored(dir: &Path, store: &str) -> (Value, Value) {
    let shown = document(&mut hopeval(dir, &at(&["show", "--json"], store)));
    let rescored = document(&mut hopeval(dir, &at(&["rescore", "--json"], store)));
    (shown, rescored)
}

/// Differences between the means of two documents. Live sums are in fixed point: values agree to 1e-9, and standard
/// errors, the root of a difference of such sums, to 1e-5.
fn differences(shown: &Value, rescored: &Value) -> Vec<String> {
    let rows = |document: &Value| -> BTreeMap<String, Row> {
        let rows = document["measures"].as_array().unwrap().iter().filter(|row| row["n"] != 0);
        rows.map(|row| {
            let key = format!("{} {} {}", row["configuration"], row["stratum"], row["measure"]);
            let n = row["n"].as_u64().unwrap();
            (key, (row["value"].as_f64(), row["stderr"].as_f64(), n, row["coverage"].as_f64()))
        })
        .collect()
    };
    let (shown, rescored) = (rows(shown), rows(rescored));
    let near = |a: Option<f64>, b: Option<f64>, most: f64| match (a, b) {
        (Some(a), Some(b)) => (a - b).abs() <= most,
        (a, b) => a == b,
    };
    let keys = shown.keys().chain(rescored.keys());
    let mut different: Vec<String> = keys
        .filter(|key| match (shown.get(*key), rescored.get(*key)) {
            (Some(a), Some(b)) => {
                !(near(a.0, b.0, 1e-9) && near(a.1, b.1, 1e-5) && a.2 == b.2 && near(a.3, b.3, 1e-12))
            }
            _ => true,
        })
        .map(|key| format!("{key}: {:?} {:?}", shown.get(key), rescored.get(key)))
        .collect();
    different.dedup();
    different
}

#[test]
fn a_live_run_shows_committed_cohorts_and_takes_edits() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (mut rows, job) = world(dir, "2000", "3000");
    edit_world(&mut rows);
    write_lines(&dir.join("world/edited.jsonl"), &rows);
    let (_, expected) = run_job(dir, &world_job(dir, "edited", "edited.jsonl"), "fresh", &["--workers", "2"]);

    let mut running = Running::start(dir, &job, "store");
    running.shows_what_rescoring_gives("store");
    running.signal(Signal::SIGTERM);
    assert_eq!(running.child.wait().unwrap().code(), Some(75), "an interrupted run says that it can be resumed");
    let same = |when: &str| {
        let (shown, rescored) = shown_and_rescored(dir, "store");
        let outcomes = shown["outcomes"].as_u64().unwrap();
        assert!(0 < outcomes && outcomes < 2000 * 7, "{outcomes} outcomes {when}");
        assert_eq!(shown["outcomes"], rescored["outcomes"], "{when}");
        assert_eq!(differences(&shown, &rescored), Vec::<String>::new(), "{when}");
        rescored["measures"].clone()
    };
    let unedited = same("after an interruption");
    apply(dir, "store", "world/edited.jsonl");
    assert_ne!(same("after an edit of an interrupted run"), unedited);

    let resumed = document(&mut hopeval(dir, &at(&["resume", "last", "--workers", "3", "--json"], "store")));
    let tables = final_tables(&dir.join("store"), run_of(&resumed));
    assert!(tables == expected, "edited while interrupted, the run ends as a fresh one on the edited file");

    // The same with an edit during the run.
    let mut running = Running::start(dir, &job, "live");
    apply(dir, "live", "world/edited.jsonl");
    running.shows_what_rescoring_gives("live");
    assert_eq!(running.child.wait().unwrap().code(), Some(0));
    let shown = document(&mut hopeval(dir, &at(&["show", "--json"], "live")));
    let tables = final_tables(&dir.join("live"), run_of(&shown));
    assert!(tables == expected, "edited while going on, the run ends as a fresh one on the edited file");
}

/// A process stopped while it writes the final tables, with one of them written: its `Final` record comes too late.
fn stopped_at_its_tables(dir: &Path, job: &Path, questions: u64) -> (Running, String, String) {
    for attempt in 0..20 {
        let name = format!("stopped-{attempt}");
        let running = Running::start(dir, job, &name);
        let store = Store::open(dir.join(&name).to_str().unwrap()).unwrap();
        let id = hopeval_results::run::list_runs(&store).unwrap().pop().unwrap();
        let mut log = Log::open(&store, &id).unwrap();
        wait_for("end of the run", || (log.refresh().unwrap().total_outcomes() >= questions * 7).then_some(()));
        wait_for("table", || (table_folders(&dir.join(&name), &id) > 0).then_some(()));
        running.signal(Signal::SIGSTOP);
        // The file open at the stop is on its way.
        std::thread::sleep(Duration::from_millis(50));
        if log.refresh().unwrap().finished.is_none() {
            return (running, name, id);
        }
    }
    panic!("the tables are always faster than the signal");
}

/// The number of folders with tables of a run.
fn table_folders(store: &Path, id: &str) -> usize {
    std::fs::read_dir(store.join("runs").join(id).join("tables")).map_or(0, Iterator::count)
}

#[test]
fn a_process_that_was_stopped_replaces_no_later_tables() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (mut rows, job) = world(dir, "1000", "2000");
    edit_world(&mut rows);
    write_lines(&dir.join("world/edited.jsonl"), &rows);
    let (_, expected) = run_job(dir, &world_job(dir, "edited", "edited.jsonl"), "fresh", &["--workers", "2"]);

    let (mut old, store, id) = stopped_at_its_tables(dir, &job, 1000);
    apply(dir, &store, "world/edited.jsonl");
    document(&mut hopeval(dir, &at(&["resume", &id, "--json"], &store)));
    assert!(final_tables(&dir.join(&store), &id) == expected, "the second generation has the edited gold");
    let shown = succeed(&mut hopeval(dir, &at(&["show", &id, "--json"], &store)));

    // It wakes up with tables of the old gold, and finds itself superseded.
    old.signal(Signal::SIGCONT);
    assert_eq!(old.child.wait().unwrap().code(), Some(75));
    assert!(final_tables(&dir.join(&store), &id) == expected, "the old tables came back");
    assert_eq!(succeed(&mut hopeval(dir, &at(&["show", &id, "--json"], &store))), shown);
    assert_eq!(table_folders(&dir.join(&store), &id), 2, "each generation has a folder of its own");
}
