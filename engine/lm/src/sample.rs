//! The rule for a continuation's next token: greedy, or drawn from a seed.
//!
//! A draw is a function of (seed, prompt, draw, position in the continuation) and of the logits. It depends neither on
//! the batch nor on other continuations. Each prompt has random numbers of its own: with common ones a thousand
//! questions would be drawn like one, and intervals over questions would be too narrow. The device applies the rule
//! ([`Device::next_tokens`]), so that logits stay there.
//!
//! [`Device::next_tokens`]: hopeval_device::Device::next_tokens

use crate::request::Sampling;
use hopeval_device::TokenRule;

/// The rule for the token at `position` of a continuation.
pub fn rule_at(sampling: &Sampling, position: usize) -> TokenRule {
    match *sampling {
        Sampling::Greedy => TokenRule::Highest,
        Sampling::Sample { temperature, top_k, top_p, seed, draw } => {
            TokenRule::Drawn { temperature, top_k, top_p, at: uniform(seed, draw, position) }
        }
    }
}

/// The sampling with the seed of a prompt (token ids): the request's seed, mixed with a hash of them.
pub fn for_prompt(sampling: &Sampling, prompt: &[u32]) -> Sampling {
    match *sampling {
        Sampling::Greedy => Sampling::Greedy,
        Sampling::Sample { temperature, top_k, top_p, seed, draw } => {
            let seed = prompt.iter().fold(splitmix(seed), |hash, id| splitmix(hash ^ u64::from(*id)));
            Sampling::Sample { temperature, top_k, top_p, seed, draw }
        }
    }
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
    use hopeval_device::sampling::choose_token;

    fn chosen(logits: &[f32], draw: u32, position: usize) -> usize {
        let sampling = Sampling::Sample { temperature: 1.0, top_k: 0, top_p: 1.0, seed: 7, draw };
        choose_token(logits, &rule_at(&sampling, position)).unwrap().id as usize
    }

    #[test]
    fn frequencies_follow_probabilities() {
        let logits = [0.1f32.ln(), 0.6f32.ln(), 0.3f32.ln()];
        let mut counts = [0u32; 3];
        for position in 0..20_000 {
            counts[chosen(&logits, 0, position)] += 1;
        }
        for (count, expected) in counts.iter().zip([0.1, 0.6, 0.3]) {
            assert!((f64::from(*count) / 20_000.0 - expected).abs() < 0.015, "{counts:?}");
        }
    }

    #[test]
    fn draws_differ_and_repeat() {
        let run = |draw| (0..20).map(|position| chosen(&[0.0; 50], draw, position)).collect::<Vec<_>>();
        assert_eq!(run(0), run(0));
        assert_ne!(run(0), run(1));
    }

    #[test]
    fn prompts_are_drawn_apart() {
        let sampling = Sampling::Sample { temperature: 1.0, top_k: 0, top_p: 1.0, seed: 7, draw: 0 };
        let heads = |prompt: u32| {
            let rule = rule_at(&for_prompt(&sampling, &[prompt, 3]), 0);
            choose_token(&[0.0, 0.0], &rule).unwrap().id == 0
        };
        let count = (0..10_000).filter(|prompt| heads(*prompt)).count();
        assert!(count.abs_diff(5_000) < 200, "{count}");
        assert_eq!(for_prompt(&sampling, &[1, 3]), for_prompt(&sampling, &[1, 3]));
        assert_eq!(for_prompt(&Sampling::Greedy, &[1]), Sampling::Greedy);
    }

    /// Journals hold texts that were drawn: the same seeds must draw them again. Their keys have a version of draws.
    #[test]
    fn draws_are_those_of_their_version() {
        assert_eq!(rule_at(&Sampling::Greedy, 3), TokenRule::Highest);
        let bits = splitmix(splitmix(splitmix(7) ^ 2) ^ 5) >> 11;
        let sampling = |seed| Sampling::Sample { temperature: 0.5, top_k: 4, top_p: 0.9, seed, draw: 2 };
        let at = bits as f64 / 9_007_199_254_740_992.0;
        assert_eq!(rule_at(&sampling(7), 5), TokenRule::Drawn { temperature: 0.5, top_k: 4, top_p: 0.9, at });
        let seed = splitmix(splitmix(splitmix(7) ^ 11) ^ 12);
        assert_eq!(for_prompt(&sampling(7), &[11, 12]), sampling(seed));
    }
}
