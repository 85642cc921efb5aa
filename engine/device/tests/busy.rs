//! The time for which a batch keeps a device busy.

use hopeval_device::{Cpu, Device, Reference};
use nix::time::{ClockId, clock_gettime};
use std::hint::black_box;
use std::thread;
use std::time::Duration;

/// Keeps this thread running for a while; returns its running time, without time taken by others.
fn run(least: Duration) -> Duration {
    let clock = || Duration::from(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("a clock"));
    let begun = clock();
    while clock() - begun < least {
        black_box((0..1000).sum::<u64>());
    }
    clock() - begun
}

fn processors(threads: usize) -> u32 {
    thread::available_parallelism().map_or(1, usize::from).min(threads) as u32
}

#[test]
fn a_cpu_counts_what_its_threads_ran() {
    let cpu = Cpu::new(Some(2)).expect("a CPU");
    let (ran, busy) = cpu.run_timed(|| run(Duration::from_millis(20)));
    assert!(busy * processors(2) + Duration::from_micros(1) >= ran, "{busy:?} for {ran:?}");
    let (answer, busy) = cpu.run_timed(|| {
        thread::sleep(Duration::from_millis(200));
        7
    });
    assert_eq!(answer, 7);
    assert!(busy < Duration::from_millis(100), "{busy:?} for sleeping");
}

#[test]
fn other_devices_count_from_begin_to_end() {
    let (answer, busy) = Reference.run_timed(|| {
        thread::sleep(Duration::from_millis(20));
        7
    });
    assert_eq!(answer, 7);
    assert!(busy >= Duration::from_millis(20), "{busy:?}");
}

/// Even with simultaneous batches.
#[test]
fn a_batch_is_not_charged_for_another() {
    let cpu = Cpu::new(Some(4)).expect("a CPU");
    thread::scope(|scope| {
        let batches: Vec<_> =
            (0..4).map(|_| scope.spawn(|| cpu.run_timed(|| run(Duration::from_millis(40))))).collect();
        for batch in batches {
            let (ran, busy) = batch.join().expect("a batch");
            let counted = busy * processors(4);
            assert!(counted + Duration::from_micros(1) >= ran && counted < ran * 2, "{counted:?} for {ran:?}");
        }
    });
}
