//! Keeps sums per key live, with differential dataflow.
//!
//! Scores come as (keys, change) with integer changes, so a tally does not depend on order, workers or batches. A
//! correction is one more change. A change may hold a sum for each of several measures ([`Vec`] adds up by position):
//! then a key is looked up, sorted and sent once for all of them. It may count for several keys, the strata of a
//! question. Changes of a cohort are folded before they are arranged, because a cohort of questions touches each key
//! many times: first those with the same list of keys, since most questions lie in the same few strata, then by key.

use differential_dataflow::difference::Semigroup;
use differential_dataflow::operators::count::CountTotal;
use differential_dataflow::{AsCollection, ExchangeData, Hashable};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::collections::hash_map::Entry;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::Stream;
use timely::dataflow::channels::pact::Pipeline;
use timely::dataflow::operators::generic::operator::Operator;

/// Changes of one measure's tally: outcomes, outcomes with status ok, sum of scores and sum of their squares in fixed
/// point.
pub type TallyChange = (i64, i64, i128, i128);

/// A change of the tallies of several keys.
pub type KeyedChange<K, C> = (Vec<K>, C);

/// One update of the live table: the tally of a key from a cohort on (`diff` 1), or no longer (`diff` -1).
pub type TallyUpdate<K, C> = ((K, C), u64, isize);

/// Adds a change to a sum.
pub fn add_change<C: Semigroup>(sum: &mut C, change: &C) {
    sum.plus_equals(change);
}

/// The most folded changes, over all open cohorts, unless a cohort is larger: 3 MB with thirty measures each.
const FOLDED_CHANGES: usize = 1 << 11;

/// The most lists of keys of one cohort. Where each question lies in strata of its own, folding by lists is of no use.
const MOST_LISTS: usize = 1 << 10;

/// The changes of one cohort.
struct FoldedCohort<K, C> {
    by_list: FxHashMap<Vec<K>, C>,
    by_key: FxHashMap<K, C>,
}

/// The changes of each cohort, folded until the cohort is complete here.
///
/// At most `least` changes are held, or twice those of the largest cohort so far, whichever is more: a large sweep has
/// more keys in every cohort than any fixed bound, and an early release would send them on one by one. A tally has all
/// of these keys anyway. Changes above the bound are sent early, the fullest cohort first. A cohort may be sent in
/// pieces: their sums add up.
fn fold_changes<'scope, K: ExchangeData + std::hash::Hash, C: Semigroup + 'static>(
    changes: Stream<'scope, u64, Vec<KeyedChange<K, C>>>,
    least: usize,
) -> Stream<'scope, u64, Vec<(K, u64, C)>> {
    changes.unary_frontier::<CapacityContainerBuilder<Vec<_>>, _, _, _>(Pipeline, "fold", move |capability, _| {
        drop(capability);
        let mut folded = BTreeMap::new();
        let mut fullest = 0;
        move |(input, frontier), output| {
            input.for_each(|time, batch| {
                let Some(held) = time.retain_least(0) else { return };
                let cohort = *held.time();
                let (_, sums) = folded.entry(cohort).or_insert_with(|| (held, FoldedCohort::default()));
                batch.drain(..).for_each(|(keys, change)| sums.add(keys, &change));
                fullest = fullest.max(sums.len());
            });
            let (mut open, mut due): (Vec<u64>, Vec<u64>) =
                folded.keys().copied().partition(|cohort| frontier.less_equal(cohort));
            open.sort_by_key(|cohort| folded.get(cohort).map(|(_, sums)| sums.len()));
            let mut in_open: usize =
                open.iter().filter_map(|cohort| folded.get(cohort)).map(|(_, sums)| sums.len()).sum();
            while in_open > least.max(2 * fullest)
                && let Some(cohort) = open.pop()
            {
                in_open -= folded.get(&cohort).map_or(0, |(_, sums)| sums.len());
                due.push(cohort);
            }
            for cohort in due {
                if let Some((held, sums)) = folded.remove(&cohort) {
                    let by_key = sums.into_keys().into_iter().map(|(key, change)| (key, cohort, change));
                    output.session(&held).give_iterator(by_key);
                }
            }
        }
    })
}

impl<K, C> Default for FoldedCohort<K, C> {
    fn default() -> Self {
        Self { by_list: FxHashMap::default(), by_key: FxHashMap::default() }
    }
}

impl<K: Eq + std::hash::Hash, C: Semigroup> FoldedCohort<K, C> {
    fn add(&mut self, keys: Vec<K>, change: &C) {
        add_to_entry(self.by_list.entry(keys), change);
        if self.by_list.len() > MOST_LISTS {
            self.fold_lists();
        }
    }

    /// Sums that are held.
    fn len(&self) -> usize {
        self.by_list.len() + self.by_key.len()
    }

    /// Adds the change of each list to each of its keys.
    fn fold_lists(&mut self) {
        for (keys, change) in self.by_list.drain() {
            keys.into_iter().for_each(|key| add_to_entry(self.by_key.entry(key), &change));
        }
    }

    /// The changes by key.
    fn into_keys(mut self) -> FxHashMap<K, C> {
        self.fold_lists();
        self.by_key
    }
}

/// Adds a change to a sum, or begins the sum with it.
fn add_to_entry<K, C: Semigroup>(entry: Entry<'_, K, C>, change: &C) {
    match entry {
        Entry::Occupied(mut sum) => sum.get_mut().plus_equals(change),
        Entry::Vacant(new) => drop(new.insert(change.clone())),
    }
}

/// The live tally per key of `changes`, as updates.
///
/// ```
/// use hopeval_operators::commit::{Committer, commit};
/// use hopeval_operators::tally::{TallyChange, TallyTable, tally};
/// use std::sync::mpsc::{Sender, channel};
/// use timely::dataflow::operators::ToStream;
///
/// /// Sends the table whenever cohorts are complete.
/// struct Tell(Sender<Vec<(String, TallyChange)>>);
///
/// impl Committer for Tell {
///     type Receipt = ();
///     type Key = String;
///     type Change = TallyChange;
///     fn complete(&mut self, _: u64, _: Vec<()>, table: &TallyTable<String, TallyChange>) {
///         self.0.send(table.tallies().clone().into_iter().collect()).unwrap();
///     }
/// }
///
/// // Outcomes, ok outcomes, scores and their squares. The last change replaces a score by another.
/// let changes = [("em", (1, 1, 40, 16)), ("f1", (1, 1, 7, 5)), ("em", (1, 0, 0, 0)), ("em", (0, 0, -10, -7))];
/// let (tell, told) = channel();
/// timely::execute_directly(move |worker| {
///     worker.dataflow::<u64, _, _>(|scope| {
///         let changes = changes.map(|(key, change)| (vec![key.to_owned()], change)).to_stream(scope);
///         let receipts = std::iter::empty::<()>().to_stream(scope).container::<Vec<_>>();
///         commit(receipts, tally(changes.container::<Vec<_>>()), TallyTable::default(), Tell(tell));
///     });
/// });
/// assert_eq!(told.iter().last().unwrap(), [("em".to_owned(), (2, 1, 30, 9)), ("f1".to_owned(), (1, 1, 7, 5))]);
/// ```
pub fn tally<'scope, K, C>(
    changes: Stream<'scope, u64, Vec<KeyedChange<K, C>>>,
) -> Stream<'scope, u64, Vec<TallyUpdate<K, C>>>
where
    K: ExchangeData + Hashable + std::hash::Hash,
    C: ExchangeData + Semigroup,
{
    fold_changes(changes, FOLDED_CHANGES).as_collection().count_total().inner
}

/// A live table: the tallies up to a cohort.
#[derive(Clone, Debug)]
pub struct TallyTable<K, C> {
    tallies: BTreeMap<K, C>,
    ahead: Vec<TallyUpdate<K, C>>,
}

impl<K, C> Default for TallyTable<K, C> {
    fn default() -> Self {
        Self { tallies: BTreeMap::new(), ahead: Vec::new() }
    }
}

impl<K: Ord + Clone, C: PartialEq> TallyTable<K, C> {
    /// Takes updates, of any cohort.
    pub(crate) fn take_updates(&mut self, updates: &mut Vec<TallyUpdate<K, C>>) {
        self.ahead.append(updates);
    }

    /// Applies the updates of all cohorts below `complete`.
    pub(crate) fn apply_below(&mut self, complete: u64) {
        let mut due: Vec<_> = self.ahead.extract_if(.., |(_, cohort, _)| *cohort < complete).collect();
        due.sort_by_key(|(_, cohort, diff)| (*cohort, *diff));
        for ((key, tally), _, diff) in due {
            if diff > 0 {
                self.tallies.insert(key, tally);
            } else if self.tallies.get(&key) == Some(&tally) {
                self.tallies.remove(&key);
            }
        }
    }

    /// The tallies, by key.
    pub fn tallies(&self) -> &BTreeMap<K, C> {
        &self.tallies
    }
}

#[cfg(test)]
mod tests;
