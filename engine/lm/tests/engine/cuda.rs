//! Whole models on the CUDA device; its kernels run on the CPU here.

use super::*;
use hopeval_checkpoint::Checkpoint;
use hopeval_cuda::Cuda;
use hopeval_cuda_emulator::{Emulator, EmulatorOptions};
use hopeval_device::conformance::Arithmetic;
use hopeval_lm::architectures::{ModelFamily, identify, open_decoder, open_encoder, open_encoder_decoder};
use hopeval_lm::engine::{Engine, EngineCounters};
use hopeval_lm::generate::{GenerativeModel, Generator};
use hopeval_lm::heads;
use hopeval_lm::loaded_model::{EncoderWithHeads, LoadedModel};
use hopeval_lm::self_check::PassVariant;
use hopeval_lm::states_pool::StatesPool;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

fn options() -> EmulatorOptions {
    EmulatorOptions::new(env!("CARGO_TARGET_TMPDIR"))
}

fn cuda(arithmetic: Arithmetic, options: EmulatorOptions) -> Cuda<Emulator> {
    Cuda::new(Emulator::new(options).unwrap(), arithmetic)
}

/// The compared options: small batches, to have several of them.
const SMALL: EngineOptions = EngineOptions {
    batch_tokens: 200,
    states_tokens: PoolTokens::exactly(300),
    cache_tokens: PoolTokens::exactly(400),
    share: true,
};

/// Scores, greedy continuations of few tokens, and all outputs of heads.
pub(super) fn asked(name: &str) -> Vec<Request> {
    let tasks = open(name, cpu(), SMALL).engine.abilities().tasks.clone();
    let able = |request: &Request| match request {
        Request::Encode(encode) => tasks.contains(&encode.want.task()),
        Request::Generate(generate) => matches!(generate.sampling, Sampling::Greedy),
        Request::Score(_) => true,
    };
    let asked = sample(name).into_iter().filter(able).collect::<Vec<_>>();
    assert!(asked.len() > 3, "{name}");
    // A selection spread over all of them: a fibre for each thread of a GPU is slow.
    let step = asked.len().div_ceil(10);
    asked.into_iter().step_by(step).collect()
}

/// All numbers of the answers: those of the CPU's engine, and those of CUDA's.
fn both(name: &str, arithmetic: Arithmetic) -> (Vec<f64>, Vec<f64>) {
    let mut asked = asked(name);
    // A difference of one rounding may choose another token, and change all later ones.
    asked.retain(|request| arithmetic == Arithmetic::F32 || !matches!(request, Request::Generate(_)));
    let numbers = |session: Session| -> Vec<f64> {
        let of = |answer: Answer| match answer {
            Answer::Scored(scored) => [scored.target_logits, scored.log_sum_exps.concat()].concat(),
            Answer::Encoded(e) => {
                let spans = [e.start_logits, e.end_logits, e.rank.into_iter().collect()].concat();
                [e.token_logits.values, e.sequence_logits, spans, e.embedding].concat()
            }
            Answer::Generated(g) => [g.ids.iter().map(|id| *id as f32).collect(), g.log_probs].concat(),
        };
        answers(session.engine.ask(asked.clone())).into_iter().flat_map(of).map(f64::from).collect()
    };
    let (cpu, cuda) = (open(name, cpu(), SMALL), open(name, cuda(arithmetic, options()), SMALL));
    let (expected, found) = (numbers(cpu), numbers(cuda));
    assert!(expected.len() == found.len() && expected.len() > 20, "{name}");
    (expected, found)
}

#[test]
fn models_in_f32_on_cuda_agree_with_the_cpu() {
    for name in ["gpt2", "opt", "mistral", "qwen3", "t5-v1.1", "bert-token", "deberta-v3-token", "electra-span"] {
        let (expected, found) = both(name, Arithmetic::F32);
        let largest = expected.iter().zip(&found).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(largest < 1e-4, "{name}: {largest}");
    }
}

#[test]
fn models_in_bf16_on_cuda_are_close_to_the_cpu() {
    for name in ["gpt2", "llama", "t5-flan-bf16", "roberta-rerank", "deberta-v3-token", "efficientrag-labeler"] {
        let (expected, found) = both(name, Arithmetic::Bf16);
        let n = expected.len() as f64;
        let mean = expected.iter().sum::<f64>() / n;
        let spread = (expected.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n).sqrt();
        let error = (expected.iter().zip(&found).map(|(a, b)| (a - b).powi(2)).sum::<f64>() / n).sqrt();
        // Random weights: a layer keeps less of its input than a trained one, and rounding is half of 2^-7.
        assert!(error > 0.0 && error < 0.05 * spread, "{name}: {error} of {spread}");
    }
}

#[test]
fn no_bit_depends_on_the_batch_on_cuda_either() {
    for name in ["gpt2", "t5-v1.1", "deberta-v3-token"] {
        let engine = |variant: &PassVariant| {
            let device = cuda(Arithmetic::Bf16, options());
            Session::open(&fixture(name), device, variant.options).map(|session| session.engine)
        };
        let mut variants = self_check::variants(SMALL, 1, 2, 90);
        variants[0].options.share = false;
        for (variant, found) in variants.iter().zip(self_check::check(&asked(name), &variants, engine, SMALL).unwrap())
        {
            assert!(found.compared > 0);
            assert!(found.is_none(), "{name}, {variant:?}: {found:?}");
        }
    }
}

/// An engine whose device was not warmed up.
fn cold(name: &str, device: Cuda<Emulator>, options: EngineOptions) -> Engine {
    let checkpoint = Checkpoint::open(&fixture(name)).unwrap();
    let model = match identify(&checkpoint).unwrap().1 {
        ModelFamily::Decoder => LoadedModel::Decoder(open_decoder(&checkpoint, &device).unwrap()),
        ModelFamily::EncoderDecoder => LoadedModel::EncoderDecoder(open_encoder_decoder(&checkpoint, &device).unwrap()),
        ModelFamily::Encoder => LoadedModel::Encoder(EncoderWithHeads {
            encoder: open_encoder(&checkpoint, &device).unwrap(),
            heads: heads::open(&checkpoint, &device).unwrap(),
        }),
    };
    // As a session does: what opening takes is in no account either.
    device.finish_work().unwrap();
    Engine::start(device, model, options, None).unwrap()
}

/// Answers, keys and accounts are those of an engine whose device was not warmed up, and the energy of warming up is in
/// no account.
#[test]
fn a_device_is_warmed_up_and_nobody_pays_for_it() {
    for name in ["gpt2", "llama", "t5-v1.1", "efficientrag-labeler", "electra-span"] {
        let asked: Vec<Request> = asked(name).into_iter().take(6).collect();
        let run = |is_warm: bool| {
            let counter = Arc::new(AtomicU64::new(1 << 40));
            let energy = Some(Arc::clone(&counter));
            let device = cuda(Arithmetic::Bf16, EmulatorOptions { energy, ..options() });
            let engine = if is_warm { open(name, device, SMALL).engine } else { cold(name, device, SMALL) };
            let used = counter.load(Relaxed) - (1 << 40);
            let completions = engine.ask(asked.clone());
            let of = |Completion { result, work, cost }: Completion| {
                (result.unwrap(), work, cost.energy_j.unwrap(), cost.computed_tokens)
            };
            let EngineCounters { requests, unique_tokens, computed_tokens, batches, energy_uj, .. } =
                &**engine.counters();
            let counts =
                [requests, unique_tokens, computed_tokens, batches, energy_uj].map(|count| count.load(Relaxed));
            let told = completions.into_iter().map(of).collect::<Vec<_>>();
            (told, counts, engine.identity().clone(), used)
        };
        let (warm, cold) = (run(true), run(false));
        assert_eq!((warm.0, warm.1, warm.2), (cold.0, cold.1, cold.2), "{name}");
        assert!(warm.3 > cold.3, "{name}: {} and {} mJ before the first request", warm.3, cold.3);
    }
}

fn scores() -> Vec<Request> {
    sample("gpt2").into_iter().filter(|request| matches!(request, Request::Score(_))).take(8).collect()
}

#[test]
fn cuda_out_of_memory_halves_batches_and_loses_nothing() {
    let with = |memory| {
        let device = cuda(Arithmetic::F32, EmulatorOptions { memory, ..options() });
        Session::open(&fixture("gpt2"), device, EngineOptions::default())
    };
    let full = with(None).unwrap();
    let all = full.engine.ask(scores());
    let most = full.engine.counters().batches.load(Relaxed);
    // The smallest memory that holds the weights, to a kibibyte.
    let (mut below, mut weights) = (0, 1 << 30);
    while weights - below > 1024 {
        let middle = u64::midpoint(below, weights);
        if with(Some(middle)).is_ok() { weights = middle } else { below = middle }
    }
    let (mut refused, mut halved) = (0, 0);
    for memory in (0..64).map(|n| weights + n * 4096) {
        let scarce = with(Some(memory)).unwrap();
        let found = scarce.engine.ask(scores());
        let out = |completion: &&Completion| matches!(completion.result, Err(Refusal::OutOfMemory { .. }));
        let without = found.iter().filter(out).count();
        for (a, b) in all.iter().zip(&found).filter(|(_, b)| !out(b)) {
            assert_eq!(a.result, b.result, "{memory} bytes");
        }
        let counters = scarce.engine.counters();
        assert_eq!(counters.halved.load(Relaxed) > 0, counters.batches.load(Relaxed) > most, "{memory} bytes");
        refused += usize::from(without > 0);
        halved += usize::from(without == 0 && counters.halved.load(Relaxed) > 0);
    }
    assert!(refused > 0 && halved > 0, "{refused} refused, {halved} halved");
}

#[test]
fn a_cuda_device_that_is_lost_answers_nothing_more() {
    let with = |launches| cuda(Arithmetic::F32, EmulatorOptions { launches: Some(launches), ..options() });
    let lost = Session::open(&fixture("gpt2"), with(3), EngineOptions::default()).unwrap_err();
    assert!(lost.to_string().contains("was lost"), "while it is warmed up: {lost}");
    // This engine's device was not.
    let engine = cold("gpt2", with(3), EngineOptions::default());
    for _ in 0..2 {
        for completion in engine.ask(scores()) {
            let refusal = completion.result.unwrap_err();
            assert!(matches!(refusal, Refusal::Device { .. }) && !refusal.is_determinate(), "{refusal}");
        }
    }
}

#[test]
fn what_the_device_uses_is_shared_among_the_answers() {
    for name in ["gpt2", "t5-v1.1", "bert-token"] {
        let counter = Arc::new(AtomicU64::new(1 << 40));
        let device = cuda(Arithmetic::F32, EmulatorOptions { energy: Some(Arc::clone(&counter)), ..options() });
        let session = open(name, device, SMALL);
        let before = counter.load(Relaxed);
        let mut asked = asked(name);
        // Equal ones merge, and have the cost of one together.
        asked.push(asked[0].clone());
        let completions = session.engine.ask(asked.clone());
        let used = (counter.load(Relaxed) - before) as f64 / 1e3;
        let shares: Vec<f64> = completions.iter().map(|completion| completion.cost.energy_j.unwrap()).collect();
        let told: f64 = shares.iter().sum();
        assert!(used > 0.0 && (told - used).abs() < 1e-9 * used, "{name}: {told} of {used}");
        let counted = session.engine.counters().energy_uj.load(Relaxed) as f64 / 1e6;
        assert!((counted - used).abs() < 1e-9, "{name}: {counted} of {used}");
        // By operations, as the seconds are.
        for (share, completion) in shares.iter().zip(&completions) {
            assert!(*share > 0.0 && completion.cost.device_s > 0.0, "{name}: {:?}", completion.cost);
        }
        assert_eq!(shares[0], shares[asked.len() - 1], "{name}");
    }
    let uncounted = open("gpt2", cuda(Arithmetic::F32, options()), SMALL).engine.ask(scores());
    assert!(uncounted.iter().all(|completion| completion.cost.energy_j.is_none()), "what is not counted is not 0");
}

#[test]
fn a_prompt_that_is_admitted_was_waited_for() {
    // Decoders' first tokens are read. For encoder-decoders nothing is read before the first step.
    for name in ["gpt2", "t5-v1.1"] {
        let counter = Arc::new(AtomicU64::new(0));
        let device = cuda(Arithmetic::F32, EmulatorOptions { energy: Some(Arc::clone(&counter)), ..options() });
        let checkpoint = Checkpoint::open(&fixture(name)).unwrap();
        let loaded = if name == "gpt2" {
            LoadedModel::Decoder(open_decoder(&checkpoint, &device).unwrap())
        } else {
            LoadedModel::EncoderDecoder(open_encoder_decoder(&checkpoint, &device).unwrap())
        };
        let model = match &loaded {
            LoadedModel::Decoder(model) => GenerativeModel::Decoder(&**model),
            LoadedModel::EncoderDecoder(model) => GenerativeModel::EncoderDecoder(&**model),
            LoadedModel::Encoder(_) => unreachable!(),
        };
        let mut pool = StatesPool::reserve(&device, 40, loaded.sizes().hidden).unwrap();
        let mut generator = Generator::new(&device, &model, 40, true).unwrap();
        let (prompt, sampling) = ([3, 5, 8, 13].as_slice().into(), Sampling::Greedy);
        let request = GenerateRequest { prompt, max_tokens: 4, sampling, stop: vec![], ends: vec![] };
        let admitted = generator.admit(&device, &model, Some(&mut pool), None, &[(1, request)], 0).unwrap();
        assert_eq!(admitted.taken, [0], "{name}");
        let told = counter.load(Relaxed);
        device.finish_work().unwrap();
        assert_eq!((told > 0, counter.load(Relaxed)), (true, told), "{name}");
    }
}

/// The counter restarts in the middle of one continuation: its energy is then unknown.
#[test]
fn what_was_counted_in_part_is_not_told() {
    let counter = Arc::new(AtomicU64::new(1 << 40));
    let device = cuda(Arithmetic::F32, EmulatorOptions { energy: Some(Arc::clone(&counter)), ..options() });
    let model = open_decoder(&Checkpoint::open(&fixture("gpt2")).unwrap(), &device).unwrap();
    // The detokeniser is called after every token, during the piece of work.
    let detokenise = Box::new(move |ids: &[u32]| {
        if ids.len() == 2 {
            counter.store(0, Relaxed);
        }
        String::new()
    });
    let engine = Engine::start(device, LoadedModel::Decoder(model), SMALL, Some(detokenise)).unwrap();
    let request = |stop: &[&str]| {
        let stop = stop.iter().map(ToString::to_string).collect();
        let prompt = [3, 5, 8].as_slice().into();
        Request::Generate(GenerateRequest { prompt, max_tokens: 4, sampling: Sampling::Greedy, stop, ends: vec![] })
    };
    let cost = |stop: &[&str]| engine.ask([request(stop)]).remove(0).cost;
    let known = || (engine.counters().metered_us.load(Relaxed), engine.counters().device_us.load(Relaxed));
    assert!(cost(&[]).energy_j.is_some_and(|joules| joules > 0.0));
    let (metered, all) = known();
    assert_eq!(metered, all);
    assert_eq!(cost(&["."]).energy_j, None);
    let (metered, all) = known();
    assert!(metered < all, "{metered} of {all} microseconds");
    assert!(cost(&[]).energy_j.is_some());
}
