//! Collections over several workers: routes, end of the stream and failure.

use super::*;
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use timely::dataflow::operators::probe::Handle;
use timely::dataflow::operators::{Probe, ToStream};
use timely::worker::Worker;

/// The numbers kept by each worker.
type Kept = Arc<Mutex<BTreeMap<usize, Vec<u64>>>>;

/// Takes numbers up to 99, and keeps them when the thread with its ticket answers.
struct Numbers {
    worker: usize,
    taken: Vec<u64>,
    thread: Sender<Ticket<bool>>,
    kept: Kept,
}

impl Collector for Numbers {
    type Item = u64;
    type Done = bool;

    fn take_item(&mut self, number: u64) -> Result<(), ProductionFailure> {
        if number > 99 {
            return Err(ProductionFailure);
        }
        self.taken.push(number);
        Ok(())
    }

    fn begin_finish(&mut self, ticket: Ticket<bool>) -> Result<(), ProductionFailure> {
        self.thread.send(ticket).map_err(|_| ProductionFailure)
    }

    fn end_finish(&mut self, done: Option<bool>) -> Result<(), ProductionFailure> {
        if done != Some(true) {
            return Err(ProductionFailure);
        }
        self.taken.sort_unstable();
        self.kept.lock().unwrap().insert(self.worker, std::mem::take(&mut self.taken));
        Ok(())
    }
}

/// Sends each worker's `numbers` to the worker of their last digit.
fn build(worker: &mut Worker, numbers: Vec<u64>, kept: &Kept) -> (Handle<u64>, Receiver<Ticket<bool>>) {
    let (thread, tickets) = channel();
    let numbers_here = Numbers { worker: worker.index(), taken: Vec::new(), thread, kept: Arc::clone(kept) };
    let probe = worker.dataflow::<u64, _, _>(|scope| {
        let numbers = numbers.to_stream(scope).container::<Vec<_>>();
        collect(numbers, |number| (number % 10) as usize, numbers_here).probe().0
    });
    (probe, tickets)
}

/// Steps until `found` returns something.
fn step_until<T>(worker: &mut Worker, mut found: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "it does not come");
        worker.step_or_park(Some(Duration::from_millis(10)));
    }
}

#[test]
fn items_go_where_they_belong_and_are_kept_before_the_end() {
    let kept = Kept::default();
    let inner = Arc::clone(&kept);
    let guards = timely::execute(timely::Config::process(3), move |worker| {
        let first = worker.index() as u64;
        let (probe, tickets) = build(worker, vec![10 * first, 10 * first + 1, 10 * first + 2], &inner);
        let ticket = step_until(worker, || tickets.try_recv().ok());
        assert!(!probe.done(), "nothing is kept before the ticket is answered");
        std::thread::spawn(move || ticket.answer(true));
        step_until(worker, || probe.done().then_some(()));
        assert!(inner.lock().unwrap().contains_key(&worker.index()));
    });
    guards.unwrap().join().into_iter().for_each(|ended| ended.unwrap());
    let expected = [(0, vec![0, 10, 20]), (1, vec![1, 11, 21]), (2, vec![2, 12, 22])];
    assert_eq!(*kept.lock().unwrap(), BTreeMap::from(expected));
}

#[test]
fn nothing_to_take_still_finishes() {
    timely::execute_directly(|worker| {
        let kept = Kept::default();
        let (probe, tickets) = build(worker, Vec::new(), &kept);
        step_until(worker, || tickets.try_recv().ok()).answer(true);
        step_until(worker, || probe.done().then_some(()));
        assert_eq!(*kept.lock().unwrap(), BTreeMap::from([(0, Vec::new())]));
    });
}

/// Steps for long enough to let the stream end if it can. Returns whether it ended, and whether a ticket came.
fn ends(numbers: Vec<u64>, answer: fn(Ticket<bool>)) -> (bool, bool) {
    let (sender, receiver) = channel();
    timely::execute_directly(move |worker| {
        let dataflow = worker.next_dataflow_index();
        let (probe, tickets) = build(worker, numbers, &Kept::default());
        let (begun, mut asked) = (Instant::now(), false);
        while begun.elapsed() < Duration::from_millis(100) {
            worker.step_or_park(Some(Duration::from_millis(10)));
            if let Ok(ticket) = tickets.try_recv() {
                asked = true;
                answer(ticket);
            }
        }
        sender.send((probe.done(), asked)).unwrap();
        worker.drop_dataflow(dataflow);
    });
    receiver.recv().unwrap()
}

#[test]
fn a_failure_never_ends() {
    assert_eq!(ends(vec![1, 100, 2], |ticket| ticket.answer(true)), (false, false), "an item is refused");
    assert_eq!(ends(vec![1], |ticket| ticket.answer(false)), (false, true), "the last step fails");
    assert_eq!(ends(vec![1], drop), (false, true), "the last step panics");
}
