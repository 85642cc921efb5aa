//! Rules from files, and the words they make. The words are those of spaCy 3.8 by the same rules.

#![expect(clippy::unwrap_used, reason = "a panic is the report of a test")]

#[path = "../../../tests/support/rules_file.rs"]
mod rules_file;

use hopeval_wordrules::{MOST_BYTES, WordRules, WordRulesError};
use proptest::prelude::*;
use rules_file::RulesFile;
use std::collections::BTreeMap;
use std::path::Path;

fn open(file: &RulesFile) -> WordRules {
    WordRules::read(&file.bytes(), Path::new("rules")).unwrap()
}

#[track_caller]
fn check(rules: &WordRules, text: &str, words: &[&str]) {
    assert_eq!(rules.words(text).unwrap(), words, "{text:?}");
    assert_eq!(rules.words(text).unwrap(), words, "{text:?}, from the cache");
}

fn error_of(bytes: &[u8]) -> String {
    WordRules::read(bytes, Path::new("rules")).unwrap_err().to_string()
}

#[test]
fn affixes_are_cut_off_until_none_is_left() {
    let rules = open(&RulesFile::small());
    check(&rules, "(\"Tolkien's, 'book'\")", &["(", "\"", "Tolkien", "'s", ",", "'", "book", "'", "\"", ")"]);
    check(&rules, "J.R.R. ran 40,000km.", &["J.R.R.", "ran", "40,000", "km", "."]);
    check(&rules, "+5 +x", &["+5", "+", "x"]);
    check(&rules, "''", &["'", "'"]);
}

#[test]
fn what_is_left_is_cut_at_infixes() {
    let rules = open(&RulesFile::small());
    check(&rules, "1990-1995 well-known", &["1990", "-", "1995", "well-known"]);
    check(&rules, "a---b/c and,or", &["a", "---", "b", "/", "c", "and", ",", "or"]);
    // An infix at the beginning separates nothing, one at the end stands alone.
    check(&rules, "/a a/", &["/a", "a", "/"]);
    check(&rules, "http://a.b/c--d, a//b", &["http://a.b/c--d", ",", "a", "/", "/", "b"]);
}

#[test]
fn special_cases_count_before_between_and_behind_affixes() {
    let mut file = RulesFile::small();
    file.add_special_case(&["d'", "you--", "y"]);
    let rules = open(&file);
    check(&rules, "don't (don't) don't's", &["do", "n't", "(", "do", "n't", ")", "do", "n't", "'s"]);
    check(&rules, "St. :) (:) etc.)", &["St.", ":)", "(", ":)", "etc.", ")"]);
    check(&rules, "Don't", &["Don't"]);
    check(&rules, "(d'you--y", &["(", "d'", "you--", "y"]);
}

#[test]
fn special_cases_are_found_among_the_words_of_a_text() {
    let mut file = RulesFile::small();
    file.add_special_case(&["(c)"]);
    file.add_special_case(&["rock 'n' roll"]);
    file.add_special_case(&["New ", "York"]);
    let rules = open(&file);
    check(&rules, "\"(c) x/(c) ((c)) c", &["\"", "(c)", "x", "/", "(c", ")", "(", "(c)", ")", "c"]);
    check(&rules, "(c)c) (c)s", &["(", "c)c", ")", "(", "c)s"]);
    check(&rules, "a rock 'n' roll, rock 'n'  roll", &["a", "rock 'n' roll", ",", "rock", "'", "n", "'", " ", "roll"]);
    check(&rules, "(New York, New  York", &["(", "New ", "York", ",", "New", " ", "York"]);
    // The words are apart in the text and not in the rule.
    check(&rules, "( c)", &["(", "c", ")"]);
}

#[test]
fn all_special_cases_are_phrases_if_the_file_says_so() {
    let mut file = RulesFile::small();
    file.add_special_case(&["a", "b"]);
    check(&open(&file), "x--ab", &["x", "--", "ab"]);
    file.faster_heuristics = false;
    check(&open(&file), "x--ab", &["x", "--", "a", "b"]);
}

#[test]
fn token_match_keeps_a_word_before_its_affixes_are_cut_off() {
    let mut file = RulesFile::small();
    check(&open(&file), "(a)b(c) (a)b(c", &["(", "a)b(c", ")", "(", "a)b(c"]);
    file.token_match = Some("\\([a-z]\\)b.*\\)$".to_owned());
    check(&open(&file), "(a)b(c) (a)b(c", &["(a)b(c)", "(", "a)b(c"]);
}

#[test]
fn a_language_without_patterns_splits_at_whitespace() {
    let mut file = RulesFile::small();
    (file.prefix_search, file.suffix_search, file.infix_finditer) = (None, None, None);
    (file.url_match, file.exceptions) = (None, BTreeMap::new());
    check(&open(&file), " (a), b--c \t d  ", &[" ", "(a),", "b--c", "\t ", "d", " "]);
    check(&open(&file), "", &[]);
}

#[test]
fn the_digest_is_that_of_the_rules() {
    let small = RulesFile::small();
    let digest = open(&small).digest().to_owned();
    assert_eq!(
        digest, "c9981dc08b81aec241f128bca89d04e70a5c197b74d0497b5392dbf5a915f3e6",
        "keys of labels and filters hold it"
    );
    let mut same = small.clone();
    same.vocab.insert("more".to_owned(), 7);
    assert_eq!(open(&same).digest(), digest);
    let mut others = vec![small.clone(); 5];
    others[0].faster_heuristics = false;
    others[1].token_match = Some(String::new());
    others[2].prefix_search = None;
    others[3].add_special_case(&["don", "'t"]);
    others[4].add_special_case(&["x"]);
    for other in &others {
        assert_ne!(open(other).digest(), digest, "{other:?}");
    }
}

#[test]
fn other_files_are_refused_by_name() {
    let small = RulesFile::small();
    let bytes = small.bytes();
    for (bytes, said) in [
        (&b""[..], "rules: `file`: no MessagePack map; allowed: a file that `nlp.tokenizer"),
        (b"{\"prefix_search\": 1}", "rules: `file`: no MessagePack map"),
        (b"\x80", "rules: `prefix_search`: it is missing"),
        (
            b"\x81\xadprefix_search\x01",
            "rules: `prefix_search`: invalid type: integer `1`, expected a string; allowed: a",
        ),
        (b"\x81\xadprefix_search\xdb\xff\xff\xff\xff", "rules: `prefix_search`: the file ends within it"),
        (b"\x81\xaaexceptions\xdf\xff\xff\xff\xff", "rules: `exceptions`: the file ends within it"),
        (
            b"\x81\xaaexceptions\x81\xa1a\x91\x81\x42\xa1a",
            "rules: `exceptions`: a word with the attribute 66; allowed: a map",
        ),
        (b"\x81\xaaexceptions\x81\xa1a\x91\x81\x43\xa1a", "rules: `exceptions`: a word without ORTH"),
        (b"\x81\xb1faster_heuristics\x02", "rules: `faster_heuristics`: invalid type: integer `2`"),
        (b"\x82\xa1a\x01\xa1a\x01", "rules: `a`: it stands there twice"),
    ] {
        let error = error_of(bytes);
        assert!(error.starts_with(said), "{error}");
    }
    let longer = [&bytes[..], &[0]].concat();
    assert!(error_of(&longer).starts_with("rules: `file`: further bytes behind the map"), "{}", error_of(&longer));
    let deep = [&b"\x81\xa5vocab"[..], &[0x91; 5000]].concat();
    assert!(error_of(&deep).starts_with("rules: `vocab`: more than 32 containers"), "{}", error_of(&deep));
    let mut torn = small.clone();
    torn.exceptions.insert("ab".to_owned(), vec![BTreeMap::from([(65, "a".to_owned())])]);
    assert!(error_of(&torn.bytes()).starts_with("rules: `exceptions`: \"ab\" has the words [\"a\"]; allowed: words"));
    for length in 0..bytes.len() {
        let error = error_of(&bytes[..length]);
        assert!(error.starts_with("rules: `") && error.contains("; allowed: "), "{error}");
    }
}

#[test]
fn patterns_that_do_not_compile_are_named() {
    let mut file = RulesFile::small();
    file.suffix_search = Some("a$|[b".to_owned());
    let error = error_of(&file.bytes());
    assert!(error.starts_with("rules: `suffix_search`, character 3: a class without its end; allowed: "), "{error}");
    file.suffix_search = Some("a$|*".to_owned());
    assert!(error_of(&file.bytes()).starts_with("rules: `suffix_search`, character 3: "));
}

#[test]
fn files_are_opened_within_a_bound() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tokenizer");
    assert!(matches!(WordRules::open(&path), Err(WordRulesError::Unreadable { .. })));
    assert!(matches!(WordRules::open(dir.path()), Err(WordRulesError::Unreadable { .. })));
    std::fs::write(&path, RulesFile::small().bytes()).unwrap();
    check(&WordRules::open(&path).unwrap(), "don't", &["do", "n't"]);
    let file = std::fs::File::create(&path).unwrap();
    file.set_len(MOST_BYTES + 1).unwrap();
    let error = WordRules::open(&path).unwrap_err();
    assert!(matches!(error, WordRulesError::TooLarge { .. }), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn nothing_of_a_text_is_lost(text in "([a-c'.:()/\\- \n\t5é]|don't|--|km){0,20}") {
        let rules = open(&RulesFile::small());
        let (mut rest, words) = (text.as_str(), rules.words(&text).unwrap());
        for word in words {
            prop_assert!(!word.is_empty());
            let spaced = || rest.strip_prefix(' ')?.strip_prefix(word);
            rest = rest.strip_prefix(word).or_else(spaced).expect("the next word");
        }
        prop_assert!(rest.is_empty() || rest == " ");
    }

    #[test]
    fn changed_bytes_are_read_or_refused(at in 0usize..400, byte: u8) {
        let mut bytes = RulesFile::small().bytes();
        let at = at % bytes.len();
        bytes[at] = byte;
        if let Ok(rules) = WordRules::read(&bytes, Path::new("rules")) {
            prop_assert!(rules.words("(don't) 5km--x").is_ok());
        }
    }
}
