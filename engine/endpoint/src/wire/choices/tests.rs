//! Tests of choices, by answers as servers write them.

use super::*;

fn reader() -> ChoiceReader {
    ChoiceReader { stops: Vec::new(), logprobs: false, split_thoughts: true, stream: false }
}

fn read(reader: &ChoiceReader, body: &str) -> Result<Vec<GeneratedChoice>, AttemptCause> {
    reader.read_choices(body.as_bytes(), false).map(|(choices, _)| choices).map_err(|fault| fault.cause)
}

fn choice(text: &str, finish: FinishReason) -> GeneratedChoice {
    GeneratedChoice { text: text.to_owned(), finish, reasoning: None, logprobs: Vec::new() }
}

#[test]
fn chats_and_completions() {
    let body = r#"{"id":"x","object":"chat.completion","model":"m-1","system_fingerprint":"fp","choices":[
        {"index":1,"message":{"role":"assistant","content":"b"},"finish_reason":"length"},
        {"index":0,"message":{"role":"assistant","content":"a","refusal":null},"finish_reason":"stop","logprobs":null}],
        "usage":{"prompt_tokens":3,"completion_tokens":2}}"#;
    let (choices, facts) = reader().read_choices(body.as_bytes(), false).unwrap();
    assert_eq!(choices, [choice("a", FinishReason::Stop(None)), choice("b", FinishReason::Length)]);
    assert_eq!((facts.model.as_deref(), facts.system_fingerprint.as_deref()), (Some("m-1"), Some("fp")));
    assert_eq!(facts.usage.unwrap().completion, 2);
    let body = r#"{"choices":[{"text":" t","finish_reason":"stop","stop_reason":"\n"}]}"#;
    assert_eq!(read(&reader(), body).unwrap(), [choice(" t", FinishReason::Stop(Some("\n".to_owned())))]);
    let parts = r#"{"choices":[{"message":{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}}]}"#;
    assert_eq!(read(&reader(), parts).unwrap(), [choice("ab", FinishReason::Stop(None))]);
}

#[test]
fn filters_and_refusals_are_named() {
    let body = r#"{"choices":[{"message":{"content":null},"finish_reason":"content_filter"}]}"#;
    assert_eq!(read(&reader(), body).unwrap(), [choice("", FinishReason::Filtered)]);
    let body = r#"{"choices":[{"message":{"content":null,"refusal":"I cannot."},"finish_reason":"stop"}]}"#;
    assert_eq!(read(&reader(), body).unwrap(), [choice("I cannot.", FinishReason::Refused)]);
}

#[test]
fn thoughts_are_set_apart() {
    let apart = GeneratedChoice { reasoning: Some("hm".to_owned()), ..choice("a", FinishReason::Stop(None)) };
    for message in [
        r#"{"content":"a","reasoning_content":"hm"}"#,
        r#"{"content":"a","reasoning":"hm"}"#,
        r#"{"content":"<think>hm</think>\n\na"}"#,
    ] {
        let body = format!("{{\"choices\":[{{\"message\":{message}}}]}}");
        assert_eq!(read(&reader(), &body).unwrap(), std::slice::from_ref(&apart), "{message}");
    }
    let kept = ChoiceReader { split_thoughts: false, ..reader() };
    let body = r#"{"choices":[{"message":{"content":"<think>hm</think>a"}}]}"#;
    assert_eq!(read(&kept, body).unwrap()[0].text, "<think>hm</think>a");
    let used_up = r#"{"choices":[{"message":{"content":null,"reasoning_content":"hm"},"finish_reason":"length"}]}"#;
    let found = &read(&reader(), used_up).unwrap()[0];
    assert_eq!((found.text.as_str(), &found.finish), ("", &FinishReason::Length));
}

#[test]
fn answers_that_are_none() {
    for (body, cause) in [
        (r#"{"choices":[]}"#, AttemptCause::NoChoices),
        (r#"{"object":"x"}"#, AttemptCause::NoChoices),
        (r#"{"choices":[{"message":{"content":null},"finish_reason":"stop"}]}"#, AttemptCause::NullContent),
        (r#"{"choices":[{"finish_reason":"stop"}]}"#, AttemptCause::NullContent),
        (r#"{"choices":[{"message":{"content":"x"},"finish_reason":"abort"}]}"#, AttemptCause::Aborted),
        (r#"{"choices":7}"#, AttemptCause::WrongShape),
        (r#"{"error":{"message":"x"}}"#, AttemptCause::ErrorInAnswer),
        (r#"{"choices":[{"mess"#, AttemptCause::NotJson),
        ("<html></html>", AttemptCause::NotJson),
        ("", AttemptCause::NotJson),
    ] {
        assert_eq!(read(&reader(), body), Err(cause), "{body}");
    }
    let half = r#"{"choices":[{"message":{"content":null}},{"index":1,"message":{"content":"a"}}]}"#;
    assert_eq!(read(&reader(), half).unwrap().len(), 1, "what is there counts");
}

#[test]
fn stops_are_cut_with_their_tokens() {
    let reader = ChoiceReader { stops: vec!["\n\n".to_owned(), "Q:".to_owned()], logprobs: true, ..reader() };
    let body = r#"{"choices":[{"message":{"content":"é b\n\nQ: c"},"finish_reason":"length","logprobs":{"content":[
        {"token":"\\xc3","bytes":[195],"logprob":-0.5},{"token":"\\xa9","bytes":[169],"logprob":-0.25},
        {"token":" b","bytes":[32,98],"logprob":-1.0},{"token":"\n\n","bytes":[10,10],"logprob":-2.0},
        {"token":"Q","bytes":[81],"logprob":-3.0}]}}]}"#;
    let found = &read(&reader, body).unwrap()[0];
    assert_eq!((found.text.as_str(), &found.finish), ("é b", &FinishReason::Stop(Some("\n\n".to_owned()))));
    assert_eq!(found.logprobs, [-0.5, -0.25, -1.0]);
    let completion = r#"{"choices":[{"text":"a b","logprobs":{"tokens":["a"," b"],"token_logprobs":[-0.5,-1.5]}}]}"#;
    assert_eq!(read(&reader, completion).unwrap()[0].logprobs, [-0.5, -1.5]);
    let without = r#"{"choices":[{"text":"a"}]}"#;
    assert_eq!(read(&reader, without), Err(AttemptCause::WrongShape), "logprobs that were ignored");
}

#[test]
fn streams_add_up() {
    let reader = ChoiceReader { stream: true, ..reader() };
    let body = concat!(
        "data: {\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"reasoning\":\"h\"}}]}\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"reasoning\":\"m\"}}]}\n\n",
        "data: {\"choices\":[{\"index\":1,\"delta\":{\"content\":\"x\"},\"finish_reason\":\"length\"}]}\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Pa\"}}]}\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"ris\"},\"finish_reason\":\"stop\"}]}\n\n",
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":4}}\n\n",
        "data: [DONE]\n\n",
    );
    let (choices, facts) = reader.read_choices(body.as_bytes(), false).unwrap();
    let first = GeneratedChoice { reasoning: Some("hm".to_owned()), ..choice("Paris", FinishReason::Stop(None)) };
    assert_eq!(choices, [first, choice("x", FinishReason::Length)]);
    assert_eq!(facts.usage.unwrap().completion, 4);
    let cut = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Pa\"}}]}\n\n";
    assert_eq!(read(&reader, cut), Err(AttemptCause::CutBody));
    let error = "data: {\"error\":{\"message\":\"late\",\"code\":500}}\n\n";
    assert_eq!(read(&reader, error), Err(AttemptCause::Status500));
}
