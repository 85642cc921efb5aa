//! Generations of a small run that do not get far: threads that cannot start, and a later generation.

use super::*;
use crate::cache::Cache;
use crate::job::Job;
use crate::places::Places;
use crate::run::make::make_run;
use crate::thread_start::refusal::refuse_thread;
use hopeval_results::LogError;
use std::time::{Duration, Instant};

const JOB: &str = r#"
name = "small"
[dataset.world]
questions = 8
passages = 400
[service.bm25]
kind = "bm25"
[method.one]
kind = "one_step"
retriever = "bm25"
"#;

/// A run with its first generation begun.
fn begin(dir: &std::path::Path) -> (Places, OpenRun, u64) {
    let cache = Cache::new(dir.join("cache"));
    let places = Places { store: Store::open("memory:").unwrap(), cache, threads: 1 };
    let job = Job::parse(JOB, &dir.join("job.toml"), &[]).unwrap();
    let run = make_run(&job, &places, None, &|_| Ok(()), &|_, _| ()).unwrap();
    let open = OpenRun::open(&places, &run, &|_, _| ()).unwrap();
    open.open_services(&|_, _| ()).unwrap();
    let number = fence_log(&places.store, &open.record, "committer", 1, 1).unwrap();
    (places, open, number)
}

#[test]
fn a_thread_that_cannot_start_is_an_error_before_anything_is_asked() {
    for name in ["service bm25", "journal reads", "journal merges", "journal", "outcomes", "questions"] {
        let dir = tempfile::tempdir().unwrap();
        let (_places, open, number) = begin(dir.path());
        let (generation, thread) = Generation::join(open, number, Some("committer")).unwrap();
        let (error, dataflows) = timely::execute_directly(move |worker| {
            refuse_thread(Some(name));
            let built = generation.build_dataflow(worker);
            refuse_thread(None);
            (built.err(), worker.has_dataflows())
        });
        assert!(matches!(&error, Some(JobError::Thread { name: refused, .. }) if refused == name), "{name}: {error:?}");
        assert!(!dataflows, "{name}");
        let log = thread.unwrap().join().unwrap().unwrap();
        assert_eq!(log.state().total_outcomes(), 0, "{name}: nothing is committed");
    }
}

#[test]
fn a_committing_thread_that_cannot_start_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let (_places, open, number) = begin(dir.path());
    refuse_thread(Some("commits"));
    let joined = Generation::join(open, number, Some("committer")).map(drop);
    refuse_thread(None);
    assert!(matches!(&joined, Err(JobError::Thread { name, .. }) if name == "commits"), "{joined:?}");
}

#[test]
fn a_superseded_generation_ends_before_its_next_commit() {
    const PATIENCE: Duration = Duration::from_secs(60);
    let dir = tempfile::tempdir().unwrap();
    let (places, open, number) = begin(dir.path());
    let record = open.record.clone();
    // Nothing is ever committed: its requests take hours.
    let (generation, _thread) = Generation::join(open, number, Some("committer")).unwrap();
    let later = fence_log(&places.store, &record, "another", 1, 1).unwrap();
    let begun = Instant::now();
    let error = loop {
        if let Some(error) = generation.fault.take() {
            break error;
        }
        assert!(begun.elapsed() < PATIENCE, "generation {number} goes on beside {later}");
        std::thread::yield_now();
    };
    assert!(matches!(error, JobError::Log(LogError::Superseded { by, .. }) if by == later), "{error}");
    assert!(error.is_transient());
}
