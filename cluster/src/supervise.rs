//! Runs the processes of a mesh on one machine: starts them, passes signals on, and ends all when one ends.
//!
//! Children have process groups of their own, so that Ctrl-C reaches them once, through the supervisor. They die with
//! it: the kernel kills each child when its starting thread ends (Linux).

use std::fmt;
use std::io;
use std::net::TcpListener;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::exit;
use crate::signals::Signals;

/// Pause between two looks at the children.
const LOOK: Duration = Duration::from_millis(15);

/// Time left to the other children after a child failed or process 0 ended, and to process 0 after all others ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GracePeriods {
    /// Time to notice by themselves and to leave; then they get SIGTERM.
    pub notice: Duration,
    /// Time after SIGTERM; then they are killed, even if they are stopped.
    pub terminate: Duration,
}

impl Default for GracePeriods {
    fn default() -> Self {
        Self { notice: Duration::from_secs(10), terminate: Duration::from_secs(5) }
    }
}

/// The end of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChildEnd {
    /// With an exit code.
    Code(i32),
    /// By a signal.
    Signal(i32),
    /// By a signal of the supervisor, because another child had ended.
    Forced(i32),
}

impl fmt::Display for ChildEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |number: i32| Signal::try_from(number).map_or("an unknown signal", Signal::as_str);
        match *self {
            Self::Code(code) => write!(f, "exited with {code}"),
            Self::Signal(number) => write!(f, "was ended by {}", name(number)),
            Self::Forced(number) => write!(f, "was ended by the supervisor with {}", name(number)),
        }
    }
}

/// The ends of all children; the index is the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SupervisionEnd {
    /// One for each process.
    pub children: Vec<ChildEnd>,
}

impl SupervisionEnd {
    /// The exit code of the whole: 0 if all ended well. Otherwise the code of a lasting fault (a bug before a usage
    /// error before failed questions), if any child has one; else resumable.
    pub fn code(&self) -> u8 {
        let any = |code: u8| self.children.contains(&ChildEnd::Code(code.into()));
        if self.children.iter().all(|end| *end == ChildEnd::Code(exit::DONE.into())) {
            return exit::DONE;
        }
        let lasting = [exit::BUG, exit::USAGE, exit::FAILED_QUESTIONS].into_iter().find(|code| any(*code));
        lasting.unwrap_or(exit::RESUMABLE)
    }
}

/// Why the processes could not be run.
#[derive(Debug, thiserror::Error)]
pub enum SuperviseError {
    /// No free ports on the loopback interface.
    #[error("no free port on the loopback interface for process {process}")]
    Ports {
        /// The process without a port.
        process: usize,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// A child did not start; the earlier ones were killed.
    #[error("process {process} cannot be started: {program}")]
    Spawn {
        /// The process.
        process: usize,
        /// The program of the process.
        program: String,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// A child could not be waited for.
    #[error("process {process} cannot be waited for")]
    Wait {
        /// The process.
        process: usize,
        /// The system's error.
        #[source]
        source: io::Error,
    },
}

/// Starts `processes` children on free loopback ports and returns when all have ended. `command` gets the index of the
/// process and the addresses of all. Children have no standard input; when `signals` drains, each gets one SIGTERM.
///
/// # Errors
/// See [`SuperviseError`]; no child outlives the call.
pub fn supervise_processes(
    processes: usize,
    grace: GracePeriods,
    signals: &Signals,
    command: impl Fn(usize, &[String]) -> Command,
) -> Result<SupervisionEnd, SuperviseError> {
    let hosts = free_ports(processes)?;
    let mut children = ChildProcesses { children: Vec::with_capacity(processes) };
    for process in 0..processes {
        let mut command = command(process, &hosts);
        command.stdin(Stdio::null()).process_group(0);
        die_with_parent(&mut command);
        let child = command.spawn().map_err(|source| SuperviseError::Spawn {
            process,
            program: command.get_program().to_string_lossy().into_owned(),
            source,
        })?;
        children.children.push(SupervisedChild { child, end: None, forced: false });
    }
    let (drain, drained) = mpsc::channel();
    signals.on_drain(move || {
        // An error means all children have ended.
        let _ = drain.send(());
    });
    children.wait_for_all(grace, &drained)
}

/// Addresses of currently free ports. All are held until all are found, so that they differ.
fn free_ports(processes: usize) -> Result<Vec<String>, SuperviseError> {
    let mut held = Vec::new();
    let mut hosts = Vec::new();
    for process in 0..processes {
        let listener = TcpListener::bind(("127.0.0.1", 0));
        let found = listener.and_then(|l| Ok((l.local_addr()?.to_string(), l)));
        let (address, listener) = found.map_err(|source| SuperviseError::Ports { process, source })?;
        hosts.push(address);
        held.push(listener);
    }
    Ok(hosts)
}

/// Makes the kernel kill the child when its starting thread ends.
#[cfg(target_os = "linux")]
pub fn die_with_parent(command: &mut Command) {
    let parent = Pid::this();
    let before_exec = move || {
        nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
        // If the parent died before the line above, this child has another parent already.
        if Pid::parent() == parent { Ok(()) } else { Err(io::Error::from_raw_os_error(nix::libc::ESRCH)) }
    };
    // SAFETY: between fork and exec the closure only makes two system calls (prctl, getppid) and builds errors from
    // numbers; it does not allocate, lock or touch memory used by other threads.
    unsafe {
        command.pre_exec(before_exec);
    }
}

/// Does nothing on other systems: the child lives on.
#[cfg(not(target_os = "linux"))]
pub fn die_with_parent(_command: &mut Command) {}

struct SupervisedChild {
    child: Child,
    end: Option<ChildEnd>,
    /// The supervisor sent it a signal because another child had ended.
    forced: bool,
}

/// The children. Dropping it kills the living ones.
struct ChildProcesses {
    children: Vec<SupervisedChild>,
}

impl ChildProcesses {
    fn wait_for_all(
        mut self,
        grace: GracePeriods,
        drained: &mpsc::Receiver<()>,
    ) -> Result<SupervisionEnd, SuperviseError> {
        let mut draining = Some(drained);
        let mut first_loss: Option<Instant> = None;
        let mut terminated = false;
        loop {
            self.reap()?;
            if let Some(children) = self.children.iter().map(|c| c.end).collect() {
                return Ok(SupervisionEnd { children });
            }
            let done = ChildEnd::Code(exit::DONE.into());
            let mut ended = self.children.iter().enumerate().filter_map(|(process, c)| Some((process, c.end?)));
            // Process 0 leaves last. Processes still there then have missed its goodbye, or are stopped. The others
            // leave at its goodbye, so it follows them soon, or was stopped in between.
            let alone = self.children.len() > 1 && self.children.iter().skip(1).all(|child| child.end.is_some());
            if first_loss.is_none() && (alone || ended.any(|(process, end)| process == 0 || end != done)) {
                first_loss = Some(Instant::now());
            }
            let waited = first_loss.map_or(Duration::ZERO, |at| at.elapsed());
            if first_loss.is_some() && waited >= grace.notice && !terminated {
                terminated = true;
                self.force_end(Signal::SIGTERM);
            }
            if terminated && waited >= grace.notice + grace.terminate {
                self.force_end(Signal::SIGKILL);
            }
            match draining {
                Some(drained) => match drained.recv_timeout(LOOK) {
                    Ok(()) => {
                        draining = None;
                        self.signal_living(Signal::SIGTERM);
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => draining = None,
                },
                None => std::thread::sleep(LOOK),
            }
        }
    }

    fn reap(&mut self) -> Result<(), SuperviseError> {
        for (process, child) in self.children.iter_mut().enumerate().filter(|(_, c)| c.end.is_none()) {
            let status = child.child.try_wait().map_err(|source| SuperviseError::Wait { process, source })?;
            if let Some(status) = status {
                let end = child_end(status, child.forced);
                tracing::info!(process, %end, "a process ended");
                child.end = Some(end);
            }
        }
        Ok(())
    }

    /// Sends a signal to all living children. They are not reaped yet, so their process numbers are still their own.
    fn signal_living(&self, signal: Signal) {
        for child in self.children.iter().filter(|c| c.end.is_none()) {
            if let Ok(pid) = i32::try_from(child.child.id()) {
                // If it has ended meanwhile, the next look shows it.
                let _ = kill(Pid::from_raw(pid), signal);
            }
        }
    }

    fn force_end(&mut self, signal: Signal) {
        self.children.iter_mut().for_each(|child| child.forced = true);
        self.signal_living(signal);
    }
}

impl Drop for ChildProcesses {
    fn drop(&mut self) {
        self.signal_living(Signal::SIGKILL);
        for child in self.children.iter_mut().filter(|c| c.end.is_none()) {
            // The kill is on its way; this only removes the entry from the process table.
            let _ = child.child.wait();
        }
    }
}

fn child_end(status: ExitStatus, forced: bool) -> ChildEnd {
    match (status.code(), status.signal()) {
        (Some(code), _) => ChildEnd::Code(code),
        (None, Some(signal)) if forced => ChildEnd::Forced(signal),
        (None, signal) => ChildEnd::Signal(signal.unwrap_or(0)),
    }
}

#[cfg(test)]
mod tests;
