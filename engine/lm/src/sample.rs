//! Chooses the next token from its logits: greedily, or drawn from a seed.
//!
//! A draw is a function of (seed, draw, position in the continuation) and of the logits. It depends neither on the
//! batch nor on other continuations.

use crate::request::Sampling;

/// A logit is not a number or infinitely high, or none is above minus infinity: no token has a probability.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the model gave logits that are not finite")]
pub struct UnusableLogits;

/// A chosen token and its log-probability at temperature 1 over the whole vocabulary.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChosenToken {
    /// The token.
    pub id: u32,
    /// Natural logarithm.
    pub log_prob: f32,
}

/// Chooses the token at `position` of a continuation.
///
/// # Errors
/// [`UnusableLogits`].
pub fn choose(logits: &[f32], sampling: &Sampling, position: usize) -> Result<ChosenToken, UnusableLogits> {
    // Minus infinity is a probability of 0, as masks give it; the highest must be finite for a sum of exponents.
    if logits.iter().any(|logit| logit.is_nan()) || !highest_logit(logits).is_finite() {
        return Err(UnusableLogits);
    }
    let id = match *sampling {
        Sampling::Greedy => best_token(logits),
        Sampling::Sample { temperature, top_k, top_p, seed, draw } => {
            let kept = truncate_tokens(logits, temperature, top_k, top_p);
            pick_token(&kept, uniform(seed, draw, position))
        }
    };
    Ok(ChosenToken { id, log_prob: (f64::from(logits[id as usize]) - log_sum_exp(logits)) as f32 })
}

/// The token with the highest logit, the lowest id of equals.
fn best_token(logits: &[f32]) -> u32 {
    let mut best = 0;
    for (id, logit) in logits.iter().enumerate() {
        if *logit > logits[best] {
            best = id;
        }
    }
    best as u32
}

fn highest_logit(logits: &[f32]) -> f32 {
    logits.iter().copied().fold(f32::NEG_INFINITY, f32::max)
}

fn log_sum_exp(logits: &[f32]) -> f64 {
    let highest = f64::from(highest_logit(logits));
    highest + logits.iter().map(|l| (f64::from(*l) - highest).exp()).sum::<f64>().ln()
}

/// The tokens that may be drawn, with their unnormalised probabilities, in the order of ids. As in transformers' logits
/// processors: temperature, then the `top_k` highest, then the fewest of those with `top_p` of their probability.
fn truncate_tokens(logits: &[f32], temperature: f32, top_k: usize, top_p: f32) -> Vec<(u32, f64)> {
    let highest = f64::from(highest_logit(logits));
    let weight = |logit: f32| ((f64::from(logit) - highest) / f64::from(temperature)).exp();
    let mut ranked = logits.iter().enumerate().map(|(id, logit)| (id as u32, *logit)).collect::<Vec<_>>();
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    if top_k > 0 {
        ranked.truncate(top_k.max(1));
    }
    let mut kept = ranked.into_iter().map(|(id, logit)| (id, weight(logit))).collect::<Vec<_>>();
    if top_p < 1.0 {
        let total = kept.iter().map(|(_, w)| w).sum::<f64>();
        let mut held = 0.0;
        let enough = kept.iter().position(|(_, w)| {
            held += w / total;
            held >= f64::from(top_p)
        });
        kept.truncate(enough.map_or(kept.len(), |last| last + 1));
    }
    kept.sort_by_key(|(id, _)| *id);
    kept
}

/// The token at the quantile `at` of the cumulative weights.
fn pick_token(kept: &[(u32, f64)], at: f64) -> u32 {
    let total = kept.iter().map(|(_, w)| w).sum::<f64>();
    let mut cumulated = 0.0;
    for (id, weight) in kept {
        cumulated += weight;
        if at * total < cumulated {
            return *id;
        }
    }
    kept.last().expect("at least one token is kept; this is a bug").0
}

/// A number in `[0, 1)`, by SplitMix64 over its three arguments.
fn uniform(seed: u64, draw: u32, position: usize) -> f64 {
    let bits = splitmix(splitmix(splitmix(seed) ^ u64::from(draw)) ^ position as u64);
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

/// One step of SplitMix64 (Steele et al. 2014).
pub(crate) fn splitmix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(top_k: usize, top_p: f32, draw: u32) -> Sampling {
        Sampling::Sample { temperature: 1.0, top_k, top_p, seed: 7, draw }
    }

    #[test]
    fn greedy_takes_the_lowest_id_of_equals() {
        assert_eq!(choose(&[0.0, 2.0, 2.0], &Sampling::Greedy, 0).unwrap().id, 1);
    }

    #[test]
    fn logits_without_probabilities_are_refused() {
        let (nan, high, low) = (f32::NAN, f32::INFINITY, f32::NEG_INFINITY);
        for sampling in [Sampling::Greedy, sample(0, 1.0, 0), sample(2, 0.5, 0)] {
            for logits in [[0.0, nan], [0.0, high], [high, high], [low, high], [low, low]] {
                assert_eq!(choose(&logits, &sampling, 0), Err(UnusableLogits), "{logits:?}");
            }
            assert_eq!(choose(&[low, 1.0], &sampling, 0).unwrap(), ChosenToken { id: 1, log_prob: 0.0 });
        }
    }

    #[test]
    fn frequencies_follow_probabilities() {
        let logits = [0.1f32.ln(), 0.6f32.ln(), 0.3f32.ln()];
        let mut counts = [0u32; 3];
        for position in 0..20_000 {
            counts[choose(&logits, &sample(0, 1.0, 0), position).unwrap().id as usize] += 1;
        }
        for (count, expected) in counts.iter().zip([0.1, 0.6, 0.3]) {
            assert!((f64::from(*count) / 20_000.0 - expected).abs() < 0.015, "{counts:?}");
        }
    }

    #[test]
    fn truncation_keeps_the_highest() {
        let logits = [0.1f32.ln(), 0.6f32.ln(), 0.3f32.ln()];
        let seen = |sampling| {
            (0..300).map(|p| choose(&logits, &sampling, p).unwrap().id).collect::<std::collections::BTreeSet<_>>()
        };
        assert_eq!(seen(sample(2, 1.0, 0)), [1, 2].into());
        assert_eq!(seen(sample(0, 0.5, 0)), [1].into());
        assert_eq!(seen(sample(0, 0.7, 0)), [1, 2].into());
    }

    #[test]
    fn draws_differ_and_repeat() {
        let logits = [0.0; 50];
        let run = |draw| (0..20).map(|p| choose(&logits, &sample(0, 1.0, draw), p).unwrap().id).collect::<Vec<_>>();
        assert_eq!(run(0), run(0));
        assert_ne!(run(0), run(1));
    }
}
