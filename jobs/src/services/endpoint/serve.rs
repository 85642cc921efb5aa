//! The owner's thread: makes calls of waiting requests, and never waits for them.

use super::answers::AnswerReader;
use super::calls::PreparedCall;
use super::open::EndpointService;
use crate::error::JobError;
use crate::fault::RunFault;
use crate::services::thread::{ServiceTask, ServiceThread, task_answer, wait_for_exit};
use crate::services::timing::AnswerTiming;
use crate::services::usage::ServiceCounters;
use hopeval_endpoint::{AttemptGuard, CallEnd, CallVerdict, EndpointCall, EndpointHost, SpendingRequest};
use hopeval_methods::request::Sampling;
use hopeval_methods::{Request, RequestPayload, Response};
use hopeval_operators::gate::WorkGuard;
use hopeval_operators::serve::LOOK_PAUSE;
use rustc_hash::FxHashMap;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// The most requests taken together.
const MOST: usize = 1024;

/// Serves until all senders are gone and all calls have ended.
pub(super) fn serve_tasks(thread: &ServiceThread, service: &EndpointService, receiver: &Receiver<ServiceTask>) {
    // Each attempt is work of its own; making calls of tasks is work, too.
    let calls = Arc::new(());
    // A missing key ends the run before the first question, not before the first call.
    if thread.worker == 0
        && let Err(error) = service.endpoint(|| run_host(thread, service))
    {
        thread.fault.report(error);
        wait_for_exit(());
    }
    while let Some((tasks, _preparing)) = thread.take_tasks(receiver, MOST) {
        for (call, tasks) in group_draws(thread, service, tasks) {
            send_call(thread, service, call, tasks, Arc::clone(&calls));
        }
    }
    while Arc::strong_count(&calls) > 1 {
        std::thread::sleep(Duration::from_millis(1));
    }
    if let Some(endpoint) = service.open_endpoint() {
        tracing::info!(service = %thread.name, "the endpoint's account: {}", endpoint.usage());
    }
}

/// The calls for tasks: several draws of one payload become one call, if the server draws several choices.
fn group_draws(
    thread: &ServiceThread,
    service: &EndpointService,
    tasks: Vec<ServiceTask>,
) -> Vec<(PreparedCall, Vec<ServiceTask>)> {
    let mut calls: Vec<(PreparedCall, Vec<ServiceTask>)> = Vec::new();
    let mut by_payload: FxHashMap<Vec<u8>, usize> = FxHashMap::default();
    let together = service.settings.facts().choices;
    for task in tasks {
        let request = &task.0.request;
        let mut payload = Vec::new();
        if together && is_drawn(request) {
            request.append_canonical(&mut payload);
            if let Some(&place) = by_payload.get(&payload) {
                let (call, drawn) = &mut calls[place];
                if let EndpointCall::Generate(call) = &mut call.call {
                    call.choices += 1;
                }
                drawn.push(task);
                continue;
            }
            by_payload.insert(payload, calls.len());
        }
        match service.prepare_call(&thread.corpus, request) {
            Ok(call) => calls.push((call, vec![task])),
            Err(response) => {
                AnswerDelivery::of_thread(thread).answer_task(task, *response, AnswerTiming::default(), None)
            }
        }
    }
    calls
}

/// Whether a request is one of several independent samples.
fn is_drawn(request: &Request) -> bool {
    matches!(&request.ask, RequestPayload::Generate(asked) if asked.sampling != Sampling::Greedy)
}

/// Sends a call; its tasks are answered on the client's thread, each when its choice comes.
fn send_call(
    thread: &ServiceThread,
    service: &EndpointService,
    call: PreparedCall,
    mut tasks: Vec<ServiceTask>,
    under_way: Arc<()>,
) {
    let endpoint = match service.endpoint(|| run_host(thread, service)) {
        Ok(endpoint) => endpoint,
        Err(error) => {
            thread.fault.report(error);
            wait_for_exit(tasks)
        }
    };
    let (delivery, reader) = (AnswerDelivery::of_thread(thread), AnswerReader::of_settings(&service.settings));
    // The prompt goes with the call: ten thousand open calls would keep a copy each.
    for (submission, _) in &mut tasks {
        submission.request.drop_prompt();
    }
    let PreparedCall { call, report } = call;
    let corpus = Arc::clone(&thread.corpus);
    endpoint.call(
        call,
        Box::new(move |end: CallEnd| {
            let _until_the_end = &under_way;
            let ended = match &end.verdict {
                CallVerdict::Part(choices) => choices.len().min(tasks.len()),
                CallVerdict::Answered(_) | CallVerdict::Failed(_) => tasks.len(),
            };
            let ended: Vec<ServiceTask> = tasks.drain(..ended).collect();
            let requests: Vec<&Request> = ended.iter().map(|(submission, _)| &submission.request).collect();
            let read = reader.read_responses(&corpus, report.as_ref(), &requests, end);
            let work = read.guard.and_then(work_guard);
            let shares = read.responses.len().max(1) as u64;
            for (task, response) in ended.into_iter().zip(read.responses) {
                let waited = u64::try_from(task.1.elapsed().as_micros()).unwrap_or(u64::MAX);
                let queue_us = read.queue_us.max(waited.saturating_sub(read.service_us));
                let timing = AnswerTiming { queue_us, service_us: read.service_us / shares, device_us: 0 };
                delivery.answer_task(task, response, timing, work.clone());
            }
        }),
    );
}

/// The run as the client sees it.
fn run_host(thread: &ServiceThread, service: &EndpointService) -> EndpointHost {
    let (gate, fault, name) = (thread.gate.clone(), thread.fault.clone(), Arc::clone(&thread.name));
    let reserve = match &thread.spending {
        // Nobody pays a retriever for its answers.
        Some(ledger) if !service.settings.is_retriever() => {
            let (ledger, name) = (ledger.clone(), Arc::clone(&thread.name));
            Arc::new(move |most, receiver| ledger.request(&name, most, receiver)) as SpendingRequest
        }
        _ => EndpointHost::unlimited(),
    };
    let (usage, service) = (Arc::clone(&thread.usage), Arc::clone(&thread.name));
    EndpointHost {
        reserve,
        begin_attempt: Arc::new(move || gate.begin_work().map(|work| Box::new(work) as AttemptGuard)),
        fault: Arc::new(move |source| {
            fault.report(JobError::EndpointFault { service: name.to_string(), source });
        }),
        // The journal has answers of this very model: its name is in their keys.
        model_known: Arc::new(move || usage.get(&service).is_some_and(|usage| usage.read().journalled > 0)),
    }
}

/// The guard of an attempt as the run made it.
fn work_guard(guard: AttemptGuard) -> Option<WorkGuard> {
    guard.downcast::<WorkGuard>().ok().map(|work| *work)
}

/// The service time from which an answer can wait for a worker's own look.
const SLOW_ANSWER: Duration = LOOK_PAUSE.saturating_mul(10);

/// Counts responses, and gives them to their tickets.
pub(super) struct AnswerDelivery {
    name: Arc<str>,
    usage: ServiceCounters,
    fault: RunFault,
}

impl AnswerDelivery {
    pub(super) fn of_thread(thread: &ServiceThread) -> Self {
        let (name, usage) = (Arc::clone(&thread.name), Arc::clone(&thread.usage));
        Self { name, usage, fault: thread.fault.clone() }
    }

    pub(super) fn answer_task(
        &self,
        mut task: ServiceTask,
        response: Response,
        timing: AnswerTiming,
        work: Option<WorkGuard>,
    ) {
        if let Some(usage) = self.usage.get(&self.name) {
            usage.count_response(&response, timing.service_us, timing.device_us);
        }
        if let Some(work) = work {
            task.0.ticket.set_work(work);
        }
        let (ticket, answer) = task_answer(task, response, timing, &self.fault);
        // A pause more is nothing beside a model's time; a retriever may take no longer than the pause.
        match Duration::from_micros(timing.service_us) >= SLOW_ANSWER {
            true => ticket.answer_soon(answer),
            false => ticket.answer(answer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::RunFault;
    use crate::services::conformance::corpus;
    use crate::services::fragments::FragmentTexts;
    use crate::services::served::{RecordedResponse, ServedResponse};
    use crate::services::usage::service_counters;
    use crate::write_backlog::WriteBacklog;
    use hopeval_endpoint::EndpointSettings;
    use hopeval_methods::request::{GeneratePayload, TextFormat};
    use hopeval_methods::{Prompt, ServiceName};
    use hopeval_operators::RequestKey;
    use hopeval_operators::gate::Gate;
    use hopeval_operators::serve::{BackendAnswer, Submission};
    use hopeval_operators::ticket::TicketBox;
    use hopeval_simulated_llm::{FaultKind, FaultSettings, SimulatedServer, SimulationSettings};
    use std::sync::mpsc::channel;
    use std::time::{Duration, Instant};

    const LONGEST: Duration = Duration::from_secs(60);

    /// Three draws of one payload become one call, and the server leaves one choice out each time.
    #[test]
    fn draws_that_came_are_recorded_while_others_are_missing() {
        let faults = FaultSettings { rates: [(FaultKind::FewerChoices, 1.0)].into(), ..FaultSettings::default() };
        let server = SimulatedServer::start(SimulationSettings { faults, ..SimulationSettings::default() })
            .expect("a simulated server");
        // The third one is asked for once, and not again.
        let settings = EndpointSettings {
            first_pause_s: 3600.0,
            longest_pause_s: 3600.0,
            ..EndpointSettings::new("simulated-llm", server.base_url())
        };
        let dir = tempfile::tempdir().expect("a temporary folder");
        let (name, gate): (Arc<str>, Gate) = ("llm".into(), Gate::default());
        let thread = ServiceThread {
            corpus: corpus(dir.path()),
            name: Arc::clone(&name),
            usage: service_counters([&name]),
            fault: RunFault::default(),
            gate: gate.clone(),
            journal_backlog: WriteBacklog::unbounded(),
            worker: 0,
            batch: 1,
            spending: None,
            inlet: None,
        };
        let tickets = TicketBox::<BackendAnswer<ServedResponse, RecordedResponse>>::default();
        let (sender, tasks) = channel::<ServiceTask>();
        let ask = GeneratePayload {
            prompt: Prompt::text("Passages: none. Question: who?"),
            max_tokens: 20,
            stop: Vec::new(),
            sampling: Sampling::Server,
            format: TextFormat::Text,
            logprobs: false,
        };
        for draw in 0..3 {
            let request = Request { draw, ..Request::new(&ServiceName("llm".into()), ask.clone()) };
            let (key, ticket) = (RequestKey([draw as u8; 32]), tickets.new_ticket(draw as usize));
            sender.send((Submission { key, bucket: 0, request, ticket }, Instant::now())).expect("it is open");
        }
        std::thread::spawn(move || {
            let service = EndpointService::new("llm", settings, FragmentTexts::default());
            serve_tasks(&thread, &service, &tasks);
        });
        for (slot, answer) in tickets.wait_for(2, LONGEST).expect("two choices came") {
            let answer = answer.expect("no ticket is dropped");
            assert!(answer.response.response.result.is_ok() && slot < 2, "{:?}", answer.response);
            let record = answer.record.expect("it is journalled");
            assert_eq!(record.key, RequestKey([slot as u8; 32]));
            let facts = record.served.response.facts.as_ref().expect("of its call");
            assert_eq!(facts.attempts, u32::from(slot == 0), "the first of a part has what is left of its sums");
        }
        gate.close();
        let begun = Instant::now();
        while !gate.is_quiet() {
            assert!(begun.elapsed() < LONGEST, "a drain waits for nothing but attempts");
            std::thread::yield_now();
        }
        assert!(tickets.wait_for(1, Duration::from_millis(100)).is_err(), "the third one is asked for by the next run");
    }
}
