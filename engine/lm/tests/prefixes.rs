//! Prompts that stay in the cache for later batches change no answer, whatever was asked before and however little room
//! there is; they are computed once.

#![expect(clippy::unwrap_used, reason = "a test fails where its fixture is not as expected")]

use hopeval_device::Cpu;
use hopeval_lm::engine::{EngineOptions, PoolTokens};
use hopeval_lm::request::{Answer, GenerateRequest, GenerateResult, Request, Sampling};
use hopeval_lm::session::Session;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

fn open(name: &str, options: EngineOptions) -> Session {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    Session::open(&folder, Cpu::new(Some(2)).unwrap(), options).unwrap()
}

/// Questions after the same examples, and others; some drawn, some repeated in later rounds.
fn rounds() -> Vec<Vec<Request>> {
    let examples: Vec<u32> = (0..40).map(|n| 3 + n * 7 % 50).collect();
    let generate = |prompt: Vec<u32>, draw: Option<u32>| {
        let sampling = match draw {
            None => Sampling::Greedy,
            Some(draw) => Sampling::Sample { temperature: 0.8, top_k: 20, top_p: 0.9, seed: 5, draw },
        };
        let (prompt, stop, ends) = (prompt.into(), Vec::new(), Vec::new());
        Request::Generate(GenerateRequest { prompt, max_tokens: 6, sampling, stop, ends })
    };
    let asked = |round: u32, n: u32| [&examples[..], &[60 + n, 61, 62 + round % 3]].concat();
    let round = |round: u32| {
        let mut all: Vec<Request> = (0..5).map(|n| generate(asked(round, n), None)).collect();
        all.push(generate(asked(round, 1), Some(round)));
        all.push(generate(asked(round, 1), Some(round + 100)));
        all.push(generate(examples[..20 + round as usize].to_vec(), None));
        all.push(generate(vec![9 + round], None));
        all
    };
    (0..5).map(round).collect()
}

fn ask_all(session: &Session) -> Vec<Vec<GenerateResult>> {
    let generated = |completion: hopeval_lm::engine::Completion| match completion.result.unwrap() {
        Answer::Generated(generated) => generated,
        other => panic!("{other:?} is no continuation"),
    };
    rounds().into_iter().map(|round| session.engine.ask(round).into_iter().map(generated).collect()).collect()
}

#[test]
fn kept_prompts_change_no_bit_of_any_answer() {
    let usual = EngineOptions::default();
    for name in ["gpt2", "llama", "qwen3-windows"] {
        let alone = open(name, EngineOptions { share: false, ..usual });
        let expected: Vec<Vec<GenerateResult>> = rounds()
            .into_iter()
            .map(|round| {
                let one = |request| match alone.engine.ask([request]).remove(0).result.unwrap() {
                    Answer::Generated(generated) => generated,
                    other => panic!("{other:?} is no continuation"),
                };
                round.into_iter().map(one).collect()
            })
            .collect();
        for options in [
            usual,
            // Every few prompts others must leave.
            EngineOptions { cache_tokens: PoolTokens::exactly(110), ..usual },
            EngineOptions { cache_tokens: PoolTokens::exactly(49), ..usual },
            EngineOptions { states_tokens: PoolTokens::exactly(0), ..usual },
            EngineOptions { batch_tokens: 50, ..usual },
        ] {
            let session = open(name, options);
            assert_eq!(ask_all(&session), expected, "{name}, {options:?}");
        }
    }
}

#[test]
fn a_prefix_is_computed_once_for_all_batches() {
    let computed = |options: EngineOptions| {
        let session = open("gpt2", options);
        let mut after = Vec::new();
        for round in rounds() {
            session.engine.ask(round);
            after.push(session.engine.counters().computed_tokens.load(Relaxed));
        }
        after.windows(2).map(|pair| pair[1] - pair[0]).collect::<Vec<_>>()
    };
    let usual = EngineOptions::default();
    // A later round has 9 last tokens of prompts, at most 2 more for each of 5 questions, and 9 continuations of 5.
    for tokens in computed(usual) {
        assert!(tokens <= 9 + 10 + 45, "{tokens} tokens");
    }
    for tokens in computed(EngineOptions { states_tokens: PoolTokens::exactly(0), ..usual }) {
        assert!(tokens >= 40 + 9 + 40, "nothing is kept where requests are timed one by one: {tokens} tokens");
    }
}
