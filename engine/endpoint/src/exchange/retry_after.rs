//! The time that a server names for the next attempt.
//!
//! Sources: RFC 9110, section 10.2.3 (`Retry-After`); OpenAI's and Azure's `retry-after-ms`; OpenAI's
//! `x-ratelimit-*` with durations such as `1m12.5s` and `20ms`.

use reqwest::header::{DATE, HeaderMap, HeaderName, RETRY_AFTER};
use std::time::{Duration, SystemTime};

/// The longest time that is believed: a day.
const LONGEST: Duration = Duration::from_secs(86_400);

/// The time that a server names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NamedTime {
    /// In seconds, or milliseconds.
    Seconds(Duration),
    /// As a date, relative to the server's own clock if it tells it.
    Date(Duration),
}

impl NamedTime {
    /// The time from now.
    pub(crate) fn duration(self) -> Duration {
        match self {
            Self::Seconds(duration) | Self::Date(duration) => duration.min(LONGEST),
        }
    }
}

/// The time of `retry-after-ms` or `Retry-After`, if one of them can be read.
pub(crate) fn named_time(headers: &HeaderMap, now: SystemTime) -> Option<NamedTime> {
    let text = |name: &str| headers.get(name)?.to_str().ok();
    let seconds = |text: &str, unit: f64| {
        let number = text.trim().parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0)?;
        Some(NamedTime::Seconds(Duration::from_secs_f64((number * unit).min(LONGEST.as_secs_f64()))))
    };
    if let Some(found) = text("retry-after-ms").and_then(|text| seconds(text, 1e-3)) {
        return Some(found);
    }
    let value = text(RETRY_AFTER.as_str())?;
    seconds(value, 1.0).or_else(|| {
        let date = httpdate::parse_http_date(value).ok()?;
        let servers_now = text(DATE.as_str()).and_then(|text| httpdate::parse_http_date(text).ok());
        let wait = date.duration_since(servers_now.unwrap_or(now));
        Some(NamedTime::Date(wait.unwrap_or_default()))
    })
}

/// The rest of a limit by `x-ratelimit-remaining-NAME` and `x-ratelimit-reset-NAME`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RemainingLimit {
    /// Requests or tokens left.
    pub(crate) remaining: u64,
    /// The time until the limit is whole again.
    pub(crate) reset: Duration,
}

/// The headers with the rest of one limit.
#[derive(Debug)]
pub(crate) struct LimitHeaders {
    remaining: HeaderName,
    reset: HeaderName,
}

/// The headers of the limit of requests.
pub(crate) static REQUEST_LIMIT: LimitHeaders = LimitHeaders {
    remaining: HeaderName::from_static("x-ratelimit-remaining-requests"),
    reset: HeaderName::from_static("x-ratelimit-reset-requests"),
};

/// The headers of the limit of tokens.
pub(crate) static TOKEN_LIMIT: LimitHeaders = LimitHeaders {
    remaining: HeaderName::from_static("x-ratelimit-remaining-tokens"),
    reset: HeaderName::from_static("x-ratelimit-reset-tokens"),
};

/// The rest of a limit.
pub(crate) fn remaining_limit(headers: &HeaderMap, names: &LimitHeaders) -> Option<RemainingLimit> {
    let text = |name: &HeaderName| headers.get(name)?.to_str().ok();
    let remaining = text(&names.remaining)?.trim().parse().ok()?;
    Some(RemainingLimit { remaining, reset: parse_duration(text(&names.reset)?)?.min(LONGEST) })
}

/// A duration such as `6m0s`, `1.5s`, `20ms` or `3` (seconds).
fn parse_duration(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    if let Ok(seconds) = rest.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
        let number = rest[..digits].parse::<f64>().ok()?;
        let unit = &rest[digits..];
        let letters = unit.find(|letter: char| letter.is_ascii_digit()).unwrap_or(unit.len());
        let seconds = match &unit[..letters] {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            _ => return None,
        };
        total += Duration::try_from_secs_f64(number * seconds).ok()?;
        rest = &unit[letters..];
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        lines.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn seconds_dates_and_nothing() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        let time = |lines: &[(&'static str, &str)]| named_time(&headers(lines), now);
        let seconds = |seconds: f64| Some(NamedTime::Seconds(Duration::from_secs_f64(seconds)));
        assert_eq!(time(&[]), None);
        assert_eq!(time(&[("retry-after", "7")]), seconds(7.0));
        assert_eq!(time(&[("retry-after", "0.25")]), seconds(0.25));
        assert_eq!(time(&[("retry-after", "9"), ("retry-after-ms", "120")]), seconds(0.12));
        assert_eq!(time(&[("retry-after", "-3")]), None);
        assert_eq!(time(&[("retry-after", "soon")]), None);
        assert_eq!(time(&[("retry-after", "inf")]), None);
        // RFC 9110's own example is 784,111,777 s after 1970.
        let date = ("retry-after", "Sun, 06 Nov 1994 08:50:07 GMT");
        assert_eq!(time(&[date]), Some(NamedTime::Date(Duration::from_secs(30))));
        // The server's clock is a minute ahead of ours.
        let ahead = [("retry-after", "Sun, 06 Nov 1994 08:51:07 GMT"), ("date", "Sun, 06 Nov 1994 08:50:37 GMT")];
        assert_eq!(time(&ahead), Some(NamedTime::Date(Duration::from_secs(30))));
        assert_eq!(time(&[("retry-after", "Sun, 06 Nov 1994 08:00:00 GMT")]), Some(NamedTime::Date(Duration::ZERO)));
    }

    #[test]
    fn durations_of_openai() {
        for (text, seconds) in [("1s", 1.0), ("6m0s", 360.0), ("20ms", 0.02), ("1h2m3.5s", 3723.5), ("3", 3.0)] {
            assert_eq!(parse_duration(text), Some(Duration::from_secs_f64(seconds)), "{text}");
        }
        for text in ["", "s", "1x", "-1s", "1m2"] {
            assert!(parse_duration(text).is_none_or(|found| text.is_empty() && found.is_zero()), "{text}");
        }
    }

    #[test]
    fn the_rest_of_a_limit() {
        let lines = [("x-ratelimit-remaining-tokens", "120"), ("x-ratelimit-reset-tokens", "1.5s")];
        let found = remaining_limit(&headers(&lines), &TOKEN_LIMIT);
        assert_eq!(found, Some(RemainingLimit { remaining: 120, reset: Duration::from_millis(1500) }));
        assert_eq!(remaining_limit(&headers(&lines), &REQUEST_LIMIT), None);
    }
}
