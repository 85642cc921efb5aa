//! The time until answers are durable, on simulated stores.

use super::*;
use crate::services::served::ServedResponse;
use crate::write_backlog::WriteBacklog;
use hopeval_methods::{Answer, FailureKind, RequestKind, Response, ServiceName};
use hopeval_operators::flush::Flush;
use hopeval_operators::persist::persist;
use hopeval_operators::ticket::TicketBox;
use hopeval_results::Journal;
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

/// The clock of the host that wrote the unusable answer is an hour ahead.
#[test]
fn an_answer_computed_again_counts_before_the_one_that_was_found() {
    let store = Store::open("memory:").unwrap();
    let again = record("free", 1);
    let (key, bucket) = (results_key(&again.key), again.bucket);
    let ahead = layout::segment_name(layout::JOURNAL, now_ms() + 3_600_000, "other", 1, 0, 0);
    write_segment(&store, &ahead, vec![JournalEntry { bucket, key, bytes: "unusable".into() }]).unwrap();
    let answer_index = AnswerIndex::open(&store, "run", 0, 1, &BTreeSet::new()).unwrap();
    let writer_id = WriterId { run: "run".to_owned(), generation: 1, worker: 0 };
    let counts = WriteCounts { open: Arc::default(), backlog: WriteBacklog::unbounded() };
    let mut writer =
        JournalWriter::new(&store, writer_id, answer_index, counts, RunFault::default(), BTreeSet::new()).unwrap();
    writer.accept_items(0, &mut vec![again]);
    let tickets = TicketBox::<Receipt>::default();
    let due = DueWrites { complete: 1, advanced: true, flush: false };
    writer.begin_writes(due, &mut || tickets.new_ticket(0));
    assert!(matches!(tickets.wait_for(1, Duration::from_secs(60)).unwrap()[..], [(0, Some(_))]));
    let journal = Journal::open(&store, &[layout::JOURNAL.to_owned()], &|_| true, &BTreeSet::new()).unwrap();
    let value = journal.read(&[journal.locate(&key).unwrap()]).remove(0).unwrap();
    assert_ne!(value, "unusable", "every later run would compute it again");
}
