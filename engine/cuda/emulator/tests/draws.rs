//! Drawn tokens: what the kernel finds in a row, held against plain sums, and the rows whose logits are read.

use hopeval_cuda::Cuda;
use hopeval_cuda::kernels::{FAMILIES, Kernel};
use hopeval_cuda::runtime::{KernelArgument, KernelLaunch, Runtime as _};
use hopeval_cuda_emulator::{Emulator, EmulatorOptions, ThreadOrder};
use hopeval_device::conformance::Arithmetic;
use hopeval_device::sampling::choose_token;
use hopeval_device::{ChosenToken, Device, HostTensor, TokenRule, WeightLayout};

fn emulator() -> Emulator {
    let options = EmulatorOptions::new(env!("CARGO_TARGET_TMPDIR")).order(ThreadOrder::Shuffled(7));
    Emulator::new(options).expect("kernels that compile")
}

/// Numbers in 0..1 from a seed.
fn random(seed: u64) -> impl FnMut() -> f64 {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1_u64 << 53) as f64
    }
}

fn drawn(temperature: f32, top_k: usize, top_p: f32, at: f64) -> TokenRule {
    TokenRule::Drawn { temperature, top_k, top_p, at }
}

/// Rules of all kinds, for a vocabulary of `entries`.
fn rules(entries: usize) -> Vec<TokenRule> {
    let mut next = random(entries as u64);
    let mut all = Vec::new();
    for temperature in [0.01, 0.8, 1.0, 3.0, 1e5] {
        for top_k in [0, 1, 2, 40, 600, entries.saturating_sub(1)] {
            let top_k = if top_k < entries { top_k } else { 0 };
            for top_p in [1.0, 0.97, 0.5, 0.03, 0.0] {
                all.push(drawn(temperature, top_k, top_p, next()));
            }
        }
    }
    all
}

/// The numbers of a row that `draw.cu` is to leave, in plain sums.
fn expected(logits: &[f32], rule: &TokenRule) -> [f64; 8] {
    let TokenRule::Drawn { temperature, top_k, top_p, at } = *rule else { panic!("a draw") };
    let highest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let power = |logit: f32| f64::from(logit) - f64::from(highest);
    let weight = |id: usize| (power(logits[id]) / f64::from(temperature)).exp();
    let mut ids: Vec<usize> = (0..logits.len()).collect();
    ids.sort_by(|a, b| logits[*b].total_cmp(&logits[*a]).then(a.cmp(b)));
    ids.truncate(if top_k == 0 { usize::MAX } else { top_k });
    let (mut near, mut all) = (1.0, 0.0);
    if top_p < 1.0 {
        all = ids.iter().map(|id| weight(*id)).sum::<f64>();
        let wanted = all * f64::from(top_p);
        let mut held = 0.0;
        let count = 1 + ids.iter().position(|id| (held += weight(*id), held >= wanted).1).expect("all are enough");
        let one_less = if count == 1 { f64::INFINITY } else { wanted - (held - weight(ids[count - 1])) };
        near = one_less.min(held - wanted);
        ids.truncate(count);
    }
    ids.sort_unstable();
    let total = ids.iter().map(|id| weight(*id)).sum::<f64>();
    let (mut before, target) = (0.0, at * total);
    let id = *ids.iter().find(|id| (before += weight(**id), target < before).1).expect("a quantile below 1");
    let distance = (before - target).min(target - (before - weight(id)));
    let sum = logits.iter().map(|logit| power(*logit).exp()).sum::<f64>();
    [id as f64, f64::from(logits[id]), f64::from(highest), sum, near, all, distance, total]
}

/// Logits of a kind: near to each other, ties, far apart, masked, high ones around the ends of blocks.
fn logits(kind: usize, entries: usize, next: &mut impl FnMut() -> f64) -> Vec<f32> {
    let logit = |at: usize| match kind {
        0 => next() as f32,
        1 => (next() * 6.0).floor() as f32,
        2 => (next() * 40.0) as f32 - 20.0,
        3 if next() < 0.9 => f32::NEG_INFINITY,
        3 => next() as f32 * 4.0,
        4 if at % 512 < 2 => 5.0,
        4 => -(next() as f32),
        _ => -(at as f32) * 0.37,
    };
    let mut logits: Vec<f32> = (0..entries).map(logit).collect();
    logits[entries / 2] = 6.5;
    logits
}

#[test]
fn the_kernel_finds_what_plain_sums_do() {
    let emulator = emulator();
    let family = FAMILIES.iter().find(|family| family.name == "draw").expect("a family");
    let kernel = Kernel { family, name: family.kernels[0] };
    let mut next = random(5);
    for (entries, stride) in [(1, 8), (5, 8), (511, 512), (513, 520), (8192, 8192), (8195, 8200), (20_003, 20_008)] {
        let bias: Vec<f32> = (0..entries).map(|_| next() as f32 - 0.5).collect();
        let rules = rules(entries);
        let some: Vec<&TokenRule> =
            if entries > 9000 { rules.iter().step_by(3).collect() } else { rules.iter().collect() };
        for biased in [false, true] {
            let rows: Vec<Vec<f32>> = (0..some.len()).map(|row| logits(row % 6, entries, &mut next)).collect();
            // What lies behind the last entry is no logit.
            let padded = rows.iter().flat_map(|row| row.iter().copied().chain(vec![1e30; stride - entries]));
            let bytes = |numbers: &mut dyn Iterator<Item = f32>| numbers.flat_map(f32::to_le_bytes).collect::<Vec<_>>();
            let there = emulator.upload(&bytes(&mut padded.into_iter())).unwrap();
            let added = emulator.upload(&bytes(&mut bias.iter().copied())).unwrap();
            let numbers = some.iter().flat_map(|rule| {
                let TokenRule::Drawn { temperature, top_k, top_p, at } = **rule else { panic!("a draw") };
                [std::f64::consts::LOG2_E / f64::from(temperature), top_k as f64, f64::from(top_p), at]
            });
            let numbers = emulator.upload(&numbers.flat_map(f64::to_le_bytes).collect::<Vec<_>>()).unwrap();
            let out = emulator.allocate(some.len() * 8 * 4).unwrap();
            let bias_argument = if biased { KernelArgument::Buffer(&added) } else { KernelArgument::Null };
            let arguments = [
                KernelArgument::Buffer(&out),
                KernelArgument::Buffer(&there),
                bias_argument,
                KernelArgument::Buffer(&numbers),
                KernelArgument::U32(stride as u32),
                KernelArgument::U32(entries as u32),
            ];
            let launch = KernelLaunch { kernel, grid: (some.len() as u32, 1), threads: 512, shared: 0 };
            emulator.launch(launch, &arguments).unwrap();
            let mut found = vec![0; some.len() * 8 * 4];
            emulator.download(&out, &mut found).unwrap();
            let words: Vec<u32> = found.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
            for ((row, rule), found) in rows.iter().zip(&some).zip(words.chunks_exact(8)) {
                let of_bias = |at: usize| if biased { bias[at] } else { 0.0 };
                let logits: Vec<f32> = row.iter().enumerate().map(|(at, logit)| logit + of_bias(at)).collect();
                let expected = expected(&logits, rule);
                let case = format!("{entries} entries, bias: {biased}, {rule:?}");
                assert_eq!(f64::from(found[0]), expected[0], "{case}: {expected:?}");
                for number in 1..8 {
                    let (found, expected, total) =
                        (f64::from(f32::from_bits(found[number])), expected[number], expected[7].max(expected[5]));
                    let allowed = 1e-6 * expected.abs() + 1e-11 * total;
                    assert!((found - expected).abs() <= allowed, "{case}: number {number}: {found}, {expected}");
                }
            }
        }
    }
}

/// The tokens that rules choose from words with these logits in every row, which must be the definition's, and the
/// number of launches.
fn with_logits(device: &Cuda<Emulator>, logits: &[f32], rules: &[TokenRule]) -> (Vec<u32>, u64) {
    let weights: Vec<f32> = logits.iter().flat_map(|logit| [*logit, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]).collect();
    let weight = HostTensor::from_f32("weight", &[logits.len(), 8], &weights);
    let weight = device.load_matrix(&[weight], WeightLayout::OutIn).expect("a matrix");
    let x = device.upload(rules.len(), 8, &vec![1.0; 8 * rules.len()]).expect("memory");
    let before = device.runtime().launches();
    let found = device.next_tokens(&x, &weight, None, 1.0, rules).expect("memory");
    let launches = device.runtime().launches() - before;
    let found: Vec<ChosenToken> = found.into_iter().map(|token| token.expect("finite")).collect();
    for (rule, found) in rules.iter().zip(&found) {
        let expected = choose_token(logits, rule).expect("finite");
        assert_eq!(found.id, expected.id, "{rule:?}");
        assert!((found.log_prob - expected.log_prob).abs() < 2e-6, "{rule:?}: {found:?}, {expected:?}");
    }
    (found.iter().map(|token| token.id).collect(), launches)
}

#[test]
fn all_logits_are_read_where_another_token_is_too_near_and_nowhere_else() {
    let device = Cuda::new(emulator(), Arithmetic::F32);
    let mut next = random(9);
    let uneven: Vec<f32> = (0..9000).map(|_| next() as f32 * 20.0).collect();
    // A product and a kernel, whatever the rule.
    assert_eq!(with_logits(&device, &uneven, &rules(9000)).1, 2);
    // With rows that do not draw: each kind is gathered, and the highest are found in two tiles.
    let mixed = [TokenRule::Highest, drawn(1.0, 0, 0.9, 0.3), drawn(1.0, 50, 1.0, 0.4)];
    assert_eq!(with_logits(&device, &uneven, &mixed).1, 1 + 2 * 2 + 1 + 2);
    // Equal weights: quantiles and probabilities that end with a token's weight. The last product has all logits.
    let even = [0.5; 8];
    let quarters = [0.0, 0.25, 0.5, 0.75].map(|at| drawn(1.0, 0, 1.0, at));
    assert_eq!(with_logits(&device, &even, &quarters), (vec![0, 2, 4, 6], 2 + 1));
    let parts = [0.25, 0.5, 0.75].map(|top_p| drawn(0.7, 0, top_p, 0.9));
    assert_eq!(with_logits(&device, &even, &parts), (vec![1, 3, 5], 2 + 1));
    let after = [drawn(0.7, 4, 0.5, 0.9), drawn(0.7, 4, 0.51, 0.9)];
    // One of two rows, which is gathered.
    assert_eq!(with_logits(&device, &even, &after), (vec![1, 2], 2 + 2));
    let least = 1.0 - f64::EPSILON / 2.0;
    assert_eq!(with_logits(&device, &even, &[drawn(1.0, 3, 1.0, least)]), (vec![2], 2 + 1));
    // Not near enough.
    let off = [0.25 - 1e-7, 0.25 + 1e-7].map(|at| drawn(1.0, 0, 1.0, at));
    assert_eq!(with_logits(&device, &even, &off), (vec![1, 2], 2));
}

/// Rows of a chunk have the tokens that they have alone, and more logits than are in memory at once are none too many.
#[test]
fn rows_are_drawn_in_chunks() {
    let device = Cuda::new(emulator(), Arithmetic::F32);
    let mut next = random(11);
    // 257 rows and more of this vocabulary are two chunks.
    let logits: Vec<f32> = (0..130_000).map(|_| next() as f32 * 20.0).collect();
    let rules: Vec<TokenRule> = (0..260).map(|_| drawn(1.0, 2, 1.0, next())).collect();
    assert_eq!(with_logits(&device, &logits, &rules).1, 2 * (1 + 2));
}

/// Sums of so many entries may be too far from the definition's.
#[test]
fn more_than_a_million_words_are_read() {
    let device = Cuda::new(emulator(), Arithmetic::F32);
    let logits: Vec<f32> = (0..(1 << 20) + 8).map(|word| -((word % 1000) as f32) * 0.01).collect();
    assert_eq!(with_logits(&device, &logits, &[drawn(1.0, 0, 1.0, 0.6)]).1, 1);
    assert_eq!(with_logits(&device, &logits[..1 << 20], &[drawn(1.0, 0, 1.0, 0.6)]).1, 2);
}
