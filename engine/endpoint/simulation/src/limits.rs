//! Enforces limits: requests and tokens a minute, calls at the same time, the account.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::ledger::SimulationSummary;
use crate::settings::{LimitSettings, RetryAfter};

/// A bucket that fills at a steady rate.
#[derive(Debug, Clone)]
struct RateBucket {
    per_minute: f64,
    capacity: f64,
    level: f64,
    filled: Instant,
}

impl RateBucket {
    fn new(per_minute: f64, burst_s: f64, now: Instant) -> Self {
        let capacity = (per_minute * burst_s / 60.0).max(1.0);
        Self { per_minute, capacity, level: capacity, filled: now }
    }

    fn fill(&mut self, now: Instant) {
        let gained = now.saturating_duration_since(self.filled).as_secs_f64() * self.per_minute / 60.0;
        self.level = (self.level + gained).min(self.capacity);
        self.filled = now;
    }

    /// Seconds until `amount` is there; 0 if it is. More than the bucket holds is there when it is full.
    fn wait_for(&self, amount: f64) -> f64 {
        ((amount.min(self.capacity) - self.level) * 60.0 / self.per_minute).max(0.0)
    }

    fn headers(&self, name: &str) -> [(String, String); 3] {
        let full = (self.capacity - self.level) * 60.0 / self.per_minute;
        [
            (format!("x-ratelimit-limit-{name}"), format!("{:.0}", self.per_minute)),
            (format!("x-ratelimit-remaining-{name}"), format!("{:.0}", self.level.floor().max(0.0))),
            (format!("x-ratelimit-reset-{name}"), format!("{full:.3}s")),
        ]
    }
}

/// A limit that a call has reached.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ReachedLimit {
    /// It may be sent again after these seconds.
    Later { limit: &'static str, wait_s: f64 },
    /// The account is empty.
    Quota,
}

/// The limits' state.
#[derive(Debug)]
pub(crate) struct RateLimits {
    settings: LimitSettings,
    requests: Option<RateBucket>,
    tokens: Option<RateBucket>,
}

impl RateLimits {
    pub(crate) fn new(settings: &LimitSettings, now: Instant) -> Self {
        let bucket = |rate: Option<f64>| rate.map(|rate| RateBucket::new(rate, settings.burst_s, now));
        Self {
            settings: settings.clone(),
            requests: bucket(settings.requests_per_minute),
            tokens: bucket(settings.tokens_per_minute),
        }
    }

    /// Takes a call with its tokens from both buckets, or from neither.
    ///
    /// # Errors
    /// The limit that is reached.
    pub(crate) fn take_call(
        &mut self,
        tokens: u64,
        summary: &SimulationSummary,
        now: Instant,
    ) -> Result<(), ReachedLimit> {
        let limits = &self.settings;
        let billed = summary.tokens.prompt + summary.tokens.completion;
        if limits.quota_money.is_some_and(|quota| summary.money >= quota)
            || limits.quota_tokens.is_some_and(|quota| billed >= quota)
        {
            return Err(ReachedLimit::Quota);
        }
        // The call itself is in flight.
        if limits.concurrency.is_some_and(|most| summary.in_flight > most) {
            return Err(ReachedLimit::Later { limit: "concurrency", wait_s: 1.0 });
        }
        let wanted = [(&mut self.requests, 1.0, "requests"), (&mut self.tokens, tokens as f64, "tokens")];
        let mut longest = ReachedLimit::Later { limit: "", wait_s: 0.0 };
        for (bucket, amount, limit) in wanted {
            let Some(bucket) = bucket else { continue };
            bucket.fill(now);
            let wait_s = bucket.wait_for(amount);
            if let ReachedLimit::Later { wait_s: known, .. } = longest
                && wait_s > known
            {
                longest = ReachedLimit::Later { limit, wait_s };
            }
        }
        if longest != (ReachedLimit::Later { limit: "", wait_s: 0.0 }) {
            return Err(longest);
        }
        if let Some(bucket) = &mut self.requests {
            bucket.level -= 1.0;
        }
        if let Some(bucket) = &mut self.tokens {
            bucket.level -= tokens as f64;
        }
        Ok(())
    }

    /// The `x-ratelimit-*` headers.
    pub(crate) fn headers(&self) -> Vec<(String, String)> {
        let buckets = [(&self.requests, "requests"), (&self.tokens, "tokens")];
        buckets.iter().filter_map(|(bucket, name)| bucket.as_ref().map(|b| b.headers(name))).flatten().collect()
    }
}

/// The value of `Retry-After` for a wait, rounded up to whole seconds.
pub(crate) fn retry_after(form: RetryAfter, wait: Duration) -> Option<String> {
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    match form {
        RetryAfter::None => None,
        RetryAfter::Seconds => Some(seconds.to_string()),
        RetryAfter::Date => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            Some(http_date((now + wait).as_secs() + 1))
        }
    }
}

/// A date as in HTTP headers (RFC 9110, section 5.6.7), from seconds since 1970.
fn http_date(seconds: u64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Days since 1 March of year 0, in eras of 400 years (Hinnant, chrono-compatible low-level date algorithms).
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month_place = (month + 2) % 12;
    let year = year_of_era + era * 400 + u64::from(month_place < 2);
    format!(
        "{}, {day:02} {} {year} {:02}:{:02}:{:02} GMT",
        DAYS[(days % 7) as usize],
        MONTHS[month_place as usize],
        rest / 3600,
        rest / 60 % 60,
        rest % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_http() {
        assert_eq!(http_date(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(http_date(1_709_164_800), "Thu, 29 Feb 2024 00:00:00 GMT");
        assert_eq!(http_date(0), "Thu, 01 Jan 1970 00:00:00 GMT");
    }

    #[test]
    fn a_bucket_fills_with_time() {
        let settings = LimitSettings { requests_per_minute: Some(60.0), burst_s: 2.0, ..LimitSettings::default() };
        let start = Instant::now();
        let mut limits = RateLimits::new(&settings, start);
        let summary = SimulationSummary::default();
        assert_eq!(limits.take_call(5, &summary, start), Ok(()));
        assert_eq!(limits.take_call(5, &summary, start), Ok(()));
        let reached = ReachedLimit::Later { limit: "requests", wait_s: 1.0 };
        assert_eq!(limits.take_call(5, &summary, start), Err(reached));
        assert_eq!(limits.take_call(5, &summary, start + Duration::from_secs(1)), Ok(()));
    }

    #[test]
    fn accounts_and_crowds_are_refused() {
        let settings = LimitSettings { quota_tokens: Some(10), concurrency: Some(2), ..LimitSettings::default() };
        let now = Instant::now();
        let mut limits = RateLimits::new(&settings, now);
        let mut summary = SimulationSummary { in_flight: 3, ..SimulationSummary::default() };
        let reached = ReachedLimit::Later { limit: "concurrency", wait_s: 1.0 };
        assert_eq!(limits.take_call(1, &summary, now), Err(reached));
        summary.tokens.prompt = 10;
        assert_eq!(limits.take_call(1, &summary, now), Err(ReachedLimit::Quota));
    }
}
