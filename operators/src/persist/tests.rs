//! Durability with a writer controlled by the test.

use super::*;
use std::cell::RefCell;
use std::rc::Rc;
use timely::dataflow::operators::core::UnorderedInput;
use timely::dataflow::operators::{Inspect, Probe};
use timely::progress::frontier::AntichainRef;
use timely::worker::Worker;

/// A write: its items and its ticket.
type Write = (Vec<(u64, u8)>, Ticket<usize>);

/// Writes all its items whenever time advances, and when it is flushed.
#[derive(Default)]
struct Slow {
    held: Vec<(u64, u8)>,
    writes: Rc<RefCell<Vec<Write>>>,
    pause: Duration,
}

impl DurableWriter for Slow {
    type Item = u8;
    type Receipt = usize;

    fn accept_items(&mut self, cohort: u64, items: &mut Vec<u8>) {
        self.held.extend(items.drain(..).map(|item| (cohort, item)));
    }

    fn begin_writes(&mut self, due: DueWrites, begin: &mut dyn FnMut() -> Ticket<usize>) {
        if (due.advanced || due.flush) && !self.held.is_empty() {
            self.writes.borrow_mut().push((std::mem::take(&mut self.held), begin()));
        }
    }

    fn pause(&self) -> Duration {
        self.pause
    }
}

fn settle(worker: &mut Worker) {
    for _ in 0..4 {
        worker.step();
    }
}

fn acknowledge(write: Write) -> Vec<(u64, u8)> {
    let (items, ticket) = write;
    ticket.answer(items.len());
    items
}

macro_rules! graph {
    ($worker:ident, $input:ident, $writes:ident, $receipts:ident, $probe:ident) => {
        graph!($worker, $input, $writes, $receipts, $probe, Flush::default());
    };
    ($worker:ident, $input:ident, $writes:ident, $receipts:ident, $probe:ident, $flush:expr) => {
        graph!($worker, $input, $writes, $receipts, $probe, $flush, Duration::ZERO);
    };
    ($worker:ident, $input:ident, $writes:ident, $receipts:ident, $probe:ident, $flush:expr, $pause:expr) => {
        let writer = Slow { pause: $pause, ..Slow::default() };
        let $writes = Rc::clone(&writer.writes);
        let $receipts = Rc::new(RefCell::new(Vec::new()));
        let (mut $input, $probe) = $worker.dataflow::<u64, _, _>(|scope| {
            let (input, items) = scope.new_unordered_input::<CapacityContainerBuilder<Vec<u8>>>();
            let log = Rc::clone(&$receipts);
            let receipts = persist(items, "test", writer, &$flush).inspect_core(move |event| {
                if let Ok((stamp, batch)) = event {
                    log.borrow_mut().extend(batch.iter().map(|&receipt| (*stamp.expect_singleton(), receipt)));
                }
            });
            (input, receipts.probe().0)
        });
    };
}

/// Sends one item of each of the `cohorts`, and completes them one after the other.
macro_rules! complete_cohorts {
    ($worker:ident, $input:ident, $cohorts:expr) => {
        for cohort in $cohorts {
            let at = $input.1.delayed(&cohort);
            $input.0.activate().session(&at).give(cohort as u8);
            $input.1 = $input.1.delayed(&(cohort + 1));
            drop(at);
            settle($worker);
        }
    };
}

fn frontier(probe: &timely::dataflow::operators::probe::Handle<u64>) -> Option<u64> {
    probe.with_frontier(|frontier: AntichainRef<'_, u64>| frontier.first().copied())
}

#[test]
fn time_waits_for_every_earlier_write_in_any_order() {
    timely::execute_directly(|worker| {
        graph!(worker, input, writes, receipts, probe);
        let first = input.1.delayed(&0);
        let second = input.1.delayed(&1);
        let third = input.1.delayed(&2);
        // An entry of cohort 2 comes before cohort 0 is complete: an outcome of cohort 0 may depend on it.
        input.0.activate().session(&third).give(30);
        input.0.activate().session(&first).give(10);
        settle(worker);
        assert!(writes.borrow().is_empty());
        drop(first);
        drop(input.1);
        settle(worker);
        input.0.activate().session(&second).give(20);
        drop(second);
        settle(worker);
        input.0.activate().session(&third).give(31);
        drop(third);
        settle(worker);
        assert_eq!(writes.borrow().len(), 3);
        assert_eq!(frontier(&probe), Some(0));

        // Later writes are durable first: nothing may pass yet.
        assert_eq!(acknowledge(writes.borrow_mut().pop().unwrap()), [(2, 31)]);
        assert_eq!(acknowledge(writes.borrow_mut().pop().unwrap()), [(1, 20)]);
        settle(worker);
        assert_eq!(frontier(&probe), Some(0), "cohort 0 passed, but an entry that it may have seen is not durable");
        assert_eq!(*receipts.borrow(), [(0, 1), (0, 1)]);

        assert_eq!(acknowledge(writes.borrow_mut().pop().unwrap()), [(2, 30), (0, 10)]);
        settle(worker);
        assert_eq!(*receipts.borrow(), [(0, 1), (0, 1), (0, 2)]);
        assert!(probe.done());
    });
}

#[test]
fn cohorts_pass_one_after_the_other_as_they_become_durable() {
    timely::execute_directly(|worker| {
        graph!(worker, input, writes, receipts, probe);
        for cohort in 0..4u64 {
            complete_cohorts!(worker, input, [cohort]);
            assert_eq!(frontier(&probe), Some(cohort));
            let write = writes.borrow_mut().pop().unwrap();
            assert_eq!(acknowledge(write), [(cohort, cohort as u8)]);
            settle(worker);
            assert_eq!(frontier(&probe), Some(cohort + 1));
        }
        drop(input);
        settle(worker);
        assert!(probe.done(), "an empty rest needs no write");
        assert_eq!(*receipts.borrow(), [(0, 1), (1, 1), (2, 1), (3, 1)]);
    });
}

#[test]
fn cohorts_of_a_pause_are_written_together_at_its_end() {
    const PAUSE: Duration = Duration::from_millis(500);
    const PATIENCE: Duration = Duration::from_secs(20);
    timely::execute_directly(|worker| {
        graph!(worker, input, writes, receipts, probe, Flush::default(), PAUSE);
        let begun = Instant::now();
        complete_cohorts!(worker, input, 0..4u64);
        let within_pause = begun.elapsed() < PAUSE;
        assert!(!within_pause || frontier(&probe) == Some(0), "nothing is durable yet");
        let mut written = Vec::new();
        // Nothing else arrives: only the timer is left.
        while written.iter().map(Vec::len).sum::<usize>() < 4 {
            assert!(begun.elapsed() < PATIENCE, "cohorts wait for ever: {written:?}");
            written.extend(writes.borrow_mut().drain(..).map(acknowledge));
            worker.step_or_park(Some(PAUSE));
        }
        if within_pause {
            assert_eq!(written, [vec![(0, 0)], vec![(1, 1), (2, 2), (3, 3)]], "the first one waits for nothing");
        }
        settle(worker);
        assert_eq!(frontier(&probe), Some(4));
    });
}

#[test]
fn neither_a_flush_nor_the_end_waits_for_a_pause() {
    timely::execute_directly(|worker| {
        let flush = Flush::default();
        graph!(worker, input, writes, receipts, probe, flush, Duration::from_secs(3600));
        complete_cohorts!(worker, input, 0..2u64);
        assert_eq!(writes.borrow().len(), 1);
        flush.ask();
        settle(worker);
        assert_eq!(writes.borrow().len(), 2);
        writes.borrow_mut().drain(..).for_each(|write| drop(acknowledge(write)));
        settle(worker);
        assert_eq!(frontier(&probe), Some(2), "a complete cohort passes with its flush");
    });
    timely::execute_directly(|worker| {
        graph!(worker, input, writes, receipts, probe, Flush::default(), Duration::from_secs(3600));
        complete_cohorts!(worker, input, 0..2u64);
        drop(input);
        settle(worker);
        assert_eq!(writes.borrow().len(), 2);
        writes.borrow_mut().drain(..).for_each(|write| drop(acknowledge(write)));
        settle(worker);
        assert!(probe.done());
        assert_eq!(*receipts.borrow(), [(0, 1), (0, 1)]);
    });
}

#[test]
fn a_ticket_that_a_writer_drops_never_lets_time_go() {
    timely::execute_directly(|worker| {
        graph!(worker, input, writes, receipts, probe);
        complete_cohorts!(worker, input, 0..2u64);
        drop(input);
        settle(worker);
        let good = writes.borrow_mut().pop().unwrap();
        drop(writes.borrow_mut().pop().unwrap());
        acknowledge(good);
        (0..20).for_each(|_| settle(worker));
        assert_eq!(frontier(&probe), Some(0));
        assert_eq!(*receipts.borrow(), [(0, 1)], "what is durable is told");
        worker.installed_dataflows().into_iter().for_each(|id| worker.drop_dataflow(id));
    });
}

#[test]
fn a_flush_writes_held_items_once_and_ends_when_durable() {
    timely::execute_directly(|worker| {
        let flush = Flush::default();
        graph!(worker, input, writes, receipts, probe, flush);
        let later = input.1.delayed(&3);
        input.0.activate().session(&input.1).give(1);
        input.0.activate().session(&later).give(2);
        settle(worker);
        assert!(writes.borrow().is_empty() && !flush.is_done(), "nothing is complete, and nobody has asked");

        flush.ask();
        settle(worker);
        assert_eq!(writes.borrow().len(), 1, "one write, whatever the cohorts");
        assert!(!flush.is_done(), "it is not durable yet");
        let write = writes.borrow_mut().pop().unwrap();
        assert_eq!(acknowledge(write), [(0, 1), (3, 2)]);
        settle(worker);
        assert!(flush.is_done());
        assert_eq!(*receipts.borrow(), [(0, 2)]);
        assert_eq!(frontier(&probe), Some(0), "a flush completes no cohort");

        // Later items are written, too.
        input.0.activate().session(&later).give(4);
        settle(worker);
        assert!(!flush.is_done());
        let write = writes.borrow_mut().pop().unwrap();
        assert_eq!(acknowledge(write), [(3, 4)]);
        settle(worker);
        assert!(flush.is_done() && writes.borrow().is_empty());
        drop((later, input));
        settle(worker);
        assert!(probe.done() && flush.is_done(), "an operator that has ended holds nothing");
    });
}

#[test]
fn a_flush_is_not_done_while_an_earlier_write_is_open() {
    timely::execute_directly(|worker| {
        let flush = Flush::default();
        graph!(worker, input, writes, receipts, probe, flush);
        input.0.activate().session(&input.1).give(1);
        input.1 = input.1.delayed(&1);
        settle(worker);
        assert_eq!(writes.borrow().len(), 1);
        flush.ask();
        (0..20).for_each(|_| settle(worker));
        assert!(!flush.is_done());
        // The writer has failed for good.
        drop(writes.borrow_mut().pop());
        (0..20).for_each(|_| settle(worker));
        assert!(!flush.is_done() && receipts.borrow().is_empty());
        assert_eq!(frontier(&probe), Some(0));
        worker.installed_dataflows().into_iter().for_each(|id| worker.drop_dataflow(id));
    });
}

/// Writes an item a while after its arrival.
struct DelayedWriter {
    since: Option<Instant>,
    writes: Rc<RefCell<Vec<Ticket<usize>>>>,
}

impl DelayedWriter {
    const WAIT: Duration = Duration::from_millis(20);
}

impl DurableWriter for DelayedWriter {
    type Item = u8;
    type Receipt = usize;

    fn accept_items(&mut self, _cohort: u64, items: &mut Vec<u8>) {
        self.since = (!items.is_empty()).then(Instant::now).or(self.since);
    }

    fn begin_writes(&mut self, _due: DueWrites, begin: &mut dyn FnMut() -> Ticket<usize>) {
        if self.since.is_some_and(|since| since.elapsed() >= Self::WAIT) {
            self.since = None;
            self.writes.borrow_mut().push(begin());
        }
    }

    fn due_after(&self) -> Option<Duration> {
        self.since.map(|since| Self::WAIT.saturating_sub(since.elapsed()))
    }
}

#[test]
fn an_item_does_not_wait_for_the_next_event() {
    const PATIENCE: Duration = Duration::from_secs(20);
    timely::execute_directly(|worker| {
        let writer = DelayedWriter { since: None, writes: Rc::default() };
        let writes = Rc::clone(&writer.writes);
        let (mut input, _probe) = worker.dataflow::<u64, _, _>(|scope| {
            let (input, items) = scope.new_unordered_input::<CapacityContainerBuilder<Vec<u8>>>();
            (input, persist(items, "waiting", writer, &Flush::default()).probe().0)
        });
        for round in 1..=2 {
            input.0.activate().session(&input.1).give(7);
            // The frontier stays, nothing else arrives and no ticket is answered: only the timer is left.
            let begun = Instant::now();
            while writes.borrow().len() < round {
                assert!(begun.elapsed() < PATIENCE, "the item waits for ever");
                worker.step_or_park(Some(DelayedWriter::WAIT));
            }
        }
        writes.borrow_mut().drain(..).for_each(|ticket| ticket.answer(1));
    });
}

/// Writes an item of `n` after `n` milliseconds.
struct ImpatientWriter {
    due: Option<Instant>,
    writes: Rc<RefCell<Vec<Ticket<usize>>>>,
}

impl DurableWriter for ImpatientWriter {
    type Item = u64;
    type Receipt = usize;

    fn accept_items(&mut self, _cohort: u64, items: &mut Vec<u64>) {
        let due = items.drain(..).map(|pause| Instant::now() + Duration::from_millis(pause)).min();
        self.due = self.due.into_iter().chain(due).min();
    }

    fn begin_writes(&mut self, _due: DueWrites, begin: &mut dyn FnMut() -> Ticket<usize>) {
        if self.due.is_some_and(|due| due <= Instant::now()) {
            self.due = None;
            self.writes.borrow_mut().push(begin());
        }
    }

    fn due_after(&self) -> Option<Duration> {
        self.due.map(|due| due.saturating_duration_since(Instant::now()))
    }
}

#[test]
fn a_later_item_may_be_due_earlier() {
    const LONG: u64 = 60_000;
    timely::execute_directly(|worker| {
        let writer = ImpatientWriter { due: None, writes: Rc::default() };
        let writes = Rc::clone(&writer.writes);
        let mut input = worker.dataflow::<u64, _, _>(|scope| {
            let (input, items) = scope.new_unordered_input::<CapacityContainerBuilder<Vec<u64>>>();
            persist(items, "impatient", writer, &Flush::default());
            input
        });
        for pause in [LONG, 20] {
            input.0.activate().session(&input.1).give(pause);
            worker.step();
        }
        let begun = Instant::now();
        while writes.borrow().is_empty() {
            assert!(begun.elapsed() < Duration::from_millis(LONG / 2), "it waits for the timer of the earlier item");
            worker.step_or_park(Some(Duration::from_millis(LONG / 4)));
        }
        assert!(begun.elapsed() < Duration::from_millis(LONG / 8), "{:?}", begun.elapsed());
        writes.borrow_mut().drain(..).for_each(|ticket| ticket.answer(1));
    });
}
