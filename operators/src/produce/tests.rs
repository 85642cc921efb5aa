//! Productions over several workers: begin, window and failure.

use super::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use timely::dataflow::operators::probe::Handle;
use timely::dataflow::operators::vec::Broadcast;
use timely::dataflow::operators::{Inspect, Probe, ToStream};
use timely::worker::Worker;

/// Numbers below `end`, each from a thread that counts its waiting tickets.
struct Numbers {
    next: u64,
    end: u64,
    thread: Sender<(u64, Ticket<u64>)>,
    under_way: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

impl Numbers {
    fn below(end: u64, most: &Arc<AtomicUsize>) -> Self {
        let (thread, asked) = channel::<(u64, Ticket<u64>)>();
        let under_way: Arc<AtomicUsize> = Arc::default();
        let waiting = Arc::clone(&under_way);
        std::thread::spawn(move || {
            for (number, ticket) in asked {
                waiting.fetch_sub(1, Ordering::SeqCst);
                // Seven is lost, as by a thread that panics.
                if number == 7 { drop(ticket) } else { ticket.answer(number) }
            }
        });
        Self { next: 0, end, thread, under_way, most: Arc::clone(most) }
    }
}

impl Production for Numbers {
    type Done = u64;
    type Item = u64;

    fn is_over(&self) -> bool {
        self.next == self.end
    }

    fn begin_piece(&mut self, ticket: Ticket<u64>) {
        let waiting = self.under_way.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(waiting, Ordering::SeqCst);
        drop(self.thread.send((self.next, ticket)));
        self.next += 1;
    }

    fn end_piece(&mut self, done: Option<u64>, items: &mut Vec<u64>) -> Result<(), ProductionFailure> {
        items.push(done.ok_or(ProductionFailure)?);
        Ok(())
    }
}

/// Each worker notices its index and makes `each` numbers per notice.
fn build(worker: &mut Worker, each: u64, most: &Arc<AtomicUsize>, made: &Arc<Mutex<Vec<u64>>>) -> Handle<u64> {
    let (most, made, index) = (Arc::clone(most), Arc::clone(made), worker.index() as u64);
    worker.dataflow::<u64, _, _>(|scope| {
        let notices = Some(index).to_stream(scope).container::<Vec<_>>().broadcast();
        let start = move |noticed: Vec<u64>| Numbers::below(noticed.len() as u64 * each, &most);
        let numbers = produce(notices, 4, start).inspect(move |&number| made.lock().unwrap().push(number));
        numbers.probe().0
    })
}

#[test]
fn workers_begin_after_all_notices_and_keep_the_window() {
    let (most, made): (Arc<AtomicUsize>, Arc<Mutex<Vec<u64>>>) = Default::default();
    let (inner_most, inner_made) = (Arc::clone(&most), Arc::clone(&made));
    let guards = timely::execute(timely::Config::process(3), move |worker| {
        let probe = build(worker, 2, &inner_most, &inner_made);
        while !probe.done() {
            worker.step_or_park(Some(Duration::from_millis(10)));
        }
    });
    guards.unwrap().join().into_iter().for_each(|ended| ended.unwrap());
    let mut made = made.lock().unwrap().clone();
    made.sort_unstable();
    assert_eq!(made, (0..6).flat_map(|number| [number; 3]).collect::<Vec<u64>>());
    assert!((1..=4).contains(&most.load(Ordering::SeqCst)), "{most:?}");
}

#[test]
fn nothing_to_make_ends_at_once() {
    let made = Arc::default();
    timely::execute_directly(move |worker| {
        let probe = build(worker, 0, &Arc::default(), &made);
        while !probe.done() {
            worker.step_or_park(Some(Duration::from_millis(10)));
        }
    });
}

#[test]
fn a_failure_never_ends() {
    let made: Arc<Mutex<Vec<u64>>> = Arc::default();
    let inner = Arc::clone(&made);
    timely::execute_directly(move |worker| {
        let dataflow = worker.next_dataflow_index();
        let probe = build(worker, 100, &Arc::default(), &inner);
        let begun = Instant::now();
        while inner.lock().unwrap().len() < 7 || begun.elapsed() < Duration::from_millis(100) {
            worker.step_or_park(Some(Duration::from_millis(10)));
            assert!(begun.elapsed() < Duration::from_secs(60), "what was made before does not come");
        }
        assert!(!probe.done());
        worker.drop_dataflow(dataflow);
    });
    assert!(made.lock().unwrap().len() < 7 + 4 + 4, "nothing is begun after a failure");
}

/// Pieces that end when the test says so.
struct HeldPieces {
    left: usize,
    begun: Arc<AtomicUsize>,
    tickets: Arc<Mutex<Vec<Ticket<()>>>>,
}

impl Production for HeldPieces {
    type Done = ();
    type Item = ();

    fn is_over(&self) -> bool {
        self.left == 0
    }

    fn begin_piece(&mut self, ticket: Ticket<()>) {
        self.left -= 1;
        self.begun.fetch_add(1, Ordering::SeqCst);
        self.tickets.lock().unwrap().push(ticket);
    }

    fn end_piece(&mut self, done: Option<()>, items: &mut Vec<()>) -> Result<(), ProductionFailure> {
        items.push(done.ok_or(ProductionFailure)?);
        Ok(())
    }
}

#[test]
fn a_large_window_is_filled_over_several_activations() {
    const WINDOW: usize = 1000;
    timely::execute_directly(|worker| {
        let (begun, tickets) = (Arc::<AtomicUsize>::default(), Arc::<Mutex<Vec<Ticket<()>>>>::default());
        let pieces = HeldPieces { left: 2 * WINDOW, begun: Arc::clone(&begun), tickets: Arc::clone(&tickets) };
        let probe = worker.dataflow::<u64, _, _>(|scope| {
            let notices = Some(()).to_stream(scope).container::<Vec<_>>();
            produce(notices, WINDOW, move |_| pieces).probe().0
        });
        let since = Instant::now();
        let mut before = 0;
        while !probe.done() {
            assert!(since.elapsed() < Duration::from_secs(60), "{before} of {} have begun", 2 * WINDOW);
            worker.step_or_park(Some(Duration::from_millis(10)));
            let now = begun.load(Ordering::SeqCst);
            assert!(now - before <= BEGUN_AT_ONCE, "{} begun in one activation", now - before);
            before = now;
            let mut held = tickets.lock().unwrap();
            assert!(held.len() <= WINDOW);
            // Nothing but its own activation fills the window.
            if held.len() == WINDOW || now == 2 * WINDOW {
                held.drain(..).for_each(|ticket| ticket.answer(()));
            }
        }
        assert_eq!(before, 2 * WINDOW);
    });
}
