//! The thread that reads journalled answers for one worker. Requests with unusable answers go to their services.

use super::record::AnswerRecord;
use super::thread::{ServiceTask, take_batch, wait_for_exit};
use super::usage::{ServiceCounters, add};
use crate::fault::RunFault;
use hopeval_methods::{Answer, Request, RequestPayload, Response};
use hopeval_operators::gate::Gate;
use hopeval_operators::serve::BackendAnswer;
use hopeval_operators::ticket::Ticket;
use hopeval_results::journal::SegmentReader;
use hopeval_results::{AnswerLocation, JournalError};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

/// Reads journalled answers. A request with an unreadable or incomplete answer goes to its service.
pub(super) struct JournalReader {
    pub(super) queues: BTreeMap<Arc<str>, Sender<ServiceTask>>,
    pub(super) usage: ServiceCounters,
    pub(super) gate: Gate,
    /// The services whose answers come from a server, perhaps for money.
    pub(super) remote: BTreeSet<Arc<str>>,
    /// Receives an error that ends the run.
    pub(super) fault: RunFault,
}

/// The most journalled answers in one read.
const READ_BATCH: usize = 256;

impl JournalReader {
    pub(super) fn read_answers(&self, receiver: &Receiver<(ServiceTask, AnswerLocation)>, reader: &SegmentReader) {
        while let Some(batch) = take_batch(receiver, READ_BATCH) {
            let Some(_reading) = self.gate.begin_work() else { wait_for_exit(batch) };
            let locations: Vec<_> = batch.iter().map(|(_, location)| *location).collect();
            let mut answers = Vec::with_capacity(batch.len());
            for (((mut submission, since), _), bytes) in batch.into_iter().zip(reader.read(&locations)) {
                let bytes = match bytes {
                    // The answer is there. To ask again could be to pay again.
                    Err(error @ JournalError::Unreadable { may_pass: true, .. })
                        if self.remote.contains(&submission.request.service.0) =>
                    {
                        self.fault.report(error.into());
                        wait_for_exit(submission)
                    }
                    bytes => bytes,
                };
                let served =
                    bytes.ok().and_then(|bytes| AnswerRecord::from_bytes(&bytes)).map(AnswerRecord::into_served);
                let usage = self.usage.get(&submission.request.service.0);
                match served {
                    Some(served) if served.response.satisfies(&submission.request) => {
                        if let Some(usage) = usage {
                            add(&usage.journalled, 1);
                        }
                        answers.push((submission.ticket, BackendAnswer { response: served.cached(), record: None }));
                    }
                    lacking => {
                        if let Some(usage) = usage {
                            add(&usage.unreadable, 1);
                        }
                        if let Some(served) = lacking {
                            keep_temperatures(&mut submission.request, &served.response);
                        }
                        if let Some(queue) = self.queues.get(&submission.request.service.0) {
                            drop(queue.send((submission, since)));
                        }
                    }
                }
            }
            Ticket::answer_all(answers);
        }
    }
}

/// Adds the journalled answer's temperatures to the request, because the new answer replaces the journalled one.
fn keep_temperatures(request: &mut Request, found: &Response) {
    if let (RequestPayload::Score(score), Ok(Answer::Score(held))) = (&mut request.ask, &found.result) {
        let missing = held.log_sum_exps.iter().map(|(t, _)| *t).filter(|t| !score.temperatures.contains(t));
        let missing: Vec<f64> = missing.collect();
        score.temperatures.extend(missing);
    }
}
