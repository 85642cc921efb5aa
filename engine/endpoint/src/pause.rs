//! Pauses between the attempts of a call: growing, with jitter, and never shorter than the server wants.
//!
//! The jitter spreads calls that failed together. It is a hash of the call's number and the attempt's, and changes
//! times alone, never an answer.

use std::time::Duration;

/// The bounds of pauses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PauseRule {
    /// The first pause.
    pub(crate) first: Duration,
    /// The longest pause, unless the server names a longer one.
    pub(crate) longest: Duration,
}

impl PauseRule {
    /// The pause before the next attempt, after `faults` faults or limits in a row. The jitter takes up to half of a
    /// pause of our own, and adds up to a tenth to one that the server named.
    pub(crate) fn pause_after(&self, faults: u32, named: Option<Duration>, salt: u64) -> Duration {
        let jitter = unit_fraction(salt ^ (u64::from(faults) << 48));
        if let Some(named) = named.filter(|named| !named.is_zero()) {
            return named.mul_f64(1.0 + 0.1 * jitter);
        }
        let doubled = self.first.saturating_mul(1_u32 << faults.saturating_sub(1).min(30));
        doubled.min(self.longest).mul_f64(0.5 + 0.5 * jitter)
    }
}

/// A number from 0 to 1 by a hash (SplitMix64: Steele, Lea and Flood 2014).
fn unit_fraction(seed: u64) -> f64 {
    let mut bits = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (bits ^ (bits >> 31)) as f64 / u64::MAX as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: PauseRule = PauseRule { first: Duration::from_millis(500), longest: Duration::from_secs(30) };

    #[test]
    fn pauses_grow_to_a_bound() {
        for (faults, most) in [(0, 0.5), (1, 0.5), (2, 1.0), (3, 2.0), (7, 30.0), (1_000, 30.0)] {
            let pauses: Vec<f64> = (0..200).map(|salt| RULE.pause_after(faults, None, salt).as_secs_f64()).collect();
            let (least, longest) =
                pauses.iter().fold((f64::MAX, 0.0_f64), |(a, b), &pause| (a.min(pause), b.max(pause)));
            assert!(least >= most / 2.0 && longest <= most, "{faults}: {least} to {longest}");
            assert!(longest - least > 0.4 * most, "spread");
        }
    }

    #[test]
    fn named_times_are_kept() {
        let named = Duration::from_secs(100);
        for salt in 0..50 {
            let pause = RULE.pause_after(3, Some(named), salt);
            assert!(pause >= named && pause <= named.mul_f64(1.1));
        }
        assert!(RULE.pause_after(1, Some(Duration::ZERO), 1) >= Duration::from_millis(250), "0 s is no time");
    }
}
