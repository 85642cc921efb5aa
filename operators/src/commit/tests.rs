//! The committer gets every cohort once, in order, with every receipt, on worker 0 alone.

use super::*;
use crate::tally::TallyChange;
use std::sync::{Arc, Mutex};
use timely::dataflow::InputHandle;
use timely::dataflow::operators::{Input, ToStream};

type Calls = Arc<Mutex<Vec<(usize, u64, Vec<(u64, usize)>)>>>;

struct Log {
    worker: usize,
    calls: Calls,
}

impl Committer for Log {
    type Receipt = (u64, usize);
    type Key = u8;
    type Change = TallyChange;

    fn complete(&mut self, complete: u64, receipts: Vec<(u64, usize)>, _: &TallyTable<u8, TallyChange>) {
        self.calls.lock().unwrap().push((self.worker, complete, receipts));
    }
}

#[expect(clippy::type_complexity, reason = "spelled out where it is read")]
fn committed(workers: usize, cohorts: u64) -> Vec<(usize, u64, Vec<(u64, usize)>)> {
    let calls = Calls::default();
    let shared = Arc::clone(&calls);
    timely::execute(timely::Config::process(workers), move |worker| {
        let log = Log { worker: worker.index(), calls: Arc::clone(&shared) };
        let mut input = InputHandle::new();
        worker.dataflow::<u64, _, _>(|scope| {
            let receipts = scope.input_from(&mut input);
            let live = std::iter::empty::<TallyUpdate<u8, TallyChange>>().to_stream(scope).container::<Vec<_>>();
            commit(receipts, live, TallyTable::default(), log);
        });
        for cohort in 0..cohorts {
            input.send((cohort, worker.index()));
            input.advance_to(cohort + 1);
            worker.step();
        }
    })
    .unwrap()
    .join()
    .into_iter()
    .for_each(|worker| worker.unwrap());
    calls.lock().unwrap().clone()
}

#[test]
fn cohorts_come_once_in_order_with_their_receipts() {
    for workers in [1, 2, 4] {
        let calls = committed(workers, 20);
        assert!(calls.iter().all(|(worker, ..)| *worker == 0));
        assert!(calls.is_sorted_by(|a, b| a.1 < b.1), "a cohort came twice or out of order: {calls:?}");
        assert_eq!(calls.last().map(|call| call.1), Some(u64::MAX));
        let mut arrived = Vec::new();
        for (_, complete, receipts) in &calls {
            arrived.extend(receipts.iter().copied());
            let due = arrived.iter().filter(|(cohort, _)| cohort < complete).count();
            let expected = usize::try_from(*complete).unwrap_or(usize::MAX).min(20) * workers;
            assert_eq!(due, expected, "not every receipt below {complete} was there");
        }
        arrived.sort_unstable();
        assert!(arrived.into_iter().eq((0..20).flat_map(|cohort| (0..workers).map(move |worker| (cohort, worker)))));
    }
}

#[test]
fn nothing_at_all_is_complete_at_once() {
    assert_eq!(committed(2, 0), [(0, u64::MAX, Vec::new())]);
}
