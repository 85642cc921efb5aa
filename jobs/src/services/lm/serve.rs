//! The service thread of one worker: tokenises what waits, hands it to the engine, and never waits for it.

use super::{Asked, Lm};
use crate::services::desk::{Counter, Task, answered, drain};
use crate::services::spent::{Books, Took, add, microseconds};
use hopeval_lm::engine::{Completion, Engine};
use hopeval_lm::request::Request;
use hopeval_methods::{FailureKind, Response};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};

/// Requests that are taken in one go.
const MOST: usize = 256;

/// Serves until nobody can ask any more.
pub(in crate::services) fn serve(counter: &Counter, lm: &Lm, receiver: &Receiver<Task>) {
    while let Some(tasks) = drain(receiver, MOST) {
        for task in tasks {
            take(counter, lm, task);
        }
    }
}

fn take(counter: &Counter, lm: &Lm, task: Task) {
    let till = Till { name: Arc::clone(&counter.name), books: Arc::clone(&counter.books) };
    let prepared = match lm.opened() {
        Some(model) => model.prepare(&counter.catalogue.corpus, &task.0.request).map(|asked| (model, asked)),
        // It was opened before the dataflow was built.
        None => Err(Box::new(Response::failure(FailureKind::Unavailable, "the model is not open: this is a bug"))),
    };
    match prepared {
        Err(response) => {
            let queue_us = waited(&task, 0);
            till.settle(task, *response, Took { queue_us, ..Took::default() });
        }
        Ok((model, Asked { requests, ending })) => {
            let meter = Arc::clone(&model.meter);
            submit(&model.session.engine, requests, move |completions| {
                let (response, seconds) = ending.end(completions);
                let (service_us, device_us) = (microseconds(seconds.service), microseconds(seconds.device));
                if let Some(spent) = till.books.get(&till.name) {
                    add(&spent.computed_tokens, meter.unbooked_tokens());
                }
                let took = Took { queue_us: waited(&task, service_us), service_us, device_us };
                till.settle(task, response, took);
            });
        }
    }
}

/// Microseconds since a request came, less those of its service.
fn waited((_, since): &Task, service_us: u64) -> u64 {
    u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX).saturating_sub(service_us)
}

/// Where an answer is booked and handed out.
struct Till {
    name: Arc<str>,
    books: Books,
}

impl Till {
    fn settle(&self, task: Task, response: Response, took: Took) {
        if let Some(spent) = self.books.get(&self.name) {
            // The device is what the service's requests share: the sum of their shares is its time.
            spent.count(&response, took.device_us, took.device_us);
        }
        let (ticket, answer) = answered(task, response, took);
        ticket.answer(answer);
    }
}

/// Several requests on their way, of which the last to be answered ends all.
struct Gather {
    left: AtomicUsize,
    completions: Mutex<Vec<Option<Completion>>>,
}

/// Submits all requests; `reply` is called once, with their completions in order, on the engine's thread or here.
fn submit(engine: &Engine, requests: Vec<Request>, reply: impl FnOnce(Vec<Completion>) + Send + 'static) {
    match <[Request; 1]>::try_from(requests) {
        Ok([one]) => engine.submit(one, move |completion| reply(vec![completion])),
        Err(none) if none.is_empty() => reply(Vec::new()),
        Err(several) => {
            let completions = (0..several.len()).map(|_| None).collect();
            let gather =
                Arc::new(Gather { left: AtomicUsize::new(several.len()), completions: Mutex::new(completions) });
            let reply = Arc::new(Mutex::new(Some(reply)));
            for (n, request) in several.into_iter().enumerate() {
                let (gather, reply) = (Arc::clone(&gather), Arc::clone(&reply));
                engine.submit(request, move |completion| {
                    let mut completions = gather.completions.lock().unwrap_or_else(PoisonError::into_inner);
                    completions[n] = Some(completion);
                    if gather.left.fetch_sub(1, Ordering::AcqRel) > 1 {
                        return;
                    }
                    let all = std::mem::take(&mut *completions).into_iter().flatten().collect();
                    drop(completions);
                    if let Some(reply) = reply.lock().unwrap_or_else(PoisonError::into_inner).take() {
                        reply(all);
                    }
                });
            }
        }
    }
}
