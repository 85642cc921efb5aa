//! Looks of an operator that come by themselves, so that it takes many answers at once.
//!
//! A look costs a step of the worker, whether it finds one answer or fifty. Answers from elsewhere come one by one,
//! some thousands in a second. So a look that finds one of them announces another, and until that one nobody is woken
//! for more. A lone answer wakes the worker at once; the next look finds nothing and announces none. (Network drivers
//! turn from interrupts to polling in the same way.)
//!
//! ```text
//!   answers   a       b c                        d
//!   looks     wake ------- own look ------- own    wake
//!                  pause             pause
//! ```

use crate::notifier::Notifier;
use std::time::{Duration, Instant};
use timely::scheduling::Activator;

/// A pause before an operator's own look.
pub const LOOK_PAUSE: Duration = Duration::from_millis(5);

/// The own looks of one operator.
pub(crate) struct OwnLooks {
    activator: Activator,
    pause: Duration,
    /// The time of the announced one.
    due: Option<Instant>,
}

impl OwnLooks {
    /// `activator` is the operator's. With a pause of zero there are none.
    pub(crate) fn new(activator: Activator, pause: Duration) -> Self {
        Self { activator, pause, due: None }
    }

    /// Begins a look. If it is the announced one, posts after it wake the operator again.
    pub(crate) fn begin(&mut self, notifier: &Notifier) {
        if self.due.is_some_and(|due| due <= Instant::now()) {
            self.due = None;
            notifier.set_looks_soon(false);
        }
    }

    /// Announces a look, unless one is announced.
    pub(crate) fn announce(&mut self, notifier: &Notifier) {
        if self.due.is_none() && !self.pause.is_zero() {
            // Taken before timely takes its time, so it has passed at the activation.
            self.due = Some(Instant::now() + self.pause);
            self.activator.activate_after(self.pause);
            notifier.set_looks_soon(true);
        }
    }
}
