//! Decoders and T5 compute the numbers of transformers: `fixtures/README.md` describes the making of its outputs. They
//! compute the same bits in every packing, shared or cached.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a panic, or what was compared, is the report of a test"
)]

#[path = "decoders/fixture.rs"]
mod fixture;
#[path = "decoders/generate.rs"]
mod generate;
#[path = "decoders/packed.rs"]
mod packed;
#[path = "decoders/refused.rs"]
mod refused;
#[path = "decoders/shared.rs"]
mod shared;

use fixture::{Fixture, TOLERANCE};
use hopeval_device::cpu::InstructionSet;
use hopeval_device::{Cpu, Device, Reference};
use hopeval_lm::architectures::{open_decoder, open_encoder_decoder};
use packed::{logits_of_decoder, logits_of_encoder_decoder, scores_of_decoder, scores_of_encoder_decoder};

const DECODERS: [&str; 13] = [
    "gpt2",
    "gpt2-bare",
    "llama",
    "llama-linear",
    "llama-llama3",
    "llama-yarn",
    "mistral",
    "opt",
    "opt-350m-like",
    "opt-plain",
    "qwen2",
    "qwen3",
    "qwen3-windows",
];

const ENCODER_DECODERS: [&str; 4] = ["t5-flan-bf16", "t5-flan-f16", "t5-v1.0", "t5-v1.1"];

/// Runs a test on every numerics class of this processor.
fn on_each_cpu(test: impl Fn(&Cpu)) {
    let available = InstructionSet::available();
    if available.is_empty() {
        eprintln!("SKIPPED: this processor lacks AVX2");
    }
    for isa in available {
        println!("{}", isa.name());
        test(&Cpu::with_isa(isa, Some(2)).unwrap());
    }
}

fn difference(found: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(found.len(), expected.len(), "how many numbers");
    assert!(found.iter().all(|x| x.is_finite()));
    found.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

/// Logits, encoder states and log-probabilities, all sequences in one batch, by the configurations of transformers 5
/// and 4.
fn parity<D: Device>(device: &D) {
    for name in DECODERS.into_iter().chain(ENCODER_DECODERS) {
        for (older, fixture) in Fixture::versions(name) {
            let (mut largest, sequences) = (0.0_f32, fixture.sequences());
            let mut check = |what: &str, found: &[f32], expected: &[f32]| {
                let difference = difference(found, expected);
                assert!(difference < TOLERANCE, "{name}: {what} differs by {difference}");
                largest = largest.max(difference);
            };
            let (logits, scores) = if ENCODER_DECODERS.contains(&name) {
                let model = open_encoder_decoder(&fixture.checkpoint, device).unwrap();
                let (states, logits) = logits_of_encoder_decoder(device, model.as_ref(), &sequences);
                for (i, states) in states.iter().enumerate() {
                    check(&format!("hidden.{i}"), states, &fixture.tensor(&format!("hidden.{i}")));
                }
                (logits, scores_of_encoder_decoder(device, model.as_ref(), &fixture.scores()))
            } else {
                let model = open_decoder(&fixture.checkpoint, device).unwrap();
                let logits = logits_of_decoder(device, model.as_ref(), &sequences);
                (logits, scores_of_decoder(device, model.as_ref(), &fixture.scores()))
            };
            for (i, logits) in logits.iter().enumerate() {
                check(&format!("logits.{i}"), logits, &fixture.tensor(&format!("logits.{i}")));
            }
            for (score, found) in fixture.scores().iter().zip(&scores) {
                check("log-probabilities", found, &score.log_probs);
            }
            println!("{name:16}{} {largest:.1e}", if older { " (transformers 4)" } else { "" });
        }
    }
}

#[test]
fn reference_agrees_with_transformers() {
    parity(&Reference);
}

#[test]
fn cpu_agrees_with_transformers() {
    on_each_cpu(parity);
}
