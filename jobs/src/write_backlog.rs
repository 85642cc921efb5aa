//! Writes of one worker that are not durable yet: a slow store slows the worker down, instead of filling its memory.
//!
//! ```text
//!   writer --begin_write(size)--> BacklogShare, held until the write is durable
//!   full:  the worker admits no question (QuestionFeed), its services begin no batch (ServiceThread)
//! ```
//!
//! Writes need nothing of what waits for them, so a full backlog always becomes less full, or the run ends.

use crate::waker::OperatorWaker;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// The backlog of one writer. Clones share it.
#[derive(Clone)]
pub struct WriteBacklog(Arc<BacklogState>);

struct BacklogState {
    /// Its name, for people.
    name: &'static str,
    /// The size from which on the worker waits.
    most: usize,
    size: Mutex<BacklogSize>,
    room: Condvar,
    /// Wakes the worker's admission.
    admission: OperatorWaker,
}

#[derive(Default)]
struct BacklogSize {
    held: usize,
    /// Whether people were told that the worker waits.
    told: bool,
}

/// A write under way, until it is dropped.
pub struct BacklogShare {
    backlog: WriteBacklog,
    size: usize,
}

impl WriteBacklog {
    /// An empty backlog, which is full from `most` on. `admission` is woken when there is room again.
    pub fn new(name: &'static str, most: usize, admission: &OperatorWaker) -> Self {
        let (size, room, admission) = (Mutex::default(), Condvar::new(), admission.clone());
        Self(Arc::new(BacklogState { name, most, size, room, admission }))
    }

    /// A backlog that is never full.
    #[cfg(test)]
    pub(crate) fn unbounded() -> Self {
        Self::new("test", usize::MAX, &OperatorWaker::default())
    }

    /// Counts a write until its share is dropped.
    pub fn begin_write(&self, size: usize) -> BacklogShare {
        let mut now = self.0.size.lock().unwrap_or_else(PoisonError::into_inner);
        now.held += size;
        if now.held >= self.0.most && !now.told {
            now.told = true;
            tracing::info!(writes = self.0.name, "the store is slower than the run, which waits for it");
        }
        BacklogShare { backlog: self.clone(), size }
    }

    /// Whether the worker is to wait.
    pub fn is_full(&self) -> bool {
        self.0.size.lock().unwrap_or_else(PoisonError::into_inner).held >= self.0.most
    }

    /// Waits until the backlog is not full. For threads that are no workers.
    pub fn wait_for_room(&self) {
        let mut now = self.0.size.lock().unwrap_or_else(PoisonError::into_inner);
        while now.held >= self.0.most {
            now = self.0.room.wait(now).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for BacklogShare {
    fn drop(&mut self) {
        let state = &self.backlog.0;
        let mut now = state.size.lock().unwrap_or_else(PoisonError::into_inner);
        let was_full = now.held >= state.most;
        now.held -= self.size;
        if was_full && now.held < state.most {
            drop(now);
            state.room.notify_all();
            state.admission.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    #[test]
    fn a_full_backlog_lets_wait_until_a_write_ends() {
        let backlog = WriteBacklog::new("test", 10, &OperatorWaker::default());
        let first = backlog.begin_write(4);
        assert!(!backlog.is_full());
        backlog.wait_for_room();
        let second = backlog.begin_write(8);
        assert!(backlog.is_full());
        let (sender, receiver) = channel();
        let waiting = backlog.clone();
        let thread = std::thread::spawn(move || {
            waiting.wait_for_room();
            sender.send(waiting.is_full()).expect("the test waits");
        });
        assert!(receiver.try_recv().is_err());
        drop(first);
        assert_eq!(receiver.recv_timeout(Duration::from_secs(60)), Ok(false));
        thread.join().expect("it does not panic");
        drop(second);
        assert!(!backlog.is_full());
    }
}
