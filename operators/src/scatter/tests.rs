//! Scattering from service threads over several workers, and queries without an answer.

use super::*;
use std::sync::Mutex;
use std::time::Duration;
use timely::CommunicationConfig;
use timely::dataflow::operators::Input;
use timely::worker::Worker;

/// The findings of a part: the worker, its query, and the size of its batch.
type Found = (usize, String, usize);

type Batch = Vec<(String, Ticket<Found>)>;

/// Answers on a thread of its own, the last first.
struct Slow {
    worker: usize,
    thread: Sender<Batch>,
}

impl Slow {
    fn open(worker: usize) -> Self {
        let (thread, batches) = channel::<Batch>();
        std::thread::spawn(move || {
            for batch in batches {
                let together = batch.len();
                let found = batch.into_iter().rev().map(|(query, ticket)| (ticket, (worker, query, together)));
                Ticket::answer_all(found);
            }
        });
        Self { worker, thread }
    }
}

impl QueryShard for Slow {
    type Query = String;
    type Found = Found;

    fn submit(&mut self, batch: Batch) {
        // Some queries are lost, as by a thread that panics.
        let (lost, kept): (Batch, Batch) = batch.into_iter().partition(|(query, _)| query == "lost");
        drop(lost);
        drop(self.thread.send(kept));
    }

    fn dropped(&self) -> Found {
        (self.worker, "dropped".to_owned(), 0)
    }
}

/// An end that sends the findings.
fn tell(to: &Sender<Vec<Found>>) -> QueryEnd<Found> {
    let to = to.clone();
    Box::new(move |found| drop(to.send(found)))
}

/// Holds the timestamp while it is open.
type Held = timely::dataflow::InputHandle<u64, CapacityContainerBuilder<Vec<u8>>>;

/// Scatters on `worker` for as long as the input is open.
fn build(worker: &mut Worker) -> (QuerySender<String, Found>, Held) {
    let (query_sender, queries) = query_channel();
    let shard = Slow::open(worker.index());
    let input = worker.dataflow::<u64, _, _>(|scope| {
        let (input, held) = scope.new_input::<Vec<u8>>();
        scatter(held, queries, shard);
        input
    });
    (query_sender, input)
}

/// Steps until something comes.
fn hear<T>(worker: &mut Worker, from: &Receiver<T>) -> T {
    loop {
        worker.step_or_park(Some(Duration::from_millis(5)));
        if let Ok(heard) = from.try_recv() {
            return heard;
        }
    }
}

#[test]
fn every_worker_answers_every_query() {
    const QUERIES: usize = 60;
    for communication in
        [CommunicationConfig::Thread, CommunicationConfig::Process(3), CommunicationConfig::ProcessBinary(2)]
    {
        let config = timely::Config { communication, worker: timely::WorkerConfig::default() };
        let guards = timely::execute(config, |worker| {
            let (query_sender, mut input) = build(worker);
            let (here, workers) = (worker.index(), worker.peers());
            // The held stream has items, and its time advances: neither matters.
            input.send(1);
            input.advance_to(7);
            let (told, hears) = channel();
            // A service's threads, of which two ask at once.
            for half in 0..2 {
                let (query_sender, told) = (query_sender.clone(), told.clone());
                std::thread::spawn(move || {
                    for n in (half..QUERIES).step_by(2) {
                        query_sender.ask_all([(format!("{here} asks {n}"), tell(&told))]);
                    }
                });
            }
            let mut heard: Vec<Vec<Found>> = (0..QUERIES).map(|_| hear(worker, &hears)).collect();
            input.close();
            heard.sort_by_key(|found| found[0].1.split(' ').nth(2).and_then(|n| n.parse::<usize>().ok()));
            for (n, found) in heard.into_iter().enumerate() {
                let found: Vec<_> = found.into_iter().map(|(worker, query, _)| (worker, query)).collect();
                let expected: Vec<_> = (0..workers).map(|worker| (worker, format!("{here} asks {n}"))).collect();
                assert_eq!(found, expected);
            }
        });
        let ended: Vec<_> = guards.unwrap().join().into_iter().map(|worker| worker.unwrap()).collect();
        assert!(!ended.is_empty());
    }
}

#[test]
fn what_is_asked_together_is_answered_in_one_batch() {
    timely::execute_directly(|worker| {
        let (query_sender, _input) = build(worker);
        let (told, hears) = channel();
        query_sender.ask_all(["a", "b", "c"].map(|query| (query.to_owned(), tell(&told))));
        let heard: Vec<Found> = (0..3).flat_map(|_| hear(worker, &hears)).collect();
        assert_eq!(heard, ["c", "b", "a"].map(|query| (0, query.to_owned(), 3)), "ended as they were answered");
    });
}

#[test]
fn a_lost_part_is_reported_and_the_dataflow_ends() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let shared = Arc::clone(&heard);
    let guards = timely::execute(timely::Config::process(2), move |worker| {
        let (query_sender, input) = build(worker);
        if worker.index() == 0 {
            let (told, hears) = channel();
            query_sender.ask_all(["lost", "found"].map(|query| (query.to_owned(), tell(&told))));
            let found = [hear(worker, &hears), hear(worker, &hears)].concat();
            *shared.lock().unwrap() = found.into_iter().map(|(worker, query, _)| (worker, query)).collect();
        }
        input.close();
        while worker.has_dataflows() {
            worker.step_or_park(None);
        }
    });
    guards.unwrap().join().into_iter().for_each(|worker| worker.unwrap());
    let mut heard = heard.lock().unwrap().clone();
    heard.sort();
    let all = [(0, "dropped"), (0, "found"), (1, "dropped"), (1, "found")];
    assert_eq!(heard, all.map(|(worker, query)| (worker, query.to_owned())));
}

#[test]
fn a_query_may_precede_the_dataflow_but_not_follow_its_end() {
    timely::execute_directly(|worker| {
        let ((query_sender, queries), (told, hears)) = (query_channel(), channel());
        query_sender.ask_all([("early".to_owned(), tell(&told))]);
        let input = worker.dataflow::<u64, _, _>(|scope| {
            let (input, held) = scope.new_input::<Vec<u8>>();
            scatter(held, queries, Slow::open(0));
            input
        });
        assert_eq!(hear(worker, &hears), [(0, "early".to_owned(), 1)]);
        input.close();
        while worker.has_dataflows() {
            worker.step_or_park(None);
        }
        query_sender.ask_all([("late".to_owned(), tell(&told))]);
        drop(told);
        assert_eq!(hears.recv().ok(), None, "its end was dropped, and not called");
    });
}
