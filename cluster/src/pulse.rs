//! Heartbeats between process 0 and every other, on a thread of their own beside timely's sockets.
//!
//! Timely notices a peer that died, and nothing else: not one that is stopped, not a network that was cut, not a
//! worker that hangs. So each process tells, a few times within the bound, how far the step counter of its workers
//! is. Process 0 watches the others, the others watch process 0, and what process 0 finds it tells all.
//!
//! | seen | verdict |
//! | --- | --- |
//! | a socket closed without a goodbye | [`Verdict::PeerLost`] |
//! | nothing heard, or the counter still, for the stall bound | [`Verdict::PeerStalled`] |
//! | some process was asked to drain | [`Verdict::Drain`] |
//! | every process is quiet | [`Verdict::Flush`] |
//! | every process has drained | [`Verdict::StopNow`] |
//!
//! A verdict is reported once; what to do about it is the caller's. The rules are in `watch`, without socket and clock.

mod frame;
mod watch;

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use frame::{Frame, LENGTH};
use watch::{Act, Watch};

/// Longest pause between two looks at the sockets.
const LOOK: Duration = Duration::from_millis(25);
/// How long a goodbye waits for the others to have heard it.
const FAREWELL: Duration = Duration::from_secs(2);

/// How patient a mesh is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PulseSettings {
    /// After so long without a sign a process counts as stalled.
    pub stall_bound: Duration,
}

impl Default for PulseSettings {
    fn default() -> Self {
        Self { stall_bound: Duration::from_secs(30) }
    }
}

impl PulseSettings {
    /// Time between two beats: a tenth of the bound, at most half a second. Workers must step at least so often, also
    /// when they have nothing to do: park with this as the limit.
    pub fn interval(&self) -> Duration {
        (self.stall_bound / 10).min(Duration::from_millis(500))
    }
}

/// What became of the mesh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The process went away; leave as resumable.
    PeerLost {
        /// Its index.
        process: usize,
    },
    /// The process shows no sign of life or of work; leave as resumable.
    PeerStalled {
        /// Its index; may be the own one, when process 0 gave up on this process.
        process: usize,
        /// For how long.
        since: Duration,
    },
    /// Another process was asked to stop: admit nothing more, finish what is in flight, then say `quiet`.
    Drain,
    /// All are quiet, so nothing is computed any more: make durable what is not, then say `drained`.
    Flush,
    /// All have drained: leave as resumable, together.
    StopNow,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PeerLost { process } => write!(f, "process {process} was lost"),
            Self::PeerStalled { process, since } => {
                write!(f, "process {process} made no progress for {:.1} s", since.as_secs_f64())
            }
            Self::Drain => f.write_str("another process was asked to stop"),
            Self::Flush => f.write_str("no process has a question in flight"),
            Self::StopNow => f.write_str("all processes have drained"),
        }
    }
}

/// The pulse sockets of one process, as the mesh formed them: all others for process 0, process 0 for the others.
#[derive(Debug)]
pub struct Link {
    process: usize,
    peers: Vec<(usize, TcpStream)>,
}

impl Link {
    pub(crate) fn new(process: usize, peers: Vec<(usize, TcpStream)>) -> Self {
        Self { process, peers }
    }

    pub(crate) fn peers(&self) -> &[(usize, TcpStream)] {
        &self.peers
    }
}

/// A running pulse. Dropped without [`Pulse::goodbye`] it closes its sockets, and the others take the process for lost.
#[derive(Debug)]
pub struct Pulse {
    voice: Voice,
    thread: Option<JoinHandle<()>>,
}

/// Tells the pulse what this process is up to; for any thread.
#[derive(Debug, Clone)]
pub struct Voice(Sender<Command>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Command {
    Drain,
    Quiet,
    Drained,
    Busy(bool),
    Goodbye,
    Abandon,
}

impl Pulse {
    /// Starts to beat. `beats` is sampled at every beat: the number of steps that the workers of this process took; it
    /// must go on growing, else the process counts as stalled. Before its first step a process is starting up, and only
    /// its silence counts. `on_verdict` is called on the thread of the pulse.
    ///
    /// # Errors
    /// If a socket or the thread cannot be set up.
    pub fn start(
        link: Link,
        settings: PulseSettings,
        beats: impl Fn() -> u64 + Send + 'static,
        on_verdict: impl FnMut(Verdict) + Send + 'static,
    ) -> io::Result<Self> {
        let watch = Watch::new(link.process, link.peers.iter().map(|(p, _)| *p), settings.stall_bound, Instant::now());
        let mut wires = Vec::new();
        for (process, stream) in link.peers {
            stream.set_nonblocking(true)?;
            wires.push(Wire { process, stream, incoming: Vec::new(), outgoing: Vec::new(), open: true });
        }
        let (send, commands) = mpsc::channel();
        let heart = Heart { watch, wires, settings, commands, beats, on_verdict };
        let thread = std::thread::Builder::new().name("pulse".to_owned()).spawn(move || heart.run())?;
        Ok(Self { voice: Voice(send), thread: Some(thread) })
    }

    /// A handle for other threads.
    pub fn voice(&self) -> Voice {
        self.voice.clone()
    }

    /// Ends the pulse because the work is done: the others will not take the closed socket for a loss. Waits until they
    /// heard it, at most two seconds.
    pub fn goodbye(mut self) {
        self.voice.say(Command::Goodbye);
        self.join();
    }

    fn join(&mut self) {
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
            && thread.join().is_err()
        {
            tracing::error!("the pulse thread panicked");
        }
    }
}

impl Drop for Pulse {
    fn drop(&mut self) {
        self.voice.say(Command::Abandon);
        self.join();
    }
}

impl Voice {
    /// This process was asked to stop; all others will hear [`Verdict::Drain`].
    pub fn drain(&self) {
        self.say(Command::Drain);
    }

    /// This process has no question in flight, and gets none any more. When all have said so, all hear
    /// [`Verdict::Flush`].
    pub fn quiet(&self) {
        self.say(Command::Quiet);
    }

    /// This process has made everything durable, after [`Verdict::Flush`]. When all have said so, all hear
    /// [`Verdict::StopNow`].
    pub fn drained(&self) {
        self.say(Command::Drained);
    }

    /// Whether the workers are at a long piece of work between two steps (building an index): only silence counts then.
    pub fn busy(&self, busy: bool) {
        self.say(Command::Busy(busy));
    }

    fn say(&self, command: Command) {
        // An error means that the pulse has ended, and nobody listens.
        let _ = self.0.send(command);
    }
}

/// The thread's state.
struct Heart<B, V> {
    watch: Watch,
    wires: Vec<Wire>,
    settings: PulseSettings,
    commands: Receiver<Command>,
    beats: B,
    on_verdict: V,
}

/// One socket, never blocking.
struct Wire {
    process: usize,
    stream: TcpStream,
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
    open: bool,
}

impl<B: Fn() -> u64, V: FnMut(Verdict)> Heart<B, V> {
    fn run(mut self) {
        let interval = self.settings.interval();
        let mut next_beat = Instant::now();
        let mut farewell = None;
        loop {
            let pause = next_beat.saturating_duration_since(Instant::now()).min(LOOK);
            let mut beat_now = false;
            match self.commands.recv_timeout(pause) {
                Ok(Command::Abandon) => return,
                Err(RecvTimeoutError::Disconnected) if farewell.is_none() => return,
                Ok(Command::Goodbye) => {
                    farewell = Some(Instant::now() + FAREWELL);
                    self.broadcast(Frame::Bye);
                    self.flush();
                }
                Ok(command) => {
                    let acts = match command {
                        Command::Drain => self.watch.drain(),
                        Command::Quiet => self.watch.quiet(),
                        Command::Drained => self.watch.drained(),
                        _ => {
                            self.watch.busy(command == Command::Busy(true));
                            Vec::new()
                        }
                    };
                    self.act(acts);
                    // What changed is told at once.
                    beat_now = true;
                }
                Err(_) => {}
            }
            // Hear everything before judging: after a stop of this very process the sockets are full of signs of life.
            self.hear();
            if let Some(until) = farewell {
                if self.wires.is_empty() || Instant::now() >= until {
                    return;
                }
            } else {
                let acts = self.watch.tick(Instant::now());
                self.act(acts);
                if beat_now || Instant::now() >= next_beat {
                    let beat = self.watch.beat((self.beats)());
                    self.broadcast(beat);
                    next_beat = Instant::now() + interval;
                }
            }
            self.flush();
        }
    }

    fn hear(&mut self) {
        for at in 0..self.wires.len() {
            let frames = self.wires[at].receive();
            let process = self.wires[at].process;
            for frame in frames {
                if frame == Frame::Bye {
                    // Closing tells the other side that its goodbye was heard.
                    self.wires[at].open = false;
                }
                let acts = self.watch.frame(process, frame, Instant::now());
                self.act(acts);
            }
            if !self.wires[at].open {
                let acts = self.watch.closed(process);
                self.act(acts);
            }
        }
        self.wires.retain(|wire| wire.open);
    }

    /// Tells the other processes first: a verdict may end this one.
    fn act(&mut self, acts: Vec<Act>) {
        for act in &acts {
            if let Act::Broadcast(frame) = act {
                self.broadcast(*frame);
            }
        }
        self.flush();
        for act in acts {
            if let Act::Tell(verdict) = act {
                (self.on_verdict)(verdict);
            }
        }
    }

    fn broadcast(&mut self, frame: Frame) {
        for wire in &mut self.wires {
            // A peer that takes nothing for minutes is about to be declared stalled; old beats are worth nothing to it.
            if wire.outgoing.len() < 64 * LENGTH || !matches!(frame, Frame::Beat { .. }) {
                wire.outgoing.extend_from_slice(&frame.encode());
            }
        }
    }

    fn flush(&mut self) {
        for wire in &mut self.wires {
            wire.send();
        }
    }
}

impl Wire {
    fn send(&mut self) {
        while !self.outgoing.is_empty() {
            match self.stream.write(&self.outgoing) {
                Ok(n) => drop(self.outgoing.drain(..n)),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                // A broken socket shows when it is read, after what it still holds.
                Err(_) => return,
            }
        }
    }

    fn receive(&mut self) -> Vec<Frame> {
        let mut buffer = [0u8; 1024];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => self.open = false,
                Ok(n) => {
                    self.incoming.extend_from_slice(&buffer[..n]);
                    continue;
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                Err(_) => self.open = false,
            }
            break;
        }
        let whole = self.incoming.len() / LENGTH * LENGTH;
        let mut frames = Vec::new();
        for bytes in self.incoming.drain(..whole).as_slice().chunks_exact(LENGTH) {
            match Frame::decode(bytes) {
                Some(frame) => frames.push(frame),
                None => self.open = false,
            }
        }
        frames
    }
}

#[cfg(test)]
mod tests;
