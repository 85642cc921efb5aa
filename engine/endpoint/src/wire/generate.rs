//! Bodies of generations: `/chat/completions` and `/completions`.

use super::body::{BodyWriter, RequestBody};
use crate::call::{AnswerFormat, ChatRole, GenerateCall, PromptInput};
use crate::dialect::ContinueForm;
use crate::settings::EndpointSettings;

/// The body of a generation, without its number of choices and its seed.
pub(super) fn generation_body(settings: &EndpointSettings, call: &GenerateCall) -> RequestBody {
    let facts = settings.facts();
    let mut body;
    match &call.prompt {
        PromptInput::Messages(messages) => {
            let room = messages.iter().map(|message| message.text.own_bytes() + 32).sum();
            body = BodyWriter::for_model(&settings.model, room);
            body.add_messages(messages.iter().map(|message| (message.role.name(), &message.text)));
            let continued = messages.last().is_some_and(|last| last.role == ChatRole::Assistant);
            if continued && facts.continues == ContinueForm::Fields {
                body.add("continue_final_message", &true);
                body.add("add_generation_prompt", &false);
            }
            body.add_some(facts.chat_max_tokens, call.max_tokens);
            if call.logprobs {
                body.add("logprobs", &true);
            }
        }
        PromptInput::Text(text) => {
            body = BodyWriter::for_model(&settings.model, text.own_bytes());
            body.add_text("prompt", text);
            body.add_some("max_tokens", call.max_tokens);
            body.add_some("logprobs", call.logprobs.then_some(1));
        }
        PromptInput::Tokens(tokens) => {
            body = BodyWriter::for_model(&settings.model, 7 * tokens.len());
            body.add("prompt", tokens);
            body.add_some("max_tokens", call.max_tokens);
            body.add_some("logprobs", call.logprobs.then_some(1));
        }
    }
    if !call.stop.is_empty() {
        body.add("stop", &call.stop[..call.stop.len().min(facts.most_stops)]);
    }
    add_sampling(&mut body, settings, call);
    match &call.format {
        AnswerFormat::Text => {}
        AnswerFormat::Json => body.add_json("response_format", r#"{"type":"json_object"}"#),
        AnswerFormat::Schema(schema) => {
            let form = format!(
                r#"{{"type":"json_schema","json_schema":{{"name":"answer","strict":true,"schema":{schema}}}}}"#
            );
            body.add_json("response_format", &form);
        }
    }
    if settings.stream {
        body.add("stream", &true);
        body.add_json("stream_options", r#"{"include_usage":true}"#);
    }
    body.finish_body(&settings.body, call.sampling.seed)
}

/// Adds the fields of sampling that are set, by the dialect's names.
fn add_sampling(body: &mut BodyWriter, settings: &EndpointSettings, call: &GenerateCall) {
    let (facts, sampling) = (settings.facts(), &call.sampling);
    body.add_some("temperature", sampling.temperature);
    body.add_some("top_p", sampling.top_p);
    if let Some(name) = facts.top_k {
        body.add_some(name, sampling.top_k);
    }
    if let Some(name) = facts.repetition_penalty {
        body.add_some(name, sampling.repetition_penalty);
    }
    body.add_some("presence_penalty", sampling.presence_penalty);
    body.add_some("frequency_penalty", sampling.frequency_penalty);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::{ChatMessage, SamplingFields};
    use crate::dialect::EndpointDialect;

    fn text_of(settings: &EndpointSettings, call: &GenerateCall) -> String {
        String::from_utf8(generation_body(settings, call).chunks_for(call.choices, 0).to_bytes().to_vec()).unwrap()
    }

    #[test]
    fn a_plain_chat_has_no_more_than_it_needs() {
        let settings = EndpointSettings::new("m", "http://a/v1");
        let call = GenerateCall { max_tokens: Some(5), ..GenerateCall::from_user("say \"hi\"\n") };
        let expected =
            r#"{"model":"m","messages":[{"role":"user","content":"say \"hi\"\n"}],"max_completion_tokens":5}"#;
        assert_eq!(text_of(&settings, &call), expected);
    }

    #[test]
    fn a_full_chat_by_dialect() {
        let mut settings = EndpointSettings::new("m", "http://a/v1");
        let message = |role, text: &str| ChatMessage { role, text: text.into() };
        let call = GenerateCall {
            counted_tokens: None,
            prompt: PromptInput::Messages(vec![message(ChatRole::User, "q"), message(ChatRole::Assistant, "So ")]),
            max_tokens: Some(5),
            stop: ["1", "2", "3", "4", "5"].map(str::to_owned).to_vec(),
            sampling: SamplingFields {
                temperature: Some(0.5),
                top_p: Some(0.9),
                top_k: Some(40),
                repetition_penalty: Some(1.1),
                presence_penalty: Some(1.0),
                frequency_penalty: Some(0.5),
                seed: Some(7),
            },
            choices: 3,
            format: AnswerFormat::Schema("{\"type\":\"object\"}".to_owned()),
            logprobs: true,
        };
        settings.dialect = EndpointDialect::Vllm;
        assert_eq!(
            text_of(&settings, &call),
            concat!(
                r#"{"model":"m","messages":[{"role":"user","content":"q"},{"role":"assistant","content":"So "}],"#,
                r#""continue_final_message":true,"add_generation_prompt":false,"max_tokens":5,"logprobs":true,"#,
                r#""stop":["1","2","3","4","5"],"temperature":0.5,"top_p":0.9,"top_k":40,"repetition_penalty":1.1,"#,
                r#""presence_penalty":1.0,"frequency_penalty":0.5,"response_format":{"type":"json_schema","#,
                r#""json_schema":{"name":"answer","strict":true,"schema":{"type":"object"}}},"n":3,"seed":7}"#
            )
        );
        settings.dialect = EndpointDialect::LlamaCpp;
        let text = text_of(&settings, &call);
        assert!(text.contains("\"repeat_penalty\":1.1") && !text.contains("continue_final"), "{text}");
        settings.dialect = EndpointDialect::OpenAi;
        assert!(text_of(&settings, &call).contains(r#""stop":["1","2","3","4"],"#));
    }

    #[test]
    fn completions_take_texts_and_tokens() {
        let settings = EndpointSettings { stream: true, ..EndpointSettings::new("m", "http://a/v1") };
        let call = GenerateCall { logprobs: true, ..GenerateCall::new(PromptInput::Tokens(vec![1, 22])) };
        let expected =
            r#"{"model":"m","prompt":[1,22],"logprobs":1,"stream":true,"stream_options":{"include_usage":true}}"#;
        assert_eq!(text_of(&settings, &call), expected);
        let call = GenerateCall { max_tokens: Some(0), ..GenerateCall::new(PromptInput::Text("a".into())) };
        assert!(text_of(&settings, &call).starts_with(r#"{"model":"m","prompt":"a","max_tokens":0,"#));
    }
}
