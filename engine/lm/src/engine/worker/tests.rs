//! The thread's turns one by one: admission, and the effects of memory shortage and release.

use super::*;
use crate::architectures::open_decoder;
use crate::engine::{BeginCheck, Completion, PoolTokens};
use crate::request::{GenerateRequest, GenerateResult, RequestWork, Sampling};
use hopeval_checkpoint::Checkpoint;
use hopeval_device::Cpu;
use std::path::Path;
use std::sync::mpsc::channel;

/// The values that a worker borrows.
struct Bench {
    device: Cpu,
    model: LoadedModel<Cpu>,
    counters: EngineCounters,
    finished: Sender<FinishedGroup>,
    groups: Receiver<FinishedGroup>,
    answers: Sender<(u32, Completion)>,
    completions: Receiver<(u32, Completion)>,
}

impl Bench {
    fn new() -> Self {
        let device = Cpu::new(Some(1)).expect("a processor with AVX2");
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/gpt2");
        let model = open_decoder(&Checkpoint::open(&folder).expect("a fixture"), &device).expect("a fixture");
        let (answers, completions) = channel();
        let (finished, groups) = channel();
        let (model, counters) = (LoadedModel::Decoder(model), EngineCounters::default());
        Self { device, model, counters, finished, groups, answers, completions }
    }

    fn worker(&self, cache_tokens: usize) -> EngineWorker<'_, Cpu> {
        let options = EngineOptions {
            batch_tokens: 200,
            cache_tokens: PoolTokens::exactly(cache_tokens),
            ..EngineOptions::default()
        };
        EngineWorker::new(&self.device, &self.model, options, None, &self.counters, self.finished.clone())
    }

    /// Submits a prompt with `max_tokens`; the answer comes under `tag`.
    fn ask(&self, worker: &mut EngineWorker<'_, Cpu>, tag: u32, prompt: &[u32], max_tokens: usize) {
        self.ask_if(worker, tag, prompt, max_tokens, None);
    }

    fn ask_if(
        &self,
        worker: &mut EngineWorker<'_, Cpu>,
        tag: u32,
        prompt: &[u32],
        max_tokens: usize,
        may_begin: Option<BeginCheck>,
    ) {
        let generate = GenerateRequest {
            prompt: prompt.into(),
            max_tokens,
            sampling: Sampling::Greedy,
            stop: vec![],
            ends: vec![],
        };
        let answers = self.answers.clone();
        let reply = Box::new(move |completion| answers.send((tag, completion)).expect("the bench is there"));
        let request = Request::Generate(generate);
        worker.take_in(Submission {
            request,
            work: RequestWork::default(),
            reply: Some(reply),
            may_begin,
            since: Instant::now(),
        });
    }

    /// The answers since the last call.
    fn answered(&self) -> Vec<(u32, Result<GenerateResult, Refusal>)> {
        let generated = |answer| match answer {
            Answer::Generated(generated) => generated,
            other => panic!("{other:?} is no continuation"),
        };
        self.groups.try_iter().for_each(|group| group.answer(&self.model, &self.counters));
        self.completions.try_iter().map(|(tag, completion)| (tag, completion.result.map(generated))).collect()
    }
}

#[test]
fn a_large_prompt_is_not_overtaken_for_ever() {
    let bench = Bench::new();
    let mut worker = bench.worker(100);
    let mut small = 1..;
    let mut ask_small = |worker: &mut EngineWorker<'_, Cpu>, many| {
        for tag in small.by_ref().take(many) {
            bench.ask(worker, tag, &[1, 2 + tag / 50, 2 + tag % 50], 5);
        }
    };
    ask_small(&mut worker, 10);
    worker.run_generation();
    // It needs nearly the whole cache, and sorts behind all others.
    bench.ask(&mut worker, 0, &[300; 60], 30);
    let comes = (0..60).find(|_| {
        ask_small(&mut worker, 2);
        worker.run_generation();
        bench.answered().into_iter().any(|(tag, result)| tag == 0 && result.expect("it fits").ids.len() == 30)
    });
    assert!(comes.is_some(), "the oldest waits for ever");
}

#[test]
fn what_does_not_fit_is_left_in_peace_until_something_leaves() {
    let bench = Bench::new();
    let mut worker = bench.worker(40);
    bench.ask(&mut worker, 0, &[1, 2, 3], 30);
    bench.ask(&mut worker, 1, &[1, 2, 4], 30);
    worker.run_generation();
    while bench.answered().is_empty() {
        assert_eq!((worker.prompts.len(), worker.full), (1, true));
        worker.run_generation();
    }
    assert!(!worker.full, "the first has left");
    worker.run_generation();
    assert!(worker.prompts.is_empty(), "the second has its turn");
}

#[test]
fn a_lone_prompt_waits_where_others_may_hold_what_it_lacks() {
    let mut waited = 0;
    for kib in [1, 2, 4, 8, 16, 32, 64, 128] {
        let bench = Bench::new();
        let mut worker = bench.worker(300);
        bench.ask(&mut worker, 0, &[1], 40);
        worker.run_generation();
        bench.device.limit_memory(bench.device.memory_in_use() + kib * 1024);
        bench.ask(&mut worker, 1, &(0..90).collect::<Vec<_>>(), 4);
        worker.run_generation();
        assert!(bench.answered().iter().all(|(tag, _)| *tag == 0), "refused beside another, {kib} KiB");
        if worker.prompts.is_empty() {
            continue;
        }
        waited += 1;
        bench.device.limit_memory(u64::MAX);
        (0..60).for_each(|_| worker.run_generation());
        let answered = bench.answered();
        let (_, result) = answered.iter().find(|(tag, _)| *tag == 1).expect("it has its turn");
        assert_eq!(result.as_ref().map(|generated| generated.ids.len()), Ok(4), "{kib} KiB");
    }
    assert!(waited > 0, "no limit was too little for the prompt");
}

#[test]
fn a_step_that_runs_out_of_memory_takes_fewer_at_a_time() {
    let run = |spare: Option<u64>| {
        let bench = Bench::new();
        let mut worker = bench.worker(600);
        (0..30).for_each(|tag| bench.ask(&mut worker, tag, &[tag, 7], 12));
        worker.run_generation();
        if let Some(bytes) = spare {
            bench.device.limit_memory(bench.device.memory_in_use() + bytes);
        }
        (0..12).for_each(|_| worker.run_generation());
        let mut answered = bench.answered();
        answered.sort_by_key(|(tag, _)| *tag);
        (answered, bench.counters.batches.load(Relaxed))
    };
    let (all, batches) = run(None);
    assert_eq!(all.len(), 30);
    let (mut whole, mut refused) = (0, 0);
    for kib in [1, 2, 4, 8, 16, 32, 64, 128] {
        let (answered, passes) = run(Some(kib * 1024));
        assert_eq!(answered.len(), 30, "{kib} KiB: every request is answered once");
        for ((tag, scarce), (_, free)) in answered.iter().zip(&all) {
            match scarce {
                Err(Refusal::OutOfMemory { .. }) => refused += 1,
                other => assert_eq!(other, free, "{kib} KiB, {tag}"),
            }
        }
        whole += usize::from(answered.iter().all(|(_, result)| result.is_ok()) && passes > batches);
    }
    assert!(whole > 0, "some limit is met by smaller passes alone");
    assert!(refused > 0, "some limit is below what one sequence needs");
}

#[test]
fn what_a_device_cannot_do_is_another_refusal_than_its_loss() {
    let device = || "cuda:0".to_owned();
    let unsupported = device_refusal(&DeviceError::Unsupported { device: device(), what: "no algorithm".into() });
    assert!(matches!(&unsupported, Refusal::Incapable { reason } if reason.contains("no algorithm")), "{unsupported}");
    assert!(unsupported.is_determinate());
    let lost = device_refusal(&DeviceError::Lost { device: device(), reason: "gone".into() });
    assert!(matches!(lost, Refusal::Device { .. }) && !lost.is_determinate(), "{lost}");
}

#[test]
fn a_request_that_may_not_begin_is_kept_and_holds_up_nobody() {
    let bench = Bench::new();
    let mut worker = bench.worker(100);
    let open = std::sync::Arc::new(AtomicBool::new(true));
    let check = || {
        let open = std::sync::Arc::clone(&open);
        Some(Box::new(move || open.load(Relaxed)) as BeginCheck)
    };
    bench.ask_if(&mut worker, 0, &[1, 2, 3], 4, check());
    worker.run_generation();
    open.store(false, Relaxed);
    // Equal requests form one group; the one without a check is computed all the same.
    bench.ask_if(&mut worker, 1, &[5, 6], 4, check());
    bench.ask_if(&mut worker, 2, &[7, 8], 4, check());
    bench.ask(&mut worker, 3, &[7, 8], 4);
    (0..10).for_each(|_| worker.run_generation());
    let mut tags: Vec<u32> = bench.answered().into_iter().map(|(tag, _)| tag).collect();
    tags.sort_unstable();
    assert_eq!(tags, [0, 3], "one had begun, one always may");
    assert!(worker.waiting.is_empty() && worker.group_of.is_empty());
    assert_eq!(worker.set_aside.len(), 2);
}
