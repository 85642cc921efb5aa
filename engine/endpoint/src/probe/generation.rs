//! Checks of generation: the fields of bodies, one by one, against the answer without them.

use super::report::{ProbeCheck, ProbeFinding};
use super::server::{ProbeReply, ProbedServer, found};
use crate::dialect::{ContinueForm, SchemaForm};
use crate::settings::ApiStyle;
use serde_json::{Value, json};

/// A prompt with an answer of some length.
const COUNTING: &str = "Count from one to twenty in words, separated by spaces.";

/// A prompt for texts that differ from sample to sample.
const STORY: &str = "Write one sentence of a story about a lighthouse.";

/// A prompt against JSON, so that JSON in the answer is the server's doing. Some servers want the word in it.
const NO_JSON: &str = "Say hello in one word. Do not write JSON.";

/// The letters that a text may have behind its stop string: the rest of a token.
const LAST_LETTERS: usize = 16;

/// What the schema of [`check_schema`] allows, without white space.
const ONLY_VALUE: &str = r#"{"colour":"red"}"#;

/// Runs the checks.
pub(super) async fn check_generation(server: &mut ProbedServer) -> Vec<ProbeCheck> {
    if !server.settings.facts().generates {
        return Vec::new();
    }
    let plain = server.generate(COUNTING, 24, json!({"temperature": 0})).await;
    let generates = plain
        .check("generation", Some(true), |reply| found(reply.is_answer(), "a text came", "a 200 without a choice"));
    if generates.finding != ProbeFinding::Supported {
        return vec![generates];
    }
    let usage = plain.check("usage", Some(true), |reply| {
        let counted = reply.json["usage"]["prompt_tokens"].as_u64().is_some_and(|tokens| tokens > 0);
        found(counted, "the answer counts its tokens", "tokens are not counted: the client counts bytes / 3")
    });
    let text = plain.choice_text(0).unwrap_or_default().to_owned();
    vec![
        generates,
        usage,
        check_length(server).await,
        check_stop(server, &text).await,
        check_choices(server).await,
        check_logprobs(server).await,
        check_seed(server).await,
        check_json(server).await,
        check_schema(server).await,
        check_unknown(server).await,
        check_continuation(server).await,
        check_stream(server).await,
    ]
}

async fn check_length(server: &mut ProbedServer) -> ProbeCheck {
    let reply = server.generate(COUNTING, 1, json!({"temperature": 0})).await;
    let written = reply.json["usage"]["completion_tokens"].as_u64();
    let yes = is_cut(&reply) || written.is_some_and(|written| written <= 1);
    reply.check("max_tokens", Some(true), |_| found(yes, "the text was cut", "the text was not cut after one token"))
}

/// A stop string from the middle of the known text.
async fn check_stop(server: &mut ProbedServer, text: &str) -> ProbeCheck {
    let letters: Vec<char> = text.chars().collect();
    let middle: String = letters.iter().skip(letters.len() / 2).take(3).collect();
    if middle.trim().is_empty() {
        let detail = "the plain answer is too short".to_owned();
        return ProbeCheck { name: "stop", finding: ProbeFinding::Unclear, promised: Some(true), detail };
    }
    let reply = server.generate(COUNTING, 24, json!({"temperature": 0, "stop": [middle]})).await;
    // The letters behind the first stop string, if there is one.
    let behind = |text: &str| text.split_once(&middle).map(|(_, behind)| behind.chars().count());
    let may_tell = behind(text).is_some_and(|behind| behind > LAST_LETTERS);
    reply.check("stop", Some(true), |reply| match reply.choice_text(0).map(behind) {
        None => found(false, "", "no text came"),
        Some(None) => found(true, "the text ends before it", ""),
        // transformers ends a text with the token that has the stop string's end.
        Some(Some(behind)) if behind <= LAST_LETTERS => match may_tell {
            true => found(true, "the text ends with it: the client cuts it off", ""),
            false => (ProbeFinding::Unclear, "the plain answer is too short".to_owned()),
        },
        Some(Some(_)) => found(false, "", "the text goes on behind it"),
    })
}

async fn check_choices(server: &mut ProbedServer) -> ProbeCheck {
    let promised = server.settings.facts().choices;
    let reply = server.generate(STORY, 8, json!({"n": 2, "temperature": 1})).await;
    reply.check("n", Some(promised), |reply| {
        let count = reply.json["choices"].as_array().map_or(0, Vec::len);
        found(count == 2, "two choices came", "one choice came: choices are asked for one by one")
    })
}

async fn check_logprobs(server: &mut ProbedServer) -> ProbeCheck {
    let promised = server.settings.facts().logprobs;
    let field = match server.settings.api {
        ApiStyle::Chat => json!({"logprobs": true}),
        ApiStyle::Completions => json!({"logprobs": 1}),
    };
    let reply = server.generate(COUNTING, 4, field).await;
    reply.check("logprobs", Some(promised), |reply| {
        let logprobs = &reply.json["choices"][0]["logprobs"];
        let given = [&logprobs["content"], &logprobs["token_logprobs"]];
        let given = given.into_iter().any(|list| list.as_array().is_some_and(|list| !list.is_empty()));
        found(given, "each token has its log-probability", "no log-probability came")
    })
}

/// Equal seeds give equal texts, and other seeds other texts.
async fn check_seed(server: &mut ProbedServer) -> ProbeCheck {
    let mut texts = Vec::new();
    let mut last = None;
    for seed in [11, 11, 12, 13] {
        let reply = server.generate(STORY, 24, json!({"temperature": 1, "seed": seed})).await;
        texts.push(reply.choice_text(0).unwrap_or_default().to_owned());
        last = Some(reply);
    }
    let finding = if texts[0] != texts[1] {
        (ProbeFinding::Ignored, "two texts of one seed differ".to_owned())
    } else if texts.iter().all(|text| *text == texts[0]) {
        (ProbeFinding::Unclear, "the texts of all seeds are equal".to_owned())
    } else {
        (ProbeFinding::Supported, "two texts of one seed are equal, others differ; no promise".to_owned())
    };
    match last {
        Some(reply) => reply.check("seed", None, |_| finding),
        None => ProbeCheck { name: "seed", finding: ProbeFinding::Failed, promised: None, detail: String::new() },
    }
}

async fn check_json(server: &mut ProbedServer) -> ProbeCheck {
    let promised = server.settings.facts().json_object;
    let field = json!({"temperature": 0, "response_format": {"type": "json_object"}});
    let reply = server.generate(NO_JSON, 48, field).await;
    reply.check("response_format json_object", Some(promised), |reply| {
        let text = reply.choice_text(0).unwrap_or_default().trim_start();
        found(text.starts_with('{'), "an object came against the prompt's wish", "the text is no object")
    })
}

async fn check_schema(server: &mut ProbedServer) -> ProbeCheck {
    let promised = server.settings.facts().schema != SchemaForm::Absent;
    let schema = json!({"type": "object", "properties": {"colour": {"type": "string", "enum": ["red"]}},
        "required": ["colour"], "additionalProperties": false});
    let format = json!({"type": "json_schema", "json_schema": {"name": "answer", "strict": true, "schema": schema}});
    let reply = server.generate(NO_JSON, 48, json!({"temperature": 0, "response_format": format})).await;
    reply.check("response_format json_schema", Some(promised), |reply| {
        let text = reply.choice_text(0).unwrap_or_default();
        if is_cut(reply) && begins_only_value(text) {
            return (ProbeFinding::Unclear, "the text begins as the schema wants, and was cut".to_owned());
        }
        let fits = serde_json::from_str::<Value>(text).is_ok_and(|value| value == json!({"colour": "red"}));
        found(fits, "the schema's only value came", "the text does not fit the schema")
    })
}

/// Whether the first choice ended at `max_tokens`.
fn is_cut(reply: &ProbeReply) -> bool {
    reply.json["choices"][0]["finish_reason"] == "length"
}

/// Whether `text` is the beginning of the schema's only value, with white space anywhere between its words.
fn begins_only_value(text: &str) -> bool {
    let dense: String = text.split_whitespace().collect();
    ONLY_VALUE.starts_with(&dense)
}

/// A server that takes a field that nobody knows takes every misspelt one.
async fn check_unknown(server: &mut ProbedServer) -> ProbeCheck {
    let reply = server.generate(COUNTING, 1, json!({"hopeval_unknown_field": 1})).await;
    reply.check("unknown field", None, |_| (ProbeFinding::Ignored, "answered: wrong names show no error".to_owned()))
}

/// A trailing message of the assistant is continued if the text goes on with it, not if it begins anew.
async fn check_continuation(server: &mut ProbedServer) -> ProbeCheck {
    let name = "continue_final_message";
    let form = server.settings.facts().continues;
    let promised = Some(form != ContinueForm::Absent);
    if server.settings.api == ApiStyle::Completions {
        let detail = "a completion always continues its prompt".to_owned();
        return ProbeCheck { name, finding: ProbeFinding::Supported, promised, detail };
    }
    let messages =
        json!([{"role": "user", "content": COUNTING}, {"role": "assistant", "content": "one two three four fi"}]);
    let limit = server.settings.facts().chat_max_tokens;
    let body = json!({"messages": messages, "temperature": 0, limit: 12});
    let mut fields = body.clone();
    fields["continue_final_message"] = true.into();
    fields["add_generation_prompt"] = false.into();
    let plain = server.post_route(server.route(), body).await;
    let reply = if form == ContinueForm::Implicit {
        plain
    } else {
        let reply = server.post_route(server.route(), fields).await;
        if reply.choice_text(0).is_some() && reply.choice_text(0) == plain.choice_text(0) {
            let detail = "with and without the field the same text came".to_owned();
            return reply.check(name, promised, |_| (ProbeFinding::Ignored, detail));
        }
        reply
    };
    reply.check(name, promised, |reply| {
        let text = reply.choice_text(0).unwrap_or_default();
        let anew = text.trim_start().to_lowercase().starts_with("one");
        found(!anew, "the text does not begin anew", "the text begins anew")
    })
}

async fn check_stream(server: &mut ProbedServer) -> ProbeCheck {
    let reply = server.generate(COUNTING, 4, json!({"stream": true, "stream_options": {"include_usage": true}})).await;
    reply.check("stream", None, |reply| {
        let events = reply.text.trim_start().starts_with("data:");
        let counted = reply.text.contains("\"prompt_tokens\"");
        let detail = if counted { "events came, with the usage" } else { "events came, without the usage" };
        found(events, detail, "one object came instead of events")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_text_that_begins_as_the_schema_wants() {
        for text in ["", " \n\n", "{\n  ", "{\"colour\" :\t\"r", r#"{"colour":"red"}"#] {
            assert!(begins_only_value(text), "{text}");
        }
        for text in ["Hello", "{\"color", "{\"colour\": \"blue"] {
            assert!(!begins_only_value(text), "{text}");
        }
    }
}
