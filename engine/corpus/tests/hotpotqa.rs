//! The passages of real HotpotQA questions, if the data lies beside the repository.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    time::Instant,
};

use flate2::read::MultiGzDecoder;
use hopeval_corpus::{Corpus, CorpusBuilder, CorpusSettings, LinkOrigin, NewPassage, PassageId};
use serde::Deserialize;

#[derive(Deserialize)]
struct Row {
    title: String,
    text: String,
}

#[test]
fn the_hotpotqa_passages_are_all_there_and_linked() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/hotpotqa/corpus.jsonl.gz");
    let Ok(file) = std::fs::File::open(&source) else {
        eprintln!("SKIPPED: {} is not there", source.display());
        return;
    };
    let rows: Vec<Row> = BufReader::new(MultiGzDecoder::new(file))
        .lines()
        .map(|line| serde_json::from_str(&line.unwrap()).unwrap())
        .collect();
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("hotpotqa");
    let started = Instant::now();
    let mut builder = CorpusBuilder::create(&dir, CorpusSettings::default()).unwrap();
    for row in &rows {
        builder.push(NewPassage { title: &row.title, text: &row.text, ..NewPassage::default() }).unwrap();
    }
    let pushed = started.elapsed();
    let counts = builder.finish().unwrap().info.counts;
    eprintln!("{counts:?} in {:?}, of it {pushed:?} for pushing", started.elapsed());

    let corpus = Corpus::open(&dir).unwrap();
    corpus.verify().unwrap();
    assert_eq!((corpus.len(), counts.titles, counts.shared_titles), (12_392, 12_390, 2));
    assert_eq!(corpus.info().link_origin, LinkOrigin::TitleMentions);
    for (number, row) in (0..).zip(&rows) {
        assert_eq!(corpus.by_title_and_text(&row.title, &row.text), Some(PassageId(number)));
    }
    // Pinned: the rule of title mentions is part of the format version.
    assert_eq!((counts.links, counts.passages_with_links, counts.repeated_links), (13_578, 8_025, 3_008));
    for passage in corpus.passages() {
        for anchor in corpus.anchors(passage) {
            let (named, title) = (&corpus.text(passage)[anchor.span], corpus.title(anchor.target));
            assert!(title == named || title.starts_with(&format!("{named} (")), "{named:?} names {title:?}");
            assert_ne!(title, corpus.title(passage));
        }
    }
}
