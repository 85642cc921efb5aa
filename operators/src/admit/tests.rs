//! Admission with a manual feed.

use super::*;
use std::sync::atomic::Ordering::Relaxed;
use timely::dataflow::operators::{Inspect, Probe};

/// The next answer of the feed.
type Plan = Rc<RefCell<std::collections::VecDeque<FeedPoll<u32>>>>;

struct Script {
    plan: Plan,
    waker: Rc<RefCell<Option<SyncActivator>>>,
}

impl Feed for Script {
    type Question = u32;

    fn poll(&mut self) -> FeedPoll<u32> {
        self.plan.borrow_mut().pop_front().unwrap_or(FeedPoll::Pending)
    }

    fn wake_with(&mut self, activator: SyncActivator) {
        *self.waker.borrow_mut() = Some(activator);
    }
}

fn questions(cohorts: impl IntoIterator<Item = u64>) -> impl Iterator<Item = FeedPoll<u32>> {
    cohorts.into_iter().enumerate().map(|(i, cohort)| FeedPoll::Ready { cohort, question: i as u32 })
}

#[test]
fn credits_bound_the_number_in_flight_and_cohorts_are_stamped() {
    timely::execute_directly(|worker| {
        let plan: Plan = Rc::new(RefCell::new(questions([0, 0, 0, 2, 2, 5, 5]).chain([FeedPoll::Finished]).collect()));
        let admitted = Rc::new(RefCell::new(Vec::new()));
        let (credits, counters) = (Credits::new(3), Arc::new(OperatorCounters::default()));
        let probe = worker.dataflow::<u64, _, _>(|scope| {
            let feed = Script { plan: Rc::clone(&plan), waker: Rc::default() };
            let log = Rc::clone(&admitted);
            admit(scope, feed, &credits, &counters)
                .inspect_core(move |event| {
                    if let Ok((stamp, batch)) = event {
                        log.borrow_mut().extend(batch.iter().map(|&question| (*stamp.expect_singleton(), question)));
                    }
                })
                .probe()
                .0
        });
        let mut returned = 0;
        for give in [0, 1, 2, 1, 3] {
            credits.give_back(give);
            returned += give;
            (0..3).for_each(|_| {
                worker.step();
            });
            let in_flight = admitted.borrow().len() - returned;
            assert!(in_flight <= 3, "{in_flight} in flight");
            assert_eq!(admitted.borrow().len(), (3 + returned).min(7), "credits lie idle");
        }
        assert_eq!(*admitted.borrow(), [(0, 0), (0, 1), (0, 2), (2, 3), (2, 4), (5, 5), (5, 6)]);
        assert_eq!(counters.admitted.load(Relaxed), 7);
        assert!(probe.done());
    });
}

#[test]
fn a_pending_feed_keeps_its_credit_and_is_polled_when_woken() {
    timely::execute_directly(|worker| {
        let plan: Plan = Rc::default();
        let waker = Rc::new(RefCell::new(None));
        let (credits, counters) = (Credits::new(1), Arc::new(OperatorCounters::default()));
        let probe = worker.dataflow::<u64, _, _>(|scope| {
            let feed = Script { plan: Rc::clone(&plan), waker: Rc::clone(&waker) };
            admit(scope, feed, &credits, &counters).probe().0
        });
        worker.step();
        assert_eq!(credits.free(), 1);
        plan.borrow_mut().extend(questions([4]).chain([FeedPoll::Finished]));
        (0..3).for_each(|_| {
            worker.step();
        });
        assert_eq!(counters.admitted.load(Relaxed), 0, "polled without being woken");
        waker.borrow().as_ref().map(|activator| activator.activate().is_ok());
        (0..3).for_each(|_| {
            worker.step();
        });
        assert_eq!((counters.admitted.load(Relaxed), credits.free()), (1, 0));
        assert!(!probe.less_than(&4) && probe.less_equal(&4), "the cohort is open until more is known");
        credits.give_back(1);
        (0..3).for_each(|_| {
            worker.step();
        });
        assert!(probe.done());
    });
}
