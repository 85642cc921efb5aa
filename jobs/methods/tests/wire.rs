//! The protocol as data: it crosses process boundaries as JSON and as timely's bincode, and keys hold all they must.

#![expect(clippy::unwrap_used, reason = "a panic is the report of a test")]

use hopeval_methods::testing::{EveryKind, ScriptedServices};
use hopeval_methods::{MachineStep, PassageId, Question, Request, RequestPayload, Transcript};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

fn transcripts() -> Vec<Transcript> {
    let failing = ScriptedServices { failures_per_mille: 200, ..ScriptedServices::new(500, 6) };
    [ScriptedServices::new(500, 5), failing]
        .into_iter()
        .flat_map(|services| {
            (0..3).map(move |number| {
                let question = Question {
                    id: format!("q{number}"),
                    text: format!("Who \"made\" thing {number}?\u{2028}ß"),
                    kind: Some("bridge".to_owned()),
                    candidates: vec![PassageId(3)],
                    gold: vec![vec![PassageId(3), PassageId(4)]],
                    answers: vec!["yes".to_owned()],
                    ..Question::default()
                };
                let mut answer = |request: &Request| Some(services.answer(request));
                Transcript::replay(&EveryKind::default(), "c", &question, &mut answer).unwrap()
            })
        })
        .collect()
}

fn requests() -> Vec<Request> {
    transcripts().into_iter().flat_map(|transcript| transcript.rounds).flat_map(|round| round.requests).collect()
}

#[track_caller]
fn survives<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) {
    let text = serde_json::to_string(value).unwrap();
    assert_eq!(&serde_json::from_str::<T>(&text).unwrap(), value, "JSON");
    let bytes = bincode::serialize(value).unwrap();
    assert_eq!(&bincode::deserialize::<T>(&bytes).unwrap(), value, "bincode");
}

#[test]
fn everything_survives_json_and_bincode() {
    for transcript in transcripts() {
        survives(&transcript);
        survives(&transcript.question);
        survives(&transcript.outcome);
        survives(&MachineStep::Done(transcript.outcome.clone()));
        for round in &transcript.rounds {
            survives(&MachineStep::Ask(round.requests.clone()));
            round.responses.iter().for_each(survives);
        }
    }
}

fn canonical(request: &Request) -> String {
    let mut bytes = Vec::new();
    request.append_canonical(&mut bytes);
    String::from_utf8(bytes).unwrap()
}

/// Every value that differs from `value` in one place, with the path of that place.
fn neighbours(value: &Value, path: &str, out: &mut Vec<(String, Value)>) {
    const NAMES: [&str; 12] = [
        "corpus",
        "restriction",
        "outgoing",
        "incoming",
        "system",
        "user",
        "assistant",
        "query",
        "passage",
        "text",
        "json",
        "Greedy",
    ];
    let here = match value {
        Value::Null => vec![json!(7), json!({"Tokens": 3}), json!({"tokens": 3})],
        Value::Bool(flag) => vec![json!(!flag)],
        Value::Number(number) if number.is_u64() => vec![json!(number.as_u64().unwrap() + 1)],
        Value::Number(number) => vec![json!(number.as_f64().unwrap() + 0.5)],
        Value::String(text) => std::iter::once(json!(format!("{text}x"))).chain(NAMES.map(Value::from)).collect(),
        Value::Array(items) => {
            let mut changed = vec![json!(items.iter().skip(1).collect::<Vec<_>>()), json!([])];
            if items.len() > 1 {
                changed.push(items.iter().rev().cloned().collect());
            }
            changed.extend(items.first().map(|first| json!([std::slice::from_ref(first), items].concat())));
            changed
        }
        Value::Object(_) => vec![Value::Null, json!("Text")],
    };
    out.extend(here.into_iter().map(|changed| (path.to_owned(), changed)));
    let mut inside = |name: &str, child: &Value, put: &dyn Fn(Value) -> Value| {
        let mut below = Vec::new();
        neighbours(child, &format!("{path}/{name}"), &mut below);
        out.extend(below.into_iter().map(|(path, changed)| (path, put(changed))));
    };
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                inside(&index.to_string(), item, &|changed| {
                    let mut items = items.clone();
                    items[index] = changed;
                    Value::Array(items)
                });
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                inside(name, field, &|changed| {
                    let mut fields = fields.clone();
                    fields.insert(name.clone(), changed);
                    Value::Object(fields)
                });
            }
        }
        _ => {}
    }
}

#[test]
fn payloads_lack_only_fields_without_effect() {
    // These are in the key beside the payload, or in nothing at all.
    let outside = |path: &str| {
        ["/service", "/draw", "/step", "/ask/Retrieve/read", "/ask/Passages/read", "/ask/Links/read"].contains(&path)
            || path.starts_with("/ask/Score/temperatures")
    };
    let mut changed: BTreeMap<String, u32> = BTreeMap::new();
    for request in requests() {
        let mut all = Vec::new();
        neighbours(&serde_json::to_value(&request).unwrap(), "", &mut all);
        for (path, value) in all {
            let Ok(other) = serde_json::from_value::<Request>(value) else { continue };
            if other == request {
                continue;
            }
            let same = canonical(&other) == canonical(&request);
            assert_eq!(same, outside(&path), "{path}: {request} against {other}");
            // Positions in lists do not matter for what was covered.
            let place = path.split('/').map(|part| if part.parse::<u32>().is_ok() { "*" } else { part });
            *changed.entry(place.collect::<Vec<_>>().join("/")).or_default() += 1;
        }
    }
    for place in [
        "/ask/Retrieve/query",
        "/ask/Retrieve/k",
        "/ask/Retrieve/within",
        "/ask/Retrieve/within/statistics",
        "/ask/Retrieve/within/passages/Ids/*",
        "/ask/Retrieve/within/passages/Titles",
        "/ask/Passages/passages/Titles/*",
        "/ask/Links/passage",
        "/ask/Links/direction",
        "/ask/Score/prompt/budget",
        "/ask/Score/prompt/overflow",
        "/ask/Score/prompt/overflow/*/Cut/to/words",
        "/ask/Score/prompt/parts/*/role",
        "/ask/Score/prompt/parts/*/truncate",
        "/ask/Score/prompt/parts/*/content/Passage/form/Labelled/before",
        "/ask/Score/target/parts/*/content/Text",
        "/ask/Score/temperatures/*",
        "/ask/Label/chunk/Passage/passage",
        "/ask/Filter/information",
        "/ask/Rerank/items/*/Sentence/sentence",
        "/ask/Entail/hypothesis",
        "/ask/Read/max_answer_tokens",
        "/ask/Read/spans",
        "/ask/Embed/role",
        "/ask/Generate/stop",
        "/ask/Generate/sampling/Sample/temperature",
        "/ask/Generate/format",
        "/ask/Generate/logprobs",
    ] {
        assert!(changed.contains_key(place), "{place} was never changed; changed were {:#?}", changed.keys());
    }
}

#[test]
fn equal_payloads_have_equal_bytes_and_others_differ() {
    let all = requests();
    for request in &all {
        let text = serde_json::to_string(request).unwrap();
        assert_eq!(canonical(&serde_json::from_str(&text).unwrap()), canonical(request));
    }
    let payloads: BTreeSet<(String, String)> =
        all.iter().map(|request| (request.ask.kind().name().to_owned(), canonical(request))).collect();
    let different: BTreeSet<String> = all
        .iter()
        .map(|request| {
            let mut value = serde_json::to_value(&request.ask).unwrap();
            if let Some(fields) = value.as_object_mut().and_then(|ask| ask.values_mut().next()?.as_object_mut()) {
                fields.remove("read");
                fields.remove("temperatures");
            }
            value.to_string()
        })
        .collect();
    assert_eq!(payloads.len(), different.len());
}

#[test]
fn a_request_without_its_prompt_is_read_alike() {
    let mut kinds = BTreeSet::new();
    for request in requests() {
        let (mut left, mut kept) = (request.clone(), request.clone());
        left.drop_prompt();
        assert_eq!((kept.clone_without_prompt(), kept), (left.clone(), request.clone()));
        assert_eq!(left.wants_text(), request.wants_text());
        let prompts = match (&mut left.ask, &request.ask) {
            (RequestPayload::Generate(left), RequestPayload::Generate(asked)) => {
                vec![(&mut left.prompt, &asked.prompt)]
            }
            (RequestPayload::Score(left), RequestPayload::Score(asked)) => {
                vec![(&mut left.prompt, &asked.prompt), (&mut left.target, &asked.target)]
            }
            (RequestPayload::Entail(left), RequestPayload::Entail(asked)) => vec![(&mut left.premise, &asked.premise)],
            _ => Vec::new(),
        };
        for (left, asked) in prompts {
            assert!(left.parts.is_empty() && !asked.parts.is_empty());
            *left = asked.clone();
            kinds.insert(request.ask.kind());
        }
        // All else stayed.
        assert_eq!(left, request);
    }
    assert_eq!(kinds.len(), 3);
}

#[test]
fn a_stored_score_must_have_the_temperatures() {
    let services = ScriptedServices::new(500, 5);
    let mut request = requests().into_iter().find(|request| request.ask.kind().name() == "score").unwrap();
    let stored = services.answer(&request);
    assert!(stored.satisfies(&request));
    if let RequestPayload::Score(score) = &mut request.ask {
        score.temperatures = vec![2.0];
        assert!(stored.satisfies(&request));
        let RequestPayload::Score(score) = &mut request.ask else { unreachable!() };
        score.temperatures.push(4.0);
    }
    assert!(!stored.satisfies(&request));
    let failed = hopeval_methods::Response::failure(hopeval_methods::FailureKind::Refused, "");
    assert!(failed.satisfies(&request), "a failure does not depend on temperatures");
}
