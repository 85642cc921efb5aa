//! The choice of a next token from its logits: the highest, or one drawn by a number from 0 to 1.
//!
//! A choice depends on the logits of its row, the rule and the drawn number. It depends neither on the batch nor on the
//! device's threads. [`choose_token`] is the definition; a device may find the same token in another way.

/// The rule for a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TokenRule {
    /// The highest logit; the lowest id of equals.
    Highest,
    /// Drawn as in transformers: temperature, then top-k, then top-p.
    Drawn {
        /// Finite and positive.
        temperature: f32,
        /// The highest `top_k` tokens; 0 for all.
        top_k: usize,
        /// The fewest highest tokens with this probability together; 1 for all.
        top_p: f32,
        /// The quantile of the distribution, in `[0, 1)`.
        at: f64,
    },
}

/// A chosen token and its log-probability at temperature 1 over the whole vocabulary.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChosenToken {
    /// The token.
    pub id: u32,
    /// Natural logarithm.
    pub log_prob: f32,
}

/// A logit is not a number or infinitely high, or none is above minus infinity: no token has a probability.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the model gave logits that are not finite")]
pub struct UnusableLogits;

/// Chooses a token from all its row's logits.
///
/// # Errors
/// [`UnusableLogits`].
pub fn choose_token(logits: &[f32], rule: &TokenRule) -> Result<ChosenToken, UnusableLogits> {
    let highest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    // Minus infinity is a probability of 0, as masks give it; the highest must be finite for a sum of exponents.
    if logits.iter().any(|logit| logit.is_nan()) || !highest.is_finite() {
        return Err(UnusableLogits);
    }
    let id = match rule {
        TokenRule::Highest => first_of(logits, highest),
        TokenRule::Drawn { .. } => draw_token(logits, highest, rule),
    };
    let sum = logits.iter().map(|logit| (f64::from(*logit) - f64::from(highest)).exp()).sum::<f64>();
    let log_sum_exp = f64::from(highest) + sum.ln();
    Ok(ChosenToken { id, log_prob: (f64::from(logits[id as usize]) - log_sum_exp) as f32 })
}

/// The first place of a value among the logits.
pub(crate) fn first_of(logits: &[f32], value: f32) -> u32 {
    // Blocks without it are passed over at the speed of vectors.
    const BLOCK: usize = 32;
    let blocks =
        logits.chunks(BLOCK).position(|block| block.iter().fold(false, |found, logit| found | (*logit == value)));
    let start = blocks.map_or(0, |block| block * BLOCK);
    let within = logits[start..].iter().position(|logit| *logit == value);
    (start + within.expect("a value of the logits; this is a bug")) as u32
}

/// The token at the rule's quantile. The logits are usable, and `highest` is the highest of them.
pub(crate) fn draw_token(logits: &[f32], highest: f32, rule: &TokenRule) -> u32 {
    let TokenRule::Drawn { temperature, top_k, top_p, at } = *rule else { return first_of(logits, highest) };
    let weight = |logit: f32| ((f64::from(logit) - f64::from(highest)) / f64::from(temperature)).exp();
    let mut kept: Vec<(u32, f64)> = if top_k == 0 && top_p >= 1.0 {
        logits.iter().enumerate().map(|(id, logit)| (id as u32, weight(*logit))).collect()
    } else {
        let ranked = rank_tokens(logits, if top_k == 0 { logits.len() } else { top_k });
        ranked.into_iter().map(|id| (id, weight(logits[id as usize]))).collect()
    };
    if top_p < 1.0 {
        let total = kept.iter().map(|(_, weight)| weight).sum::<f64>();
        let mut held = 0.0;
        let enough = kept.iter().position(|(_, weight)| {
            held += weight / total;
            held >= f64::from(top_p)
        });
        kept.truncate(enough.map_or(kept.len(), |last| last + 1));
    }
    kept.sort_unstable_by_key(|(id, _)| *id);
    pick_token(&kept, at)
}

/// The ids of the `most` highest logits, the highest first, the lowest id of equals first.
fn rank_tokens(logits: &[f32], most: usize) -> Vec<u32> {
    // As one number: the bits of a float in the order of `total_cmp`, the highest first, then the id.
    let key = |(id, logit): (usize, &f32)| {
        let bits = logit.to_bits();
        let ascending = if bits >> 31 == 1 { !bits } else { bits | 1 << 31 };
        (u64::from(!ascending) << 32) | id as u64
    };
    let mut keys: Vec<u64> = logits.iter().enumerate().map(key).collect();
    if most < keys.len() {
        keys.select_nth_unstable(most);
        keys.truncate(most);
    }
    keys.sort_unstable();
    keys.into_iter().map(|key| key as u32).collect()
}

/// The token at the quantile `at` of the cumulative weights.
fn pick_token(kept: &[(u32, f64)], at: f64) -> u32 {
    let total = kept.iter().map(|(_, weight)| weight).sum::<f64>();
    let mut cumulated = 0.0;
    for (id, weight) in kept {
        cumulated += weight;
        if at * total < cumulated {
            return *id;
        }
    }
    kept.last().expect("at least one token is kept; this is a bug").0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(top_k: usize, top_p: f32, at: f64) -> TokenRule {
        TokenRule::Drawn { temperature: 1.0, top_k, top_p, at }
    }

    #[test]
    fn the_highest_is_the_lowest_id_of_equals() {
        assert_eq!(choose_token(&[0.0, 2.0, 2.0], &TokenRule::Highest).unwrap().id, 1);
        let mut logits = vec![-1.0; 100];
        (logits[70], logits[90]) = (3.0, 3.0);
        assert_eq!(choose_token(&logits, &TokenRule::Highest).unwrap().id, 70);
    }

    #[test]
    fn logits_without_probabilities_are_refused() {
        let (nan, high, low) = (f32::NAN, f32::INFINITY, f32::NEG_INFINITY);
        for rule in [TokenRule::Highest, drawn(0, 1.0, 0.4), drawn(2, 0.5, 0.4)] {
            for logits in [[0.0, nan], [0.0, high], [high, high], [low, high], [low, low]] {
                assert_eq!(choose_token(&logits, &rule), Err(UnusableLogits), "{logits:?}");
            }
            assert_eq!(choose_token(&[low, 1.0], &rule).unwrap(), ChosenToken { id: 1, log_prob: 0.0 });
        }
    }

    #[test]
    fn truncation_keeps_the_highest() {
        let logits = [0.1f32.ln(), 0.6f32.ln(), 0.3f32.ln()];
        let seen = |top_k, top_p| {
            let draws = (0..300).map(|draw| f64::from(draw) / 300.0);
            draws
                .map(|at| choose_token(&logits, &drawn(top_k, top_p, at)).unwrap().id)
                .collect::<std::collections::BTreeSet<_>>()
        };
        assert_eq!(seen(2, 1.0), [1, 2].into());
        assert_eq!(seen(9, 1.0), [0, 1, 2].into());
        assert_eq!(seen(0, 0.5), [1].into());
        assert_eq!(seen(0, 0.7), [1, 2].into());
        assert_eq!(seen(1, 0.7), [1].into());
    }

    #[test]
    fn ranks_are_those_of_a_stable_sort() {
        let logits: Vec<f32> =
            (0..500u32).map(|i| ((i.wrapping_mul(2_654_435_761) >> 20) % 37) as f32 - 18.0).collect();
        let mut ranked: Vec<u32> = (0..500).collect();
        ranked.sort_by(|a, b| logits[*b as usize].total_cmp(&logits[*a as usize]));
        assert_eq!(rank_tokens(&logits, 500), ranked);
        assert_eq!(rank_tokens(&logits, 7), ranked[..7]);
    }
}
