//! Shows how far a generation is: its outcomes, the service with the most work left, the time left.

use crate::stages::{CommandStages, StageState};
use hopeval_jobs::JobError;
use hopeval_jobs::run::forecast::{ForecastedWork, RunEstimate, RunForecast};
use hopeval_jobs::run::generation::Generation;
use hopeval_jobs::run::progress::ProgressSample;
use serde_json::json;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The end of a run in process 0, after the last outcome.
#[derive(Debug, Default)]
pub(super) struct EndClock {
    /// The outcomes of all processes and generations, and the expected seconds from the last one to the end.
    expected: OnceLock<(u64, f64)>,
    begun: OnceLock<Instant>,
    tables: OnceLock<Instant>,
}

impl EndClock {
    /// Shows a stage of the process: with an estimate if it is one after the last outcome, which have these names.
    pub(super) fn show_stage(&self, stages: &CommandStages, stage: &str, done: u64) {
        let Some((outcomes, seconds)) = self.expected.get() else { return stages.tick(stage, done) };
        let passed = self.begun.get_or_init(Instant::now).elapsed().as_secs_f64();
        let mut left = (seconds - passed).max(LAST_SECONDS);
        let mut text = String::new();
        if stage == "tables" {
            let since = self.tables.get_or_init(Instant::now).elapsed().as_secs_f64();
            if done > 0 {
                left = since * outcomes.saturating_sub(done) as f64 / done as f64 + LAST_SECONDS;
            }
            text = format!("{done} of {outcomes} outcomes, {}", seconds_left(left));
        }
        let (share, left) = (done as f64 / (*outcomes).max(1) as f64, Some(Duration::from_secs_f64(left)));
        stages.show(stage, StageState { share, text, left, counts: json!({ "done": done }) });
    }
}

/// Seconds from the last table to the end.
const LAST_SECONDS: f64 = 0.1;

/// Shows the progress of a generation from now on. `end` learns what comes after it.
///
/// # Errors
/// A thread cannot be started, or the questions cannot be read.
pub(super) fn watch_generation(
    stages: &CommandStages,
    generation: &Generation,
    processes: u64,
    workers: u64,
    end: &EndClock,
) -> Result<(), JobError> {
    let resolved = &generation.run.resolved;
    let configurations = resolved.configurations.len() as u64;
    let left = resolved.outcome_count().saturating_sub(generation.outcomes_before());
    // A process sees only its own share, and all have about equal shares.
    let total = left.div_ceil(processes);
    let catalogue = &generation.run.configurations()?.catalogue;
    let work = ForecastedWork {
        questions: total.div_ceil(configurations.max(1)),
        configurations,
        all_outcomes: resolved.outcome_count(),
        workers,
        parameters: catalogue.model_parameters(),
        servers: catalogue.remote_services(),
    };
    let mut forecast = RunForecast::new(work);
    let _ = end.expected.set((resolved.outcome_count(), forecast.end_seconds()));
    let (probe, gate) = (generation.progress_probe()?, generation.gate.clone());
    let rehearsed = generation.rehearse()?;
    let begun = Instant::now();
    let state = move || {
        let rehearsal = rehearsed.try_recv().ok();
        if let Some(rehearsal) = &rehearsal {
            forecast.set_rehearsed(rehearsal.clone());
        }
        let (sample, elapsed) = (probe.sample(), begun.elapsed());
        let estimate = forecast.observe(elapsed, &sample);
        if gate.is_closed() {
            let text = format!("draining: {} batches and requests under way", gate.under_way());
            return StageState { share: estimate.share, text, left: None, counts: json!({ "progress": sample }) };
        }
        let text = progress_text(&sample, total, &estimate);
        let counts = json!({ "elapsed_s": elapsed.as_secs_f64(), "progress": sample, "rehearsed": rehearsal });
        StageState { share: estimate.share, text, left: estimate.left, counts }
    };
    stages.follow("evaluate", state);
    Ok(())
}

/// `806 of 1400 outcomes; scorer 12400 of about 24700 requests; about 40 s left`.
fn progress_text(sample: &ProgressSample, total: u64, estimate: &RunEstimate) -> String {
    let mut text = format!("{} of {total} outcomes", sample.outcomes);
    if let Some((service, answered, expected)) = &estimate.busiest {
        text.push_str(&format!("; {service} {answered} of about {expected} requests"));
    }
    match estimate.left {
        Some(left) => text.push_str(&format!("; {}", seconds_left(left.as_secs_f64()))),
        None => text.push_str("; estimating the time left"),
    }
    text
}

/// A time left in words, no more exact than it is known.
fn seconds_left(seconds: f64) -> String {
    match seconds {
        s if s < 1.0 => "less than 1 s left".to_owned(),
        s if s < 100.0 => format!("about {s:.0} s left"),
        s if s < 6000.0 => format!("about {:.0} min left", s / 60.0),
        s => format!("about {:.1} h left", s / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_left_is_no_more_exact_than_it_is_known() {
        let said = [0.2, 1.4, 99.4, 130.0, 5400.0, 9000.0].map(seconds_left);
        let expected = ["less than 1 s", "about 1 s", "about 99 s", "about 2 min", "about 90 min", "about 2.5 h"];
        assert_eq!(said, expected.map(|time| format!("{time} left")));
    }

    #[test]
    fn a_person_sees_what_is_done_and_what_keeps_the_run_busy() {
        let sample = ProgressSample { outcomes: 806, ..ProgressSample::default() };
        let mut estimate = RunEstimate::default();
        assert_eq!(progress_text(&sample, 1400, &estimate), "806 of 1400 outcomes; estimating the time left");
        estimate.busiest = Some(("scorer".to_owned(), 12_400, 24_700));
        estimate.left = Some(Duration::from_secs(40));
        let text = progress_text(&sample, 1400, &estimate);
        assert_eq!(text, "806 of 1400 outcomes; scorer 12400 of about 24700 requests; about 40 s left");
    }
}
