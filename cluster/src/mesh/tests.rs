//! Meshes of several processes, simulated by threads on loopback ports.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use timely::WorkerConfig;
use timely::dataflow::operators::{Exchange, Input, Inspect, Probe};

use super::data_sockets::attempt;
use super::hello::{FinalMessage, FormingNonce, HELLO, Hello, SocketKind, VERSION, read_challenge, write_challenge};
use super::secret::PROOF;
use super::*;

const PATIENCE: Duration = Duration::from_secs(20);

/// Addresses of free ports; they are free a moment later too, but for very bad luck.
fn hosts(n: usize) -> Vec<String> {
    let listeners: Vec<_> = (0..n).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    listeners.iter().map(|l| l.local_addr().unwrap().to_string()).collect()
}

fn settings(process: usize, hosts: &[String]) -> MeshSettings {
    MeshSettings { process, hosts: hosts.to_vec(), workers: 1, secret: secret("token"), deadline: PATIENCE }
}

fn secret(token: &str) -> MeshSecret {
    MeshSecret::derive(token, &[])
}

/// Shakes hands with process 0 as process 1.
fn shake_hands(hosts: &[String], kind: SocketKind, nonce: FormingNonce) -> Result<TcpStream, MeshRefusal> {
    drop(connect(&hosts[0]));
    let me = settings(1, hosts);
    attempt(&me.secret, &hosts[0], &me.hello_to(kind, 0, nonce), PATIENCE).unwrap()
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
    assert_eq!(refused(MeshSettings { secret: secret("another"), ..settings(1, &hosts) }), MeshRefusal::Token);
    let workers = refused(MeshSettings { workers: 4, ..settings(1, &hosts) });
    assert_eq!(workers, MeshRefusal::Workers { ours: 1, theirs: 4 });
    let more = [hosts.clone(), vec!["127.0.0.1:9".to_owned()]].concat();
    assert_eq!(refused(settings(2, &more)), MeshRefusal::Processes { ours: 2, theirs: 3 });
    match failed(&lead) {
        MeshError::Missing { missing, notes, .. } => {
            assert_eq!(missing, [MissingProcess { process: 1, address: hosts[1].clone() }]);
            assert_eq!(notes.len(), 3);
            assert!(notes[0].ends_with(" was refused: the token is that of another run"), "{notes:?}");
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
    assert_eq!(read_challenge(&old).unwrap(), Err(MeshRefusal::Version { ours: VERSION.into(), theirs: 200 }));
    let follower = forming(settings(1, &hosts));
    formed(&lead);
    formed(&follower);
}

#[test]
fn a_duplicate_process_is_refused_and_a_dead_one_replaced() {
    let hosts = hosts(3);
    let lead = forming(settings(0, &hosts));
    let first = shake_hands(&hosts, SocketKind::Heartbeat, [0; 16]).unwrap();
    let second = shake_hands(&hosts, SocketKind::Heartbeat, [0; 16]);
    assert_eq!(second.unwrap_err(), MeshRefusal::Taken { process: 1 });
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
    let stream = shake_hands(&hosts, SocketKind::Heartbeat, [0; 16]).unwrap();
    let FinalMessage::Welcome { nonce, .. } = FinalMessage::read(&stream).unwrap() else { panic!("no welcome") };
    assert_eq!(shake_hands(&hosts, SocketKind::Data, [0; 16]).unwrap_err(), MeshRefusal::Generation);
    let _kept = shake_hands(&hosts, SocketKind::Data, nonce).unwrap();
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

/// A header of timely's messages with these targets and this length, which its threads would believe.
fn timely_frame(target_lower: u64, target_upper: u64, length: u64) -> Vec<u8> {
    [0, 0, target_lower, target_upper, length, 0].iter().flat_map(|n: &u64| n.to_be_bytes()).collect()
}

/// The last step of a stranger in its handshake with process 0: takes the challenge and sends these bytes as a proof.
fn answer_challenge(stream: &TcpStream, hello: &Hello, proof: impl Fn(&[u8; PROOF]) -> Vec<u8>) {
    let mut stream = stream;
    stream.write_all(&hello.encode()).unwrap();
    let challenge = read_challenge(stream).unwrap().unwrap();
    stream.write_all(&proof(&challenge)).unwrap();
}

/// Strangers without the token that know all else, and two processes of the mesh, which form and run a dataflow
/// meanwhile. Each attack is given a connection to process 0 and keeps it; later it sends frames.
#[test]
fn twenty_kinds_of_strangers_neither_join_nor_end_a_mesh() {
    type Attack<'a> = (&'a str, Box<dyn Fn(&mut TcpStream) + 'a>);
    let hosts = hosts(2);
    let me = settings(1, &hosts);
    let heartbeat = me.hello_to(SocketKind::Heartbeat, 0, [0; 16]);
    let data = me.hello_to(SocketKind::Data, 0, [9; 16]);
    let wrong = |hello: &Hello, challenge: &[u8; PROOF]| {
        secret("guess").session_key(&hello.encode(), challenge).connector_proof().as_bytes().to_vec()
    };
    let send = |bytes: Vec<u8>| move |stream: &mut TcpStream| stream.write_all(&bytes).unwrap();
    let with = |change: fn(&mut Hello)| {
        let mut hello = heartbeat.clone();
        change(&mut hello);
        move |stream: &mut TcpStream| answer_challenge(stream, &hello, |challenge| wrong(&hello, challenge))
    };
    // A true handshake with a mesh of the same token, recorded by a stranger.
    let recorded = me.secret.session_key(&heartbeat.encode(), &[1; PROOF]).connector_proof().as_bytes().to_vec();
    let attacks: Vec<Attack<'_>> = vec![
        ("silence", Box::new(|_| ())),
        ("HTTP", Box::new(send(b"GET /metrics HTTP/1.1\r\n\r\n".to_vec()))),
        ("zeroes", Box::new(send(vec![0; 4096]))),
        ("half a magic", Box::new(send(b"hope".to_vec()))),
        ("half a hello", Box::new(send(heartbeat.encode()[..HELLO / 2].to_vec()))),
        ("a hello without a proof", Box::new(send(heartbeat.encode().to_vec()))),
        ("half a proof", Box::new(|stream| answer_challenge(stream, &heartbeat, |_| vec![0; PROOF / 2]))),
        ("a proof of zeroes", Box::new(|stream| answer_challenge(stream, &heartbeat, |_| vec![0; PROOF]))),
        ("the challenge as its proof", Box::new(|stream| answer_challenge(stream, &heartbeat, |c| c.to_vec()))),
        ("a recorded proof", Box::new(|stream| answer_challenge(stream, &heartbeat, |_| recorded.clone()))),
        ("a guessed token", Box::new(with(|_| ()))),
        ("a guessed token for data", {
            let (hello, wrong) = (data.clone(), &wrong);
            Box::new(move |stream| answer_challenge(stream, &hello, |challenge| wrong(&hello, challenge)))
        }),
        ("the place of process 0", Box::new(with(|hello| hello.from = 0))),
        ("a place far away", Box::new(with(|hello| hello.from = u32::MAX))),
        ("numbers at their ends", Box::new(with(|hello| (hello.processes, hello.workers) = (u32::MAX, 0)))),
        ("a socket of an unknown kind", {
            let mut bytes = heartbeat.encode().to_vec();
            bytes[10] = 9;
            Box::new(send(bytes))
        }),
        ("another version", {
            let mut bytes = heartbeat.encode().to_vec();
            bytes[8] = 2;
            Box::new(send(bytes))
        }),
        ("a frame without a handshake", Box::new(send(timely_frame(1 << 40, u64::MAX, 8)))),
        ("a frame behind a hello", Box::new(send([&data.encode()[..], &timely_frame(9, 10, 1)].concat()))),
        ("a frame behind a wrong proof", {
            let hello = data.clone();
            Box::new(move |stream| {
                let frame = timely_frame(0, u64::MAX, u64::MAX);
                answer_challenge(stream, &hello, |_| [&[7; PROOF][..], &frame].concat());
            })
        }),
    ];
    assert_eq!(attacks.len(), 20);
    let lead = forming(settings(0, &hosts));
    let mut strangers = Vec::new();
    for (name, attack) in &attacks {
        let mut stream = connect(&hosts[0]);
        attack(&mut stream);
        strangers.push((name, stream));
    }
    let follower = forming(settings(1, &hosts));
    let meshes = [formed(&lead), formed(&follower)];
    assert!(TcpStream::connect(&hosts[0]).is_err(), "a formed mesh listens to nobody");
    for (_, stream) in &mut strangers {
        // The system refuses these bytes where the connection is closed already.
        let _ = stream.write_all(&timely_frame(1 << 40, u64::MAX, 8));
        let _ = stream.write_all(&[0xff; 16]);
    }
    let running: Vec<_> = meshes.into_iter().map(|mesh| thread::spawn(move || sum(mesh))).collect();
    let total: u64 = running.into_iter().map(|t| t.join().unwrap()).sum();
    assert_eq!(total, 299 * 300 / 2);
    for (name, mut stream) in strangers {
        let mut heard = Vec::new();
        // A reset instead of an end is as good.
        let _ = stream.read_to_end(&mut heard);
        let accepted = [&b"hopeval\n"[..], &[0; 9]].concat();
        let allowed = if heard.starts_with(&accepted) { accepted.len() + PROOF } else { 0 };
        assert!(!heard[allowed.min(heard.len())..].starts_with(&accepted), "{name} became a member");
        assert!(heard.len() <= 2 * (accepted.len() + PROOF), "{name} was told {} bytes", heard.len());
    }
}

#[test]
fn a_stranger_in_the_place_of_process_0_is_not_believed() {
    let fake = TcpListener::bind("127.0.0.1:0").unwrap();
    let hosts = [fake.local_addr().unwrap().to_string(), hosts(1)[0].clone()];
    let accepting = thread::spawn(move || {
        let (mut stream, _) = fake.accept().unwrap();
        stream.read_exact(&mut [0; HELLO]).unwrap();
        write_challenge(&stream, &[3; PROOF]).unwrap();
        stream.read_exact(&mut [0; PROOF]).unwrap();
        // Accepts without a proof, welcomes, and goes on with frames of timely.
        write_challenge(&stream, &[4; PROOF]).unwrap();
        FinalMessage::Welcome { nonce: [5; 16], bytes: b"run of a stranger".to_vec() }.write(&stream).unwrap();
        let _ = stream.write_all(&timely_frame(1 << 40, u64::MAX, 8));
    });
    let error = failed(&forming(MeshSettings { deadline: Duration::from_millis(300), ..settings(1, &hosts) }));
    accepting.join().unwrap();
    assert!(matches!(&error, MeshError::Missing { .. }), "{error}");
}

#[test]
fn a_token_is_needed_beyond_loopback_and_is_never_shown() {
    let name = |host: &str| vec!["127.0.0.1:4500".to_owned(), host.to_owned()];
    for local in ["127.0.0.2:4501", "[::1]:4501", "localhost:4501"] {
        assert!(stays_on_loopback(&name(local)), "{local}");
    }
    for distant in ["0.0.0.0:4501", "192.0.2.1:4501", "[::]:4501", "node1.invalid:4501"] {
        assert!(!stays_on_loopback(&name(distant)), "{distant}");
    }
    assert_ne!(random_token().unwrap(), random_token().unwrap());
    assert!(!format!("{:?}", settings(0, &name("node1:1"))).contains("token"));
}
