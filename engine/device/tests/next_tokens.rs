//! The CPU's next tokens are those that the definition chooses from its projected logits, on every row; their
//! log-probabilities are those of scoring, and no other row changes them.

use hopeval_device::cpu::{CpuOptions, InstructionSet};
use hopeval_device::sampling::choose_token;
use hopeval_device::{Cpu, Device, HostTensor, NextToken, TokenRule, UnusableLogits, WeightLayout};

/// Numbers in -1..1 from a seed.
fn numbers(seed: u64, count: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

/// Processors with weights packed and converted in each product.
fn devices() -> Vec<Cpu> {
    let with = |isa, threads, packed| {
        let options =
            CpuOptions { threads: Some(threads), isa: Some(isa), packed: Some(packed), ..CpuOptions::default() };
        Cpu::with_options(options).expect("a CPU")
    };
    let sets = InstructionSet::available().into_iter();
    sets.flat_map(|isa| [with(isa, 1, 1 << 30), with(isa, 2, 1 << 30), with(isa, 2, 0)]).collect()
}

fn rules(rows: usize) -> Vec<TokenRule> {
    let drawn = |temperature, top_k, top_p, at| TokenRule::Drawn { temperature, top_k, top_p, at };
    let some = [
        TokenRule::Highest,
        drawn(1.0, 0, 1.0, 0.37),
        drawn(0.7, 5, 1.0, 0.91),
        TokenRule::Highest,
        drawn(1.3, 0, 0.6, 0.05),
        drawn(2.0, 50, 0.9, 0.999),
    ];
    (0..rows).map(|row| some[row % some.len()]).collect()
}

/// A product with a vocabulary, asked in every way.
struct Vocabulary {
    inputs: usize,
    entries: usize,
    weights: Vec<f32>,
    biases: Option<Vec<f32>>,
    scale: f32,
}

impl Vocabulary {
    fn next(&self, cpu: &Cpu, x: &[f32], rules: &[TokenRule]) -> (Vec<NextToken>, Vec<f32>, Vec<f32>) {
        let weights = HostTensor::from_f32("w", &[self.entries, self.inputs], &self.weights);
        let weight = cpu.load_matrix(&[weights], WeightLayout::OutIn).expect("a matrix");
        let bias = self
            .biases
            .as_ref()
            .map(|biases| cpu.load_vector(&[HostTensor::from_f32("b", &[self.entries], biases)]).expect("a vector"));
        let x = cpu.upload(rules.len(), self.inputs, x).expect("memory");
        let found = cpu.next_tokens(&x, &weight, bias.as_ref(), self.scale, rules).expect("memory");
        let logits = cpu.project(&x, &weight, bias.as_ref(), self.scale).expect("memory");
        let ids: Vec<u32> = found.iter().map(|next| next.as_ref().map_or(0, |token| token.id)).collect();
        let scored = cpu.log_probs(&x, &weight, bias.as_ref(), self.scale, &ids, &[1.0]).expect("memory");
        let log_probs = scored.target_logits.iter().zip(&scored.log_sum_exps).map(|(logit, sum)| logit - sum).collect();
        (found, logits, log_probs)
    }
}

#[test]
fn tokens_are_those_of_the_definition_and_their_scores_those_of_scoring() {
    for cpu in devices() {
        for (rows, inputs, entries, scale, biased) in
            [(7, 20, 100, 1.0, false), (13, 33, 1537, 0.25, true), (200, 16, 513, 1.0, true), (6, 64, 5003, 3.0, false)]
        {
            let biases = biased.then(|| numbers(3, entries));
            let words = Vocabulary { inputs, entries, weights: numbers(1, inputs * entries), biases, scale };
            let (x, rules) = (numbers(2, rows * inputs), rules(rows));
            let (found, logits, log_probs) = words.next(&cpu, &x, &rules);
            for (row, next) in found.iter().enumerate() {
                let expected = choose_token(&logits[row * entries..(row + 1) * entries], &rules[row]).expect("finite");
                let next = next.expect("finite");
                assert_eq!(next.id, expected.id, "{entries} words, row {row}, {:?}", rules[row]);
                assert!((next.log_prob - expected.log_prob).abs() < 2e-5, "{next:?} and {expected:?}");
                assert_eq!(next.log_prob.to_bits(), log_probs[row].to_bits(), "the bits of scoring");
                // Alone.
                let own = &x[row * inputs..(row + 1) * inputs];
                assert_eq!(words.next(&cpu, own, &rules[row..=row]).0[0], Ok(next));
            }
        }
    }
}

#[test]
fn equal_logits_give_the_lowest_id_in_any_tile() {
    for cpu in devices() {
        let (inputs, entries) = (4, 1600);
        let weights = vec![0.5; inputs * entries];
        let words = Vocabulary { inputs, entries, weights, biases: None, scale: 1.0 };
        let found = words.next(&cpu, &[1.0; 8], &[TokenRule::Highest; 2]).0;
        assert!(found.iter().all(|next| next.expect("finite").id == 0), "{found:?}");
    }
}

#[test]
fn logits_without_probabilities_are_refused_and_no_other_row_with_them() {
    let (inputs, entries) = (2, 1100);
    let never = f32::NEG_INFINITY;
    for cpu in devices() {
        for rule in [TokenRule::Highest, rules(3)[2]] {
            let of = |at: usize, value: f32, others: f32| {
                let mut biases = vec![others; entries];
                biases[at] = value;
                let words = Vocabulary {
                    inputs,
                    entries,
                    weights: vec![0.0; inputs * entries],
                    biases: Some(biases),
                    scale: 1.0,
                };
                words.next(&cpu, &[0.0; 2], &[rule]).0[0]
            };
            for bad in [of(1050, f32::NAN, 0.0), of(3, f32::INFINITY, 0.0), of(7, never, never), of(9, f32::NAN, never)]
            {
                assert_eq!(bad, Err(UnusableLogits), "{rule:?}");
            }
            let only = of(1050, 2.0, never).expect("one has a probability");
            assert_eq!((only.id, only.log_prob), (1050, 0.0));
        }
        // A row of NaN beside a good one.
        let words = Vocabulary { inputs, entries, weights: numbers(5, inputs * entries), biases: None, scale: 1.0 };
        let x = [f32::NAN, 1.0, 0.5, 1.0];
        let found = words.next(&cpu, &x, &[TokenRule::Highest; 2]).0;
        assert!(found[0].is_err() && found[1].is_ok(), "{found:?}");
    }
}
