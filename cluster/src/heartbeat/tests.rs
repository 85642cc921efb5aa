//! Heartbeats over real sockets; the rules are tested in `failure_detector`.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};

use super::beat_thread::FAREWELL;
use super::*;

const PATIENCE: Duration = Duration::from_secs(20);

/// One process of a star: its heartbeat, its verdicts, and a switch that holds its workers still.
struct Process {
    heartbeat: Heartbeat,
    verdicts: Receiver<MeshVerdict>,
    still: Arc<AtomicBool>,
}

/// Stars of `n` processes, connected through the loopback interface.
fn star(n: usize, bound: Duration) -> Vec<Process> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut center = Vec::new();
    let mut per_process = Vec::new();
    for process in 1..n {
        per_process.push(HeartbeatSockets::new(
            process,
            vec![(0, TcpStream::connect(listener.local_addr().unwrap()).unwrap())],
        ));
        center.push((process, listener.accept().unwrap().0));
    }
    per_process.insert(0, HeartbeatSockets::new(0, center));
    per_process.into_iter().map(|sockets| start(sockets, bound)).collect()
}

fn start(sockets: HeartbeatSockets, bound: Duration) -> Process {
    let still = Arc::new(AtomicBool::new(false));
    let steps = AtomicU64::new(1);
    let beats = {
        let still = Arc::clone(&still);
        move || steps.fetch_add(u64::from(!still.load(Ordering::SeqCst)), Ordering::SeqCst)
    };
    start_with_beats(sockets, bound, still, beats)
}

fn start_with_beats(
    sockets: HeartbeatSockets,
    bound: Duration,
    still: Arc<AtomicBool>,
    beats: impl FnMut() -> u64 + Send + 'static,
) -> Process {
    let (send, verdicts) = mpsc::channel();
    let settings = HeartbeatSettings { stall_bound: bound };
    let tell = move |verdict| {
        let _ = send.send(verdict);
    };
    let heartbeat = Heartbeat::start(sockets, settings, beats, tell).unwrap();
    Process { heartbeat, verdicts, still }
}

fn next(process: &Process) -> MeshVerdict {
    process.verdicts.recv_timeout(PATIENCE).unwrap()
}

#[test]
fn a_dropped_process_is_lost_to_all() {
    let mut star = star(3, PATIENCE);
    drop(star.remove(2));
    for process in &star {
        assert_eq!(next(process), MeshVerdict::PeerLost { process: 2 });
    }
    drop(star.remove(0));
    assert!(star[0].verdicts.try_recv().is_err(), "one verdict is enough");
}

#[test]
fn a_lost_lead_is_noticed() {
    let mut star = star(3, PATIENCE);
    drop(star.remove(0));
    for process in &star {
        assert_eq!(next(process), MeshVerdict::PeerLost { process: 0 });
    }
}

#[test]
fn workers_that_stand_still_are_noticed_by_all_and_told() {
    let star = star(3, Duration::from_millis(800));
    star[1].still.store(true, Ordering::SeqCst);
    for process in &star {
        match next(process) {
            MeshVerdict::PeerStalled { process: 1, since } => assert!(since >= Duration::from_millis(800)),
            other => panic!("{other}"),
        }
    }
}

/// Two connected pairs of sockets, of process 0 and of process 1.
fn pair() -> [HeartbeatSockets; 2] {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let other = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    [HeartbeatSockets::new(0, vec![(1, listener.accept().unwrap().0)]), HeartbeatSockets::new(1, vec![(0, other)])]
}

#[test]
fn a_hung_worker_is_noticed_beside_one_that_steps() {
    let bound = Duration::from_millis(800);
    let [lead, other] = pair();
    let steps = WorkerSteps::new(2);
    steps.count_step(1);
    let mut sampler = StepSampler::new(steps.clone());
    let beats = move || {
        // Worker 0 steps before every beat; worker 1 has stepped once, and hangs.
        steps.count_step(0);
        sampler.sample_beats()
    };
    let other = start_with_beats(other, bound, Arc::default(), beats);
    let lead = start(lead, bound);
    for process in [&lead, &other] {
        assert!(matches!(next(process), MeshVerdict::PeerStalled { process: 1, .. }));
    }
}

#[test]
fn a_lead_that_stops_after_the_others_are_done_is_noticed() {
    let [lead, other] = pair();
    let other = start(other, Duration::from_millis(300));
    other.heartbeat.say_goodbye();
    // Process 0 was stopped while it wrote the tables: its socket is open and silent.
    assert!(matches!(next(&other), MeshVerdict::PeerStalled { process: 0, .. }));
    drop(lead);
}

#[test]
fn a_lead_that_is_lost_after_the_others_are_done_is_noticed() {
    let mut star = star(2, PATIENCE);
    star[1].heartbeat.say_goodbye();
    drop(star.remove(0));
    assert_eq!(next(&star[0]), MeshVerdict::PeerLost { process: 0 });
}

#[test]
fn a_mute_process_is_noticed() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    // The process took part in forming and then was stopped: its socket is open and silent.
    let _mute = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let lead = start(HeartbeatSockets::new(0, vec![(1, listener.accept().unwrap().0)]), Duration::from_millis(300));
    assert!(matches!(next(&lead), MeshVerdict::PeerStalled { process: 1, .. }));
}

#[test]
fn a_drain_reaches_all_and_they_stop_together() {
    let star = star(3, PATIENCE);
    star[1].heartbeat.handle().drain();
    for other in [&star[0], &star[2]] {
        assert_eq!(next(other), MeshVerdict::Drain);
        other.heartbeat.handle().quiet();
    }
    assert!(star[0].verdicts.try_recv().is_err(), "process 1 is not quiet yet");
    star[1].heartbeat.handle().quiet();
    for process in &star {
        assert_eq!(next(process), MeshVerdict::Flush);
    }
    for process in &star {
        assert!(process.verdicts.try_recv().is_err(), "somebody has not drained yet");
        process.heartbeat.handle().drained();
    }
    for process in &star {
        assert_eq!(next(process), MeshVerdict::StopNow);
    }
}

#[test]
fn goodbyes_are_no_losses() {
    let mut star = star(3, PATIENCE);
    let begun = Instant::now();
    // Process 1 has not said goodbye when the lead goes; process 2 waits for the lead.
    star[2].heartbeat.say_goodbye();
    assert!(!star[2].heartbeat.has_ended(), "it watches the lead");
    star.remove(0).heartbeat.goodbye();
    assert!(begun.elapsed() < FAREWELL, "each goodbye was heard, not timed out");
    let verdicts = star.into_iter().map(|Process { heartbeat, verdicts, .. }| {
        heartbeat.goodbye();
        verdicts
    });
    for verdicts in verdicts {
        // The sender went with the thread, so this does not wait.
        assert_eq!(verdicts.recv_timeout(PATIENCE), Err(RecvTimeoutError::Disconnected));
    }
}
