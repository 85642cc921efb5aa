//! The example jobs for users: each can be read, and its methods accept its configurations.

#![expect(clippy::unwrap_used, reason = "a panic is the report of a test")]

use hopeval_jobs::job::sweep::Configuration;
use hopeval_jobs::job::{references, sweep};
use hopeval_jobs::services::ServiceEntry;
use hopeval_jobs::{DEFAULT_JOB, Job};
use hopeval_methods::MethodSetting;
use std::path::{Path, PathBuf};

fn examples() -> Vec<PathBuf> {
    jobs_in("examples")
}

fn jobs_in(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries.filter(|path| path.extension().is_some_and(|e| e == "toml")).collect();
    files.sort();
    files
}

#[test]
fn every_example_is_a_job() {
    let files = examples();
    assert!(files.len() >= 5, "{files:?}");
    files.iter().for_each(|file| check_job(file));
}

#[test]
fn every_job_of_a_paper_is_a_job() {
    let papers = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("papers")).unwrap();
    let folders = papers.map(|paper| paper.unwrap()).filter(|paper| paper.path().is_dir());
    let files: Vec<PathBuf> =
        folders.flat_map(|paper| jobs_in(&format!("papers/{}", paper.file_name().to_string_lossy()))).collect();
    assert!(files.iter().filter(|file| file.parent().unwrap().ends_with("ircot")).count() >= 20, "{files:?}");
    files.iter().for_each(|file| check_job(file));
}

/// Whether a job can be read, its methods accept their configurations, and its services are there.
fn check_job(file: &Path) {
    let job = Job::load(file, &[]).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(Some(job.name.as_str()), file.file_stem().and_then(|name| name.to_str()), "a job is named as its file");
    let mut configurations = sweep::configurations(&job);
    references::leave_open(&mut configurations);
    let methods = sweep::build_methods(&configurations, &MethodSetting::of_corpus(1000));
    let methods = methods.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    for used in methods.iter().flat_map(|method| method.service_uses()) {
        let name = used.service.to_string();
        assert!(name == "corpus" || job.service.contains_key(&name), "{}: no service {name}", file.display());
    }
}

#[test]
fn an_example_takes_another_file_from_the_command_line() {
    let file = examples().into_iter().find(|file| file.ends_with("musique.toml")).unwrap();
    let job = Job::load(&file, &["dataset.questions=elsewhere.jsonl".to_owned()]).unwrap();
    let expected = std::env::current_dir().unwrap().join("elsewhere.jsonl");
    assert_eq!(job.dataset.questions.paths(), [expected]);
}

#[test]
fn the_default_job_has_several_methods_and_needs_no_file() {
    let job = Job::parse(DEFAULT_JOB, Path::new("default.toml"), &[]).unwrap();
    assert!(job.dataset.world.is_some() && job.dataset.questions.paths().is_empty() && own_models(&job));
    assert!(sweep::configurations(&job).len() >= 5);
}

/// Whether the binary carries every model of a job.
fn own_models(job: &Job) -> bool {
    models(job).all(|model| model.starts_with("hopeval:"))
}

fn models(job: &Job) -> impl Iterator<Item = &str> {
    job.service.values().filter_map(|service| match service {
        ServiceEntry::Lm(settings) => Some(settings.model.as_str()),
        _ => None,
    })
}

#[test]
fn the_comparison_on_real_text_has_the_default_methods() {
    let file = examples().into_iter().find(|file| file.ends_with("hotpotqa-comparison.toml")).unwrap();
    let real = Job::load(&file, &[]).unwrap();
    let default = Job::parse(DEFAULT_JOB, Path::new("default.toml"), &[]).unwrap();
    assert!(own_models(&real));
    let settings = |job: &Job| serde_json::to_value(&job.service).unwrap();
    let mut of_default = settings(&default);
    for service in OF_GENERATION {
        assert!(of_default.as_object_mut().unwrap().remove(service).is_some(), "{service}");
    }
    assert_eq!(settings(&real), of_default);
    assert_eq!(sweep::configurations(&real), without_generator(sweep::configurations(&default)));
}

/// The services of the default job for its methods that write. They take most of the job's time, so the larger jobs
/// leave them out.
const OF_GENERATION: [&str; 2] = ["writer", "reranker"];

/// The configurations that no model writes for.
fn without_generator(configurations: Vec<Configuration>) -> Vec<Configuration> {
    let count = configurations.len();
    let others: Vec<_> = configurations.into_iter().filter(|c| c.parameters.get("generator").is_none()).collect();
    assert!(others.len() < count);
    others
}

#[test]
fn the_full_comparison_is_the_small_one_with_controls() {
    let [full, small] = ["world-full.toml", "world-comparison.toml"].map(|name| {
        let file = examples().into_iter().find(|file| file.ends_with(name)).unwrap();
        let job = Job::load(&file, &[]).unwrap();
        assert_eq!(job.title.as_deref(), Some("generated world, trained models"), "{name}");
        for model in models(&job) {
            assert!(model.starts_with("hopeval:") || Path::new(model).join("config.json").is_file(), "{name}: {model}");
        }
        sweep::configurations(&job)
    });
    let (controls, methods): (Vec<_>, Vec<_>) = full.into_iter().partition(|c| c.control.is_some());
    assert_eq!(methods, without_generator(small), "the same methods, with the same parameters");
    for control in ["untrained scorer", "shuffled links", "labeler trained with shuffled labels"] {
        assert!(controls.iter().any(|c| c.control.as_deref() == Some(control)), "{control}");
    }
    assert!(controls.iter().any(|c| c.kind == "oracle"));
}
