//! The time without an answer: of an outage, and of limits without end.

use crate::host::EndpointFault;
use std::time::Duration;
use tokio::time::Instant;

/// The time since an endpoint last worked.
#[derive(Debug)]
pub(crate) struct OutageClock {
    patience: Duration,
    /// The first fault since the last answer.
    first_fault: Option<Instant>,
    /// The first limit since the last answer.
    first_limit: Option<Instant>,
    /// The longest time that a server has named since then.
    longest_named: Duration,
    last: String,
}

impl OutageClock {
    pub(crate) fn new(patience: Duration) -> Self {
        Self { patience, first_fault: None, first_limit: None, longest_named: Duration::ZERO, last: String::new() }
    }

    /// The server answered.
    pub(crate) fn answered(&mut self) {
        self.first_fault = None;
        self.first_limit = None;
        self.longest_named = Duration::ZERO;
    }

    /// The server stated a limit: it is there.
    pub(crate) fn limited(&mut self, named: Option<Duration>, message: &str, now: Instant) {
        self.first_fault = None;
        self.first_limit.get_or_insert(now);
        self.longest_named = self.longest_named.max(named.unwrap_or_default());
        message.clone_into(&mut self.last);
    }

    /// An attempt failed.
    pub(crate) fn failed(&mut self, message: &str, now: Instant) {
        self.first_fault.get_or_insert(now);
        message.clone_into(&mut self.last);
    }

    /// The time at which the patience ends: after an outage; after limits alone, when the times that the server named
    /// are over, too.
    pub(crate) fn ends_at(&self, all_suspect: bool) -> Option<Instant> {
        let outage = self.first_fault.filter(|_| all_suspect).map(|first| first + self.patience);
        let limits = self.first_limit.map(|first| first + self.patience + self.longest_named);
        match (outage, limits) {
            (Some(outage), Some(limits)) => Some(outage.min(limits)),
            (outage, limits) => outage.or(limits),
        }
    }

    /// The fault, if the patience has ended.
    pub(crate) fn fault_at(&self, all_suspect: bool, now: Instant) -> Option<EndpointFault> {
        self.ends_at(all_suspect).filter(|end| *end <= now)?;
        let first = self.first_fault.into_iter().chain(self.first_limit).min()?;
        Some(EndpointFault::Down { unanswered: now.saturating_duration_since(first), last: self.last.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn patience_counts_from_the_first_fault() {
        let now = Instant::now();
        let mut clock = OutageClock::new(10 * SECOND);
        clock.failed("first", now);
        clock.failed("last", now + 4 * SECOND);
        assert_eq!(clock.ends_at(false), None, "another replica answers");
        assert_eq!(clock.ends_at(true), Some(now + 10 * SECOND));
        assert_eq!(clock.fault_at(true, now + 9 * SECOND), None);
        let fault = clock.fault_at(true, now + 11 * SECOND);
        assert_eq!(fault, Some(EndpointFault::Down { unanswered: 11 * SECOND, last: "last".to_owned() }));
        clock.answered();
        assert_eq!(clock.ends_at(true), None);
    }

    #[tokio::test(start_paused = true)]
    async fn limits_wait_as_long_as_they_say() {
        let now = Instant::now();
        let mut clock = OutageClock::new(10 * SECOND);
        clock.limited(Some(100 * SECOND), "later", now);
        clock.limited(None, "later", now + SECOND);
        assert_eq!(clock.ends_at(false), Some(now + 110 * SECOND));
        clock.answered();
        clock.limited(None, "later", now);
        assert_eq!(clock.ends_at(false), Some(now + 10 * SECOND));
    }
}
