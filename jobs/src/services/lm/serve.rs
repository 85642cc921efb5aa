//! The service thread of one worker: has waiting requests tokenised, submits them to the engine, never waits for it.
//!
//! Requests taken together are tokenised by several threads, beside the engine's batch. The engine's answers become
//! responses on its second thread, which detokenises, counts, and answers the tickets.

use super::LmService;
use super::model::{Model, PreparedRequest};
use crate::fault::RunFault;
use crate::services::thread::{ServiceTask, ServiceThread, queue_time_us, task_answer};
use crate::services::timing::{AnswerTiming, microseconds};
use crate::services::usage::ServiceCounters;
use hopeval_lm::engine::{Completion, CompletionCallback, Engine, EngineCall};
use hopeval_lm::request::Request;
use hopeval_methods::{FailureKind, Response};
use hopeval_operators::gate::{Gate, WorkGuard};
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The most requests in one batch for the engine.
const MOST: usize = 256;

/// The work of the engine on one task: it begins with the first batch that has one of the task's requests. A task is
/// answered whole, so its other requests may then begin, too.
struct EngineWork {
    gate: Gate,
    begun: OnceLock<Option<WorkGuard>>,
}

impl EngineWork {
    fn begin(&self) -> Option<&WorkGuard> {
        self.begun.get_or_init(|| self.gate.begin_work()).as_ref()
    }
}

/// Serves until all senders are gone. Requests taken together go to the engine together.
pub(super) fn serve_tasks(thread: &ServiceThread, lm: &LmService, receiver: &Receiver<ServiceTask>) {
    while let Some((tasks, _tokenising)) = thread.take_tasks(receiver, MOST) {
        let Some((model, tokenisers)) = lm.model_and_tokenisers() else {
            // The model is opened before the dataflow is built.
            tasks.into_iter().for_each(|task| answer_unopened(thread, task));
            continue;
        };
        let asked = tokenisers.map_in_order(tasks, |task| engine_calls(thread, model, task));
        let asked = asked.into_iter().flatten();
        if let Some(engine) = lm.engine(thread.worker) {
            tell_halved(thread, lm, engine);
            engine.submit_all(asked);
        }
    }
    if let Some(engine) = lm.engine(thread.worker) {
        tell_halved(thread, lm, engine);
    }
}

/// Warns once if memory is too little for the batches: no figure changes, but the run is slower than necessary. Workers
/// share engines and their settings, so one warning is enough for all.
fn tell_halved(thread: &ServiceThread, lm: &LmService, engine: &Engine) {
    let halved = engine.counters().halved.load(Ordering::Relaxed);
    if halved > 0 && !lm.told_halved.swap(true, Ordering::Relaxed) {
        let (service, worker) = (&*thread.name, thread.worker);
        tracing::warn!(
            service,
            worker,
            halved,
            "memory ran out for batches, which are computed in parts; lower `batch_tokens`"
        );
    }
}

/// Answers a task without a model.
fn answer_unopened(thread: &ServiceThread, task: ServiceTask) {
    let response = Response::failure(FailureKind::Unavailable, "the model is not open: this is a bug");
    AnswerDelivery::of_thread(thread).answer_at_once(task, response);
}

/// The engine requests for a task; empty if the response is known without the engine.
fn engine_calls(thread: &ServiceThread, model: &Model, mut task: ServiceTask) -> Vec<EngineCall> {
    let delivery = AnswerDelivery::of_thread(thread);
    match model.prepare(&thread.corpus, &task.0.request) {
        Err(response) => {
            delivery.answer_at_once(task, *response);
            Vec::new()
        }
        Ok(PreparedRequest { requests, builder }) => {
            let work = Arc::new(EngineWork { gate: thread.gate.clone(), begun: OnceLock::new() });
            let begun = Arc::clone(&work);
            let replies = gather_replies(requests, move |completions| {
                if let Some(work) = begun.begin() {
                    task.0.ticket.set_work(work.clone());
                }
                let (response, engine_usage) = builder.build_response(completions);
                let (service_us, device_us) =
                    (microseconds(engine_usage.service_s), microseconds(engine_usage.device_s));
                if let Some(usage) = delivery.usage.get(&delivery.name) {
                    usage.count_shared(engine_usage.computed_tokens, engine_usage.energy_j, engine_usage.metered_s);
                }
                let timing = AnswerTiming { queue_us: queue_time_us(&task, service_us), service_us, device_us };
                delivery.answer_task(task, response, timing);
            });
            let may_begin = move || work.begin().is_some();
            let may_begin = Arc::new(may_begin);
            replies
                .into_iter()
                .map(|(request, reply)| {
                    let may_begin = Arc::clone(&may_begin);
                    EngineCall { request, reply, may_begin: Some(Box::new(move || may_begin())) }
                })
                .collect()
        }
    }
}

/// Counts an answer and gives it to its ticket.
struct AnswerDelivery {
    name: Arc<str>,
    usage: ServiceCounters,
    fault: RunFault,
}

impl AnswerDelivery {
    fn of_thread(thread: &ServiceThread) -> Self {
        Self { name: Arc::clone(&thread.name), usage: Arc::clone(&thread.usage), fault: thread.fault.clone() }
    }

    /// Answers a task that the engine does not see.
    fn answer_at_once(&self, task: ServiceTask, response: Response) {
        let queue_us = queue_time_us(&task, 0);
        self.answer_task(task, response, AnswerTiming { queue_us, ..AnswerTiming::default() });
    }

    fn answer_task(&self, task: ServiceTask, response: Response, timing: AnswerTiming) {
        if let Some(usage) = self.usage.get(&self.name) {
            // Requests share the device, so their shares add up to its time.
            usage.count_response(&response, timing.device_us, timing.device_us);
        }
        let (ticket, answer) = task_answer(task, response, timing, &self.fault);
        ticket.answer(answer);
    }
}

/// The completions of several requests; the last completion calls `end`.
struct PendingReplies<E> {
    left: usize,
    completions: Vec<Option<Completion>>,
    end: Option<E>,
}

/// Gives each request a reply closure. Together they call `end` once, with all completions in order, on the thread that
/// answers or a tokenising one. Without requests `end` is called immediately.
fn gather_replies<E: FnOnce(Vec<Completion>) + Send + 'static>(
    requests: Vec<Request>,
    end: E,
) -> Vec<(Request, CompletionCallback)> {
    if requests.is_empty() {
        end(Vec::new());
        return Vec::new();
    }
    let completions = requests.iter().map(|_| None).collect();
    let gather = Arc::new(Mutex::new(PendingReplies { left: requests.len(), completions, end: Some(end) }));
    let reply_to = |n: usize| {
        let gather = Arc::clone(&gather);
        move |completion| {
            let mut gather = gather.lock().unwrap_or_else(PoisonError::into_inner);
            gather.completions[n] = Some(completion);
            gather.left -= 1;
            if gather.left == 0
                && let Some(end) = gather.end.take()
            {
                let all = std::mem::take(&mut gather.completions).into_iter().flatten().collect();
                drop(gather);
                end(all);
            }
        }
    };
    let asking = requests.into_iter().enumerate();
    asking.map(|(n, request)| (request, Box::new(reply_to(n)) as CompletionCallback)).collect()
}
