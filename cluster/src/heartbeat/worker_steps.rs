//! Steps of the workers of one process, and the beats made of them: a beat needs a step of every worker.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The count of a worker without further steps.
const ENDED: u64 = u64::MAX;

/// Steps of each worker of one process; cheap to clone.
#[derive(Debug, Clone)]
pub struct WorkerSteps(Arc<[AtomicU64]>);

impl WorkerSteps {
    /// For `workers` workers, none of which has stepped.
    pub fn new(workers: usize) -> Self {
        Self((0..workers).map(|_| AtomicU64::new(0)).collect())
    }

    /// Counts a step of a worker. `worker` is its index in this process.
    pub fn count_step(&self, worker: usize) {
        self.0[worker].fetch_add(1, Ordering::Relaxed);
    }

    /// A worker has ended: no step of it is expected any more.
    pub fn end_worker(&self, worker: usize) {
        self.0[worker].store(ENDED, Ordering::Relaxed);
    }
}

/// Makes beats of the steps of all workers of a process.
#[derive(Debug)]
pub struct StepSampler {
    steps: WorkerSteps,
    /// The steps at the last beat.
    seen: Vec<u64>,
    beats: u64,
}

impl StepSampler {
    /// For these workers.
    pub fn new(steps: WorkerSteps) -> Self {
        let seen = vec![0; steps.0.len()];
        Self { steps, seen, beats: 0 }
    }

    /// The number of beats so far. It rises if every worker has stepped since it last rose, or has ended. A process
    /// whose workers have all ended shows by the beat alone that it lives.
    pub fn sample_beats(&mut self) -> u64 {
        let now: Vec<u64> = self.steps.0.iter().map(|steps| steps.load(Ordering::Relaxed)).collect();
        if now.iter().zip(&self.seen).all(|(now, seen)| *now == ENDED || now != seen) {
            self.seen = now;
            self.beats += 1;
        }
        self.beats
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beat_needs_a_step_of_every_worker() {
        let steps = WorkerSteps::new(2);
        let mut sampler = StepSampler::new(steps.clone());
        assert_eq!(sampler.sample_beats(), 0, "starting up");
        steps.count_step(0);
        assert_eq!(sampler.sample_beats(), 0, "worker 1 is still starting up");
        steps.count_step(1);
        assert_eq!(sampler.sample_beats(), 1);
        assert_eq!(sampler.sample_beats(), 1);
        for _ in 0..3 {
            // Worker 1 hangs in a step; its neighbour goes on.
            steps.count_step(0);
            assert_eq!(sampler.sample_beats(), 1);
        }
        steps.count_step(1);
        assert_eq!(sampler.sample_beats(), 2, "steps before the other's count too");
        steps.end_worker(1);
        steps.count_step(0);
        assert_eq!(sampler.sample_beats(), 3, "nothing is expected of a worker that has ended");
        assert_eq!(sampler.sample_beats(), 3);
        steps.end_worker(0);
        assert_eq!([4, 5], [0; 2].map(|_| sampler.sample_beats()), "all have ended: the beat itself is the sign");
    }
}
