//! The rules of the heartbeats: the meaning of the others' frames and of their silence. No socket, no clock.
//!
//! | event | at process 0 | elsewhere |
//! | --- | --- | --- |
//! | beat | remember it; pass a drain on; all quiet: flush; all drained: stop | remember it |
//! | drain, flush, stop, lost, stalled | (never sent to it) | tell |
//! | bye | watch it no more; counts as quiet and drained | process 0 is done: watch nobody |
//! | socket closed without bye | tell and broadcast: lost | tell: process 0 lost |
//! | silent, or its counter still, for the bound | tell and broadcast: stalled | tell: process 0 stalled |
//!
//! A quiet process stays quiet. Once all are quiet, all requests have ended, and a flush finds everything. After a stop
//! or a loss verdicts end: every process is leaving.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::MeshVerdict;
use super::frame::HeartbeatFrame;

/// An action for the owner of the sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HeartbeatAction {
    Tell(MeshVerdict),
    Broadcast(HeartbeatFrame),
}

#[derive(Debug)]
pub(super) struct FailureDetector {
    process: usize,
    bound: Duration,
    /// Processes without a goodbye and with an open socket.
    peers: BTreeMap<usize, PeerState>,
    draining: bool,
    quiet: bool,
    /// All are quiet.
    flushing: bool,
    drained: bool,
    last_tick: Instant,
    /// A final verdict was reported.
    over: bool,
}

#[derive(Debug)]
struct PeerState {
    /// Arrival of its last frame.
    heard: Instant,
    beats: u64,
    /// Last change of its counter; `None` before its first step.
    moved: Option<Instant>,
    quiet: bool,
    drained: bool,
}

impl FailureDetector {
    pub(super) fn new(process: usize, peers: impl Iterator<Item = usize>, bound: Duration, now: Instant) -> Self {
        let peer = || PeerState { heard: now, beats: 0, moved: None, quiet: false, drained: false };
        Self {
            process,
            bound,
            peers: peers.map(|p| (p, peer())).collect(),
            draining: false,
            quiet: false,
            flushing: false,
            drained: false,
            last_tick: now,
            over: false,
        }
    }

    /// The frame with the state of this process.
    pub(super) fn beat_frame(&self, beats: u64) -> HeartbeatFrame {
        HeartbeatFrame::Beat { beats, draining: self.draining, quiet: self.quiet, drained: self.drained }
    }

    /// This process was asked to drain.
    pub(super) fn drain(&mut self) -> Vec<HeartbeatAction> {
        let first = !std::mem::replace(&mut self.draining, true);
        if first && self.leads() { vec![HeartbeatAction::Broadcast(HeartbeatFrame::Drain)] } else { Vec::new() }
    }

    /// This process has finished its questions, and admits no more.
    pub(super) fn quiet(&mut self) -> Vec<HeartbeatAction> {
        let mut actions = self.drain();
        self.quiet = true;
        actions.extend(self.check_agreement());
        actions
    }

    /// This process has made everything durable, after all became quiet.
    pub(super) fn drained(&mut self) -> Vec<HeartbeatAction> {
        self.drained = true;
        self.check_agreement()
    }

    pub(super) fn handle_frame(&mut self, from: usize, frame: HeartbeatFrame, now: Instant) -> Vec<HeartbeatAction> {
        let Some(peer) = self.peers.get_mut(&from) else { return Vec::new() };
        peer.heard = now;
        match frame {
            HeartbeatFrame::Beat { beats, draining, quiet, drained } => {
                if beats != peer.beats {
                    peer.beats = beats;
                    peer.moved = Some(now);
                }
                (peer.quiet, peer.drained) = (quiet, drained);
                let mut actions = Vec::new();
                if draining && self.leads() && !self.draining {
                    actions = self.drain();
                    actions.push(HeartbeatAction::Tell(MeshVerdict::Drain));
                }
                actions.extend(self.check_agreement());
                actions
            }
            HeartbeatFrame::Drain => {
                let first = !std::mem::replace(&mut self.draining, true);
                if first { vec![HeartbeatAction::Tell(MeshVerdict::Drain)] } else { Vec::new() }
            }
            HeartbeatFrame::Flush => self.report_flush(),
            HeartbeatFrame::Stop => self.report_final(MeshVerdict::StopNow),
            HeartbeatFrame::Lost { process } => self.report_final(MeshVerdict::PeerLost { process: process as usize }),
            HeartbeatFrame::Stalled { process, since } => {
                self.report_final(MeshVerdict::PeerStalled { process: process as usize, since })
            }
            HeartbeatFrame::Bye => {
                self.peers.remove(&from);
                self.check_agreement()
            }
        }
    }

    /// The socket of a process closed.
    pub(super) fn closed(&mut self, from: usize) -> Vec<HeartbeatAction> {
        if self.peers.remove(&from).is_none() {
            return Vec::new();
        }
        self.report_final(MeshVerdict::PeerLost { process: from })
    }

    /// Time passes. Call it after handing everything received to `handle_frame`.
    pub(super) fn tick(&mut self, now: Instant) -> Vec<HeartbeatAction> {
        let absent = now.saturating_duration_since(self.last_tick);
        self.last_tick = now;
        if absent > self.bound / 2 {
            // This process itself was stopped (a suspended shell job stops all of them). This time says nothing about
            // the others.
            for peer in self.peers.values_mut() {
                peer.heard = (peer.heard + absent).min(now);
                peer.moved = peer.moved.map(|at| (at + absent).min(now));
            }
        }
        let stalled = self.peers.iter().find_map(|(process, peer)| {
            let since = peer.moved.map_or(peer.heard, |moved| moved.min(peer.heard));
            let since = now.saturating_duration_since(since);
            (since >= self.bound).then_some(MeshVerdict::PeerStalled { process: *process, since })
        });
        stalled.map_or_else(Vec::new, |verdict| self.report_final(verdict))
    }

    fn leads(&self) -> bool {
        self.process == 0
    }

    /// Checks whether all are quiet, or all have drained. After the goodbyes of all others, a process decides alone.
    fn check_agreement(&mut self) -> Vec<HeartbeatAction> {
        if !self.leads() && !self.peers.is_empty() {
            return Vec::new();
        }
        if !self.flushing && self.quiet && self.peers.values().all(|peer| peer.quiet) {
            return self.report_flush();
        }
        if self.flushing && self.drained && self.peers.values().all(|peer| peer.drained) {
            return self.report_final(MeshVerdict::StopNow);
        }
        Vec::new()
    }

    /// Reports once that all are quiet; process 0 also tells the others.
    fn report_flush(&mut self) -> Vec<HeartbeatAction> {
        if self.over || std::mem::replace(&mut self.flushing, true) {
            return Vec::new();
        }
        let mut actions = Vec::new();
        if self.leads() {
            actions.push(HeartbeatAction::Broadcast(HeartbeatFrame::Flush));
        }
        actions.push(HeartbeatAction::Tell(MeshVerdict::Flush));
        actions
    }

    /// Reports the final verdict, once; process 0 also tells the others.
    fn report_final(&mut self, verdict: MeshVerdict) -> Vec<HeartbeatAction> {
        if std::mem::replace(&mut self.over, true) {
            return Vec::new();
        }
        let mut actions = Vec::new();
        if self.leads() {
            actions.push(HeartbeatAction::Broadcast(match verdict {
                MeshVerdict::PeerLost { process } => HeartbeatFrame::Lost { process: process as u32 },
                MeshVerdict::PeerStalled { process, since } => {
                    HeartbeatFrame::Stalled { process: process as u32, since }
                }
                MeshVerdict::Drain => HeartbeatFrame::Drain,
                MeshVerdict::Flush => HeartbeatFrame::Flush,
                MeshVerdict::StopNow => HeartbeatFrame::Stop,
            }));
        }
        actions.push(HeartbeatAction::Tell(verdict));
        actions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUND: Duration = Duration::from_secs(2);

    fn beat(beats: u64) -> HeartbeatFrame {
        HeartbeatFrame::Beat { beats, draining: false, quiet: false, drained: false }
    }

    fn verdict(actions: &[HeartbeatAction]) -> Option<MeshVerdict> {
        actions.iter().find_map(|action| if let HeartbeatAction::Tell(v) = action { Some(*v) } else { None })
    }

    /// Ticks every 100 ms up to `until_ms`, feeding beats. Returns the first verdict and its time.
    fn first_verdict(
        detector: &mut FailureDetector,
        start: Instant,
        until_ms: u64,
        feed: impl Fn(u64) -> Vec<(usize, HeartbeatFrame)>,
    ) -> Option<(u64, MeshVerdict)> {
        for ms in (100..=until_ms).step_by(100) {
            let now = start + Duration::from_millis(ms);
            for (from, frame) in feed(ms) {
                assert_eq!(verdict(&detector.handle_frame(from, frame, now)), None);
            }
            if let Some(verdict) = verdict(&detector.tick(now)) {
                return Some((ms, verdict));
            }
        }
        None
    }

    #[test]
    fn a_counter_that_stands_still_is_a_stall() {
        let start = Instant::now();
        let mut detector = FailureDetector::new(0, 1..3, BOUND, start);
        // Process 2 stops stepping at 1 s but goes on beating.
        let seen = first_verdict(&mut detector, start, 9000, |ms| vec![(1, beat(ms)), (2, beat(ms.min(1000)))]);
        assert_eq!(seen, Some((3000, MeshVerdict::PeerStalled { process: 2, since: BOUND })));
        assert_eq!(detector.closed(1), [], "after the first there are no more verdicts");
    }

    #[test]
    fn silence_is_a_stall_also_before_the_first_step() {
        let start = Instant::now();
        let mut detector = FailureDetector::new(1, 0..1, BOUND, start);
        let seen = first_verdict(&mut detector, start, 9000, |ms| if ms < 500 { vec![(0, beat(0))] } else { vec![] });
        assert_eq!(seen, Some((2400, MeshVerdict::PeerStalled { process: 0, since: BOUND })));
    }

    #[test]
    fn starting_up_is_no_stall() {
        let start = Instant::now();
        let mut detector = FailureDetector::new(0, 1..3, BOUND, start);
        // Process 1 never steps yet; process 2 does.
        let seen = first_verdict(&mut detector, start, 9000, |ms| vec![(1, beat(0)), (2, beat(ms))]);
        assert_eq!(seen, None);
    }

    #[test]
    fn the_own_absence_is_not_held_against_the_others() {
        let start = Instant::now();
        let mut detector = FailureDetector::new(0, 1..2, BOUND, start);
        assert_eq!(first_verdict(&mut detector, start, 1000, |ms| vec![(1, beat(ms))]), None);
        // Everything was stopped for a minute; the others speak again a moment after this process looks.
        let back = start + Duration::from_secs(61);
        assert_eq!(detector.tick(back), []);
        assert_eq!(detector.handle_frame(1, beat(2000), back + Duration::from_millis(300)), []);
        assert_eq!(detector.tick(back + Duration::from_millis(900)), []);
        let later = verdict(&detector.tick(back + Duration::from_millis(1800)));
        assert_eq!(later, None);
        let end = verdict(&detector.tick(back + Duration::from_millis(2400)));
        assert!(matches!(end, Some(MeshVerdict::PeerStalled { process: 1, .. })), "{end:?}");
    }

    #[test]
    fn a_drain_becomes_a_flush_and_then_a_stop() {
        let now = Instant::now();
        let mut detector = FailureDetector::new(0, 1..3, BOUND, now);
        let told = |beats, quiet, drained| HeartbeatFrame::Beat { beats, draining: true, quiet, drained };
        assert_eq!(
            detector.handle_frame(2, told(1, false, false), now),
            [HeartbeatAction::Broadcast(HeartbeatFrame::Drain), HeartbeatAction::Tell(MeshVerdict::Drain)]
        );
        assert_eq!(detector.handle_frame(2, told(2, false, false), now), [], "once");
        assert_eq!(detector.drain(), [], "everyone knows");
        assert_eq!(detector.quiet(), []);
        assert_eq!(
            detector.handle_frame(2, told(3, true, false), now),
            [],
            "process 1 may still ask the services of 2"
        );
        let flush = [HeartbeatAction::Broadcast(HeartbeatFrame::Flush), HeartbeatAction::Tell(MeshVerdict::Flush)];
        assert_eq!(detector.handle_frame(1, told(4, true, false), now), flush);
        assert_eq!(detector.handle_frame(1, told(5, true, true), now), []);
        assert_eq!(detector.drained(), []);
        let stop = [HeartbeatAction::Broadcast(HeartbeatFrame::Stop), HeartbeatAction::Tell(MeshVerdict::StopNow)];
        assert_eq!(detector.handle_frame(2, told(6, true, true), now), stop);
        assert_eq!(detector.closed(1), [], "they leave");
    }

    #[test]
    fn who_said_goodbye_is_neither_lost_nor_waited_for() {
        let now = Instant::now();
        let mut detector = FailureDetector::new(0, 1..3, BOUND, now);
        assert_eq!(detector.handle_frame(1, HeartbeatFrame::Bye, now), []);
        assert_eq!(detector.closed(1), []);
        assert_eq!(detector.quiet(), [HeartbeatAction::Broadcast(HeartbeatFrame::Drain)]);
        let flush = [HeartbeatAction::Broadcast(HeartbeatFrame::Flush), HeartbeatAction::Tell(MeshVerdict::Flush)];
        assert_eq!(detector.handle_frame(2, HeartbeatFrame::Bye, now), flush);
        let stop = [HeartbeatAction::Broadcast(HeartbeatFrame::Stop), HeartbeatAction::Tell(MeshVerdict::StopNow)];
        assert_eq!(detector.drained(), stop);
    }

    #[test]
    fn others_believe_process_0() {
        let now = Instant::now();
        let since = Duration::from_secs(3);
        let told = [
            (HeartbeatFrame::Stop, MeshVerdict::StopNow),
            (HeartbeatFrame::Lost { process: 2 }, MeshVerdict::PeerLost { process: 2 }),
            (HeartbeatFrame::Stalled { process: 1, since }, MeshVerdict::PeerStalled { process: 1, since }),
        ];
        for (frame, verdict) in told {
            let mut detector = FailureDetector::new(1, 0..1, BOUND, now);
            assert_eq!(
                detector.handle_frame(0, HeartbeatFrame::Drain, now),
                [HeartbeatAction::Tell(MeshVerdict::Drain)]
            );
            assert_eq!(detector.quiet(), [], "process 0 knows of all");
            assert_eq!(
                detector.handle_frame(0, HeartbeatFrame::Flush, now),
                [HeartbeatAction::Tell(MeshVerdict::Flush)]
            );
            assert_eq!(detector.handle_frame(0, frame, now), [HeartbeatAction::Tell(verdict)]);
            assert_eq!(detector.closed(0), []);
        }
        let mut detector = FailureDetector::new(1, 0..1, BOUND, now);
        assert_eq!(detector.closed(0), [HeartbeatAction::Tell(MeshVerdict::PeerLost { process: 0 })]);
    }

    #[test]
    fn one_process_alone_agrees_with_itself() {
        let mut detector = FailureDetector::new(0, 0..0, BOUND, Instant::now());
        assert_eq!(verdict(&detector.quiet()), Some(MeshVerdict::Flush));
        assert_eq!(verdict(&detector.drained()), Some(MeshVerdict::StopNow));
    }
}
