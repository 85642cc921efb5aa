//! The allowed content of a line, and the errors for other content.

#![expect(clippy::unwrap_used, reason = "a test fails where its fixture is not as expected")]

use hopeval_device::Cpu;
use hopeval_lm::engine::EngineOptions;
use hopeval_lm::lines::{self, SamplingOptions, Task};
use hopeval_lm::request::EncoderOutput;
use hopeval_lm::session::Session;
use hopeval_lm::tokenise::Tokenizer;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

fn open(name: &str) -> Session {
    Session::open(&fixture(name), Cpu::new(Some(1)).unwrap(), EngineOptions::default()).unwrap()
}

fn parsed(output: &[u8]) -> Vec<Value> {
    std::str::from_utf8(output).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The line that answers `line`.
fn answer(session: &Session, task: &Task, line: &str) -> Value {
    let mut output = Vec::new();
    lines::run(session, task, line.as_bytes(), &mut output, 4).unwrap();
    parsed(&output).remove(0)
}

/// The error in `line`: the code and the message.
fn wrong(session: &Session, task: &Task, line: &str) -> (String, String) {
    let answer = answer(session, task, line);
    let error = &answer["error"];
    let text = |name: &str| error[name].as_str().unwrap_or_else(|| panic!("{line}: {answer}")).to_owned();
    (text("code"), text("message"))
}

fn score() -> Task {
    Task::Score { temperatures: vec![("1.0".into(), 1.0)], target_eos: true }
}

fn generate() -> Task {
    let sampling = SamplingOptions { temperature: 0.0, top_k: 0, top_p: 1.0, seed: 0 };
    Task::Generate { max_tokens: 2, ignore_eos: true, sampling, stop: Vec::new() }
}

#[test]
fn every_field_of_a_command_is_taken_and_no_other() {
    let (gpt2, bert, electra) = (open("gpt2"), open("bert-sequence"), open("electra-span"));
    let read = Task::Read { max_answer_tokens: 5 };
    let embed = Task::Embed { pooling: EncoderOutput::Mean, normalize: true };
    let good = [
        (&gpt2, score(), r#"{"id":1,"prompt":"a","target":" b"}"#),
        (&gpt2, score(), r#"{"prompt_ids":[1,2],"target_ids":[3]}"#),
        (&gpt2, score(), r#"{"id":null,"prompt":null,"prompt_ids":[1],"target":" b","target_ids":null}"#),
        (&gpt2, generate(), r#"{"id":1,"prompt":"a","draw":3}"#),
        (&gpt2, generate(), r#"{"id":1,"prompt_ids":[1],"draw":null}"#),
        (&bert, Task::Classify, r#"{"id":1,"text":"a","text_pair":"b"}"#),
        (&bert, Task::Rerank, r#"{"id":1,"ids":[5,6],"token_type_ids":[0,1]}"#),
        (&bert, embed, r#"{"id":1,"text":"a","text_pair":null,"ids":null,"token_type_ids":null}"#),
        (&electra, read.clone(), r#"{"id":1,"question":"a","context":"b"}"#),
        (&electra, read.clone(), r#"{"id":1,"ids":[5,6,7],"token_type_ids":[0,1,1]}"#),
    ];
    for (session, task, line) in good {
        assert_eq!(answer(session, &task, line).get("error"), None, "{line}");
    }
    let bad = [
        (&gpt2, score(), r#"{"prompt":"a","prompt_ids":[1],"target":"b"}"#, "prompt and prompt_ids: one of them"),
        (&gpt2, score(), r#"{"prompt":"a","target":"b","target_ids":[1]}"#, "target and target_ids: one of them"),
        (
            &gpt2,
            score(),
            r#"{"promt":"a","target":"b"}"#,
            "promt: score knows no such field; allowed are id, prompt, prompt_ids, target, target_ids",
        ),
        (&gpt2, generate(), r#"{"prompt":"a","target":"b"}"#, "target: generate knows no such field"),
        (&bert, Task::Classify, r#"{"text":"a","ids":[5]}"#, "text and ids: one of them"),
        (&bert, Task::Rerank, r#"{"ids":[5],"text_pair":"a"}"#, "text_pair and ids: one of them"),
        (&bert, Task::Label, r#"{"text":"a","token_type_ids":[0]}"#, "token_type_ids: allowed beside ids only"),
        (&electra, read, r#"{"ids":[5,6],"question":"a"}"#, "question and ids: one of them"),
    ];
    for (session, task, line, says) in bad {
        let (code, message) = wrong(session, &task, line);
        assert_eq!(code, "field", "{line}");
        assert!(message.starts_with(&format!("line 1: {says}")), "{line}: {message}");
    }
    assert_eq!(answer(&gpt2, &score(), r#"{"id":[7],"x":1}"#)["id"], json!([7]), "the id is kept");
}

#[test]
fn lines_that_are_no_json_say_once_where() {
    let session = open("gpt2");
    let mut output = Vec::new();
    let input = "{\"prompt_ids\":[1],\"target_ids\":[2]}\n\n{\"id\": 3,}\n[1]\n";
    let tally = lines::run(&session, &score(), input.as_bytes(), &mut output, 4).unwrap();
    assert_eq!((tally.lines, tally.errors), (3, 2));
    let answers = parsed(&output);
    assert_eq!(answers[1]["error"], json!({"code": "json", "message": "line 3: column 10: trailing comma"}));
    assert_eq!(answers[2]["error"]["message"], "line 4: expected an object, found a list");
    let error = lines::parse_requests(&session, &score(), input.as_bytes()).unwrap_err().to_string();
    assert_eq!(error, "line 3: column 10: trailing comma");
    let error = lines::parse_texts(&b"{\"text\":\"a\"}\n{\"text\":1}"[..]).unwrap_err().to_string();
    assert_eq!(error, "line 2: text: expected a string, found a number");
}

#[test]
fn text_without_a_tokenizer_is_an_error_with_a_hint() {
    let session = open("gpt2-bare");
    let (code, message) = wrong(&session, &score(), r#"{"prompt":"a","target":"b"}"#);
    assert_eq!(code, "tokenizer");
    assert!(message.contains("gpt2-bare: no tokenizer.json") && message.contains("hint: "), "{message}");
    assert_eq!(answer(&session, &score(), r#"{"prompt_ids":[1],"target_ids":[2]}"#).get("error"), None);
}

#[test]
fn texts_are_tokenised_without_an_engine() {
    let tokenizer = Tokenizer::open(&fixture("bert-sequence")).unwrap();
    let input = "{\"id\":1,\"text\":\"a b\"}\n{\"id\":2,\"text\":\"a\",\"text_pair\":\"b\"}\n\n\
                 {\"id\":3,\"ids\":[5,6]}\n\
                 {\"id\":4,\"text\":\"a\",\"ids\":[5]}\n{\"id\":5,\"txt\":\"a\"}\nno\n";
    let mut output = Vec::new();
    let tally = lines::tokenize(&tokenizer, input.as_bytes(), &mut output).unwrap();
    assert_eq!((tally.lines, tally.errors), (6, 3));
    let answers = parsed(&output);
    let pair = tokenizer.encode_pair("a", "b").unwrap().ids;
    assert_eq!(answers[0]["ids"], json!(tokenizer.encode("a b", true).unwrap().ids));
    assert_eq!((&answers[1]["ids"], &answers[1]["tokens"]), (&json!(pair), &json!(tokenizer.tokens(&pair))));
    assert_eq!(answers[2], json!({"id": 3, "ids": [5, 6], "tokens": tokenizer.tokens(&[5, 6])}));
    let codes = answers[3..].iter().map(|line| line["error"]["code"].clone()).collect::<Vec<_>>();
    assert_eq!(codes, ["field", "field", "json"]);
    let ids = answers.iter().map(|line| line["id"].clone()).collect::<Vec<_>>();
    assert_eq!(json!(ids), json!([1, 2, 3, 4, 5, null]));
}
