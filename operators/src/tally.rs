//! Keeps sums per key live, with differential dataflow.
//!
//! Scores come as (key, change) with integer changes, so a tally does not depend on order, workers or batches. A
//! correction is one more change. Changes of a cohort are folded before they are arranged, because a cohort of
//! questions touches each key many times.

use differential_dataflow::operators::count::CountTotal;
use differential_dataflow::{AsCollection, ExchangeData, Hashable};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::Stream;
use timely::dataflow::channels::pact::Pipeline;
use timely::dataflow::operators::generic::operator::Operator;

/// Changes of a tally: outcomes, outcomes with status ok, sum of scores and sum of their squares in fixed point.
pub type TallyChange = (i64, i64, i128, i128);

/// One update of the live table: the tally of a key from a cohort on (`diff` 1), or no longer (`diff` -1).
pub type TallyUpdate<K> = ((K, TallyChange), u64, isize);

/// The most folded keys, over all open cohorts, unless a tally is larger.
const FOLDED_KEYS: usize = 1 << 16;

fn add_change(into: &mut TallyChange, change: TallyChange) {
    into.0 += change.0;
    into.1 += change.1;
    into.2 += change.2;
    into.3 += change.3;
}

/// The changes of each cohort, folded by key until the cohort is complete here.
///
/// At most `least` keys are held, or twice the keys of the largest cohort so far, whichever is more: a large sweep has
/// more keys in every cohort than any fixed bound, and an early release would send them on one by one. A tally has all
/// of these keys anyway. Keys above the bound are sent early, the fullest cohort first. A cohort may be sent in pieces:
/// their sums add up.
fn fold_changes<'scope, K: ExchangeData + std::hash::Hash>(
    changes: Stream<'scope, u64, Vec<(K, TallyChange)>>,
    least: usize,
) -> Stream<'scope, u64, Vec<(K, u64, TallyChange)>> {
    changes.unary_frontier::<CapacityContainerBuilder<Vec<_>>, _, _, _>(Pipeline, "fold", move |capability, _| {
        drop(capability);
        let mut folded = BTreeMap::new();
        let mut fullest = 0;
        move |(input, frontier), output| {
            input.for_each(|time, batch| {
                let Some(held) = time.retain_least(0) else { return };
                let cohort = *held.time();
                let (_, sums) = folded.entry(cohort).or_insert_with(|| (held, FxHashMap::<K, TallyChange>::default()));
                for (key, change) in batch.drain(..) {
                    add_change(sums.entry(key).or_default(), change);
                }
                fullest = fullest.max(sums.len());
            });
            let (mut open, mut due): (Vec<u64>, Vec<u64>) =
                folded.keys().copied().partition(|cohort| frontier.less_equal(cohort));
            open.sort_by_key(|cohort| folded.get(cohort).map(|(_, sums)| sums.len()));
            let mut keys: usize = open.iter().filter_map(|cohort| folded.get(cohort)).map(|(_, sums)| sums.len()).sum();
            while keys > least.max(2 * fullest)
                && let Some(cohort) = open.pop()
            {
                keys -= folded.get(&cohort).map_or(0, |(_, sums)| sums.len());
                due.push(cohort);
            }
            for cohort in due {
                if let Some((held, sums)) = folded.remove(&cohort) {
                    output.session(&held).give_iterator(sums.into_iter().map(|(key, change)| (key, cohort, change)));
                }
            }
        }
    })
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
///     fn complete(&mut self, _: u64, _: Vec<()>, table: &TallyTable<String>) {
///         self.0.send(table.tallies().clone().into_iter().collect()).unwrap();
///     }
/// }
///
/// // Outcomes, ok outcomes, scores and their squares. The last change replaces a score by another.
/// let changes = [("em", (1, 1, 40, 16)), ("f1", (1, 1, 7, 5)), ("em", (1, 0, 0, 0)), ("em", (0, 0, -10, -7))];
/// let (tell, told) = channel();
/// timely::execute_directly(move |worker| {
///     worker.dataflow::<u64, _, _>(|scope| {
///         let changes = changes.map(|(key, change)| (key.to_owned(), change)).to_stream(scope).container::<Vec<_>>();
///         let receipts = std::iter::empty::<()>().to_stream(scope).container::<Vec<_>>();
///         commit(receipts, tally(changes), TallyTable::default(), Tell(tell));
///     });
/// });
/// assert_eq!(told.iter().last().unwrap(), [("em".to_owned(), (2, 1, 30, 9)), ("f1".to_owned(), (1, 1, 7, 5))]);
/// ```
pub fn tally<'scope, K: ExchangeData + Hashable + std::hash::Hash>(
    changes: Stream<'scope, u64, Vec<(K, TallyChange)>>,
) -> Stream<'scope, u64, Vec<TallyUpdate<K>>> {
    fold_changes(changes, FOLDED_KEYS).as_collection().count_total().inner
}

/// A live table: the tallies up to a cohort.
#[derive(Clone, Debug, Default)]
pub struct TallyTable<K> {
    tallies: BTreeMap<K, TallyChange>,
    ahead: Vec<TallyUpdate<K>>,
}

impl<K: Ord + Clone> TallyTable<K> {
    /// Takes updates, of any cohort.
    pub(crate) fn take_updates(&mut self, updates: &mut Vec<TallyUpdate<K>>) {
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
    pub fn tallies(&self) -> &BTreeMap<K, TallyChange> {
        &self.tallies
    }
}

#[cfg(test)]
mod tests;
