//! Corrections of live tallies: at any time of arrival the final figures are right, and no timestamp waits for them.

use super::*;
use crate::commit::{Committer, commit};
use crate::tally::{KeyedChange, TallyChange, TallyTable, tally};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::mpsc::{Sender, channel};
use timely::dataflow::InputHandle;
use timely::dataflow::operators::vec::Map;
use timely::dataflow::operators::{Concat, Input, Inspect, Probe};
use timely::worker::Worker;

type Commits = Rc<RefCell<Vec<(u64, BTreeMap<u8, TallyChange>)>>>;

struct TableRecorder(Commits);

impl Committer for TableRecorder {
    type Receipt = u8;
    type Key = u8;
    type Change = TallyChange;

    fn complete(&mut self, complete: u64, _: Vec<u8>, table: &TallyTable<u8, TallyChange>) {
        self.0.borrow_mut().push((complete, table.tallies().clone()));
    }
}

/// A small run: outcomes are questions, and each is a score of 1 for its own key.
struct Run {
    outcomes: Option<InputHandle<u64, CapacityContainerBuilder<Vec<u8>>>>,
    edits: Sender<Vec<KeyedChange<u8, TallyChange>>>,
    waker: Rc<RefCell<Option<SyncActivator>>>,
    commits: Commits,
}

const SCORE: TallyChange = (1, 1, 10, 100);
const TAKEN_BACK: TallyChange = (-1, -1, -10, -100);

impl Run {
    fn new(worker: &mut Worker) -> Self {
        let (edits, corrections) = channel();
        let (waker, commits) = (Rc::new(RefCell::new(None)), Commits::default());
        let (woken, recorder) = (Rc::clone(&waker), TableRecorder(Rc::clone(&commits)));
        let outcomes = worker.dataflow::<u64, _, _>(|scope| {
            let (outcomes, durable) = scope.new_input::<Vec<u8>>();
            let corrected =
                correct(durable.clone(), corrections, move |activator| *woken.borrow_mut() = Some(activator));
            let scored = durable.clone().map(|key| (vec![key], SCORE));
            commit(durable, tally(scored.concat(corrected)), TallyTable::default(), recorder);
            outcomes
        });
        Self { outcomes: Some(outcomes), edits, waker, commits }
    }

    /// Sends the outcomes of a cohort and completes it.
    fn cohort(&mut self, worker: &mut Worker, keys: &[u8]) {
        if let Some(outcomes) = &mut self.outcomes {
            keys.iter().for_each(|key| outcomes.send(*key));
            let next = *outcomes.time() + 1;
            outcomes.advance_to(next);
        }
        self.settle(worker);
    }

    fn edit(&self, worker: &mut Worker, changes: &[(u8, TallyChange)]) {
        self.edits.send(changes.iter().map(|&(key, change)| (vec![key], change)).collect()).unwrap();
        self.waker.borrow().as_ref().unwrap().activate().unwrap();
        self.settle(worker);
    }

    fn settle(&self, worker: &mut Worker) {
        for _ in 0..6 {
            worker.step();
        }
    }

    fn end(&mut self, worker: &mut Worker) -> BTreeMap<u8, TallyChange> {
        self.outcomes = None;
        while worker.has_dataflows() {
            worker.step();
        }
        let (complete, table) = self.commits.borrow().last().cloned().unwrap();
        assert_eq!(complete, u64::MAX);
        table
    }

    fn last(&self) -> (u64, BTreeMap<u8, TallyChange>) {
        self.commits.borrow().last().cloned().unwrap()
    }
}

#[test]
fn an_edit_of_gold_corrects_committed_figures() {
    timely::execute_directly(|worker| {
        let mut run = Run::new(worker);
        run.cohort(worker, &[1, 2, 1]);
        assert_eq!(run.last(), (1, BTreeMap::from([(1, (2, 2, 20, 200)), (2, SCORE)])));
        // The score of one question is no longer 1, and the score of another key's question never was 1.
        run.edit(worker, &[(1, TAKEN_BACK), (1, (1, 1, 0, 0)), (2, TAKEN_BACK)]);
        assert_eq!(run.last().0, 1, "a correction completes nothing");
        run.cohort(worker, &[3]);
        assert_eq!(run.last(), (2, BTreeMap::from([(1, (2, 2, 10, 100)), (3, SCORE)])));
        assert_eq!(run.end(worker), BTreeMap::from([(1, (2, 2, 10, 100)), (3, SCORE)]));
    });
}

#[test]
fn edits_in_any_order_and_at_any_time_end_in_the_same_figures() {
    let edits: [&[(u8, TallyChange)]; 3] =
        [&[(1, TAKEN_BACK), (1, (1, 1, 5, 25))], &[(1, (-1, -1, -5, -25)), (1, (1, 0, 0, 0))], &[(2, TAKEN_BACK)]];
    let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    for order in orders {
        for before in 0..=3 {
            let table = timely::execute_directly(move |worker| {
                let mut run = Run::new(worker);
                // An edit may come before the first commit: its sender knows the scores to correct.
                order[..before].iter().for_each(|&edit| run.edit(worker, edits[edit]));
                run.cohort(worker, &[1, 2]);
                run.cohort(worker, &[2]);
                order[before..].iter().for_each(|&edit| run.edit(worker, edits[edit]));
                run.cohort(worker, &[]);
                run.end(worker)
            });
            assert_eq!(table, BTreeMap::from([(1, (1, 0, 0, 0)), (2, SCORE)]), "{order:?}, {before} of them early");
        }
    }
}

#[test]
fn a_correction_enters_at_the_frontier_and_holds_no_time_back() {
    timely::execute_directly(|worker| {
        let (edits, corrections) = channel();
        let entered = Rc::new(RefCell::new(Vec::new()));
        let log = Rc::clone(&entered);
        let (mut after, probe) = worker.dataflow::<u64, _, _>(|scope| {
            let (after, receipts) = scope.new_input::<Vec<()>>();
            let corrected = correct(receipts, corrections, |_| ());
            let corrected = corrected.inspect_core(move |event| {
                if let Ok((stamp, batch)) = event {
                    log.borrow_mut().extend(batch.iter().map(|(key, _)| (*stamp.expect_singleton(), *key)));
                }
            });
            (after, corrected.probe().0)
        });
        for (cohort, key) in [(3u64, 'a'), (9, 'b')] {
            after.advance_to(cohort);
            for _ in 0..6 {
                worker.step();
            }
            assert!(!probe.less_than(&cohort) && probe.less_equal(&cohort), "the frontier is that of the receipts");
            edits.send(vec![(key, SCORE)]).unwrap();
            after.send(());
            worker.step();
        }
        after.close();
        while worker.has_dataflows() {
            worker.step();
        }
        assert_eq!(*entered.borrow(), [(3, 'a'), (9, 'b')]);
        // Everything is committed: nobody listens, and the sender need not know.
        drop(edits.send(vec![('c', SCORE)]));
        assert_eq!(entered.borrow().len(), 2);
    });
}
