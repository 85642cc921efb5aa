//! From a scored question to the score of a path: plain arithmetic on the scorer's numbers.
//!
//! With T the temperature, the log-probability of token t in context i is `l(i, t) = logit / T - log-sum-exp(logits /
//! T)` (section 2.1). `mean` and `max` combine the contexts' scores. The score of a context is the mean of `l(i, ·)`
//! over the question's tokens; the end of the sequence is one of them if the model has one. The token-level ensembles
//! combine `l(·, t)` first and then take the mean over tokens. `token_mean` is `mean` except for rounding;
//! `token_median` is the lower of two middle ones, as the authors' is.

use super::parameters::{Ensemble, Normalisation, PromptRankParameters};
use crate::response::{Failure, FailureKind, TargetScores};

/// Log-probabilities of the counted tokens.
///
/// # Errors
/// The service did not compute the requested numbers, or one of them is not finite.
pub(super) fn counted_logprobs(scores: &TargetScores, parameters: &PromptRankParameters) -> Result<Vec<f64>, Failure> {
    let temperature = parameters.temperature;
    let Some(logprobs) = scores.logprobs(temperature) else {
        return Err(nonsense_failure(format!("the scores lack temperature {temperature}")));
    };
    let mut logprobs: Vec<f64> = logprobs.collect();
    if logprobs.len() < scores.logits.len() {
        return Err(nonsense_failure(format!("{} of {} tokens have scores", logprobs.len(), scores.logits.len())));
    }
    if scores.ends && !parameters.score_end {
        logprobs.pop();
    }
    if logprobs.is_empty() {
        return Err(nonsense_failure("no token was scored".to_owned()));
    }
    match logprobs.iter().find(|logprob| !logprob.is_finite()) {
        None => Ok(logprobs),
        Some(other) => Err(nonsense_failure(format!("the log-probability of a token is {other}"))),
    }
}

/// The score of a path from the log-probabilities in each context, at least one.
///
/// # Errors
/// Tokens are to be combined, and the contexts differ in the number of tokens.
pub(super) fn combined_score(
    contexts: &[Vec<f64>],
    ensemble: Ensemble,
    normalise: Normalisation,
) -> Result<f64, Failure> {
    let whole: fn(&[f64]) -> f64 = match normalise {
        Normalisation::Mean => mean,
        Normalisation::Sum => |logprobs| logprobs.iter().sum(),
    };
    let by_context = || contexts.iter().map(|logprobs| whole(logprobs)).collect::<Vec<f64>>();
    let by_token = |combine: fn(&[f64]) -> f64| {
        let tokens = contexts.first().map_or(0, Vec::len);
        if let Some(other) = contexts.iter().map(Vec::len).find(|&other| other != tokens) {
            return Err(nonsense_failure(format!("one question has {tokens} tokens and {other}")));
        }
        let column = |token: usize| contexts.iter().map(|logprobs| logprobs[token]).collect::<Vec<f64>>();
        Ok(whole(&(0..tokens).map(|token| combine(&column(token))).collect::<Vec<f64>>()))
    };
    match ensemble {
        Ensemble::Mean => Ok(mean(&by_context())),
        Ensemble::Max => Ok(max(&by_context())),
        Ensemble::TokenMean => by_token(mean),
        Ensemble::TokenMax => by_token(max),
        Ensemble::TokenMedian => by_token(lower_median),
    }
}

pub(super) fn mean(numbers: &[f64]) -> f64 {
    numbers.iter().sum::<f64>() / numbers.len() as f64
}

fn max(numbers: &[f64]) -> f64 {
    numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

fn lower_median(numbers: &[f64]) -> f64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or(f64::NEG_INFINITY)
}

/// An answer that makes no sense: a fault of the service.
pub(super) fn nonsense_failure(message: String) -> Failure {
    Failure { kind: FailureKind::ParseFailure, message }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn parameters(more: Value) -> PromptRankParameters {
        let mut all = json!({"retriever": "t", "scorer": "lm"});
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(all).unwrap()
    }

    /// A question of two words and the end, over a vocabulary of two tokens, at two temperatures.
    fn scores() -> TargetScores {
        // Logits (target, other): (2, 0), (0, 1), (1, 1).
        let sum = |a: f64, b: f64, t: f64| ((a / t).exp() + (b / t).exp()).ln() as f32;
        let sums = |t: f64| vec![sum(2.0, 0.0, t), sum(0.0, 1.0, t), sum(1.0, 1.0, t)];
        TargetScores { logits: vec![2.0, 0.0, 1.0], log_sum_exps: vec![(1.0, sums(1.0)), (2.0, sums(2.0))], ends: true }
    }

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-6, "{a} is not {b}");
    }

    #[test]
    fn the_mean_is_that_of_the_definition() {
        // By hand: ln p = -ln(1 + e^-2) = -0.126928, -ln(1 + e) = -1.313262, -ln 2 = -0.693147; their mean -0.711112.
        let logprobs = counted_logprobs(&scores(), &parameters(json!({}))).unwrap();
        close(mean(&logprobs), -0.711_112);
        close(combined_score(&[logprobs], Ensemble::Max, Normalisation::Sum).unwrap(), -2.133_337);
        // Without the end: (-0.126928 - 1.313262) / 2.
        close(mean(&counted_logprobs(&scores(), &parameters(json!({"score_end": false}))).unwrap()), -0.720_095);
        // At temperature 2: -ln(1 + e^-1) = -0.313262, -ln(1 + e^0.5) = -0.974077, -ln 2 again.
        close(mean(&counted_logprobs(&scores(), &parameters(json!({"temperature": 2.0}))).unwrap()), -0.660_162);
    }

    #[test]
    fn ensembles_of_three_contexts() {
        let contexts = [vec![-1.0, -5.0], vec![-2.0, -1.0], vec![-4.0, -3.0]];
        let score = |ensemble| combined_score(&contexts, ensemble, Normalisation::Mean).unwrap();
        // Means: -3, -1.5, -3.5.
        close(score(Ensemble::Mean), -8.0 / 3.0);
        close(score(Ensemble::Max), -1.5);
        // Tokens: means -7/3 and -3; maxima -1 and -1; medians -2 and -3.
        close(score(Ensemble::TokenMean), -8.0 / 3.0);
        close(score(Ensemble::TokenMax), -1.0);
        close(score(Ensemble::TokenMedian), -2.5);
        // Of two, the lower one.
        let two = combined_score(&contexts[..2], Ensemble::TokenMedian, Normalisation::Sum);
        close(two.unwrap(), -7.0);
    }

    #[test]
    fn nonsense_is_named() {
        let message =
            |scores: &TargetScores, more: Value| counted_logprobs(scores, &parameters(more)).unwrap_err().message;
        assert_eq!(message(&scores(), json!({"temperature": 1.4})), "the scores lack temperature 1.4");
        let mut short = scores();
        short.log_sum_exps[0].1.pop();
        assert_eq!(message(&short, json!({})), "2 of 3 tokens have scores");
        let none = TargetScores { logits: Vec::new(), log_sum_exps: vec![(1.0, Vec::new())], ends: false };
        assert_eq!(message(&none, json!({})), "no token was scored");
        let mut lost = scores();
        lost.logits[1] = f32::NEG_INFINITY;
        assert_eq!(message(&lost, json!({})), "the log-probability of a token is -inf");
        let uneven = [vec![-1.0], vec![-1.0, -2.0]];
        assert!(combined_score(&uneven, Ensemble::Max, Normalisation::Mean).is_ok());
        let failure = combined_score(&uneven, Ensemble::TokenMax, Normalisation::Mean).unwrap_err();
        assert_eq!(failure.message, "one question has 1 tokens and 2");
    }
}
