//! Serving with a backend controlled by the test.

use super::*;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use timely::dataflow::InputHandle;
use timely::dataflow::operators::{Input, Inspect, Probe};

type Waiting = Rc<RefCell<Vec<Submission<u8, u32, u8>>>>;

/// Keeps what is submitted; the pause is that of the operator's own looks.
struct HeldBackend(Waiting, Duration);

impl Backend for HeldBackend {
    type Request = u8;
    type Response = u32;
    type Record = u8;

    fn submit(&mut self, batch: Vec<Submission<u8, u32, u8>>) {
        self.0.borrow_mut().extend(batch);
    }

    fn dropped(&self) -> u32 {
        u32::MAX
    }

    fn look_pause(&self) -> Duration {
        self.1
    }
}

fn ask(request: u8, from: u32) -> Envelope<u8> {
    Envelope { key: RequestKey([request; 32]), bucket: u16::from(request), from, request }
}

type Log<D> = Rc<RefCell<Vec<(u64, D)>>>;

#[expect(clippy::type_complexity, reason = "spelled out where it is read")]
fn log<D: Clone + 'static>(
    into: &Log<D>,
) -> impl FnMut(Result<(&timely::progress::Stamp<u64>, &Vec<D>), &[u64]>) + 'static {
    let into = Rc::clone(into);
    move |event| {
        if let Ok((stamp, batch)) = event {
            into.borrow_mut().extend(batch.iter().map(|item| (*stamp.expect_singleton(), item.clone())));
        }
    }
}

#[test]
fn equal_keys_are_answered_once_with_one_record() {
    timely::execute_directly(|worker| {
        let (waiting, counters) = (Waiting::default(), Arc::new(OperatorCounters::default()));
        let (replies, records): (Log<Reply<u32>>, Log<u8>) = Default::default();
        let mut input = InputHandle::new();
        let (reply_probe, record_probe) = worker.dataflow::<u64, _, _>(|scope| {
            let requests = scope.input_from(&mut input);
            let (answered, recorded) = serve(requests, HeldBackend(Rc::clone(&waiting), Duration::ZERO), &counters);
            (answered.inspect_core(log(&replies)).probe().0, recorded.inspect_core(log(&records)).probe().0)
        });
        let mut settle = || {
            for _ in 0..3 {
                worker.step();
            }
        };

        input.send(ask(1, 4));
        input.advance_to(3);
        input.send(ask(1, 5));
        input.send(ask(2, 4));
        input.send(ask(1, 4));
        input.close();
        settle();
        let (one, two) = {
            let mut waiting = waiting.borrow_mut();
            assert_eq!(waiting.iter().map(|s| (s.request, s.bucket)).collect::<Vec<_>>(), [(1, 1), (2, 2)]);
            let two = waiting.pop().unwrap();
            (waiting.pop().unwrap(), two)
        };
        assert!(replies.borrow().is_empty());
        assert!(reply_probe.less_equal(&0) && record_probe.less_equal(&0), "time passed an open request");

        two.ticket.answer(BackendAnswer { response: 20, record: None });
        settle();
        assert_eq!(*replies.borrow(), [(3, Reply { key: RequestKey([2; 32]), to: 4, response: 20 })]);
        assert!(records.borrow().is_empty());

        one.ticket.answer(BackendAnswer { response: 10, record: Some(1) });
        settle();
        let reply = |time, to| (time, Reply { key: RequestKey([1; 32]), to, response: 10 });
        assert_eq!(replies.borrow()[1..], [reply(0, 4), reply(3, 5), reply(3, 4)]);
        assert_eq!(*records.borrow(), [(0, 1)]);
        assert!(reply_probe.done() && record_probe.done());
        assert_eq!(counters.served.load(Relaxed), 4);
    });
}

#[test]
fn dropped_tickets_are_replied_to_and_the_dataflow_ends() {
    let replies = timely::execute_directly(|worker| {
        let waiting = Waiting::default();
        let (replies, records): (Log<Reply<u32>>, Log<u8>) = Default::default();
        let mut input = InputHandle::new();
        worker.dataflow::<u64, _, _>(|scope| {
            let requests = scope.input_from(&mut input);
            let (answered, recorded) =
                serve(requests, HeldBackend(Rc::clone(&waiting), Duration::ZERO), &Arc::default());
            answered.inspect_core(log(&replies));
            recorded.inspect_core(log(&records));
        });
        (0..10).for_each(|request| input.send(ask(request, 0)));
        input.close();
        worker.step();
        // A service that panics while it holds requests, on a thread of its own.
        let held = waiting.take();
        assert_eq!(held.len(), 10);
        let service = std::thread::spawn(move || {
            let _held = held;
            std::panic::resume_unwind(Box::new("device lost"));
        });
        assert!(service.join().is_err());
        while worker.has_dataflows() {
            worker.step_or_park(None);
        }
        assert!(records.borrow().is_empty());
        replies.take().into_iter().map(|(_, reply)| reply.response).collect::<Vec<_>>()
    });
    assert_eq!(replies, [u32::MAX; 10]);
}

#[test]
fn work_is_under_way_until_its_record_is_sent() {
    timely::execute_directly(|worker| {
        let (waiting, gate) = (Waiting::default(), crate::gate::Gate::default());
        let records: Log<u8> = Log::default();
        let mut input = InputHandle::new();
        worker.dataflow::<u64, _, _>(|scope| {
            let requests = scope.input_from(&mut input);
            let (_, recorded) = serve(requests, HeldBackend(Rc::clone(&waiting), Duration::ZERO), &Arc::default());
            recorded.inspect_core(log(&records));
        });
        input.send(ask(1, 0));
        input.close();
        worker.step();
        let mut one = waiting.borrow_mut().pop().unwrap();
        one.ticket.set_work(gate.begin_work().unwrap());
        gate.close();
        one.ticket.answer(BackendAnswer { response: 10, record: Some(1) });
        assert!(!gate.is_quiet(), "a flush now would miss the record");
        while worker.has_dataflows() {
            worker.step_or_park(None);
        }
        assert!(gate.is_quiet());
        assert_eq!(*records.borrow(), [(0, 1)]);
    });
}

#[test]
fn answers_that_can_wait_are_replied_to_at_the_next_look() {
    for (pause, at_once) in [(Duration::ZERO, 2), (Duration::from_secs(3600), 1)] {
        timely::execute_directly(move |worker| {
            let (waiting, replies) = (Waiting::default(), Log::<Reply<u32>>::default());
            let mut input = InputHandle::new();
            worker.dataflow::<u64, _, _>(|scope| {
                let backend = HeldBackend(Rc::clone(&waiting), pause);
                let (answered, _) = serve(scope.input_from(&mut input), backend, &Arc::default());
                answered.inspect_core(log(&replies));
            });
            (1..=3).for_each(|request| input.send(ask(request, 0)));
            input.close();
            let mut settle = || {
                for _ in 0..3 {
                    worker.step();
                }
            };
            settle();
            let mut tickets = std::mem::take(&mut *waiting.borrow_mut()).into_iter().map(|waits| waits.ticket);
            let answer = |response| BackendAnswer { response, record: None };
            for (response, replied) in [(1, 1), (2, at_once)] {
                tickets.next().unwrap().answer_soon(answer(response));
                settle();
                assert_eq!(replies.borrow().len(), replied, "answer {response}, {pause:?}");
            }
            tickets.next().unwrap().answer(answer(3));
            settle();
            assert_eq!(replies.borrow().len(), 3, "a look takes all answers");
        });
    }
}
