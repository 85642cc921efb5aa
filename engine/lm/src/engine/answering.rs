//! Answers for finished groups of submissions, on a thread beside the engine's: each submission gets its own part of
//! the result and of the costs. The device works on the next batch meanwhile.

use super::{Completion, CompletionCost, EngineCounters, Refusal, Submission};
use crate::loaded_model::LoadedModel;
use crate::request::{Answer, Request, ScoreResult};
use hopeval_device::Device;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// Submissions that have one result, and what it took.
pub(super) struct FinishedGroup {
    pub(super) submissions: Vec<Submission>,
    pub(super) result: Result<Answer, Refusal>,
    /// The time at which its item left the queue; `None` if it never did.
    pub(super) started: Option<Instant>,
    pub(super) device_s: f64,
    /// Device energy in joules, or `None` once a piece of work was not metered.
    pub(super) energy_j: Option<f64>,
    pub(super) computed_tokens: u64,
}

impl FinishedGroup {
    /// Answers every submission once. What was generated is counted only now that its length is known.
    pub(super) fn answer<D: Device>(self, model: &LoadedModel<D>, counters: &EngineCounters) {
        let started = self.started.unwrap_or_else(Instant::now);
        let shares = self.submissions.len();
        let mut tokens = ProportionalShares::new(self.computed_tokens, shares as u64);
        let grid = temperature_grid(&self.submissions);
        if let Ok(Answer::Generated(generated)) = &self.result {
            let tokens = generated.ids.len() as u64;
            counters.requested_tokens.fetch_add(tokens * shares as u64, Relaxed);
            counters.unique_tokens.fetch_add(tokens, Relaxed);
        }
        let mut result = Some(self.result);
        for (n, submission) in self.submissions.into_iter().enumerate() {
            // The last one takes the result itself.
            let result = if n + 1 == shares { result.take() } else { result.clone() };
            let result = result.expect("only the last submission takes it; this is a bug");
            let work = match &result {
                Ok(Answer::Generated(generated)) => model.generation_work(&submission.request, generated.ids.len()),
                _ => submission.work,
            };
            if matches!(result, Ok(Answer::Generated(_))) {
                counters.operations.fetch_add(work.operations, Relaxed);
            }
            // Only its own temperatures: the requests of others must not change its answer.
            let result = result.map(|answer| narrow_answer(answer, &submission.request, &grid));
            let result =
                result.and_then(|answer| if is_finite(&answer) { Ok(answer) } else { Err(Refusal::NotFinite) });
            let cost = CompletionCost {
                queue_s: started.saturating_duration_since(submission.since).as_secs_f64(),
                service_s: started.elapsed().as_secs_f64(),
                device_s: self.device_s / shares as f64,
                energy_j: self.energy_j.map(|joules| joules / shares as f64),
                computed_tokens: tokens.next(1),
            };
            submission.answer(Completion { result, work, cost });
        }
    }
}

/// Divides a whole number into whole parts by integer weights. The parts sum to the number.
pub(super) struct ProportionalShares {
    whole: u64,
    total: u64,
    weighed: u64,
    given: u64,
}

impl ProportionalShares {
    pub(super) fn new(whole: u64, total: u64) -> Self {
        Self { whole, total, weighed: 0, given: 0 }
    }

    pub(super) fn next(&mut self, weight: u64) -> u64 {
        self.weighed += weight;
        // The last part gets the rest of the whole.
        let until = u128::from(self.whole) * u128::from(self.weighed) / u128::from(self.total);
        let share = until as u64 - self.given;
        self.given += share;
        share
    }
}

/// The temperatures of all submissions for one score, ascending: positive floats sort as their bits do.
pub(super) fn temperature_grid(submissions: &[Submission]) -> Vec<f32> {
    let bits = submissions.iter().filter_map(|s| match &s.request {
        Request::Score(score) => Some(score.temperatures.iter().map(|t| t.to_bits())),
        _ => None,
    });
    bits.flatten().collect::<BTreeSet<_>>().into_iter().map(f32::from_bits).collect()
}

/// The answer for one of the submissions: only its own temperatures, in its own order.
fn narrow_answer(answer: Answer, request: &Request, grid: &[f32]) -> Answer {
    match (answer, request) {
        (Answer::Scored(scored), Request::Score(score)) => {
            let at =
                |t: &f32| grid.iter().position(|g| g == t).expect("the grid holds all temperatures; this is a bug");
            let log_sum_exps = score.temperatures.iter().map(|t| scored.log_sum_exps[at(t)].clone()).collect();
            Answer::Scored(ScoreResult { log_sum_exps, ..scored })
        }
        (answer, _) => answer,
    }
}

/// True if every number of an answer is finite, except for the logits of impossible tokens.
fn is_finite(answer: &Answer) -> bool {
    match answer {
        // A token may be impossible (a logit of -inf): this is allowed. Its log-sum-exp is finite all the same.
        Answer::Scored(scored) => {
            scored.target_logits.iter().all(|x| !x.is_nan() && *x < f32::INFINITY)
                && scored.log_sum_exps.iter().flatten().all(|x| x.is_finite())
        }
        Answer::Encoded(encoded) => {
            let rows = encoded.token_logits.values.iter().chain(&encoded.sequence_logits).chain(&encoded.embedding);
            rows.chain(&encoded.start_logits).chain(&encoded.end_logits).chain(&encoded.rank).all(|x| x.is_finite())
        }
        // Logits that are not numbers have already ended it.
        Answer::Generated(_) => true,
    }
}
