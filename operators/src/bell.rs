//! Wakes an operator from any thread.
//!
//! Waking a worker costs more than an answer does, so a bell that has rung stays silent until the operator looks.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use timely::scheduling::SyncActivator;

/// The bell of one operator.
#[derive(Default)]
pub(crate) struct Bell {
    /// The operator will look, and nothing that is posted before it does needs to wake it.
    rung: AtomicBool,
    /// Wakes the operator, once that is there.
    activator: OnceLock<SyncActivator>,
}

impl Bell {
    /// The bell of an operator that is there.
    pub(crate) fn of(activator: SyncActivator) -> Self {
        Self { rung: AtomicBool::new(false), activator: activator.into() }
    }

    /// Gives a bell that has none its operator, which is woken for what may have been posted before.
    pub(crate) fn hang(&self, activator: SyncActivator) {
        self.wake(self.activator.get_or_init(|| activator));
    }

    /// Wakes the worker, unless somebody has. What was posted before is seen: both sides swap, so this one is ordered
    /// either before the operator's look, which then finds it, or after it, and then it rings.
    pub(crate) fn ring(&self) {
        if !self.rung.swap(true, Ordering::AcqRel)
            && let Some(activator) = self.activator.get()
        {
            self.wake(activator);
        }
    }

    /// Says that [`look`](Self::look) will be called in this activation: until then nobody needs to ring.
    pub(crate) fn hush(&self) {
        self.rung.swap(true, Ordering::AcqRel);
    }

    /// Says that the operator looks now: what is posted from here on rings again.
    pub(crate) fn look(&self) {
        self.rung.swap(false, Ordering::AcqRel);
    }

    fn wake(&self, activator: &SyncActivator) {
        // An error says that the worker is gone, and then nobody waits.
        let _ = activator.activate();
    }
}
