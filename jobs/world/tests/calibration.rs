//! Holds the defaults to what they were calibrated for: BM25's recall, lengths and word overlap near HotpotQA's.
//!
//! BM25 and TF-IDF are slow, plain references here, so that this crate need not know the index. With `../shared` present the
//! real column is measured too and must be what the constants say.

mod support {
    pub(crate) mod hotpotqa;
    pub(crate) mod retrieval;
}

use std::path::Path;

use hopeval_world::calibrate::{CalibrationTable, Column, Retrieve, Sample, column};
use hopeval_world::record::Question;
use hopeval_world::{Split, World, WorldSettings};
use support::retrieval::{Bm25, TfIdf};

/// HotpotQA's 1,267 dev questions over the 12,392 passages of their contexts.
const REAL_FRACTION: [f64; 4] = [0.5517, 0.7107, 0.8287, 0.8942];
const REAL_ALL_AT_10: f64 = 0.6701;

/// A column; TF-IDF, which is slow here, only where it is wanted.
fn measure(name: &str, samples: &[Sample], passages: &[(String, String)], with_tfidf: bool) -> Column {
    let bm25 = Bm25::new(passages);
    let tfidf = with_tfidf.then(|| TfIdf::new(passages));
    let by_tfidf = |text: &str, k| tfidf.as_ref().map_or_else(Vec::new, |t| t.search(text, k));
    let by_tfidf: Option<Retrieve<'_>> = if with_tfidf { Some(&by_tfidf) } else { None };
    column(name, samples, passages, &|text, k| bm25.search(text, k), by_tfidf)
}

#[expect(clippy::unwrap_used, reason = "a panic here is the test's report")]
fn world_samples(split: Split) -> (Vec<Question>, Vec<Sample>, Vec<(String, String)>) {
    let mut settings = WorldSettings::new(1267, 12_392, 1, split);
    settings.candidate_texts = false;
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
    let all = measure("world", &samples, &passages, true);
    let two = measure("world, two passages", &of_two, &passages, false);
    let (_, train_samples, train_passages) = world_samples(Split::Train);
    let train = measure("world, train", &train_samples, &train_passages, false);
    let mut columns = vec![all, two, train];
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/hotpotqa");
    match support::hotpotqa::load(&shared) {
        Some((samples, passages)) => columns.push(measure("HotpotQA", &samples, &passages, true)),
        None => eprintln!("SKIPPED: the real column, for {} is absent", shared.display()),
    }
    let table = CalibrationTable { columns };
    println!("{table}");
    // The default mix has chains of three and four passages, which HotpotQA lacks and BM25 does not follow; `train` has no
    // wordings that differ between question and passage on purpose.
    for (world, tolerance) in table.columns.iter().zip([0.10, 0.05, 0.08, 0.0005]) {
        for (measured, real) in world.bm25.fraction.iter().zip(REAL_FRACTION) {
            assert!((measured - real).abs() <= tolerance, "{}: recall {measured:.4} against {real}", world.name);
        }
        let measured = world.bm25.all_at_10;
        assert!((measured - REAL_ALL_AT_10).abs() <= tolerance, "{}: all-gold@10 {measured:.4}", world.name);
        assert!((world.passage_words.mean - 88.4).abs() < 5.0, "{}: {:?}", world.name, world.passage_words);
        assert!((world.passage_words.deviation - 53.5).abs() < 8.0, "{}: {:?}", world.name, world.passage_words);
        assert!((world.question_words.mean - 15.4).abs() < 3.0, "{}: {:?}", world.name, world.question_words);
        assert!((world.overlap - 0.754).abs() < 0.06, "{}: overlap {:.3}", world.name, world.overlap);
    }
}
