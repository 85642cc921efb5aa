//! `device = "cuda"` from end to end: the real program, over simulated libraries of CUDA with two devices.
//!
//! The tests show that the program makes the right calls in the right order, and how a run ends if its device is lost
//! or has little memory. They do not cover a GPU's speed or rounding, and the models are tiny and untrained.

#![cfg(target_os = "linux")]

use crate::harness::{self, document, final_tables, hopeval, run, run_of};
use hopeval_cuda_emulator::libraries::SimulatedLibraries;
use hopeval_results::tables::{FinalOutcomeRow, read_table};
use hopeval_results::{Log, Store, layout};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::thread;

/// Lets `command` find the libraries, with two devices.
fn simulated(mut command: Command, settings: &[(&str, &str)]) -> Command {
    static LIBRARIES: OnceLock<SimulatedLibraries> = OnceLock::new();
    let libraries =
        LIBRARIES.get_or_init(|| SimulatedLibraries::build(Path::new(env!("CARGO_TARGET_TMPDIR"))).unwrap());
    command.envs(libraries.environment_variables()).env_remove("CUDA_VISIBLE_DEVICES");
    command.env("SIMULATED_CUDA_DEVICES", "2").envs(settings.iter().copied());
    command
}

/// The report of one process about its devices at its end. The command must succeed.
fn told(dir: &Path, arguments: &[&str], settings: &[(&str, &str)]) -> (String, Value) {
    let (out, _, report) = told_and_warned(dir, arguments, settings);
    (out, report)
}

/// As [`told`], with standard error between.
fn told_and_warned(dir: &Path, arguments: &[&str], settings: &[(&str, &str)]) -> (String, String, Value) {
    let report = tempfile::NamedTempFile::new().unwrap();
    let mut command = simulated(hopeval(dir, arguments), settings);
    let output = run(command.env("SIMULATED_CUDA_REPORT", report.path()));
    let [out, warned] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert!(output.status.success(), "{command:?}: {warned}");
    let report = std::fs::read_to_string(report.path()).unwrap();
    (out, warned, serde_json::from_str(&report).unwrap_or_else(|error| panic!("{error}: {report}")))
}

/// Kernels and products of a device.
fn work(report: &Value, device: usize) -> u64 {
    ["launches", "products"].iter().map(|kind| report["devices"][device][kind].as_u64().unwrap()).sum()
}

fn of_first(report: &Value, what: &str) -> u64 {
    report["devices"][0][what].as_u64().unwrap()
}

fn assert_all_is_given_back(report: &Value) {
    let left = report["left"].as_object().unwrap();
    assert!(left.len() > 5 && left.values().all(|count| *count == 0), "{left:?}");
}

#[test]
fn the_doctor_shows_the_devices_that_are_visible() {
    let dir = tempfile::tempdir().unwrap();
    let shown = |visible: &str| {
        let settings: &[_] = if visible == "all" { &[] } else { &[("CUDA_VISIBLE_DEVICES", visible)] };
        run(&mut simulated(hopeval(dir.path(), &["doctor"]), settings))
    };
    let said = |visible: &str| String::from_utf8(shown(visible).stdout).unwrap();
    let both = said("all");
    for part in ["cuda:0: Simulated CUDA device", "cuda:1: Simulated CUDA device", "energy is counted", "13.99"] {
        assert!(both.contains(part), "{part}: {both}");
    }
    let second = said("1");
    assert!(second.contains("cuda:0: Simulated") && !second.contains("cuda:1"), "{second}");
    assert!(said("").contains("the driver shows no device"), "{}", said(""));
    assert!(
        said("0,7,1").contains("cuda:0") && !said("0,7,1").contains("cuda:1"),
        "what follows a wrong entry is not there"
    );
}

#[test]
fn the_device_conforms_in_both_arithmetics() {
    let dir = tempfile::tempdir().unwrap();
    let conforms = |device: &str, name: &str| {
        let (out, report) =
            told(dir.path(), &["lm", "conformance", "--device", device], &[("CUDA_VISIBLE_DEVICES", "1")]);
        assert!(out.contains(&format!("Simulated CUDA device (cuda:0), {name} conforms")), "{out}");
        assert_eq!(work(&report, 0), 0, "the one that is not visible");
        assert!(work(&report, 1) > 1000, "{report}");
        assert_all_is_given_back(&report);
    };
    thread::scope(|scope| {
        scope.spawn(|| conforms("cuda:0", "bf16"));
        conforms("cuda-f32:0", "f32");
    });
}

/// Short prompts: each thread of a GPU is a fibre.
fn job(dir: &Path, name: &str, device: &str, settings: &str) -> PathBuf {
    harness::models(dir, &["t5-v1.1", "electra-span", "efficientrag-labeler", "deberta-v3-token"]);
    let text = format!(
        r#"
name = "{name}"
[dataset.world]
questions = 4
passages = 400
seed = 7
[service.tfidf]
kind = "tfidf"
[service.links]
kind = "link_tfidf"
[service.t5]
kind = "lm"
model = "t5-v1.1"
threads = 1
device = "{device}"
states_tokens = 1024
[service.reader]
kind = "lm"
model = "electra-span"
read_tokens = 48
question_tokens = 24
threads = 1
device = "{device}"
[service.labeler]
kind = "lm"
model = "efficientrag-labeler"
label_tokens = 40
threads = 1
device = "{device}"
[service.filter]
kind = "lm"
model = "deberta-v3-token"
filter_tokens = 48
threads = 1
device = "{device}"
[method.promptrank]
kind = "promptrank"
retriever = "tfidf"
link_ranker = "links"
scorer = "t5"
pool = 3
first_hops = 1
passage_tokens = 12
reader = "reader"
read_paths = 1
[method.efficientrag]
kind = "efficientrag"
retriever = "tfidf"
labeler = "labeler"
filter = "filter"
k = 2
max_iterations = 2
[run]
chunk = 1
{settings}
"#
    );
    let path = dir.join(format!("{name}.toml"));
    std::fs::write(&path, text).unwrap();
    path
}

fn run_arguments<'a>(job: &'a Path, store: &'a str, workers: &'a str) -> [&'a str; 9] {
    ["run", job.to_str().unwrap(), "--store", store, "--cache", "cache", "--json", "--workers", workers]
}

fn tables(dir: &Path, store: &str, document: &Value) -> Vec<Vec<u8>> {
    final_tables(&dir.join(store), run_of(document))
}

fn outcomes(dir: &Path, store: &str, document: &Value) -> Vec<FinalOutcomeRow> {
    let store = Store::open(dir.join(store).to_str().unwrap()).unwrap();
    read_table(&store, &layout::final_table(run_of(document), "outcomes")).unwrap()
}

#[test]
fn two_devices_answer_as_the_cpu_does_and_tell_their_joules() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    let (cheap, dear) = ("price_per_device_hour = 0.5", "price_per_device_hour = 4.0");
    let (cpu, cuda) = (job(at, "cpu", "cpu", cheap), job(at, "cuda", "cuda-f32", dear));
    let of_cpu = document(&mut hopeval(at, &run_arguments(&cpu, "store", "2")));
    let (out, report) = told(at, &run_arguments(&cuda, "store", "2"), &[]);
    let found: Value = serde_json::from_str(&out).unwrap();
    assert!(work(&report, 0) > 50 && work(&report, 1) > 50, "each worker has a device of its own: {report}");
    assert_all_is_given_back(&report);

    let (expected, rows) = (outcomes(at, "store", &of_cpu), outcomes(at, "store", &found));
    assert_eq!((expected.len(), rows.len()), (8, 8));
    let mut scores = 0;
    for (a, b) in expected.iter().zip(&rows) {
        assert_eq!((&a.configuration, a.index, &a.status), (&b.configuration, b.index, &b.status));
        assert_eq!(
            (&a.ranked, &a.answer, a.scores.len()),
            (&b.ranked, &b.answer, b.scores.len()),
            "{}",
            a.configuration
        );
        for (x, y) in a.scores.iter().zip(&b.scores) {
            scores += usize::from(a.configuration == "promptrank");
            assert!((x - y).abs() < 1e-4, "{}: {x} and {y}", a.configuration);
        }
    }
    assert!(scores > 8 && rows.iter().all(|row| row.status == "ok"), "{scores} scores");

    let costs =
        document(&mut hopeval(at, &["costs", run_of(&found), "--store", "store", "--cache", "cache", "--json"]));
    for account in costs["configurations"].as_array().unwrap() {
        assert!(account["attributed"]["energy_j"].as_f64().unwrap() > 0.0, "{account}");
    }
    // A millijoule for each launch, all of them incurred by some service. Launches for opening models, which are all
    // of a run whose answers are in the journal, count for none but by the time between two readings that is a batch's.
    let (_, opened) = told(at, &run_arguments(&cuda, "store", "2"), &[]);
    let rows = found["cost"].as_array().unwrap().iter().filter(|row| row["configuration"].is_null());
    let joules: f64 = rows.filter_map(|row| row["energy_j"].as_f64()).sum();
    let [done, opening] = [report, opened].map(|report| (work(&report, 0) + work(&report, 1)) as f64 / 1e3);
    let answering = done - opening;
    assert!(opening > 0.0 && joules > 0.5 * answering && joules <= done + 1e-9, "{joules} of {done} - {opening}");
    assert_compared_by_money(at, run_of(&of_cpu), run_of(&found));
}

/// Checks that a question's cost on the two devices is compared by money, and by nothing without a price.
fn assert_compared_by_money(dir: &Path, of_cpu: &str, of_cuda: &str) {
    let compared = |against: &str| {
        let sides = [format!("{against}:promptrank"), format!("{of_cuda}:promptrank")];
        let arguments = ["compare", &sides[0], &sides[1], "--store", "store", "--cache", "cache", "--json"];
        let found = document(&mut hopeval(dir, &arguments));
        let costs = found["pairs"][0]["costs"].as_array().unwrap().clone();
        move |name: &str| costs.iter().find(|cost| cost["cost"] == name).unwrap().clone()
    };
    let cost = compared(of_cpu);
    let [low, ratio, high] = ["low", "ratio", "high"].map(|key| cost("money")[key].as_f64().unwrap());
    assert!(0.0 < low && low <= ratio && ratio <= high, "{}", cost("money"));
    let [cheap, dear] = ["against", "compared"].map(|side| cost("money")[side].as_f64().unwrap());
    let [seconds, of_device] = ["against", "compared"].map(|side| cost("device_seconds")[side].as_f64().unwrap());
    assert!((cheap / (seconds * 0.5 / 3600.0) - 1.0).abs() < 1e-9, "{cheap} for {seconds} s");
    assert!((dear / (of_device * 4.0 / 3600.0) - 1.0).abs() < 1e-9, "{dear} for {of_device} s");
    let refused = cost("device_seconds")["refused"].as_str().unwrap().to_owned();
    assert!(refused.contains("on different devices"), "{refused}");

    // The journal answers this run, which has no price: it measured no seconds, and has the work of the other one.
    let tokens = cost("prompt_tokens")["against"].clone();
    let unpriced = job(dir, "unpriced", "cpu", "");
    let unpriced = document(&mut hopeval(dir, &run_arguments(&unpriced, "store", "2")));
    let cost = compared(run_of(&unpriced));
    for name in ["money", "device_seconds"] {
        assert!(cost(name)["ratio"].is_null() && cost(name)["against"].is_null(), "{}", cost(name));
    }
    assert_eq!(cost("prompt_tokens")["against"], tokens, "attributed as without hits");
}

#[test]
fn device_loss_ends_the_process_and_the_run_is_resumable() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    // One question after the other, to have a middle of the run.
    let job = job(at, "lost", "cuda", "in_flight = 1");
    // All algorithms are chosen, so that every later run has the same launches.
    told(at, &run_arguments(&job, "first", "2"), &[]);
    let (peace, two) = told(at, &run_arguments(&job, "peace", "2"), &[]);
    let (_, one) = told(at, &run_arguments(&job, "alone", "1"), &[]);
    let peace: Value = serde_json::from_str(&peace).unwrap();
    let expected = tables(at, "peace", &peace);
    // Models are opened, and nothing is computed: the journal has all answers.
    let (_, opened) = told(at, &run_arguments(&job, "peace", "2"), &[]);
    let launch = |report: &Value, device, tenths| {
        let opening = work(&opened, device);
        opening + (work(report, device) - opening) * tenths / 10
    };
    // One of two workers' at the beginning; and the only one when most is done, and committed.
    let mut committed = Vec::new();
    for (store, workers, device, launch) in
        [("early", "2", 1, launch(&two, 1, 2)), ("late", "1", 0, launch(&one, 0, 6))]
    {
        let last = format!("{device}:{launch}");
        let settings = [("SIMULATED_CUDA_LOST_AT", last.as_str())];
        let lost = run(&mut simulated(hopeval(at, &run_arguments(&job, store, workers)), &settings));
        let said = String::from_utf8(lost.stderr).unwrap();
        assert_eq!(lost.status.code(), Some(75), "{last}: {said}");
        let lost = format!("lost its device: device cuda:{device} was lost: ");
        for part in [&lost, "ILLEGAL_ADDRESS", "hint: `hopeval resume "] {
            assert!(said.contains(part), "{part}: {said}");
        }
        let log = Store::open(at.join(store).to_str().unwrap()).unwrap();
        let run = hopeval_results::run::list_runs(&log).unwrap().pop().unwrap();
        committed.push(Log::open(&log, &run).unwrap().state().commits.len());
        let resume = ["resume", &run, "--store", store, "--cache", "cache", "--json", "--workers", "2"];
        let resumed = document(&mut simulated(hopeval(at, &resume), &[]));
        assert!(tables(at, store, &resumed) == expected, "{last}: other tables than in peace");
    }
    assert!(committed[1] > 0, "there was something to go on from: {committed:?}");
}

/// One engine on one device. While it computes the first request, the others of a question gather: a large batch.
const SCARCE: &str = r#"
name = "scarce"
[dataset.world]
questions = 3
passages = 400
seed = 7
[service.tfidf]
kind = "tfidf"
[service.links]
kind = "link_tfidf"
[service.t5]
kind = "lm"
model = "t5-v1.1"
threads = 1
device = "cuda"
states_tokens = 1024
[method.promptrank]
kind = "promptrank"
retriever = "tfidf"
link_ranker = "links"
scorer = "t5"
pool = 16
first_hops = 2
passage_tokens = 12
[run]
chunk = 1
in_flight = 1
"#;

#[test]
fn with_little_memory_a_run_gives_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    harness::models(at, &["t5-v1.1"]);
    let job = at.join("scarce.toml");
    std::fs::write(&job, SCARCE).unwrap();
    // The trials of algorithms take more memory than the batches. They are kept, and later runs have none.
    told(at, &run_arguments(&job, "first", "1"), &[]);
    let (much, calm, with_much) = told_and_warned(at, &run_arguments(&job, "much", "1"), &[]);
    // Less than half of a large batch's memory above that of a single request (256 tokens are one request). Kept memory
    // lies in larger pieces where memory was short, so it is more than a single request's, too.
    let few = [&run_arguments(&job, "few", "1")[..], &["--set", "service.t5.batch_tokens=256"]].concat();
    let (_, with_few) = told(at, &few, &[]);
    let (least, most) = (of_first(&with_few, "peak"), of_first(&with_much, "peak"));
    let warning = "memory ran out for batches";
    let with_eighths = |eighths: u64| {
        let memory = (least + (most - least) * eighths / 8).to_string();
        let store = format!("little-{eighths}");
        let told = told_and_warned(at, &run_arguments(&job, &store, "1"), &[("SIMULATED_CUDA_MEMORY", &memory)]);
        (store, told)
    };
    // On a busy machine fewer requests wait at a time, and batches are smaller than those of the first run.
    let mut runs = [3, 2].into_iter().map(with_eighths);
    let ran_out = runs.find(|(_, (_, warned, _))| warned.contains(warning));
    let (store, (little, warned, with_little)) = ran_out.expect("memory is too little for the batches");
    assert!(!calm.contains(warning) && warned.contains(warning) && warned.contains("service=\"t5\""), "{warned}");
    let [much, little]: [Value; 2] = [much, little].map(|out| serde_json::from_str(&out).unwrap());
    assert!(tables(at, &store, &little) == tables(at, "much", &much));
    assert_eq!((of_first(&with_much, "refused"), of_first(&with_little, "refused") > 0), (0, true), "{with_little}");
    assert!(outcomes(at, &store, &little).iter().all(|row| row.status == "ok"));
    assert_all_is_given_back(&with_little);
}

#[test]
fn a_device_that_is_lost_while_a_model_is_opened_may_pass_too() {
    let dir = tempfile::tempdir().unwrap();
    // Relative positions of DeBERTa are multiplied with its weights once, when it is opened.
    let job = job(dir.path(), "opened", "cuda", "");
    let command = hopeval(dir.path(), &run_arguments(&job, "store", "1"));
    let lost = run(&mut simulated(command, &[("SIMULATED_CUDA_LOST_AT", "0:1")]));
    let said = String::from_utf8(lost.stderr).unwrap();
    assert_eq!(lost.status.code(), Some(75), "{said}");
    assert!(said.contains("]: cannot open the model") && said.contains("cuda:0 was lost: "), "{said}");
}

/// Requests of several lengths.
fn lines(dir: &Path, name: &str, count: usize) -> String {
    let line = |i: usize| {
        let ids = |n: usize, of: usize| (0..n).map(|j| (7 * i + 3 * j) % of + 1).collect::<Vec<_>>();
        json!({"id": i, "prompt_ids": ids(20 + 5 * (i % 7), 90), "target_ids": ids(5 + i % 3, 80)}).to_string() + "\n"
    };
    std::fs::write(dir.join(name), (0..count).map(line).collect::<String>()).unwrap();
    name.to_owned()
}

#[test]
fn memory_that_runs_out_halves_batches_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    harness::models(dir.path(), &["gpt2"]);
    let (one, many) = (lines(dir.path(), "one.jsonl", 1), lines(dir.path(), "many.jsonl", 24));
    let device = ["--model", "gpt2", "--device", "cuda:1", "--batch-tokens", "2048", "--input"];
    let bench = |input: &str, settings: &[(&str, &str)]| {
        let arguments = [&["lm", "bench", "--task", "score"][..], &device, &[input]].concat();
        let (out, report) = told(dir.path(), &arguments, settings);
        assert_all_is_given_back(&report);
        let peak = report["devices"][1]["peak"].as_u64().unwrap();
        (serde_json::from_str::<Value>(&out).unwrap(), peak)
    };
    let score =
        |settings: &[(&str, &str)]| told(dir.path(), &[&["lm", "score"][..], &device, &[&many]].concat(), settings).0;
    // As in a run: trials of algorithms come first, and once.
    bench(&one, &[]);
    let ((_, least), (whole, most)) = (bench(&one, &[]), bench(&many, &[]));
    let memory = (least + (most - least) / 8).to_string();
    let little = [("SIMULATED_CUDA_MEMORY", memory.as_str())];
    let (halved, peak) = bench(&many, &little);
    assert_eq!((&whole["halved"], &whole["batches"]), (&json!(0), &json!(1)), "{whole}");
    assert!(halved["halved"].as_u64() > Some(0) && halved["batches"].as_u64() > Some(1), "{halved}");
    assert!(peak <= memory.parse().unwrap());
    let found = score(&little);
    assert_eq!(found.lines().count(), 24);
    assert!(found == score(&[]), "other bits with little memory");
}

/// The log of a first opening on a device: all trials come before the device is warm.
#[test]
fn algorithms_are_chosen_before_the_first_request() {
    let dir = tempfile::tempdir().unwrap();
    harness::models(dir.path(), &["gpt2"]);
    let input = lines(dir.path(), "some.jsonl", 4);
    let cache = dir.path().join("cache");
    let score = |device| {
        let arguments = ["lm", "score", "--model", "gpt2", "--device", device, "--input", &input];
        // A shape of so few numbers is tuned for many rows only.
        let command = hopeval(dir.path(), &[&arguments[..], &["--batch-tokens", "8192"]].concat());
        let mut command = simulated(command, &[("RUST_LOG", "hopeval_cuda=debug,hopeval_lm=info")]);
        let output = run(command.env("XDG_CACHE_HOME", &cache));
        let log = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{log}");
        (output.stdout, log)
    };
    let (first, log) = score("cuda:0");
    let is_trial = |line: &str| line.contains(" others, ") && line.contains(" with its bits");
    let warm = log.lines().position(|line| line.contains("warmed the device up in ")).expect("it is told");
    let trials: Vec<usize> = log.lines().enumerate().filter(|(_, line)| is_trial(line)).map(|(n, _)| n).collect();
    assert!(!trials.is_empty() && trials.iter().all(|n| *n < warm), "{trials:?}, warm {warm}: {log}");
    assert!(log.lines().nth(warm).unwrap().contains(" J"), "{log}");
    // The choices are kept for the next process.
    let (again, log) = score("cuda:1");
    assert!(log.contains("warmed the device up in ") && !log.lines().any(is_trial), "{log}");
    assert!(again == first);
}

#[test]
fn a_batch_is_requested_before_the_last_one_is_read() {
    let dir = tempfile::tempdir().unwrap();
    harness::models(dir.path(), &["gpt2", "t5-v1.1"]);
    let input = lines(dir.path(), "many.jsonl", 24);
    for model in ["gpt2", "t5-v1.1"] {
        let score = |tokens: &str| {
            let arguments = ["lm", "score", "--model", model, "--device", "cuda:0", "--input", &input];
            told(dir.path(), &[&arguments[..], &["--batch-tokens", tokens]].concat(), &[])
        };
        let ((whole, _), (several, report)) = (score("2048"), score("128"));
        // Fewer than ten follow a read within its batch: copies and frees. A batch has more than fifty.
        assert!(of_first(&report, "ahead") > 50, "{model}: {report}");
        assert!(several == whole, "{model}: other bits in several batches");
        assert_all_is_given_back(&report);
    }
}

#[test]
fn what_is_kept_grows_with_the_free_memory() {
    let dir = tempfile::tempdir().unwrap();
    harness::models(dir.path(), &["t5-v1.1"]);
    let input = lines(dir.path(), "few.jsonl", 6);
    let score = |more: &[&str], mib: u64| {
        let arguments = ["lm", "score", "--model", "t5-v1.1", "--device", "cuda:0", "--input", &input];
        let memory = (mib << 20).to_string();
        let settings = [("SIMULATED_CUDA_MEMORY", memory.as_str())];
        let (out, report) = told(dir.path(), &[&arguments[..], more].concat(), &settings);
        (out, of_first(&report, "peak") >> 20)
    };
    let (set, much, less) = (score(&["--states-tokens", "1024"], 512), score(&[], 512), score(&[], 128));
    println!("peaks in MiB: {}, {} and {}", set.1, much.1, less.1);
    // The pool has an eighth of what is free behind the weights.
    assert!((40..64).contains(&(much.1 - set.1)) && (8..16).contains(&(less.1 - set.1)), "{set:?} {much:?} {less:?}");
    assert!(much.0 == set.0 && less.0 == set.0, "other bits with another memory");
}

#[test]
fn a_device_checks_itself() {
    let dir = tempfile::tempdir().unwrap();
    harness::models(dir.path(), &["t5-v1.1"]);
    let input = lines(dir.path(), "few.jsonl", 8);
    let check = ["lm", "self-check", "--model", "t5-v1.1", "--device", "cuda:0", "--task", "score", "--input", &input];
    let (out, report) = told(dir.path(), &check, &[]);
    println!("{out}");
    assert!(work(&report, 0) > 100 && work(&report, 1) == 0, "{report}");
    assert_all_is_given_back(&report);
}

const DENSE: &str = r#"
name = "dense"
[dataset.world]
questions = 6
passages = 400
seed = 7
[service.encoder]
kind = "lm"
model = "bert"
threads = 1
device = "cuda"
batch_tokens = 256
max_tokens = 12
normalize = true
[service.dense]
kind = "dense"
encoder = "encoder"
[method.dense]
kind = "one_step"
retriever = "dense"
k = 5
[run]
chunk = 1
in_flight = 1
"#;

#[test]
fn a_corpus_is_embedded_by_all_devices_also_after_one_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    harness::models(at, &["bert"]);
    std::fs::write(at.join("dense.toml"), DENSE).unwrap();
    // Each run has a cache of its own, and so embeds anew.
    let arguments = |store| ["run", "dense.toml", "--store", store, "--cache", store, "--json"];
    let indexes = |store: &str| -> Vec<Vec<u8>> {
        let files = std::fs::read_dir(at.join(store).join("indexes")).into_iter().flatten().flatten();
        let files = files.map(|file| file.path()).filter(|path| path.extension().is_some_and(|ending| ending == "idx"));
        files.map(|path| std::fs::read(path).unwrap()).collect()
    };
    let (out, report) = told(at, &[&arguments("peace")[..], &["--workers", "2"]].concat(), &[]);
    let peace: Value = serde_json::from_str(&out).unwrap();
    assert!(work(&report, 0) > 20 && work(&report, 1) > 20, "{report}");
    assert_all_is_given_back(&report);
    assert_eq!(indexes("peace").len(), 1);

    let lost = [("SIMULATED_CUDA_LOST_AT", "1:40")];
    let lost = run(&mut simulated(hopeval(at, &[&arguments("lost")[..], &["--workers", "2"]].concat()), &lost));
    let said = String::from_utf8(lost.stderr).unwrap();
    assert_eq!(lost.status.code(), Some(75), "{said}");
    assert!(said.contains("lost its device: device cuda:1 was lost: ") && indexes("lost").is_empty(), "{said}");
    // Two processes, which share the first device.
    let resume =
        ["resume", "latest", "--store", "lost", "--cache", "lost", "--json", "--workers", "1", "--processes", "2"];
    let resumed = document(&mut simulated(hopeval(at, &resume), &[]));
    assert!(indexes("lost") == indexes("peace"), "another index");
    assert!(tables(at, "lost", &resumed) == tables(at, "peace", &peace));
}
