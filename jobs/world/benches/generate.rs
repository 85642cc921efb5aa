//! Why: a world of a million passages and a load test of a million questions must not wait for the generator.
//! What: passages and questions per second on one thread, made and serialised, not written.
//! Knobs: `cargo bench -p hopeval-world -- [PASSAGES] [QUESTIONS]`.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a bench prints its figures and panics where it cannot go on"
)]

use std::time::Instant;

use hopeval_world::{World, WorldSettings, WorldSplit};

fn main() {
    let sizes: Vec<u64> = std::env::args().filter_map(|a| a.parse().ok()).collect();
    let passages = sizes.first().copied().unwrap_or(100_000);
    let questions = sizes.get(1).copied().unwrap_or(20_000);
    for split in [WorldSplit::Train, WorldSplit::Eval] {
        let mut settings = WorldSettings::new(questions, passages, 1, split);
        let world = World::new(settings).unwrap();
        let start = Instant::now();
        let bytes: usize = world.passages().map(|p| serde_json::to_vec(&p).unwrap().len()).sum();
        report(split.name(), "passages", passages, bytes, start);
        for candidate_texts in [true, false] {
            settings.candidate_texts = candidate_texts;
            let world = World::new(settings).unwrap();
            let start = Instant::now();
            let bytes: usize = world.questions().map(|q| serde_json::to_vec(&q.unwrap()).unwrap().len()).sum();
            let what = if candidate_texts { "questions with candidates' texts" } else { "questions" };
            report(split.name(), what, questions, bytes, start);
        }
    }
}

fn report(split: &str, what: &str, n: u64, bytes: usize, start: Instant) {
    let seconds = start.elapsed().as_secs_f64();
    let rate = n as f64 / seconds;
    println!("{split}: {n} {what}, {seconds:.2} s, {rate:.0}/s, {} bytes each", bytes as u64 / n);
}
