//! The engine against the outputs of transformers, and against itself in other batches.

#![expect(clippy::unwrap_used, reason = "a test fails where its fixture is not as expected")]

#[path = "engine/cuda.rs"]
mod cuda;
#[path = "engine/in_flight.rs"]
mod in_flight;

use hopeval_device::{Cpu, Device, Reference};
use hopeval_lm::engine::{Completion, EngineOptions, PoolTokens, Refusal};
use hopeval_lm::lines::{self, SamplingOptions, Task};
use hopeval_lm::request::{
    Answer, EncodeRequest, EncoderOutput, FinishReason, GenerateRequest, Request, Sampling, ScoreRequest,
};
use hopeval_lm::self_check;
use hopeval_lm::session::Session;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::channel;

const DECODERS: [&str; 11] = [
    "gpt2",
    "gpt2-bare",
    "opt",
    "opt-350m-like",
    "llama",
    "llama-llama3",
    "llama-yarn",
    "llama-linear",
    "mistral",
    "qwen2",
    "qwen3",
];
const ENCODER_DECODERS: [&str; 4] = ["t5-v1.0", "t5-v1.1", "t5-flan-f16", "t5-flan-bf16"];

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

fn expected(name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(fixture(name).join("expected.json")).unwrap()).unwrap()
}

fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

fn floats(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}

fn cpu() -> Cpu {
    Cpu::new(Some(2)).unwrap()
}

fn open<D: Device>(name: &str, device: D, options: EngineOptions) -> Session {
    Session::open(&fixture(name), device, options).unwrap()
}

fn answers(completions: Vec<Completion>) -> Vec<Answer> {
    completions.into_iter().map(|completion| completion.result.unwrap()).collect()
}

fn scores_of(expected: &Value) -> Vec<(Request, [Vec<f64>; 2])> {
    let score = |row: &Value| {
        let request = ScoreRequest {
            prompt: ids(&row["prompt_ids"]).into(),
            target: ids(&row["target_ids"]).into(),
            temperatures: vec![1.4, 1.0],
        };
        (Request::Score(request), [floats(&row["logprobs"]["1.4"]), floats(&row["logprobs"]["1.0"])])
    };
    expected["scores"].as_array().unwrap().iter().map(score).collect()
}

#[test]
fn scores_are_those_of_transformers() {
    for name in DECODERS.iter().chain(&ENCODER_DECODERS) {
        let session = open(name, cpu(), EngineOptions::default());
        let (requests, expected): (Vec<_>, Vec<_>) = scores_of(&expected(name)).into_iter().unzip();
        assert!(requests.len() > 1, "{name}");
        for (answer, expected) in answers(session.engine.ask(requests)).into_iter().zip(expected) {
            let Answer::Scored(scored) = answer else { panic!("{name}: {answer:?}") };
            for (t, (temperature, expected)) in [1.4, 1.0].into_iter().zip(expected).enumerate() {
                let found = scored.log_probs(t, temperature);
                assert_eq!(found.len(), expected.len());
                for (a, b) in found.iter().zip(&expected) {
                    assert!((f64::from(*a) - b).abs() < 1e-4, "{name} at {temperature}: {a} and {b}");
                }
            }
        }
    }
}

#[test]
fn greedy_continuations_are_those_of_transformers() {
    for name in DECODERS.iter().chain(&ENCODER_DECODERS) {
        let session = open(name, cpu(), EngineOptions::default());
        let expected = expected(name);
        let rows = expected["generations"].as_array().unwrap();
        let request = |row: &Value| {
            Request::Generate(GenerateRequest {
                prompt: ids(&row["prompt_ids"]).into(),
                max_tokens: 64,
                sampling: Sampling::Greedy,
                stop: Vec::new(),
                ends: Vec::new(),
            })
        };
        assert!(!rows.is_empty(), "{name}");
        // All at once, each twice: they join one another's steps.
        let requests = rows.iter().chain(rows).map(request);
        for (answer, row) in answers(session.engine.ask(requests)).into_iter().zip(rows.iter().chain(rows)) {
            let Answer::Generated(generated) = answer else { panic!("{name}: {answer:?}") };
            assert_eq!(generated.ids, ids(&row["ids"]), "{name}");
            for (a, b) in generated.log_probs.iter().zip(floats(&row["logprobs"])) {
                assert!((f64::from(*a) - b).abs() < 1e-4, "{name}: {a} and {b}");
            }
        }
    }
}

/// A sample of requests of every sort for a fixture, with shared prompts and equal requests among them.
fn sample(name: &str) -> Vec<Request> {
    let expected = expected(name);
    let mut sample = Vec::new();
    if let Some(rows) = expected["sequences"].as_array().filter(|_| expected["kind"] == "encoder") {
        for row in rows {
            let type_ids = row.get("token_type_ids").map(ids).unwrap_or_default();
            for want in [
                EncoderOutput::Labels,
                EncoderOutput::Logits,
                EncoderOutput::Span,
                EncoderOutput::Mean,
                EncoderOutput::First,
            ] {
                sample.push(Request::Encode(EncodeRequest {
                    ids: ids(&row["ids"]).into(),
                    type_ids: type_ids.clone().into(),
                    want,
                }));
            }
        }
        return sample;
    }
    let scores = scores_of(&expected).into_iter().map(|(request, _)| request).collect::<Vec<_>>();
    for request in &scores {
        let Request::Score(score) = request else { unreachable!() };
        // Targets of one prompt, one of them twice; prompts with a common beginning.
        for cut in [1, score.target.len().div_ceil(2), score.target.len(), score.target.len()] {
            sample.push(Request::Score(ScoreRequest { target: score.target[..cut].into(), ..score.clone() }));
        }
        let longer = [&score.prompt[..], &score.target[..1]].concat();
        sample.push(Request::Score(ScoreRequest { prompt: longer.into(), ..score.clone() }));
    }
    for (n, row) in expected["generations"].as_array().unwrap().iter().enumerate() {
        for draw in 0..3 {
            let drawn = Sampling::Sample { temperature: 0.8, top_k: 20, top_p: 0.9, seed: 5, draw };
            sample.push(Request::Generate(GenerateRequest {
                prompt: ids(&row["prompt_ids"]).into(),
                max_tokens: 5 + n,
                sampling: if draw == 0 { Sampling::Greedy } else { drawn },
                stop: Vec::new(),
                ends: Vec::new(),
            }));
        }
    }
    sample
}

#[test]
fn no_bit_depends_on_batch_order_or_threads() {
    let options = EngineOptions {
        batch_tokens: 160,
        states_tokens: PoolTokens::exactly(200),
        cache_tokens: PoolTokens::exactly(400),
        share: true,
    };
    for name in [
        "gpt2",
        "mistral",
        "qwen3",
        "opt",
        "t5-v1.1",
        "t5-v1.0",
        "deberta-v3-token",
        "bert",
        "electra-span",
        "efficientrag-labeler",
    ] {
        let tasks = open(name, cpu(), options).engine.abilities().tasks.clone();
        let able = |request: &Request| match request {
            Request::Encode(encode) => tasks.contains(&encode.want.task()),
            _ => true,
        };
        let sample = sample(name).into_iter().filter(able).collect::<Vec<_>>();
        assert!(sample.len() > 5, "{name}");
        let mut variants = self_check::variants(options, 3, 6, 90);
        variants[0].options.share = false;
        let open = |variant: &self_check::PassVariant| {
            let device = Cpu::new(Some(variant.threads))?;
            Session::open(&fixture(name), device, variant.options).map(|session| session.engine)
        };
        let differences = self_check::check(&sample, &variants, open, options).unwrap();
        for (variant, difference) in variants.iter().zip(differences) {
            assert!(difference.compared > 0);
            assert!(difference.is_none(), "{name}, {variant:?}: {difference:?}");
        }
    }
}

#[test]
fn shared_work_is_done_once_and_counted() {
    let score = |prompt: &[u32], target: &[u32]| {
        Request::Score(ScoreRequest { prompt: prompt.into(), target: target.into(), temperatures: vec![1.0] })
    };
    let document = [5, 6, 7, 8, 9, 10];
    let requests = [
        score(&document, &[20, 21, 22]),
        score(&document, &[30, 31]),
        score(&document, &[30, 31]),
        score(&[5, 6, 7, 11], &[20]),
    ];

    let decoder = open("gpt2", cpu(), EngineOptions::default());
    let completions = decoder.engine.ask(requests.clone());
    let shares: Vec<u64> = completions.iter().map(|completion| completion.cost.computed_tokens).collect();
    answers(completions);
    let counters = decoder.engine.counters();
    assert_eq!(counters.requests.load(Relaxed), 4);
    assert_eq!(counters.requested_tokens.load(Relaxed), 9 + 8 + 8 + 5);
    assert_eq!(counters.unique_tokens.load(Relaxed), 9 + 8 + 5);
    // They were submitted together, so one batch has them all: the document once, then the rests, without last tokens.
    assert_eq!(counters.batches.load(Relaxed), 1);
    assert_eq!(counters.computed_tokens.load(Relaxed), 6 + 2 + 1 + 1);
    // Every token is in somebody's share; equal requests have theirs together.
    assert_eq!(shares.iter().sum::<u64>(), 6 + 2 + 1 + 1);
    assert!(shares.iter().all(|&share| share > 0) && shares[1].abs_diff(shares[2]) <= 1, "{shares:?}");

    let seen = open("t5-v1.1", cpu(), EngineOptions::default());
    answers(seen.engine.ask(requests.clone()));
    let before = seen.engine.counters().computed_tokens.load(Relaxed);
    answers(seen.engine.ask(requests));
    let again = seen.engine.counters().computed_tokens.load(Relaxed) - before;
    assert!(again <= 3 + 2 + 2 + 1, "only decoders run over pooled states, not {again} tokens");
}

#[test]
fn bad_requests_are_refused_one_by_one_and_the_engine_goes_on() {
    let session = open(
        "gpt2",
        Reference,
        EngineOptions { batch_tokens: 64, cache_tokens: PoolTokens::exactly(40), ..EngineOptions::default() },
    );
    let score = |prompt: &[u32], target: &[u32], temperatures: &[f32]| {
        Request::Score(ScoreRequest { prompt: prompt.into(), target: target.into(), temperatures: temperatures.into() })
    };
    let generate = |max_tokens, stop: &[&str], temperature| {
        Request::Generate(GenerateRequest {
            prompt: [1, 2].into(),
            max_tokens,
            sampling: Sampling::Sample { temperature, top_k: 0, top_p: 1.0, seed: 0, draw: 0 },
            stop: stop.iter().map(|s| (*s).to_owned()).collect(),
            ends: Vec::new(),
        })
    };
    let vocabulary = session.engine.abilities().sizes.vocabulary as u32;
    let cases = [
        (score(&[], &[1], &[1.0]), "empty"),
        (score(&[1], &[], &[1.0]), "empty"),
        (score(&[1], &[vocabulary], &[1.0]), "token"),
        (score(&[1], &[2], &[f32::NAN]), "parameter"),
        (score(&[1], &[2], &[0.0]), "parameter"),
        (score(&[1], &[2], &[]), "parameter"),
        (score(&[1; 60], &[2; 10], &[1.0]), "too_long"),
        (score(&[1; 4000], &[2; 10], &[1.0]), "positions"),
        (generate(0, &[], 1.0), "parameter"),
        (generate(100, &[], 1.0), "too_long"),
        (generate(2, &[], f32::INFINITY), "parameter"),
        (
            Request::Encode(EncodeRequest { ids: [1].into(), type_ids: [].into(), want: EncoderOutput::Labels }),
            "unsupported",
        ),
    ];
    let good = score(&[1, 2, 3], &[4, 5], &[1.0]);
    let requests = cases.iter().flat_map(|(bad, _)| [bad.clone(), good.clone()]).collect::<Vec<_>>();
    let completions = session.engine.ask(requests);
    for ((request, code), pair) in cases.iter().zip(completions.chunks(2)) {
        let refusal = pair[0].result.as_ref().unwrap_err();
        assert_eq!(refusal.code(), *code, "{request:?}: {refusal}");
        assert!(refusal.is_determinate());
        assert!(pair[1].result.is_ok(), "after {request:?}");
    }
}

#[test]
fn memory_that_runs_out_halves_batches_and_loses_nothing() {
    let full = open("gpt2", cpu(), EngineOptions::default());
    let requests =
        sample("gpt2").into_iter().filter(|request| matches!(request, Request::Score(_))).collect::<Vec<_>>();
    let all = full.engine.ask(requests.clone());
    let (mut whole, mut partial) = (0, 0);
    for kib in [8, 16, 32, 64, 128, 256, 512] {
        let device = cpu();
        device.limit_memory(kib * 1024);
        let scarce = open("gpt2", device, EngineOptions::default());
        let mut refused = 0;
        for (a, b) in all.iter().zip(scarce.engine.ask(requests.clone())) {
            match b.result {
                Err(Refusal::OutOfMemory { .. }) => refused += 1,
                other => assert_eq!(a.result, other, "{kib} KiB"),
            }
        }
        let batches = scarce.engine.counters().batches.load(Relaxed);
        whole += usize::from(refused == 0 && batches > full.engine.counters().batches.load(Relaxed));
        partial += usize::from(refused > 0);
    }
    assert!(whole > 0, "some limit is met by smaller batches alone");
    assert!(partial > 0, "some limit is below what one request needs");
}

#[test]
fn lines_come_out_in_order_and_bad_ones_in_their_place() {
    let session = open("gpt2", cpu(), EngineOptions::default());
    let task = Task::Score { temperatures: vec![("1.0".into(), 1.0), ("1.4".into(), 1.4)], target_eos: true };
    let input = "{\"id\":1,\"prompt_ids\":[1,2],\"target_ids\":[3]}\n\nnonsense\n{\"id\":\"b\",\"prompt_ids\":[1,2]}\n\
                 {\"id\":3,\"prompt_ids\":[1,2],\"target_ids\":[]}\n\
                 {\"id\":4,\"prompt_ids\":[1,2],\"target_ids\":[3,-1]}\n\
                 {\"id\":5,\"prompt\":\"The bridge\",\"target\":\" of Arlen\"}\n";
    let mut output = Vec::new();
    let tally = lines::run(&session, &task, input.as_bytes(), &mut output, 2).unwrap();
    assert_eq!((tally.lines, tally.errors), (6, 4));
    let lines = String::from_utf8(output).unwrap();
    let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect::<Vec<_>>();
    assert_eq!(
        lines.iter().map(|line| line["id"].clone()).collect::<Vec<_>>(),
        [1.into(), Value::Null, "b".into(), 3.into(), 4.into(), 5.into()]
    );
    assert_eq!(lines[0]["target_tokens"], serde_json::json!([3]));
    assert_eq!(lines[0]["logprobs"].as_object().unwrap().keys().collect::<Vec<_>>(), ["1.0", "1.4"]);
    let codes = lines.iter().map(|line| line["error"]["code"].as_str().unwrap_or("")).collect::<Vec<_>>();
    assert_eq!(codes, ["", "json", "field", "empty", "field", ""]);
    assert!(lines[2]["error"]["message"].as_str().unwrap().contains("target or target_ids"));
}

#[test]
fn texts_are_scored_as_their_tokens_are() {
    for name in ["gpt2", "t5-v1.1"] {
        let session = open(name, cpu(), EngineOptions::default());
        let task = Task::Score { temperatures: vec![("1.0".into(), 1.0)], target_eos: true };
        for row in expected(name)["text_scores"].as_array().unwrap() {
            let line = serde_json::json!({ "id": 0, "prompt": row["prompt"], "target": row["target"] }).to_string();
            let mut output = Vec::new();
            lines::run(&session, &task, line.as_bytes(), &mut output, 1).unwrap();
            let found: Value = serde_json::from_slice(&output).unwrap();
            for (a, b) in floats(&found["logprobs"]["1.0"]).iter().zip(floats(&row["logprobs"]["1.0"])) {
                assert!((a - b).abs() < 1e-4, "{name}: {found}");
            }
            assert_eq!(ids(&found["target_tokens"]), ids(&row["target_ids"]), "{name}");
        }
    }
}

/// After a closed pipe the rest of a window has no reader.
#[test]
fn a_dropped_engine_ends_soon_and_refuses_what_is_left() {
    let session =
        open("gpt2", cpu(), EngineOptions { cache_tokens: PoolTokens::exactly(200), ..EngineOptions::default() });
    let (answers, completions) = channel();
    for n in 0..400 {
        let generate = GenerateRequest {
            prompt: [1 + n / 20, 1 + n % 20].into(),
            max_tokens: 60,
            sampling: Sampling::Greedy,
            stop: Vec::new(),
            ends: Vec::new(),
        };
        let answers = answers.clone();
        session.engine.submit(Request::Generate(generate), move |completion| answers.send(completion).unwrap());
    }
    drop((session, answers));
    let results = completions.into_iter().map(|completion| completion.result).collect::<Vec<_>>();
    assert_eq!(results.len(), 400, "every submission has its reply");
    let refused = results.iter().filter(|result| matches!(result, Err(Refusal::Device { .. }))).count();
    assert!(refused > 300, "only {refused} were left undone");
}

/// An encoder cannot share prefixes: batches count whole prompts, and the pool of states holds each of them.
#[test]
fn prompts_with_shared_beginnings_are_encoded_in_batches() {
    let small = EngineOptions {
        batch_tokens: 80,
        states_tokens: PoolTokens::exactly(1),
        cache_tokens: PoolTokens::exactly(1024),
        share: true,
    };
    let generate = |last: u32| {
        let mut prompt = vec![7; 30];
        prompt.push(last);
        Request::Generate(GenerateRequest {
            prompt: prompt.into(),
            max_tokens: 4,
            sampling: Sampling::Greedy,
            stop: Vec::new(),
            ends: Vec::new(),
        })
    };
    let requests = (0..60).map(|n| generate(2 + n % 40)).collect::<Vec<_>>();
    let many = answers(open("t5-v1.1", cpu(), small).engine.ask(requests.clone()));
    let alone = open("t5-v1.1", cpu(), EngineOptions::default());
    for (request, answer) in requests.into_iter().zip(many) {
        assert_eq!(answers(alone.engine.ask([request])), [answer]);
    }
}

#[test]
fn spans_of_token_ids_are_those_of_transformers() {
    let session = open("electra-span", cpu(), EngineOptions::default());
    let expected = expected("electra-span");
    let rows = expected["sequences"].as_array().unwrap();
    let spans = rows.iter().filter(|row| row["span"].is_array());
    let mut compared = 0;
    for row in spans {
        let line =
            serde_json::json!({ "id": 0, "ids": row["ids"], "token_type_ids": row["token_type_ids"] }).to_string();
        let task = Task::Read { max_answer_tokens: row["longest_answer"].as_u64().unwrap_or(30) as usize };
        let mut output = Vec::new();
        lines::run(&session, &task, line.as_bytes(), &mut output, 1).unwrap();
        let found: Value = serde_json::from_slice(&output).unwrap();
        // Our range ends after the last token, theirs with it.
        let found = ids(&found["tokens"]);
        assert_eq!(vec![found[0], found[1] - 1], ids(&row["span"]));
        compared += 1;
    }
    assert!(compared > 1);
}

#[test]
fn a_line_that_is_no_text_is_an_error_in_its_place() {
    let session = open("gpt2", cpu(), EngineOptions::default());
    let task = Task::Score { temperatures: vec![("1.0".into(), 1.0)], target_eos: true };
    let input =
        b"{\"id\":1,\"prompt_ids\":[1],\"target_ids\":[2]}\n\xff\xfe\n{\"id\":2,\"prompt_ids\":[1],\"target_ids\":[2]}";
    let mut output = Vec::new();
    let tally = lines::run(&session, &task, &input[..], &mut output, 8).unwrap();
    assert_eq!((tally.lines, tally.errors), (3, 1));
    let output = String::from_utf8(output).unwrap();
    let starts = output.lines().map(|line| &line[..8]).collect::<Vec<_>>();
    assert_eq!(starts, ["{\"id\":1,", "{\"id\":nu", "{\"id\":2,"]);
}

/// As transformers' `generate` with this `eos_token_id`: it leaves off at the first one.
#[test]
fn a_continuation_ends_before_the_first_end_token() {
    for name in ["gpt2", "llama", "t5-v1.0", "t5-v1.1", "t5-flan-f16", "t5-flan-bf16"] {
        let session = open(name, cpu(), EngineOptions::default());
        if name.starts_with("t5") {
            assert_eq!(session.ends, [1], "{name}: its configuration's");
        }
        for expected in expected(name)["generations"].as_array().unwrap() {
            let (prompt, whole) = (ids(&expected["prompt_ids"]), ids(&expected["ids"]));
            for at in [0, 7, 40] {
                let end = whole[at];
                let first = whole.iter().position(|id| *id == end).unwrap();
                let request = Request::Generate(GenerateRequest {
                    prompt: prompt.clone().into(),
                    max_tokens: whole.len(),
                    sampling: Sampling::Greedy,
                    stop: Vec::new(),
                    ends: vec![9999, end],
                });
                let Answer::Generated(made) = answers(session.engine.ask([request])).remove(0) else {
                    panic!("no continuation")
                };
                assert_eq!((made.ids, made.finish), (whole[..first].to_vec(), FinishReason::End), "{name}, {end}");
            }
        }
    }
}

#[test]
fn a_stop_string_ends_the_text_before_it() {
    let session = open("gpt2", cpu(), EngineOptions::default());
    let sampling = SamplingOptions { temperature: 0.0, top_k: 0, top_p: 1.0, seed: 0 };
    let generate = |stop: Vec<String>| {
        let task = Task::Generate { max_tokens: 24, ignore_eos: true, sampling, stop };
        let mut output = Vec::new();
        lines::run(&session, &task, &b"{\"id\":0,\"prompt\":\"The bridge of Arlen\"}"[..], &mut output, 1).unwrap();
        serde_json::from_slice::<Value>(&output).unwrap()
    };
    let whole = generate(Vec::new());
    assert_eq!(whole["finish_reason"], "length");
    let text = whole["text"].as_str().unwrap().to_owned();
    let middle = text.char_indices().nth(text.chars().count() / 2).unwrap().0;
    let stop = text[middle..].chars().take(3).collect::<String>();
    let cut = generate(vec![stop.clone()]);
    assert_eq!(cut["finish_reason"], "stop");
    assert_eq!(cut["text"].as_str().unwrap(), &text[..text.find(&stop).unwrap()]);
}
