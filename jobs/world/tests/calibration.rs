//! Holds the defaults to what they were calibrated for: BM25's recall, lengths and word overlap near HotpotQA's.
//!
//! BM25 and TF-IDF are slow, plain references here, so that this crate need not know the index. With `../shared` present the
//! real column is measured too and must be what the constants say.

mod support {
    pub mod hotpotqa;
    pub mod retrieval;
}

use std::path::Path;

use hopeval_world::calibrate::{CalibrationTable, Column, Sample, column};
use hopeval_world::record::Question;
use hopeval_world::{Split, World, WorldSettings};
use support::retrieval::{Bm25, TfIdf};

/// HotpotQA's 1,267 dev questions over the 12,392 passages of their contexts.
const REAL_FRACTION: [f64; 4] = [0.5517, 0.7107, 0.8287, 0.8942];
const REAL_ALL_AT_10: f64 = 0.6701;

fn measure(name: &str, samples: &[Sample], passages: &[(String, String)]) -> Column {
    let bm25 = Bm25::new(passages);
    let tfidf = TfIdf::new(passages);
    column(name, samples, passages, &|text, k| bm25.search(text, k), &|text, k| tfidf.search(text, k))
}

fn world_samples(split: Split) -> (Vec<Question>, Vec<Sample>, Vec<(String, String)>) {
    let mut settings = WorldSettings::new(1267, 12_392, 1, split);
    settings.candidate_texts = false;
    if let Ok(t) = std::env::var("TUNE") {
        let v: Vec<u32> = t.split(',').map(|x| x.parse().unwrap()).collect();
        let d = &mut settings.difficulty;
        (d.name_collisions, d.persons_per_surname, d.back_links, d.overlap, d.median_words, d.spread) =
            (v[0], v[1], v[2], v[3], v[4], v[5]);
    }
    let world = World::new(settings).unwrap();
    let mut ids = std::collections::BTreeMap::new();
    let mut passages = vec![];
    for (n, passage) in (0u32..).zip(world.passages()) {
        ids.insert(passage.id, n);
        passages.push((passage.title, passage.text));
    }
    let questions: Vec<Question> = world.questions().map(Result::unwrap).collect();
    let samples = questions
        .iter()
        .map(|q| Sample { text: q.text.clone(), gold: q.gold.iter().map(|g| ids[&g.id]).collect() })
        .collect();
    (questions, samples, passages)
}

#[test]
fn the_defaults_resemble_hotpotqa() {
    let (questions, samples, passages) = world_samples(Split::Eval);
    let of_two: Vec<Sample> =
        questions.iter().zip(&samples).filter(|(q, _)| q.hops == 2).map(|(_, s)| s.clone()).collect();
    let all = measure("world", &samples, &passages);
    let two = measure("world, two passages", &of_two, &passages);
    let (_, train_samples, train_passages) = world_samples(Split::Train);
    let train = measure("world, train", &train_samples, &train_passages);
    let mut columns = vec![all, two, train];
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/hotpotqa");
    match support::hotpotqa::load(&shared) {
        Some((samples, passages)) => columns.push(measure("HotpotQA", &samples, &passages)),
        None => eprintln!("SKIPPED: the real column, for {} is absent", shared.display()),
    }
    let table = CalibrationTable { columns };
    println!("{table}");
    for (n, world) in table.columns.iter().enumerate() {
        let tolerance = if n == 3 { 0.0005 } else { 0.05 };
        for (measured, real) in world.bm25.fraction.iter().zip(REAL_FRACTION) {
            assert!((measured - real).abs() <= tolerance, "{}: recall {measured:.4} against {real}", world.name);
        }
        let measured = world.bm25.all_at_10;
        assert!((measured - REAL_ALL_AT_10).abs() <= tolerance, "{}: all-gold@10 {measured:.4}", world.name);
        assert!((world.passage_words.mean - 88.4).abs() < 8.0, "{}: {:?}", world.name, world.passage_words);
        assert!((world.question_words.mean - 15.4).abs() < 3.0, "{}: {:?}", world.name, world.question_words);
    }
}
