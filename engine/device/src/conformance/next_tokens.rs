//! Next tokens against their definition, [`choose_token`], which reads all logits.
//!
//! A drawn token must be the definition's, whatever the distribution. Logits that every arithmetic has exactly show it
//! with ties, masks and tokens at the ends of a device's tiles; random logits are those that the device projects. There
//! the highest tokens are compared by their logits, for two may be as high.

use super::ConformanceFailure;
use super::products::{LARGE_VOCABULARIES, VOCABULARIES, upload_vector};
use super::trial::{OperationTrial, PairedValue, SeededRandom};
use crate::reference::PlainMatrix;
use crate::sampling::choose_token;
use crate::{Device, HostTensor, NextToken, TokenRule, WeightLayout};

/// Rows of exact logits, each from a pattern of its own.
const PATTERNS: usize = 8;

/// Entries: one, a few, the most that a device may take at once, a few more, and several times as many.
const EXACT_VOCABULARIES: [usize; 5] = [1, 5, 8192, 8195, 20_003];

/// The rules for each pattern and vocabulary.
const RULES: usize = 16;

pub(super) fn check_next_tokens<D: Device>(trial: &mut OperationTrial<'_, D>) -> Result<(), ConformanceFailure> {
    for (rows, into, vocabulary) in VOCABULARIES {
        random_logits(trial, rows, into, vocabulary)?;
    }
    for (into, vocabulary) in LARGE_VOCABULARIES {
        random_logits(trial, 24, into, vocabulary)?;
    }
    for vocabulary in EXACT_VOCABULARIES {
        exact_logits(trial, vocabulary)?;
    }
    masked_logits(trial)
}

/// The highest token for every fifth row, and draws of all kinds: of all tokens, of the `k` highest with `k` up to more
/// than there are, of the fewest with a probability, of both.
pub(super) fn some_rules(random: &mut SeededRandom, vocabulary: usize, count: usize) -> Vec<TokenRule> {
    let rule = |nth: usize| {
        if nth.is_multiple_of(5) {
            return TokenRule::Highest;
        }
        let numbers = [1, 2, 3, 7, 50, 8192, vocabulary.saturating_sub(1), vocabulary, vocabulary + 5];
        let parts = [0.0, 1e-6, 0.1, 0.5, 0.9, 0.999, 1.0 - f32::EPSILON / 2.0];
        let truncation = random.below(4);
        TokenRule::Drawn {
            temperature: random.pick(&[1e-30, 0.05, 0.7, 1.0, 1.0, 1.3, 1e4]),
            top_k: if truncation % 2 == 1 { random.pick(&numbers) } else { 0 },
            top_p: if truncation / 2 == 1 { random.pick(&parts) } else { 1.0 },
            // Anywhere, and at both ends.
            at: match random.below(6) {
                0 => 0.0,
                1 => 1.0 - f64::EPSILON / 2.0,
                2 => 1e-7,
                _ => f64::from(random.number(0.5)) + 0.5,
            },
        }
    };
    (0..count).map(rule).collect()
}

/// Logits of each device's own rounding.
fn random_logits<D: Device>(
    trial: &mut OperationTrial<'_, D>,
    rows: usize,
    into: usize,
    vocabulary: usize,
) -> Result<(), ConformanceFailure> {
    let layout = trial.random.pick(&[WeightLayout::OutIn, WeightLayout::InOut]);
    let x = trial.random_tensor(rows, into)?;
    let weight = trial.random_matrix(vocabulary, into, layout, 3.0 * (3.0 / into as f32).sqrt())?;
    let bias = if trial.random.below(2) == 0 { Some(trial.random_vector(vocabulary, 0.0)?) } else { None };
    let scale = trial.random.pick(&[1.0, 0.25]);
    let rules = some_rules(&mut trial.random, vocabulary, rows);
    let case = format!("{rows} rows, {into} numbers, {vocabulary} words, {layout:?}, bias: {}", bias.is_some());
    let there = bias.as_ref().map(|bias| &bias.device);
    let found = trial.device.next_tokens(&x.device, &weight.device, there, scale, &rules);
    let found: Vec<NextToken> = trial.with_case(&case, found)?;
    let logits = trial.with_case(&case, trial.device.project(&x.device, &weight.device, there, scale))?;
    let expected = by_definition(&logits, &rules);
    let (mut drawn, mut highest) = ((Vec::new(), Vec::new()), (Vec::new(), Vec::new()));
    for (row, rule) in rules.iter().enumerate() {
        if *rule != TokenRule::Highest {
            drawn.0.push(found[row]);
            drawn.1.push(expected[row]);
            continue;
        }
        let numbers = |token: NextToken| {
            token.map_or([f32::NAN; 2], |token| [logits[row * vocabulary + token.id as usize], token.log_prob])
        };
        highest.0.extend(numbers(found[row]));
        highest.1.extend(numbers(expected[row]));
    }
    trial.compare_tokens(&format!("{case}, drawn"), &drawn.0, &drawn.1)?;
    trial.compare_numbers(&format!("{case}, highest"), &highest.0, &highest.1)
}

/// The tokens of the definition.
fn by_definition(logits: &[f32], rules: &[TokenRule]) -> Vec<NextToken> {
    let rows = logits.chunks_exact(logits.len() / rules.len());
    rows.zip(rules).map(|(logits, rule)| choose_token(logits, rule)).collect()
}

/// Logits of eight bits: ties within a tile and across its end, single tokens at its end, flat and steep rows.
fn pattern(random: &mut SeededRandom, nth: usize, vocabulary: usize) -> Vec<f32> {
    let edges = [8191, 8192, 16_383, 16_384, vocabulary - 1];
    let logit = |word: usize| match nth {
        0 => 0.5,
        1 => [3.0, 1.0, 1.0, 0.0, -2.0][word % 5],
        2 if edges.contains(&word) => 4.0,
        2 => -6.0,
        3 => -((word % 97) as f32) / 8.0,
        4 => -((word / 100) as f32),
        5 if (8185..8200).contains(&word) => 2.0,
        5 => -((word % 3) as f32) - 8.0,
        6 if !word.is_multiple_of(40) => -1e9,
        6 => random.below(64) as f32 / 8.0,
        _ => (random.below(256) as f32 - 128.0) / 16.0,
    };
    let mut logits: Vec<f32> = (0..vocabulary).map(logit).collect();
    logits.iter_mut().for_each(|logit| *logit = half::bf16::from_f32(*logit).to_f32());
    logits
}

/// Every row has one 1, so that its logits are the numbers of one column of the weights in any arithmetic.
fn exact_logits<D: Device>(trial: &mut OperationTrial<'_, D>, vocabulary: usize) -> Result<(), ConformanceFailure> {
    let patterns: Vec<Vec<f32>> = (0..PATTERNS).map(|nth| pattern(&mut trial.random, nth, vocabulary)).collect();
    let columns: Vec<f32> = patterns.concat();
    let weights = [HostTensor::from_f32("weights", &[PATTERNS, vocabulary], &columns)];
    let weight = trial.with_case("weights", trial.device.load_matrix(&weights, WeightLayout::InOut))?;
    let rows = PATTERNS * RULES;
    let one = |at: usize| f32::from(u8::from(at % PATTERNS == at / PATTERNS % PATTERNS));
    let ones: Vec<f32> = (0..rows * PATTERNS).map(one).collect();
    let x = trial.upload(rows, PATTERNS, &ones)?;
    let rules = some_rules(&mut trial.random, vocabulary, rows);
    let expected: Vec<NextToken> =
        rules.iter().enumerate().map(|(row, rule)| choose_token(&patterns[row % PATTERNS], rule)).collect();
    let case = format!("exact logits of {vocabulary} words, {rules:?}");
    let found = trial.with_case(&case, trial.device.next_tokens(&x, &weight, None, 1.0, &rules))?;
    trial.compare_tokens(&case, &found, &expected)?;
    // Each rule alone, as greedy and drawn rows go ways of their own.
    let row = trial.random.below(rows);
    let x = trial.upload(1, PATTERNS, &ones[row * PATTERNS..][..PATTERNS])?;
    let case = format!("exact logits of {vocabulary} words, {:?} alone", rules[row]);
    let found = trial.with_case(&case, trial.device.next_tokens(&x, &weight, None, 1.0, &rules[row..=row]))?;
    trial.compare_tokens(&case, &found, &expected[row..=row])
}

/// Impossible words are never drawn; a word that is not a number, or infinitely high, leaves a row without a token, and
/// so do impossible words alone.
fn masked_logits<D: Device>(trial: &mut OperationTrial<'_, D>) -> Result<(), ConformanceFailure> {
    const NEVER: f32 = f32::NEG_INFINITY;
    let (rows, into) = (25, 16);
    for words in [50, 8300] {
        let x = trial.random_tensor(rows, into)?;
        let weight = trial.random_matrix(words, into, WeightLayout::OutIn, 0.5)?;
        for (name, usual, others) in [
            ("one bias is NaN", 0.5, &[(11, f32::NAN)][..]),
            ("the last bias but one is NaN", -0.5, &[(words - 2, f32::NAN)]),
            ("biases are -inf, one is NaN", NEVER, &[(words - 3, f32::NAN)]),
            ("one bias is infinite", 0.5, &[(words - 1, f32::INFINITY)]),
            ("some biases are -inf", 0.0, &[(0, NEVER), (1, NEVER), (12, NEVER), (words - 1, NEVER)]),
            ("biases are -inf but for two", NEVER, &[(7, 0.5), (words - 4, 0.25)]),
            ("biases are -inf but for the last", NEVER, &[(words - 1, 1.0)]),
            ("biases are -inf", NEVER, &[]),
        ] {
            let mut biases = vec![usual; words];
            others.iter().for_each(|(word, bias)| biases[*word] = *bias);
            let bias = upload_vector(trial, &biases)?;
            let rules = some_rules(&mut trial.random, words, rows);
            let case = format!("{words} words, {name}");
            let there = Some(&bias.device);
            let found =
                trial.with_case(&case, trial.device.next_tokens(&x.device, &weight.device, there, 1.0, &rules))?;
            let logits = trial.with_case(&case, trial.device.project(&x.device, &weight.device, there, 1.0))?;
            trial.compare_tokens(&case, &found, &by_definition(&logits, &rules))?;
        }
        row_of_nan(trial, &x, &weight, words)?;
    }
    Ok(())
}

/// A row with a NaN has no token, and the rows beside it have theirs.
fn row_of_nan<D: Device>(
    trial: &mut OperationTrial<'_, D>,
    x: &PairedValue<D::Tensor, PlainMatrix>,
    weight: &PairedValue<D::Matrix, PlainMatrix>,
    words: usize,
) -> Result<(), ConformanceFailure> {
    let PlainMatrix { rows, columns, ref values } = x.plain;
    let mut values = values.clone();
    values[3 * columns] = f32::NAN;
    let x = trial.upload(rows, columns, &values)?;
    let rules = some_rules(&mut trial.random, words, rows);
    let case = format!("{words} words, a row has a NaN");
    let found = trial.with_case(&case, trial.device.next_tokens(&x, &weight.device, None, 1.0, &rules))?;
    let logits = trial.with_case(&case, trial.device.project(&x, &weight.device, None, 1.0))?;
    trial.compare_tokens(&case, &found, &by_definition(&logits, &rules))
}
