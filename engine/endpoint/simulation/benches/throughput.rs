//! Measures how many calls a second the simulated server answers.
//!
//! Why: it stands in for a model in tests of throughput, on one core, and must not be what limits them. Wanted are
//! 3,000 calls a second with prompts of 8 KB.
//!
//! What: clients on threads send chats over kept connections and wait for each answer; the server has one thread. Two
//! rows: prompts whose passages were read before, and prompts whose passages are all new to the server.
//!
//! Knobs: `CALLS` (default 20,000 a row), `CLIENTS` (default 16).

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use hopeval_simulated_llm::{SimulatedServer, SimulationSettings};
use hopeval_world::{World, WorldSettings, WorldSplit};
use serde_json::json;

fn main() {
    let knob = |name: &str, default: usize| std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default);
    let (calls, clients) = (knob("CALLS", 20_000), knob("CLIENTS", 16));
    let world = World::new(WorldSettings::new(calls as u64, 12_392, 1, WorldSplit::Eval)).expect("a world");
    let few: Vec<String> = (0..200).map(|number| request(&world, number, "")).collect();
    let new: Vec<String> = (0..2000).map(|number| request(&world, number, &format!(" ({number})"))).collect();
    let mean = few.iter().map(String::len).sum::<usize>() / few.len();
    for (name, requests) in [("known passages", few), ("new passages", new)] {
        let server = SimulatedServer::start(SimulationSettings::default()).expect("a server");
        let calls = if name == "new passages" { requests.len() } else { calls };
        let seconds = send_all(server.address(), Arc::new(requests), calls, clients);
        let summary = server.summary();
        assert_eq!(summary.answered, calls as u64, "{summary:?}");
        report(&format!("{name}: {calls} calls of {mean} bytes in {seconds:.2} s, {:.0}/s", calls as f64 / seconds));
    }
}

#[expect(clippy::print_stdout, reason = "the figures of a bench")]
fn report(line: &str) {
    println!("{line}");
}

/// A request with about 8 KB of passages; `mark` makes its passages different from those of others.
fn request(world: &World, number: u64, mark: &str) -> String {
    let question = world.question(number).expect("a question");
    let mut prompt: String = (0..14)
        .map(|place| world.passage((number * 14 + place) % 12_392))
        .map(|passage| format!("Wikipedia Title: {}\n{}{mark}\n\n", passage.title, passage.text))
        .collect();
    prompt.push_str(&format!("Question: {}\nAnswer:", question.text));
    let body = json!({"model": "simulated-llm", "messages": [{"role": "user", "content": prompt}]}).to_string();
    format!("POST /v1/chat/completions HTTP/1.1\r\nhost: simulation\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

/// Sends `calls` requests, each as soon as its client is free, and returns the seconds that they took.
fn send_all(address: SocketAddr, requests: Arc<Vec<String>>, calls: usize, clients: usize) -> f64 {
    let next = Arc::new(AtomicUsize::new(0));
    let begun = Instant::now();
    let threads: Vec<_> = (0..clients)
        .map(|_| {
            let (next, requests) = (Arc::clone(&next), Arc::clone(&requests));
            std::thread::spawn(move || {
                let mut stream = TcpStream::connect(address).expect("a connection");
                stream.set_nodelay(true).expect("a socket");
                let mut buffer = vec![0; 1 << 16];
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= calls {
                        return;
                    }
                    stream.write_all(requests[number % requests.len()].as_bytes()).expect("a write");
                    read_response(&mut stream, &mut buffer);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("a client"));
    begun.elapsed().as_secs_f64()
}

/// Reads one response with a length.
fn read_response(stream: &mut TcpStream, buffer: &mut [u8]) {
    let mut filled = 0;
    loop {
        let count = stream.read(&mut buffer[filled..]).expect("a read");
        assert!(count > 0, "the server closed the connection");
        filled += count;
        let text = &buffer[..filled];
        let Some(end) = text.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&text[..end]).to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
        if filled >= end + 4 + length.expect("a length") {
            return;
        }
    }
}
