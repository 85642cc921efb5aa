//! A random mutator over texts, and texts that are slow to read with a bad algorithm.
//!
//! `HOPEVAL_FUZZ_SECONDS=3600 cargo test --release -p hopeval-loosejson --test fuzz -- --nocapture` fuzzes for an hour.

use hopeval_loosejson::{Repair, ValueChoice, parse, read_values};
use serde_json::Value;
use std::time::{Duration, Instant};

const SEEDS: &[&str] = &[
    r#"{"simple": false, "sub_question": "Who directed \"Up\"?", "n": [1, 2.5, -3e2, null, true]}"#,
    "```json\n{'answer': 'it\\'s', 'facts': [('Paris', 0), (\"Lyon\", 1)],}\n```",
    "Sure! {answer: “yes”, reason: \"He said \"no\", and\", x: NaN} // done",
    r#"{\"a\": \"b\\n\", \"c\": [\"d\"]}"#,
    "[[\"a\", \"b\"], {\"k\": {\"l\": [1, {\"m\": \"n\"}]}}] {\"z\": 1}",
    "{\"a\"：「x」，\"b\": \"\"\"t\"\"\", c => ...} <!-- x --> /* y */ # z\n",
    "\u{feff}{\"a\": \"\\ud83d\\ude42\\u12\", 'b': u'c' \"d\": 1_000, \"e\": {1, 2}, \"a\": 5}",
];
const PIECES: &[&str] = &[
    "\"",
    "'",
    "“",
    "”",
    "’",
    "`",
    "```",
    "\"\"\"",
    "'''",
    "{",
    "}",
    "[",
    "]",
    "(",
    ")",
    ",",
    "，",
    ":",
    "：",
    "=>",
    "\\",
    "\\\"",
    "\\u",
    "\\ud800",
    "\\n",
    "\n",
    " ",
    "\u{a0}",
    "\u{200b}",
    "//",
    "/*",
    "*/",
    "#",
    "<!--",
    "...",
    "…",
    "true",
    "None",
    "NaN",
    "-",
    "+",
    ".",
    "1",
    "1e",
    "_",
    "0x1",
    "a",
    "key",
    "é",
    "🙂",
    "\0",
    "e9999",
    "99999999999999999999",
    "r'",
    ";",
    "{{",
];

/// Numbers that look random.
struct Lcg(u64);

impl Lcg {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) as usize) % bound.max(1)
    }
}

fn boundary(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

fn mutate(text: &mut String, random: &mut Lcg) {
    let from = boundary(text, random.below(text.len() + 1));
    let to = boundary(text, (from + random.below(9)).min(text.len()).max(from));
    match random.below(7) {
        0 => text.truncate(from),
        1 => text.replace_range(from..to.max(from), ""),
        2 => {
            let part = text[from..to.max(from)].to_owned();
            text.insert_str(boundary(text, random.below(text.len() + 1)), &part);
        }
        3 => text.push_str(SEEDS[random.below(SEEDS.len())]),
        _ => text.insert_str(from, PIECES[random.below(PIECES.len())]),
    }
}

fn words(value: &Value, out: &mut Vec<String>) {
    match value {
        Value::String(text) => {
            out.extend(text.split(|c: char| !c.is_ascii_alphanumeric()).map(str::to_owned));
        }
        Value::Array(items) => items.iter().for_each(|item| words(item, out)),
        Value::Object(members) => members.iter().for_each(|(key, member)| {
            words(&Value::String(key.clone()), out);
            words(member, out);
        }),
        _ => {}
    }
}

fn check(text: &str) {
    let found = read_values(text);
    let strict = serde_json::from_str::<Value>(text);
    if let Ok(strict) = &strict {
        let parsed = parse(text, ValueChoice::First).unwrap_or_else(|failure| panic!("JSON is refused: {failure}"));
        let allowed = [Repair::RepeatedKey, Repair::RoundedNumber, Repair::NotFinite];
        assert!(parsed.repairs.iter().all(|(repair, _)| allowed.contains(&repair)), "{text:?}: {parsed:?}");
        if parsed.repairs.is_empty() {
            assert_eq!(&parsed.value, strict, "{text:?}");
        }
    }
    let Ok(found) = found else { return };
    let is_single = found.len() == 1;
    for value in found {
        assert!(
            !is_single || !value.repairs.is_empty() || strict.is_ok(),
            "a repair without a note in {text:?}: {value:?}"
        );
        let written = value.value.to_string();
        let again = parse(&written, ValueChoice::First).unwrap_or_else(|failure| panic!("{failure}"));
        assert!(again.value == value.value && again.repairs.is_empty(), "{text:?}: {written}: {again:?}");
        if !text.contains('\\') {
            let mut all = Vec::new();
            words(&value.value, &mut all);
            assert!(all.iter().all(|word| text.contains(word)), "a word is invented in {text:?}: {written}");
        }
    }
}

#[test]
fn mutated_texts_hold_the_contract() {
    let seconds: u64 = std::env::var("HOPEVAL_FUZZ_SECONDS").ok().and_then(|s| s.parse().ok()).unwrap_or(0);
    let seed = std::env::var("HOPEVAL_FUZZ_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut random = Lcg(seed);
    let mut texts = 0_u64;
    while texts < 20_000 || Instant::now() < end {
        let mut text = SEEDS[random.below(SEEDS.len())].to_owned();
        for _ in 0..=random.below(12) {
            mutate(&mut text, &mut random);
            check(&text);
            texts += 1;
        }
    }
    eprintln!("{texts} texts");
}

/// With a step that reads the rest of the text for each character, 200,000 characters take minutes.
#[test]
fn time_is_linear() {
    let start = Instant::now();
    for piece in PIECES.iter().copied().chain([
        "{#",
        "{\"a\": \"",
        "[\"\"",
        "[\" \", ",
        "{\"a\":1,",
        "{a:",
        "\"a\" ",
        "{'a'",
        "[1,",
        "{{",
        "[//",
        "{/*",
        "\", \"b\": ",
        "\" , \"",
        "(",
        "x\" \"",
        "\"\"\"a",
        "[ `",
        "{\"a\": b, ",
        "{\"a\": b ",
        "{ \"a\": /",
        "[1 #",
    ]) {
        for prefix in ["", "{\"a\": ", "[\"", "{\"a\": \""] {
            let text = format!("{prefix}{}", piece.repeat(50_000 / piece.len()));
            let _ = parse(&text, ValueChoice::Largest);
        }
    }
    let taken = start.elapsed();
    assert!(taken < Duration::from_secs(60), "took {taken:?}");
}
