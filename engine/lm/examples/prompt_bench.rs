//! Times the assembly of few-shot prompts under a budget.
//!
//! Why: every call of a generating method has a prompt of thousands of tokens, most of them demonstrations.
//! What: demonstrations of three parts each, passages and a question; groups are dropped from the front until the
//! budget holds. `whole` tokenises the whole prompt again after every group, `pieces` is [`assemble`]; both give the
//! same ids. CPU milliseconds of a prompt (one thread): the first one, then the median of the others, each with a
//! question of its own; with passages of its own, and with passages seen before.
//! Knobs: `prompt_bench FOLDER TEXTS [--budget 6000] [--demonstrations 24] [--passages 4] [--prompts 100]`: a folder
//! with a tokenizer.json, and a file with a paragraph in each line.

use hopeval_lm::prompt::{OverflowRule, Prompt, PromptPart, assemble};
use hopeval_lm::tokenise::Tokenizer;
use std::path::Path;
use std::time::Instant;

struct BenchSettings {
    budget: usize,
    demonstrations: usize,
    passages: usize,
    prompts: usize,
}

#[expect(clippy::print_stdout, reason = "an example prints")]
fn main() {
    let mut settings = BenchSettings { budget: 6000, demonstrations: 24, passages: 4, prompts: 100 };
    let (mut places, mut arguments) = (Vec::new(), std::env::args().skip(1));
    while let Some(argument) = arguments.next() {
        let knob = match argument.as_str() {
            "--budget" => &mut settings.budget,
            "--demonstrations" => &mut settings.demonstrations,
            "--passages" => &mut settings.passages,
            "--prompts" => &mut settings.prompts,
            place => {
                places.push(place.to_owned());
                continue;
            }
        };
        *knob = arguments.next().and_then(|value| value.parse().ok()).expect("a number after the knob");
    }
    let [folder, texts] = &places[..] else { panic!("prompt_bench FOLDER TEXTS [KNOB N]..") };
    let texts = std::fs::read_to_string(texts).expect("a readable file");
    let texts: Vec<&str> = texts.lines().filter(|line| line.len() > 100).collect();
    let open = || Tokenizer::open(Path::new(folder)).expect("a tokenizer");
    for (name, seen) in [("own passages", false), ("passages seen before", true)] {
        let prompts: Vec<Prompt> = (0..settings.prompts).map(|n| prompt(&texts, &settings, n, seen)).collect();
        let (whole, pieces) = (open(), open());
        let (mut by_whole, mut by_pieces, mut tokens, mut dropped) = (Vec::new(), Vec::new(), 0, 0);
        for prompt in &prompts {
            let begun = Instant::now();
            let expected = assemble_whole(&whole, prompt);
            by_whole.push(begun.elapsed().as_secs_f64() * 1e3);
            let begun = Instant::now();
            let found = assemble(&pieces, prompt, None, true).expect("it fits");
            by_pieces.push(begun.elapsed().as_secs_f64() * 1e3);
            assert_eq!(found.ids, expected, "the same ids");
            (tokens, dropped) = (tokens + found.ids.len(), dropped + found.report.dropped.len());
        }
        let each = |sum: usize| sum / prompts.len();
        println!("{name}: {} tokens, {} parts left out", each(tokens), each(dropped));
        for (way, times) in [("whole", by_whole), ("pieces", by_pieces)] {
            let first = times[0];
            let mut later = times[1..].to_vec();
            later.sort_by(f64::total_cmp);
            let (median, most) = (later[later.len() / 2], later[later.len() * 95 / 100]);
            println!("  {way:<7} first {first:.2} ms, then median {median:.3} ms, 95 % below {most:.3} ms");
        }
    }
}

/// The `n`-th prompt: demonstrations shared by all, then passages, then a question of its own.
fn prompt(texts: &[&str], settings: &BenchSettings, n: usize, seen: bool) -> Prompt {
    let mut parts = Vec::new();
    let text = |at: usize| texts[at % texts.len()];
    let mut add = |text: String| parts.push(PromptPart { text, truncate: None });
    for at in 0..settings.demonstrations {
        add(format!("Wikipedia Title: demonstration {at}\n{}", text(2 * at)));
        add(format!("\n\n{}\n", text(2 * at + 1)));
        add(format!("Q: Which one is told of in {at}?\nA: It is the {at}th of them. So the answer is: {at}.\n\n\n"));
    }
    let first = 2 * settings.demonstrations + if seen { 0 } else { n * settings.passages };
    for at in first..first + settings.passages {
        add(format!("Wikipedia Title: passage {at}\n{}\n\n", text(at)));
    }
    add(format!("Q: Who made the {n}th thing, and when was it lost?\nA:"));
    let group = |at| OverflowRule::Drop { first: 3 * at, count: 3 };
    let overflow = (0..settings.demonstrations).map(group).collect();
    Prompt { parts, budget: Some(settings.budget), overflow, ..Prompt::default() }
}

/// The ids by tokenising the whole after every rule.
fn assemble_whole(tokenizer: &Tokenizer, prompt: &Prompt) -> Vec<u32> {
    let mut texts: Vec<&str> = prompt.parts.iter().map(|part| part.text.as_str()).collect();
    let encode = |texts: &[&str]| tokenizer.ids(&texts.concat(), true).expect("ids");
    let mut ids = encode(&texts);
    for rule in &prompt.overflow {
        if ids.len() <= prompt.budget.unwrap_or(usize::MAX) {
            break;
        }
        rule.parts().for_each(|part| texts[part] = "");
        ids = encode(&texts);
    }
    ids.to_vec()
}
