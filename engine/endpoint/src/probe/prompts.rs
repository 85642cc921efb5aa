//! Checks of everything but generation: models, the context, scores of prompts, tokens, vectors, ranks.

use super::report::{ProbeCheck, ProbeFinding};
use super::server::{ProbeReply, ProbedServer, found};
use crate::dialect::{RerankForm, ScoreForm};
use crate::transport::ApiRoute;
use serde_json::{Value, json};

/// A text of several tokens in every tokenizer.
const TEXT: &str = "The capital of France is Paris.";

/// More tokens than any context has.
const TOO_MANY: u32 = 100_000_000;

/// The path `/models`.
pub(super) async fn check_server(server: &mut ProbedServer) -> Vec<ProbeCheck> {
    let reply = server.get_below("models").await;
    let rows = reply.json["data"].as_array().cloned().unwrap_or_default();
    server.models = rows.iter().filter_map(|row| row["id"].as_str().map(str::to_owned)).collect();
    let own = rows.iter().find(|row| row["id"] == server.settings.model.as_str());
    // vLLM and SGLang; llama.cpp; LM Studio.
    let names = ["/max_model_len", "/meta/n_ctx", "/max_context_length", "/meta/n_ctx_train"];
    server.context_tokens = own.and_then(|row| names.iter().find_map(|name| row.pointer(name)?.as_u64()));
    let listed = server.models.contains(&server.settings.model);
    vec![reply.check("/models", None, |_| found(listed, "the model is listed", "the model is not among those listed"))]
}

/// The checks of prompts.
pub(super) async fn check_prompts(server: &mut ProbedServer) -> Vec<ProbeCheck> {
    let facts = server.settings.facts();
    let mut checks = Vec::new();
    if facts.generates {
        checks.push(check_context(server).await);
        checks.push(check_echo(server).await);
        checks.push(check_prompt_logprobs(server).await);
        checks.push(check_token_prompts(server).await);
    }
    let tokens = server
        .post_root("tokenize", json!({"model": server.settings.model, "prompt": TEXT, "content": TEXT, "inputs": TEXT}))
        .await;
    checks.push(tokens.check("/tokenize", Some(facts.tokenizes), |reply| {
        let list = reply.json["tokens"].is_array() || reply.json.is_array();
        found(list || reply.json["count"].is_u64(), "tokens came", "no tokens came")
    }));
    let vectors = server.post_route(ApiRoute::Embeddings, json!({"input": [TEXT]})).await;
    let promised = server.promise_beside_generation(facts.embeds);
    checks.push(vectors.check("/embeddings", promised, |reply| {
        let length = reply.json["data"][0]["embedding"].as_array().map_or(0, Vec::len);
        found(length > 0, &format!("vectors of {length} numbers"), "no vector came")
    }));
    let texts = if facts.reranks == RerankForm::RootTexts { "texts" } else { "documents" };
    let ranks = server.post_route(ApiRoute::Rerank, json!({"query": "Where is Paris?", texts: [TEXT, "Bread."]})).await;
    let promised = server.promise_beside_generation(facts.reranks != RerankForm::Absent);
    checks.push(ranks.check("/rerank", promised, |reply| {
        let rows = reply.json["results"].as_array().or(reply.json.as_array()).map_or(0, Vec::len);
        found(rows == 2, "each document has its relevance", "not each document has a relevance")
    }));
    checks
}

/// An absurd `max_tokens`: the refusal names the context's length, and a 200 says that overflows pass in silence.
async fn check_context(server: &mut ProbedServer) -> ProbeCheck {
    // The prompt asks for one word, so that a server that cuts the number writes little.
    let reply = server.generate("Say yes.", TOO_MANY, json!({"temperature": 0})).await;
    let stated = context_in(&reply.text);
    server.context_tokens = server.context_tokens.or(stated);
    let mut check = reply.check("context length", None, |_| {
        (ProbeFinding::Ignored, "a `max_tokens` beyond every context was taken".to_owned())
    });
    if check.finding == ProbeFinding::Refused {
        check.finding = ProbeFinding::Supported;
        check.detail = match stated {
            Some(tokens) => format!("too long calls are refused; the context has {tokens} tokens"),
            None => format!("too long calls are refused: {}", check.detail),
        };
    }
    check
}

/// The number that follows the word `context` and `is` in an error, such as "maximum context length is 4096 tokens".
fn context_in(text: &str) -> Option<u64> {
    let lower = text.to_lowercase();
    let behind = &lower[lower.find("context length")?..];
    let digits = behind.find(|letter: char| letter.is_ascii_digit())?;
    let number: String = behind[digits..].chars().take_while(char::is_ascii_digit).collect();
    number.parse().ok().filter(|tokens| *tokens != u64::from(TOO_MANY))
}

async fn check_echo(server: &mut ProbedServer) -> ProbeCheck {
    let promised = server.settings.score_form().map(|form| form == ScoreForm::Echo);
    let body = json!({"prompt": TEXT, "max_tokens": 1, "temperature": 0, "echo": true, "logprobs": 1});
    let reply = server.post_route(ApiRoute::Completions, body).await;
    reply.check("echo with logprobs", promised, |reply| {
        let scores = reply.json["choices"][0]["logprobs"]["token_logprobs"].as_array();
        let count = scores.map_or(0, |scores| scores.iter().filter(|score| score.is_number()).count());
        found(count >= 4, "the prompt's tokens are scored", "the prompt's tokens are not scored")
    })
}

async fn check_prompt_logprobs(server: &mut ProbedServer) -> ProbeCheck {
    let promised = server.settings.score_form().map(|form| form == ScoreForm::PromptLogprobs);
    let body = json!({"prompt": TEXT, "max_tokens": 1, "temperature": 0, "prompt_logprobs": 1});
    let reply = server.post_route(ApiRoute::Completions, body).await;
    reply.check("prompt_logprobs", promised, |reply| {
        let scores = reply.json["choices"][0]["prompt_logprobs"].as_array();
        let count = scores.map_or(0, |scores| scores.iter().filter(|score| score.is_object()).count());
        found(count >= 4, "the prompt's tokens are scored by id", "the prompt's tokens are not scored")
    })
}

/// A prompt of five token ids is read as five tokens.
async fn check_token_prompts(server: &mut ProbedServer) -> ProbeCheck {
    let promised = server.settings.facts().token_prompts;
    let body = json!({"prompt": [5, 6, 7, 8, 9], "max_tokens": 1, "temperature": 0});
    let reply = server.post_route(ApiRoute::Completions, body).await;
    reply.check("token ids as a prompt", Some(promised), judge_token_prompt)
}

fn judge_token_prompt(reply: &ProbeReply) -> (ProbeFinding, String) {
    match reply.json["usage"]["prompt_tokens"].as_u64() {
        // Some servers count a token of the sequence's beginning.
        Some(5 | 6) => (ProbeFinding::Supported, "five ids were read as five tokens".to_owned()),
        Some(tokens) => (ProbeFinding::Ignored, format!("five ids were read as {tokens} tokens")),
        None if reply.json["choices"] != Value::Null => {
            (ProbeFinding::Unclear, "answered, without a count of tokens".to_owned())
        }
        None => (ProbeFinding::Ignored, "a 200 without a choice".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_context_stands_in_the_error() {
        assert_eq!(context_in("This model's maximum context length is 4097 tokens. You"), Some(4097));
        assert_eq!(context_in("longer than the model's context length (8192 tokens)"), Some(8192));
        assert_eq!(context_in("max_tokens must be at most 4096"), None);
    }
}
