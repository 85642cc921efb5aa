//! Wakes an operator from any thread.
//!
//! Waking a worker costs more than posting an answer. After a notification, the notifier stays silent until the
//! operator looks. An operator that has announced a look of its own (`own_looks`) is not woken for posts that can wait
//! for it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use timely::scheduling::SyncActivator;

/// The notifier of one operator.
#[derive(Default)]
pub(crate) struct Notifier {
    /// True if the operator will look. Until then, posts need not wake it.
    notified: AtomicBool,
    /// True if the operator will look by itself in a moment.
    looks_soon: AtomicBool,
    /// Wakes the operator. Empty until the operator exists.
    activator: OnceLock<SyncActivator>,
}

impl Notifier {
    /// The notifier of an existing operator.
    pub(crate) fn with_activator(activator: SyncActivator) -> Self {
        Self { activator: activator.into(), ..Self::default() }
    }

    /// Attaches the operator. It is woken once, in case something was posted before it existed.
    pub(crate) fn attach(&self, activator: SyncActivator) {
        self.wake_operator(self.activator.get_or_init(|| activator));
    }

    /// Wakes the worker, unless it has been woken already. The operator sees everything posted before this call: both
    /// sides swap, so this swap comes either before the operator's look, and the look finds the post, or after it, and
    /// then this call wakes the worker.
    pub(crate) fn notify(&self) {
        if !self.notified.swap(true, Ordering::AcqRel)
            && let Some(activator) = self.activator.get()
        {
            self.wake_operator(activator);
        }
    }

    /// The same for a post that can wait: without effect while the operator will look by itself. Both sides read and
    /// write in one step, as above.
    pub(crate) fn notify_soon(&self) {
        if !self.looks_soon.fetch_or(false, Ordering::AcqRel) {
            self.notify();
        }
    }

    /// Says whether the operator will look by itself in a moment. Taken back before that look, so that it finds what
    /// was posted until then.
    pub(crate) fn set_looks_soon(&self, looks_soon: bool) {
        self.looks_soon.swap(looks_soon, Ordering::AcqRel);
    }

    /// Announces a call of [`rearm`](Self::rearm) in this activation. Until then, posts need not wake the operator.
    pub(crate) fn mute(&self) {
        self.notified.swap(true, Ordering::AcqRel);
    }

    /// Marks the operator's look. From here on, posts wake it again.
    pub(crate) fn rearm(&self) {
        self.notified.swap(false, Ordering::AcqRel);
    }

    fn wake_operator(&self, activator: &SyncActivator) {
        // On an error the worker is gone, and then nobody waits.
        let _ = activator.activate();
    }
}
