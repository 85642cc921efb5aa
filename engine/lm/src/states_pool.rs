//! A bounded pool of encoder states, to encode a prompt once for all its targets.
//!
//! PromptRank's encoder reads the path and not the question (Khalifa et al. 2023, section 2.2), so one encoding serves
//! every question with the path. States lie in one tensor. A prompt's rows need not be neighbours, since batches gather
//! them.

use crate::request::TokenIds;
use hopeval_device::{Device, DeviceError, TensorColumns};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Encoder states of the most recently used prompts.
#[derive(Debug)]
pub struct StatesPool<D: Device> {
    states: D::Tensor,
    free: Vec<u32>,
    entries: HashMap<TokenIds, PoolEntry>,
    /// Prompts by last use, oldest first.
    by_use: BTreeMap<u64, TokenIds>,
    uses: u64,
}

#[derive(Debug)]
struct PoolEntry {
    rows: Vec<u32>,
    used: u64,
}

impl<D: Device> StatesPool<D> {
    /// Reserves room for `rows` tokens.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`].
    pub fn reserve(device: &D, rows: usize, hidden: usize) -> Result<Self, DeviceError> {
        Ok(Self {
            states: device.reserve(rows, hidden)?,
            free: (0..rows as u32).rev().collect(),
            entries: HashMap::new(),
            by_use: BTreeMap::new(),
            uses: 0,
        })
    }

    /// The rows of a prompt's states, if the pool holds them; counts as a use.
    pub fn find(&mut self, prompt: &TokenIds) -> Option<Vec<u32>> {
        let entry = self.entries.get_mut(prompt)?;
        self.uses += 1;
        self.by_use.remove(&entry.used);
        self.by_use.insert(self.uses, prompt.clone());
        entry.used = self.uses;
        Some(entry.rows.clone())
    }

    /// Reserves rows for the states of a new prompt. The least recently used prompts outside `keep` make room. `None`
    /// if their rows do not suffice.
    pub fn make_room(&mut self, prompt: &TokenIds, keep: &BTreeSet<TokenIds>) -> Option<Vec<u32>> {
        let wanted = prompt.len();
        let mut leaving = Vec::new();
        let mut room = self.free.len();
        for (used, old) in &self.by_use {
            if room >= wanted {
                break;
            }
            if !keep.contains(old) {
                room += old.len();
                leaving.push((*used, old.clone()));
            }
        }
        if room < wanted {
            return None;
        }
        for (used, old) in leaving {
            self.by_use.remove(&used);
            let entry = self.entries.remove(&old).expect("a used prompt has an entry; this is a bug");
            self.free.extend(entry.rows);
        }
        let rows = self.free.split_off(self.free.len() - wanted);
        self.uses += 1;
        self.by_use.insert(self.uses, prompt.clone());
        self.entries.insert(prompt.clone(), PoolEntry { rows: rows.clone(), used: self.uses });
        Some(rows)
    }

    /// Drops a prompt without stored states.
    pub fn forget(&mut self, prompt: &TokenIds) {
        if let Some(entry) = self.entries.remove(prompt) {
            self.by_use.remove(&entry.used);
            self.free.extend(entry.rows);
        }
    }

    /// Drops every prompt.
    pub fn clear(&mut self) {
        self.by_use.clear();
        self.free.extend(self.entries.drain().flat_map(|(_, entry)| entry.rows));
    }

    /// Stores states at rows from [`make_room`](Self::make_room).
    ///
    /// # Errors
    /// [`DeviceError::Lost`].
    pub fn store(&mut self, device: &D, rows: &[u32], states: &D::Tensor) -> Result<(), DeviceError> {
        device.scatter(&mut self.states, rows, TensorColumns { tensor: states, start: 0 })
    }

    /// The states at `rows`, in that order.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`].
    pub fn gather(&self, device: &D, rows: &[u32]) -> Result<D::Tensor, DeviceError> {
        device.gather(&self.states, rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hopeval_device::Reference;

    fn ids(of: &[u32]) -> TokenIds {
        of.into()
    }

    #[test]
    fn least_recently_used_prompts_make_room_and_kept_ones_stay() {
        let mut pool = StatesPool::<Reference>::reserve(&Reference, 6, 1).unwrap();
        let (a, b, c) = (ids(&[1, 1]), ids(&[2, 2]), ids(&[3, 3, 3]));
        let keep = BTreeSet::new();
        pool.make_room(&a, &keep).unwrap();
        pool.make_room(&b, &keep).unwrap();
        assert!(pool.find(&a).is_some());
        let rows = pool.make_room(&c, &keep).unwrap();
        assert!(pool.find(&b).is_none(), "b was used before a");
        assert!(pool.find(&a).is_some());
        assert_eq!(rows.len(), 3);
        let all = BTreeSet::from([a.clone(), c.clone()]);
        assert!(pool.make_room(&ids(&[4, 4]), &all).is_none(), "both are in use");
    }

    #[test]
    fn what_is_cleared_is_gone_and_leaves_all_its_room() {
        let mut pool = StatesPool::<Reference>::reserve(&Reference, 4, 1).unwrap();
        pool.make_room(&ids(&[1, 1, 1]), &BTreeSet::new()).unwrap();
        pool.clear();
        assert!(pool.find(&ids(&[1, 1, 1])).is_none());
        assert!(pool.make_room(&ids(&[2, 2, 2, 2]), &BTreeSet::new()).is_some());
    }

    #[test]
    fn what_is_stored_is_gathered() {
        let mut pool = StatesPool::reserve(&Reference, 4, 2).unwrap();
        let prompt = ids(&[5, 6]);
        let rows = pool.make_room(&prompt, &BTreeSet::new()).unwrap();
        let states = Reference.upload(2, 2, &[1.0, 2.0, 3.0, 4.0]).unwrap();
        pool.store(&Reference, &rows, &states).unwrap();
        let found = pool.find(&prompt).unwrap();
        assert_eq!(pool.gather(&Reference, &found).unwrap().values, [1.0, 2.0, 3.0, 4.0]);
    }
}
