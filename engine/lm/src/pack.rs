//! Packs waiting requests into batches under a token budget, without I/O.
//!
//! A [`Packer`] holds the waiting items and chooses the next batch. Its caller runs the batch and reports back. An item
//! leaves exactly once, by [`done`](Packer::done) or by a refusal; items are never lost.
//!
//! | event | effect |
//! | --- | --- |
//! | `push` | the item waits; an item larger than every batch is refused, with both numbers |
//! | `next_batch` | the batch that begins with the oldest item, filled with the items that sort nearest to it |
//! | `out_of_memory` | the batch waits again, the budget becomes half the batch's cost; a single item is refused |
//! | `done` | the batch is forgotten; after many good ones the budget grows again towards its first value |
//!
//! Work-conserving: `next_batch` gives a batch whenever anything waits, and never waits for more items.

use std::collections::{BTreeMap, BTreeSet};

/// An item of a [`Packer`].
pub trait PackItem {
    /// Items with near keys share work, or pad one another least: token ids for prefix sharing, lengths elsewhere.
    type Key: Ord + Clone;

    /// Its sort key.
    fn sort_key(&self) -> Self::Key;

    /// Its cost in a batch by itself, in tokens.
    fn cost(&self) -> usize;

    /// Its additional cost in a batch that ends with `before`: less than its own cost if the two share work.
    fn added_cost(&self, before: &Self) -> usize {
        let _ = before;
        self.cost()
    }
}

/// An item too large for every batch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the request needs {tokens} tokens and a batch holds at most {budget}")]
pub struct TooLongError {
    /// The item's cost.
    pub tokens: usize,
    /// The batch's budget.
    pub budget: usize,
}

/// Successful batches before the budget is doubled again.
const PATIENCE: u32 = 64;

/// Waiting items, and the batch under way.
#[derive(Debug)]
pub struct Packer<T: PackItem> {
    /// By arrival, so that the oldest leads the next batch and nothing starves.
    waiting: BTreeMap<u64, T>,
    /// The same items by key.
    sorted: BTreeSet<(T::Key, u64)>,
    arrivals: u64,
    /// The configured budget.
    limit: usize,
    /// The learnt budget: at most `limit`.
    budget: usize,
    good: u32,
}

impl<T: PackItem> Packer<T> {
    /// Creates a packer for batches of at most `budget` tokens.
    pub fn new(budget: usize) -> Self {
        Self { waiting: BTreeMap::new(), sorted: BTreeSet::new(), arrivals: 0, limit: budget, budget, good: 0 }
    }

    /// Adds an item.
    ///
    /// # Errors
    /// The item and [`TooLongError`], if it does not fit a batch alone.
    pub fn push(&mut self, item: T) -> Result<(), (T, TooLongError)> {
        let tokens = item.cost();
        if tokens > self.limit {
            return Err((item, TooLongError { tokens, budget: self.limit }));
        }
        self.arrivals += 1;
        self.wait(self.arrivals, item);
        Ok(())
    }

    /// The number of waiting items.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// True if no item waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The current budget.
    pub fn budget(&self) -> usize {
        self.budget
    }

    /// The next batch, in the order of keys; `None` if nothing waits. A batch holds at least one item.
    pub fn next_batch(&mut self) -> Option<Vec<(u64, T)>> {
        let oldest = self.waiting.first_key_value()?;
        let start = (oldest.1.sort_key(), *oldest.0);
        let mut chosen = vec![start.clone()];
        let mut cost = oldest.1.cost();
        // Upwards from the oldest, then downwards: its neighbours share most with it.
        for up in [true, false] {
            let mut before = start.1;
            let candidates: Box<dyn Iterator<Item = &(T::Key, u64)>> = if up {
                Box::new(self.sorted.range(start.clone()..).skip(1))
            } else {
                Box::new(self.sorted.range(..start.clone()).rev())
            };
            for candidate in candidates {
                let item = &self.waiting[&candidate.1];
                let added = item.added_cost(&self.waiting[&before]);
                if cost + added > self.budget {
                    break;
                }
                cost += added;
                before = candidate.1;
                chosen.push(candidate.clone());
            }
        }
        chosen.sort();
        Some(chosen.into_iter().map(|entry| (entry.1, self.take(&entry))).collect())
    }

    /// Records a successful batch.
    pub fn done(&mut self) {
        self.good += 1;
        if self.good >= PATIENCE && self.budget < self.limit {
            self.good = 0;
            self.budget = (self.budget * 2).min(self.limit);
        }
    }

    /// Records a batch that ran out of memory: its items wait again, in their old places, and batches become smaller.
    /// Returns the item if it was alone.
    pub fn out_of_memory(&mut self, batch: Vec<(u64, T)>) -> Option<T> {
        self.good = 0;
        let mut batch = batch;
        if batch.len() == 1 {
            return batch.pop().map(|(_, item)| item);
        }
        let cost = batch.iter().map(|(_, item)| item.cost()).sum::<usize>();
        self.budget = (self.budget.min(cost) / 2).max(1);
        self.put_back(batch);
        None
    }

    /// Puts items of a batch that did not run back to their old places.
    pub fn put_back(&mut self, batch: Vec<(u64, T)>) {
        batch.into_iter().for_each(|(arrival, item)| self.wait(arrival, item));
    }

    fn wait(&mut self, arrival: u64, item: T) {
        self.sorted.insert((item.sort_key(), arrival));
        self.waiting.insert(arrival, item);
    }

    fn take(&mut self, entry: &(T::Key, u64)) -> T {
        self.sorted.remove(entry);
        self.waiting.remove(&entry.1).expect("a chosen item waits; this is a bug")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug, PartialEq)]
    struct Sized(usize);

    impl PackItem for Sized {
        type Key = usize;

        fn sort_key(&self) -> usize {
            self.0
        }

        fn cost(&self) -> usize {
            self.0
        }
    }

    #[test]
    fn refuses_what_cannot_fit_with_both_numbers() {
        let mut packer = Packer::new(10);
        let (_, refused) = packer.push(Sized(11)).unwrap_err();
        assert_eq!(refused, TooLongError { tokens: 11, budget: 10 });
        assert!(packer.next_batch().is_none());
    }

    #[test]
    fn a_batch_begins_with_the_oldest_and_takes_its_likes() {
        let mut packer = Packer::new(12);
        for size in [5, 1, 6, 1, 2] {
            packer.push(Sized(size)).unwrap();
        }
        let batch = packer.next_batch().unwrap();
        assert_eq!(batch.into_iter().map(|(_, s)| s.0).collect::<Vec<_>>(), [5, 6]);
        assert_eq!(packer.len(), 3);
    }

    #[test]
    fn out_of_memory_halves_the_budget_and_returns_a_lone_item() {
        let mut packer = Packer::new(8);
        for _ in 0..4 {
            packer.push(Sized(2)).unwrap();
        }
        let batch = packer.next_batch().unwrap();
        assert_eq!(batch.len(), 4);
        assert_eq!(packer.out_of_memory(batch), None);
        assert_eq!((packer.len(), packer.budget()), (4, 4));
        packer.budget = 2;
        let one = packer.next_batch().unwrap();
        assert_eq!(packer.out_of_memory(one), Some(Sized(2)));
    }

    proptest! {
        /// Memory may run out for any batch at any time: every item leaves exactly once, and no batch exceeds the
        /// budget.
        #[test]
        fn every_item_leaves_once(
            sizes in prop::collection::vec(1usize..40, 1..60),
            budget in 20usize..60,
            failures in prop::collection::vec(any::<bool>(), 200),
        ) {
            let mut packer = Packer::new(budget);
            let mut left = Vec::new();
            for (tag, size) in sizes.iter().enumerate() {
                match packer.push(Sized(*size)) {
                    Ok(()) => {}
                    Err((item, _)) => { prop_assert!(item.0 > budget); left.push(tag as u64 + 1_000_000) }
                }
            }
            let mut failures = failures.into_iter();
            while let Some(batch) = packer.next_batch() {
                let cost = batch.iter().map(|(_, s)| s.0).sum::<usize>();
                prop_assert!(batch.len() == 1 || cost <= budget);
                if failures.next().unwrap_or(false) {
                    let arrivals = batch.iter().map(|(a, _)| *a).collect::<Vec<_>>();
                    if packer.out_of_memory(batch).is_some() {
                        left.push(arrivals[0]);
                    }
                } else {
                    left.extend(batch.iter().map(|(a, _)| *a));
                    packer.done();
                }
            }
            let count = left.len();
            left.sort();
            left.dedup();
            prop_assert_eq!(left.len(), count);
            prop_assert_eq!(count, sizes.len());
        }
    }
}
