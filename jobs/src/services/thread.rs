//! The thread of one service for one worker: it takes waiting requests, up to a batch, and answers their tickets.

use super::dense::query::QueryInlet;
use super::served::{RecordedResponse, ServedResponse};
use super::timing::{AnswerTiming, elapsed_us, share_evenly};
use super::usage::ServiceCounters;
use crate::error::JobError;
use crate::fault::RunFault;
use crate::spending::SpendingLedger;
use crate::write_backlog::WriteBacklog;
use hopeval_corpus::Corpus;
use hopeval_methods::{Request, Response};
use hopeval_operators::gate::{Gate, WorkGuard};
use hopeval_operators::serve::{BackendAnswer, Submission};
use hopeval_operators::ticket::Ticket;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Instant;

/// A request on its way, with the time of its arrival.
pub type ServiceTask = (Submission<Request, ServedResponse, RecordedResponse>, Instant);

/// The ticket of a request, with its answer.
pub(super) type TicketAnswer =
    (Ticket<BackendAnswer<ServedResponse, RecordedResponse>>, BackendAnswer<ServedResponse, RecordedResponse>);

/// The thread of one service for one worker of a run.
pub struct ServiceThread {
    /// The corpus.
    pub(super) corpus: Arc<Corpus>,
    /// The service's name.
    pub(super) name: Arc<str>,
    /// Counts the work of services.
    pub(super) usage: ServiceCounters,
    /// Receives the error that ends the run.
    pub(super) fault: RunFault,
    /// Lets batches begin.
    pub(super) gate: Gate,
    /// The records of the worker that are not durable yet. While it is full, no batch begins.
    pub(super) journal_backlog: WriteBacklog,
    /// The worker's index; it selects the worker's device.
    pub(super) worker: usize,
    /// The most requests in one batch of a retriever.
    pub(super) batch: usize,
    /// Permits spending; `None` where no service costs money.
    pub(super) spending: Option<SpendingLedger>,
    /// The entry of query vectors to all workers; `None` for a single worker.
    pub(super) inlet: Option<QueryInlet>,
}

impl ServiceThread {
    /// Answers tasks in batches, until all senders are gone. `answer` gives the responses to a batch in its order, and
    /// the batch's device time in microseconds.
    pub(super) fn serve_batches(
        &self,
        tasks: &Receiver<ServiceTask>,
        mut answer: impl FnMut(&[&Request]) -> (Vec<Response>, u64),
    ) {
        let usage = self.usage.get(&self.name);
        while let Some(tasks) = self.begin_batch(tasks) {
            let begun = Instant::now();
            let requests: Vec<&Request> = tasks.iter().map(|(submission, _)| &submission.request).collect();
            let (responses, device_us) = answer(&requests);
            let device_us = device_us / tasks.len() as u64;
            let shares = share_evenly(elapsed_us(begun), tasks.len());
            Ticket::answer_all(tasks.into_iter().zip(responses).zip(shares).map(|((task, response), service_us)| {
                if let Some(usage) = usage {
                    usage.count_response(&response, service_us, 0);
                }
                let queue_us = u64::try_from(begun.duration_since(task.1).as_micros()).unwrap_or(u64::MAX);
                task_answer(task, response, AnswerTiming { queue_us, service_us, device_us }, &self.fault)
            }));
        }
    }

    /// The next batch, each task under way until its answer has left the worker; `None` once all senders are gone.
    pub(super) fn begin_batch(&self, tasks: &Receiver<ServiceTask>) -> Option<Vec<ServiceTask>> {
        let (mut tasks, work) = self.take_tasks(tasks, self.batch)?;
        tasks.iter_mut().for_each(|(submission, _)| submission.ticket.set_work(work.clone()));
        Some(tasks)
    }

    /// The next waiting tasks, up to `most`, and the guard of this thread's work on them. Once the run drains, this
    /// does not return.
    pub(super) fn take_tasks(
        &self,
        tasks: &Receiver<ServiceTask>,
        most: usize,
    ) -> Option<(Vec<ServiceTask>, WorkGuard)> {
        let tasks = take_batch(tasks, most)?;
        self.journal_backlog.wait_for_room();
        match self.gate.begin_work() {
            Some(work) => Some((tasks, work)),
            None => wait_for_exit(tasks),
        }
    }
}

/// Keeps items unanswered until the process ends: a dropped task would be answered as a failure.
pub(super) fn wait_for_exit<T>(_items: T) -> ! {
    loop {
        std::thread::park();
    }
}

/// Waits for one item, then takes all waiting items, up to `most`; `None` once all senders are gone.
pub(super) fn take_batch<T>(receiver: &Receiver<T>, most: usize) -> Option<Vec<T>> {
    let mut batch = vec![receiver.recv().ok()?];
    batch.extend(receiver.try_iter().take(most.saturating_sub(1)));
    Some(batch)
}

/// The answer to a computed request, with its record for the journal.
///
/// After the loss of a device nothing is answered: the loss is reported as the run's error, and this thread waits for
/// the process to end. Otherwise the failed question would be committed, and a resumed run would never ask it again.
pub(super) fn task_answer(
    task: ServiceTask,
    response: Response,
    timing: AnswerTiming,
    fault: &RunFault,
) -> TicketAnswer {
    let (submission, _) = task;
    if let Some(lost) = device_loss(&submission.request, &response) {
        fault.report(lost);
        wait_for_exit(submission);
    }
    let kind = submission.request.ask.kind();
    let AnswerTiming { queue_us, service_us, device_us } = timing;
    let served = ServedResponse { queue_us, service_us, device_us, ..ServedResponse::without_times(response) };
    let record = RecordedResponse {
        bucket: submission.bucket,
        key: submission.key,
        service: submission.request.service,
        kind,
        served: served.clone(),
    };
    (submission.ticket, BackendAnswer { response: served, record: Some(record) })
}

/// The error that ends the run, if a response reports the loss of a device.
fn device_loss(request: &Request, response: &Response) -> Option<JobError> {
    JobError::device_lost(&request.service.0, response.result.as_ref().err()?)
}

/// Microseconds since the arrival of a request, less those of its service.
pub(super) fn queue_time_us((_, since): &ServiceTask, service_us: u64) -> u64 {
    elapsed_us(*since).saturating_sub(service_us)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hopeval_methods::request::{Direction, LinksPayload};
    use hopeval_methods::{FailureKind, PassageId, ServiceName};

    #[test]
    fn device_loss_is_resumable() {
        let links = LinksPayload { passage: PassageId(0), direction: Direction::Outgoing, read: false };
        let request = Request::new(&ServiceName("scorer".into()), links);
        for kind in FailureKind::ALL {
            let found = device_loss(&request, &Response::failure(kind, "an error that the device keeps"));
            let said = found.as_ref().map(ToString::to_string);
            let expected = (kind == FailureKind::DeviceLost)
                .then(|| "[service.scorer] lost its device: an error that the device keeps".to_owned());
            assert_eq!(said, expected);
            assert!(found.is_none_or(|error| error.is_transient()));
        }
    }
}
