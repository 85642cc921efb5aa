//! Shared support of the tests of the whole: the binary, folders, jobs, and readers of a run's results.

#![expect(unreachable_pub, reason = "a module of test files")]
#![expect(clippy::print_stderr, reason = "a test that skips itself says so")]

use hopeval_methods::{MethodSetting, RequestKind};
use hopeval_results::journal::scan_segment;
use hopeval_results::{Log, Store, layout};
use nix::sys::signal::Signal;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The binary under test.
pub const HOPEVAL: &str = env!("CARGO_BIN_EXE_hopeval");

/// Real data beside the repository; `None`, said loudly, where it is not.
pub fn shared(test: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared");
    if path.join("data").is_dir() {
        return Some(path);
    }
    eprintln!("SKIPPED: {test}: no ../shared beside the repository");
    None
}

/// A command of the binary in `dir`, with an environment isolated from the machine's.
pub fn hopeval(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(HOPEVAL);
    command.current_dir(dir).args(arguments).env("NO_COLOR", "1");
    for name in ["HOPEVAL_STORE", "HOPEVAL_CACHE", "HOPEVAL_MESH_TOKEN", "RUST_LOG"] {
        command.env_remove(name);
    }
    command
}

/// Runs a command to its end.
pub fn run(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// Runs a command that must succeed and returns its standard output.
pub fn succeed(command: &mut Command) -> String {
    let output = run(command);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?} ended with {}\n{out}\n{err}", output.status);
    out.into_owned()
}

/// The time limit of a step. No machine needs as long.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Polls until `found` returns something, and gives up after [`LIMIT`].
pub fn wait_for<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(begun.elapsed() < LIMIT, "no {what} in {LIMIT:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Starts a command, and kills it once the first run of `store` has two commits.
pub fn kill_after_commits(command: &mut Command, store: &Path) {
    // The fence, and two commits.
    kill_after_records(command, store, 3);
}

/// Starts a command, and kills it once the log of the first run of `store` has `records` records, of any generation.
/// The run is unfinished then: if it ended before it could be killed, as it may on a busy machine, a store that the
/// command made is removed and the command is started again. A command that fails by itself is no killed one.
pub fn kill_after_records(command: &mut Command, store: &Path, records: usize) {
    const MOST_TRIALS: usize = 10;
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let is_new = !store.exists();
    for _ in 0..MOST_TRIALS {
        let mut child = command.spawn().expect("the command can be started");
        wait_for("commit to kill after", || {
            let ended = child.try_wait().expect("a child can be asked").is_some();
            (ended || records_of_first_run(store) >= Some(records)).then_some(())
        });
        child.kill().expect("a child can be killed");
        let status = child.wait().expect("a killed child ends");
        let was_killed = status.signal() == Some(Signal::SIGKILL as i32);
        assert!(was_killed || status.success(), "{command:?} was to be killed, and ended with {status}");
        let run = first_run(store).expect("the command begins a run");
        let run = run.file_name().expect("a run has a name").to_str().expect("names of runs are ASCII").to_owned();
        let opened = Store::open(store.to_str().expect("folders of tests are text")).expect("a store can be opened");
        let log = Log::open(&opened, &run).expect("the log of a killed run can be read");
        if log.state().finished.is_none() {
            assert!(
                records_of_first_run(store) >= Some(records),
                "it ended before there was a commit to kill it after"
            );
            return;
        }
        assert!(is_new, "the run went on to its end before it could be killed");
        std::fs::remove_dir_all(store).expect("a store can be removed");
    }
    panic!("{MOST_TRIALS} runs ended before they could be killed");
}

fn first_run(store: &Path) -> Option<PathBuf> {
    Some(std::fs::read_dir(store.join("runs")).ok()?.flatten().next()?.path())
}

/// How many records the log of the first run of a store has.
fn records_of_first_run(store: &Path) -> Option<usize> {
    // An unfinished record has a name with `#`.
    let written = |file: &std::fs::DirEntry| !file.file_name().to_string_lossy().contains('#');
    Some(std::fs::read_dir(first_run(store)?.join("log")).ok()?.flatten().filter(written).count())
}

/// How often each request was written to the journal, and by how many segments. A merged segment counts as those that
/// it replaces; they stand beside it for a while.
pub fn journal(store: &Store) -> (BTreeMap<String, usize>, usize) {
    let mut written = BTreeSet::new();
    for (segment, _) in store.list(layout::JOURNAL).expect("a journal can be listed") {
        let entries = scan_segment(store, &segment).expect("a segment can be read").into_iter();
        written.extend(entries.map(|it| (it.origin, it.key.to_string())));
    }
    let origins: BTreeSet<_> = written.iter().map(|(origin, _)| Arc::clone(origin)).collect();
    let mut times = BTreeMap::new();
    written.into_iter().for_each(|(_, key)| *times.entry(key).or_insert(0) += 1);
    (times, origins.len())
}

/// The bytes of the three tables that must not depend on workers, crashes and restarts.
pub fn final_tables(store: &Path, run: &str) -> Vec<Vec<u8>> {
    let table = |name: &str| store.join("runs").join(run).join("final").join(format!("{name}.parquet"));
    ["outcomes", "scores", "measures"]
        .map(|name| std::fs::read(table(name)).unwrap_or_else(|error| panic!("{}: {error}", table(name).display())))
        .to_vec()
}

/// A small job over a generated world of many questions: every method that needs no model.
pub const WORLD_JOB: &str = r#"
name = "small-world"
[dataset.world]
questions = 300
passages = 2000
seed = 7
[service.bm25]
kind = "bm25"
[service.tfidf]
kind = "tfidf"
[method.bm25]
kind = "one_step"
retriever = "bm25"
[method.bm25.sweep]
k = [5, 20]
[method.tfidf_bm25]
kind = "tfidf_bm25"
retriever = "tfidf"
reranker = "bm25"
[method.hops]
kind = "iterative_title"
retriever = "bm25"
[method.given]
kind = "given"
retriever = "bm25"
[method.random]
kind = "random"
[method.oracle]
kind = "oracle"
[run]
chunk = 8
"#;

/// Writes [`WORLD_JOB`] into `dir`.
pub fn world_job(dir: &Path) -> PathBuf {
    let path = dir.join("job.toml");
    std::fs::write(&path, WORLD_JOB).expect("the job can be written");
    path
}

/// Every service and every method that needs no model, for jobs over many questions.
pub const METHODS_WITHOUT_MODELS: &str = r#"
[service.bm25]
kind = "bm25"
[service.tfidf]
kind = "tfidf"
[method.bm25]
kind = "one_step"
retriever = "bm25"
k = 20
[method.tfidf]
kind = "one_step"
retriever = "tfidf"
k = 20
[method.tfidf_bm25]
kind = "tfidf_bm25"
retriever = "tfidf"
reranker = "bm25"
[method.iterative_title]
kind = "iterative_title"
retriever = "bm25"
[method.given]
kind = "given"
retriever = "bm25"
[method.random]
kind = "random"
[method.oracle]
kind = "oracle"
"#;

/// The services and methods left out by [`METHODS_WITHOUT_MODELS`], over the binary's small embedded models.
/// The scorer writes no JSON, so every question of methods whose generator must write it fails.
const METHODS_WITH_MODELS: &str = r#"
[service.links]
kind = "link_tfidf"
[service.shuffled]
kind = "shuffled_links"
seed = 2
[service.scorer]
kind = "lm"
model = "hopeval:scorer"
threads = 1
batch_tokens = 8192
[service.reader]
kind = "lm"
model = "hopeval:reader"
threads = 1
[service.labeler]
kind = "lm"
model = "hopeval:labeler"
threads = 1
[service.filter]
kind = "lm"
model = "hopeval:filter"
threads = 1
[service.encoder]
kind = "lm"
model = "hopeval:encoder"
threads = 1
[service.dense]
kind = "dense"
encoder = "encoder"
[service.unused]
kind = "endpoint"
model = "nothing asks it"
base_url = "http://127.0.0.1:9/v1"
[service.unused_retriever]
kind = "http_retriever"
url = "http://127.0.0.1:9/search"
index = "nothing asks it"
[method.dense]
kind = "one_step"
retriever = "dense"
k = 20
[method.efficientrag]
kind = "efficientrag"
retriever = "dense"
labeler = "labeler"
filter = "filter"
reader = "reader"
k = 4
[method.promptrank]
kind = "promptrank"
retriever = "tfidf"
link_ranker = "links"
scorer = "scorer"
pool = 6
first_hops = 3
reader = "reader"
read_paths = 3
[method.shuffled]
kind = "promptrank"
control = "shuffled links"
retriever = "tfidf"
links = "shuffled"
scorer = "scorer"
pool = 6
first_hops = 3
[method.decompose]
kind = "decompose"
generator = "scorer"
retriever = "bm25"
decomposition_prompt = "{question}"
prompt = "{knowledge} {question}"
max_tokens = 4
[method.iter_retgen]
kind = "iter_retgen"
retriever = "bm25"
generator = "scorer"
prompt = "{knowledge} {question}"
k = 2
max_tokens = 4
[method.self_ask]
kind = "self_ask"
generator = "scorer"
retriever = "bm25"
prompt = "{question}"
k = 2
max_tokens = 4
[method.react]
kind = "react"
generator = "scorer"
retriever = "bm25"
prompt = "{question}"
most_steps = 2
max_tokens = 4
[method.annotate]
kind = "efficientrag_data"
generator = "scorer"
retriever = "bm25"
decomposition_prompt = "{documents} {question}"
max_tokens = 4
"#;

/// Every service and every method of this build, for jobs of few questions: a test's build computes models slowly. A
/// method outside both lists has the parameters of its first scenario.
pub fn every_method() -> String {
    let listed = [METHODS_WITHOUT_MODELS, METHODS_WITH_MODELS, &brought_answers()].concat();
    let kinds = hopeval_methods::method_kinds().iter().map(|info| info.kind);
    let others = kinds.filter(|kind| !listed.contains(&format!("kind = {kind:?}"))).map(method_of_scenario);
    [listed.clone(), others.collect(), tiny_models()].concat()
}

/// A method that brings in the answers of another system: to the first questions of the tests' worlds, and to one of
/// 2WikiMultihopQA.
fn brought_answers() -> String {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("brought.jsonl");
    let of_world = |seed: u32| (0..300).map(move |question| format!("eval{seed}-q{question}"));
    let ids = (1..=20).flat_map(of_world).chain(["93402dbc0bdb11eba7f7acde48001122".to_owned()]);
    let rows: String = ids.map(|id| format!("{{\"id\": \"{id}\", \"answer\": \"yes\"}}\n")).collect();
    // Other tests read the same file meanwhile.
    let aside = path.with_extension(format!("{}-{:?}", std::process::id(), std::thread::current().id()));
    std::fs::write(&aside, rows).expect("the file can be written");
    std::fs::rename(&aside, &path).expect("the file can be renamed");
    format!("[method.brought]\nkind = \"rankings\"\nfile = {path:?}\n")
}

/// Services of kinds that no embedded model answers: untrained models of the engine's tests.
fn tiny_models() -> String {
    let service = |name: &str, model: &str, more: &str| {
        let folder = format!("{}/../engine/lm/tests/fixtures/{model}", env!("CARGO_MANIFEST_DIR"));
        format!("[service.{name}]\nkind = \"lm\"\nmodel = {folder:?}\nthreads = 1\n{more}")
    };
    service("reranker", "roberta-rerank", "") + &service("nli", "bert-sequence", "entail_label = \"yes\"\n")
}

/// The table of a method with the parameters of its first scenario, and the services of [`every_method`].
fn method_of_scenario(kind: &str) -> String {
    let file = format!("{}/../jobs/methods/tests/scenarios/{kind}.txt", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{file}: {error}"));
    let given = text.lines().find_map(|line| line.strip_prefix("method ")?.strip_prefix(kind)).map(str::trim);
    let given = given.unwrap_or_else(|| panic!("{file}: no line `method {kind}`"));
    let mut parameters: serde_json::Value =
        serde_json::from_str(if given.is_empty() { "{}" } else { given }).expect("a scenario's parameters are JSON");
    let method =
        hopeval_methods::build_method(kind, &parameters, &MethodSetting::of_corpus(400)).expect("a scenario's method");
    for used in method.service_uses() {
        parameters[used.parameter] = match used.kind {
            RequestKind::Retrieve => "bm25",
            RequestKind::Passages | RequestKind::Links => "corpus",
            RequestKind::Score | RequestKind::Generate => "scorer",
            RequestKind::Label => "labeler",
            RequestKind::Filter => "filter",
            RequestKind::Read => "reader",
            RequestKind::Embed => "encoder",
            RequestKind::Rerank => "reranker",
            RequestKind::Entail => "nli",
        }
        .into();
    }
    let info = hopeval_methods::method_kinds().iter().find(|info| info.kind == kind).expect("a method of this build");
    if info.parameters.iter().any(|parameter| parameter.name == "repetition_penalty") {
        // The engine's own models have no penalties.
        parameters["repetition_penalty"] = 1.0.into();
    }
    parameters["kind"] = kind.into();
    let job = serde_json::json!({ "method": { kind: parameters } });
    toml::to_string(&job).expect("a scenario's parameters are those of a job")
}

/// Writes the job `name` into `dir`: `questions` of `format`, `corpus`, and the tables of `rest`.
pub fn file_job(dir: &Path, name: &str, format: &str, questions: &Path, corpus: &Path, rest: &str) -> PathBuf {
    let path = dir.join(format!("{name}.toml"));
    let head = format!(
        "name = {name:?}\n[dataset]\nformat = {format:?}\nquestions = {questions:?}\n[corpus]\nsource = {corpus:?}\n"
    );
    std::fs::write(&path, head + rest).expect("the job can be written");
    path
}

/// A JSON text.
pub fn parse(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The document printed by a command with `--json`.
pub fn document(command: &mut Command) -> serde_json::Value {
    let out = succeed(command);
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{command:?}: {error}\n{out}"))
}

/// The id of a document's run.
pub fn run_of(document: &serde_json::Value) -> &str {
    document["run"].as_str().expect("a document names its run")
}

/// The row of a document's `measures`.
pub fn measure<'a>(
    document: &'a serde_json::Value,
    configuration: &str,
    stratum: &str,
    measure: &str,
) -> &'a serde_json::Value {
    let rows = document["measures"].as_array().expect("a document has measures");
    rows.iter()
        .find(|row| row["configuration"] == configuration && row["stratum"] == stratum && row["measure"] == measure)
        .unwrap_or_else(|| panic!("no {measure} of {configuration} over {stratum}"))
}

/// Copies tiny models beside a job: a digest is remembered beside the weights, and the fixtures are no place for it.
pub fn models(dir: &Path, names: &[&str]) {
    for model in names {
        let folder = dir.join(model);
        if folder.is_dir() {
            continue;
        }
        std::fs::create_dir(&folder).expect("a folder can be made");
        let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/lm/tests/fixtures").join(model);
        for file in std::fs::read_dir(&fixture).expect("the fixture is there") {
            let file = file.expect("a folder can be read");
            std::fs::copy(file.path(), folder.join(file.file_name())).expect("a file can be copied");
        }
    }
}
