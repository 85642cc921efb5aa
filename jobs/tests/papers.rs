//! The jobs of the papers' tables and figures (`jobs/papers`): each can be read, its services have what its methods
//! need, and every configuration works a question through to its end.

#![expect(clippy::unwrap_used, reason = "a panic is the report of a test")]

use hopeval_jobs::Job;
use hopeval_jobs::job::{references, sweep};
use hopeval_methods::testing::ScriptedServices;
use hopeval_methods::{Method, MethodSetting, PassageId, Question, Transcript};
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
