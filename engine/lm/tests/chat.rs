//! Chats are rendered and tokenised as transformers does it (`ops/lm/chat_templates.py` wrote the expectations), and
//! overflow rules work on their parts.

#![expect(clippy::unwrap_used, reason = "a test fails where its fixture is not as expected")]

use hopeval_lm::chat_prompt::{ChatPromptError, assemble_chat, join_parts};
use hopeval_lm::chat_template::{ChatError, ChatRole, ChatTemplate, ChatVariable};
use hopeval_lm::prompt::{LengthLimit, OverflowRule, Prompt, PromptError, PromptPart};
use hopeval_lm::tokenise::Tokenizer;
use proptest::prelude::*;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/chat")
}

#[derive(Deserialize)]
struct ChatCases {
    templates: BTreeMap<String, String>,
    cases: Vec<ChatCase>,
}

#[derive(Deserialize)]
struct ChatCase {
    template: String,
    parts: Vec<(String, String)>,
    #[serde(default)]
    variables: BTreeMap<String, ChatVariable>,
    /// `None`: the template refuses the chat.
    expected: Option<ExpectedPrompt>,
}

#[derive(Deserialize)]
struct ExpectedPrompt {
    text: String,
    ids: Vec<u32>,
}

fn role(name: &str) -> ChatRole {
    [ChatRole::System, ChatRole::User, ChatRole::Assistant].into_iter().find(|role| role.name() == name).unwrap()
}

fn cases() -> ChatCases {
    serde_json::from_slice(&std::fs::read(folder().join("cases.json")).unwrap()).unwrap()
}

/// A template beside the fixture's special tokens.
fn template(source: &str, variables: &BTreeMap<String, ChatVariable>) -> Result<ChatTemplate, ChatError> {
    let dir = tempfile::tempdir().unwrap();
    std::fs::copy(folder().join("tokenizer_config.json"), dir.path().join("tokenizer_config.json")).unwrap();
    std::fs::write(dir.path().join("chat_template.jinja"), source).unwrap();
    ChatTemplate::open(dir.path(), variables)
}

fn refusal(source: &str, messages: &[(ChatRole, &str)]) -> String {
    let messages = join_parts(messages.iter().copied());
    template(source, &BTreeMap::new()).unwrap().render(&messages).unwrap_err().to_string()
}

fn prompt(texts: &[String]) -> Prompt {
    let part = |text: &String| PromptPart { text: text.clone(), truncate: None };
    Prompt { parts: texts.iter().map(part).collect(), ..Prompt::default() }
}

#[test]
fn prompts_without_overflow_are_those_of_transformers() {
    let tokenizer = Tokenizer::open(&folder()).unwrap();
    let ChatCases { templates, cases } = cases();
    assert!(cases.len() > 100 && cases.iter().filter(|case| case.expected.is_none()).count() >= 7);
    for ChatCase { template: name, parts, variables, expected } in cases {
        let template = template(&templates[&name], &variables).unwrap();
        let roles: Vec<ChatRole> = parts.iter().map(|(name, _)| role(name)).collect();
        let texts: Vec<String> = parts.iter().map(|(_, text)| text.clone()).collect();
        let messages = join_parts(roles.iter().copied().zip(texts.iter().map(String::as_str)));
        let rendered = template.render(&messages);
        let assembled = assemble_chat(&tokenizer, &template, &prompt(&texts), &roles, None);
        match expected {
            Some(ExpectedPrompt { text, ids }) => {
                assert_eq!(rendered.unwrap(), text, "{name}: {parts:?}");
                let assembled = assembled.unwrap();
                assert_eq!(assembled.ids, ids, "{name}: {parts:?}");
                assert_eq!((assembled.texts, assembled.report.tokens), (texts, ids.len()));
            }
            None => {
                assert!(rendered.is_err(), "{name}: {parts:?}: {rendered:?}");
                assert!(matches!(assembled.unwrap_err(), ChatPromptError::Chat(_)));
            }
        }
    }
}

#[test]
fn a_template_is_found_where_transformers_looks() {
    let messages = join_parts([(ChatRole::User, "Who?")]);
    let listed = ChatTemplate::open(&folder(), &BTreeMap::new()).unwrap();
    assert_eq!(listed.source(), cases().templates["turns"], "the list's default");
    assert!(listed.render(&messages).unwrap().starts_with("<s><|turn|>system\n"));
    let own = template("own", &BTreeMap::new()).unwrap();
    assert_eq!(own.render(&messages).unwrap(), "own", "the file has precedence");
    let dir = tempfile::tempdir().unwrap();
    let none = ChatTemplate::open(dir.path(), &BTreeMap::new()).unwrap_err();
    assert!(matches!(none, ChatError::Absent { .. }), "{none}");
    for (config, expected) in [
        ("[]", "not a JSON object"),
        (r#"{"chat_template": 3}"#, "expected a text, or a list of name and template, found 3"),
        (r#"{"chat_template": [{"name": "tool_use", "template": ""}]}"#, "none of them named default"),
    ] {
        std::fs::write(dir.path().join("tokenizer_config.json"), config).unwrap();
        let wrong = ChatTemplate::open(dir.path(), &BTreeMap::new()).unwrap_err().to_string();
        assert!(wrong.contains("tokenizer_config.json") && wrong.contains(expected), "{wrong}");
    }
    let unclosed = template("\n{% for message in messages %}", &BTreeMap::new()).unwrap_err().to_string();
    assert!(unclosed.contains("chat_template.jinja") && unclosed.contains("line 2"), "{unclosed}");
}

#[test]
fn no_text_depends_on_the_day() {
    let guarded = "{% if strftime_now is defined %}{{ strftime_now('%d %b %Y') }}{% else %}26 Jul 2024{% endif %}";
    let messages = join_parts([(ChatRole::User, "When?")]);
    assert_eq!(template(guarded, &BTreeMap::new()).unwrap().render(&messages).unwrap(), "26 Jul 2024");
    let asked = refusal("{{ strftime_now('%Y') }}", &[(ChatRole::User, "When?")]);
    assert!(asked.contains("strftime_now"), "{asked}");
    let dated = "{% if not date is defined %}{{ strftime_now('%Y') }}{% endif %}{{ date }}";
    let given = BTreeMap::from([("date".to_owned(), ChatVariable::Text("1 May 2026".to_owned()))]);
    assert_eq!(template(dated, &given).unwrap().render(&messages).unwrap(), "1 May 2026");
}

#[test]
fn refusals_have_the_template_s_words_and_no_template_runs_for_ever() {
    let told = refusal("\n{{ raise_exception('No ' ~ messages[0].role ~ ' here.') }}", &[(ChatRole::System, "a")]);
    assert_eq!(told, "the chat template refuses the messages: No system here. (its line 2)");
    let endless = "{% for a in range(9999) %}{% for b in range(9999) %}{% for c in range(9999) %}x{% endfor %}\
                   {% endfor %}{% endfor %}";
    assert!(refusal(endless, &[(ChatRole::User, "a")]).contains("fuel"));
    assert!(refusal("{{ messages[0].content }}", &[]).contains("no message"));
}

fn assembled(
    budget: usize,
    overflow: Vec<OverflowRule>,
    parts: &[(ChatRole, &str)],
) -> Result<hopeval_lm::prompt::AssembledPrompt, ChatPromptError> {
    let tokenizer = Tokenizer::open(&folder()).unwrap();
    let template = ChatTemplate::open(&folder(), &BTreeMap::new()).unwrap();
    let texts: Vec<String> = parts.iter().map(|(_, text)| (*text).to_owned()).collect();
    let roles: Vec<ChatRole> = parts.iter().map(|(role, _)| *role).collect();
    let prompt = Prompt { budget: Some(budget), overflow, ..prompt(&texts) };
    assemble_chat(&tokenizer, &template, &prompt, &roles, None)
}

const LONG: &str = "The bridge of Arlen, built by Ada, is near Istria. The castle of Hallstadt was sold in 1931.";

#[test]
fn dropped_parts_leave_no_message_and_cut_ones_no_more_than_needed() {
    let parts = [(ChatRole::User, "One. "), (ChatRole::Assistant, LONG), (ChatRole::User, "Two?")];
    let whole = assembled(999, Vec::new(), &parts).unwrap().report.tokens;
    let without = assembled(whole - 1, vec![OverflowRule::drop_part(1)], &parts).unwrap();
    let joined = assembled(999, Vec::new(), &[(ChatRole::User, "One. Two?")]).unwrap();
    assert_eq!((without.ids, without.report.dropped), (joined.ids, vec![1]));
    let rule = OverflowRule::Cut { part: 1, to: LengthLimit::Words(3) };
    let cut = assembled(whole - 7, vec![rule], &parts).unwrap();
    assert!(cut.report.tokens <= whole - 7 && cut.report.tokens + 3 >= whole - 7, "{:?} of {whole}", cut.report);
    assert!(LONG.starts_with(&cut.texts[1]) && cut.texts[1].len() < LONG.len());
    assert_eq!(cut.report.cut.iter().map(|(part, _)| *part).collect::<Vec<_>>(), [1]);
    // Three words stay, whatever the budget.
    let Err(ChatPromptError::Prompt(PromptError::TooLong { tokens, budget: 30 })) = assembled(30, vec![rule], &parts)
    else {
        panic!("three words are too long")
    };
    let least = assembled(tokens, vec![rule], &parts).unwrap();
    assert_eq!(least.texts[1], "The bridge of");
    let none = assembled(9, vec![OverflowRule::drop_part(3)], &parts).unwrap_err();
    assert!(matches!(none, ChatPromptError::Prompt(PromptError::NoPart { part: 3, parts: 3 })));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any rules and any budget: the result is within the budget, and is the chat of what is left of the parts.
    #[test]
    fn what_fits_is_the_chat_of_what_is_left(
        budget in 1usize..160,
        roles in prop::collection::vec(0usize..3, 4),
        rules in prop::collection::vec((0usize..4, any::<bool>(), 0usize..9), 0..6),
        odd in 0usize..4,
    ) {
        let names = [ChatRole::System, ChatRole::User, ChatRole::Assistant];
        let texts = [LONG, "Naïve café: ½ €5 日本 🙂", " ", "  Two  spaces\n"];
        let parts: Vec<_> = (0..4).map(|n| (names[roles[n]], texts[(n + odd) % 4])).collect();
        let rule = |&(part, drop, to): &(usize, bool, usize)| match drop {
            true => OverflowRule::drop_part(part),
            false => OverflowRule::Cut { part, to: LengthLimit::Tokens(to) },
        };
        match assembled(budget, rules.iter().map(rule).collect(), &parts) {
            Ok(found) => {
                prop_assert!(found.ids.len() <= budget);
                for (n, text) in found.texts.iter().enumerate() {
                    prop_assert!(parts[n].1.starts_with(text.as_str()));
                    let lost = found.report.cut.iter().any(|(part, _)| *part == n);
                    prop_assert_eq!(text.len() < parts[n].1.len(), lost || found.report.dropped.contains(&n));
                }
                let kept = (0..4).filter(|n| !found.report.dropped.contains(n));
                let left: Vec<_> = kept.map(|n| (parts[n].0, found.texts[n].as_str())).collect();
                prop_assert_eq!(assembled(999, Vec::new(), &left).unwrap().ids, found.ids);
            }
            Err(ChatPromptError::Prompt(PromptError::TooLong { tokens, budget: told })) => {
                prop_assert!(told == budget && tokens > budget);
            }
            Err(ChatPromptError::Chat(ChatError::NoMessage)) => {}
            Err(other) => prop_assert!(false, "{other}"),
        }
    }
}
