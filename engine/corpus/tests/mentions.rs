//! Links from title mentions: the rule, clause by clause.

#![expect(clippy::unwrap_used, reason = "a panic in a test is its report")]

use hopeval_corpus::{Corpus, CorpusBuilder, CorpusSettings, LinkOrigin, NewPassage};

/// The mentions in `text`, the text of a passage called `title`, among passages with the other titles. In order, as
/// `anchor>title`.
fn mentions(title: &str, text: &str, others: &[&str]) -> Vec<String> {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("c");
    let mut builder = CorpusBuilder::create(&dir, CorpusSettings::default()).unwrap();
    let first = builder.push(NewPassage { title, text, ..NewPassage::default() }).unwrap();
    for title in others {
        builder.push(NewPassage { title, text: "-", ..NewPassage::default() }).unwrap();
    }
    builder.finish().unwrap();
    let corpus = Corpus::open(&dir).unwrap();
    assert_eq!(corpus.info().link_origin, LinkOrigin::TitleMentions);
    corpus.anchors(first).map(|anchor| format!("{}>{}", &text[anchor.span], corpus.title(anchor.target))).collect()
}

#[test]
fn the_longest_title_wins_and_mentions_do_not_overlap() {
    let titles = ["New York", "New York City", "City Hall", "York"];
    assert_eq!(mentions("T", "in New York City Hall", &titles), ["New York City>New York City"]);
    assert_eq!(
        mentions("T", "in New York, York and City Hall", &titles),
        ["New York>New York", "York>York", "City Hall>City Hall"]
    );
    // The longest title in the text, not the longest with this beginning.
    assert_eq!(mentions("T", "New York City", &["New York", "New York City Hall"]), ["New York>New York"]);
}

#[test]
fn mentions_begin_and_end_with_words() {
    let titles = ["Rome", "AT&T", "Yahoo!", ".Hack", "São Paulo", "E. T."];
    assert_eq!(mentions("T", "Romeo, preRome, Rome2, _Rome", &titles), [""; 0]);
    assert_eq!(mentions("T", "(Rome) \"São Paulo\"", &titles), ["Rome>Rome", "São Paulo>São Paulo"]);
    assert_eq!(mentions("T", "AT&T’s", &titles), ["AT&T>AT&T"]);
    assert_eq!(mentions("T", "AT&Tx, Yahoo, Yahoo!x", &titles), [""; 0]);
    assert_eq!(mentions("T", "Yahoo!, .Hack.", &titles), ["Yahoo!>Yahoo!", ".Hack>.Hack"]);
    assert_eq!(mentions("T", "E. T.", &titles), ["E. T.>E. T."]);
}

#[test]
fn case_and_spaces_matter() {
    assert_eq!(mentions("T", "red river, RED RIVER, Red  River, Red\u{a0}River", &["Red River"]), [""; 0]);
    assert_eq!(mentions("T", "Red River", &["red river", "RED RIVER"]), [""; 0]);
}

#[test]
fn a_target_is_linked_once_from_where_it_is_first_named() {
    assert_eq!(mentions("T", "Oslo, Bergen, Oslo", &["Bergen", "Oslo"]), ["Oslo>Oslo", "Bergen>Bergen"]);
}

#[test]
fn a_passage_does_not_link_to_itself_nor_to_parts_of_its_name() {
    let others = ["New York", "York", "Mercury"];
    assert_eq!(mentions("New York City", "New York City is not York.", &others), ["York>York"]);
    assert_eq!(mentions("Mercury (planet)", "Mercury is small.", &others), [""; 0]);
    // Its bare name is its own even if it is ambiguous, and nothing within it is a mention.
    let smiths = ["John Smith (actor)", "Smith"];
    assert_eq!(mentions("John Smith (poet)", "John Smith met Smith.", &smiths), ["Smith>Smith"]);
}

#[test]
fn a_bare_title_must_stand_for_one_title() {
    assert_eq!(mentions("T", "the Amazon", &["Amazon (river)"]), ["Amazon>Amazon (river)"]);
    assert_eq!(mentions("T", "the Amazon", &["Amazon (river)", "Amazon (company)"]), [""; 0]);
    assert_eq!(mentions("T", "the Amazon", &["Amazon (river)", "Amazon"]), ["Amazon>Amazon"]);
    assert_eq!(
        mentions("T", "the Amazon (company)", &["Amazon (river)", "Amazon (company)"]),
        ["Amazon (company)>Amazon (company)"]
    );
}

#[test]
fn common_words_are_no_mentions() {
    let titles = ["It", "May", "The", "1984", "U2", "film", "The Who", "In May 1984"];
    assert_eq!(mentions("T", "It was May 1984. The film of U2", &titles), [""; 0]);
    assert_eq!(mentions("T", "The Who in 1984", &titles), ["The Who>The Who"]);
    assert_eq!(mentions("T", "In May 1984", &titles), ["In May 1984>In May 1984"]);
}

#[test]
fn equally_long_forms_are_decided_by_their_start() {
    assert_eq!(mentions("T", "a 'Foo' b", &["'Foo", "Foo'"]), ["'Foo>'Foo"]);
    assert_eq!(mentions("T", "a 'Foo' b", &["Foo'", "'Foo"]), ["'Foo>'Foo"]);
}

#[test]
fn passages_of_one_title_are_linked_together() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("c");
    let mut builder = CorpusBuilder::create(&dir, CorpusSettings::default()).unwrap();
    for (title, text) in [("Delhi", "one Delhi"), ("Delhi", "two"), ("P", "to Delhi")] {
        builder.push(NewPassage { title, text, ..NewPassage::default() }).unwrap();
    }
    let report = builder.finish().unwrap();
    let corpus = Corpus::open(&dir).unwrap();
    let links: Vec<Vec<u32>> = corpus.passages().map(|p| corpus.links(p).iter().map(|t| t.0).collect()).collect();
    assert_eq!(links, [vec![], vec![], vec![0, 1]]);
    assert_eq!(report.info.counts.links, 2);
}
