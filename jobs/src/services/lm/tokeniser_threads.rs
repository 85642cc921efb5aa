//! Threads that tokenise waiting requests beside the engine's: a device waits while requests are tokenised one by one.

use crate::error::JobError;
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

/// The threads of one service, for all its workers; `None` for a single one: then the caller's thread tokenises.
pub(super) struct TokeniserThreads(Option<ThreadPool>);

impl TokeniserThreads {
    /// Starts `threads` of a service.
    ///
    /// # Errors
    /// [`JobError::Thread`].
    pub(super) fn start(service: &str, threads: usize) -> Result<Self, JobError> {
        let failed = |source| JobError::Thread { name: format!("tokenisers of {service}"), source };
        let pool = || {
            let pool = ThreadPoolBuilder::new().num_threads(threads).thread_name(|nth| format!("tokeniser-{nth}"));
            pool.build().map_err(|error| failed(std::io::Error::other(error)))
        };
        Ok(Self((threads > 1).then(pool).transpose()?))
    }

    /// Maps items on the threads; the results come in the order of the items.
    pub(super) fn map_in_order<T: Send, U: Send>(&self, items: Vec<T>, map: impl Fn(T) -> U + Sync + Send) -> Vec<U> {
        match &self.0 {
            Some(pool) if items.len() > 1 => pool.install(|| items.into_par_iter().map(map).collect()),
            _ => items.into_iter().map(map).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[test]
    fn items_are_mapped_beside_each_other_in_their_order() {
        let threads = TokeniserThreads::start("scorer", 2).expect("threads");
        // Each of two items waits for the other.
        let both = Barrier::new(2);
        let mapped = threads.map_in_order(vec![1, 2], |item| {
            both.wait();
            10 * item
        });
        assert_eq!(mapped, [10, 20]);
        let many: Vec<usize> = (0..1000).collect();
        assert_eq!(threads.map_in_order(many.clone(), |item| item), many);
        let here = std::thread::current().id();
        let alone = TokeniserThreads::start("scorer", 1).expect("a thread");
        assert!(alone.map_in_order(many, |_| std::thread::current().id()).iter().all(|id| *id == here));
    }
}
