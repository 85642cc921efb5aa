//! Tests the calibration of the defaults: recall of BM25 and TF-IDF, lengths and word overlap near HotpotQA's.
//!
//! BM25 and TF-IDF are slow, plain references here, so that this crate does not depend on the index. If `../shared` is
//! present, the real column is measured too and must match the constants.

mod support {
    pub(crate) mod hotpotqa;
    pub(crate) mod retrieval;
}

use std::path::Path;

use hopeval_world::calibrate::{CalibrationColumn, CalibrationTable, RecallFigures, SampleQuestion, measure_column};
use hopeval_world::record::Question;
use hopeval_world::{World, WorldSettings, WorldSplit};
use support::retrieval::{Bm25, TfIdf};

/// HotpotQA's 1,267 dev questions over the 12,392 passages of their contexts.
const REAL_BM25: RecallFigures = RecallFigures { fraction: [0.5517, 0.7107, 0.8287, 0.8942], all_at_10: 0.6701 };
/// The same with these tests' TF-IDF, without hashing and with simpler words.
const REAL_TFIDF: RecallFigures = RecallFigures { fraction: [0.539, 0.673, 0.815, 0.897], all_at_10: 0.641 };

fn measure(name: &str, samples: &[SampleQuestion], passages: &[(String, String)]) -> CalibrationColumn {
    let (bm25, tfidf) = (Bm25::new(passages), TfIdf::new(passages));
    measure_column(name, samples, passages, &|text, k| bm25.search(text, k), Some(&|text, k| tfidf.search(text, k)))
}

/// Every figure within `tolerance` of the real one.
fn near(name: &str, measured: &RecallFigures, real: &RecallFigures, tolerance: f64) {
    let pairs = measured.fraction.iter().zip(&real.fraction).chain([(&measured.all_at_10, &real.all_at_10)]);
    for (measured, real) in pairs {
        assert!((measured - real).abs() <= tolerance, "{name}: {measured:.4} against {real}");
    }
}

#[expect(clippy::unwrap_used, reason = "a panic here is the test's report")]
fn world_samples(split: WorldSplit) -> (Vec<SampleQuestion>, Vec<(String, String)>) {
    let mut settings = WorldSettings::new(1267, 12_392, 1, split);
    settings.candidate_texts = false;
    let world = World::new(settings).unwrap();
    let mut ids = std::collections::BTreeMap::new();
    let mut passages = vec![];
    for (n, passage) in (0u32..).zip(world.passages()) {
        ids.insert(passage.id, n);
        passages.push((passage.title, passage.text));
    }
    let sample = |q: Question| SampleQuestion { text: q.text, gold: q.gold.iter().map(|g| ids[&g.id]).collect() };
    let samples = world.questions().map(|q| sample(q.unwrap())).collect();
    (samples, passages)
}

#[test]
fn the_defaults_resemble_hotpotqa() {
    let mut columns = vec![];
    for (name, split) in [("eval", WorldSplit::Eval), ("train", WorldSplit::Train)] {
        let (samples, passages) = world_samples(split);
        columns.push(measure(name, &samples, &passages));
    }
    let worlds = columns.len();
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/hotpotqa");
    match support::hotpotqa::load(&shared) {
        Some((samples, passages)) => columns.push(measure("HotpotQA", &samples, &passages)),
        None => eprintln!("SKIPPED: the real column, for {} is absent", shared.display()),
    }
    let table = CalibrationTable { columns };
    println!("{table}");
    for (n, column) in table.columns.iter().enumerate() {
        let (bm25, tfidf) = if n < worlds { (0.04, 0.055) } else { (0.0005, 0.001) };
        near(&column.name, &column.bm25, &REAL_BM25, bm25);
        near(&column.name, &column.tfidf.unwrap_or_default(), &REAL_TFIDF, tfidf);
        assert!((column.passage_words.mean - 88.4).abs() < 5.0, "{}: {:?}", column.name, column.passage_words);
        assert!((column.passage_words.deviation - 53.5).abs() < 5.0, "{}: {:?}", column.name, column.passage_words);
        assert!((column.question_words.mean - 15.4).abs() < 3.0, "{}: {:?}", column.name, column.question_words);
        assert!((column.overlap - 0.754).abs() < 0.06, "{}: overlap {:.3}", column.name, column.overlap);
        assert!((column.best_overlap - 0.552).abs() < 0.08, "{}: {:.3}", column.name, column.best_overlap);
        assert!((column.worst_overlap - 0.342).abs() < 0.06, "{}: {:.3}", column.name, column.worst_overlap);
    }
}
