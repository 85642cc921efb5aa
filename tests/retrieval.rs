//! The figures of a well-known setting on real passages, as a user gets them: BM25 as in Lucene, k1 0.9, b 0.4, on
//! HotpotQA's questions over the union of their contexts.
//!
//! The stored BM25Okapi lists of `hotpotqa_first500` are compared list by list in `engine/index/tests/golden.rs`.

use crate::harness::{document, file_job, hopeval, measure, shared};

/// The setting, spelled out, to be independent of defaults.
const SETTING: &str = r#"
[service.sparse]
kind = "bm25"
formula = "lucene"
k1 = 0.9
b = 0.4
analyzer = "word"
fields = "title+text"
[method.bm25]
kind = "one_step"
retriever = "sparse"
k = 20
[measures]
recall_at = [2, 5, 10, 20]
"#;

/// The known figures of this setting. Recall is fractional, and any passage with a gold title is gold.
const FIGURES: [(&str, f64); 5] = [
    ("recall_frac@2", 0.5517),
    ("recall_frac@5", 0.7107),
    ("recall_frac@10", 0.8287),
    ("recall_frac@20", 0.8942),
    ("recall_all@10", 0.6701),
];

#[test]
fn lucene_bm25_on_hotpotqa_has_the_known_recall() {
    let Some(shared) = shared("recall on HotpotQA") else { return };
    let dir = tempfile::tempdir().unwrap();
    let data = shared.join("data/hotpotqa");
    let (questions, corpus) = (data.join("dev_1267.json.gz"), data.join("corpus.jsonl.gz"));
    let job = file_job(dir.path(), "recall", "hotpotqa", &questions, &corpus, SETTING);
    let found = document(&mut hopeval(dir.path(), &["run", job.to_str().unwrap(), "--json"]));
    assert_eq!(found["questions"], 1267);
    for (name, expected) in FIGURES {
        let row = measure(&found, "bm25", "all", name);
        let value = row["value"].as_f64().unwrap();
        assert!((value - expected).abs() <= 0.0005, "{name} is {value} and should be {expected}");
        assert_eq!((row["n"].as_u64(), row["coverage"].as_f64()), (Some(1267), Some(1.0)), "{name}");
        assert_eq!(row["context_mode"], "open");
    }
    // The strata are the dataset's, and together they are everything.
    let of = |stratum: &str| {
        let row = measure(&found, "bm25", stratum, "recall_frac@10");
        (row["n"].as_u64().unwrap(), row["value"].as_f64().unwrap())
    };
    let ((bridge, first), (comparison, second)) = (of("type=bridge"), of("type=comparison"));
    assert_eq!((bridge, comparison), (971, 296));
    let together = (bridge as f64 * first + comparison as f64 * second) / 1267.0;
    assert!((together - of("all").1).abs() < 1e-12);
}
