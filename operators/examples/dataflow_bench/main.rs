//! Why: every request of an evaluation passes drive, route and serve, so their cost per request is what the dataflow
//! adds to a service's own time. What: requests per second through the whole loop with a service that answers at once
//! or from a thread, beside the floor: the same records through a bare timely loop with the same two exchanges.
//! Knobs: `dataflow_bench QUESTIONS ROUNDS REQUESTS PAYLOAD WORKERS [PROCESS HOST0 HOST1]`.
//!
//! With a process and two hosts it is one of two processes; process 0 prints. A line is Markdown:
//! what | workers | processes | payload | requests | seconds | requests/s | ns per request.

#![expect(clippy::print_stdout, reason = "a bench prints")]

use hopeval_operators::admit::{Credits, Feed, FeedPoll, admit};
use hopeval_operators::drive::{AskedRequest, DrivenMachine, DrivenStep, QuestionOpener, drive};
use hopeval_operators::gate::Gate;
use hopeval_operators::serve::{Backend, BackendAnswer, Submission, serve};
use hopeval_operators::ticket::Ticket;
use hopeval_operators::{OperatorCounters, RequestKey};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Instant;
use timely::dataflow::operators::{ConnectLoop, Enter, Leave, LoopVariable, Probe};
use timely::scheduling::SyncActivator;

#[derive(Clone, Copy)]
struct Load {
    questions: u64,
    rounds: u32,
    requests: u32,
    payload: usize,
}

impl Load {
    fn total(&self) -> u64 {
        self.questions * u64::from(self.rounds) * u64::from(self.requests)
    }
}

/// SplitMix64: spread keys without repetition.
fn mix(x: u64) -> u64 {
    let mut z = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

struct Share {
    next: u64,
    step: u64,
    end: u64,
}

impl Feed for Share {
    type Question = u64;

    fn poll(&mut self) -> FeedPoll<u64> {
        if self.next >= self.end {
            return FeedPoll::Finished;
        }
        let question = self.next;
        self.next += self.step;
        FeedPoll::Ready { cohort: question / 4096, question }
    }

    fn wake_with(&mut self, _: SyncActivator) {}
}

struct Toy {
    question: u64,
    round: u32,
    load: Load,
}

impl DrivenMachine for Toy {
    type Request = Vec<u8>;
    type Response = Vec<u8>;
    type Outcome = u64;

    fn step(&mut self, _: Vec<Rc<Vec<u8>>>) -> DrivenStep<Vec<u8>, u64> {
        if self.round == self.load.rounds {
            return DrivenStep::Done(self.question);
        }
        self.round += 1;
        let first =
            (self.question * u64::from(self.load.rounds) + u64::from(self.round)) * u64::from(self.load.requests);
        let ask = |i: u32| {
            let mut key = [0u8; 32];
            key[..8].copy_from_slice(&mix(first + u64::from(i)).to_le_bytes());
            let key = RequestKey(key);
            AskedRequest { key, bucket: key.bucket(), request: vec![7; self.load.payload] }
        };
        DrivenStep::Ask((0..self.load.requests).map(ask).collect())
    }
}

struct Toys(Load);

impl QuestionOpener for Toys {
    type Question = u64;
    type Machine = Toy;

    fn open_machines(&mut self, question: u64) -> Vec<Toy> {
        vec![Toy { question, round: 0, load: self.0 }]
    }
}

type Task = Submission<Vec<u8>, Vec<u8>, ()>;

/// Answers with the request's own bytes.
enum Echo {
    AtOnce,
    Thread(Sender<Vec<Task>>),
}

fn echo(batch: Vec<Task>) {
    let answer = |task: Task| (task.ticket, BackendAnswer { response: task.request, record: None });
    Ticket::answer_all(batch.into_iter().map(answer));
}

impl Backend for Echo {
    type Request = Vec<u8>;
    type Response = Vec<u8>;
    type Record = ();

    fn submit(&mut self, batch: Vec<Task>) {
        match self {
            Self::AtOnce => echo(batch),
            Self::Thread(sender) => drop(sender.send(batch)),
        }
    }

    fn dropped(&self) -> Vec<u8> {
        Vec::new()
    }
}

#[derive(Clone, Copy, PartialEq)]
enum What {
    Floor,
    AtOnce,
    Thread,
}

impl What {
    fn name(self) -> &'static str {
        match self {
            Self::Floor => "bare loop",
            Self::AtOnce => "drive, route, serve at once",
            Self::Thread => "drive, route, serve from a thread",
        }
    }
}

/// Builds one dataflow and runs it to its end.
fn run(worker: &mut timely::worker::Worker, what: What, load: Load) {
    let (index, peers) = (worker.index() as u64, worker.peers() as u64);
    let share = Share { next: index, step: peers, end: load.questions };
    let (credits, counters) = (Credits::new(1024), Arc::new(OperatorCounters::default()));
    worker.dataflow::<u64, _, _>(|scope| {
        let questions = admit(scope, share, &credits, &counters);
        let done = scope.iterative::<u32, _, _>(|inner| {
            if what == What::Floor {
                let (handle, replies) = inner.loop_variable::<Vec<_>>(1);
                return floor(inner, questions, replies, handle, &credits, load).leave(scope);
            }
            let backend = match what {
                What::Thread => {
                    let (sender, receiver) = channel::<Vec<Task>>();
                    std::thread::spawn(move || receiver.iter().for_each(echo));
                    Echo::Thread(sender)
                }
                _ => Echo::AtOnce,
            };
            let (handle, replies) = inner.loop_variable::<Vec<_>>(1);
            let (requests, outcomes) =
                drive(questions.enter(inner), replies, Toys(load), &credits, &counters, &Gate::default());
            let (replies, _) = serve(requests, backend, &counters);
            replies.connect_loop(handle);
            outcomes.leave(scope)
        });
        done.probe();
    });
    while worker.has_dataflows() {
        worker.step_or_park(None);
    }
}

mod bare;
use bare::floor;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize, default: u64| arguments.get(i).and_then(|a| a.parse().ok()).unwrap_or(default);
    let load = Load {
        questions: number(0, 100_000),
        rounds: number(1, 4) as u32,
        requests: number(2, 4) as u32,
        payload: number(3, 16) as usize,
    };
    let threads = number(4, 1) as usize;
    let process = number(5, 0) as usize;
    let addresses: Vec<String> = arguments.iter().skip(6).cloned().collect();
    let processes = addresses.len().max(1);
    let communication = match (processes, threads) {
        (1, 1) => timely::CommunicationConfig::Thread,
        (1, n) => timely::CommunicationConfig::Process(n),
        _ => timely::CommunicationConfig::Cluster { threads, process, addresses, report: false, zerocopy: false },
    };
    let config = timely::Config { communication, worker: timely::WorkerConfig::default() };
    let guards = timely::execute(config, move |worker| {
        for what in [What::Floor, What::AtOnce, What::Thread] {
            for measured in [false, true] {
                let load = if measured { load } else { Load { questions: load.questions / 10, ..load } };
                let begun = Instant::now();
                run(worker, what, load);
                let seconds = begun.elapsed().as_secs_f64();
                if measured && worker.index() == 0 {
                    let n = load.total() as f64;
                    println!(
                        "| {} | {threads} | {processes} | {} B | {n} | {seconds:.2} | {:.0} | {:.0} |",
                        what.name(),
                        load.payload,
                        n / seconds,
                        seconds / n * 1e9
                    );
                }
            }
        }
    });
    drop(guards);
}
