//! Plans the races of a job's searches and sweeps: what they evaluate, and how much of the models' work they can save.
//!
//! A race saves a stopped candidate's own requests. Requests that it shares with a candidate that goes on are asked all
//! the same, and answered once. So the candidates are driven over a few questions of the sample, each by itself and all
//! together, and their different requests to models are counted. Nothing is computed.

use super::{JobPlan, JobPlanner, guessing_services};
use crate::cache::ProgressReporter;
use crate::error::JobError;
use crate::job::file::Job;
use crate::job::named_services::keep_named_services;
use crate::job::race::RaceSettings;
use crate::job::sweep::{configurations, method_configurations};
use crate::job::sweep_race::SweepRace;
use crate::places::Places;
use crate::prepare::opening::{ConfiguredJob, OpenedJob};
use crate::prepare::questions;
use crate::run::machines::MachineQuestions;
use crate::services::catalogue::Catalogue;
use crate::tune::search::named_candidates_job;
use hopeval_methods::Method;
use hopeval_results::{Journal, layout};
use serde::Serialize;
use std::collections::BTreeSet;

/// Questions that the candidates are driven over.
const SAMPLE: u64 = 8;

/// The size of a race.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RacePlan {
    /// The name of the selection; of the method for the race of a sweep.
    pub name: String,
    /// Questions of the sample.
    pub questions: u64,
    /// Questions of each rung.
    pub rungs: Vec<u64>,
    /// Candidates that the job names; others are generated first.
    pub candidates: u64,
    /// Whether more candidates are generated, which nobody knows yet.
    pub generates: bool,
    /// The earlier selection that the search builds on, if it is not in the store: its requests are not known.
    pub waits_for: Option<String>,
    /// The least share of the outcomes of all candidates over all questions: as if nobody behind a cut was spared.
    pub outcome_share: f64,
    /// The candidates' requests to models, if they are known and there are any.
    pub sharing: Option<RequestSharing>,
}

/// The requests to models of a race's candidates, over a few questions.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RequestSharing {
    /// Number of these questions.
    pub questions: u64,
    /// Different requests of each candidate by itself, added up.
    pub alone: u64,
    /// Different requests of all candidates together.
    pub together: u64,
    /// Whether some of them follow guessed answers of models.
    pub guessed: bool,
    /// The least share of the requests of all candidates over all questions, as for the outcomes. It is 1 where
    /// candidates share all their requests: the race saves nothing.
    pub request_share: f64,
}

/// Plans the races of a job, in the order of its searches. With `lenient`, wrong rows are skipped.
///
/// # Errors
/// As `tune` before the first run of a search.
pub fn plan_races(
    job: &Job,
    places: &Places,
    lenient: bool,
    report: ProgressReporter<'_>,
) -> Result<Vec<RacePlan>, JobError> {
    let Some(tune) = &job.tune else { return Ok(Vec::new()) };
    let mut plans = Vec::new();
    for (step, select) in tune.select.iter().enumerate() {
        let Some(race) = &select.race else { continue };
        let named = select.named_candidates().len();
        let mut plan = RacePlan {
            name: select.name.clone(),
            questions: tune.sample,
            rungs: coming_rungs(race, named, tune.sample),
            candidates: named as u64,
            generates: select.generate.is_some(),
            ..RacePlan::default()
        };
        let stages = race_stages(race, named, tune.sample);
        plan.outcome_share = work_share(&stages, |candidates| candidates as f64);
        match named_candidates_job(job, step, &places.store) {
            Ok(searched) => plan.sharing = count_sharing(searched, 0, &stages, places, lenient, report)?,
            Err(JobError::NoSelection { name, .. }) => plan.waits_for = Some(name),
            Err(error) => return Err(error),
        }
        plans.push(plan);
    }
    Ok(plans)
}

/// Plans the races of a job's sweeps over so many evaluated questions, in the order of their methods. With `lenient`,
/// wrong rows are skipped.
///
/// # Errors
/// As a run of the job before its first question.
pub fn plan_sweep_races(
    job: &Job,
    questions: u64,
    places: &Places,
    lenient: bool,
    report: ProgressReporter<'_>,
) -> Result<Vec<RacePlan>, JobError> {
    let racing = job.method.iter().filter_map(|(name, method)| Some((name, method.race.as_ref()?)));
    let plan = |(name, race): (&String, &SweepRace)| {
        let points = method_configurations(job, name).len();
        let stages = race_stages(&race.rule(), points, questions);
        let mut alone = job.clone();
        alone.method.retain(|method, _| method == name);
        alone.judge.clear();
        keep_named_services(&mut alone);
        Ok(RacePlan {
            name: name.clone(),
            questions,
            rungs: coming_rungs(&race.rule(), points, questions),
            candidates: points as u64,
            outcome_share: work_share(&stages, |candidates| candidates as f64),
            sharing: count_sharing(alone, race.seed, &stages, places, lenient, report)?,
            ..RacePlan::default()
        })
    };
    racing.map(plan).collect()
}

/// The stages of a race in which nobody is spared: the questions that each adds, and the candidates that it evaluates.
/// The last one is over the whole sample.
fn race_stages(race: &RaceSettings, candidates: usize, sample: u64) -> Vec<(u64, usize)> {
    let (mut standing, mut asked) = (candidates, 0);
    let mut stages = Vec::new();
    for questions in coming_rungs(race, candidates, sample) {
        stages.push((questions - asked, standing));
        (standing, asked) = (race.kept_by_rank(standing), questions);
    }
    stages.push((sample - asked, standing));
    stages
}

/// Questions of the rungs that follow as long as candidates can be stopped.
fn coming_rungs(race: &RaceSettings, candidates: usize, sample: u64) -> Vec<u64> {
    let mut standing = candidates;
    let stops = |_: &u64| {
        let before = standing;
        standing = race.kept_by_rank(before);
        standing < before
    };
    race.rung_questions(sample).into_iter().take_while(stops).collect()
}

/// The share of the stages in the work of all candidates over all questions, by the work of so many candidates over one
/// question. 1 without work.
fn work_share(stages: &[(u64, usize)], work: impl Fn(usize) -> f64) -> f64 {
    let all = stages.first().map_or(0, |&(_, candidates)| candidates);
    let questions: u64 = stages.iter().map(|(questions, _)| questions).sum();
    let whole = questions as f64 * work(all);
    let raced: f64 = stages.iter().map(|&(questions, standing)| questions as f64 * work(standing)).sum();
    if whole > 0.0 { raced / whole } else { 1.0 }
}

/// Drives the candidates of a search, or the points of a sweep, over a few questions, which the seed draws. `None` if
/// there are fewer than two, or they ask no model.
fn count_sharing(
    mut searched: Job,
    seed: u64,
    stages: &[(u64, usize)],
    places: &Places,
    lenient: bool,
    report: ProgressReporter<'_>,
) -> Result<Option<RequestSharing>, JobError> {
    if configurations(&searched).len() < 2 {
        return Ok(None);
    }
    let questions: u64 = stages.iter().map(|(questions, _)| questions).sum();
    searched.dataset.take_part(questions.min(SAMPLE), seed);
    let opened = OpenedJob::open(&searched, &places.cache, places.threads, lenient, report)?;
    let ConfiguredJob { methods, mut rankings, needs_candidates, indexes, .. } =
        ConfiguredJob::new(&opened, places, report)?;
    let journal = Journal::open(&places.store, &[layout::JOURNAL.to_owned()], &|_| true, &BTreeSet::new())?;
    let guessing = guessing_services(&opened.catalogue, &indexes);
    let planner = || JobPlanner::new(&opened.catalogue, &journal, &guessing, JobPlan::default());
    let (mut each, mut all): (Vec<JobPlanner<'_>>, _) = (methods.iter().map(|_| planner()).collect(), planner());
    let (prepared, _) =
        questions::prepare_questions(&opened.job, opened.corpus(), needs_candidates, None, &mut |mut row| {
            rankings.fill_row(opened.corpus(), &mut row)?;
            let questions = MachineQuestions::new(&row);
            for (method, own) in methods.iter().map(|method| method.as_ref() as &dyn Method).zip(&mut each) {
                let question = questions.for_method(method);
                own.drive_question(method, &question, true);
                all.drive_question(method, &question, true);
            }
            Ok(())
        })?;
    let alone: u64 = each.iter().map(|own| model_requests(&own.plan, &opened.catalogue)).sum();
    let together = model_requests(&all.plan, &opened.catalogue);
    let guessed = all.plan.guessed.iter().any(|name| is_of_model(name, &opened.catalogue));
    Ok((together > 0).then(|| RequestSharing {
        questions: prepared.questions,
        alone,
        together,
        guessed,
        request_share: request_share(stages, methods.len(), alone, together),
    }))
}

/// The share of a race's requests to models. Each further candidate is taken to add as many as another.
fn request_share(stages: &[(u64, usize)], candidates: usize, alone: u64, together: u64) -> f64 {
    let one = alone as f64 / candidates as f64;
    let further = (together as f64 - one).max(0.0) / (candidates - 1) as f64;
    work_share(stages, |standing| one + (standing - 1) as f64 * further)
}

/// Different requests to models in a plan's sample.
fn model_requests(plan: &JobPlan, catalogue: &Catalogue) -> u64 {
    plan.sampled.iter().filter(|(name, _)| is_of_model(name, catalogue)).map(|(_, counts)| counts.unique).sum()
}

/// Whether a service and kind, as plans name them, are a model's.
fn is_of_model(name: &str, catalogue: &Catalogue) -> bool {
    let service = name.rsplit_once(' ').map_or(name, |(service, _)| service);
    catalogue.infos().any(|(known, info)| info.has_model && **known == *service)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_race_saves_what_candidates_do_not_share() {
        let race: RaceSettings = toml::from_str("first = 10\nfactor = 2\nleast = 2").unwrap();
        let stages = race_stages(&race, 8, 40);
        assert_eq!(stages, [(10, 8), (10, 4), (20, 2)]);
        // 80 + 40 + 40 of 320 outcomes.
        assert_eq!(work_share(&stages, |candidates| candidates as f64), 0.5);
        // Nothing shared, everything shared, half of each candidate's requests shared by all.
        assert_eq!(request_share(&stages, 8, 80, 80), 0.5);
        assert_eq!(request_share(&stages, 8, 80, 10), 1.0);
        // One candidate has 10, each further one 5: 45, 25 and 15 of 45.
        let half = request_share(&stages, 8, 80, 45);
        assert!((half - (450.0 + 250.0 + 300.0) / 1800.0).abs() < 1e-12, "{half}");
        assert_eq!(work_share(&stages, |_| 0.0), 1.0);
    }
}
