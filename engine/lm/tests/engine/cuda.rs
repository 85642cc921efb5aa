//! Whole models on the CUDA device, whose kernels run on the CPU here.

use super::*;
use hopeval_cuda::Cuda;
use hopeval_cuda_emulator::{Emulator, Options as EmulatorOptions};
use hopeval_device::conformance::Arithmetic;
use hopeval_lm::LmError;
use hopeval_lm::engine::Engine;
use hopeval_lm::self_check::{Difference, Variant};

fn options() -> EmulatorOptions {
    EmulatorOptions::new(env!("CARGO_TARGET_TMPDIR"))
}

fn cuda(arithmetic: Arithmetic, options: EmulatorOptions) -> Cuda<Emulator> {
    Cuda::new(Emulator::new(options).unwrap(), arithmetic)
}

/// What is compared: small batches, so that there are several.
const SMALL: Options = Options { batch_tokens: 200, states_tokens: 300, cache_tokens: 400, share: true };

/// Scores, greedy continuations of few tokens, and all that heads say.
fn asked(name: &str) -> Vec<Request> {
    let tasks = open(name, cpu(), SMALL).engine.abilities().tasks.clone();
    let able = |request: &Request| match request {
        Request::Encode(encode) => tasks.contains(&encode.want.task()),
        Request::Generate(generate) => matches!(generate.sampling, Sampling::Greedy),
        Request::Score(_) => true,
    };
    let asked = sample(name).into_iter().filter(able).collect::<Vec<_>>();
    assert!(asked.len() > 3, "{name}");
    // A spread of them: a fibre for each thread of a GPU is slow.
    let step = asked.len().div_ceil(10);
    asked.into_iter().step_by(step).collect()
}

/// Answers of the CPU's engine against those of CUDA's, all at once.
fn against_the_cpu(name: &str, arithmetic: Arithmetic) -> Difference {
    let variant = Variant { options: SMALL, threads: 1, shuffle: 7 };
    let engine = |variant: &Variant| -> Result<Engine, LmError> {
        let first = variant.shuffle == 0;
        let opened = |session: Session| session.engine;
        if first {
            return Session::open(&fixture(name), cpu(), SMALL).map(opened);
        }
        Session::open(&fixture(name), cuda(arithmetic, options()), SMALL).map(opened)
    };
    let mut asked = asked(name);
    // One rounding may choose another token, and everything after it.
    asked.retain(|request| arithmetic == Arithmetic::F32 || !matches!(request, Request::Generate(_)));
    let found = self_check::check(&asked, &[variant], engine, SMALL).unwrap().remove(0);
    assert!(found.compared > 0 && found.other_outcomes == 0, "{name}: {found:?}");
    found
}

#[test]
fn whole_models_say_on_cuda_in_f32_what_they_say_on_the_cpu() {
    for name in ["gpt2", "opt", "mistral", "qwen3", "t5-v1.1", "bert-token", "deberta-v3-token", "electra-span"] {
        let found = against_the_cpu(name, Arithmetic::F32);
        assert!(found.largest < 1e-4, "{name}: {found:?}");
    }
}

#[test]
fn whole_models_say_on_cuda_in_bf16_nearly_what_they_say_on_the_cpu() {
    for name in ["gpt2", "llama", "t5-flan-bf16", "roberta-rerank", "efficientrag-labeler"] {
        let found = against_the_cpu(name, Arithmetic::Bf16);
        assert!(found.largest < 0.2, "{name}: {found:?}");
        assert!(found.largest > 0.0, "{name}: bf16 rounds, or something else was asked");
    }
}

#[test]
fn no_bit_depends_on_the_batch_on_cuda_either() {
    for name in ["gpt2", "t5-v1.1", "deberta-v3-token"] {
        let engine = |variant: &Variant| {
            let device = cuda(Arithmetic::Bf16, options());
            Session::open(&fixture(name), device, variant.options).map(|session| session.engine)
        };
        let mut variants = self_check::variants(SMALL, 1, 2, 90);
        variants[0].options.share = false;
        for (variant, found) in variants.iter().zip(self_check::check(&asked(name), &variants, engine, SMALL).unwrap()) {
            assert!(found.compared > 0);
            assert!(found.is_none(), "{name}, {variant:?}: {found:?}");
        }
    }
}

fn scores() -> Vec<Request> {
    sample("gpt2").into_iter().filter(|request| matches!(request, Request::Score(_))).take(8).collect()
}

#[test]
fn memory_of_cuda_that_runs_out_halves_batches_and_loses_nothing() {
    let with = |memory| open("gpt2", cuda(Arithmetic::F32, EmulatorOptions { memory, ..options() }), Options::default());
    let full = with(None);
    let all = full.engine.ask(scores());
    let most = full.engine.counters().batches.load(Relaxed);
    let weights = 200_000;
    let mut halved = 0;
    for kib in [24, 48, 96, 192, 384, 768] {
        let device = cuda(Arithmetic::F32, EmulatorOptions { memory: Some(weights + kib * 1024), ..options() });
        let Ok(scarce) = Session::open(&fixture("gpt2"), device, Options::default()) else { continue };
        let found = scarce.engine.ask(scores());
        if found.iter().any(|completion| matches!(completion.result, Err(Refusal::OutOfMemory { .. }))) {
            continue;
        }
        for (a, b) in all.iter().zip(found) {
            assert_eq!(a.result, b.result, "{kib} KiB");
        }
        halved += usize::from(scarce.engine.counters().batches.load(Relaxed) > most);
    }
    assert!(halved > 0, "some limit is met by smaller batches alone");
}

#[test]
fn a_cuda_device_that_is_lost_answers_nothing_more() {
    let device = cuda(Arithmetic::F32, EmulatorOptions { launches: Some(3), ..options() });
    let session = open("gpt2", device, Options::default());
    for _ in 0..2 {
        for completion in session.engine.ask(scores()) {
            let refusal = completion.result.unwrap_err();
            assert!(matches!(refusal, Refusal::Device { .. }) && !refusal.is_determinate(), "{refusal}");
        }
    }
}
