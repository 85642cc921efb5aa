//! Builds small corpora and reads them back: content, digests, duplicates, tables and hyperlinks.

#![expect(clippy::unwrap_used, reason = "a panic in a test is its report")]

use std::{fs, path::Path};

use hopeval_corpus::{
    BuildError, BuildReport, Corpus, CorpusBuilder, CorpusSettings, CorpusSource, DuplicatePolicy, LinkOrigin,
    LinkSource, NewLink, NewPassage, PassageId,
};
use proptest::prelude::*;

fn passage<'a>(title: &'a str, text: &'a str) -> NewPassage<'a> {
    NewPassage { title, text, ..NewPassage::default() }
}

fn with_id<'a>(id: &'a str, title: &'a str, text: &'a str) -> NewPassage<'a> {
    NewPassage { id: Some(id), title, text, ..NewPassage::default() }
}

fn build(dir: &Path, settings: CorpusSettings, passages: &[NewPassage<'_>]) -> Result<BuildReport, BuildError> {
    let mut builder = CorpusBuilder::create(dir, settings)?;
    for passage in passages {
        builder.push(*passage)?;
    }
    builder.finish()
}

/// Builds a corpus in a fresh folder and opens it; the folder must outlive the corpus's callers only for `verify`.
fn corpus(settings: CorpusSettings, passages: &[NewPassage<'_>]) -> (tempfile::TempDir, Corpus) {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("corpus");
    build(&dir, settings, passages).unwrap();
    let corpus = Corpus::open(&dir).unwrap();
    corpus.verify().unwrap();
    (root, corpus)
}

fn ids(numbers: &[u32]) -> Vec<PassageId> {
    numbers.iter().copied().map(PassageId).collect()
}

#[test]
fn reads_back_what_was_stored() {
    let settings = CorpusSettings { batch_rows: 2, ..CorpusSettings::default() };
    let (_root, corpus) = corpus(
        settings,
        &[
            NewPassage { sentences: &[6, 6, 14], ..with_id("a", "Ünï", "Eins.  Zwei é") },
            passage("", ""),
            with_id("日本", "T", "no sentences"),
        ],
    );
    assert_eq!((corpus.len(), corpus.is_empty()), (3, false));
    assert_eq!(corpus.passages().map(|p| corpus.id(p)).collect::<Vec<_>>(), ["a", "1", "日本"]);
    assert_eq!(corpus.title(PassageId(0)), "Ünï");
    assert_eq!(corpus.sentences(PassageId(0)).collect::<String>(), corpus.text(PassageId(0)));
    assert_eq!(corpus.sentence(PassageId(0), 0), Some("Eins. "));
    assert_eq!(corpus.sentence(PassageId(0), 1), Some(""));
    assert_eq!(corpus.sentence(PassageId(0), 3), None);
    assert_eq!((corpus.text(PassageId(1)), corpus.sentences(PassageId(2)).count()), ("", 0));
    assert_eq!(corpus.info().name, "corpus");
    let counts = corpus.info().counts;
    assert_eq!((counts.passages, counts.without_id, counts.sentences, counts.passages_with_sentences), (3, 1, 3, 1));
}

#[test]
fn an_empty_corpus_is_a_corpus() {
    let (_root, corpus) = corpus(CorpusSettings::default(), &[]);
    assert!(corpus.is_empty() && corpus.by_title("").is_empty() && corpus.by_external_id("0").is_none());
    assert_eq!(corpus.passages().len(), 0);
}

#[test]
fn the_digest_is_of_the_content_alone() {
    let passages = [passage("Alan Ford", "of Paris"), passage("Paris", "a city"), passage("X", "y")];
    let digest = |settings, passages: &[NewPassage<'_>]| corpus(settings, passages).1.digest().to_owned();
    let plain = digest(CorpusSettings::default(), &passages);
    for batch_rows in [1, 2, 32_768] {
        let settings = CorpusSettings { batch_rows, name: "other".to_owned(), ..CorpusSettings::default() };
        assert_eq!(digest(settings, &passages), plain);
    }
    let without_links = CorpusSettings { links: LinkSource::None, ..CorpusSettings::default() };
    assert_ne!(digest(without_links, &passages), plain);
    assert_ne!(digest(CorpusSettings::default(), &[passages[1], passages[0], passages[2]]), plain);
    assert_ne!(digest(CorpusSettings::default(), &[passages[0], passages[1], with_id("x", "X", "y")]), plain);
    // Pinned: a change of the encoding must be a change of the format version.
    assert_eq!(plain, "732f42be5da9581bfd49db1822b38a43461a5e54db862594966765a55ba584e3");
}

#[test]
fn exact_duplicates_are_dropped_and_their_ids_still_find() {
    let (_root, corpus) = corpus(
        CorpusSettings::default(),
        &[
            with_id("a", "T", "x"),
            with_id("b", "T", "x"),
            with_id("c", "T", "y"),
            with_id("a", "T", "x"),
            passage("U", "x"),
        ],
    );
    assert_eq!(corpus.len(), 3);
    assert_eq!(corpus.by_external_id("b"), Some(PassageId(0)));
    assert_eq!(corpus.by_external_id("a"), Some(PassageId(0)));
    assert_eq!(corpus.by_external_id("2"), Some(PassageId(2)));
    assert_eq!(corpus.id(PassageId(0)), "a");
    let counts = corpus.info().counts;
    assert_eq!((counts.pushed, counts.dropped_duplicates, counts.aliases, counts.shared_titles), (5, 2, 1, 1));
}

#[test]
fn duplicates_can_stay_or_be_refused() {
    let twice = [passage("A", "a"), passage("T", "x"), passage("T", "x")];
    let keep = CorpusSettings { duplicates: DuplicatePolicy::KeepAll, ..CorpusSettings::default() };
    let (_root, kept) = corpus(keep, &twice);
    assert_eq!((kept.len(), kept.by_title("T")), (3, ids(&[1, 2]).as_slice()));
    assert_eq!(kept.by_title_and_text("T", "x"), Some(PassageId(1)));
    let root = tempfile::tempdir().unwrap();
    let refuse = CorpusSettings { duplicates: DuplicatePolicy::Error, ..CorpusSettings::default() };
    let error = build(&root.path().join("c"), refuse, &twice).unwrap_err();
    assert!(matches!(error, BuildError::DuplicatePassage { first: 1, second: 2, .. }), "{error}");
}

#[test]
fn an_id_for_two_passages_is_an_error_that_names_both() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("c");
    let cases: [&[NewPassage<'_>]; 3] = [
        &[with_id("i", "T", "x"), with_id("j", "T", "x"), with_id("k", "U", "x"), with_id("k", "V", "x")],
        // The second passage's default id is the first one's id.
        &[with_id("1", "T", "x"), passage("A", "a")],
        &[with_id("i", "T", "x"), with_id("j", "U", "x"), with_id("j", "T", "x")],
    ];
    for (passages, places) in cases.into_iter().zip([(2, 3), (0, 1), (1, 2)]) {
        match build(&dir, CorpusSettings::default(), passages) {
            Err(BuildError::DuplicateId { first, second, .. }) => assert_eq!((first, second), places),
            other => panic!("{other:?}"),
        }
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
    }
}

#[test]
fn titles_are_found_exactly_and_folded() {
    let (_root, corpus) = corpus(
        CorpusSettings::default(),
        &[passage("New York", "1"), passage("new_york", "2"), passage("New York", "3"), passage("Other", "4")],
    );
    assert_eq!(corpus.by_title("New York"), ids(&[0, 2]));
    assert_eq!(corpus.by_title("NEW YORK"), ids(&[]));
    let mut folded = corpus.by_title_folded("NEW__YORK ").to_vec();
    folded.sort();
    assert_eq!(folded, ids(&[0, 1, 2]));
    assert_eq!(corpus.by_title_and_text("New York", "3"), Some(PassageId(2)));
    assert_eq!(corpus.by_title_and_text("New York", "2"), None);
}

fn link<'a>(title: &'a str, start: u32) -> NewLink<'a> {
    NewLink { title, start, end: start + 1 }
}

#[test]
fn hyperlinks_are_resolved_exactly_then_folded() {
    let out_of_order = [link("B", 4), link("a_b", 2), link("Missing", 0), link("B", 6), link("Self", 1), link("C", 3)];
    let (_root, corpus) = corpus(
        CorpusSettings { batch_rows: 1, ..CorpusSettings::default() },
        &[
            NewPassage { links: Some(&out_of_order), ..passage("Self", "mentions B and C") },
            passage("A B", "text"),
            passage("b", "a folded one that must not count"),
            passage("B", "one"),
            passage("B", "two"),
            NewPassage { links: Some(&[]), ..passage("C", "three") },
        ],
    );
    assert_eq!(corpus.info().link_origin, LinkOrigin::Hyperlinks);
    assert_eq!(corpus.links(PassageId(0)), ids(&[1, 5, 3, 4]));
    let spans: Vec<_> = corpus.anchors(PassageId(0)).map(|anchor| anchor.span.start).collect();
    assert_eq!(spans, [2, 3, 4, 4]);
    assert_eq!(corpus.linked_from(PassageId(3)), ids(&[0]));
    assert!(corpus.links(PassageId(3)).is_empty() && corpus.linked_from(PassageId(0)).is_empty());
    let counts = corpus.info().counts;
    assert_eq!((counts.links, counts.unresolved_links, counts.self_links, counts.repeated_links), (4, 1, 1, 2));
}

#[test]
fn a_link_source_can_be_forced() {
    let links = [link("B", 0)];
    let passages =
        [NewPassage { links: Some(&links), ..passage("A1", "sees Berlin") }, passage("B", "x"), passage("Berlin", "y")];
    for (source, origin, expected) in [
        (LinkSource::Auto, LinkOrigin::Hyperlinks, vec![1]),
        (LinkSource::Mentions, LinkOrigin::TitleMentions, vec![2]),
        (LinkSource::None, LinkOrigin::None, vec![]),
    ] {
        let (_root, corpus) = corpus(CorpusSettings { links: source, ..CorpusSettings::default() }, &passages);
        assert_eq!((corpus.info().link_origin, corpus.links(PassageId(0))), (origin, ids(&expected).as_slice()));
    }
    let forced = CorpusSettings { links: LinkSource::Hyperlinks, ..CorpusSettings::default() };
    assert_eq!(corpus(forced, &passages[1..]).1.info().link_origin, LinkOrigin::None);
}

#[test]
fn a_title_of_many_passages_is_linked_to_its_first_ones() {
    let texts: Vec<String> = (0..5).map(|n| format!("part {n}")).collect();
    let mut passages: Vec<_> = texts.iter().map(|text| passage("Long Article", text)).collect();
    passages.push(passage("P", "about Long Article"));
    let (_root, corpus) = corpus(CorpusSettings { targets_per_title: 2, ..CorpusSettings::default() }, &passages);
    assert_eq!(corpus.links(PassageId(5)), ids(&[0, 1]));
}

#[test]
fn passages_that_break_a_rule_are_named() {
    let reversed = [NewLink { title: "x", start: 2, end: 1 }];
    let bad = [
        NewPassage { sentences: &[1], ..passage("t", "ab") },
        NewPassage { sentences: &[2, 1, 2], ..passage("t", "ab") },
        NewPassage { sentences: &[1, 2], ..passage("t", "é") },
        NewPassage { links: Some(&reversed), ..passage("t", "abc") },
    ];
    for (number, bad) in bad.into_iter().enumerate() {
        let root = tempfile::tempdir().unwrap();
        let error = build(&root.path().join("c"), CorpusSettings::default(), &[passage("ok", ""), bad]).unwrap_err();
        let expected = if number < 3 { "passage 1: sentence" } else { "passage 1: link 0" };
        assert!(error.to_string().starts_with(expected), "{error}");
    }
    let long = "x".repeat(70_000);
    let root = tempfile::tempdir().unwrap();
    let error = build(&root.path().join("c"), CorpusSettings::default(), &[passage(&long, "")]).unwrap_err();
    assert!(matches!(error, BuildError::TooLong { position: 0, field: "title", found: 70_000, .. }));
}

#[test]
fn settings_out_of_range_are_refused() {
    let root = tempfile::tempdir().unwrap();
    for settings in [
        CorpusSettings { batch_rows: 3, ..CorpusSettings::default() },
        CorpusSettings { batch_rows: 65_536, ..CorpusSettings::default() },
        CorpusSettings { targets_per_title: 0, ..CorpusSettings::default() },
    ] {
        let refused = build(&root.path().join("c"), settings, &[]);
        assert!(matches!(refused, Err(BuildError::Setting { .. })));
    }
}

#[test]
fn an_abandoned_build_leaves_nothing() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("c");
    let mut builder = CorpusBuilder::create(&dir, CorpusSettings::default()).unwrap();
    builder.push(passage("t", "x")).unwrap();
    assert!(!dir.exists() && Corpus::open(&dir).is_err());
    for entry in fs::read_dir(root.path()).unwrap() {
        assert!(Corpus::open(&entry.unwrap().path()).is_err(), "half a corpus can be opened");
    }
    drop(builder);
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
}

#[test]
fn nothing_is_overwritten() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("c");
    fs::create_dir(&dir).unwrap();
    let mut late = CorpusBuilder::create(&dir, CorpusSettings::default()).unwrap();
    late.push(passage("late", "x")).unwrap();
    build(&dir, CorpusSettings::default(), &[passage("first", "x")]).unwrap();
    assert!(matches!(late.finish(), Err(BuildError::Exists { .. })));
    assert!(matches!(CorpusBuilder::create(&dir, CorpusSettings::default()), Err(BuildError::Exists { .. })));
    assert_eq!(Corpus::open(&dir).unwrap().title(PassageId(0)), "first");
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
}

#[test]
fn sources_and_settings_are_noted() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("c");
    let mut builder = CorpusBuilder::create(&dir, CorpusSettings::default()).unwrap();
    let source = CorpusSource { name: "corpus.jsonl.gz".to_owned(), digest: "00ff".to_owned() };
    builder.add_source(source.clone());
    let report = builder.finish().unwrap();
    assert_eq!(report.info.sources, [source]);
    assert_eq!(&report.info, Corpus::open(&dir).unwrap().info());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(24) })]
    #[test]
    fn every_passage_is_found_by_everything_it_has(
        rows in prop::collection::vec(("[A-C ]{0,2}", "[a-bA-C .é]{0,6}"), 0..40), shift in 0u32..4,
    ) {
        let passages: Vec<_> = rows.iter().map(|(title, text)| passage(title, text)).collect();
        let (_root, corpus) = corpus(CorpusSettings { batch_rows: 1 << shift, ..CorpusSettings::default() }, &passages);
        let mut expected: Vec<&(String, String)> = Vec::new();
        for row in &rows {
            if !expected.contains(&row) {
                expected.push(row);
            }
        }
        prop_assert_eq!(corpus.len(), expected.len());
        for (passage, (title, text)) in corpus.passages().zip(expected) {
            prop_assert_eq!((corpus.title(passage), corpus.text(passage)), (title.as_str(), text.as_str()));
            prop_assert_eq!(corpus.by_title_and_text(title, text), Some(passage));
            prop_assert!(corpus.by_title(title).contains(&passage) && corpus.by_title_folded(title).contains(&passage));
            prop_assert_eq!(corpus.by_external_id(corpus.id(passage)), Some(passage));
            for &target in corpus.links(passage) {
                prop_assert!(corpus.linked_from(target).contains(&passage));
            }
        }
        let (out, back) = corpus.passages().fold((0, 0), |(out, back), passage| {
            (out + corpus.links(passage).len(), back + corpus.linked_from(passage).len())
        });
        prop_assert_eq!(out, back);
    }
}
