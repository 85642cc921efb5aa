//! Drives one question of one configuration again: for its transcript, and for controls after an edit of gold.

use super::machines::MachineQuestions;
use super::open::OpenRun;
use super::outcome::{OutcomeUsage, outcome_row};
use super::replay::JournalledAnswers;
use crate::error::JobError;
use crate::services::replies::read_texts;
use hopeval_measures::MeasureBuffers;
use hopeval_methods::transcript::Transcript;
use hopeval_results::tables::{OutcomeRow, QuestionRow};

/// Drives one question of one configuration here and now, with the services of this process.
///
/// # Errors
/// A request without an answer from these services; the run was begun with another version of the method.
pub fn drive_again(run: &OpenRun, configuration: u32, question: &QuestionRow) -> Result<OutcomeRow, JobError> {
    run.check_version(run.methods[configuration as usize].as_ref())?;
    let transcript = transcript(run, configuration, question)?;
    let mut usage = OutcomeUsage::default();
    for round in &transcript.rounds {
        round.requests.iter().zip(&round.responses).for_each(|(request, response)| usage.add(request, response));
    }
    let rounds = transcript.rounds.len() as u32;
    Ok(outcome_row(configuration, question, transcript.outcome, rounds, usage, None))
}

/// The values of a question's measures under a configuration, as far as they are defined, by the outcome of its
/// transcript.
pub fn transcript_values<'a>(
    run: &'a OpenRun,
    configuration: u32,
    question: &QuestionRow,
    transcript: &Transcript,
) -> Vec<(&'a str, f64)> {
    let rounds = transcript.rounds.len() as u32;
    let outcome = transcript.outcome.clone();
    let outcome = outcome_row(configuration, question, outcome, rounds, OutcomeUsage::default(), None);
    let (mut buffers, mut values) = (MeasureBuffers::default(), Vec::new());
    run.evaluator.evaluate_outcome(&run.evaluator.question_gold(question), &outcome, &mut buffers, &mut values);
    let names = run.evaluator.measure_set().names();
    names.iter().zip(values).filter_map(|(name, value)| Some((name.as_str(), value?))).collect()
}

/// The transcript of one question under one configuration, driven again.
///
/// # Errors
/// A request without an answer from these services.
pub fn transcript(run: &OpenRun, configuration: u32, question: &QuestionRow) -> Result<Transcript, JobError> {
    let configurations = run.configurations()?;
    let method = configurations.methods[configuration as usize].as_ref();
    let journalled = configurations.catalogue.needs_models(method).then(|| JournalledAnswers::open(run)).transpose()?;
    drive_question(run, configuration, question, journalled.as_ref())
}

/// The transcripts of many questions, each with a configuration: the journal is opened once.
///
/// # Errors
/// The corpus or the journal cannot be read. A transcript of its own fails where a request has no answer.
pub fn transcripts(
    run: &OpenRun,
    wanted: &[(u32, &QuestionRow)],
) -> Result<Vec<Result<Transcript, JobError>>, JobError> {
    run.configurations()?;
    let journalled = JournalledAnswers::open(run)?;
    let drive = |&(configuration, question): &(u32, &QuestionRow)| {
        drive_question(run, configuration, question, Some(&journalled))
    };
    Ok(wanted.iter().map(drive).collect())
}

/// Drives a question. A model's answers come from the journal: computing them again may take long, or be impossible
/// here.
fn drive_question(
    run: &OpenRun,
    configuration: u32,
    question: &QuestionRow,
    journalled: Option<&JournalledAnswers>,
) -> Result<Transcript, JobError> {
    let configurations = run.configurations()?;
    let method = configurations.methods[configuration as usize].as_ref();
    let name = &run.resolved.configurations[configuration as usize].name;
    let catalogue = &configurations.catalogue;
    let journalled = journalled.filter(|_| catalogue.needs_models(method));
    let mut answer = |request: &hopeval_methods::Request| {
        let found = journalled.and_then(|answers| answers.answer(request));
        // An answer of a server that is not there is missing: looking at a run costs nothing.
        let remote = catalogue.info(&request.service).is_some_and(|info| info.remote);
        let mut response = found.or_else(|| (!remote).then(|| catalogue.answer(request)))?;
        if request.wants_text() {
            read_texts(&catalogue.corpus, &mut response);
        }
        Some(response)
    };
    let questions = MachineQuestions::new(question);
    Transcript::replay(method, name, &questions.for_method(method), &mut answer)
        .map_err(|missing| JobError::Unfit { run: run.id().to_owned(), reason: missing.to_string() })
}
