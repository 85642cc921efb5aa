//! Answers a sample again in other batches and compares, bit by bit: is the engine batch-invariant on this machine?
//!
//! The first pass submits one request at a time. Each later pass shuffles the sample, submits all requests at once, and
//! uses another batch budget and another number of threads. Within a numerics class all bits must be equal.

use crate::engine::{Engine, EngineOptions, Refusal};
use crate::request::{Answer, Request};
use crate::sample::splitmix;

/// The batching of one pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassVariant {
    /// The engine's options.
    pub options: EngineOptions,
    /// Threads of the device.
    pub threads: usize,
    /// The seed of the sample's order; 0 keeps the order, one request at a time.
    pub shuffle: u64,
}

/// A pass compared with the first.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PassDifference {
    /// Numbers compared.
    pub compared: u64,
    /// Numbers that differ in any bit.
    pub differing: u64,
    /// The largest absolute difference.
    pub largest: f64,
    /// Pairs of requests with another order by their main number.
    pub rank_flips: u64,
    /// Requests refused in one pass only, or for another reason.
    pub other_outcomes: u64,
}

impl PassDifference {
    /// True if the passes were equal.
    pub fn is_none(&self) -> bool {
        self.differing == 0 && self.rank_flips == 0 && self.other_outcomes == 0
    }
}

/// The variants of a check: `passes` of them, from a seed.
pub fn variants(options: EngineOptions, threads: usize, passes: u64, longest: usize) -> Vec<PassVariant> {
    let pass = |n: u64| {
        let room = options.batch_tokens.max(longest);
        let span = (room - longest) as u64 + 1;
        // From little more than the longest request up to full batches.
        let batch_tokens = longest + (splitmix(n) % span) as usize;
        PassVariant {
            options: EngineOptions { batch_tokens, ..options },
            threads: 1 + (n as usize) % threads.max(1),
            shuffle: n,
        }
    };
    (1..=passes).map(pass).collect()
}

/// Runs the sample through the first pass and all variants. Returns one [`PassDifference`] per variant. `open` starts
/// an engine.
///
/// # Errors
/// The errors of `open`.
pub fn check<E>(
    sample: &[Request],
    variants: &[PassVariant],
    open: impl Fn(&PassVariant) -> Result<Engine, E>,
    options: EngineOptions,
) -> Result<Vec<PassDifference>, E> {
    let alone = open(&PassVariant { options, threads: 1, shuffle: 0 })?;
    let first = sample.iter().map(|request| alone.ask([request.clone()]).remove(0).result).collect::<Vec<_>>();
    drop(alone);
    let mut differences = Vec::new();
    for variant in variants {
        let engine = open(variant)?;
        let order = shuffled_order(sample.len(), variant.shuffle);
        let completions = engine.ask(order.iter().map(|n| sample[*n].clone()));
        let mut again = order.into_iter().zip(completions).map(|(n, c)| (n, c.result)).collect::<Vec<_>>();
        again.sort_by_key(|(n, _)| *n);
        differences.push(compare_answers(&first, &again.into_iter().map(|(_, result)| result).collect::<Vec<_>>()));
    }
    Ok(differences)
}

type RequestResult = Result<Answer, Refusal>;

/// Compares answers to the same requests.
pub fn compare_answers(first: &[RequestResult], again: &[RequestResult]) -> PassDifference {
    let mut difference = PassDifference::default();
    let mut main = Vec::new();
    for pair in first.iter().zip(again) {
        match pair {
            (Ok(a), Ok(b)) => {
                let (a, b) = (answer_numbers(a), answer_numbers(b));
                difference.other_outcomes += u64::from(a.len() != b.len());
                for (x, y) in a.iter().zip(&b) {
                    difference.compared += 1;
                    difference.differing += u64::from(x.to_bits() != y.to_bits());
                    difference.largest = difference.largest.max((f64::from(*x) - f64::from(*y)).abs());
                }
                main.push((mean(&a), mean(&b)));
            }
            (a, b) => difference.other_outcomes += u64::from(a != b),
        }
    }
    for (n, (a, b)) in main.iter().enumerate() {
        let flipped = main[..n].iter().filter(|(x, y)| a.total_cmp(x) != b.total_cmp(y)).count();
        difference.rank_flips += flipped as u64;
    }
    difference
}

fn mean(numbers: &[f32]) -> f64 {
    numbers.iter().map(|x| f64::from(*x)).sum::<f64>() / numbers.len().max(1) as f64
}

/// All numbers of an answer.
fn answer_numbers(answer: &Answer) -> Vec<f32> {
    match answer {
        Answer::Scored(scored) => {
            scored.target_logits.iter().chain(scored.log_sum_exps.iter().flatten()).copied().collect()
        }
        Answer::Encoded(e) => {
            let rows = e.token_logits.values.iter().chain(&e.sequence_logits).chain(&e.start_logits);
            rows.chain(&e.end_logits).chain(&e.rank).chain(&e.embedding).copied().collect()
        }
        // An id is exact as a float: vocabularies are smaller than 2^24.
        Answer::Generated(generated) => {
            generated.ids.iter().map(|id| *id as f32).chain(generated.log_probs.iter().copied()).collect()
        }
    }
}

/// Shuffles by Fisher and Yates, from a seed.
fn shuffled_order(length: usize, seed: u64) -> Vec<usize> {
    let mut order = (0..length).collect::<Vec<_>>();
    for n in (1..length).rev() {
        order.swap(n, (splitmix(seed ^ splitmix(n as u64)) % (n as u64 + 1)) as usize);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::ScoreResult;

    fn scored(logits: &[f32]) -> RequestResult {
        Ok(Answer::Scored(ScoreResult { target_logits: logits.into(), log_sum_exps: vec![vec![0.0; logits.len()]] }))
    }

    #[test]
    fn a_bit_that_differs_is_seen_and_so_is_a_rank_that_flips() {
        let first = [scored(&[1.0]), scored(&[2.0])];
        assert!(compare_answers(&first, &first).is_none());
        let next = f32::from_bits(1f32.to_bits() + 1);
        let bit = compare_answers(&first, &[scored(&[next]), scored(&[2.0])]);
        assert_eq!((bit.differing, bit.rank_flips), (1, 0));
        let flipped = compare_answers(&first, &[scored(&[3.0]), scored(&[2.0])]);
        assert_eq!((flipped.rank_flips, flipped.largest), (1, 2.0));
        let refused = [Err(Refusal::NotFinite), scored(&[2.0])];
        assert_eq!(compare_answers(&first, &refused).other_outcomes, 1);
    }

    #[test]
    fn every_order_is_a_permutation_and_seeds_differ() {
        let mut order = shuffled_order(50, 3);
        assert_ne!(order, shuffled_order(50, 4));
        order.sort_unstable();
        assert_eq!(order, (0..50).collect::<Vec<_>>());
    }
}
