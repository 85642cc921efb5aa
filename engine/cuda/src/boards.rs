//! The boards used by this process: each with one energy account, its utilisation and its memory.
//!
//! Everyone who opens a device of a board shares its [`Board`], so several engines do not count the same energy twice.
//! Another process on the same board still does.

use crate::energy::{CounterSample, EnergyError, EnergyMeter};
use hopeval_device::DeviceEnergy;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A board known to NVML.
#[derive(Debug)]
pub struct Board {
    name: String,
    uuid: String,
    counters: Arc<BoardCounters>,
}

/// The part of a board that its observer holds, too.
#[derive(Debug)]
struct BoardCounters {
    meter: EnergyMeter,
    load: Mutex<BoardLoad>,
    energy: DeviceEnergy,
}

impl BoardCounters {
    /// Reads the counters from time to time while work is active, and once after it: for as long as the process lives.
    fn observe_forever(&self) {
        loop {
            self.energy.wait_until_active();
            loop {
                let active = self.energy.is_active();
                self.energy.observe(self.meter.millijoules());
                if active {
                    self.sample_load();
                }
                if !active {
                    break;
                }
                std::thread::sleep(READING_INTERVAL);
            }
        }
    }

    fn sample_load(&self) {
        let mut load = lock_ignoring_poison(&self.load);
        if load.is_due(Instant::now())
            && let Ok(sample) = self.meter.sample()
        {
            load.add_sample(&sample);
        }
    }
}

impl Board {
    /// Reads the counter for the first time, and starts the observer.
    fn open(name: &str, uuid: &str) -> Result<Self, EnergyError> {
        let meter = EnergyMeter::open(uuid)?;
        let counters = Arc::new(BoardCounters { meter, load: Mutex::default(), energy: DeviceEnergy::default() });
        counters.energy.observe(counters.meter.millijoules());
        let observed = Arc::clone(&counters);
        std::thread::Builder::new()
            .name(format!("energy-{name}"))
            .spawn(move || observed.observe_forever())
            .map_err(EnergyError::Observer)?;
        Ok(Self { name: name.to_owned(), uuid: uuid.to_owned(), counters })
    }

    /// "cuda:0".
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its UUID, as NVML writes it.
    pub fn uuid(&self) -> &str {
        &self.uuid
    }

    /// Its energy account.
    pub fn energy(&self) -> &DeviceEnergy {
        &self.counters.energy
    }

    /// Reads its counters now.
    ///
    /// # Errors
    /// [`EnergyError::Untold`].
    pub fn sample(&self) -> Result<CounterSample, EnergyError> {
        self.counters.meter.sample()
    }

    /// Its samples during use.
    pub fn observed_load(&self) -> BoardLoad {
        *lock_ignoring_poison(&self.counters.load)
    }
}

fn lock_ignoring_poison<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The time between two readings of the energy counter. A reading takes 3 ms on an H200, up to 20 ms at times, and its
/// counter moves 11 times a second.
const READING_INTERVAL: Duration = Duration::from_millis(50);

/// The least time between samples: NVML measures utilisation as often.
const EVERY: Duration = Duration::from_secs(1);

/// A summary of samples, taken while there was work and at least a second apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BoardLoad {
    /// Time of the last sample, or of the first use.
    looked: Option<Instant>,
    /// Samples with a utilisation, and the sum of these.
    busy: u64,
    percents: u64,
    /// The most bytes of memory in use, by all processes.
    pub memory_peak: u64,
    /// Bytes of memory.
    pub memory: u64,
}

impl BoardLoad {
    /// Percent of the time with some kernel running: the mean of the samples; `None` without a sample.
    pub fn utilisation(&self) -> Option<f64> {
        (self.busy > 0).then(|| self.percents as f64 / self.busy as f64)
    }

    /// True if the next sample is due: not before a second after the first use, because the time before belongs to
    /// others.
    fn is_due(&mut self, now: Instant) -> bool {
        let due = now.duration_since(*self.looked.get_or_insert(now)) >= EVERY;
        if due {
            self.looked = Some(now);
        }
        due
    }

    fn add_sample(&mut self, sample: &CounterSample) {
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

/// The board of a device with this name and UUID. If NVML does not know it, this logs so and returns `None`.
pub(crate) fn board_of(name: &str, uuid: &str) -> Option<Arc<Board>> {
    let mut boards = lock_ignoring_poison(&BOARDS);
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

/// The boards opened so far by this process, by name.
pub fn opened_boards() -> Vec<Arc<Board>> {
    let mut boards: Vec<Arc<Board>> = lock_ignoring_poison(&BOARDS).values().cloned().collect();
    boards.sort_by(|a, b| a.name.cmp(&b.name));
    boards
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(utilisation: Option<u32>, memory_used: u64) -> CounterSample {
        CounterSample { millijoules: None, utilisation, memory_used, memory: 100 }
    }

    #[test]
    fn utilisation_is_a_mean_and_memory_a_peak() {
        let mut load = BoardLoad::default();
        assert_eq!(load.utilisation(), None);
        for (utilisation, used) in [(Some(90), 10), (None, 70), (Some(60), 20)] {
            load.add_sample(&sample(utilisation, used));
        }
        assert_eq!((load.utilisation(), load.memory_peak, load.memory), (Some(75.0), 70, 100));
    }

    #[test]
    fn samples_are_a_second_apart() {
        let (mut load, begun) = (BoardLoad::default(), Instant::now());
        let after = |ms| begun + Duration::from_millis(ms);
        let due: Vec<u64> = (0..3_000).step_by(300).filter(|ms| load.is_due(after(*ms))).collect();
        assert_eq!(due, [1_200, 2_400]);
    }

    #[test]
    fn a_device_that_nvml_does_not_know_has_no_board() {
        assert!(board_of("cuda:7", "GPU-00000000-0000-0000-0000-000000000000").is_none());
        assert!(opened_boards().iter().all(|board| board.name() != "cuda:7"));
    }
}
