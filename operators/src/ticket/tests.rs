//! Tickets with an operator that only listens.

use super::*;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::operators::generic::operator::source;
use timely::worker::Worker;

/// Slots with their answers; `None` for a dropped ticket.
type HeardAnswers = Vec<(usize, Option<u32>)>;

struct Listener {
    mailbox: Rc<Mailbox<u32>>,
    heard: Rc<RefCell<HeardAnswers>>,
}

/// An operator that reads its mailbox only when woken, and never ends.
fn listen(worker: &mut Worker) -> Listener {
    let heard = Rc::new(RefCell::new(Vec::new()));
    let mailbox = worker.dataflow::<u64, _, _>(|scope| {
        let mut made = None;
        let stream = source::<_, CapacityContainerBuilder<Vec<()>>, _, _>(scope, "listen", |capability, info| {
            let mailbox = Rc::new(Mailbox::new(scope.worker().sync_activator_for(info.address.to_vec())));
            made = Some(Rc::clone(&mailbox));
            let heard = Rc::clone(&heard);
            move |_| {
                let _held = &capability;
                heard.borrow_mut().extend(mailbox.take_answers());
            }
        });
        drop(stream);
        made.unwrap()
    });
    worker.step();
    Listener { mailbox, heard }
}

/// Runs `test`, then drops its dataflows: listeners never end.
fn with_worker(test: impl FnOnce(&mut Worker) + Send + Sync + 'static) {
    timely::execute_directly(|worker| {
        test(worker);
        worker.installed_dataflows().into_iter().for_each(|id| worker.drop_dataflow(id));
    });
}

#[test]
fn a_batch_wakes_every_operator_that_it_answers() {
    with_worker(|worker| {
        let (left, right) = (listen(worker), listen(worker));
        let batch =
            [(left.mailbox.new_ticket(1), 10), (left.mailbox.new_ticket(2), 20), (right.mailbox.new_ticket(3), 30)];
        Ticket::answer_all(batch);
        worker.step();
        assert_eq!(*left.heard.borrow(), [(1, Some(10)), (2, Some(20))]);
        assert_eq!(*right.heard.borrow(), [(3, Some(30))]);
    });
}

#[test]
fn a_ticket_that_is_dropped_says_so() {
    with_worker(|worker| {
        let listener = listen(worker);
        drop(listener.mailbox.new_ticket(7));
        worker.step();
        assert_eq!(*listener.heard.borrow(), [(7, None)]);
    });
}

#[test]
fn answers_before_a_panic_are_heard_and_the_rest_are_dropped() {
    with_worker(|worker| {
        let listener = listen(worker);
        let tickets: Vec<_> = (0..3).map(|slot| listener.mailbox.new_ticket(slot)).collect();
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            Ticket::answer_all(tickets.into_iter().enumerate().map(|(i, ticket)| match i {
                0 => (ticket, 10),
                _ => panic!("cannot be computed"),
            }));
        }));
        assert!(panicked.is_err());
        worker.step();
        let mut heard = listener.heard.borrow().clone();
        heard.sort_unstable();
        assert_eq!(heard, [(0, Some(10)), (1, None), (2, None)]);
    });
}

#[test]
fn every_answer_of_many_threads_is_heard_by_a_worker_that_parks() {
    const THREADS: usize = 4;
    const EACH: usize = 2_000;
    with_worker(|worker| {
        let listener = listen(worker);
        let mut threads = Vec::new();
        for thread in 0..THREADS {
            let tickets: Vec<_> = (0..EACH).map(|i| listener.mailbox.new_ticket(thread * EACH + i)).collect();
            threads.push(std::thread::spawn(move || {
                for (i, ticket) in tickets.into_iter().enumerate() {
                    if i % 3 == 0 { drop(ticket) } else { ticket.answer(i as u32) }
                }
            }));
        }
        // A lost wake-up would park here for good.
        while listener.heard.borrow().len() < THREADS * EACH {
            worker.step_or_park(None);
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let mut slots: Vec<_> = listener.heard.borrow().iter().map(|&(slot, _)| slot).collect();
        slots.sort_unstable();
        assert!(slots.into_iter().eq(0..THREADS * EACH));
    });
}

#[test]
fn a_ticket_outlives_its_operator() {
    let ticket = Rc::new(RefCell::new(None));
    let (sender, receiver) = channel();
    with_worker(move |worker| sender.send(listen(worker).mailbox.new_ticket(0)).unwrap());
    *ticket.borrow_mut() = receiver.recv().ok();
    ticket.take().unwrap().answer(1);
}

#[test]
fn slots_are_used_again_and_each_is_taken_once() {
    let mut slab = Slab::new();
    let (a, b) = (slab.insert("a"), slab.insert("b"));
    assert_eq!(slab.remove(a), Some("a"));
    assert_eq!(slab.remove(a), None);
    assert_eq!(slab.insert("c"), a);
    assert_eq!(slab.get_mut(b), Some(&mut "b"));
    assert_eq!((slab.remove(b), slab.remove(a)), (Some("b"), Some("c")));
    assert_eq!(slab.slots.len(), 2);
}
