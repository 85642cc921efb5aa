//! The thread of one service for one worker: it takes the requests that wait, up to a batch, and answers their tickets.

use super::dense::query::Inlet;
use super::served::{Recorded, Served};
use super::timing::{Took, elapsed_us, shares};
use super::usage::ServiceCounters;
use crate::error::JobError;
use crate::fault::Fault;
use hopeval_corpus::Corpus;
use hopeval_methods::{Request, Response};
use hopeval_operators::serve::{Answered, Submission};
use hopeval_operators::ticket::Ticket;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Instant;

/// A request on its way, and when it came.
pub type Task = (Submission<Request, Served, Recorded>, Instant);

/// The ticket of a request, and what it is answered with.
pub(super) type Settled = (Ticket<Answered<Served, Recorded>>, Answered<Served, Recorded>);

/// The thread that serves one worker of a run for one service.
pub struct ServiceThread {
    /// The corpus.
    pub(super) corpus: Arc<Corpus>,
    /// The service's name.
    pub(super) name: Arc<str>,
    /// Counts what services do.
    pub(super) usage: ServiceCounters,
    /// Told what ends the run.
    pub(super) fault: Fault,
    /// The worker's index, which says which device is its own.
    pub(super) worker: usize,
    /// The most requests that a retriever takes at once.
    pub(super) batch: usize,
    /// The way of vectors to all workers, where there is more than this one.
    pub(super) inlet: Option<Inlet>,
}

impl ServiceThread {
    /// Answers tasks in batches, until nobody can ask any more. `answer` gives the responses to a batch in its order,
    /// and the microseconds that the batch kept a device busy.
    pub(super) fn serve_batches(
        &self,
        tasks: &Receiver<Task>,
        mut answer: impl FnMut(&[&Request]) -> (Vec<Response>, u64),
    ) {
        let usage = self.usage.get(&self.name);
        while let Some(tasks) = drain(tasks, self.batch) {
            let begun = Instant::now();
            let requests: Vec<&Request> = tasks.iter().map(|(submission, _)| &submission.request).collect();
            let (responses, device_us) = answer(&requests);
            let device_us = device_us / tasks.len() as u64;
            let shares = shares(elapsed_us(begun), tasks.len());
            Ticket::answer_all(tasks.into_iter().zip(responses).zip(shares).map(|((task, response), service_us)| {
                if let Some(usage) = usage {
                    usage.count(&response, service_us, 0);
                }
                let queue_us = u64::try_from(begun.duration_since(task.1).as_micros()).unwrap_or(u64::MAX);
                answered(task, response, Took { queue_us, service_us, device_us }, &self.fault)
            }));
        }
    }
}

/// Starts a thread of the process.
pub(super) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) {
    let built = std::thread::Builder::new().name(name.to_owned()).spawn(work);
    // Without threads nothing can be answered; the tickets of what is submitted say so.
    if let Err(error) = built {
        tracing::error!(%error, name, "cannot start a thread");
    }
}

/// Waits for something, then takes what else is there, up to `most`; `None` when nobody can send any more.
pub(super) fn drain<T>(receiver: &Receiver<T>, most: usize) -> Option<Vec<T>> {
    let mut batch = vec![receiver.recv().ok()?];
    batch.extend(receiver.try_iter().take(most.saturating_sub(1)));
    Some(batch)
}

/// What a request that was computed is answered with, and what is journalled of it.
///
/// A lost device answers nobody: it is the run's fault, and this thread waits for the process to end. A question that failed
/// for that would be committed, and whoever resumes the run would never ask it again.
pub(super) fn answered(task: Task, response: Response, took: Took, fault: &Fault) -> Settled {
    let (submission, _) = task;
    if let Some(lost) = lost(&submission.request, &response) {
        fault.report(lost);
        loop {
            std::thread::park();
        }
    }
    let kind = submission.request.ask.kind();
    let Took { queue_us, service_us, device_us } = took;
    let served = Served { response, queue_us, service_us, device_us, cached: false };
    let record = Recorded {
        bucket: submission.bucket,
        key: submission.key,
        service: submission.request.service,
        kind,
        served: served.clone(),
    };
    (submission.ticket, Answered { response: served, record: Some(record) })
}

/// What ends the run, if a response says that the device of its service was lost.
fn lost(request: &Request, response: &Response) -> Option<JobError> {
    JobError::device_lost(&request.service.0, response.result.as_ref().err()?)
}

/// Microseconds since a request came, less those of its service.
pub(super) fn waited((_, since): &Task, service_us: u64) -> u64 {
    elapsed_us(*since).saturating_sub(service_us)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hopeval_methods::request::{Direction, Links};
    use hopeval_methods::{Ask, FailureKind, PassageId, ServiceName};

    #[test]
    fn a_lost_device_ends_the_run_so_that_it_can_go_on_and_no_other_failure_does() {
        let request = Request {
            service: ServiceName("scorer".into()),
            ask: Ask::Links(Links { passage: PassageId(0), direction: Direction::Outgoing, read: false }),
            draw: 0,
        };
        for kind in FailureKind::ALL {
            let found = lost(&request, &Response::failure(kind, "an error that the device keeps"));
            let said = found.as_ref().map(ToString::to_string);
            let expected = (kind == FailureKind::DeviceLost)
                .then(|| "[service.scorer] lost its device: an error that the device keeps".to_owned());
            assert_eq!(said, expected);
            assert!(found.is_none_or(|error| error.is_transient()));
        }
    }
}
