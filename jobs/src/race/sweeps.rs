//! The races of a job's sweeps, one after the other: their rungs, and the job of the points that they leave.

use super::decision::CandidateRace;
use super::figures::rung_figures;
use super::rung_draws::RungDraws;
use crate::cache::ProgressReporter;
use crate::error::JobError;
use crate::job::check::ensure_decides;
use crate::job::file::Job;
use crate::job::named_services::keep_named_services;
use crate::job::race_record::{RacedSweep, RungRecord, StoppedPoint};
use crate::job::single_mode::ensure_one_mode;
use crate::job::sweep;
use crate::places::Places;
use crate::run::make::{self, NameCheck};
use crate::run::open::OpenRun;
use std::collections::{HashSet, VecDeque};
use std::path::Path;

/// The races of a job's sweeps, under way.
pub struct SweepRaces {
    /// The job, with the decisions so far.
    job: Job,
    /// The races that are not decided; the first one is under way.
    races: VecDeque<PointRace>,
    /// Methods with too few questions for a rung.
    without_rung: Vec<String>,
}

/// The race of a method's points.
struct PointRace {
    method: String,
    measure: String,
    draws: RungDraws,
    seed: u64,
    /// The points, by their configurations.
    points: Vec<String>,
    race: CandidateRace,
}

impl SweepRaces {
    /// Prepares the races of a job, whose file is `path`; `None` if it has none. The run over all questions is checked
    /// first, with its names, so that nothing refuses it after hours of rungs. Wrong rows go to the file `quarantine`,
    /// if it is given.
    ///
    /// # Errors
    /// As [`make::make_run`]; a measure that cannot decide a race; points of several context modes.
    pub fn prepare(
        (job, path): (&Job, &Path),
        places: &Places,
        quarantine: Option<&Path>,
        check: NameCheck<'_>,
        report: ProgressReporter<'_>,
    ) -> Result<Option<Self>, JobError> {
        let racing: Vec<_> =
            job.method.iter().filter_map(|(name, method)| Some((name, method.race.as_ref()?))).collect();
        if racing.is_empty() {
            return Ok(None);
        }
        let mut questions = HashSet::new();
        let planned = make::check_run(job, places, quarantine, check, report, &mut |row| {
            questions.insert(row.id);
        })?;
        let (mut races, mut without_rung) = (VecDeque::new(), Vec::new());
        for (name, race) in racing {
            let table = format!("method.{name}.race");
            ensure_decides(&race.measure, &planned.names.deciding)
                .map_err(|bad| bad.within_table(&table).in_file(path))?;
            let points = sweep::method_configurations(job, name);
            ensure_one_mode(&table, planned.modes_of(&points)).map_err(|bad| bad.in_file(path))?;
            let decision = CandidateRace::new(&race.rule(), points.len(), questions.len() as u64);
            if decision.next_rung().is_none() {
                without_rung.push(name.clone());
                continue;
            }
            let draws = RungDraws::of_job(job, race.seed, places, quarantine.is_some(), &questions, report)?;
            let (method, measure, seed) = (name.clone(), race.measure.clone(), race.seed);
            races.push_back(PointRace { method, measure, draws, seed, points, race: decision });
        }
        Ok(Some(Self { job: job.clone(), races, without_rung }))
    }

    /// Methods whose race has no rung, since there are too few questions.
    pub fn without_rung(&self) -> &[String] {
        &self.without_rung
    }

    /// The job of the next rung; `None` when all races are decided.
    pub fn next_rung(&self) -> Option<Job> {
        let PointRace { method, draws, seed, race, .. } = self.races.front()?;
        let questions = race.next_rung()?;
        let mut job = self.job.clone();
        job.name = format!("{}: {method}, rung {}", job.name, race.record().rungs.len() + 1);
        job.method.retain(|name, _| name == method);
        job.judge.clear();
        job.dataset.take_part(draws.part_with(questions), *seed);
        keep_named_services(&mut job);
        Some(job)
    }

    /// Takes the finished run of [`SweepRaces::next_rung`]: decides the rung. Returns the method, and the decision.
    ///
    /// # Errors
    /// The run is not finished, or its measure is undefined.
    ///
    /// # Panics
    /// If no rung is to come.
    pub fn take_run(&mut self, run: &OpenRun) -> Result<(String, RungRecord), JobError> {
        let racing = self.races.front_mut().expect("a race under way; this is a bug");
        let standing: Vec<String> =
            racing.race.standing().iter().map(|&number| racing.points[number].clone()).collect();
        let figures = rung_figures(run, &racing.measure, &standing)?;
        let rung = racing.race.decide_rung(&figures).clone();
        let ends = racing
            .race
            .stopped()
            .map(|(number, end)| StoppedPoint { configuration: racing.points[*number].clone(), stopped: end.clone() });
        let raced = RacedSweep { race: racing.race.record().clone(), stopped: ends.collect() };
        let method = racing.method.clone();
        self.job.method.get_mut(&method).expect("a method of the job; this is a bug").raced = Some(raced);
        if racing.race.next_rung().is_none() {
            self.races.pop_front();
        }
        Ok((method, rung))
    }

    /// The decisions of a method's race so far.
    pub fn decided(&self, method: &str) -> Option<&RacedSweep> {
        self.job.method.get(method)?.raced.as_ref()
    }

    /// The job of the points that are left, over all questions. It has the decisions.
    pub fn into_job(self) -> Job {
        self.job
    }
}

#[cfg(test)]
mod tests;
