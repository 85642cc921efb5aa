//! Serves an endpoint without a network, by the batch files of its [`super::desk`].
//!
//! A request that no result answers *waits*: its question ends without an outcome in this run's generation, and the
//! next generation drives it again from the journal.

use super::answers::AnswerReader;
use super::desk::{BatchDesk, DeskAnswer};
use super::open::EndpointService;
use super::serve::AnswerDelivery;
use crate::error::JobError;
use crate::services::served::ServedResponse;
use crate::services::thread::{ServiceTask, ServiceThread, wait_for_exit};
use crate::services::timing::AnswerTiming;
use hopeval_operators::serve::BackendAnswer;
use hopeval_operators::ticket::Ticket;
use std::path::Path;
use std::sync::PoisonError;
use std::sync::mpsc::Receiver;

/// Serves by the batch files below `root`, until all senders are gone.
pub(super) fn serve_tasks(
    thread: &ServiceThread,
    service: &EndpointService,
    root: &Path,
    receiver: &Receiver<ServiceTask>,
) {
    // All requests of an endpoint go to the first worker of the run.
    if thread.worker == 0 {
        match BatchDesk::open(&service.name, &service.settings, root) {
            Ok(desk) => *service.desk.lock().unwrap_or_else(PoisonError::into_inner) = Some(desk),
            Err(error) => stop_run(thread, error, ()),
        }
    }
    while let Some(tasks) = thread.begin_batch(receiver) {
        serve_batch(thread, service, tasks);
    }
}

/// Answers the tasks that have results, and writes the others down.
fn serve_batch(thread: &ServiceThread, service: &EndpointService, tasks: Vec<ServiceTask>) {
    let (delivery, reader) = (AnswerDelivery::of_thread(thread), AnswerReader::of_settings(&service.settings));
    let mut waiting = Vec::new();
    for task in tasks {
        let request = &task.0.request;
        let call = match service.prepare_call(&thread.corpus, request) {
            Ok(call) => call,
            Err(response) => {
                delivery.answer_task(task, *response, AnswerTiming::default(), None);
                continue;
            }
        };
        let mut desk = service.desk.lock().unwrap_or_else(PoisonError::into_inner);
        let asked = desk.as_mut().map_or(Ok(DeskAnswer::Waits), |desk| desk.ask(&task.0.key, &call.call));
        drop(desk);
        match asked {
            Ok(DeskAnswer::Ended(end)) => {
                let mut read = reader.read_responses(&thread.corpus, call.report.as_ref(), &[request], *end);
                delivery.answer_task(task, read.responses.remove(0), AnswerTiming::default(), None);
            }
            Ok(DeskAnswer::Waits) => waiting.push(task),
            Err(error) => stop_run(thread, error, (task, waiting)),
        }
    }
    Ticket::answer_all(waiting.into_iter().map(|(submission, _)| {
        (submission.ticket, BackendAnswer { response: ServedResponse::waiting(), record: None })
    }));
}

/// Ends the run; the tasks stay unanswered.
fn stop_run<T>(thread: &ServiceThread, error: JobError, tasks: T) -> ! {
    thread.fault.report(error);
    wait_for_exit(tasks)
}
