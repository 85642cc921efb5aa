//! Texts as models write them, with the value and the repairs that they must give.

use hopeval_loosejson::{FailureReason, MAX_DEPTH, Repair, ValueChoice, parse, parse_object};
use serde_json::{Value, json};

/// The value, and the names of the repairs with their counts.
fn read(text: &str) -> (Value, String) {
    let parsed = parse(text, ValueChoice::Largest).unwrap_or_else(|failure| panic!("{failure}"));
    let repairs: Vec<_> = parsed.repairs.iter().map(|(repair, count)| format!("{} {count}", repair.name())).collect();
    (parsed.value, repairs.join(", "))
}

#[test]
fn json_takes_no_repairs() {
    for text in [
        r#"{"a": [1, -0, 2.5e3, "x\u00e9\ud83d\ude42\n", true, null, {}], "b": {"c": "he said \"x\", \"y\": z"}}"#,
        "  [\"\", \"{\\\"a\\\": 1}\", 18446744073709551615]\n",
        "\"a {string}\"",
        "-12",
        "null",
    ] {
        let strict: Value = serde_json::from_str(text).unwrap();
        assert_eq!(read(text), (strict, String::new()), "{text}");
    }
}

#[test]
fn each_repair_is_named() {
    let cases: &[(&str, Value, &str)] = &[
        ("```json\n{\"a\": 1}\n```", json!({"a": 1}), "fence 2"),
        ("It's this: {\"a\": 1}!", json!({"a": 1}), "surrounding_text 2"),
        ("\u{feff}{\"a\": 1}", json!({"a": 1}), "byte_order_mark 1"),
        ("{\"a\":\u{a0}1}", json!({"a": 1}), "odd_space 1"),
        (r#"{\"a\": \"b \\\"c\\\"\"}"#, json!({"a": "b \"c\""}), "escaped_text 1"),
        ("{'a': 'it's'}", json!({"a": "it's"}), "single_quotes 2, unescaped_quote 1"),
        ("{“a”: “b”}", json!({"a": "b"}), "smart_quotes 2"),
        ("{\"a\": '''b \"c\" 'd' '''}", json!({"a": "b \"c\" 'd' "}), "triple_quotes 1"),
        ("{\"a\": u'b'}", json!({"a": "b"}), "single_quotes 1, string_prefix 1"),
        (r#"{"a": "say "hi", or "no"", "b": 1}"#, json!({"a": "say \"hi\", or \"no\"", "b": 1}), "unescaped_quote 4"),
        (r#"{"a": "x, "b": 1}"#, json!({"a": "x", "b": 1}), "unescaped_quote 1, missing_quote 1"),
        (r#"{"a": "it\'s \alpha"}"#, json!({"a": "it's \\alpha"}), "bad_escape 2"),
        (r#"{"a": "\ud800"}"#, json!({"a": "\u{fffd}"}), "lone_surrogate 1"),
        ("{\"a\": \"x\ny\"}", json!({"a": "x\ny"}), "control_character 1"),
        ("{a: 1, b_2: 2}", json!({"a": 1, "b_2": 2}), "bare_key 2"),
        ("{\"a\": the red house, \"b\": 1}", json!({"a": "the red house", "b": 1}), "bare_text 1"),
        ("{\"a\": True, \"b\": None}", json!({"a": true, "b": null}), "literal 2"),
        ("[NaN, -Infinity]", json!([null, null]), "not_finite 2"),
        ("[+1, .5, 007, 1_000]", json!([1, 0.5, 7, 1000]), "odd_number 4"),
        ("[184467440737095516160]", json!([184467440737095516160.0]), "rounded_number 1"),
        ("{\"a\": (1, 'b')}", json!({"a": [1, "b"]}), "single_quotes 1, tuple 1"),
        ("{\"a\": {1, 2}}", json!({"a": [1, 2]}), "set 1"),
        ("{\"a\": [1, 2,], }", json!({"a": [1, 2]}), "trailing_comma 2"),
        ("{\"a\": [1 2] \"b\": 3}", json!({"a": [1, 2], "b": 3}), "missing_comma 2"),
        ("{\"a\" => 1, \"b\" = 2}", json!({"a": 1, "b": 2}), "odd_separator 2"),
        ("{\"a\"：1，\"b\":2}", json!({"a": 1, "b": 2}), "full_width 2"),
        ("{\"a\": 1, // why\n\"b\": 2 /* x */}", json!({"a": 1, "b": 2}), "comment 2"),
        ("[1, 2, ...]", json!([1, 2]), "ellipsis 1"),
        ("{\"a\": 1 or so, \"b\": 2}", json!({"a": "1 or so", "b": 2}), "bare_text 1"),
        ("{\"a\": [1] maybe, \"b\": 2}", json!({"a": [1], "b": 2}), "skipped_text 1"),
        ("{\"a\": 1, \"a\": 2}", json!({"a": 2}), "repeated_key 1"),
        ("{\"a\": , \"b\": 2}", json!({"b": 2}), "dropped_key 1"),
        ("\"a\": 1, \"b\": 2}", json!({"a": 1, "b": 2}), "missing_open 1"),
        ("[1, 2)", json!([1, 2]), "wrong_close 1"),
        ("{\"a\": [1, 2}", json!({"a": [1, 2]}), "missing_close 1"),
        ("{\"a\": [1, \"b", json!({"a": [1, "b"]}), "unclosed 2, cut_string 1"),
        ("{\"a\": 12", json!({"a": 12}), "unclosed 1, cut_scalar 1"),
        ("{\"a\": 1, \"b\": tr", json!({"a": 1}), "dropped_key 1, unclosed 1, dropped_piece 1"),
        ("{\"a\": 1, \"b\":", json!({"a": 1}), "dropped_key 1, unclosed 1"),
    ];
    let mut wrong = Vec::new();
    for (text, value, repairs) in cases {
        let found = read(text);
        if found != (value.clone(), (*repairs).to_owned()) {
            wrong.push(format!("{text}\n  is {} with {}\n  not {value} with {repairs}", found.0, found.1));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let tested: String = cases.iter().map(|(_, _, repairs)| format!("{repairs}, ")).collect();
    let several = Repair::SeveralValues;
    for repair in Repair::ALL.iter().filter(|repair| **repair != several) {
        assert!(tested.contains(&format!("{} ", repair.name())), "no case has the repair `{}`", repair.name());
    }
}

#[test]
fn one_of_several_is_chosen() {
    let text = "{\"a\": 1} then [{\"a\": 2}] and {\"b\": 33}";
    let chosen = |choice| parse(text, choice).unwrap().value;
    assert_eq!(chosen(ValueChoice::First), json!({"a": 1}));
    assert_eq!(chosen(ValueChoice::Last), json!({"b": 33}));
    assert_eq!(chosen(ValueChoice::Largest), json!([{"a": 2}]));
    let object = parse_object(text, &["a"], ValueChoice::Last).unwrap();
    assert_eq!(object.value, json!({"a": 1}));
    assert_eq!(object.repairs.count(Repair::SeveralValues), 2);
}

#[test]
fn failures_keep_the_text() {
    for (text, reason) in [
        ("", FailureReason::NoValue),
        ("The answer is Paris [see above] {or so}.", FailureReason::NoValue),
        ("12 March", FailureReason::NoValue),
    ] {
        let failure = parse(text, ValueChoice::First).unwrap_err();
        assert_eq!((failure.reason, failure.text.as_str()), (reason, text));
    }
    let failure = parse_object("{\"a\": 1}", &["answer"], ValueChoice::First).unwrap_err();
    assert_eq!(failure.reason, FailureReason::NoObject);
}

#[test]
fn depth_is_bounded() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(parse(&nested(MAX_DEPTH), ValueChoice::First).unwrap().repairs.is_empty());
    for text in [nested(MAX_DEPTH + 1), "[".repeat(1_000_000), "{\"a\":".repeat(100_000)] {
        assert_eq!(parse(&text, ValueChoice::First).unwrap_err().reason, FailureReason::TooDeep);
    }
}
