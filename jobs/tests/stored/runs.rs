//! Pins the stored form of jobs in the run's record, whole records of runs, and the digests of jobs.

use super::choices::{rung, selection, stopped_candidate};
use super::tiny::{METHOD, Tiny};
use crate::golden;
use hopeval_datasets::Format;
use hopeval_jobs::Job;
use hopeval_jobs::job::race_record::{RaceRecord, RacedSweep, StoppedPoint};
use hopeval_jobs::job::sweep::{build_methods, configurations};
use hopeval_jobs::places::Places;
use hopeval_jobs::run::make::make_run;
use hopeval_jobs::run::making::find_resumable;
use hopeval_jobs::run::open::OpenRun;
use hopeval_jobs::run::ordered::make_ordered;
use hopeval_jobs::run::settings::ResolvedSettings;
use hopeval_measures::Profile;
use hopeval_methods::MethodSetting;
use hopeval_results::run::resolve_run;
use hopeval_results::{RunRecord, layout};
use std::path::Path;

/// The names of formats in stored jobs. A new format may have any other name.
const FORMATS: [&str; 10] =
    ["hotpotqa", "2wikimultihopqa", "musique", "strategyqa", "iirc", "nq", "triviaqa", "flashrag", "beir", "world"];

/// A job with every setting.
const FULL: &str = r#"duplicates = "keep_all"
links = "mentions"

[service.sparse]
kind = "bm25"
k1 = 1.2

[service.links]
kind = "link_tfidf"

[method.swept]
kind = "one_step"
retriever = "sparse"
control = "of nothing"
[method.swept.sweep]
k = [1, 2]

[method.repeated]
kind = "random"
k = 2
[method.repeated.replicates]
seed = [0, 7]

[method.chosen]
kind = "one_step"
retriever = "sparse"
k = { selection = "length" }

[measures]
profile = "musique"
recall_at = [1, 2]
precision_at = [1]
ndcg_at = [2]
mrr = false
mrr_at = [3]
map = false
answer_recall_at = [4]
answer_hit_at = [5]
budget_recall_at = [6]
chunk_recall = true
facts = false

[run]
in_flight = 3
chunk = 2
batch = 5
allowed_failed = 0.5
mode = "latency"
price_per_device_hour = 1.5
temperatures = [1.0, 0.7]
"#;

/// Searches with every setting.
const TUNE: &str = r#"
[service.filler]
kind = "lm"
model = "m"

[tune]
format = "world"
sample = 2
seed = 5
measure = "recall_all@2"
[tune.world]
questions = 10
passages = 400

[[tune.select]]
name = "length"
method = "random"
parameter = "k"
measure = "mrr"
candidates = [1, 2]

[[tune.select]]
name = "words"
method = "random"
parameter = "from"
[tune.select.generate]
service = "filler"

[[tune.select]]
name = "all"
method = "random"
parameter = "draw"
[tune.select.generate]
service = "filler"
templates = ["A {blank}.", { text = "{blank} b", position = "before" }]
frame = "Say: {instruction}"
drop = ["say"]
draws = 3
top_k = 0
temperature = 0.5
max_tokens = 8
fill = "in_turn"
"#;

/// Judges with every setting.
const JUDGES: &str = r#"
[service.llm]
kind = "lm"
model = "m"
[judge.accept]
kind = "yes_no"
rule = "migres"
generator = "llm"
control = "of nothing"
open_domain = true
[judge.accept.sweep]
answers = ["first", "all"]
[judge.accept.replicates]
draw = [0, 1]
"#;

/// A job by itself, of files and of a world, in the form of its record.
#[test]
fn jobs_are_those_of_the_golden_file() {
    let tiny = Tiny::new();
    let world = "name = \"w\"\n[dataset.world]\nquestions = 10\npassages = 400\n";
    let whole_world = "name = \"w\"\ntitle = \"W\"\n[dataset]\ngold = \"title+text\"\nlimit = 3\n\
        [dataset.world]\nquestions = 10\npassages = 400\nseed = 2\nsplit = \"train\"\n\
        [dataset.draw]\nquestions = 4\nseed = 3\nrest = true\n[corpus]\nsource = [\"a\", \"contexts\"]\n";
    let parse = |text: &str| Job::parse(&(text.to_owned() + METHOD), "/folder/job.toml".as_ref(), &[]).unwrap();
    let jobs = [
        ("tiny", tiny.job(METHOD)),
        ("full", tiny.job(FULL)),
        ("tune", tiny.job(&(METHOD.to_owned() + TUNE))),
        ("world", parse(world)),
        ("whole-world", parse(whole_world)),
        ("judged", tiny.job(&(METHOD.to_owned() + JUDGES))),
    ];
    let line = |(name, job): (&str, Job)| tiny.portable(&format!("{name} {}", serde_json::to_string(&job).unwrap()));
    let profiles = Profile::ALL.map(|profile| serde_json::to_string(&profile).unwrap());
    let stored = |name: &str| serde_json::from_value::<Format>(name.into()).unwrap();
    let formats = FORMATS.map(|name| serde_json::to_string(&stored(name)).unwrap());
    // Later profiles stand at the end, as lines of before keep their place.
    let (profiles, later) = profiles.split_at(8);
    let lines = jobs.map(line).into_iter().chain(profiles.to_vec()).chain(formats);
    golden::check("jobs", lines.chain(later.to_vec()));
}

/// A sweep with every setting, and the decisions of its race.
#[test]
fn a_raced_job_is_that_of_the_golden_file() {
    let tiny = Tiny::new();
    let mut job = tiny.job(
        "[service.sparse]\nkind = \"bm25\"\n[method.one]\nkind = \"iterative_title\"\nretriever = \"sparse\"\n\
         [method.one.sweep]\nhops = [1, 2]\nwidth = [1, 2, 3]\n[method.one.sweep_when]\nwidth = { hops = [2] }\n\
         [method.one.sweep_draw]\npoints = 3\nseed = 1\n\
         [method.one.race]\nmeasure = \"mrr\"\nseed = 2\nfirst = 2\nfactor = 2\nleast = 1\nmargin = 0.5\n",
    );
    let stopped = StoppedPoint { configuration: "one{hops=1}".to_owned(), stopped: stopped_candidate() };
    let method = job.method.get_mut("one").unwrap();
    method.raced = Some(RacedSweep { race: RaceRecord { rungs: vec![rung()] }, stopped: vec![stopped] });
    golden::check("jobs-raced", [tiny.portable(&serde_json::to_string(&job).unwrap())]);
}

/// The record of a run but for its id and the time of its making.
fn record(tiny: &Tiny, places: &Places, job: &Job) -> (RunRecord, String) {
    let run = make_run(job, places, None, &|_| Ok(()), &|_, _| ()).unwrap();
    let text = places.store.get(&layout::run_record(&run)).unwrap();
    let text = tiny.portable(std::str::from_utf8(&text).unwrap());
    let record = RunRecord::load(&places.store, &run).unwrap();
    assert!(record.questions_check().is_some());
    // Golden files have neither the seal nor the check of the questions, which may change with a version of zstd.
    let (text, added) = text.split_once(",\n  \"checks\": {").unwrap();
    assert!(added.contains("\"blake3\": "), "{added}");
    let text = format!("{text}\n}}");
    let text = text.replace(&run, "RUN").replace(&record.created_ms.to_string(), "0");
    (record, text)
}

#[test]
fn records_of_runs_are_those_of_the_golden_files() {
    let tiny = Tiny::new();
    let places = tiny.places();
    selection().commit(&places.store).unwrap();
    let plain = "[service.sparse]\nkind = \"bm25\"\n[method.one]\nkind = \"one_step\"\nretriever = \"sparse\"\n";
    let mut drawn = tiny.job(plain);
    drawn.dataset.draw = serde_json::from_value(serde_json::json!({"questions": 2})).unwrap();
    let model = format!(
        "[service.m]\nkind = \"lm\"\nmodel = {:?}\ndevice = \"cpu-avx2\"\nthreads = 1\n\
         [service.d]\nkind = \"dense\"\nencoder = \"m\"\n{METHOD}",
        tiny.model("bert")
    );
    // Without a `k`, rankings are as long as the largest cut-off of the measures.
    let jobs = [
        ("plain-by-cut-off", tiny.job(plain)),
        ("drawn-by-cut-off", drawn),
        ("full", tiny.job(FULL)),
        ("model-by-cut-off", tiny.job(&model)),
    ];
    for (name, job) in jobs {
        let (record, text) = record(&tiny, &places, &job);
        golden::check(&format!("run-{name}"), [text]);
        // Reading and writing it again changes nothing.
        let read: ResolvedSettings = serde_json::from_value(record.settings.clone()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), record.settings, "{name}");
        assert_eq!(OpenRun::open(&places, &record.run, &|_, _| ()).unwrap().id(), record.run);
    }
}

/// A parameter without effect is refused in a new job, and was none before: runs that have it open.
#[test]
fn stored_runs_keep_parameters_that_new_jobs_may_not_have() {
    let job = "name = \"t\"\n[dataset.world]\nquestions = 5\npassages = 400\n[service.r]\nkind = \"tfidf\"\n\
        [service.lm]\nkind = \"lm\"\nmodel = \"hopeval:scorer\"\n[method.m]\nkind = \"promptrank\"\nretriever = \"r\"\n\
        scorer = \"lm\"\n";
    let refused = Job::parse(&format!("{job}lambda = 0.3\n"), "job.toml".as_ref(), &[]).unwrap_err().to_string();
    assert!(refused.contains("job.toml"), "{refused}");
    let mut stored = configurations(&Job::parse(job, "job.toml".as_ref(), &[]).unwrap());
    stored[0].parameters["lambda"] = serde_json::json!(0.3);
    assert_eq!(build_methods(&stored, &MethodSetting::of_corpus(400)).unwrap().len(), 1);
}

/// The same jobs, made when a ranking without a `k` had ten passages: a record has its own length.
#[test]
fn records_of_earlier_versions_are_read() {
    for name in ["plain", "drawn", "model"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/run-{name}.txt"));
        let text = std::fs::read_to_string(path).unwrap();
        let json: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let record: RunRecord = serde_json::from_str(&json.concat()).unwrap();
        assert!(record.method_versions.is_empty() && record.checks.is_empty(), "{name}");
        let read: ResolvedSettings = serde_json::from_value(record.settings.clone()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), record.settings, "{name}");
        let methods = build_methods(&read.configurations, &MethodSetting::of_corpus(4)).unwrap();
        assert_eq!(methods.iter().map(|method| method.most_ranked()).collect::<Vec<_>>(), [Some(10)], "{name}");
    }
}

/// Their questions have no grades, so their `ndcg@k` is that of binary gold and says so. New runs have the grades.
#[test]
fn runs_begun_before_grades_keep_the_version_of_binary_gold() {
    let tiny = Tiny::new();
    let places = tiny.places();
    let job = tiny.job("[method.one]\nkind = \"random\"\nk = 2\n[measures]\nndcg_at = [2]\n");
    let run = make_run(&job, &places, None, &|_| Ok(()), &|_, _| ()).unwrap();
    let version = || {
        let open = OpenRun::open(&places, &run, &|_, _| ()).unwrap();
        let set = open.evaluator.measure_set();
        let at = set.names().iter().position(|name| name == "ndcg@2").unwrap();
        set.versions().nth(at).unwrap()
    };
    assert_eq!(version(), "2");
    let mut record = RunRecord::load(&places.store, &run).unwrap();
    record.settings.as_object_mut().unwrap().remove("grades");
    places.store.delete(&layout::run_record(&run)).unwrap();
    record.create(&places.store).unwrap();
    assert_eq!(version(), "1");
    // Gold of other formats, and that of generated worlds, has no grades: both versions have its values.
    let read = |settings: &serde_json::Value| -> ResolvedSettings { serde_json::from_value(settings.clone()).unwrap() };
    assert!(read(&record.settings).lacks_grades());
    let mut other = record.settings.clone();
    other["prepared"]["format"] = "hotpotqa".into();
    assert!(!read(&other).lacks_grades());
}

/// A process killed between the order and the record leaves the order, and maybe questions.
#[test]
fn a_run_whose_maker_was_killed_is_made_by_resume() {
    let tiny = Tiny::new();
    let places = tiny.places();
    let store = &places.store;
    let job =
        tiny.job("[service.sparse]\nkind = \"bm25\"\n[method.one]\nkind = \"one_step\"\nretriever = \"sparse\"\n");
    let run = make_run(&job, &places, None, &|_| Ok(()), &|_, _| ()).unwrap();
    assert!(!store.exists(&layout::making_order(&run)).unwrap(), "it is made");
    let made = RunRecord::load(store, &run).unwrap();
    let order = serde_json::json!({"run": run, "created_ms": made.created_ms, "job": job});
    for questions in [true, false] {
        store.put(&layout::making_order(&run), order.to_string().into()).unwrap();
        store.delete(&layout::run_record(&run)).unwrap();
        if !questions {
            store.delete(&layout::questions_table(&run)).unwrap();
        }
        assert!(resolve_run(store, "latest").is_err(), "it is not made yet");
        assert_eq!(find_resumable(store, "latest").unwrap(), run);
        make_ordered(&run, &places, &|_, _| ()).unwrap();
        assert_eq!(RunRecord::load(store, &run).unwrap(), made);
        assert!(!store.exists(&layout::making_order(&run)).unwrap());
    }
    make_ordered(&run, &places, &|_, _| ()).unwrap();
}
