//! `[run.cap]`: the most that a run may spend on endpoints, over all of its generations.
//!
//! It is the run's and not a service's: a person has a budget for an evaluation, and calls of one service follow from
//! answers of another. It changes no answer, so it is in no fingerprint, and a resumed run may have another one.

use crate::bad_value::{BadValue, ensure};
use hopeval_endpoint::SpentAmounts;
use serde::{Deserialize, Serialize};

/// Billionths of a currency's unit.
pub(crate) const NANOS: f64 = 1e9;

/// The largest cap in money: above it, billionths are not exact.
const MOST_MONEY: f64 = 9e6;

/// The cap of a run. What is missing has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SpendingCap {
    /// Money, in the currency of the services' prices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub money: Option<f64>,
    /// Tokens read and written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// HTTP requests that servers answered, or may have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls: Option<u64>,
}

/// The keys that can be changed when a run is resumed.
pub const CAP_KEYS: &str = "run.cap.money, run.cap.tokens, run.cap.calls";

impl SpendingCap {
    /// Whether nothing is capped.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// This cap, with the other's values where it has any.
    #[must_use]
    pub fn changed_by(&self, other: &Self) -> Self {
        Self {
            money: other.money.or(self.money),
            tokens: other.tokens.or(self.tokens),
            calls: other.calls.or(self.calls),
        }
    }

    /// Its keys and values.
    pub fn values(&self) -> impl Iterator<Item = (&'static str, String)> {
        let Self { money, tokens, calls } = *self;
        let money = money.map(|money| ("money", money.to_string()));
        let counts = [("tokens", tokens), ("calls", calls)];
        let counts = counts.into_iter().filter_map(|(key, count)| Some((key, count?.to_string())));
        money.into_iter().chain(counts)
    }

    /// Checks every value.
    ///
    /// # Errors
    /// The first one that makes no sense.
    pub fn check_values(&self) -> Result<(), BadValue> {
        let money = self.money.unwrap_or(0.0);
        ensure((0.0..=MOST_MONEY).contains(&money), || BadValue::new("money", money.to_string(), "0 to 9000000"))
    }

    /// Reads `run.cap.KEY=VALUE`s, as given to a resumed run.
    ///
    /// # Errors
    /// Another key, or a value that makes no sense.
    pub fn parse_changes(sets: &[String]) -> Result<Self, BadValue> {
        let mut cap = Self::default();
        for set in sets {
            let (key, value) = set.split_once('=').unwrap_or((set, ""));
            let (key, value) = (key.trim(), value.trim());
            let bad = |allowed| BadValue::new(key, value, allowed);
            match key {
                "run.cap.money" => cap.money = Some(value.parse().map_err(|_| bad("a number, at least 0"))?),
                "run.cap.tokens" => cap.tokens = Some(value.parse().map_err(|_| bad("a whole number"))?),
                "run.cap.calls" => cap.calls = Some(value.parse().map_err(|_| bad("a whole number"))?),
                _ => return Err(BadValue::new("--set", key, CAP_KEYS)),
            }
        }
        cap.check_values().map_err(|bad| bad.within_table("run.cap"))?;
        Ok(cap)
    }

    /// The cap in whole numbers; the largest number where there is none.
    pub(super) fn bounds(&self) -> SpentAmounts {
        SpentAmounts {
            calls: self.calls.unwrap_or(u64::MAX),
            tokens: self.tokens.unwrap_or(u64::MAX),
            money_nanos: self.money.map_or(u64::MAX, |money| (money * NANOS).floor() as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_of_the_cap_alone() {
        let parse = |sets: &[&str]| {
            let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
            SpendingCap::parse_changes(&sets).map_err(|bad| format!("{} = {}: {}", bad.key, bad.found, bad.allowed))
        };
        let cap = parse(&["run.cap.money = 2.5", "run.cap.calls=7"]).unwrap();
        assert_eq!(cap, SpendingCap { money: Some(2.5), calls: Some(7), tokens: None });
        let before = SpendingCap { money: Some(1.0), tokens: Some(9), calls: None };
        assert_eq!(before.changed_by(&cap), SpendingCap { money: Some(2.5), tokens: Some(9), calls: Some(7) });
        assert_eq!(cap.bounds().money_nanos, 2_500_000_000);
        for wrong in ["method.x.k=3", "run.cap.money=much", "run.cap.money=-1", "run.cap.money=nan", "run.cap.calls"] {
            let refused = parse(&[wrong]).unwrap_err();
            assert!(refused.contains("run.cap") || refused.contains("--set"), "{refused}");
        }
    }
}
