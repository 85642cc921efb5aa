//! Index files: the same for every builder, and refused if damaged or foreign.

#![expect(clippy::unwrap_used, reason = "a panic is the report of a test")]

use std::{fs, path::Path};

use hopeval_index::{
    Analyzer, Bm25Formula, Bm25Index, Bm25Parameters, IndexError, Passages, Query, SearchScratch, SearchedFields,
    TfidfIndex, TfidfParameters,
};

fn passages(count: u64) -> Vec<(String, String)> {
    let mut state = 5u64;
    let mut next = |n: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % n
    };
    (0..count)
        .map(|i| {
            let words: Vec<String> = (0..10).map(|_| next(4000)).map(|n| format!("w{}", n * n / 4000)).collect();
            (format!("Title {i}"), words.join(" "))
        })
        .collect()
}

fn build(passages: &impl Passages, path: &Path, threads: usize) {
    Bm25Index::build(passages, "digest", &Bm25Parameters::default(), path, threads).unwrap();
}

#[test]
fn bytes_do_not_depend_on_threads() {
    let folder = tempfile::tempdir().unwrap();
    let passages = passages(100_000);
    let files: Vec<Vec<u8>> = (1..=4)
        .map(|threads| {
            let path = folder.path().join(threads.to_string());
            build(&passages, &path, threads);
            fs::read(path).unwrap()
        })
        .collect();
    assert!(files.windows(2).all(|pair| pair[0] == pair[1]));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 4, "nothing temporary is left");
}

#[test]
fn other_corpora_and_settings_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index");
    let p = Bm25Parameters::default();
    build(&passages(50), &path, 1);
    // Parameters of the query are free.
    Bm25Index::open(&path, "digest", &Bm25Parameters { k1: 2.0, b: 0.1, formula: Bm25Formula::Okapi, ..p }).unwrap();
    let error = |digest, p: &Bm25Parameters| Bm25Index::open(&path, digest, p).err().unwrap();
    assert!(matches!(error("other", &p), IndexError::Mismatch { what: "corpus", .. }));
    let whitespace = Bm25Parameters { analyzer: Analyzer::Whitespace, ..p };
    assert!(matches!(error("digest", &whitespace), IndexError::Mismatch { what: "layout", .. }));
    assert!(error("digest", &whitespace).to_string().contains("analyzer=word"));
    assert!(matches!(error("digest", &Bm25Parameters { b: 1.5, ..p }), IndexError::Parameter { field: "b", .. }));
    assert!(matches!(
        error("digest", &Bm25Parameters { k1: f64::NAN, ..p }),
        IndexError::Parameter { field: "k1", .. }
    ));
    let tfidf = TfidfIndex::open(&path, "digest", &TfidfParameters::default()).err().unwrap();
    assert!(matches!(tfidf, IndexError::Mismatch { .. }));
    let missing = Bm25Index::open(&folder.path().join("none"), "digest", &p).err().unwrap();
    assert!(matches!(missing, IndexError::Io { action: "open", .. }));
    let nowhere = Bm25Index::build(&passages(1), "digest", &p, &folder.path().join("no/such/folder"), 1);
    assert!(matches!(nowhere, Err(IndexError::Io { action: "create", .. })));
}

#[test]
fn names_follow_the_layout() {
    let p = Bm25Parameters::default();
    let key = Bm25Index::key("digest", &p);
    assert_eq!(key.len(), 64);
    assert_eq!(key, Bm25Index::key("digest", &Bm25Parameters { k1: 2.0, ..p }));
    assert_ne!(key, Bm25Index::key("other", &p));
    assert_ne!(key, Bm25Index::key("digest", &Bm25Parameters { fields: SearchedFields::Text, ..p }));
    assert_ne!(key, TfidfIndex::key("digest", &TfidfParameters::default()));
}

#[test]
fn parameters_are_read_from_settings() {
    let p: Bm25Parameters =
        serde_json::from_str(r#"{"analyzer": "english", "fields": "title,text", "formula": "atire", "k1": 1.2}"#)
            .unwrap();
    assert_eq!(
        (p.analyzer, p.fields, p.formula, p.k1, p.b),
        (Analyzer::English, SearchedFields::TitleAndText, Bm25Formula::Atire, 1.2, 0.4)
    );
    assert!(serde_json::from_str::<Bm25Parameters>(r#"{"k2": 1}"#).unwrap_err().to_string().contains("k2"));
    assert_eq!(serde_json::from_str::<TfidfParameters>(r#"{"ties": "later"}"#).unwrap().hash_bits, 24);
}

/// For any damage to a file, opening and searching it gives an error or hits, never a panic, and `verify` finds it.
#[test]
fn damage_is_never_a_panic() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index");
    build(&passages(3000), &path, 1);
    let good = fs::read(&path).unwrap();
    let mut state = 11u64;
    let mut next = |n: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % n
    };
    let (mut refused, mut searched) = (0, 0);
    for round in 0..400 {
        let mut bad = good.clone();
        match round % 4 {
            0 => bad.truncate(next(good.len())),
            1 => (0..2000).for_each(|_| bad[600 + next(good.len() - 600)] ^= next(256) as u8),
            _ => bad[next(good.len())] ^= 1 << next(8),
        }
        if bad == good {
            continue;
        }
        fs::write(&path, &bad).unwrap();
        match Bm25Index::open(&path, "digest", &Bm25Parameters::default()) {
            Err(_) => refused += 1,
            Ok(index) => {
                searched += 1;
                let hits = index.search(
                    &[Query { text: "title w0 w1 w7 w12 w80 w200 w1000 w3000", k: 20, within: None }],
                    &mut SearchScratch::default(),
                );
                assert!(hits[0].iter().all(|hit| hit.id < 3000));
            }
        }
    }
    assert!(refused > 150 && searched > 20, "{refused} refused, {searched} searched");
}
