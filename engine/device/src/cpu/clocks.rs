//! Running time of threads on a processor.

use nix::time::{ClockId, clock_gettime};
use nix::unistd::gettid;
use std::time::Duration;

/// The processor clocks of some threads, readable by all threads of the process.
#[derive(Debug)]
pub(super) struct ThreadClocks(Vec<ClockId>);

impl ThreadClocks {
    /// The clocks of all threads of a pool; `None` if the system does not show them.
    pub(super) fn of_pool(pool: &rayon::ThreadPool) -> Option<Self> {
        let clocks = Self(pool.broadcast(|_| Self::own_clock()));
        clocks.0.iter().all(|clock| clock_gettime(*clock).is_ok()).then_some(clocks)
    }

    /// The clock of the calling thread. Linux derives the number of a thread's clock from the thread's number
    /// (`posix-timers.h`: its complement, three bits higher; 4 for a thread, 2 for time given by the scheduler), as
    /// `pthread_getcpuclockid` does.
    fn own_clock() -> ClockId {
        ClockId::from_raw((!gettid().as_raw() << 3) | 4 | 2)
    }

    /// The running time of all threads together.
    pub(super) fn running_time(&self) -> Duration {
        let ran = |clock: &ClockId| {
            Duration::from(clock_gettime(*clock).expect("a thread lives as long as its pool; this is a bug"))
        };
        self.0.iter().map(ran).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;
    use std::time::Instant;

    #[test]
    fn time_counts_that_threads_ran_and_none_that_they_slept() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().expect("two threads");
        let clocks = ThreadClocks::of_pool(&pool).expect("clocks of threads");
        let own = ClockId::CLOCK_THREAD_CPUTIME_ID;
        let run = |least: Duration| {
            let ran = || Duration::from(clock_gettime(own).expect("a clock"));
            let begun = ran();
            while ran() - begun < least {
                black_box((0..1000).sum::<u64>());
            }
        };
        let before = clocks.running_time();
        pool.broadcast(|_| run(Duration::from_millis(20)));
        let ran = clocks.running_time() - before;
        assert!(ran >= Duration::from_millis(40), "{ran:?}");

        let (before, begun) = (clocks.running_time(), Instant::now());
        pool.broadcast(|_| std::thread::sleep(Duration::from_millis(200)));
        let (slept, ran) = (begun.elapsed(), clocks.running_time() - before);
        assert!(ran < slept / 2, "{ran:?} of {slept:?}");
    }
}
