//! Meshes of several processes, simulated by threads on loopback ports.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use timely::WorkerConfig;
use timely::dataflow::operators::{Exchange, Input, Inspect, Probe};

use super::hello::{FinalMessage, SocketKind, VERSION, read_reply};
use super::*;

const PATIENCE: Duration = Duration::from_secs(20);

/// Addresses of free ports; they are free a moment later too, but for very bad luck.
fn hosts(n: usize) -> Vec<String> {
    let listeners: Vec<_> = (0..n).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    listeners.iter().map(|l| l.local_addr().unwrap().to_string()).collect()
}

fn settings(process: usize, hosts: &[String]) -> MeshSettings {
    MeshSettings { process, hosts: hosts.to_vec(), workers: 1, token: [7; 32], deadline: PATIENCE }
}

fn role(process: usize) -> FormingRole {
    if process == 0 { FormingRole::Lead(b"run 1, generation 2".to_vec()) } else { FormingRole::Follow }
}

/// Forms on a thread; the channel yields the result.
fn forming(settings: MeshSettings) -> mpsc::Receiver<Result<FormedMesh, MeshError>> {
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        let role = role(settings.process);
        let _ = send.send(form(&settings, role));
    });
    receive
}

fn formed(receive: &mpsc::Receiver<Result<FormedMesh, MeshError>>) -> FormedMesh {
    receive.recv_timeout(PATIENCE).unwrap().unwrap()
}

fn failed(receive: &mpsc::Receiver<Result<FormedMesh, MeshError>>) -> MeshError {
    receive.recv_timeout(PATIENCE).unwrap().unwrap_err()
}

/// Sends 300 numbers around and gives the sum of those that arrived in this process.
fn sum(formed: FormedMesh) -> u64 {
    let FormedMesh { allocators, socket_threads, heartbeat_sockets, .. } = formed;
    let guards = timely::execute::execute_from(allocators, Box::new(()), WorkerConfig::default(), |worker| {
        let (send, receive) = mpsc::channel();
        let index = worker.index() as u64;
        let peers = worker.peers() as u64;
        worker.dataflow::<u64, _, _>(|scope| {
            let (mut input, stream) = scope.new_input::<Vec<u64>>();
            stream.exchange(|n: &u64| *n / 7).inspect(move |n| send.send(*n).unwrap()).probe();
            (0..300).filter(|n| n % peers == index).for_each(|n| input.send(n));
        });
        while worker.has_dataflows() {
            worker.step_or_park(None);
        }
        receive.try_iter().sum::<u64>()
    })
    .unwrap();
    let sum = guards.join().into_iter().map(|r| r.unwrap()).sum();
    socket_threads.close().unwrap();
    drop(heartbeat_sockets);
    sum
}

#[test]
fn three_processes_form_a_mesh_and_run_a_dataflow() {
    let hosts = hosts(3);
    // The last process first: processes may start in any order.
    let waiting: Vec<_> = (0..3).rev().map(|p| forming(MeshSettings { workers: 2, ..settings(p, &hosts) })).collect();
    let meshes: Vec<_> = waiting.iter().map(formed).collect();
    assert!(meshes.iter().all(|mesh| mesh.welcome == b"run 1, generation 2" && mesh.allocators.len() == 2));
    let running: Vec<_> = meshes.into_iter().map(|mesh| thread::spawn(move || sum(mesh))).collect();
    let total: u64 = running.into_iter().map(|t| t.join().unwrap()).sum();
    assert_eq!(total, 299 * 300 / 2);
}

#[test]
fn one_process_needs_no_socket() {
    let alone = MeshSettings { workers: 3, ..settings(0, &["never-resolved.invalid:1".to_owned()]) };
    assert_eq!(sum(form(&alone, role(0)).unwrap()), 299 * 300 / 2);
}

#[test]
fn strangers_on_the_port_hold_nobody_up() {
    let hosts = hosts(2);
    let lead = forming(settings(0, &hosts));
    let mut silent = connect(&hosts[0]);
    let mut chatty = connect(&hosts[0]);
    chatty.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    assert_eq!(chatty.read(&mut [0; 8]).unwrap_or(0), 0, "the stranger is shut out without an answer");
    let follower = forming(settings(1, &hosts));
    formed(&lead);
    formed(&follower);
    assert_eq!(silent.read(&mut [0; 8]).unwrap_or(0), 0);
}

#[test]
fn another_token_or_shape_is_refused_with_a_reason() {
    let hosts = hosts(2);
    let lead = forming(MeshSettings { deadline: Duration::from_secs(1), ..settings(0, &hosts) });
    let refused = |settings: MeshSettings| match failed(&forming(settings)) {
        MeshError::Refused { process: 0, reason, .. } => reason,
        other => panic!("{other}"),
    };
    assert_eq!(refused(MeshSettings { token: [8; 32], ..settings(1, &hosts) }), MeshRefusal::Token);
    let workers = refused(MeshSettings { workers: 4, ..settings(1, &hosts) });
    assert_eq!(workers, MeshRefusal::Workers { ours: 1, theirs: 4 });
    let more = [hosts.clone(), vec!["127.0.0.1:9".to_owned()]].concat();
    assert_eq!(refused(settings(2, &more)), MeshRefusal::Processes { ours: 2, theirs: 3 });
    match failed(&lead) {
        MeshError::Missing { missing, notes, .. } => {
            assert_eq!(missing, [MissingProcess { process: 1, address: hosts[1].clone() }]);
            assert_eq!(notes.len(), 3);
            assert!(notes[0].ends_with("as process 1 was refused: the token is that of another run"), "{notes:?}");
        }
        other => panic!("{other}"),
    }
}

#[test]
fn another_version_is_refused_by_name() {
    let hosts = hosts(2);
    let lead = forming(settings(0, &hosts));
    let mut old = connect(&hosts[0]);
    old.write_all(b"hopeval\n\xc8\x00").unwrap();
    assert_eq!(read_reply(&old).unwrap(), Err(MeshRefusal::Version { ours: VERSION.into(), theirs: 200 }));
    let follower = forming(settings(1, &hosts));
    formed(&lead);
    formed(&follower);
}

#[test]
fn a_duplicate_process_is_refused_and_a_dead_one_replaced() {
    let hosts = hosts(3);
    let lead = forming(settings(0, &hosts));
    let handshake = || {
        let mut stream = connect(&hosts[0]);
        stream.write_all(&settings(1, &hosts).hello_to(SocketKind::Heartbeat, 0, [0; 16]).encode()).unwrap();
        let reply = read_reply(&stream).unwrap();
        (stream, reply)
    };
    let (first, reply) = handshake();
    assert_eq!(reply, Ok(()));
    let (_, reply) = handshake();
    assert_eq!(reply, Err(MeshRefusal::Taken { process: 1 }));
    drop(first);
    let others = [forming(settings(1, &hosts)), forming(settings(2, &hosts))];
    formed(&lead);
    others.iter().for_each(|other| drop(formed(other)));
}

#[test]
fn who_is_missing_at_the_deadline_is_named_everywhere() {
    let hosts = hosts(3);
    let lead = forming(MeshSettings { deadline: Duration::from_millis(600), ..settings(0, &hosts) });
    let follower = forming(settings(1, &hosts));
    let absent = MissingProcess { process: 2, address: hosts[2].clone() };
    for side in [&lead, &follower] {
        match failed(side) {
            MeshError::Missing { missing, .. } => assert_eq!(missing, std::slice::from_ref(&absent)),
            other => panic!("{other}"),
        }
    }
    let begun = Instant::now();
    let alone = forming(MeshSettings { deadline: Duration::from_millis(200), ..settings(1, &hosts) });
    let message = failed(&alone).to_string();
    assert!(begun.elapsed() < Duration::from_secs(5));
    assert!(message.starts_with(&format!("missing after 0.2 s: process 0 ({})", hosts[0])), "{message}");
}

#[test]
fn a_process_of_an_earlier_generation_cannot_join() {
    let hosts = hosts(2);
    let lead = forming(settings(0, &hosts));
    let mut stream = connect(&hosts[0]);
    let me = settings(1, &hosts);
    stream.write_all(&me.hello_to(SocketKind::Heartbeat, 0, [0; 16]).encode()).unwrap();
    assert_eq!(read_reply(&stream).unwrap(), Ok(()));
    let FinalMessage::Welcome { nonce, .. } = FinalMessage::read(&stream).unwrap() else { panic!("no welcome") };
    let data = |nonce| {
        let mut stream = connect(&hosts[0]);
        stream.write_all(&me.hello_to(SocketKind::Data, 0, nonce).encode()).unwrap();
        let reply = read_reply(&stream).unwrap();
        (stream, reply)
    };
    assert_eq!(data([0; 16]).1, Err(MeshRefusal::Generation));
    let (_kept, reply) = data(nonce);
    assert_eq!(reply, Ok(()));
    // The mesh is formed. Its guard would wait for a socket without a peer, so it is leaked.
    std::mem::forget(formed(&lead));
}

#[test]
fn a_port_in_use_and_senseless_settings_are_errors() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let hosts = [taken.local_addr().unwrap().to_string(), "127.0.0.1:9".to_owned()];
    let busy = MeshSettings { deadline: Duration::from_millis(100), ..settings(0, &hosts) };
    let error = form(&busy, role(0)).unwrap_err();
    assert!(matches!(&error, MeshError::Bind { process: 0, address, .. } if *address == hosts[0]), "{error}");
    let error = form(&settings(2, &hosts), FormingRole::Follow).unwrap_err();
    assert!(matches!(error, MeshError::Settings(_)), "{error}");
    let error = form(&settings(1, &hosts), role(0)).unwrap_err();
    assert!(matches!(error, MeshError::Settings(_)), "{error}");
}

/// Connects as soon as the address has a listener.
fn connect(address: &str) -> TcpStream {
    let end = Instant::now() + PATIENCE;
    loop {
        match TcpStream::connect(address) {
            Ok(stream) => {
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                return stream;
            }
            Err(e) => assert!(Instant::now() < end, "{e}"),
        }
        thread::yield_now();
    }
}
