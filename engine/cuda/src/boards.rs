//! The boards that this process computes on: each with one account of its energy, and with how busy and how full it was.
//!
//! Whoever opens a device of a board shares its [`Board`], so that several engines do not count the same energy twice.
//! Another process on the same board does.

use crate::energy::{EnergyError, Meter, Sample};
use hopeval_device::Energy;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A board that NVML knows.
#[derive(Debug)]
pub struct Board {
    name: String,
    uuid: String,
    meter: Arc<Meter>,
    seen: Arc<Mutex<Seen>>,
    energy: Energy,
}

impl Board {
    fn open(name: &str, uuid: &str) -> Result<Self, EnergyError> {
        let meter = Arc::new(Meter::open(uuid)?);
        let seen = Arc::new(Mutex::new(Seen::default()));
        let energy = {
            let (meter, seen) = (Arc::clone(&meter), Arc::clone(&seen));
            // Looked at where work begins or ends: that needs no thread, and is when there is something to see.
            Energy::new(move || {
                let mut seen = lock(&seen);
                if seen.is_due(Instant::now())
                    && let Ok(sample) = meter.sample()
                {
                    seen.add(&sample);
                    return sample.millijoules;
                }
                meter.millijoules()
            })
        };
        Ok(Self { name: name.to_owned(), uuid: uuid.to_owned(), meter, seen, energy })
    }

    /// "cuda:0".
    pub fn name(&self) -> &str {
        &self.name
    }

    /// As NVML knows it.
    pub fn uuid(&self) -> &str {
        &self.uuid
    }

    /// The account of its energy.
    pub fn energy(&self) -> &Energy {
        &self.energy
    }

    /// What it says now.
    ///
    /// # Errors
    /// [`EnergyError::Untold`].
    pub fn sample(&self) -> Result<Sample, EnergyError> {
        self.meter.sample()
    }

    /// What was seen of it while it was used.
    pub fn seen(&self) -> Seen {
        *lock(&self.seen)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Samples are at least so far apart: as often as NVML measures utilisation.
const EVERY: Duration = Duration::from_secs(1);

/// What samples said, taken where work began or ended and at least a second apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// When it was looked at last, or when it was used first.
    looked: Option<Instant>,
    /// Samples that tell the utilisation, and the sum of it.
    busy: u64,
    percents: u64,
    /// Bytes of memory that were taken at most, by all processes.
    pub memory_peak: u64,
    /// Bytes of memory.
    pub memory: u64,
}

impl Seen {
    /// Percent of the time in which some kernel ran: the mean of the samples; none without one.
    pub fn utilisation(&self) -> Option<f64> {
        (self.busy > 0).then(|| self.percents as f64 / self.busy as f64)
    }

    /// Whether it is time for another sample: a second after the first use, for what was before that is not its own.
    fn is_due(&mut self, now: Instant) -> bool {
        let due = now.duration_since(*self.looked.get_or_insert(now)) >= EVERY;
        if due {
            self.looked = Some(now);
        }
        due
    }

    fn add(&mut self, sample: &Sample) {
        if let Some(percent) = sample.utilisation {
            self.busy += 1;
            self.percents += u64::from(percent);
        }
        self.memory_peak = self.memory_peak.max(sample.memory_used);
        self.memory = sample.memory;
    }
}

/// By UUID.
static BOARDS: Mutex<BTreeMap<String, Arc<Board>>> = Mutex::new(BTreeMap::new());

/// The board of a device with this name and UUID; none where NVML does not know it, which is logged.
pub(crate) fn of(name: &str, uuid: &str) -> Option<Arc<Board>> {
    let mut boards = lock(&BOARDS);
    if let Some(board) = boards.get(uuid) {
        return Some(Arc::clone(board));
    }
    match Board::open(name, uuid) {
        Ok(board) => {
            let board = Arc::new(board);
            boards.insert(uuid.to_owned(), Arc::clone(&board));
            Some(board)
        }
        Err(error) => {
            tracing::info!(device = name, %error, "energy, utilisation and memory are not counted");
            None
        }
    }
}

/// The boards that this process has opened so far, by name.
pub fn all() -> Vec<Arc<Board>> {
    let mut boards: Vec<Arc<Board>> = lock(&BOARDS).values().cloned().collect();
    boards.sort_by(|a, b| a.name.cmp(&b.name));
    boards
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(utilisation: Option<u32>, memory_used: u64) -> Sample {
        Sample { millijoules: None, utilisation, memory_used, memory: 100 }
    }

    #[test]
    fn utilisation_is_a_mean_and_memory_a_peak() {
        let mut seen = Seen::default();
        assert_eq!(seen.utilisation(), None);
        for (utilisation, used) in [(Some(90), 10), (None, 70), (Some(60), 20)] {
            seen.add(&sample(utilisation, used));
        }
        assert_eq!((seen.utilisation(), seen.memory_peak, seen.memory), (Some(75.0), 70, 100));
    }

    #[test]
    fn samples_are_a_second_apart() {
        let (mut seen, begun) = (Seen::default(), Instant::now());
        let after = |ms| begun + Duration::from_millis(ms);
        let due: Vec<u64> = (0..3_000).step_by(300).filter(|ms| seen.is_due(after(*ms))).collect();
        assert_eq!(due, [1_200, 2_400]);
    }

    #[test]
    fn a_device_that_nvml_does_not_know_has_no_board() {
        assert!(of("cuda:7", "GPU-00000000-0000-0000-0000-000000000000").is_none());
        assert!(all().iter().all(|board| board.name() != "cuda:7"));
    }
}
