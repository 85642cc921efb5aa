//! Children that are shell scripts: how they end, and how their supervisor does.

use std::sync::Mutex;

use super::*;

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

fn quick() -> GracePeriods {
    GracePeriods { notice: Duration::from_millis(100), terminate: Duration::from_millis(200) }
}

fn run(scripts: &[&str], grace: GracePeriods) -> SupervisionEnd {
    supervise_processes(scripts.len(), grace, &Signals::default(), |process, _| shell(scripts[process])).unwrap()
}

#[test]
fn every_process_gets_its_index_and_the_same_addresses() {
    let seen = Mutex::new(Vec::new());
    let ending = supervise_processes(3, quick(), &Signals::default(), |process, hosts| {
        seen.lock().unwrap().push((process, hosts.to_vec()));
        shell("exit 0")
    })
    .unwrap();
    assert_eq!((ending.code(), ending.children), (exit::DONE, vec![ChildEnd::Code(0); 3]));
    let seen = seen.into_inner().unwrap();
    let (_, hosts) = &seen[0];
    assert!(seen.iter().enumerate().all(|(n, (process, theirs))| n == *process && theirs == hosts));
    assert!(hosts.iter().all(|h| h.starts_with("127.0.0.1:")));
    assert!(hosts[0] != hosts[1] && hosts[1] != hosts[2] && hosts[0] != hosts[2]);
}

#[test]
fn the_others_get_time_to_leave_by_themselves() {
    let grace = GracePeriods { notice: Duration::from_secs(20), terminate: Duration::from_secs(20) };
    let ending = run(&["exit 75", "exit 75", "exit 2"], grace);
    assert_eq!(ending.children, [ChildEnd::Code(75), ChildEnd::Code(75), ChildEnd::Code(2)]);
    assert_eq!(ending.code(), exit::USAGE);
}

#[test]
fn a_killed_child_ends_all_as_resumable() {
    // The second ends only on a signal; the third is stopped and ignores SIGTERM, so it must be killed.
    let scripts = ["kill -KILL $$", "exec sleep 60", "trap '' TERM; kill -STOP $$; sleep 60"];
    let ending = run(&scripts, quick());
    let term = ChildEnd::Forced(Signal::SIGTERM as i32);
    let killed = ChildEnd::Forced(Signal::SIGKILL as i32);
    assert_eq!(ending.children, [ChildEnd::Signal(Signal::SIGKILL as i32), term, killed]);
    assert_eq!(ending.code(), exit::RESUMABLE);
    assert_eq!(ending.children[0].to_string(), "was ended by SIGKILL");
}

#[test]
fn who_is_stopped_when_process_0_is_done_is_not_waited_for() {
    let ending = run(&["exit 0", "kill -STOP $$; sleep 60", "exit 0"], quick());
    assert_eq!((ending.children[0], ending.children[2]), (ChildEnd::Code(0), ChildEnd::Code(0)));
    assert!(matches!(ending.children[1], ChildEnd::Forced(_)), "{:?}", ending.children[1]);
    assert_eq!(ending.code(), exit::RESUMABLE);
}

#[test]
fn process_0_stopped_after_its_goodbye_is_not_waited_for() {
    let ending = run(&["kill -STOP $$; sleep 60", "exit 0", "exit 0"], quick());
    assert!(matches!(ending.children[0], ChildEnd::Forced(_)), "{:?}", ending.children[0]);
    assert_eq!(ending.children[1..], [ChildEnd::Code(0); 2]);
    assert_eq!(ending.code(), exit::RESUMABLE);
    // It has time to leave by itself.
    let grace = GracePeriods { notice: Duration::from_secs(20), terminate: Duration::from_secs(20) };
    assert_eq!(run(&["sleep 0.2", "exit 0"], grace).code(), exit::DONE);
}

#[test]
fn a_drain_is_passed_on_once_to_each_child() {
    let signals = Signals::default();
    signals.drain();
    // A child that started to listen after the signal would miss it, so the shell waits for it from its first moment:
    // by default SIGTERM ends it.
    let ending = supervise_processes(2, quick(), &signals, |_, _| shell("exec sleep 60")).unwrap();
    assert_eq!(ending.children, [ChildEnd::Signal(Signal::SIGTERM as i32); 2]);
    assert_eq!(ending.code(), exit::RESUMABLE);
}

#[test]
fn what_cannot_be_cured_by_starting_again_wins() {
    let code = |ends: &[ChildEnd]| SupervisionEnd { children: ends.to_vec() }.code();
    assert_eq!(code(&[ChildEnd::Code(0), ChildEnd::Code(1)]), exit::FAILED_QUESTIONS);
    assert_eq!(code(&[ChildEnd::Code(75), ChildEnd::Code(1), ChildEnd::Code(2)]), exit::USAGE);
    assert_eq!(code(&[ChildEnd::Code(2), ChildEnd::Code(101)]), exit::BUG);
    assert_eq!(code(&[ChildEnd::Code(0), ChildEnd::Signal(9)]), exit::RESUMABLE);
    assert_eq!(code(&[ChildEnd::Code(0), ChildEnd::Code(75)]), exit::RESUMABLE);
}

#[test]
fn a_program_that_does_not_exist_leaves_no_child_behind() {
    let begun = Instant::now();
    let error = supervise_processes(2, quick(), &Signals::default(), |process, _| match process {
        0 => shell("exec sleep 60"),
        _ => Command::new("no-such-program-of-hopeval"),
    })
    .unwrap_err();
    assert!(matches!(error, SuperviseError::Spawn { process: 1, .. }), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(20), "the first child was killed, not waited for");
}
