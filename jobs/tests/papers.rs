//! The jobs of the papers' tables and figures (`jobs/papers`): each can be read, its services have what its methods
//! need, and every configuration works a question through to its end. The published figures belong to them.

#![expect(clippy::unwrap_used, reason = "a panic is the report of a test")]

use hopeval_jobs::Job;
use hopeval_jobs::job::{references, sweep};
use hopeval_jobs::report::reproduce::PublishedFigures;
use hopeval_methods::testing::ScriptedServices;
use hopeval_methods::{Method, MethodSetting, PassageId, Question, Transcript};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const PASSAGES: u32 = 50;

/// The jobs of each paper, by folder.
fn jobs_of_papers() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("papers");
    let entries = |folder: &Path| std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        entries(&folder).filter(|path| path.is_dir()).flat_map(|path| entries(&path)).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    files.sort();
    files
}

/// Works a question through under a configuration, with scripted answers.
fn work_through(method: &dyn Method) {
    let services = ScriptedServices::new(PASSAGES, 1);
    let gold = vec![vec![PassageId(3)], vec![PassageId(7)]];
    let text = "Who directed the film?".to_owned();
    let question = Question { text, gold, candidates: vec![PassageId(3), PassageId(9)], ..Question::default() };
    let transcript = Transcript::replay(method, "c", &question, &mut |request| Some(services.answer(request)));
    assert!(!transcript.unwrap().rounds.is_empty(), "{} asks nothing", method.kind());
}

#[test]
fn every_job_of_a_paper_can_be_planned() {
    let files = jobs_of_papers();
    assert!(files.len() >= 6, "{files:?}");
    for file in files {
        let job = Job::load(&file, &[]).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(Some(job.name.as_str()), file.file_stem().and_then(|name| name.to_str()), "named as its file");
        let mut configurations = sweep::configurations(&job);
        references::leave_open(&mut configurations);
        let methods = sweep::build_methods(&configurations, &MethodSetting::of_corpus(PASSAGES));
        let methods = methods.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        assert!(!methods.is_empty(), "{}", file.display());
        for method in &methods {
            for used in method.service_uses() {
                let name = used.service.to_string();
                assert!(name == "corpus" || job.service.contains_key(&name), "{}: no service {name}", file.display());
            }
            work_through(&**method);
        }
    }
}

#[test]
fn published_figures_belong_to_configurations_of_jobs() {
    let jobs: BTreeMap<String, Vec<String>> = jobs_of_papers()
        .into_iter()
        .map(|file| {
            let job = Job::load(&file, &[]).unwrap();
            let paper = file.parent().unwrap().file_name().unwrap().to_string_lossy().into_owned();
            let configurations = sweep::configurations(&job);
            let names = configurations.iter().map(|found| found.replicated_name().to_owned()).collect();
            (format!("{paper}/{}", job.name), names)
        })
        .collect();
    for row in PublishedFigures::own().unwrap().rows() {
        for job in row.jobs.split_whitespace() {
            let names = jobs.get(job).unwrap_or_else(|| panic!("no job {job}"));
            assert!(row.configuration.is_empty() || names.contains(&row.configuration), "{job}: {row:?}");
            assert!(job.starts_with(&row.paper), "{job}: {row:?}");
        }
    }
}

#[test]
fn published_figures_are_those_of_the_reference() {
    let reference = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/reference/published.csv");
    let Ok(reference) = std::fs::read_to_string(reference) else {
        eprintln!("SKIPPED: published_figures_are_those_of_the_reference: no ../shared beside the repository");
        return;
    };
    let own = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("papers/published.csv")).unwrap();
    assert_eq!(own.lines().count(), reference.lines().count());
    for (own, printed) in own.lines().zip(reference.lines()) {
        assert!(own.starts_with(printed), "{own}\n{printed}");
    }
}
