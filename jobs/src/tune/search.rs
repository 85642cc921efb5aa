//! One search: the jobs of its candidates, and the resulting selection.
//!
//! Without a race there is one job, of all candidates over the whole sample. A race has a job for each rung before it,
//! of the candidates that stand over a part of the sample.

use super::infill;
use crate::cache::ProgressReporter;
use crate::choices;
use crate::choices::overlap::{OverlapCheck, SampledQuestion};
use crate::choices::selection::{RankedCandidate, Selection};
use crate::error::JobError;
use crate::job::file::{Job, MethodEntry};
use crate::job::infill::InfillSettings;
use crate::job::named_services::keep_named_services;
use crate::job::race::RaceSettings;
use crate::job::race_record::RungRecord;
use crate::job::single_mode::check_candidates;
use crate::job::sweep::{Configuration, configurations};
use crate::job::tune::{SearchSettings, TuneSettings};
use crate::places::Places;
use crate::prepare::corpora::dataset_spec;
use crate::prepare::opening::OpenedJob;
use crate::prepare::question_filter::QuestionFilter;
use crate::race::decision::CandidateRace;
use crate::race::figures::{measure_rows, rung_figures};
use crate::race::rung_draws::RungDraws;
use crate::run::make;
use crate::run::open::OpenRun;
use crate::run::settings::ResolvedSettings;
use crate::services::catalogue::Catalogue;
use hopeval_datasets::{Questions, RowPolicy};
use hopeval_results::Store;
use hopeval_results::tables::{MeasureRow, questions as question_table};
use serde_json::{Map, Value, json};
use std::collections::{BTreeSet, HashSet};
use std::path::Path;

/// A search, prepared or under way.
pub struct ParameterSearch {
    /// Evaluates all candidates over the whole sample: a configuration for each, in their order.
    job: Job,
    /// Counts of the generation of candidates, if any were generated.
    pub generated: Option<CandidateCounts>,
    select: SearchSettings,
    measure: String,
    settings: Value,
    /// Values with their numbers of draws; 0 for values from the job.
    candidates: Vec<(Value, u32)>,
    race: Option<CandidateRace>,
    draws: RungDraws,
}

/// The result of a search's finished run.
#[derive(Clone, Debug)]
pub enum SearchResult {
    /// A rung of a race is decided; another run follows.
    Rung(RungRecord),
    /// The choice is committed.
    Chosen(Box<CommittedSelection>),
}

/// Counts of the generation of candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CandidateCounts {
    /// Different candidates.
    pub candidates: u32,
    /// Samples drawn.
    pub draws: u32,
    /// Samples without a candidate.
    pub empty: u32,
    /// Requests computed, because the journal lacked them.
    pub computed: u64,
}

/// A selection in the store.
#[derive(Clone, Debug)]
pub struct CommittedSelection {
    /// The selection.
    pub selection: Selection,
    /// Whether this commit added it.
    pub new: bool,
}

impl ParameterSearch {
    /// Prepares the search at position `step` of a job, whose file is `path`: checks its questions against the
    /// evaluated ones, and generates its candidates. What would refuse the choice after the search does so now. Wrong
    /// rows of the sample's files go to the file `quarantine`, if it is given.
    ///
    /// # Errors
    /// A required earlier selection is missing; another search has the same name; the sample has questions to be
    /// evaluated; candidates have several context modes; files, models or the store cannot be used.
    ///
    /// # Panics
    /// If `step` is not a search of the job.
    pub fn prepare(
        (job, path): (&Job, &Path),
        step: usize,
        quarantine: Option<&Path>,
        places: &Places,
        report: ProgressReporter<'_>,
    ) -> Result<Self, JobError> {
        let lenient = quarantine.is_some();
        let tune = job.tune.as_ref().expect("a job with searches; this is a bug");
        let select = tune.select[step].clone();
        let entry = method_entry(job, tune, step, &places.store).map_err(|error| error.of_choice_in(path))?;
        let measure = tune.measure_of(&select).to_owned();
        let settings = search_settings(tune, &select, &entry);
        let known = find_known(&select, &settings, &measure, &places.store)?;
        let mut sampled = tune.over_sample(job);
        places.cache.prepare_world(&mut sampled, report)?;
        if select.race.is_some() {
            refuse_small(&sampled, lenient)?;
        }
        if !tune.takes_own() {
            keep_apart(job, &sampled, lenient, places, report)?;
        }
        let mut candidates: Vec<(Value, u32)> = select.named_candidates().into_iter().map(|value| (value, 0)).collect();
        let generated = match &select.generate {
            Some(infill) => Some(generate_candidates(infill, &sampled, &mut candidates, places, report)?),
            None => None,
        };
        let sampled = candidates_job(job, sampled, step, &entry, &candidates);
        check_candidates(step, &select, configurations(&sampled)).map_err(|bad| bad.in_file(path))?;
        let (mut race, mut draws) = (None, RungDraws::default());
        if select.race.is_some() || known.is_some() {
            let (mut questions, mut sample) = (HashSet::new(), Vec::new());
            let planned = make::check_run(&sampled, places, quarantine, &|_| Ok(()), report, &mut |row| {
                sample.push(SampledQuestion::new(&row.id, &row.text));
                questions.insert(row.id);
            })?;
            if let Some(known) = known.filter(|known| !is_over_same(known, &planned.resolved, &sample)) {
                return Err(known.name_taken(&places.store));
            }
            if let Some(rule) = &select.race {
                // As the selection's settings have it, also where questions of the sample are left out.
                let rule = RaceSettings { first: Some(rule.first_questions(tune.sample)), ..rule.clone() };
                race = Some(CandidateRace::new(&rule, candidates.len(), questions.len() as u64));
                draws = RungDraws::of_job(&sampled, tune.seed, places, lenient, &questions, report)?;
            }
        }
        Ok(Self { job: sampled, generated, select, measure, settings, candidates, race, draws })
    }

    /// The job of the next run: the candidates that stand, over the next rung's part of the sample or over all of it.
    pub fn next_job(&self) -> Job {
        let mut job = self.job.clone();
        let Some(race) = &self.race else { return job };
        let standing: BTreeSet<String> =
            race.standing().iter().map(|&number| candidate_name(&self.select.name, number)).collect();
        job.method.retain(|name, _| standing.contains(name));
        if let Some((questions, draw)) = race.next_rung().zip(job.dataset.draw.as_mut()) {
            // The draw ranks all questions by the seed: those of a smaller sample are in every larger one.
            draw.questions = self.draws.part_with(questions);
            job.name = format!("{}, rung {}", job.name, race.record().rungs.len() + 1);
        }
        job
    }

    /// Takes the finished run of [`ParameterSearch::next_job`]: decides the rung, or commits the choice.
    ///
    /// # Errors
    /// The run is not finished, or its measure is undefined; the store; another search has taken the name.
    pub fn take_run(&mut self, run: &OpenRun) -> Result<SearchResult, JobError> {
        let names: Vec<String> =
            self.standing().into_iter().map(|number| candidate_name(&self.select.name, number)).collect();
        match &mut self.race {
            Some(race) if race.next_rung().is_some() => {
                let figures = rung_figures(run, &self.measure, &names)?;
                Ok(SearchResult::Rung(race.decide_rung(&figures).clone()))
            }
            _ => {
                let rows = measure_rows(run, &self.measure, &names)?;
                Ok(SearchResult::Chosen(Box::new(self.commit(run, &rows)?)))
            }
        }
    }

    /// Numbers of the candidates that stand, in order: all of them without a race.
    fn standing(&self) -> Vec<usize> {
        self.race.as_ref().map_or_else(|| (0..self.candidates.len()).collect(), |race| race.standing().to_vec())
    }

    /// Commits the choice from the run over the whole sample, with its rows of the measure.
    fn commit(&self, run: &OpenRun, rows: &[MeasureRow]) -> Result<CommittedSelection, JobError> {
        let candidate = |number: usize| RankedCandidate {
            value: self.candidates[number].0.clone(),
            score: None,
            stderr: None,
            n: 0,
            coverage: None,
            draws: self.candidates[number].1,
            stopped: None,
        };
        let measured = |(number, row): (usize, &MeasureRow)| RankedCandidate {
            score: row.value,
            stderr: row.stderr,
            n: row.n,
            coverage: row.coverage,
            ..candidate(number)
        };
        let mut ranked: Vec<RankedCandidate> = self.standing().into_iter().zip(rows).map(measured).collect();
        // A stable sort: of equally good candidates the earlier one stays first.
        let order = |score: Option<f64>| score.unwrap_or(f64::NEG_INFINITY);
        ranked.sort_by(|a, b| order(b.score).total_cmp(&order(a.score)));
        let stopped = self.race.iter().flat_map(CandidateRace::stopped);
        ranked
            .extend(stopped.map(|(number, end)| RankedCandidate { stopped: Some(end.clone()), ..candidate(*number) }));
        let measure_version = rows.first().map(|row| format!("{} {}", row.profile, row.version)).unwrap_or_default();
        let mut sample = Vec::new();
        for row in question_table::stream_questions(&run.places.store, run.id(), run.record.questions_check(), 0)? {
            let row = row?;
            sample.push(SampledQuestion::new(&row.id, &row.text));
        }
        let selection = Selection {
            schema_version: Selection::version(),
            name: self.select.name.clone(),
            parameter: self.select.parameter.clone(),
            parameters: self.select.grid.keys().cloned().collect(),
            measure: self.measure.clone(),
            measure_version,
            settings: self.settings.clone(),
            dataset_digest: run.resolved.dataset_digest.clone(),
            corpus_digest: run.resolved.corpus_digest.clone(),
            services: run.resolved.services.clone(),
            sample,
            candidates: ranked,
            race: self.race.as_ref().map(|race| race.record().clone()),
        };
        let new = selection.commit(&run.places.store)?;
        Ok(CommittedSelection { selection, new })
    }
}

/// All settings of a search, for the selection's record.
fn search_settings(tune: &TuneSettings, select: &SearchSettings, entry: &MethodEntry) -> Value {
    let mut settings = json!({
        "method": {"kind": entry.kind, "parameters": entry.parameters},
        "candidates": select.candidates,
        "generate": select.generate,
        "sample": {"questions": tune.sample, "seed": tune.seed},
    });
    if !select.grid.is_empty() {
        settings["grid"] = json!(select.grid);
    }
    if let Some(race) = &select.race {
        let RaceSettings { factor, least, margin, .. } = race;
        let first = race.first_questions(tune.sample);
        settings["race"] = json!({"first": first, "factor": factor, "least": least, "margin": margin});
    }
    settings
}

/// Refuses a sample that is too small for the draw, before the first rung of a race: it draws fewer questions.
fn refuse_small(sampled: &Job, lenient: bool) -> Result<(), JobError> {
    QuestionFilter::of_dataset(&sampled.dataset, lenient).map(drop)
}

/// The selection that the search has committed before, if it has. Refuses the search if another one has the name.
fn find_known(
    select: &SearchSettings,
    settings: &Value,
    measure: &str,
    store: &Store,
) -> Result<Option<Selection>, JobError> {
    match Selection::find(store, &select.name)? {
        Some(there)
            if (&there.settings, there.parameter.as_str(), there.measure.as_str())
                != (settings, select.parameter.as_str(), measure) =>
        {
            Err(there.name_taken(store))
        }
        there => Ok(there),
    }
}

/// Whether a selection was made over the same questions, passages and services: otherwise the search would make another
/// one of the same name.
fn is_over_same(known: &Selection, resolved: &ResolvedSettings, sample: &[SampledQuestion]) -> bool {
    (&known.dataset_digest, &known.corpus_digest, &known.services, known.sample.as_slice())
        == (&resolved.dataset_digest, &resolved.corpus_digest, &resolved.services, sample)
}

/// The job of a search over its named candidates alone, for a plan: nothing is generated, checked or stored.
///
/// # Errors
/// A required earlier selection is missing.
///
/// # Panics
/// If `step` is not a search of the job.
pub(crate) fn named_candidates_job(job: &Job, step: usize, store: &Store) -> Result<Job, JobError> {
    let tune = job.tune.as_ref().expect("a job with searches; this is a bug");
    let entry = method_entry(job, tune, step, store)?;
    let candidates: Vec<(Value, u32)> =
        tune.select[step].named_candidates().into_iter().map(|value| (value, 0)).collect();
    Ok(candidates_job(job, tune.over_sample(job), step, &entry, &candidates))
}

/// The job `sampled`, which is over the sample of `job`, with a configuration for each candidate.
fn candidates_job(job: &Job, mut sampled: Job, step: usize, entry: &MethodEntry, candidates: &[(Value, u32)]) -> Job {
    let tune = job.tune.as_ref().expect("a job with searches; this is a bug");
    let select = &tune.select[step];
    sampled.name = format!("{}: {}", job.name, select.name);
    sampled.method = candidate_configurations(select, entry, candidates).collect();
    sampled.run.temperatures.extend(later_temperatures(tune, step));
    keep_named_services(&mut sampled);
    sampled
}

/// Has a language model fill in candidates, and adds them to the job's own.
fn generate_candidates(
    infill: &InfillSettings,
    sampled: &Job,
    candidates: &mut Vec<(Value, u32)>,
    places: &Places,
    report: ProgressReporter<'_>,
) -> Result<CandidateCounts, JobError> {
    let filled =
        infill::draw_candidates(infill, &open_generator(sampled, &infill.service, places, report)?, &places.store)?;
    let generated = CandidateCounts {
        candidates: filled.candidates.len() as u32,
        draws: infill.draws,
        empty: filled.empty,
        computed: filled.computed,
    };
    for (value, draws) in filled.candidates {
        match candidates.iter_mut().find(|(known, _)| *known == value) {
            Some((_, times)) => *times += draws,
            None => candidates.push((value, draws)),
        }
    }
    Ok(generated)
}

/// The searched method with each of the candidates, by the configuration's name.
fn candidate_configurations(
    select: &SearchSettings,
    entry: &MethodEntry,
    candidates: &[(Value, u32)],
) -> impl Iterator<Item = (String, MethodEntry)> {
    let named = move |(n, (value, _)): (usize, &(Value, u32))| {
        (candidate_name(&select.name, n), select.with_candidate(entry, value))
    };
    candidates.iter().enumerate().map(named)
}

/// The name of the n-th candidate's configuration. The names sort in the order of the candidates.
fn candidate_name(selection: &str, n: usize) -> String {
    format!("{selection}.{n:04}")
}

/// The searched method, without the parameters of this search and of later ones. Choices of earlier searches are filled
/// in.
fn method_entry(job: &Job, tune: &TuneSettings, step: usize, store: &Store) -> Result<MethodEntry, JobError> {
    let select = &tune.select[step];
    let mut entry = job.method[&select.method].clone();
    let open: BTreeSet<&str> = tune.select[step..].iter().map(|select| select.name.as_str()).collect();
    select.parameters().into_iter().for_each(|parameter| drop(entry.parameters.remove(parameter)));
    entry.parameters.retain(|_, value| {
        value.get("selection").and_then(Value::as_str).is_none_or(|selection| !open.contains(selection))
    });
    let fixed: Map<String, Value> = entry.parameters.into_iter().collect();
    let name = select.method.clone();
    let mut fixed = Configuration {
        name,
        kind: entry.kind.clone(),
        parameters: Value::Object(fixed),
        control: None,
        replicate: None,
    };
    if let Some((parameter, _)) =
        fixed.parameters.as_object().into_iter().flatten().find(|(_, value)| value.get("draw").is_some())
    {
        return Err(JobError::Choice {
            configuration: select.method.clone(),
            parameter: parameter.clone(),
            reason: format!("it is drawn from the sample that selection `{}` is made on", select.name),
        });
    }
    choices::resolve_selections(std::slice::from_mut(&mut fixed), store)?;
    let Value::Object(parameters) = fixed.parameters else { unreachable!("parameters are an object; this is a bug") };
    entry.parameters = parameters.into_iter().collect();
    Ok(entry)
}

/// Temperatures of later searches. Scores are kept at these too, so later searches get them from the journal if their
/// prompts are the same.
fn later_temperatures(tune: &TuneSettings, step: usize) -> Vec<f64> {
    let values = |select: &SearchSettings| {
        let alone = if select.parameter == "temperature" { select.candidates.clone() } else { Vec::new() };
        let together = select.grid.get("temperature").cloned().unwrap_or_default();
        alone.into_iter().chain(together).filter_map(|value| value.as_f64()).collect::<Vec<_>>()
    };
    let mut found: Vec<f64> = tune.select.iter().skip(step + 1).flat_map(values).collect();
    found.sort_by(f64::total_cmp);
    found.dedup();
    found.retain(|temperature| temperature.is_finite() && *temperature > 0.0);
    found
}

/// Opens the service for the generation of candidates.
fn open_generator(
    sampled: &Job,
    service: &str,
    places: &Places,
    report: ProgressReporter<'_>,
) -> Result<Catalogue, JobError> {
    let mut job = sampled.clone();
    job.service.retain(|name, _| name == service);
    let opened = OpenedJob::open(&job, &places.cache, places.threads, false, report)?;
    opened.catalogue.open_all(report)?;
    report("candidates", 0);
    Ok(opened.catalogue)
}

/// Refuses a sample with questions to be evaluated.
fn keep_apart(
    job: &Job,
    sampled: &Job,
    lenient: bool,
    places: &Places,
    report: ProgressReporter<'_>,
) -> Result<(), JobError> {
    let mut overlap = OverlapCheck::default();
    let mut sample = Vec::new();
    each_question(sampled, lenient, &mut |id, text| sample.push(SampledQuestion::new(id, text)))?;
    overlap.add_sample("the [tune] sample", &sample);
    let mut evaluated = job.clone();
    places.cache.prepare_world(&mut evaluated, report)?;
    // A run may set wrong rows aside. Its choice is not known here.
    each_question(&evaluated, true, &mut |id, text| overlap.see_question(id, text))?;
    overlap.refuse_overlap()
}

/// Calls `each` with id and text of each question of a job.
fn each_question(job: &Job, lenient: bool, each: &mut dyn FnMut(&str, &str)) -> Result<(), JobError> {
    let spec = dataset_spec(&job.dataset, None);
    let filter = QuestionFilter::of_dataset(&job.dataset, lenient)?;
    let policy = if lenient { RowPolicy::Quarantine(Box::new(|_| ())) } else { RowPolicy::Strict };
    let questions = Questions::open(&spec, policy)?;
    let mut left = job.dataset.limit.unwrap_or(u64::MAX);
    for (position, question) in (0u64..).zip(questions) {
        let question = question?;
        if !filter.takes_question(position, &question.id) {
            continue;
        }
        if left == 0 {
            break;
        }
        left -= 1;
        each(&question.id, &question.text);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
