//! Judges of answers: MIGRES's rule beside a restatement in Python; runs of judges, alone and after their run, spread,
//! interrupted, over a failing model; agreement with the exact match and with people.

use crate::harness::{document, final_tables, hopeval, measure, run, run_of, shared, succeed, wait_for};
use hopeval_measures::{AccuracyRule, JudgedAnswer};
use hopeval_methods::response::{FinishReason, Generation};
use hopeval_methods::{
    Answer, AnswerWork, Content, MachineStep, MethodSetting, Outcome, Question, RequestPayload, Response, build_method,
};
use hopeval_results::run::list_runs;
use hopeval_results::tables::{FinalOutcomeRow, ScoreRow, read_table};
use hopeval_results::{Log, Store, layout};
use hopeval_simulated_llm::{
    FaultKind, FaultSettings, FaultWindow, LatencySettings, SimulatedServer, SimulationSettings,
};
use serde_json::{Value, json};
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

/// Questions of the judged runs.
const QUESTIONS: usize = 24;

/// A run whose reader stands behind an endpoint at `url`.
fn job(url: &str, more: &str) -> String {
    format!(
        r#"
name = "readers"
[dataset.world]
questions = {QUESTIONS}
passages = 400
seed = 11
[service.bm25]
kind = "bm25"
{}
[method.retriever]
kind = "one_step"
retriever = "bm25"
[method.reader]
kind = "one_step_qa"
retriever = "bm25"
generator = "llm"
k = 5
[method.alone]
kind = "no_retrieval"
generator = "llm"
[run]
chunk = 8
{more}"#,
        endpoint("llm", url)
    )
}

/// The table of a simulated model as the service `name`.
fn endpoint(name: &str, url: &str) -> String {
    format!(
        "[service.{name}]\nkind = \"endpoint\"\nmodel = \"simulated-llm\"\nbase_url = \"{url}\"\n\
         identity = \"the simulated model\"\nfirst_pause_s = 0.01\nlongest_pause_s = 0.1\n"
    )
}

/// Judges behind the service `judge`: one by each paper's protocol.
const JUDGES: &str = r#"
[judge.migres]
kind = "yes_no"
rule = "migres"
generator = "judge"
[judge.efficientrag]
kind = "yes_no"
rule = "efficientrag"
generator = "judge"
"#;

fn server(settings: SimulationSettings) -> SimulatedServer {
    SimulatedServer::start(settings).unwrap()
}

/// A command over the store `store`, printing a document.
fn command(dir: &Path, store: &str, arguments: &[&str]) -> Command {
    hopeval(dir, &[arguments, &["--store", store, "--cache", "cache", "--json"]].concat())
}

/// A folder with a finished run of [`job`] in the store `store`, and its id.
fn judged_run(dir: &Path) -> String {
    let readers = server(SimulationSettings { mistake_rate: 0.3, ..SimulationSettings::default() });
    std::fs::write(dir.join("job.toml"), job(&readers.base_url(), "")).unwrap();
    run_of(&document(&mut command(dir, "store", &["run", "job.toml"]))).to_owned()
}

fn write_judges(dir: &Path, url: &str, more: &str) {
    std::fs::write(dir.join("judges.toml"), format!("{}{more}{JUDGES}", endpoint("judge", url))).unwrap();
}

fn rows<R: hopeval_results::tables::Row>(dir: &Path, store: &str, run: &str, table: &str) -> Vec<R> {
    let store = Store::open(dir.join(store).to_str().unwrap()).unwrap();
    read_table(&store, &layout::final_table(run, table)).unwrap()
}

#[test]
fn judges_alone_ask_once_and_score_every_answer() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let judged = judged_run(dir);
    let before = final_tables(&dir.join("store"), &judged);
    let judge = server(SimulationSettings::default());
    write_judges(dir, &judge.base_url(), "");
    let first = document(&mut command(dir, "store", &["judge", &judged, "judges.toml"]));
    let calls = judge.summary().calls;
    assert!(calls > 10, "{calls} calls");
    assert_eq!((first["judged"].as_str(), first["finished"].as_bool()), (Some(judged.as_str()), Some(true)));

    // Each judge over each configuration with answers; every question has an outcome and a score.
    let judging = run_of(&first).to_owned();
    let outcomes: Vec<FinalOutcomeRow> = rows(dir, "store", &judging, "outcomes");
    let names = ["efficientrag(alone)", "efficientrag(reader)", "migres(alone)", "migres(reader)"];
    let expected: Vec<&str> = names.into_iter().flat_map(|name| [name; QUESTIONS]).collect();
    assert_eq!(outcomes.iter().map(|row| row.configuration.as_str()).collect::<Vec<_>>(), expected);
    assert!(outcomes.iter().all(|row| matches!(row.answer.as_deref(), Some("yes" | "no"))));
    let scores: Vec<ScoreRow> = rows(dir, "store", &judging, "scores");
    let of =
        |measure: &str| scores.iter().filter(|row| *row.measure == *measure && row.value.is_some()).collect::<Vec<_>>();
    for (measure, judge) in [("acc_migres", "migres("), ("acc_efficientrag", "efficientrag(")] {
        let values = of(measure);
        assert_eq!(values.len(), 2 * QUESTIONS);
        assert!(values.iter().all(|row| row.configuration.starts_with(judge)));
        // Profile, version, model with its service's fingerprint, prompt.
        let version: Vec<&str> = values[0].version.split(' ').collect();
        assert!(version[2].starts_with("simulated-llm@") && version[3].len() == 16, "{version:?}");
    }
    let migres_version = &of("acc_migres")[0].version;
    assert_ne!(migres_version, &of("acc_efficientrag")[0].version, "another prompt");
    assert_eq!(of("em").len(), 0, "a word is no answer");

    // The judge is as lenient as MIGRES's open-domain rule, so its accuracy is no less than the exact match.
    let shown = document(&mut command(dir, "store", &["show", &judged]));
    let value = |document: &Value, configuration: &str, name: &str| {
        let row = measure(document, configuration, "all", name);
        (row["value"].as_f64().unwrap(), row["n"].as_u64().unwrap(), row["coverage"].as_f64().unwrap())
    };
    let (exact, accurate) = (value(&shown, "reader", "em").0, value(&first, "migres(reader)", "acc_migres"));
    assert!(exact > 0.2 && exact < 1.0 && accurate.0 >= exact, "{exact} {accurate:?}");
    assert_eq!((accurate.1, accurate.2), (QUESTIONS as u64, 1.0));
    let mode = &measure(&first, "migres(reader)", "all", "acc_migres")["context_mode"];
    assert_eq!(
        (mode.as_str(), measure(&first, "migres(alone)", "all", "acc_migres")["context_mode"].as_str()),
        (Some("open"), Some("closed"))
    );

    // Again, spread over processes: nothing is asked, and the tables are the same.
    let tables = final_tables(&dir.join("store"), &judging);
    for spread in [&["--workers", "1"][..], &["--processes", "2"]] {
        let again = document(&mut command(dir, "store", &[&["judge", &judged, "judges.toml"], spread].concat()));
        assert_ne!(run_of(&again), judging);
        assert_eq!(final_tables(&dir.join("store"), run_of(&again)), tables, "{spread:?}");
    }
    assert_eq!(judge.summary().calls, calls, "the journal answers");
    assert_eq!(final_tables(&dir.join("store"), &judged), before, "the judged run stays as it is");

    // A finished run needs neither its corpus nor its dataset to be judged.
    let elsewhere =
        [&["judge", &judged, "judges.toml"][..], &["--store", "store", "--cache", "other", "--json"]].concat();
    let again = document(&mut hopeval(dir, &elsewhere));
    assert_eq!(final_tables(&dir.join("store"), run_of(&again)), tables);
    assert_eq!(judge.summary().calls, calls);
}

#[test]
fn agreement_is_with_the_exact_match_and_with_people() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let judged = judged_run(dir);
    let judge = server(SimulationSettings { mistake_rate: 0.2, ..SimulationSettings::default() });
    write_judges(dir, &judge.base_url(), "");
    let answers: Vec<FinalOutcomeRow> = rows(dir, "store", &judged, "outcomes");
    let answered: Vec<&FinalOutcomeRow> = answers.iter().filter(|row| row.configuration == "reader").collect();
    // A person accepts every second answer of the reader, and marks an answer that nobody gave.
    let mut marks: Vec<Value> = (0..)
        .zip(&answered)
        .map(|(at, row)| json!({"question": row.question, "configuration": "reader", "mark": at % 2 == 0}))
        .collect();
    marks.push(json!({"question": answered[0].question, "prediction": "an answer that nobody gave", "mark": true}));
    let lines: Vec<String> = marks.iter().map(Value::to_string).collect();
    std::fs::write(dir.join("marks.jsonl"), lines.join("\n")).unwrap();
    let found = document(&mut command(dir, "store", &["judge", &judged, "judges.toml", "--marks", "marks.jsonl"]));
    let judging = run_of(&found).to_owned();
    let words: Vec<FinalOutcomeRow> = rows(dir, "store", &judging, "outcomes");
    let scores: Vec<ScoreRow> = rows(dir, "store", &judged, "scores");
    let row = |configuration: &str, with: &str| {
        let all = found["agreement"]["agreements"].as_array().unwrap();
        all.iter().find(|row| row["configuration"] == configuration && row["with"] == with).unwrap().clone()
    };
    // The counts, by hand.
    let said = |configuration: &str| -> Vec<bool> {
        let of = words.iter().filter(|row| row.configuration == configuration);
        of.map(|row| row.answer.as_deref() == Some("yes")).collect()
    };
    let exact: Vec<bool> = scores
        .iter()
        .filter(|row| *row.configuration == *"reader" && *row.measure == *"em")
        .map(|row| row.value == Some(1.0))
        .collect();
    let people: Vec<bool> = (0..QUESTIONS).map(|at| at % 2 == 0).collect();
    for (configuration, with, other) in [
        ("migres(reader)", "em", &exact),
        ("efficientrag(reader)", "em", &exact),
        ("migres(reader)", "people", &people),
    ] {
        let found = row(configuration, with);
        let count = |wanted: (bool, bool)| {
            said(configuration).into_iter().zip(other.clone()).filter(|pair| *pair == wanted).count()
        };
        for (name, wanted) in [
            ("both_yes", (true, true)),
            ("judge_only", (true, false)),
            ("other_only", (false, true)),
            ("both_no", (false, false)),
        ] {
            assert_eq!(found[name], count(wanted), "{configuration} {with} {name}");
        }
        let [kappa, low, high] = ["kappa", "low", "high"].map(|name| found[name].as_f64().unwrap());
        assert!(-1.0 <= low && low <= kappa && kappa <= high && high <= 1.0, "{found}");
    }
    assert_eq!(
        (row("migres(alone)", "people")["n"].as_u64(), &found["agreement"]["marks"]),
        (Some(0), &json!(QUESTIONS + 1))
    );
    assert_eq!(found["agreement"]["unused_marks"], 1);

    // The same by `show`, as a table.
    let text = succeed(&mut hopeval(
        dir,
        &["show", &judging, "--store", "store", "--cache", "cache", "--marks", "marks.jsonl"],
    ));
    assert!(text.contains("agreement of the judges' words") && text.contains("| migres(reader)"), "{text}");
    assert!(text.contains("25 marks of people; 1 of them are of no judged answer"), "{text}");
    assert!(text.contains(&format!("judges run {judged}")), "{text}");
    let refused = run(&mut hopeval(dir, &["show", &judged, "--store", "store", "--marks", "marks.jsonl"]));
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("has no judges to compare with people"));
}

#[test]
fn a_run_with_judges_judges_at_its_end_and_again_by_itself() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (readers, judge) = (server(SimulationSettings::default()), server(SimulationSettings::default()));
    let more = format!("{}{JUDGES}", endpoint("judge", &judge.base_url()));
    std::fs::write(dir.join("job.toml"), job(&readers.base_url(), &more)).unwrap();
    let found = document(&mut command(dir, "store", &["run", "job.toml", "--processes", "2"]));
    let calls = judge.summary().calls;
    assert!(calls > 10 && found["judging"]["judged"] == found["run"], "{found}");
    let tables = final_tables(&dir.join("store"), run_of(&found["judging"]));
    // The run's own job has the judges.
    let again = document(&mut command(dir, "store", &["judge", run_of(&found)]));
    assert_eq!(final_tables(&dir.join("store"), run_of(&again)), tables);
    assert_eq!(judge.summary().calls, calls);
    // A whole job is a file of judges, too, and takes overrides.
    let arguments = ["judge", run_of(&found), "job.toml", "--set", "judge.migres.answers=all"];
    let other = document(&mut command(dir, "store", &arguments));
    assert_eq!(measure(&other, "migres(reader)", "all", "acc_migres")["n"], QUESTIONS);
    // Text output: both runs' tables.
    let text = succeed(&mut hopeval(dir, &["run", "job.toml", "--store", "store", "--cache", "cache"]));
    assert!(text.contains("| reader ") && text.contains("| migres(reader) "), "{text}");
}

#[test]
fn words_that_fail_are_outcomes_with_a_status() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let judged = judged_run(dir);
    let silent = server(SimulationSettings { format_error_rate: 1.0, ..SimulationSettings::default() });
    write_judges(dir, &silent.base_url(), "");
    let ended = run(&mut command(dir, "store", &["judge", &judged, "judges.toml"]));
    assert_eq!(ended.status.code(), Some(1), "{}", String::from_utf8_lossy(&ended.stderr));
    let found: Value = serde_json::from_slice(&ended.stdout).unwrap();
    let row = measure(&found, "efficientrag(reader)", "all", "acc_efficientrag");
    assert_eq!((&row["value"], &row["n"], &row["coverage"]), (&json!(0.0), &json!(QUESTIONS), &json!(0.0)));
    let outcomes: Vec<FinalOutcomeRow> = rows(dir, "store", run_of(&found), "outcomes");
    assert_eq!(outcomes.len(), 4 * QUESTIONS);
    for row in &outcomes {
        assert_eq!(row.status, "parse_failure");
        assert!(row.message.as_deref().unwrap().contains("neither yes nor no"), "{row:?}");
    }
    assert_eq!(found["agreement"]["agreements"], json!([]), "nobody said a word");
}

#[test]
fn an_interrupted_run_of_judges_is_resumed() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let judged = judged_run(dir);
    let judge = server(SimulationSettings::default());
    // Few questions at a time, to have a middle of the run.
    write_judges(dir, &judge.base_url(), "patience_s = 0.5\n[run]\nchunk = 2\nin_flight = 2\n");
    let peace = document(&mut command(dir, "store", &["judge", &judged, "judges.toml"]));
    let tables = final_tables(&dir.join("store"), run_of(&peace));

    // Another store: its journal knows nothing.
    std::fs::create_dir_all(dir.join("other/runs")).unwrap();
    succeed(Command::new("cp").arg("-r").arg(dir.join("store/runs").join(&judged)).arg(dir.join("other/runs")));
    let latency = LatencySettings { first_ms: 100.0, ..LatencySettings::default() };
    judge.change(SimulationSettings { latency, ..judge.settings() }).unwrap();
    let mut judging = command(dir, "other", &["judge", &judged, "judges.toml"]);
    let judging = judging.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let other = Store::open(dir.join("other").to_str().unwrap()).unwrap();
    let log = || {
        let runs = list_runs(&other).unwrap();
        runs.into_iter().find(|run| *run != judged).map(|run| Log::open(&other, &run).unwrap())
    };
    wait_for("commit of the judges", || log().filter(|log| !log.state().commits.is_empty()));
    let window = FaultWindow { from_s: 0.0, to_s: 1e6, kind: FaultKind::Unavailable };
    let dead = FaultSettings { schedule: vec![window], ..FaultSettings::default() };
    judge.change(SimulationSettings { faults: dead, ..judge.settings() }).unwrap();
    let ended = judging.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(75), "{}", String::from_utf8_lossy(&ended.stderr));
    let committed = log().unwrap().state().total_outcomes();
    assert!(committed > 0 && committed < 4 * QUESTIONS as u64, "{committed} outcomes are committed");
    judge.change(SimulationSettings::default()).unwrap();
    let resumed = document(&mut command(dir, "other", &["resume", "latest", "--workers", "3"]));
    assert_eq!(resumed["judged"], judged);
    assert_eq!(final_tables(&dir.join("other"), run_of(&resumed)), tables);
}

/// A process killed before the record of a run of judges leaves the order to make it.
#[test]
fn a_run_of_judges_whose_maker_was_killed_is_made_by_resume() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let judged = judged_run(dir);
    let judge = server(SimulationSettings::default());
    write_judges(dir, &judge.base_url(), "");
    let found = document(&mut command(dir, "store", &["judge", &judged, "judges.toml"]));
    let judging = run_of(&found).to_owned();
    let (store, tables) = (dir.join("store"), final_tables(&dir.join("store"), &judging));
    let made = std::fs::read_to_string(store.join(layout::run_record(&judging))).unwrap();
    let made: Value = serde_json::from_str(&made).unwrap();
    std::fs::remove_dir_all(store.join("runs").join(&judging)).unwrap();
    std::fs::create_dir(store.join("runs").join(&judging)).unwrap();
    let order =
        json!({"run": judging, "created_ms": made["created_ms"], "job": made["settings"]["job"], "judged": judged});
    std::fs::write(store.join(layout::making_order(&judging)), order.to_string()).unwrap();
    let again = document(&mut command(dir, "store", &["resume", "latest"]));
    assert_eq!((run_of(&again), &again["judged"]), (judging.as_str(), &json!(judged)));
    assert_eq!(final_tables(&store, &judging), tables);
    let record: Value =
        serde_json::from_str(&std::fs::read_to_string(store.join(layout::run_record(&judging))).unwrap()).unwrap();
    assert_eq!(record["job_digest"], made["job_digest"]);
}

#[test]
fn runs_that_cannot_be_judged_say_why() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let judged = judged_run(dir);
    let judge = server(SimulationSettings::default());
    write_judges(dir, &judge.base_url(), "");
    let refused = |arguments: &[&str]| {
        let ended = run(&mut command(dir, "store", arguments));
        assert_eq!(ended.status.code(), Some(2), "{arguments:?}");
        String::from_utf8_lossy(&ended.stderr).into_owned()
    };
    assert!(refused(&["judge", &judged]).contains("there is no judge"));
    let found = document(&mut command(dir, "store", &["judge", &judged, "judges.toml"]));
    let judging = run_of(&found).to_owned();
    assert!(refused(&["judge", &judging, "judges.toml"]).contains("it is a run of judges itself"));
    let gold = dir.join("cache/worlds");
    let file = std::fs::read_dir(gold).unwrap().next().unwrap().unwrap().path().join("questions.jsonl");
    let said = refused_gold(dir, &judging, &file);
    assert!(said.contains("edit that one's gold, and judge it again"), "{said}");
    std::fs::write(dir.join("bad.toml"), "[judge.a]\nkind = \"oracle\"\n").unwrap();
    assert!(refused(&["judge", &judged, "bad.toml"]).contains("allowed: the kind of a judge: yes_no"));
    let said = refused(&["judge", &judged, "judges.toml", "--against", "reader"]);
    assert!(said.contains("no configuration `reader`; the run has efficientrag(alone)"), "{said}");
    let runs = document(&mut command(dir, "store", &["ls"]));
    assert_eq!(runs["runs"].as_array().unwrap().len(), 2, "what is refused leaves no run");
    std::fs::write(dir.join("job.toml"), WITHOUT_ANSWERS).unwrap();
    let silent = document(&mut command(dir, "store", &["run", "job.toml"]));
    assert!(refused(&["judge", run_of(&silent), "judges.toml"]).contains("none of its configurations gives answers"));
}

fn refused_gold(dir: &Path, run_id: &str, file: &Path) -> String {
    let arguments = ["gold", "apply", run_id, file.to_str().unwrap(), "--store", "store", "--cache", "cache"];
    let ended = run(&mut hopeval(dir, &arguments));
    assert_eq!(ended.status.code(), Some(2));
    String::from_utf8_lossy(&ended.stderr).into_owned()
}

const WITHOUT_ANSWERS: &str = r#"
name = "silent"
[dataset.world]
questions = 4
passages = 400
[service.bm25]
kind = "bm25"
[method.retriever]
kind = "one_step"
retriever = "bm25"
"#;

/// The scripted judge's replies, by the remainder of the sum of bytes, as in `ops/reference/judges/migres.py`.
const REPLIES: [&str; 5] = ["Yes", "No", " yes, it does.", "The two differ: no", "No."];

/// The literal texts of a request's prompt.
fn prompt_text(payload: &RequestPayload) -> String {
    let RequestPayload::Generate(generate) = payload else { panic!("a judge generates") };
    let texts = generate.prompt.parts.iter().filter_map(|part| match &part.content {
        Content::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

fn sum_of_bytes(text: &str) -> u64 {
    text.bytes().map(u64::from).sum()
}

/// One hexadecimal digit for four bits, the first pair's bit the highest of the number.
fn hexadecimal(bits: &[bool]) -> String {
    let missing = (4 - bits.len() % 4) % 4;
    let padded: Vec<bool> = std::iter::repeat_n(false, missing).chain(bits.iter().copied()).collect();
    let digit = |four: &[bool]| four.iter().fold(0, |number, &bit| 2 * number + u32::from(bit));
    padded.chunks(4).map(|four| char::from_digit(digit(four), 16).unwrap()).collect()
}

#[test]
fn migres_rule_is_that_of_its_restatement_in_python() {
    let Some(shared) = shared("migres_rule_is_that_of_its_restatement_in_python") else { return };
    let mut text = String::new();
    let file = std::fs::File::open(shared.join("golden/answers.jsonl.gz")).unwrap();
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).unwrap();
    let parameters = json!({"generator": "judge", "rule": "migres", "configuration": "c", "context_mode": "open",
                            "prediction": "normalized", "answers": "python_list"});
    let judge = build_method("yes_no", &parameters, &MethodSetting::of_corpus(0)).unwrap();
    let (mut bytes, mut words, mut plain, mut open) = (0, Vec::new(), Vec::new(), Vec::new());
    for line in text.lines() {
        let pair: Value = serde_json::from_str(line).unwrap();
        let prediction = pair["prediction"].as_str().unwrap();
        let golds: Vec<String> = serde_json::from_value(pair["golds"].clone()).unwrap();
        let outcome = Outcome { answer: Some(prediction.to_owned()), ..Outcome::default() };
        let mut machine = judge.start(&Question {
            answers: golds.clone(),
            prediction: Some(Box::new(outcome)),
            ..Question::default()
        });
        let MachineStep::Ask(requests) = machine.step(Vec::new()) else { panic!("nothing is asked about {line}") };
        let prompt = prompt_text(&requests[0].ask);
        let (_, fields) = prompt.split_once("\nPrediction: ").unwrap();
        let (shown, rest) = fields.split_once("\nCorrect answer: ").unwrap();
        let (listed, _) = rest.rsplit_once("\nDoes the prediction").unwrap();
        let sum = sum_of_bytes(shown) + sum_of_bytes(listed);
        bytes += sum;
        let reply = Generation::new(REPLIES[(sum % 5) as usize], FinishReason::Stop);
        let response = Response::answer(Answer::Generate(reply), AnswerWork::default());
        let MachineStep::Done(done) = machine.step(vec![response]) else { panic!("it goes on") };
        let says_yes = done.answer.as_deref().map(|word| word == "yes");
        let accepts = |is_open_domain| {
            let rule = AccuracyRule::Migres { is_open_domain };
            rule.accepts(&JudgedAnswer { prediction: Some(prediction), says_yes, rule }, &golds)
        };
        words.push(says_yes.unwrap());
        plain.push(accepts(false));
        open.push(accepts(true));
    }
    let found = format!(
        "pairs {}\nbytes {bytes}\nwords {}\nplain {}\nopen {}\n",
        words.len(),
        hexadecimal(&words),
        hexadecimal(&plain),
        hexadecimal(&open)
    );
    assert_eq!(found, include_str!("support/judges.txt"), "`ops/reference/judges/migres.py` says otherwise");
}
