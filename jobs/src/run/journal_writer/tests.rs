//! The time until answers are durable, on simulated stores.

use super::*;
use crate::services::served::ServedResponse;
use crate::write_backlog::WriteBacklog;
use hopeval_methods::{Answer, FailureKind, RequestKind, Response, ServiceName};
use hopeval_operators::flush::Flush;
use hopeval_operators::persist::persist;
use hopeval_results::journal::scan_segment;
use hopeval_results::store::SimulatedFate;
use std::collections::BTreeMap;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::operators::core::UnorderedInput;

/// A record of the service `paid` or `free`, and its key.
fn record(service: &str, n: u64) -> RecordedResponse {
    let mut response = Response::failure(FailureKind::TimedOut, "");
    response.result = Ok(Answer::Filter(n.to_string()));
    let key = RequestKey(*blake3::hash(&n.to_le_bytes()).as_bytes());
    let served = ServedResponse::without_times(response);
    RecordedResponse { bucket: 7, key, service: ServiceName(service.into()), kind: RequestKind::Filter, served }
}

/// Sends `records`, each at its time in milliseconds after the start, to a writer on `store`, and returns the
/// milliseconds from the sending of each paid one until it was durable. `watched` is the same store without delays.
fn latencies(store: &Store, watched: &Store, records: &[(u64, RecordedResponse)]) -> Vec<u64> {
    let paid = records.iter().filter(|(_, record)| &*record.service.0 == "paid").count();
    let (store, watched, records) = (store.clone(), watched.clone(), records.to_vec());
    timely::execute_directly(move |worker| {
        let answer_index = AnswerIndex::open(&store, "run", 0, 1, &BTreeSet::new()).unwrap();
        let writer_id = WriterId { run: "run".to_owned(), generation: 1, worker: 0 };
        let services = BTreeSet::from([Arc::from("paid")]);
        let counts = WriteCounts { open: Arc::default(), backlog: WriteBacklog::unbounded() };
        let writer =
            JournalWriter::new(&store, writer_id, answer_index, counts, RunFault::default(), services).unwrap();
        let (mut input, capability) = worker.dataflow::<u64, _, _>(|scope| {
            let (input, items) = scope.new_unordered_input::<CapacityContainerBuilder<Vec<RecordedResponse>>>();
            persist(items, "journal", writer, &Flush::default());
            input
        });
        let start = Instant::now();
        let mut waiting = records.into_iter().peekable();
        let (mut sent, mut durable) = (BTreeMap::new(), BTreeMap::new());
        while durable.len() < paid {
            assert!(start.elapsed() < Duration::from_secs(60), "{} of {paid} are durable", durable.len());
            let next = waiting.peek().map(|(at, _)| Duration::from_millis(*at));
            if next.is_some_and(|at| at <= start.elapsed()) {
                let (_, record) = waiting.next().unwrap();
                if &*record.service.0 == "paid" {
                    sent.insert(results_key(&record.key).0, start.elapsed());
                }
                input.activate().session(&capability).give(record);
            }
            // Nothing but the writer's own timer wakes the worker earlier.
            let pause = next.map_or(Duration::from_millis(20), |at| at.saturating_sub(start.elapsed()));
            worker.step_or_park(Some(pause.min(Duration::from_millis(20))));
            for (name, _) in watched.list(layout::JOURNAL).unwrap() {
                for entry in scan_segment(&watched, &name).unwrap_or_default() {
                    if sent.contains_key(&entry.key.0) {
                        durable.entry(entry.key.0).or_insert_with(|| start.elapsed());
                    }
                }
            }
        }
        sent.iter().map(|(key, at)| (durable[key] - *at).as_millis() as u64).collect()
    })
}

/// A handle with a delay, and the number of segments written through it.
fn slow(store: &Store, ms: u64) -> (Store, Arc<AtomicUsize>) {
    let count = Arc::<AtomicUsize>::default();
    let counter = Arc::clone(&count);
    let slow = store.simulate(Duration::from_millis(ms), move |operation| {
        counter.fetch_add(usize::from(operation.operation == "write"), Ordering::SeqCst);
        SimulatedFate::Success
    });
    (slow.unwrap(), count)
}

#[test]
fn a_paid_answer_is_durable_within_a_second() {
    let store = Store::open("memory:").unwrap();
    let (slow, writes) = slow(&store, 150);
    // The free ones before it would wait for ten seconds, and go along.
    let records = [(0, record("free", 1)), (200, record("free", 2)), (300, record("paid", 3))];
    let waited = latencies(&slow, &store, &records);
    assert!(waited.iter().all(|ms| (300..1_000).contains(ms)), "{waited:?}");
    assert_eq!(writes.load(Ordering::SeqCst), 1);
    let [(name, _)] = store.list(layout::JOURNAL).unwrap().try_into().unwrap();
    assert_eq!(scan_segment(&store, &name).unwrap().len(), 3);
}

#[test]
fn unpaid_answers_wait_as_before() {
    let store = Store::open("memory:").unwrap();
    let records = [(0, record("free", 1)), (1_500, record("paid", 2))];
    let waited = latencies(&store, &store, &records);
    assert!(waited[0] < 1_000, "{waited:?}");
    assert_eq!(store.list(layout::JOURNAL).unwrap().len(), 1, "the free one was not written before");
}

/// On a store that takes longer than answers come, segments grow, and their number does not.
#[test]
fn a_busy_writer_queues_no_segments() {
    let store = Store::open("memory:").unwrap();
    let (slow, writes) = slow(&store, 600);
    let records: Vec<_> = (0..200).map(|n| (n * 15, record("paid", n))).collect();
    let waited = latencies(&slow, &store, &records);
    let written = writes.load(Ordering::SeqCst);
    assert!(written <= 7, "3 s of answers, 0.6 s a write: {written}");
    assert!(waited.iter().all(|&ms| ms < 600 * 2 + 400 + 400), "at most two writes: {waited:?}");
}
