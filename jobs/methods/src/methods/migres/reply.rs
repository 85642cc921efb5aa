//! Reads the replies of the modules: what the main, leaf and final modules wrote, and the queries.

use super::choices::ReplyParser;
use super::literal::parse_literal;
use hopeval_loosejson::{ValueChoice, parse_object};
use serde_json::Value;

/// A reply of the main or final module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MainReply {
    pub(super) answer: String,
    /// 1 if the reply has none, -1 if it was cut out of a reply that is no dict.
    pub(super) confidence: i64,
    pub(super) explanation: String,
    pub(super) missing: String,
    /// Whether the reply had another form than asked for.
    pub(super) is_repaired: bool,
}

/// A statement with the numbers of the passages that it cites, each once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CitedInfo {
    pub(super) info: String,
    pub(super) citations: Vec<usize>,
}

/// A reply of the leaf module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LeafReply {
    pub(super) infos: Vec<CitedInfo>,
    /// Whether the reply had another form than asked for.
    pub(super) is_repaired: bool,
}

impl MainReply {
    /// Whether the module found the information enough.
    pub(super) fn is_answerable(&self) -> bool {
        !self.answer.to_lowercase().contains("unanswerable")
    }
}

/// Reads a reply of the main or final module; `None` if it cannot be read.
pub(super) fn read_main(text: &str, parser: ReplyParser) -> Option<MainReply> {
    match parser {
        ReplyParser::Tolerant => {
            let (value, is_repaired) = find_object(text, "answer")?;
            main_of_value(&value).map(|reply| MainReply { is_repaired: reply.is_repaired || is_repaired, ..reply })
        }
        ReplyParser::Code => match parse_literal(text.trim()).as_ref().and_then(main_of_value) {
            Some(reply) => Some(reply),
            None => slice_main(text),
        },
    }
}

/// The first object with `key` in a text, and whether it took repairs.
fn find_object(text: &str, key: &str) -> Option<(Value, bool)> {
    let parsed = parse_object(text, &[key], ValueChoice::First).ok()?;
    Some((parsed.value, !parsed.repairs.is_empty()))
}

fn main_of_value(value: &Value) -> Option<MainReply> {
    let text_of = |key: &str| value.get(key).map(plain_text).unwrap_or_default();
    let (answer, confidence, is_repaired) = match value.get("answer")? {
        Value::Object(answer) => {
            let confidence = answer.get("confidence").and_then(number_of).unwrap_or(1);
            (plain_text(answer.get("text")?), confidence, !answer.contains_key("confidence"))
        }
        other => (plain_text(other), value.get("confidence").and_then(number_of).unwrap_or(1), true),
    };
    let (explanation, missing) = (text_of("explanation"), text_of("missing_information"));
    Some(MainReply { answer, confidence, explanation, missing, is_repaired })
}

/// A value as text: strings as they are, nothing for null, lists joined by spaces.
fn plain_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.trim().to_owned(),
        Value::Null => String::new(),
        Value::Array(values) => values.iter().map(plain_text).collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    }
}

fn number_of(value: &Value) -> Option<i64> {
    match value {
        Value::Number(number) => number.as_i64().or_else(|| number.as_f64().map(|number| number as i64)),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

/// The keys at whose places the authors' code cuts a reply.
const KEYS: [&str; 4] = ["\"missing_information\":", "\"answer\":", "\"useful_information\":", "\"explanation\":"];

/// The text behind a key, up to the next of [`KEYS`].
fn section<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let begin = text.find(key)? + key.len();
    let next = KEYS.iter().filter_map(|key| text[begin..].find(key)).min();
    Some(&text[begin..next.map_or(text.len(), |next| begin + next)])
}

/// As the authors' code reads what is no literal.
fn slice_main(text: &str) -> Option<MainReply> {
    let stripped = |section: &str| section.trim_matches(|c: char| c.is_whitespace() || "{}\",".contains(c)).to_owned();
    let answer = section(text, "\"answer\":")?;
    let value = parse_literal(answer.trim().trim_end_matches(','));
    let parts = value.as_ref().and_then(|value| Some((value.get("text")?, value.get("confidence"))));
    let (answer, confidence) = match parts {
        Some((text, confidence)) => (plain_text(text), confidence.and_then(number_of).unwrap_or(1)),
        None => (stripped(answer), -1),
    };
    let text_of = |key| section(text, key).map(stripped).unwrap_or_default();
    let (explanation, missing) = (text_of("\"explanation\":"), text_of("\"missing_information\":"));
    Some(MainReply { answer, confidence, explanation, missing, is_repaired: true })
}

/// Reads a reply of the leaf module: the statements that cite something, at most `most`; `None` if it cannot be read.
pub(super) fn read_leaf(text: &str, parser: ReplyParser, most: usize) -> Option<LeafReply> {
    let mut reply = match parser {
        ReplyParser::Tolerant => {
            let (value, is_repaired) = find_object(text, "useful_information")?;
            let reply = leaf_of_value(&value)?;
            LeafReply { is_repaired: reply.is_repaired || is_repaired, ..reply }
        }
        ReplyParser::Code => match parse_literal(text.trim()).as_ref().and_then(leaf_of_value) {
            Some(reply) => reply,
            None => scan_leaf(text),
        },
    };
    reply.infos.truncate(most);
    Some(reply)
}

fn leaf_of_value(value: &Value) -> Option<LeafReply> {
    let items = match value.get("useful_information")? {
        Value::Array(items) => items.as_slice(),
        single @ Value::Object(_) => std::slice::from_ref(single),
        Value::Null => &[],
        _ => return None,
    };
    let mut reply = LeafReply { is_repaired: !value["useful_information"].is_array(), ..LeafReply::default() };
    for item in items {
        let info = item.get("info").map(plain_text).unwrap_or_default();
        let mut citations = Vec::new();
        for cited in item.get("support_passages").into_iter().flat_map(listed_values) {
            reply.is_repaired |= !cited.is_u64();
            let number = match cited {
                Value::String(text) => first_number(text),
                other => other.as_u64().map(|number| number as usize),
            };
            citations.extend(number.filter(|number| !citations.contains(number)));
        }
        if !info.is_empty() && !citations.is_empty() {
            reply.infos.push(CitedInfo { info, citations });
        }
    }
    Some(reply)
}

fn listed_values(value: &Value) -> &[Value] {
    match value {
        Value::Array(values) => values,
        single => std::slice::from_ref(single),
    }
}

fn first_number(text: &str) -> Option<usize> {
    let begin = text.find(|c: char| c.is_ascii_digit())?;
    let digits = text[begin..].bytes().take_while(u8::is_ascii_digit).count();
    text[begin..begin + digits].parse().ok()
}

/// As the authors' code reads what is no literal: pieces between `}, {`, and each digit behind the statement by itself.
fn scan_leaf(text: &str) -> LeafReply {
    let infos = text.split("}, {").filter_map(|piece| {
        let behind = piece.split_once("\"info\":")?.1;
        let (info, cited) = behind.split_once("\"support_passages\":")?;
        let info = info.trim_matches(|c: char| c.is_whitespace() || "\",".contains(c)).to_owned();
        let mut citations = Vec::new();
        for digit in cited.chars().filter_map(|c| c.to_digit(10)) {
            if !citations.contains(&(digit as usize)) {
                citations.push(digit as usize);
            }
        }
        (!info.is_empty() && !citations.is_empty()).then_some(CitedInfo { info, citations })
    });
    LeafReply { infos: infos.collect(), is_repaired: true }
}

/// The queries of a reply, one a line, each once and none of `asked`.
pub(super) fn read_queries(text: &str, parser: ReplyParser, shortest: usize, asked: &[String]) -> Vec<String> {
    let mut queries: Vec<String> = Vec::new();
    for line in text.split('\n') {
        let query = match parser {
            ReplyParser::Tolerant => without_list_mark(line.trim()),
            ReplyParser::Code => line,
        };
        let is_new = |query: &str| !asked.iter().chain(&queries).any(|old| old == query);
        if query.chars().count() > shortest && is_new(query) {
            queries.push(query.to_owned());
        }
    }
    queries
}

/// A line without the number, point or dash of a list before it.
fn without_list_mark(line: &str) -> &str {
    let after_digits = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let numbered = (after_digits.len() < line.len()).then(|| after_digits.strip_prefix(['.', ')'])).flatten();
    let marked = line.strip_prefix(['-', '*', '•']);
    match numbered.or(marked) {
        Some(rest) if rest.starts_with(' ') => rest.trim_start(),
        _ => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_main_reply_is_read_by_both_parsers() {
        let text = r#"{"answer": {"text": "Rome", "confidence": 4}, "explanation": "E.", "missing_information": ""}"#;
        for parser in [ReplyParser::Tolerant, ReplyParser::Code] {
            let reply = read_main(text, parser).unwrap();
            assert_eq!((reply.answer.as_str(), reply.confidence, reply.is_repaired), ("Rome", 4, false));
            assert!(reply.is_answerable());
        }
        let reply = read_main("Sure! {\"answer\": \"Unanswerable.\"}", ReplyParser::Tolerant).unwrap();
        assert!(!reply.is_answerable() && reply.is_repaired && reply.confidence == 1);
        assert_eq!(read_main("I do not know.", ReplyParser::Tolerant), None);
    }

    #[test]
    fn the_authors_code_cuts_at_four_keys() {
        let answer = r#"{"answer": {"text": "No", "confidence": 5}, "#;
        let text = format!(r#"{answer}"explanation": "He said "no".", "missing_information": "The "what"."}}"#);
        let reply = read_main(&text, ReplyParser::Code).unwrap();
        assert_eq!((reply.answer.as_str(), reply.confidence), ("No", 5));
        assert_eq!((reply.explanation.as_str(), reply.missing.as_str()), ("He said \"no\".", "The \"what\"."));
        let broken = r#"{"answer": {"text": "a "b" c", "confidence": 5}, "explanation": "E"}"#;
        let reply = read_main(broken, ReplyParser::Code).unwrap();
        assert_eq!((reply.answer.as_str(), reply.confidence), ("text\": \"a \"b\" c\", \"confidence\": 5", -1));
        assert_eq!(read_main("no keys", ReplyParser::Code), None);
    }

    #[test]
    fn statements_without_citations_are_dropped() {
        let text = r#"{"useful_information": [{"info": "A", "support_passages": [1, 1, 12]},
            {"info": "B", "support_passages": []}, {"info": "C", "support_passages": ["Passage 3"]}]}"#;
        let reply = read_leaf(text, ReplyParser::Tolerant, 20).unwrap();
        let cited =
            |info: &str, citations: &[usize]| CitedInfo { info: info.to_owned(), citations: citations.to_vec() };
        assert_eq!(reply.infos, [cited("A", &[1, 12]), cited("C", &[3])]);
        assert!(reply.is_repaired);
        assert_eq!(read_leaf(text, ReplyParser::Tolerant, 1).unwrap().infos.len(), 1);
    }

    #[test]
    fn the_authors_code_scans_single_digits() {
        let item = |info: &str, cited: &str| format!(r#"{{"info": "{info}", "support_passages": [{cited}]}}"#);
        let items = [item("A \"quoted\" one", "12"), item("B", ""), item("C", "0")].join(", ");
        let text = format!("{{\"useful_information\": [{items}]}}]");
        let reply = read_leaf(&text, ReplyParser::Code, 20).unwrap();
        let read: Vec<(&str, &[usize])> =
            reply.infos.iter().map(|info| (info.info.as_str(), info.citations.as_slice())).collect();
        assert_eq!(read, [("A \"quoted\" one", &[1, 2][..]), ("C", &[0])]);
    }

    #[test]
    fn queries_are_lines_that_were_not_asked() {
        let text = "1. Who is A?\n- Who is A?\n\nWho is B, the director?\nWho is C?";
        let asked = ["Who is C?".to_owned()];
        assert_eq!(read_queries(text, ReplyParser::Tolerant, 0, &asked), ["Who is A?", "Who is B, the director?"]);
        let code = read_queries(text, ReplyParser::Code, 10, &asked);
        assert_eq!(code, ["1. Who is A?", "- Who is A?", "Who is B, the director?"]);
        assert_eq!(without_list_mark("2001 was a year"), "2001 was a year");
    }
}
