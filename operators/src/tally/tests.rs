//! Tallies against plain sums, through [`commit`](crate::commit), for any order, batches and number of workers.

use super::*;
use crate::commit::{Committer, commit};
use proptest::prelude::*;
use std::sync::{Arc, Mutex};
use timely::dataflow::operators::core::UnorderedInput;
use timely::dataflow::operators::{Inspect, ToStream};

type Scored = (u64, u8, TallyChange);
type Seen = Arc<Mutex<Vec<(u64, BTreeMap<u8, TallyChange>)>>>;

struct TableRecorder(Seen);

impl Committer for TableRecorder {
    type Receipt = ();
    type Key = u8;
    type Change = TallyChange;

    fn complete(&mut self, complete: u64, _: Vec<()>, table: &TallyTable<u8, TallyChange>) {
        self.0.lock().unwrap().push((complete, table.tallies().clone()));
    }
}

/// The committed tables when `scores` come in this order, split over `workers`, in batches of `batch`.
fn run(scores: &[Scored], workers: usize, batch: usize) -> Vec<(u64, BTreeMap<u8, TallyChange>)> {
    let seen = Seen::default();
    let (scores, watched) = (Arc::new(scores.to_vec()), Arc::clone(&seen));
    timely::execute(timely::Config::process(workers), move |worker| {
        let recorder = TableRecorder(Arc::clone(&watched));
        let (mut input, held) = worker.dataflow::<u64, _, _>(|scope| {
            let (input, scores) =
                scope.new_unordered_input::<CapacityContainerBuilder<Vec<KeyedChange<u8, TallyChange>>>>();
            let receipts = std::iter::empty::<()>().to_stream(scope).container::<Vec<_>>();
            commit(receipts, tally(scores), TallyTable::default(), recorder);
            input
        });
        let mine: Vec<_> = scores.iter().skip(worker.index()).step_by(worker.peers()).cloned().collect();
        for some in mine.chunks(batch) {
            for (cohort, key, change) in some {
                input.activate().session(&held.delayed(cohort)).give((vec![*key], *change));
            }
            worker.step();
        }
    })
    .unwrap()
    .join()
    .into_iter()
    .for_each(|worker| worker.unwrap());
    seen.lock().unwrap().clone()
}

fn sums<'a>(scores: impl Iterator<Item = &'a Scored>) -> BTreeMap<u8, TallyChange> {
    let mut sums: BTreeMap<u8, TallyChange> = BTreeMap::new();
    scores.for_each(|(_, key, change)| sums.entry(*key).or_default().plus_equals(change));
    sums.retain(|_, sum| *sum != TallyChange::default());
    sums
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn a_tally_is_a_plain_sum(
        mut scores in prop::collection::vec((0..4u64, 0..6u8, (0..2i64, 0..2i64, 0..100i128, 0..100i128)), 0..60),
        corrected in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
        workers in 1..4usize,
        batch in 1..20usize,
        seed in any::<u64>(),
    ) {
        // A later correction removes a score, and may add another in its place.
        if !scores.is_empty() {
            for index in corrected {
                let (_, key, (n, ok, sum, squares)) = scores[index.index(scores.len())];
                scores.push((3, key, (-n, -ok, -sum, -squares)));
            }
        }
        let mut state = seed;
        scores.sort_by_cached_key(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state >> 16
        });
        let seen = run(&scores, workers, batch);
        prop_assert!(seen.is_sorted_by(|a, b| a.0 < b.0));
        prop_assert_eq!(seen.last().map(|(complete, _)| *complete), Some(u64::MAX));
        for (complete, tallies) in &seen {
            prop_assert_eq!(tallies, &sums(scores.iter().filter(|(cohort, ..)| cohort < complete)));
        }
    }
}

#[test]
fn a_score_that_is_taken_back_leaves_no_row() {
    let scores = [(0, 1, (1, 1, 50, 25)), (1, 1, (-1, -1, -50, -25)), (1, 2, (1, 0, 0, 0))];
    let (_, tallies) = run(&scores, 1, 1).pop().unwrap();
    assert_eq!(tallies, BTreeMap::from([(2, (1, 0, 0, 0))]));
}

#[test]
fn a_change_counts_for_each_key_of_its_list() {
    let mut folded = FoldedCohort::default();
    for (keys, change) in [(vec![1, 2], (2, 1, 5, 3)), (vec![2], (1, 1, 1, 1)), (vec![2, 3], (1, 0, 0, 0))] {
        folded.add(keys, &change);
    }
    folded.add(Vec::new(), &(9, 9, 9, 9));
    let sums: BTreeMap<i32, TallyChange> = folded.into_keys().into_iter().collect();
    assert_eq!(sums, BTreeMap::from([(1, (2, 1, 5, 3)), (2, (4, 2, 6, 4)), (3, (1, 0, 0, 0))]));
}

/// Each question may have a list of its own, though all of them together have few keys.
#[test]
fn many_lists_of_few_keys_are_folded_by_key() {
    let mut folded = FoldedCohort::default();
    for list in 0..4096_u32 {
        let keys: Vec<u32> = (0..12).filter(|bit| list >> bit & 1 == 1).collect();
        folded.add(keys, &(1, 0, 0, 0));
        assert!(folded.len() <= MOST_LISTS + 12, "{} are held behind list {list}", folded.len());
    }
    let sums = folded.into_keys();
    assert_eq!((sums.len(), sums[&11]), (12, (2048, 0, 0, 0)));
}

/// Sends each of `keys` keys `times` times in each of `cohorts` cohorts, in small batches with a step between them,
/// round robin over cohorts and keys. Returns the number of folded changes of each cohort, and the sums of all.
fn folded(
    cohorts: u64,
    keys: u32,
    times: i64,
    least: usize,
) -> (BTreeMap<u64, usize>, BTreeMap<(u64, u32), TallyChange>) {
    timely::execute_directly(move |worker| {
        let sent = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
        let log = std::rc::Rc::clone(&sent);
        let (mut input, held) = worker.dataflow::<u64, _, _>(|scope| {
            let (input, changes) =
                scope.new_unordered_input::<CapacityContainerBuilder<Vec<KeyedChange<u32, TallyChange>>>>();
            fold_changes(changes, least).inspect(move |change| log.borrow_mut().push(*change));
            input
        });
        for _ in 0..times {
            for first in (0..keys).step_by(10) {
                for cohort in 0..cohorts {
                    let some = (first..keys.min(first + 10)).map(|key| (vec![key], (1, 0, i128::from(key), 0)));
                    input.activate().session(&held.delayed(&cohort)).give_iterator(some);
                }
                worker.step();
            }
        }
        drop((input, held));
        while worker.has_dataflows() {
            worker.step();
        }
        let (mut counts, mut sums) = (BTreeMap::new(), BTreeMap::<_, TallyChange>::new());
        for (key, cohort, change) in sent.take() {
            *counts.entry(cohort).or_insert(0) += 1;
            sums.entry((cohort, key)).or_default().plus_equals(&change);
        }
        (counts, sums)
    })
}

#[test]
fn a_cohort_with_more_keys_than_the_bound_is_still_folded() {
    for (cohorts, keys) in [(1, 300), (2, 300)] {
        let (counts, _) = folded(cohorts, keys, 4, 64);
        assert!(counts.values().all(|&count| count == keys as usize), "changes went on one by one: {counts:?}");
    }
}

#[test]
fn cohorts_that_go_early_add_up() {
    let (counts, sums) = folded(5, 100, 3, 64);
    assert!(counts.values().any(|&count| count > 100), "five open cohorts are above the bound: {counts:?}");
    assert_eq!(sums.len(), 5 * 100);
    for ((_, key), sum) in sums {
        assert_eq!(sum, (3, 0, 3 * i128::from(key), 0));
    }
}

/// Changes of several measures, for several keys, some of them short: each key has the sums by position.
#[test]
fn a_change_of_several_measures_counts_for_all_its_keys() {
    type Measures = Vec<TallyChange>;
    let one = |score: i128| (1, 1, score, score * score);
    let none = TallyChange::default();
    let changes = [
        (vec!["all", "hops=2"], vec![one(3), one(5)]),
        (vec!["all", "hops=4"], vec![one(4)]),
        (vec!["hops=4"], vec![none, none, one(9)]),
        (vec!["hops=2"], vec![(-1, -1, -3, -9), (-1, -1, -5, -25)]),
    ];
    let keyed = |(keys, measures): (Vec<&str>, Measures)| -> KeyedChange<String, Measures> {
        (keys.into_iter().map(str::to_owned).collect(), measures)
    };
    let changes = changes.map(keyed);
    let tallies = Arc::new(Mutex::new(BTreeMap::new()));
    struct LastTable(Arc<Mutex<BTreeMap<String, Measures>>>);
    impl Committer for LastTable {
        type Receipt = ();
        type Key = String;
        type Change = Measures;
        fn complete(&mut self, _: u64, _: Vec<()>, table: &TallyTable<String, Measures>) {
            *self.0.lock().unwrap() = table.tallies().clone();
        }
    }
    let recorder = LastTable(Arc::clone(&tallies));
    timely::execute_directly(move |worker| {
        worker.dataflow::<u64, _, _>(|scope| {
            let changes = changes.to_stream(scope).container::<Vec<_>>();
            let receipts = std::iter::empty::<()>().to_stream(scope).container::<Vec<_>>();
            commit(receipts, tally(changes), TallyTable::default(), recorder);
        });
    });
    let expected = [("all".to_owned(), vec![(2, 2, 7, 25), one(5)]), ("hops=4".to_owned(), vec![one(4), none, one(9)])];
    assert_eq!(*tallies.lock().unwrap(), BTreeMap::from(expected), "a tally without outcomes is gone");
}
