//! Every job of the papers is planned and run over 20 questions, with stand-ins for models and endpoints.

use crate::harness::document;
use crate::stand_ins::{QUESTIONS, has_searches, jobs_of, with_stand_ins, write_world};
use hopeval_simulated_llm::{SimulatedServer, SimulationSettings};

/// Plans and runs each job of a paper, and returns their number.
fn run_jobs(paper: &str) -> usize {
    let server = SimulatedServer::start(SimulationSettings::default()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    write_world(dir.path());
    let names = jobs_of(paper);
    for name in &names {
        let answered =
            |command: &str| document(with_stand_ins(dir.path(), command, name, &server.base_url()).arg("--json"));
        if has_searches(name) {
            let selections = answered("tune")["selections"].as_array().map(Vec::len);
            assert!(selections > Some(0), "{name}");
        }
        let run = answered("run");
        assert_eq!((&run["finished"], &run["questions"]), (&true.into(), &QUESTIONS.into()), "{name}");
        // With the run's answers in the journal, and its indexes.
        let plan = answered("plan");
        assert_eq!((&plan["questions"], &plan["outcomes"]), (&run["questions"], &run["outcomes"]), "{name}");
    }
    names.len()
}

#[test]
fn promptrank() {
    assert_eq!(run_jobs("promptrank"), 10);
}

#[test]
fn efficientrag() {
    assert_eq!(run_jobs("efficientrag"), 16);
}

#[test]
fn fsm() {
    assert!(run_jobs("fsm") >= 6);
}

#[test]
fn ircot() {
    assert!(run_jobs("ircot") >= 24);
}

#[test]
fn migres() {
    assert!(run_jobs("migres") >= 25);
}
