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

/// An operator that reads its mailbox only when woken, or `pause` after an answer that can wait, and never ends.
fn listen_with_pause(worker: &mut Worker, pause: Duration) -> Listener {
    let heard = Rc::new(RefCell::new(Vec::new()));
    let mailbox = worker.dataflow::<u64, _, _>(|scope| {
        let mut made = None;
        let stream = source::<_, CapacityContainerBuilder<Vec<()>>, _, _>(scope, "listen", |capability, info| {
            let mailbox = Rc::new(Mailbox::new(scope.worker().sync_activator_for(info.address.to_vec())));
            let mut looks = OwnLooks::new(scope.activator_for(info.address), pause);
            made = Some(Rc::clone(&mailbox));
            let heard = Rc::clone(&heard);
            move |_| {
                let _held = &capability;
                let posted = mailbox.take_posted(&mut looks);
                heard.borrow_mut().extend(posted.into_iter().map(|posted| (posted.slot, posted.answer)));
            }
        });
        drop(stream);
        made.unwrap()
    });
    worker.step();
    Listener { mailbox, heard }
}

fn listen(worker: &mut Worker) -> Listener {
    listen_with_pause(worker, Duration::ZERO)
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
fn an_answer_that_can_wait_wakes_nobody_while_a_look_is_announced() {
    with_worker(|worker| {
        let listener = listen_with_pause(worker, Duration::from_secs(3600));
        let answer = |slot| listener.mailbox.new_ticket(slot).answer_soon(0);
        answer(1);
        worker.step();
        assert_eq!(*listener.heard.borrow(), [(1, Some(0))], "no look was announced");
        answer(2);
        worker.step();
        assert_eq!(listener.heard.borrow().len(), 1, "the look is announced");
        listener.mailbox.new_ticket(3).answer(0);
        worker.step();
        assert_eq!(*listener.heard.borrow(), [1, 2, 3].map(|slot| (slot, Some(0))), "a look finds all answers");
    });
}

#[test]
fn an_announced_look_comes_by_itself_and_a_look_without_answers_announces_none() {
    with_worker(|worker| {
        let listener = listen_with_pause(worker, Duration::from_millis(1));
        let answer = |slot| listener.mailbox.new_ticket(slot).answer_soon(0);
        let wait_for = |worker: &mut Worker, answers: usize| {
            while listener.heard.borrow().len() < answers {
                worker.step_or_park(None);
            }
        };
        answer(1);
        answer(2);
        wait_for(worker, 2);
        answer(3);
        wait_for(worker, 3);
        // The announced look of the third answer finds nothing.
        std::thread::sleep(Duration::from_millis(2));
        worker.step();
        answer(4);
        worker.step();
        assert_eq!(listener.heard.borrow().len(), 4, "it wakes the worker at once");
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
