//! Damaged corpora are refused with an error naming the file, and never with a panic.

#![expect(clippy::unwrap_used, reason = "a panic in a test is its report")]

use std::{fs, path::Path};

use hopeval_corpus::{Corpus, CorpusBuilder, CorpusError, CorpusSettings, NewPassage};

/// A small corpus with something in every file.
fn build(dir: &Path) {
    let settings = CorpusSettings { batch_rows: 2, ..CorpusSettings::default() };
    let mut builder = CorpusBuilder::create(dir, settings).unwrap();
    for (id, title, text) in [
        ("a", "Paris", "the capital of France"),
        ("b", "France", "a country with Paris"),
        ("c", "Lyon", "in France, not Paris"),
        ("d", "Paris", "the capital of France"),
    ] {
        let sentences = [3, text.len() as u32];
        builder.push(NewPassage { id: Some(id), title, text, sentences: &sentences, links: None }).unwrap();
    }
    builder.finish().unwrap();
}

fn files(dir: &Path) -> Vec<std::path::PathBuf> {
    let mut files: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// Opens a corpus; if it opens, makes all queries independent of valid text, and verifies it.
fn examine(dir: &Path) -> Result<(), CorpusError> {
    let corpus = Corpus::open(dir)?;
    for passage in corpus.passages() {
        assert!(corpus.links(passage).iter().chain(corpus.linked_from(passage)).all(|&other| corpus.contains(other)));
    }
    for word in ["a", "d", "Paris", "paris", "France", ""] {
        assert!(
            corpus
                .by_external_id(word)
                .into_iter()
                .chain(corpus.by_title(word).iter().copied())
                .all(|p| corpus.contains(p))
        );
        assert!(corpus.by_title_folded(word).iter().all(|&passage| corpus.contains(passage)));
        assert!(corpus.by_title_and_text(word, "the capital of France").is_none_or(|passage| corpus.contains(passage)));
    }
    corpus.verify()
}

#[test]
fn flipped_bytes_are_found_and_none_is_a_panic() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("c");
    build(&dir);
    examine(&dir).unwrap();
    for path in files(&dir).into_iter().filter(|path| path.file_name().unwrap() != "corpus.json") {
        let sound = fs::read(&path).unwrap();
        // A prime step, to meet all places within words and headers.
        for at in (0..sound.len()).step_by(13) {
            let mut bytes = sound.clone();
            bytes[at] ^= 0x55;
            fs::write(&path, &bytes).unwrap();
            let error = examine(&dir).expect_err("a flipped byte went unnoticed");
            assert!(
                error.to_string().contains(path.file_name().unwrap().to_str().unwrap()),
                "{error} for {path:?} at {at}"
            );
        }
        fs::write(&path, &sound).unwrap();
    }
}

#[test]
fn truncated_and_missing_files_are_named() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("c");
    build(&dir);
    let paths = files(&dir);
    assert_eq!(paths.len(), 9);
    for path in &paths {
        let sound = fs::read(path).unwrap();
        let is_info = path.file_name().unwrap() == "corpus.json";
        for keep in [0, 1, sound.len() / 2, sound.len() - 1] {
            fs::write(path, &sound[..keep]).unwrap();
            let refused = Corpus::open(&dir);
            if is_info {
                // The last byte of the description is its newline.
                assert!(keep == sound.len() - 1 || matches!(refused, Err(CorpusError::Info { .. })));
            } else {
                assert!(matches!(refused, Err(CorpusError::Length { .. })), "{path:?} cut to {keep}");
            }
        }
        fs::remove_file(path).unwrap();
        let error = Corpus::open(&dir).unwrap_err();
        let as_expected = if is_info {
            matches!(error, CorpusError::NotACorpus { .. })
        } else {
            matches!(error, CorpusError::Missing { .. })
        };
        assert!(as_expected, "{error}");
        fs::write(path, &sound).unwrap();
    }
    Corpus::open(&dir).unwrap();
}

#[test]
fn foreign_versions_and_edited_descriptions_are_refused() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("c");
    build(&dir);
    let path = dir.join("corpus.json");
    let sound = fs::read_to_string(&path).unwrap();
    let refuse = |from: &str, to: &str| {
        assert!(sound.contains(from), "{from} is not in {sound}");
        fs::write(&path, sound.replacen(from, to, 1)).unwrap();
        Corpus::open(&dir).unwrap_err()
    };
    let version = refuse("\"version\": 1", "\"version\": 2");
    assert!(matches!(version, CorpusError::Version { found: 2, supported: 1, .. }), "{version}");
    let digest = refuse("\"passages_digest\": \"", "\"passages_digest\": \"0");
    assert!(matches!(digest, CorpusError::Digest { .. }), "{digest}");
    let rows = refuse("\"batch_rows\": 2", "\"batch_rows\": 3");
    assert!(matches!(rows, CorpusError::Damaged { .. }), "{rows}");
    let rows = refuse("\"batch_rows\": 2", "\"batch_rows\": 1");
    assert!(matches!(rows, CorpusError::Damaged { .. }), "{rows}");
    let unknown = refuse("\"name\"", "\"nome\"");
    assert!(matches!(unknown, CorpusError::Info { .. }), "{unknown}");
    let count = refuse("\"passages\": 3", "\"passages\": 4");
    assert!(matches!(count, CorpusError::Damaged { .. }), "{count}");
}

#[test]
fn a_folder_of_something_else_is_no_corpus() {
    let root = tempfile::tempdir().unwrap();
    assert!(matches!(Corpus::open(root.path()), Err(CorpusError::NotACorpus { .. })));
    assert!(matches!(Corpus::open(&root.path().join("nowhere")), Err(CorpusError::NotACorpus { .. })));
}
