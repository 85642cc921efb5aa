//! Log-probabilities by rule: an interpolated model of the tokens that came before.
//!
//! p(t | u) = 0.6 c(u, t) / c(u) + 0.3 c(t) / n + 0.1 / (4 * 248^len(t)), with counts over the tokens so far: of the
//! pair, of `u` as a first token, of `t`, of all. The last term is a distribution over all tokens of one to four bytes.
//! So a question whose words stand in the prompt is more probable than another.

use rustc_hash::FxHashMap;

use crate::tokens::token_bytes;

const PAIR_SHARE: f64 = 0.6;
const SINGLE_SHARE: f64 = 0.3;
const BASE_SHARE: f64 = 0.1;

/// The counts of the tokens so far.
#[derive(Default)]
pub(crate) struct TokenCounts {
    singles: FxHashMap<u32, u32>,
    pairs: FxHashMap<(u32, u32), u32>,
    firsts: FxHashMap<u32, u32>,
    followers: FxHashMap<u32, Vec<u32>>,
    all: u32,
    last: Option<u32>,
}

impl TokenCounts {
    /// Adds the next token.
    pub(crate) fn add_token(&mut self, token: u32) {
        *self.singles.entry(token).or_default() += 1;
        self.all += 1;
        if let Some(last) = self.last {
            let pair = self.pairs.entry((last, token)).or_default();
            *pair += 1;
            if *pair == 1 {
                self.followers.entry(last).or_default().push(token);
            }
            *self.firsts.entry(last).or_default() += 1;
        }
        self.last = Some(token);
    }

    /// The natural logarithm of the probability that `token` comes next.
    pub(crate) fn log_prob(&self, token: u32) -> f64 {
        let share = |count: Option<&u32>, of: u32| f64::from(count.copied().unwrap_or(0)) / f64::from(of.max(1));
        let pair = self
            .last
            .map_or(0.0, |last| share(self.pairs.get(&(last, token)), self.firsts.get(&last).copied().unwrap_or(0)));
        let length = token_bytes(token).map_or(4, |bytes| bytes.len()) as i32;
        let base = 0.25 * 248f64.powi(-length);
        (PAIR_SHARE * pair + SINGLE_SHARE * share(self.singles.get(&token), self.all) + BASE_SHARE * base).ln()
    }

    /// The most probable among the tokens that followed the last one before, at most `count`; ties by number.
    pub(crate) fn likely_tokens(&self, count: usize) -> Vec<(u32, f64)> {
        let followers = self.last.and_then(|last| self.followers.get(&last));
        let mut likely: Vec<(u32, f64)> =
            followers.into_iter().flatten().map(|&token| (token, self.log_prob(token))).collect();
        likely.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        likely.truncate(count);
        likely
    }
}

/// A token with its log-probability (`None` for the first of a text) and likely alternatives.
pub(crate) struct ScoredToken {
    pub(crate) token: u32,
    pub(crate) log_prob: Option<f64>,
    pub(crate) likely: Vec<(u32, f64)>,
}

/// Scores tokens one after the other, after `counts`.
pub(crate) fn score_tokens(counts: &mut TokenCounts, tokens: &[u32], alternatives: usize) -> Vec<ScoredToken> {
    let score = |&token: &u32| {
        let is_first = counts.all == 0;
        let scored = ScoredToken {
            token,
            log_prob: (!is_first).then(|| counts.log_prob(token)),
            likely: counts.likely_tokens(alternatives),
        };
        counts.add_token(token);
        scored
    };
    tokens.iter().map(score).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::token_numbers;

    #[test]
    fn words_of_the_prompt_are_more_probable() {
        let score = |prompt: &str, target: &str| -> f64 {
            let mut counts = TokenCounts::default();
            score_tokens(&mut counts, &token_numbers(prompt), 0);
            score_tokens(&mut counts, &token_numbers(target), 0).iter().filter_map(|token| token.log_prob).sum()
        };
        let near = score("Pale Harbor was directed by Margot Zimova.", " Who directed Pale Harbor?");
        let far = score("The capital of Arbia is Millford today.", " Who directed Pale Harbor?");
        assert!(near > far + 5.0, "{near} {far}");
    }

    #[test]
    fn likely_tokens_are_those_that_followed() {
        let mut counts = TokenCounts::default();
        score_tokens(&mut counts, &token_numbers("a b a c a b a"), 0);
        let likely: Vec<u32> = counts.likely_tokens(5).into_iter().map(|(token, _)| token).collect();
        assert_eq!(likely, [token_numbers(" b")[0], token_numbers(" c")[0]]);
        assert!(counts.likely_tokens(1)[0].1 < 0.0);
    }
}
