//! The whole-file scripts on small files written by hand, with figures worked out from the scripts' rules, and on files
//! that they do not accept.

#![expect(clippy::unwrap_used, reason = "a panic in a test is its report")]

use hopeval_measures::Profile;
use hopeval_measures::official::{MeasureError, score_files};

const NO_ALIASES: Option<&[u8]> = None;

fn figures(profile: Profile, predictions: &str, gold: &str, aliases: Option<&str>) -> Vec<(&'static str, f64)> {
    score_files(profile, predictions.as_bytes(), gold.as_bytes(), aliases.map(str::as_bytes)).unwrap().figures
}

fn figure(figures: &[(&str, f64)], name: &str) -> f64 {
    figures.iter().find(|f| f.0 == name).unwrap().1
}

fn failure(profile: Profile, predictions: &str, gold: &str) -> String {
    score_files(profile, predictions.as_bytes(), gold.as_bytes(), NO_ALIASES).unwrap_err().to_string()
}

const HOTPOT_GOLD: &str = r#"[
    {"_id": "q1", "answer": "yes", "supporting_facts": [["A", 0], ["B", 1]]},
    {"_id": "q2", "answer": "The The", "supporting_facts": [["C", 2]]},
    {"_id": "q3", "answer": "Paris", "supporting_facts": [["D", 0]]},
    {"_id": "q4", "answer": "Paris", "supporting_facts": [["E", 0]]}
]"#;

#[test]
fn hotpotqa_by_hand() {
    let predictions = r#"{
        "answer": {"q1": "yes", "q2": "", "q3": "Paris France"},
        "sp": {"q1": [["A", 0], ["A", 0], ["B", 0]], "q2": [["C", 2]], "q4": [["E", 0]]}
    }"#;
    let got = figures(Profile::HotpotQa, predictions, HOTPOT_GOLD, None);
    // q2: EM 1 and F1 0; q3: precision 1/2, no facts, so no joint; q4: no answer.
    let two_thirds = 2.0 * 0.5 * 1.0 / 1.5;
    let expected = [
        ("em", 2.0 / 4.0),
        ("f1", (1.0 + two_thirds) / 4.0),
        ("prec", 1.5 / 4.0),
        ("recall", 2.0 / 4.0),
        ("sp_em", 2.0 / 4.0),
        ("sp_f1", 2.5 / 4.0),
        ("sp_prec", 2.5 / 4.0),
        ("sp_recall", 2.5 / 4.0),
        ("joint_em", 1.0 / 4.0),
        ("joint_f1", 0.5 / 4.0),
        ("joint_prec", 0.5 / 4.0),
        ("joint_recall", 0.5 / 4.0),
    ];
    assert_eq!(got, expected);
    let scored = score_files(Profile::HotpotQa, predictions.as_bytes(), HOTPOT_GOLD.as_bytes(), NO_ALIASES).unwrap();
    assert_eq!((scored.questions, scored.predicted), (4, vec![("answer", 3), ("sp", 3)]));
}

#[test]
fn texts_as_indices_are_wrong_and_count_once() {
    let predictions = r#"{"answer": {}, "sp": {"q1": [["A", 0], ["B", "1"], ["B", "1"], ["B", "first"]]}}"#;
    let got = figures(Profile::HotpotQa, predictions, HOTPOT_GOLD, None);
    assert_eq!((figure(&got, "sp_prec"), figure(&got, "sp_recall")), (1.0 / 3.0 / 4.0, 0.5 / 4.0));
    let gold = r#"{"_id": "q1", "answer": "x", "answer_id": null, "supporting_facts": [["A", 0]], "evidences": [],
        "evidences_id": []}"#;
    let predictions = r#"{"answer": {}, "sp": {"q1": [["a", 0], ["a", "0"]]}, "evidence": {}}"#;
    let got = figures(Profile::TwoWiki, predictions, gold, None);
    assert_eq!((figure(&got, "sp_prec"), figure(&got, "sp_recall")), (50.0, 100.0));
}

#[test]
fn two_wiki_aliases_reach_answers_and_evidences() {
    let gold = r#"{"_id": "q1", "answer": "John Ford", "answer_id": "Q51", "supporting_facts": [["Ford", 0]],
        "evidences": [["Film", "director", "John Ford"]], "evidences_id": [["Q1", "director", "Q51"]]}"#;
    let predictions = r#"{"answer": {"q1": "Sean Aloysius"}, "sp": {"q1": [["FORD", 0]]},
        "evidence": {"q1": [["film", "Director", "Sean Aloysius."]]}}"#;
    let aliases = "{\"Q_id\": \"Q51\", \"aliases\": [\"Sean Aloysius\"], \"demonyms\": []}\n\
                   {\"Q_id\": \"Q9\", \"aliases\": [], \"demonyms\": [\"American\"]}\n";
    let with = figures(Profile::TwoWiki, predictions, gold, Some(aliases));
    assert_eq!(with.len(), 16);
    assert!(with.iter().all(|(_, value)| *value == 100.0), "{with:?}");
    let without = figures(Profile::TwoWiki, predictions, gold, None);
    assert_eq!((figure(&without, "em"), figure(&without, "sp_em"), figure(&without, "evi_em")), (0.0, 100.0, 0.0));
}

#[test]
fn musique_with_unanswerable_questions_has_sufficiency() {
    let side = |id: &str, answerable: bool| {
        format!(
            r#"{{"id": "{id}", "answer": "Stanley Hall", "answer_aliases": ["G. Stanley Hall"], "answerable": {answerable},
            "paragraphs": [{{"idx": 0, "is_supporting": true}}, {{"idx": 1, "is_supporting": false}}]}}"#
        )
    };
    let said = |id: &str, answer: &str, support: &str, answerable: bool| {
        format!(
            r#"{{"id": "{id}", "predicted_answer": "{answer}", "predicted_support_idxs": {support}, "predicted_answerable": {answerable}}}"#
        )
    };
    let gold = [side("a", true), side("b", true), side("a", false), side("b", false)].join("\n");
    let predictions = [
        said("a", "g stanley hall", "[0]", true),
        said("b", "Hall", "[\"0\", 1]", true),
        said("a", "", "[]", false),
        said("b", "", "[]", true),
    ]
    .join("\n");
    let got = figures(Profile::Musique, &predictions, &gold, None);
    // b: answer F1 2/3 against "Stanley Hall", support F1 2/3; its unanswerable side is misjudged.
    let two_thirds = 2.0 * 1.0 * 0.5 / 1.5;
    let expected = [
        ("answer_f1", (1.0 + two_thirds) / 2.0),
        ("answer_em", 0.5),
        ("support_f1", (1.0 + 2.0 * 0.5 * 1.0 / 1.5) / 2.0),
        ("group_answer_sufficiency_f1", 0.5),
        ("group_support_sufficiency_f1", 0.5),
    ];
    assert_eq!(got, expected);
    let columns = r#"{"id": "a", "answer": "x", "answer_aliases": [], "answerable": true,
        "paragraphs": {"idx": [0, 1], "is_supporting": [false, true]}}"#;
    let got = figures(Profile::Musique, &said("a", "x", "[1]", true), columns, None);
    assert_eq!((got.len(), figure(&got, "support_f1")), (3, 1.0));
}

#[test]
fn bad_files_say_where_and_what_is_allowed() {
    let good = r#"{"answer": {}, "sp": {}}"#;
    let cases = [
        (failure(Profile::HotpotQa, r#"{"answer": {}}"#, HOTPOT_GOLD), "predictions, line 1: field \"sp\" is missing"),
        (
            failure(Profile::HotpotQa, r#"{"answer": {"q1": ["a"]}, "sp": {}}"#, HOTPOT_GOLD),
            "predictions, line 1: field \"answer.q1\" is a list, allowed is a string",
        ),
        (
            failure(Profile::HotpotQa, r#"{"answer": {}, "sp": {"q1": [["A"]]}}"#, HOTPOT_GOLD),
            "predictions, line 1: field \"sp.q1\" has the entry [\"A\"], allowed is [title, sentence index]",
        ),
        (
            failure(Profile::HotpotQa, good, r#"[{"_id": "q1"}]"#),
            "gold, row 1 (id \"q1\"): field \"answer\" is missing",
        ),
        (failure(Profile::HotpotQa, good, "[]"), "gold: has no rows"),
        (failure(Profile::HotpotQa, good, "[{\"_id\": \"q1\""), "gold, line 1: not valid JSON"),
        (
            failure(Profile::Musique, "", r#"{"id": "a"}"#),
            "predictions do not fit the gold: 1 gold rows, 0 predictions",
        ),
        (
            failure(Profile::Musique, r#"{"id": "b"}"#, r#"{"id": "a"}"#),
            "predictions do not fit the gold: gold line 1 (id \"a\") stands against predictions line 1 (id \"b\"); \
             they must have the same ids in the same order",
        ),
        (
            failure(Profile::Drop, "", ""),
            "profile \"drop\" has no official script for whole files; allowed: hotpotqa, 2wikimultihopqa, musique",
        ),
    ];
    for (got, expected) in cases {
        assert_eq!(got, expected);
    }
    let aliases = score_files(Profile::HotpotQa, good.as_bytes(), HOTPOT_GOLD.as_bytes(), Some(&b""[..])).unwrap_err();
    assert!(matches!(aliases, MeasureError::NoAliases { profile: Profile::HotpotQa }));
}
