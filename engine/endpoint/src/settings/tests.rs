//! Tests of the settings.

use super::*;

fn parse(text: &str) -> Result<EndpointSettings, String> {
    let settings: EndpointSettings = toml::from_str(text).map_err(|error| error.to_string())?;
    settings.check().map_err(|error| error.to_string())?;
    Ok(settings)
}

#[test]
fn one_address_or_several() {
    let one = parse("model = \"m\"\nbase_url = \"http://a/v1\"").unwrap();
    assert_eq!(one.base_url, ["http://a/v1"]);
    let many = parse("model = \"m\"\nidentity = \"m-f32\"\nbase_url = [\"http://a/v1\", \"http://b/v1\"]").unwrap();
    assert_eq!(many.addresses().unwrap().len(), 2);
    let error = parse("model = \"m\"\nbase_url = [\"http://a/v1\", \"http://b/v1\"]").unwrap_err();
    assert!(error.starts_with("`identity` is absent"), "{error}");
    assert_eq!(EndpointSettings::new("m", "http://a/v1"), one, "the defaults of code and file are the same");
}

#[test]
fn wrong_values_name_their_key() {
    for (line, key) in [
        ("concurrency = 0", "concurrency"),
        ("streams_per_connection = 0", "streams_per_connection"),
        ("streams_per_connection = 1001", "streams_per_connection"),
        ("attempts = 0", "attempts"),
        ("requests_per_minute = 0.5", "requests_per_minute"),
        ("tokens_per_minute = nan", "tokens_per_minute"),
        ("call_timeout_s = 0", "call_timeout_s"),
        ("stall_s = -1", "stall_s"),
        ("patience_s = inf", "patience_s"),
        ("longest_pause_s = 0.1", "longest_pause_s"),
        ("body = { messages = 1 }", "body.messages"),
        ("body = { n = 2 }", "body.n"),
        ("body = { accessToken = \"x\" }", "body.accessToken"),
        ("body = { data_sources = [{ parameters = { key = \"x\" } }] }", "body.data_sources.0.parameters.key"),
        ("body = { x = { api_key = [\"x\"] } }", "body.x.api_key.0"),
        ("body = { extra_headers = { Authorization = \"x\" } }", "body.extra_headers.Authorization"),
        ("headers = { Authorization = \"x\" }", "headers.Authorization"),
        ("headers = { \"a b\" = \"x\" }", "headers.a b"),
        ("price = { input = -1 }", "price.input"),
        ("price = { currency = \"€\" }", "price.currency"),
        ("answers = []", "answers"),
        ("answers = [\"score\"]", "answers"),
        ("answers = [\"generate\", \"generate\"]", "answers"),
        ("api_version = \"2024-10-21\"", "api_version"),
        ("revision = \" \"", "revision"),
        ("key_env = \"A\"\nkey_file = \"b\"", "key_file"),
    ] {
        let error = parse(&format!("model = \"m\"\nbase_url = \"http://a/v1\"\n{line}")).unwrap_err();
        assert!(error.starts_with(&format!("`{key}` is ")) && error.contains("; allowed: "), "{line}: {error}");
    }
    for body in [
        "guided_json = { properties = { key = { type = \"string\" } } }",
        "kwargs = { eos_token = \"</s>\" }, stop_token = \"x\"",
    ] {
        let fine = format!("model = \"m\"\nbase_url = \"http://a/v1\"\nbody = {{ {body} }}");
        assert!(parse(&fine).is_ok(), "{body} is no secret");
    }
    let error = parse("model = \"m\"\nspeed = 1").unwrap_err();
    assert!(error.contains("unknown field `speed`"), "{error}");
}

#[test]
fn identity_has_what_can_change_an_answer() {
    let base = EndpointSettings::new("m", "http://a/v1");
    let usual = base.identity().unwrap();
    assert_eq!(usual, ["model=m", "url=http://a/v1"]);
    let same = [
        EndpointSettings { concurrency: 3, streams_per_connection: Some(2), ..base.clone() },
        EndpointSettings { attempts: 3, call_timeout_s: 1.0, stall_s: Some(1.0), patience_s: 3.0, ..base.clone() },
        EndpointSettings { key_env: Some("K".to_owned()), stream: true, ..base.clone() },
        EndpointSettings { requests_per_minute: Some(9.0), tokens_per_minute: Some(9.0), ..base.clone() },
    ];
    for settings in same {
        assert_eq!(settings.identity().unwrap(), usual);
    }
    let body: Map<String, Value> = serde_json::from_str(r#"{"top_p":0.5,"a":{"c":1,"b":[2]}}"#).unwrap();
    let other = [
        EndpointSettings { model: "k".to_owned(), ..base.clone() },
        EndpointSettings { base_url: vec!["http://b/v1".to_owned()], ..base.clone() },
        EndpointSettings { identity: Some("x".to_owned()), ..base.clone() },
        EndpointSettings { revision: Some("x".to_owned()), ..base.clone() },
        EndpointSettings { api: ApiStyle::Completions, ..base.clone() },
        EndpointSettings { dialect: EndpointDialect::Vllm, ..base.clone() },
        EndpointSettings { score_by: Some(ScoreForm::Echo), ..base.clone() },
        EndpointSettings { reasoning: ReasoningText::Keep, ..base.clone() },
        EndpointSettings { body: body.clone(), ..base.clone() },
        EndpointSettings { headers: [("X-A".to_owned(), "1".to_owned())].into(), ..base.clone() },
    ];
    for (place, settings) in other.iter().enumerate() {
        let identity = settings.identity().unwrap();
        assert_ne!(identity, usual);
        assert!(other[..place].iter().all(|earlier| earlier.identity().unwrap() != identity));
    }
    // The relevance of a reranker is the model's own where the server can be asked for it.
    let vllm = EndpointSettings { dialect: EndpointDialect::Vllm, ..base.clone() };
    let reranker = EndpointSettings { answers: vec![AnswerKind::Rerank], ..vllm.clone() };
    let own: Vec<String> = reranker.identity().unwrap();
    assert!(own.contains(&"relevance=own".to_owned()) && own.len() == vllm.identity().unwrap().len() + 1, "{own:?}");
    let with_body = EndpointSettings { body, ..base }.identity().unwrap();
    assert_eq!(with_body[2], r#"body={"a":{"b":[2],"c":1},"top_p":0.5}"#);
}

#[test]
fn a_named_key_must_be_there() {
    let settings =
        EndpointSettings { key_env: Some("HOPEVAL_NO_SUCH_KEY".to_owned()), ..EndpointSettings::new("m", "") };
    let error = settings.read_key().unwrap_err().to_string();
    assert!(error.contains("HOPEVAL_NO_SUCH_KEY is not set"), "{error}");
    let local = EndpointSettings::new("m", "http://localhost:1/v1");
    assert!(local.read_key().unwrap().is_none(), "OpenAI's key is not sent to other servers");
}
