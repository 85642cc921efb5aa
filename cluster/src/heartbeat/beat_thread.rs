//! The heartbeat thread: sends beats, receives the others' frames and reports verdicts.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::connection::HeartbeatConnection;
use super::failure_detector::{FailureDetector, HeartbeatAction};
use super::frame::{HeartbeatFrame, LENGTH};
use super::{HeartbeatSettings, MeshVerdict};

/// Longest pause between two looks at the sockets.
const LOOK: Duration = Duration::from_millis(25);
/// Longest wait of a goodbye for the others to receive it.
pub(super) const FAREWELL: Duration = Duration::from_secs(2);

/// A command to the heartbeat thread from another thread of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HeartbeatCommand {
    Tell(ClosingStep),
    Goodbye,
    Abandon,
}

/// A step of this process towards its end, to be sent to the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClosingStep {
    Drain,
    Quiet,
    Drained,
}

/// The thread's state.
pub(super) struct HeartbeatThread<B, V> {
    /// This is the thread of process 0.
    pub(super) leads: bool,
    pub(super) detector: FailureDetector,
    pub(super) connections: Vec<HeartbeatConnection>,
    pub(super) settings: HeartbeatSettings,
    pub(super) commands: Receiver<HeartbeatCommand>,
    pub(super) beats: B,
    pub(super) on_verdict: V,
}

impl<B: FnMut() -> u64, V: FnMut(MeshVerdict)> HeartbeatThread<B, V> {
    pub(super) fn run(mut self) {
        let interval = self.settings.interval();
        let mut next_beat = Instant::now();
        let mut farewell: Option<Instant> = None;
        loop {
            let pause = next_beat.saturating_duration_since(Instant::now()).min(LOOK);
            let mut beat_now = false;
            match self.commands.recv_timeout(pause) {
                Ok(HeartbeatCommand::Abandon) => return,
                Err(RecvTimeoutError::Disconnected) if farewell.is_none() => return,
                Ok(HeartbeatCommand::Goodbye) => {
                    farewell = Some(Instant::now() + FAREWELL);
                    self.broadcast(HeartbeatFrame::Bye);
                    self.flush();
                }
                Ok(HeartbeatCommand::Tell(step)) => {
                    let actions = match step {
                        ClosingStep::Drain => self.detector.drain(),
                        ClosingStep::Quiet => self.detector.quiet(),
                        ClosingStep::Drained => self.detector.drained(),
                    };
                    self.perform_actions(actions);
                    // Changes are sent at once.
                    beat_now = true;
                }
                Err(_) => {}
            }
            // Receive everything before a verdict: after a stop of this process the sockets are full of signs of life.
            self.receive_frames();
            // Process 0 leaves last: it no longer watches anybody. The others watch it until its own goodbye.
            if let Some(until) = farewell
                && (self.connections.is_empty() || self.leads && Instant::now() >= until)
            {
                return;
            }
            if farewell.is_none() || !self.leads {
                let actions = self.detector.tick(Instant::now());
                self.perform_actions(actions);
            }
            if beat_now || Instant::now() >= next_beat {
                if farewell.is_none() {
                    let beat = self.detector.beat_frame((self.beats)());
                    self.broadcast(beat);
                }
                next_beat = Instant::now() + interval;
            }
            self.flush();
        }
    }

    fn receive_frames(&mut self) {
        for at in 0..self.connections.len() {
            let frames = self.connections[at].receive();
            let process = self.connections[at].process;
            for frame in frames {
                if frame == HeartbeatFrame::Bye && !self.leads {
                    // Closing the socket confirms the goodbye to process 0. Process 0 itself goes on beating to those
                    // who have said goodbye.
                    self.connections[at].open = false;
                }
                let actions = self.detector.handle_frame(process, frame, Instant::now());
                self.perform_actions(actions);
            }
            if !self.connections[at].open {
                let actions = self.detector.closed(process);
                self.perform_actions(actions);
            }
        }
        self.connections.retain(|connection| connection.open);
    }

    /// Sends to the other processes first: a verdict may end this one.
    fn perform_actions(&mut self, actions: Vec<HeartbeatAction>) {
        for action in &actions {
            if let HeartbeatAction::Broadcast(frame) = action {
                self.broadcast(*frame);
            }
        }
        self.flush();
        for action in actions {
            if let HeartbeatAction::Tell(verdict) = action {
                (self.on_verdict)(verdict);
            }
        }
    }

    fn broadcast(&mut self, frame: HeartbeatFrame) {
        for connection in &mut self.connections {
            // A peer not reading for minutes is about to be declared stalled. Old beats are useless to it.
            if connection.outgoing.len() < 64 * LENGTH || !matches!(frame, HeartbeatFrame::Beat { .. }) {
                connection.outgoing.extend_from_slice(&frame.encode());
            }
        }
    }

    fn flush(&mut self) {
        for connection in &mut self.connections {
            connection.send();
        }
    }
}
