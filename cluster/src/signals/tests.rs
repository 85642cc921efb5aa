//! Real signals, sent to a child process that runs this test again.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::*;

/// Set for the child of the test below.
const CHILD: &str = "HOPEVAL_TEST_SIGNALS";

#[test]
fn wakers_are_called_once_whenever_they_come() {
    let signals = Signals::default();
    let (send, receive) = mpsc::channel();
    let early = send.clone();
    signals.on_drain(move || early.send("early").unwrap());
    assert!(!signals.is_draining());
    signals.drain();
    signals.drain();
    assert!(signals.is_draining());
    signals.on_drain(move || send.send("late").unwrap());
    assert_eq!(receive.try_iter().collect::<Vec<_>>(), ["early", "late"]);
}

#[test]
fn the_first_signal_drains_and_the_second_stops() {
    let this = std::env::current_exe().unwrap();
    let args = ["--exact", "signals::tests::child", "--ignored", "--nocapture", "--quiet"];
    let mut command = Command::new(this);
    command.args(args).env(CHILD, "1").stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(lines.next().as_deref(), Some("ready"));
    send(&child, Signal::SIGTERM);
    assert_eq!(lines.next().as_deref(), Some("draining; press Ctrl-C again to stop now"));
    assert_eq!(lines.next().as_deref(), Some("woken"));
    send(&child, Signal::SIGINT);
    assert_eq!(child.wait().unwrap().code(), Some(exit::RESUMABLE.into()));
    assert_eq!(lines.next(), None, "the notice comes once");
}

fn send(child: &Child, signal: Signal) {
    kill(Pid::from_raw(child.id().try_into().unwrap()), signal).unwrap();
}

#[test]
#[ignore = "the child process of the test above"]
fn child() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let signals = install(DrainNotice::Print).unwrap();
    let (send, woken) = mpsc::channel();
    signals.on_drain(move || send.send(()).unwrap());
    writeln!(io::stderr(), "ready").unwrap();
    woken.recv_timeout(Duration::from_secs(20)).unwrap();
    writeln!(io::stderr(), "woken").unwrap();
    // Only the second signal, or the time limit, ends this wait.
    let (_keep, never) = mpsc::channel::<()>();
    let _ = never.recv_timeout(Duration::from_secs(20));
}
