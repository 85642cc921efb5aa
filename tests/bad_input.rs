//! Bad input of every kind: one clear error, exit code 2, and earlier results as they were.
//!
//! Each test makes a good run first, of a dataset small enough to write here, then gives the same store something bad.

mod missing_gold;
mod no_figure;
mod no_measure;

use crate::harness::{self, final_tables, hopeval, run, succeed};
use crate::tiny::{self, JOB, array, lines, passages, questions};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A folder with a job, its data and a store with one good run.
struct Bench {
    dir: tempfile::TempDir,
    run: String,
    tables: Vec<Vec<u8>>,
    shown: String,
}

impl Bench {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        tiny::write(dir.path());
        let mut bench = Self { dir, run: String::new(), tables: Vec::new(), shown: String::new() };
        let out = succeed(&mut bench.command(&["run", "job.toml", "--json"]));
        let document: Value = serde_json::from_str(&out).unwrap();
        bench.run = document["run"].as_str().unwrap().to_owned();
        bench.tables = final_tables(&bench.store(), &bench.run);
        bench.shown = succeed(&mut bench.command(&["show", &bench.run]));
        bench
    }

    fn store(&self) -> PathBuf {
        self.dir.path().join("store")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = hopeval(self.dir.path(), arguments);
        command.args(["--store", "store"]);
        command
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        std::fs::write(self.dir.path().join(name), bytes).unwrap();
    }

    /// The good run again, with something overridden.
    fn run_with(&self, set: &str) -> Command {
        self.command(&["run", "job.toml", "--set", set])
    }

    /// The job with a change in its text.
    fn changed_job(&self, from: &str, to: &str) -> Command {
        assert_eq!(JOB.matches(from).count(), 1, "{from}");
        self.write("changed.toml", JOB.replace(from, to));
        self.command(&["run", "changed.toml"])
    }

    /// `command` fails as bad input does, says all of `says`, and the first run is as it was and alone.
    fn refuses(&self, command: &mut Command, says: &[&str]) -> String {
        let said = refused(&run(command), says);
        self.is_as_it_was();
        said
    }

    fn is_as_it_was(&self) {
        assert_eq!(self.runs(), [(self.run.clone(), "finished".to_owned())]);
        assert!(final_tables(&self.store(), &self.run) == self.tables, "the tables of the first run changed");
        assert_eq!(succeed(&mut self.command(&["show", &self.run])), self.shown);
    }

    fn runs(&self) -> Vec<(String, String)> {
        let listed: Value = serde_json::from_str(&succeed(&mut self.command(&["ls", "--json"]))).unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        listed["runs"].as_array().unwrap().iter().map(|row| (text(&row["run"]), text(&row["state"]))).collect()
    }

    /// The one file in a folder of the store with this ending.
    fn only(&self, folder: &str, ending: &str) -> PathBuf {
        let mut found: Vec<PathBuf> = std::fs::read_dir(self.store().join(folder))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.to_string_lossy().ends_with(ending))
            .collect();
        found.sort();
        found.swap_remove(0)
    }
}

/// Exit code 2, nothing on standard output, one error on standard error that says all of `says`.
fn refused(output: &Output, says: &[&str]) -> String {
    let err = String::from_utf8_lossy(&output.stderr);
    // Figures of a run under way that cannot be written are a warning: the run does without them.
    let err: String = err.split_inclusive('\n').filter(|line| !line.contains(" WARN the live figures")).collect();
    assert_eq!(output.status.code(), Some(2), "{err}");
    assert!(output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(err.lines().filter(|line| line.starts_with("error: ")).count(), 1, "{err}");
    assert!(err.starts_with("error: "), "{err}");
    for word in ["panicked", "backtrace", "RUST_BACKTRACE", "this is a bug", " ERROR "] {
        assert!(!err.contains(word), "{err}");
    }
    for part in says {
        assert!(err.contains(part), "`{part}` is missing from:\n{err}");
    }
    err
}

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

fn flip(path: &Path, at: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[at] ^= 0xff;
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn bad_rows_name_file_line_field_and_what_is_allowed() {
    let bench = Bench::new();
    let mut rows = questions();
    let whole = gzip(&array(&rows));
    bench.write("cut.json.gz", &whole[..whole.len() / 2]);
    bench.refuses(&mut bench.run_with("dataset.questions=cut.json.gz"), &["cut.json.gz: ", "truncated", "in line"]);

    rows[2]["answer"] = json!(7);
    bench.write("type.json", array(&rows));
    let says = ["type.json:4: record 3: field `answer`: found the number 7; allowed: a string"];
    bench.refuses(&mut bench.run_with("dataset.questions=type.json"), &says);

    rows = questions();
    rows[3].as_object_mut().unwrap().remove("question");
    bench.write("missing.json", array(&rows));
    let says = ["missing.json:5: record 4: field `question`: found nothing; allowed: this field is required"];
    bench.refuses(&mut bench.run_with("dataset.questions=missing.json"), &says);

    rows = questions();
    rows[4]["_id"] = json!("q1");
    bench.write("twice.json", array(&rows));
    let says =
        ["twice.json:6: record 5: field `id`: found \"q1\"", "twice.json:3 (record 2)", "allowed: an id that no"];
    bench.refuses(&mut bench.run_with("dataset.questions=twice.json"), &says);

    rows = questions();
    rows[5]["supporting_facts"][0][0] = json!("Nowhere");
    rows[5]["context"].as_array_mut().unwrap().push(json!(["Nowhere", ["It is not there."]]));
    bench.write("gold.json", array(&rows));
    let says =
        ["gold.json:7: question `q5`: field `gold`: `Nowhere` is not in the corpus; allowed: gold passages that"];
    bench.refuses(&mut bench.run_with("dataset.questions=gold.json"), &says);

    for (name, text) in [("none.json", "[]"), ("empty.json", "")] {
        bench.write(name, text);
        let set = format!("dataset.questions={name}");
        bench.refuses(&mut bench.run_with(&set), &[name, "holds no rows"]);
    }
}

#[test]
fn a_check_that_finds_bad_rows_says_so_in_its_exit_code() {
    let bench = Bench::new();
    let good = succeed(&mut bench.command(&["data", "check", "questions.json"]));
    assert!(good.contains("| rows | 6, of which 0 bad |"), "{good}");
    let mut rows = questions();
    rows[2]["answer"] = json!(7);
    bench.write("type.json", array(&rows));
    let output = run(&mut bench.command(&["data", "check", "type.json"]));
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!((output.status.code(), err.as_ref()), (Some(2), "error: 1 of 6 rows are bad\n"));
    assert!(out.contains("type.json:4: record 3: field `answer`"), "the report is printed all the same: {out}");
}

#[test]
fn gold_without_an_identifier_names_the_key_to_set() {
    let bench = Bench::new();
    let says = [
        "questions.json:2: question `q0`: field `gold`: the gold passage `Film 0` has no id",
        "`gold = \"title\"` in [dataset], as for IIRC",
    ];
    bench.refuses(&mut bench.run_with("dataset.gold=id"), &says);
}

#[test]
fn a_plan_refuses_and_sets_aside_what_a_run_would() {
    let bench = Bench::new();
    let mut rows = questions();
    rows[1]["answer"] = json!(7);
    rows[3]["context"].as_array_mut().unwrap().push(json!(["Elsewhere", ["It is not in the corpus."]]));
    bench.write("bad.json", array(&rows));
    let plan = |arguments: &[&str]| {
        let mut command = bench.command(&["plan", "job.toml", "--set", "dataset.questions=bad.json", "--json"]);
        command.args(arguments);
        command
    };
    bench.refuses(&mut plan(&[]), &["bad.json:3: record 2: field `answer`"]);
    let counts = |command: &mut Command| {
        let plan: Value = serde_json::from_str(&succeed(command)).unwrap();
        (plan["questions"].as_u64().unwrap(), plan["quarantined"].as_u64().unwrap())
    };
    // No method ranks the candidates, so a candidate missing in the corpus is no error; a ranking method needs all.
    assert_eq!(counts(&mut plan(&["--quarantine", "aside"])), (5, 1));
    let ranks = ["--set", "method.given.kind=given", "--set", "method.given.retriever=sparse"];
    assert_eq!(counts(plan(&ranks).args(["--quarantine", "aside"])), (4, 2));
    let aside = std::fs::read_to_string(bench.dir.path().join("aside")).unwrap();
    assert!(aside.contains("field `candidates`: `Elsewhere` is not"), "{aside}");
}

#[test]
fn bad_passages_name_file_line_and_field() {
    let bench = Bench::new();
    let mut rows = passages();
    rows[2]["text"] = json!(7);
    bench.write("type.jsonl", lines(&rows));
    let says = ["type.jsonl:3: record 3: field `text`: found the number 7; allowed: a string"];
    bench.refuses(&mut bench.run_with("corpus.source=type.jsonl"), &says);

    rows = passages();
    rows[3].as_object_mut().unwrap().remove("text");
    bench.write("missing.jsonl", lines(&rows));
    bench.refuses(&mut bench.run_with("corpus.source=missing.jsonl"), &["missing.jsonl:4: record 4: field `text`"]);

    let contents = |(i, p): (usize, &Value)| json!({"id": format!("p{}", i % 17), "contents": p["text"]});
    bench.write("twice.jsonl", lines(&passages().iter().enumerate().map(contents).collect::<Vec<_>>()));
    let says = ["twice.jsonl", "passages 0 and 17 both have the id \"p0\""];
    bench.refuses(&mut bench.run_with("corpus.source=twice.jsonl"), &says);

    let whole = gzip(&lines(&passages()));
    bench.write("cut.jsonl.gz", &whole[..whole.len() / 2]);
    bench.refuses(&mut bench.run_with("corpus.source=cut.jsonl.gz"), &["cut.jsonl.gz: ", "truncated", "in line"]);
}

#[test]
fn a_wrong_method_is_refused_before_a_corpus_is_looked_for() {
    let dir = tempfile::tempdir().unwrap();
    for (wrong, says) in [
        ("kk = 3", "unknown field `kk`"),
        ("k = 0", "`k` = 0: must be at least 1"),
        ("retriever = \"dense\"", "`retriever` = \"dense\""),
    ] {
        let retriever = if wrong.starts_with("retriever") { "" } else { "retriever = \"sparse\"\n" };
        let job = format!(
            "name = \"early\"\n[dataset]\nquestions = \"absent.json\"\n[corpus]\nsource = \"absent.jsonl\"\n\
             [service.sparse]\nkind = \"bm25\"\n[method.a]\nkind = \"one_step\"\n{retriever}{wrong}\n"
        );
        std::fs::write(dir.path().join("early.toml"), job).unwrap();
        for command in [&["run", "early.toml"][..], &["plan", "early.toml"], &["run", "early.toml", "--show-settings"]]
        {
            refused(&run(&mut hopeval(dir.path(), command)), &["early.toml: configuration `a`", says]);
        }
    }
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["early.toml"], "nothing is made for a job that is refused");
}

#[test]
fn a_wrong_job_says_where_and_what_is_allowed() {
    let bench = Bench::new();
    let refuses = |from: &str, to: &str, says: &[&str]| {
        bench.refuses(&mut bench.changed_job(from, to), says);
    };
    refuses("recall_at", "recal_at", &["changed.toml", "line 16", "unknown field `recal_at`", "`recall_at`"]);
    refuses("name =", "nam =", &["changed.toml", "unknown field `nam`", "`name`"]);
    refuses("kind = \"bm25\"", "kind = \"bm25\"\nk2 = 1", &["changed.toml", "line 7", "unknown field `k2`", "`k1`"]);
    refuses("kind = \"bm25\"", "kind = \"bm26\"", &["changed.toml", "unknown variant `bm26`", "`bm25`"]);
    refuses("k = 5", "depth = 5", &["changed.toml: configuration `bm25`", "unknown field `depth`", "`k`"]);
    let says = ["changed.toml: configuration `bm25`", "`two_step`", "one_step", "iterative_title"];
    refuses("\"one_step\"", "\"two_step\"", &says);
    let says = ["changed.toml: configuration `bm25`", "`retriever` = \"dense\"", "the job has sparse"];
    refuses("retriever = \"sparse\"", "retriever = \"dense\"", &says);
    refuses("[2, 5]", "[5, 5]", &["measures.recall_at: 5", "occur once"]);
    refuses("[2, 5]", "[0]", &["measures.recall_at: 0", "at least 1"]);
    refuses("k = 5", "k = 0", &["configuration `bm25`", "`k` = 0: must be at least 1"]);
    refuses("k = 5", "[method.bm25.sweep]\nk = []", &["changed.toml", "`method.bm25.sweep.k` = []", "at least one"]);
    refuses("k = 5", "[method.bm25.sweep]\nk = [5, 9, 5]", &["`method.bm25.sweep.k` = 5 twice", "occur once"]);
    let says = ["`method.bm25.sweep.k` = swept, and 5 in `method.bm25`", "not both"];
    refuses("k = 5", "k = 5\n[method.bm25.sweep]\nk = [5, 9]", &says);
    // A dense index makes its vectors itself.
    let endpoint = "[service.e]\nkind = \"endpoint\"\nmodel = \"m\"\nanswers = [\"embed\"]\n[service.d]\n\
                    kind = \"dense\"\nencoder = \"e\"\n[method.bm25]";
    refuses("[method.bm25]", endpoint, &["`service.d.encoder` = e", "a service of kind \"lm\""]);
    refuses("name = \"tiny\"", "name = ", &["changed.toml", "line 1"]);
    let world = |settings: &str| {
        bench.write(
            "world.toml",
            format!("name = \"w\"\n[dataset.world]\n{settings}\n[method.random]\nkind = \"random\"\n"),
        );
        bench.command(&["run", "world.toml"])
    };
    let refuses = |settings: &str, says: &str| bench.refuses(&mut world(settings), &["world.toml", says]);
    refuses("questions = 0\npassages = 400", "`dataset.world.questions` = 0; allowed: 1 to 10000000");
    refuses("questions = 9\npassages = 399", "`dataset.world.passages` = 399; allowed: 400 to 3000000");
    refuses(
        "questions = 9\npassages = 400\nsplit = \"test\"",
        "`dataset.world.split` = \"test\"; allowed: \"train\" or",
    );
    bench.refuses(&mut bench.command(&["run", "no-such.toml"]), &["no-such.toml: cannot read", "No such file"]);
}

#[test]
fn what_exceeds_a_bound_is_an_error_that_names_it() {
    let bench = Bench::new();
    let values = (1..=1000).map(|i| i.to_string()).collect::<Vec<_>>().join(", ");
    let sweep: String = ["k", "a", "b", "c", "d"].map(|key| format!("{key} = [{values}]\n")).concat();
    let job = format!(
        "name = \"b\"\n[dataset.world]\nquestions = 10\npassages = 500\n[method.r]\nkind = \"random\"\n\
         [method.r.sweep]\n{sweep}"
    );
    bench.write("sweep.toml", job);
    bench.refuses(
        &mut bench.command(&["run", "sweep.toml"]),
        &["method.r.sweep", "1000 x 1000", "at most 10000 configurations"],
    );
    bench.write("long.toml", format!("name = {}", "x".repeat(100_000)));
    let said = bench.refuses(&mut bench.command(&["run", "long.toml"]), &["long.toml", "… (1000"]);
    assert!(said.len() < 5_000, "{} bytes are said", said.len());
    bench.write("huge.toml", "#".repeat(17 << 20));
    bench.refuses(&mut bench.command(&["run", "huge.toml"]), &["huge.toml", "16777216 bytes"]);
    bench.refuses(&mut bench.command(&["run", "/dev/zero"]), &["/dev/zero", "16777216 bytes"]);
    let world = "dataset.world.questions=9000000000000000000";
    bench.refuses(&mut bench.command(&["run", "--set", world]), &["dataset.world.questions", "10000000"]);
    let world = ["world", "--questions", "9000000000000000000", "--out", "w"];
    bench.refuses(&mut bench.command(&world), &["questions", "10000000"]);
    bench.refuses(&mut bench.command(&["run", "job.toml", "--threads", "1000000"]), &["--threads", "1 to 4096"]);
    let workers = ["run", "job.toml", "--workers", "1024", "--processes", "1024"];
    bench.refuses(&mut bench.command(&workers), &["--workers 1024", "4096 in all"]);
    nix::unistd::mkfifo(&bench.dir.path().join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    for path in ["/dev/zero", "/dev/urandom", "pipe"] {
        bench.refuses(&mut bench.command(&["data", "check", path]), &[path, "a pipe or a device", "regular file"]);
    }
    bench.is_as_it_was();
}

#[test]
fn a_wrong_override_is_named() {
    let bench = Bench::new();
    let refuses = |set: &str, says: &[&str]| {
        bench.refuses(&mut bench.run_with(set), says);
    };
    refuses("dataset.depth=3", &["--set dataset.depth=3", "unknown field `depth`", "`limit`"]);
    refuses("nonsense", &["--set nonsense", "expected KEY=VALUE"]);
    refuses("name.first=x", &["--set name.first=x", "not a table"]);
    refuses("run.chunk=-1", &["--set run.chunk=-1", "run.chunk"]);
    refuses("dataset.limit=0", &["`dataset.limit` = 0", "at least 1"]);
    bench.refuses(&mut bench.command(&["run", "job.toml", "--limit", "0"]), &["--limit", "at least 1"]);
    // A mistake in the file is reported with its line, whatever was overridden.
    bench.write("changed.toml", JOB.replace("recall_at", "recal_at"));
    let mut command = bench.command(&["run", "changed.toml", "--set", "method.bm25.k=4"]);
    bench.refuses(&mut command, &["changed.toml", "line 16", "`recal_at`"]);
}

#[test]
fn paths_that_cannot_be_read_or_written_are_named() {
    let bench = Bench::new();
    let refuses = |set: &str, says: &[&str]| {
        bench.refuses(&mut bench.run_with(set), says);
    };
    refuses("dataset.questions=nowhere.json", &["nowhere.json: cannot read", "No such file"]);
    refuses("corpus.source=nowhere.jsonl", &["nowhere.jsonl: cannot read", "No such file"]);
    bench.write("a-file", "");
    std::fs::create_dir(bench.dir.path().join("a-folder")).unwrap();
    refuses("dataset.questions=a-folder", &["a-folder"]);
    let mut command = hopeval(bench.dir.path(), &["run", "job.toml", "--store", "a-file"]);
    bench.refuses(&mut command, &["a-file", "File exists"]);
    let mut export = bench.command(&["export", &bench.run, "--format", "trec", "--configuration", "bm25"]);
    bench.refuses(export.args(["--out", "nowhere/run.trec"]), &["nowhere/run.trec", "No such file"]);
}

#[test]
fn a_store_that_is_not_there_is_not_made_by_looking() {
    let bench = Bench::new();
    for arguments in [&["show"][..], &["ls"], &["rescore"], &["requests"], &["resume", "latest"]] {
        for store in ["typo", "file:///no-such-folder/typo"] {
            let mut command = hopeval(bench.dir.path(), arguments);
            bench.refuses(command.args(["--store", store]), &[store, "there is no such folder"]);
        }
    }
    assert!(!bench.dir.path().join("typo").exists());
}

/// A machine's metadata service without roles.
fn metadata_service_without_roles() -> std::net::SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut request = [0; 1024];
            let _ = std::io::Read::read(&mut stream, &mut request);
            let _ = stream.write_all(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        }
    });
    address
}

#[test]
fn a_bucket_without_credentials_is_bad_input() {
    let bench = Bench::new();
    let metadata = metadata_service_without_roles();
    for arguments in [&["run", "job.toml"][..], &["ls"]] {
        let mut command = hopeval(bench.dir.path(), arguments);
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("AWS_")) {
            command.env_remove(name);
        }
        command.env("AWS_METADATA_ENDPOINT", format!("http://{metadata}")).args(["--store", "s3://bucket/runs"]);
        command.args(["--cache", "cache"]);
        bench.refuses(&mut command, &["s3://bucket/runs", "no credentials were found", "AWS_ACCESS_KEY_ID"]);
    }
}

#[test]
fn the_beginning_of_several_ids_lists_the_runs() {
    let bench = Bench::new();
    let out = succeed(&mut bench.command(&["run", "job.toml", "--json"]));
    let second: Value = serde_json::from_str(&out).unwrap();
    let second = second["run"].as_str().unwrap();
    let says = ["`20` is the beginning of 2 runs", &format!("{}, {second}", bench.run)];
    refused(&run(&mut bench.command(&["show", "20"])), &says);
    refused(&run(&mut bench.command(&["show", "30"])), &["there is no run `30`"]);
}

#[test]
fn rows_can_be_set_aside_instead() {
    let bench = Bench::new();
    let mut rows = questions();
    rows[1]["answer"] = json!(7);
    rows[5]["supporting_facts"][0][0] = json!("Nowhere");
    bench.write("bad.json", array(&rows));
    let mut command = bench.run_with("dataset.questions=bad.json");
    let document: Value = serde_json::from_str(&succeed(command.args(["--quarantine", "aside", "--json"]))).unwrap();
    assert_eq!((&document["questions"], &document["quarantined"]), (&json!(4), &json!(2)));
    assert_eq!(harness::measure(&document, "oracle", "all", "em")["n"], 4);
    assert_eq!(harness::measure(&document, "bm25", "all", "recall_frac@5")["value"], 1.0);
    let shown = succeed(&mut bench.command(&["show", document["run"].as_str().unwrap()]));
    assert!(shown.contains("4 questions") && shown.contains("2 rows set aside"), "{shown}");

    let aside = std::fs::read_to_string(bench.dir.path().join("aside")).unwrap();
    let aside: Vec<Value> = aside.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told = |i: usize| aside[i]["error"].as_str().unwrap();
    assert!(told(0).contains("bad.json:3: record 2: field `answer`"), "{}", told(0));
    assert!(told(1).contains("bad.json:7: question `q5`: field `gold`"), "{}", told(1));
    let row: Value = serde_json::from_str(aside[0]["row"].as_str().unwrap()).unwrap();
    assert_eq!(row, rows[1], "the row is kept as it was");
    assert_eq!(aside.len(), 2);
    assert!(final_tables(&bench.store(), &bench.run) == bench.tables);

    // Wrong rows give a corpus of contexts no passages, either.
    let contexts = || {
        let mut command = bench.run_with("dataset.questions=bad.json");
        command.args(["--set", "corpus.source=contexts", "--json"]);
        command
    };
    refused(&run(&mut contexts()), &["bad.json:3: record 2: field `answer`"]);
    let document: Value = serde_json::from_str(&succeed(contexts().args(["--quarantine", "contexts"]))).unwrap();
    assert_eq!((&document["questions"], &document["quarantined"]), (&json!(4), &json!(2)));
    refused(&run(&mut contexts()), &["bad.json:3: record 2: field `answer`"]);

    // A quarantine that cannot be written loses rows, so it is an error.
    let bench = Bench::new();
    bench.write("bad.json", array(&rows));
    let mut command = bench.run_with("dataset.questions=bad.json");
    bench.refuses(command.args(["--quarantine", "nowhere/aside"]), &["nowhere/aside", "cannot write the quarantine"]);
    if Path::new("/dev/full").exists() {
        let mut command = bench.run_with("dataset.questions=bad.json");
        bench.refuses(command.args(["--quarantine", "/dev/full"]), &["/dev/full", "No space left"]);
    }
}

#[test]
fn what_another_version_wrote_is_refused_and_hides_nothing() {
    let bench = Bench::new();
    let record = bench.store().join("runs").join(&bench.run).join("run.json");
    let good = std::fs::read_to_string(&record).unwrap();
    let other = good.replacen("\"schema_version\": 1", "\"schema_version\": 9", 1);
    assert_ne!(good, other);
    std::fs::write(&record, other).unwrap();
    for command in ["show", "resume", "rescore"] {
        let output = run(&mut bench.command(&[command, &bench.run]));
        refused(&output, &["run.json", "schema version 9", "reads version 1"]);
    }
    // A listing shows the readable runs beside the unreadable one.
    let out = succeed(&mut bench.command(&["run", "job.toml", "--json"]));
    let second: Value = serde_json::from_str(&out).unwrap();
    let second = second["run"].as_str().unwrap().to_owned();
    let states = bench.runs();
    assert_eq!(states, [(bench.run.clone(), "not readable".to_owned()), (second.clone(), "finished".to_owned())]);
    std::fs::write(&record, good).unwrap();
    std::fs::remove_dir_all(bench.store().join("runs").join(second)).unwrap();
    bench.is_as_it_was();

    // The commit log.
    let record = bench.store().join("runs").join(&bench.run).join("log/00000000000000000001.json");
    let good = std::fs::read_to_string(&record).unwrap();
    std::fs::write(&record, good.replacen("\"version\": 1", "\"version\": 9", 1)).unwrap();
    refused(&run(&mut bench.command(&["show", &bench.run])), &["00000000000000000001.json", "format version 9"]);
    std::fs::write(&record, good).unwrap();

    // A final table, the one that the log names: a change of it is damage, whatever the change says.
    let table = bench.only(&format!("runs/{}/tables", bench.run), "").join("measures.parquet");
    let good = std::fs::read(&table).unwrap();
    let key = b"hopeval.schema_version";
    let at = good.windows(key.len()).rposition(|window| window == key).unwrap();
    let mut other = good.clone();
    other[at + key.len() - 1] = b'm';
    std::fs::write(&table, other).unwrap();
    refused(
        &run(&mut bench.command(&["show", &bench.run])),
        &["measures.parquet` is damaged: its BLAKE3 digest is", "hint: `hopeval resume RUN` writes the tables"],
    );
    std::fs::write(&table, good).unwrap();
    bench.is_as_it_was();

    // A segment of the journal, which every run reads: version u32 at 20 of the trailer's 40 bytes.
    let segment = bench.only("journal", ".seg");
    let good = std::fs::read(&segment).unwrap();
    let mut other = good.clone();
    let at = other.len() - 20;
    assert_eq!(other[at], 1);
    other[at] = 9;
    std::fs::write(&segment, other).unwrap();
    refused(&run(&mut bench.command(&["plan", "job.toml"])), &[".seg", "format version 9", "reads versions 1 to 2"]);
    std::fs::write(&segment, good).unwrap();
    bench.is_as_it_was();
}

#[test]
fn a_corrupt_index_is_found_before_it_can_change_a_figure() {
    let bench = Bench::new();
    let index = bench.only("cache/indexes", ".idx");
    let name = index.file_name().unwrap().to_str().unwrap().to_owned();
    let good = std::fs::read(&index).unwrap();
    let restore = || std::fs::write(&index, &good).unwrap();
    // The last non-zero byte of the postings is as well guarded as the header.
    let quiet = good.iter().rposition(|&byte| byte != 0).unwrap();
    for at in [3, 8, 20, 30, 60, quiet] {
        flip(&index, at);
        let output = run(&mut bench.command(&["run", "job.toml"]));
        refused(&output, &["service.sparse", &name, "hint: delete the file and build it again"]);
        restore();
    }
    std::fs::write(&index, &good[..good.len() / 2]).unwrap();
    let says = [name.as_str(), "its header says", "hint: delete the file"];
    refused(&run(&mut bench.command(&["run", "job.toml"])), &says);
    // The hint helps.
    std::fs::remove_file(&index).unwrap();
    succeed(&mut bench.command(&["index", "build", "job.toml"]));
    bench.is_as_it_was();
    assert!(std::fs::read(&index).unwrap() == good, "an index is built again as it was");
}

#[test]
fn a_corrupt_corpus_says_what_to_do() {
    let bench = Bench::new();
    let folder = std::fs::read_dir(bench.store().join("cache/corpora")).unwrap().next().unwrap().unwrap().path();
    let passages = folder.join("passages.arrow");
    let good = std::fs::read(&passages).unwrap();
    std::fs::write(&passages, &good[..100]).unwrap();
    refused(&run(&mut bench.command(&["run", "job.toml"])), &["cannot open the corpus", "passages.arrow", "truncated"]);
    // A letter of a text: nothing but a digest tells it from another text.
    let mut other = good.clone();
    let town = other.windows(6).position(|window| window == b"Town 1").unwrap();
    other[town] ^= 1;
    std::fs::write(&passages, other).unwrap();
    refused(&run(&mut bench.command(&["run", "job.toml"])), &["passages.arrow", "corpus.json states"]);
    std::fs::write(&passages, good).unwrap();
    bench.is_as_it_was();
}

/// A small file system that is unmounted at the end.
struct Small(PathBuf);

impl Small {
    fn mount(path: PathBuf, kilobytes: usize) -> Option<Self> {
        std::fs::create_dir_all(&path).unwrap();
        let size = format!("size={kilobytes}k");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(&path).output();
        mounted.is_ok_and(|output| output.status.success()).then_some(Self(path))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        drop(Command::new("umount").arg(&self.0).output());
    }
}

#[test]
fn a_full_disk_leaves_earlier_runs_and_can_be_resumed() {
    let bench = Bench::new();
    let copy = |to: &Path| {
        let status = Command::new("cp").arg("-r").arg(bench.store()).arg(to).status().unwrap();
        assert!(status.success());
    };
    // How much the store takes on such a file system, in whole pages, is what it may hold before the second run.
    let Some(large) = Small::mount(bench.dir.path().join("large"), 4096) else {
        eprintln!("SKIPPED: a_full_disk: a small tmpfs cannot be mounted here");
        return;
    };
    copy(&large.0.join("store"));
    let free = |path: &Path| {
        let text = Command::new("df").args(["-k", "--output=used"]).arg(path).output().unwrap().stdout;
        String::from_utf8(text).unwrap().lines().nth(1).unwrap().trim().parse::<usize>().unwrap()
    };
    let used = free(&large.0);
    drop(large);
    // `--set` gives the run requests of its own, so that it has something to write to the journal.
    let second = ["run", "job.toml", "--set", "method.bm25.k=7"];
    let whole = succeed(hopeval(bench.dir.path(), &second).args(["--store", "whole", "--json"]));
    let whole: Value = serde_json::from_str(&whole).unwrap();
    let expected = final_tables(&bench.dir.path().join("whole"), whole["run"].as_str().unwrap());
    let mut resumed = 0;
    // From no space at all to nearly enough: making the run, the journal, outcomes, the log, tables.
    for extra in [0, 8, 16, 32, 48, 64, 88] {
        let small = Small::mount(bench.dir.path().join(format!("small-{extra}")), used + extra).unwrap();
        let store = small.0.join("store");
        copy(&store);
        let store = store.to_str().unwrap();
        let command = |arguments: &[&str]| {
            let mut command = hopeval(bench.dir.path(), arguments);
            command.args(["--store", store]);
            command
        };
        let output = run(&mut command(&second));
        let said = refused(&output, &[store, "no space is left"]);
        assert_eq!(succeed(&mut command(&["show", &bench.run])).lines().next(), bench.shown.lines().next());
        assert!(final_tables(Path::new(store), &bench.run) == bench.tables);
        let listed: Value = serde_json::from_str(&succeed(&mut command(&["ls", "--json"]))).unwrap();
        let runs = listed["runs"].as_array().unwrap();
        assert_eq!((&runs[0]["run"], &runs[0]["state"]), (&json!(bench.run), &json!("finished")));
        if let Some(run) = runs.get(1) {
            assert_eq!(run["state"], "not finished");
            let begun = run["generations"] != 0;
            let run = run["run"].as_str().unwrap();
            // If not even its first generation was recorded, there is nothing to resume, but the run can be begun.
            assert_eq!(said.contains(&format!("hint: make space; then `hopeval resume {run}`")), begun, "{said}");
            let grow = format!("remount,size={}k", used + 1024);
            assert!(Command::new("mount").args(["-o", &grow]).arg(&small.0).status().unwrap().success());
            succeed(&mut command(&["resume", run]));
            assert!(final_tables(Path::new(store), run) == expected, "resumed after {extra} kilobytes");
            resumed += 1;
        }
    }
    assert!(resumed > 0, "no run got so far that it could be resumed");
}

#[test]
fn output_that_cannot_be_written_is_an_error() {
    if !Path::new("/dev/full").exists() {
        eprintln!("SKIPPED: output_that_cannot_be_written: no /dev/full here");
        return;
    }
    let bench = Bench::new();
    let export = ["export", &bench.run, "--format", "trec", "--configuration", "bm25"];
    bench.refuses(bench.command(&export).args(["--out", "/dev/full"]), &["/dev/full", "No space left"]);
    for arguments in [&export[..], &["show", &bench.run], &["ls"]] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        refused(&run(bench.command(arguments).stdout(full)), &["No space left"]);
    }
    bench.is_as_it_was();
}

#[test]
fn unknown_names_list_what_there_is() {
    let bench = Bench::new();
    let run = bench.run.as_str();
    let refuses = |arguments: &[&str], says: &[&str]| {
        bench.refuses(&mut bench.command(arguments), says);
    };
    refuses(&["show", "2031"], &["no run `2031`", "store"]);
    refuses(&["show", run, "--measure", "exact"], &["no measure `exact`", "em, f1", "recall_frac@2"]);
    refuses(&["show", run, "--stratum", "type=x"], &["no stratum `type=x`", "all, hops=2, type=bridge"]);
    refuses(&["show", run, "--question", "q9"], &["no question `q9`", run]);
    refuses(&["show", run, "--question", "q1", "--configuration", "x"], &["no configuration `x`", "bm25, oracle"]);
    refuses(&["export", run, "--format", "trec", "--configuration", "x"], &["no configuration `x`", "bm25, oracle"]);
    refuses(&["export", run, "--format", "xml", "--configuration", "bm25"], &["`xml`", "trec, qrels, hotpotqa"]);
}

#[test]
fn a_mesh_that_cannot_be_formed_leaves_no_run() {
    let bench = Bench::new();
    let id = bench.run.as_str();
    let allowed = "allowed is host:port for each process";
    for (options, says) in [
        (&["--hosts", "a:4500", "--processes", "2", "--process", "0"][..], "--hosts names 1 processes"),
        (&["--hosts", "a:4500,b:4500", "--processes", "2"], "--process is needed too"),
        (&["--hosts", "a,b:4500"], "`a` has no port; allowed is host:port for each process, as node1:4500"),
        (&["--hosts", "a:4500,b:4500x", "--processes", "2", "--process", "1"], "`b:4500x` has no port from 1 to 65535"),
        (&["--hosts", "a:0,b:4500"], "`a:0` has no port from 1 to 65535"),
        (&["--hosts", ":4500,b:4500"], "`:4500` names no host"),
        (&["--hosts", "::1:4500,b:4500"], "`::1:4500` is an IPv6 address without brackets"),
        (&["--hosts", "a:4500,a:4500"], "`a:4500` is there twice"),
        (&["--hosts", "a:1,b:1", "--processes", "2", "--process", "0"], "HOPEVAL_MESH_TOKEN is not set"),
        (
            &["--hosts", "127.0.0.1:1,0.0.0.0:1", "--processes", "2", "--process", "0"],
            "hint: set it to the same secret",
        ),
        (&["--stall-bound", "0"], "--stall-bound 0: more than 0 seconds are allowed"),
    ] {
        let says = if says.starts_with('`') { &[says, allowed][..] } else { &[says] };
        bench.refuses(bench.command(&["run", "job.toml"]).args(options), says);
        bench.refuses(bench.command(&["resume", id]).args(options), says);
    }
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().map(|address| (address.to_string(), taken)).unwrap();
    for processes in ["1", "2"] {
        let options = ["--metrics", &taken.0, "--processes", processes];
        let says = ["--metrics: metrics cannot be served on", taken.0.as_str(), "in use", "hint: give a free port"];
        bench.refuses(bench.command(&["run", "job.toml"]).args(options), &says);
        bench.refuses(bench.command(&["resume", id]).args(options), &says);
    }
    // Nor a store, where there was none.
    let output = run(&mut hopeval(bench.dir.path(), &["run", "job.toml", "--store", "new", "--hosts", "a,b"]));
    refused(&output, &["`a` has no port"]);
    assert!(!bench.dir.path().join("new").exists());
}

#[test]
fn impossible_figures_are_refused_before_evaluation() {
    let bench = Bench::new();
    let mut options = vec![
        (vec!["--measure", "exact"], ["no measure `exact`; the run has em, f1", "recall_frac@2"]),
        (vec!["--stratum", "type=x"], ["no stratum `type=x`; the run has all", "hops=2, type=bridge"]),
    ];
    for (options, says) in &mut options {
        for _ in 0..2 {
            let before = bench.runs().len();
            for command in [&["show", &bench.run], &["resume", &bench.run], &["run", "job.toml"]] {
                bench.refuses(bench.command(command).args(&*options), &says[..]);
            }
            assert_eq!(bench.runs().len(), before, "a run was left behind");
            options.push("--json");
        }
    }
    // Nor does a run begin whose metrics nobody could read.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let says = [&*format!("metrics cannot be served on {address}: "), "hint: give a free port"];
    bench.refuses(&mut bench.command(&["run", "job.toml", "--metrics", &address]), &says);
    bench.refuses(&mut bench.command(&["run", "job.toml", "--metrics", &address, "--processes", "2"]), &says);
    bench.is_as_it_was();
}

#[test]
fn the_address_of_a_bucket_is_looked_at_before_it_is_used() {
    let dir = tempfile::tempdir().unwrap();
    for (variable, value) in [
        ("AWS_ENDPOINT_URL", "localhost:9000"),
        ("AWS_ENDPOINT_URL_S3", "notaurl"),
        ("AWS_ENDPOINT", "http://"),
        ("AWS_ENDPOINT_URL", "http://a b"),
    ] {
        let mut command = hopeval(dir.path(), &["ls", "--store", "s3://bucket/runs"]);
        for name in ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"] {
            // An empty variable counts as not set, and hides no other.
            command.env(name, "");
        }
        command.env(variable, value).env("AWS_ACCESS_KEY_ID", "test").env("AWS_SECRET_ACCESS_KEY", "test");
        let named = format!("{variable} is `{value}`: ");
        refused(&run(&mut command), &["s3://bucket/runs", &named, "allowed are http://HOST and https://HOST"]);
    }
}

#[test]
fn messages_say_what_would_be_right() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("x.parquet"), b"PAR1\x15\x04").unwrap();
    let refuses = |arguments: &[&str], says: &[&str]| {
        refused(&run(&mut hopeval(dir.path(), arguments)), says);
    };
    refuses(&["train-data", "--out", "o"], &["--questions <FILE>...|--run <RUN>"]);
    refuses(&["data", "check", "x.parquet"], &["x.parquet: cannot be read as Parquet", "damaged"]);
    std::fs::write(dir.path().join("x.txt"), "Question: which?\n").unwrap();
    refuses(&["data", "check", "x.txt"], &["an array, an object or lines", "TSV, CSV", "Parquet", "`fields`"]);
    let says =
        ["--model hopeval:nothing", "hopeval has no such model; allowed: the folder of a model", "hopeval:scorer"];
    refuses(&["lm", "score", "--model", "hopeval:nothing"], &says);
    refuses(&["lm", "score", "--model", "nowhere/model"], &["no such folder, and not in ", "allowed: "]);
    let whole = "allowed is a whole number, at least 1";
    refuses(&["run", "--limit", "-3"], &["invalid value '-3' for '--limit <LIMIT>'", whole]);
    refuses(&["world", "--questions", "0", "--out", "w"], &["invalid value '0' for '--questions <QUESTIONS>'", whole]);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2, "nothing was made");
}

#[test]
fn an_empty_variable_is_an_unset_one() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = hopeval(dir.path(), &["world", "--questions", "4", "--passages", "400", "--out", "world"]);
    let output = run(command.env("HOPEVAL_STORE", "").env("HOPEVAL_CACHE", ""));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
