//! Ids of recently used texts, within a bound of bytes.
//!
//! There are two generations. A requested text moves to the young one. When the young one reaches half of the bound,
//! the old one is dropped and the young one becomes old. The cache never changes an answer.

use rustc_hash::FxHashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

type CacheGeneration = FxHashMap<Arc<str>, Arc<[u32]>>;

/// A bounded map of texts to ids, one for texts with special tokens and one for texts without.
#[derive(Debug)]
pub(super) struct TextCache {
    most_bytes: usize,
    with_special: Mutex<CacheGenerations>,
    without: Mutex<CacheGenerations>,
}

#[derive(Debug, Default)]
struct CacheGenerations {
    young: CacheGeneration,
    young_bytes: usize,
    old: CacheGeneration,
}

impl TextCache {
    pub(super) fn new(most_bytes: usize) -> Self {
        Self { most_bytes, with_special: Mutex::default(), without: Mutex::default() }
    }

    pub(super) fn get(&self, text: &str, special: bool) -> Option<Arc<[u32]>> {
        let mut generations = self.lock(special);
        if let Some(ids) = generations.young.get(text) {
            return Some(ids.clone());
        }
        let (text, ids) = generations.old.remove_entry(text)?;
        generations.put(text, ids.clone(), self.most_bytes / 4);
        Some(ids)
    }

    pub(super) fn put(&self, text: &str, special: bool, ids: &Arc<[u32]>) {
        self.lock(special).put(text.into(), ids.clone(), self.most_bytes / 4);
    }

    fn lock(&self, special: bool) -> MutexGuard<'_, CacheGenerations> {
        let generations = if special { &self.with_special } else { &self.without };
        // A panic in another thread leaves only whole entries behind.
        generations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CacheGenerations {
    fn put(&mut self, text: Arc<str>, ids: Arc<[u32]>, most_bytes: usize) {
        let bytes = text.len() + size_of_val(&ids[..]);
        if self.young_bytes + bytes > most_bytes {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        if bytes <= most_bytes && self.young.insert(text, ids).is_none() {
            self.young_bytes += bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_what_was_used_last_within_its_bound() {
        let cache = TextCache::new(4000);
        let ids: Arc<[u32]> = vec![7; 20].into();
        for n in 0..1000 {
            cache.put(&format!("text {n:06}"), true, &ids);
            assert_eq!(cache.get("text 000000", true), Some(ids.clone()), "asked for all the time");
            let generations = cache.lock(true);
            assert!((generations.young.len() + generations.old.len()) * 91 <= 2000);
        }
        assert_eq!(cache.get("text 000500", true), None);
        assert_eq!(cache.get("text 000000", false), None);
    }

    #[test]
    fn a_text_larger_than_the_bound_is_not_kept() {
        let cache = TextCache::new(400);
        cache.put(&"x".repeat(101), false, &Vec::new().into());
        assert_eq!(cache.get(&"x".repeat(101), false), None);
    }
}
