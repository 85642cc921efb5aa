//! Packs waiting requests into batches under a token budget, without I/O.
//!
//! A [`Packer`] holds what waits and says what runs next; whoever drives it runs the batch and reports back. Nothing is
//! ever lost: an item leaves once, by [`done`](Packer::done) or by a refusal.
//!
//! | event | what happens |
//! | --- | --- |
//! | `push` | the item waits; one that no batch can hold is refused, with both numbers |
//! | `next_batch` | the batch that begins with the oldest item, filled with the items that sort nearest to it |
//! | `out_of_memory` | the batch waits again, the budget becomes half of what the batch cost; a single item is refused |
//! | `done` | the batch is forgotten; after many good ones the budget grows again towards what was asked for |
//!
//! Work-conserving: `next_batch` gives a batch whenever anything waits, and never waits for more to meet.

use std::collections::{BTreeMap, BTreeSet};

/// What a [`Packer`] needs to know of an item.
pub trait Pack {
    /// Items with near keys share work, or pad one another least: token ids for prefix sharing, lengths elsewhere.
    type Key: Ord + Clone;

    /// Where it sorts.
    fn key(&self) -> Self::Key;

    /// What it costs in a batch by itself, in tokens.
    fn cost(&self) -> usize;

    /// What it adds to a batch that ends with `before`: less than its cost where the two share work.
    fn added_cost(&self, before: &Self) -> usize {
        let _ = before;
        self.cost()
    }
}

/// An item that no batch can hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the request needs {tokens} tokens and a batch holds at most {budget}")]
pub struct TooLong {
    /// What it needs.
    pub tokens: usize,
    /// What there is.
    pub budget: usize,
}

/// Batches that went well before the budget is doubled again.
const PATIENCE: u32 = 64;

/// Waiting items, and the batch that is out.
#[derive(Debug)]
pub struct Packer<T: Pack> {
    /// By arrival, so that the oldest leads the next batch and nothing starves.
    waiting: BTreeMap<u64, T>,
    /// The same items by key.
    sorted: BTreeSet<(T::Key, u64)>,
    arrivals: u64,
    /// As asked for.
    limit: usize,
    /// As learnt: at most `limit`.
    budget: usize,
    good: u32,
}

impl<T: Pack> Packer<T> {
    /// Batches of at most `budget` tokens.
    pub fn new(budget: usize) -> Self {
        Self { waiting: BTreeMap::new(), sorted: BTreeSet::new(), arrivals: 0, limit: budget, budget, good: 0 }
    }

    /// Takes an item.
    ///
    /// # Errors
    /// The item and [`TooLong`], when a batch of it alone would not fit.
    pub fn push(&mut self, item: T) -> Result<(), (T, TooLong)> {
        let tokens = item.cost();
        if tokens > self.limit {
            return Err((item, TooLong { tokens, budget: self.limit }));
        }
        self.arrivals += 1;
        self.wait(self.arrivals, item);
        Ok(())
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The budget as it stands.
    pub fn budget(&self) -> usize {
        self.budget
    }

    /// The next batch, in the order of keys; none if nothing waits. It always holds at least one item.
    pub fn next_batch(&mut self) -> Option<Vec<(u64, T)>> {
        let oldest = self.waiting.first_key_value()?;
        let start = (oldest.1.key(), *oldest.0);
        let mut chosen = vec![start.clone()];
        let mut cost = oldest.1.cost();
        // Upwards from the oldest, then downwards: what sorts near it shares most with it.
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

    /// A batch went well.
    pub fn done(&mut self) {
        self.good += 1;
        if self.good >= PATIENCE && self.budget < self.limit {
            self.good = 0;
            self.budget = (self.budget * 2).min(self.limit);
        }
    }

    /// A batch ran out of memory: it waits again, in its old place, and batches become smaller. An item that was alone comes back.
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

    /// Items of a batch that did not run wait again, in their old places.
    pub fn put_back(&mut self, batch: Vec<(u64, T)>) {
        batch.into_iter().for_each(|(arrival, item)| self.wait(arrival, item));
    }

    fn wait(&mut self, arrival: u64, item: T) {
        self.sorted.insert((item.key(), arrival));
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

    impl Pack for Sized {
        type Key = usize;

        fn key(&self) -> usize {
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
        assert_eq!(refused, TooLong { tokens: 11, budget: 10 });
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
    fn memory_that_runs_out_halves_the_budget_and_a_lone_item_comes_back() {
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
        /// Whatever runs out of memory and whenever: every item leaves exactly once, and no batch exceeds the budget.
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
