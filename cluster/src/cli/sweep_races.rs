//! The races of a job's sweeps: a run for each rung, before the run over all questions.

use super::run_sequence::RunSequence;
use super::tables::raced::rung_text;
use crate::print;
use crate::stages::CommandStages;
use anyhow::Result;
use hopeval_jobs::Job;
use hopeval_jobs::race::sweeps::SweepRaces;
use hopeval_jobs::run::make::NameCheck;
use std::path::Path;

/// Runs the races of the sweeps of a job, whose file is `path`, if it has any. Returns the job of the points that are
/// left; an exit code if a race was not decided.
pub(super) fn race_sweeps(
    (job, path): (&Job, &Path),
    sequence: &RunSequence<'_>,
    check: NameCheck<'_>,
) -> Result<Result<Job, u8>> {
    let stages = CommandStages::new(None);
    let report = |stage: &str, done: u64| stages.tick(stage, done);
    let races = SweepRaces::prepare((job, path), sequence.places(), sequence.quarantine(), check, &report)?;
    stages.clear();
    drop(stages);
    let Some(mut races) = races else { return Ok(Ok(job.clone())) };
    for method in races.without_rung() {
        print::note(&format!(
            "the race of `{method}` has no rung: its first one has as many questions as are evaluated, or more; \
             all points are evaluated over all of them"
        ));
    }
    while let Some(rung_job) = races.next_rung() {
        let run = match sequence.complete_run(&rung_job)? {
            Ok(run) => run,
            Err(code) => return Ok(Err(code)),
        };
        let (method, rung) = races.take_run(&run)?;
        print::note(&format!(
            "race of `{method}`, run {}: {}",
            run.id(),
            rung_text(rung_number(&races, &method), &rung)
        ));
        if let Some(code) = sequence.interrupted("rungs") {
            return Ok(Err(code));
        }
    }
    Ok(Ok(races.into_job()))
}

/// The number of the last decided rung of a method's race.
fn rung_number(races: &SweepRaces, method: &str) -> usize {
    races.decided(method).map_or(0, |raced| raced.race.rungs.len())
}
