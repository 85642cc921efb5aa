//! Threads beside the engine's: several tokenise waiting requests, and one makes responses of the engine's answers.
//!
//! A device waits while the engine's thread does other work than batches, and while requests are tokenised one by one.

use crate::error::JobError;
use crate::thread_start::start_thread;
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::sync::mpsc::{SendError, Sender, channel};

type AnswerJob = Box<dyn FnOnce() + Send>;

/// The helpers of one service, for all its workers.
pub(super) struct HelperThreads {
    /// `None` for a single thread: then the caller's thread tokenises.
    tokenisers: Option<ThreadPool>,
    answers: AnswerQueue,
}

/// Runs jobs on a thread of its own, in the order of their arrival. The thread ends with the last queue.
#[derive(Clone)]
pub(super) struct AnswerQueue(Sender<AnswerJob>);

impl HelperThreads {
    /// Starts the helpers of a service: `threads` for tokenising, and one for answers.
    ///
    /// # Errors
    /// [`JobError::Thread`].
    pub(super) fn start(service: &str, threads: usize) -> Result<Self, JobError> {
        let failed = |source| JobError::Thread { name: format!("tokenisers of {service}"), source };
        let pool = || {
            let pool = ThreadPoolBuilder::new().num_threads(threads).thread_name(|nth| format!("tokeniser-{nth}"));
            pool.build().map_err(|error| failed(std::io::Error::other(error)))
        };
        let tokenisers = (threads > 1).then(pool).transpose()?;
        let (answers, jobs) = channel::<AnswerJob>();
        start_thread(&format!("answers of {service}"), move || jobs.into_iter().for_each(|job| job()))?;
        Ok(Self { tokenisers, answers: AnswerQueue(answers) })
    }

    /// Maps items on the threads for tokenising; the results come in the order of the items.
    pub(super) fn map_in_order<T: Send, U: Send>(&self, items: Vec<T>, map: impl Fn(T) -> U + Sync + Send) -> Vec<U> {
        match &self.tokenisers {
            Some(pool) if items.len() > 1 => pool.install(|| items.into_par_iter().map(map).collect()),
            _ => items.into_iter().map(map).collect(),
        }
    }

    /// The queue of jobs that make responses.
    pub(super) fn answers(&self) -> AnswerQueue {
        self.answers.clone()
    }
}

impl AnswerQueue {
    /// Runs a job on the queue's thread; here, if a panic has ended that thread.
    pub(super) fn run(&self, job: impl FnOnce() + Send + 'static) {
        if let Err(SendError(job)) = self.0.send(Box::new(job)) {
            job();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::thread_start::refusal::refuse_thread;
    use std::sync::Barrier;

    #[test]
    fn items_are_mapped_beside_each_other_in_their_order() {
        let helpers = HelperThreads::start("scorer", 2).expect("threads");
        // Each of two items waits for the other.
        let both = Barrier::new(2);
        let mapped = helpers.map_in_order(vec![1, 2], |item| {
            both.wait();
            10 * item
        });
        assert_eq!(mapped, [10, 20]);
        let many: Vec<usize> = (0..1000).collect();
        assert_eq!(helpers.map_in_order(many.clone(), |item| item), many);
        let here = std::thread::current().id();
        let alone = HelperThreads::start("scorer", 1).expect("a thread");
        assert!(alone.map_in_order(many, |_| std::thread::current().id()).iter().all(|id| *id == here));
    }

    #[test]
    fn jobs_run_in_order_also_after_a_panic() {
        let helpers = HelperThreads::start("scorer", 1).expect("a thread");
        let (queue, (sender, found)) = (helpers.answers(), channel());
        for n in 0..100 {
            let sender = sender.clone();
            queue.run(move || sender.send((n, std::thread::current().id())).expect("the test waits"));
        }
        let ran: Vec<_> = found.iter().take(100).collect();
        assert!(ran.iter().map(|(n, _)| *n).eq(0..100));
        assert!(ran.iter().all(|(_, id)| *id == ran[0].1 && *id != std::thread::current().id()));
        let ended = sender.clone();
        queue.run(move || {
            // Dropped when the thread unwinds.
            let _ended = ended;
            std::panic::resume_unwind(Box::new("a job's panic"))
        });
        drop(sender);
        assert!(found.iter().next().is_none(), "all jobs are gone");
        let here = std::thread::current().id();
        let ran_here = || {
            let (sender, found) = channel();
            queue.run(move || sender.send(std::thread::current().id()).expect("the test waits"));
            found.recv() == Ok(here)
        };
        // The thread drops its end of the queue a moment after the job.
        while !ran_here() {}
    }

    #[test]
    fn a_thread_that_cannot_start_is_an_error() {
        refuse_thread(Some("answers of scorer"));
        let refused = HelperThreads::start("scorer", 2).map(|_| ()).expect_err("no room");
        refuse_thread(None);
        assert!(matches!(refused, JobError::Thread { name, .. } if name == "answers of scorer"));
    }
}
