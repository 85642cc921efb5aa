//! Answers of the simulated server: right, deterministic, and in every form of the interface.

#[path = "support/http.rs"]
mod http;
#[path = "support/prompts.rs"]
mod prompts;

use hopeval_simulated_llm::{SimulatedServer, SimulationSettings};
use http::{HttpReply, get, post};
use prompts::{chat, gold_prompts, with};
use serde_json::{Value, json};

const CHAT: &str = "/v1/chat/completions";

fn start(settings: SimulationSettings) -> SimulatedServer {
    SimulatedServer::start(settings).expect("a server")
}

fn ask(server: &SimulatedServer, path: &str, body: &Value) -> HttpReply {
    post(server.address(), path, &[], &body.to_string()).expect("a reply")
}

fn content(reply: &HttpReply) -> String {
    reply.json()["choices"][0]["message"]["content"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn gold_passages_are_answered() {
    let server = start(SimulationSettings::default());
    let prompts = gold_prompts(200);
    let right = prompts.iter().filter(|asked| {
        let reply = ask(&server, CHAT, &chat(&asked.prompt));
        asked.question.answers.contains(&content(&reply))
    });
    let right = right.count();
    assert!(right >= 190, "{right} of 200");
    let thought = format!("Answer step by step.\n\n{}", prompts[0].prompt);
    let answer = content(&ask(&server, CHAT, &chat(&thought)));
    assert!(answer.ends_with(&format!("So the answer is: {}.", prompts[0].question.answers[0])), "{answer}");
}

#[test]
fn mistakes_have_their_rate() {
    let settings = SimulationSettings { mistake_rate: 0.3, ..SimulationSettings::default() };
    let server = start(settings);
    let prompts = gold_prompts(200);
    let wrong = prompts.iter().filter(|asked| {
        let reply = ask(&server, CHAT, &chat(&asked.prompt));
        !asked.question.answers.contains(&content(&reply))
    });
    let wrong = wrong.count();
    assert!((40..=80).contains(&wrong), "{wrong} of 200");
}

#[test]
fn answers_are_functions_of_their_bodies() {
    let settings = SimulationSettings { mistake_rate: 0.2, sampled_mistake_rate: 0.2, ..SimulationSettings::default() };
    let bodies: Vec<Value> = gold_prompts(20)
        .iter()
        .flat_map(|asked| {
            let sampled = json!({"temperature": 0.8, "seed": 5, "n": 3, "logprobs": true, "top_logprobs": 2});
            [chat(&asked.prompt), with(chat(&asked.prompt), sampled)]
        })
        .collect();
    let (first, second) = (start(settings.clone()), start(settings));
    let forward: Vec<Vec<u8>> = bodies.iter().map(|body| ask(&first, CHAT, body).body).collect();
    let mut backward: Vec<Vec<u8>> = bodies.iter().rev().map(|body| ask(&second, CHAT, body).body).collect();
    backward.reverse();
    assert_eq!(forward, backward);
    let summary = first.summary();
    assert_eq!((summary.answered, summary.answered_bodies, summary.repeated_answers), (40, 40, 0));
    ask(&first, CHAT, &bodies[0]);
    assert_eq!(first.summary().repeated_answers, 1);
}

#[test]
fn a_stream_has_the_words_of_the_document() {
    let server = start(SimulationSettings::default());
    let body = chat(&format!("Answer step by step.\n\n{}", gold_prompts(1)[0].prompt));
    let whole = ask(&server, CHAT, &body);
    let streamed = with(body, json!({"stream": true, "stream_options": {"include_usage": true}}));
    let stream = ask(&server, CHAT, &streamed);
    assert!(stream.is_complete && !stream.is_reset);
    assert_eq!(stream.header("content-type"), Some("text/event-stream"));
    let text = stream.text();
    assert!(text.ends_with("data: [DONE]\n\n"));
    let events: Vec<Value> =
        text.split("\n\n").filter_map(|event| serde_json::from_str(event.strip_prefix("data: ")?).ok()).collect();
    let words = events.iter().filter_map(|event| event["choices"][0]["delta"]["content"].as_str());
    assert_eq!(words.collect::<String>(), content(&whole));
    assert_eq!(events.last().map(|event| &event["usage"]), Some(&whole.json()["usage"]));
}

#[test]
fn choices_stops_and_lengths_are_kept() {
    let server = start(SimulationSettings::default());
    let thought = format!("Answer step by step.\n\n{}", gold_prompts(1)[0].prompt);
    let three = ask(&server, CHAT, &with(chat(&thought), json!({"n": 3, "temperature": 1.0})));
    assert_eq!(three.json()["choices"].as_array().map(Vec::len), Some(3));
    let stopped = ask(&server, CHAT, &with(chat(&thought), json!({"stop": ["So the"]}))).json();
    let choice = &stopped["choices"][0];
    assert_eq!((&choice["finish_reason"], &choice["stop_reason"]), (&json!("stop"), &json!("So the")));
    assert!(!choice["message"]["content"].as_str().unwrap_or_default().contains("So the"));
    let short = ask(&server, CHAT, &with(chat(&thought), json!({"max_tokens": 4}))).json();
    assert_eq!(short["choices"][0]["finish_reason"], "length");
    assert_eq!(short["usage"]["completion_tokens"], 4);
    let none = ask(&server, CHAT, &with(chat(&thought), json!({"n": 0})));
    assert_eq!(none.status, 400);
}

#[test]
fn a_schema_shapes_the_answer() {
    let server = start(SimulationSettings::default());
    let asked = &gold_prompts(1)[0];
    let schema = json!({"type": "object", "properties": {
        "reasoning": {"type": "string"}, "answer": {"type": "string"}
    }, "required": ["reasoning", "answer"]});
    let format = json!({"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}});
    let reply = ask(&server, CHAT, &with(chat(&asked.prompt), json!({"response_format": format})));
    let document: Value = serde_json::from_str(&content(&reply)).expect("JSON");
    assert_eq!(document["answer"].as_str(), asked.question.answers.first().map(String::as_str));
    let bad = ask(&server, CHAT, &with(chat(&asked.prompt), json!({"response_format": {"type": "yaml"}})));
    assert_eq!(bad.status, 400);
}

#[test]
fn completions_echo_and_score_their_prompts() {
    let server = start(SimulationSettings::default());
    let prompt = "Pale Harbor was directed by Margot Zimova. Who directed Pale Harbor?";
    let path = "/v1/completions";
    let tokens = ask(&server, "/tokenize", &json!({"prompt": prompt})).json();
    let numbers = tokens["tokens"].clone();
    let count = tokens["count"].as_u64().expect("a count") as usize;
    assert_eq!(ask(&server, "/detokenize", &json!({"tokens": numbers})).json()["prompt"], prompt);
    let echo = json!({"temperature": 0, "max_tokens": 0, "echo": true, "logprobs": 2});
    let by_text = ask(&server, path, &with(json!({"prompt": prompt}), echo.clone())).json();
    let by_numbers = ask(&server, path, &with(json!({"prompt": numbers}), echo)).json();
    assert_eq!(by_text["choices"], by_numbers["choices"]);
    let scores = &by_text["choices"][0]["logprobs"];
    let values = scores["token_logprobs"].as_array().expect("scores");
    assert_eq!((values.len(), &values[0], by_text["choices"][0]["text"].as_str()), (count, &Value::Null, Some(prompt)));
    assert!(values[1..].iter().all(|value| value.as_f64().is_some_and(|score| score < 0.0)));
    let many = json!({"prompt": [numbers, numbers], "max_tokens": 1, "temperature": 0, "prompt_logprobs": 0});
    let many = ask(&server, path, &many).json();
    assert_eq!(many["choices"].as_array().map(Vec::len), Some(2));
    let entry = &many["choices"][1]["prompt_logprobs"][1];
    let own = entry[numbers[1].to_string()]["logprob"].as_f64().expect("a score");
    assert_eq!(Some(own), values[1].as_f64());
}

#[test]
fn embeddings_rank_and_rerank() {
    let server = start(SimulationSettings::default());
    let input = ["the director of Pale Harbor", "Pale Harbor has a director", "a river"];
    let reply = ask(&server, "/v1/embeddings", &json!({"model": "simulated-llm", "input": input})).json();
    let vector = |place: usize| -> Vec<f64> {
        reply["data"][place]["embedding"].as_array().into_iter().flatten().filter_map(Value::as_f64).collect()
    };
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    assert!(dot(&vector(0), &vector(1)) > dot(&vector(0), &vector(2)));
    for path in ["/v1/rerank", "/rerank"] {
        let body = json!({"model": "simulated-llm", "query": input[0], "documents": [input[2], {"text": input[1]}]});
        let ranked = ask(&server, path, &body).json();
        assert_eq!((&ranked["results"][0]["index"], ranked["results"].as_array().map(Vec::len)), (&json!(1), Some(2)));
    }
}

#[test]
fn reasoning_and_cached_tokens_are_counted() {
    let toml = "reasoning = 'field'\nprompt_cache = true\nprice = { input = 1.0, cached_input = 0.5, output = 2.0 }";
    let server = start(SimulationSettings::parse(toml, &[]).expect("settings"));
    let body = chat(&gold_prompts(1)[0].prompt);
    let first = ask(&server, CHAT, &body).json();
    let message = &first["choices"][0]["message"];
    assert!(message["reasoning_content"].as_str().is_some_and(|text| !text.is_empty()));
    let usage = &first["usage"];
    let count = |usage: &Value, pointer: &str| usage.pointer(pointer).and_then(Value::as_u64).unwrap_or(0);
    let reasoning = count(usage, "/completion_tokens_details/reasoning_tokens");
    assert!(reasoning > 0 && reasoning < count(usage, "/completion_tokens"));
    assert_eq!(count(usage, "/prompt_tokens_details/cached_tokens"), 0);
    let second = ask(&server, CHAT, &body).json();
    let cached = count(&second["usage"], "/prompt_tokens_details/cached_tokens");
    assert!(cached > 0 && cached < count(usage, "/prompt_tokens"));
    let (prompt, completion) = (count(usage, "/prompt_tokens") as f64, count(usage, "/completion_tokens") as f64);
    let money = (2.0 * prompt - 0.5 * cached as f64 + 4.0 * completion) / 1e6;
    assert!((server.summary().money - money).abs() < 1e-12);
}

#[test]
fn models_are_listed_and_others_refused() {
    let server = start(SimulationSettings::default());
    let models = get(server.address(), "/v1/models").expect("a reply").json();
    assert_eq!(models["data"][0]["id"], "simulated-llm");
    let other = ask(&server, CHAT, &with(chat("Hello?"), json!({"model": "other"})));
    assert_eq!((other.status, &other.json()["error"]["code"]), (404, &json!("model_not_found")));
    let unknown = with(chat("Hello?"), json!({"surprise": 1}));
    assert_eq!(ask(&server, CHAT, &unknown).status, 200);
    server.change(SimulationSettings::parse("unknown_fields = 'refuse'", &[]).expect("settings")).expect("a change");
    assert_eq!(ask(&server, CHAT, &unknown).status, 422);
    assert_eq!(ask(&server, CHAT, &json!("no object")).status, 400);
    assert_eq!(ask(&server, "/v1/other", &json!({})).status, 404);
}

#[test]
fn another_servers_model_answers_through_it() {
    let behind = start(SimulationSettings::default());
    let passing = |base: String| SimulationSettings {
        pass_through: Some(base),
        models: vec!["simulated-llm".to_owned()],
        fingerprint: "not shown".to_owned(),
        ..SimulationSettings::default()
    };
    let server = start(passing(behind.base_url()));
    let prompt = &gold_prompts(1)[0].prompt;
    let sampled = json!({"temperature": 0.8, "seed": 5, "n": 3, "logprobs": true, "top_logprobs": 2});
    for body in [chat(prompt), with(chat(prompt), sampled)] {
        let (direct, passed) = (ask(&behind, CHAT, &body), ask(&server, CHAT, &body));
        assert_eq!((direct.json(), passed.status), (passed.json(), 200));
    }
    let completion = json!({"model": "simulated-llm", "prompt": prompt, "max_tokens": 20, "echo": true, "logprobs": 1});
    let direct = ask(&behind, "/v1/completions", &completion).json();
    assert_eq!(direct, ask(&server, "/v1/completions", &completion).json());
    let inputs = json!({"model": "simulated-llm", "input": ["one text", "another"]});
    assert_eq!(ask(&behind, "/v1/embeddings", &inputs).json(), ask(&server, "/v1/embeddings", &inputs).json());
    // Streams are made of the one document; the simulation's own faults and log still hold.
    let streamed = ask(&server, CHAT, &with(chat(prompt), json!({"stream": true}))).text();
    assert!(streamed.ends_with("data: [DONE]\n\n"), "{streamed}");
    assert_eq!(server.summary().answered, 5);
    // What the server behind refuses is refused alike; one that is not there is a bad gateway.
    let wrong = with(chat(prompt), json!({"temperature": 7.0}));
    let (direct, passed) = (ask(&behind, CHAT, &wrong), ask(&server, CHAT, &wrong));
    assert_eq!((direct.status, direct.json()), (passed.status, passed.json()));
    let alone = start(passing("http://127.0.0.1:9/v1".to_owned()));
    let reply = ask(&alone, CHAT, &chat(prompt));
    assert_eq!(reply.status, 502, "{}", reply.text());
}
