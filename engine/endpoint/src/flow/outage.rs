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
    /// The first limit since the last answer, and the number of attempts begun before it.
    first_limit: Option<(Instant, u64)>,
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

    /// The server stated a limit, after so many attempts had begun: it is there.
    pub(crate) fn limited(&mut self, named: Option<Duration>, message: &str, begun: u64, now: Instant) {
        self.first_fault = None;
        self.first_limit.get_or_insert((now, begun));
        self.longest_named = self.longest_named.max(named.unwrap_or_default());
        message.clone_into(&mut self.last);
    }

    /// An attempt failed.
    pub(crate) fn failed(&mut self, message: &str, now: Instant) {
        self.first_fault.get_or_insert(now);
        message.clone_into(&mut self.last);
    }

    /// The time at which the patience ends: after an outage; after limits alone, when the times that the server named
    /// are over, too, and no attempt is in flight that began before the first limit. Its answer is being computed, and
    /// would be paid for again. `oldest` is the number of the oldest attempt in flight.
    pub(crate) fn ends_at(&self, all_suspect: bool, oldest: Option<u64>) -> Option<Instant> {
        let outage = self.outage_end(all_suspect);
        let alone = self.first_limit.filter(|(_, begun)| oldest.is_none_or(|oldest| oldest >= *begun));
        let limits = alone.map(|(first, _)| first + self.patience + self.longest_named);
        match (outage, limits) {
            (Some(outage), Some(limits)) => Some(outage.min(limits)),
            (outage, limits) => outage.or(limits),
        }
    }

    /// The end of the patience in an outage.
    fn outage_end(&self, all_suspect: bool) -> Option<Instant> {
        self.first_fault.filter(|_| all_suspect).map(|first| first + self.patience)
    }

    /// Whether an outage has outlasted the patience, and not limits alone.
    pub(crate) fn is_outlasted(&self, all_suspect: bool, now: Instant) -> bool {
        self.outage_end(all_suspect).is_some_and(|end| end <= now)
    }

    /// The fault, if the patience has ended.
    pub(crate) fn fault_at(&self, all_suspect: bool, oldest: Option<u64>, now: Instant) -> Option<EndpointFault> {
        self.ends_at(all_suspect, oldest).filter(|end| *end <= now)?;
        let first = self.first_fault.into_iter().chain(self.first_limit.map(|(first, _)| first)).min()?;
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
        assert_eq!(clock.ends_at(false, None), None, "another replica answers");
        assert_eq!(clock.ends_at(true, None), Some(now + 10 * SECOND));
        assert_eq!(clock.fault_at(true, None, now + 9 * SECOND), None);
        assert_eq!([9, 10].map(|second| clock.is_outlasted(true, now + second * SECOND)), [false, true]);
        let fault = clock.fault_at(true, None, now + 11 * SECOND);
        assert_eq!(fault, Some(EndpointFault::Down { unanswered: 11 * SECOND, last: "last".to_owned() }));
        clock.answered();
        assert_eq!(clock.ends_at(true, None), None);
    }

    #[tokio::test(start_paused = true)]
    async fn limits_wait_as_long_as_they_say() {
        let now = Instant::now();
        let mut clock = OutageClock::new(10 * SECOND);
        clock.limited(Some(100 * SECOND), "later", 7, now);
        clock.limited(None, "later", 9, now + SECOND);
        assert_eq!(clock.ends_at(false, Some(6)), None, "a call from before is computed");
        for oldest in [None, Some(7)] {
            assert_eq!(clock.ends_at(false, oldest), Some(now + 110 * SECOND));
            assert!(!clock.is_outlasted(true, now + 110 * SECOND), "limits are no outage");
        }
        clock.answered();
        clock.limited(None, "later", 7, now);
        assert_eq!(clock.ends_at(false, None), Some(now + 10 * SECOND));
    }
}
