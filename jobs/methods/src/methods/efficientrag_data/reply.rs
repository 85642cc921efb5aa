//! Reads the language model's texts: JSON objects with the paper's keys, with any text around them.

use crate::annotation::AnnotatedStep;
use crate::request::PassageId;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The value of `key` in the first JSON object of `text` with this key.
fn value_of(text: &str, key: &str) -> Result<Value, String> {
    let found = text.match_indices('{').find_map(|(at, _)| {
        let mut values = serde_json::Deserializer::from_str(&text[at..]).into_iter::<Value>();
        values.next()?.ok()?.get_mut(key).map(Value::take)
    });
    found.ok_or_else(|| format!("no JSON object with the key `{key}`"))
}

/// The string of `key`, trimmed and not empty.
pub(super) fn parse_string(text: &str, key: &str) -> Result<String, String> {
    match value_of(text, key)? {
        Value::String(words) if !words.trim().is_empty() => Ok(words.trim().to_owned()),
        other => Err(format!("`{key}` is {other}; it must be a string that is not empty")),
    }
}

/// The single-hop questions, in the order of their numbers, without words.
pub(super) fn parse_decomposition(text: &str, passages: &[PassageId], most: u32) -> Result<Vec<AnnotatedStep>, String> {
    const KEY: &str = "decomposed_questions";
    let Value::Object(questions) = value_of(text, KEY)? else {
        return Err(format!("`{KEY}` is no object"));
    };
    if questions.is_empty() || questions.len() > most as usize {
        return Err(format!("`{KEY}` has {} questions; allowed are 1 to {most}", questions.len()));
    }
    let mut numbered = BTreeMap::new();
    for (key, question) in &questions {
        let number =
            parse_number(&Value::String(key.clone())).ok_or_else(|| format!("`{KEY}` has `{key}` for a number"))?;
        let Value::Object(question) = question else {
            return Err(format!("sub-question {number} is no object"));
        };
        if numbered.insert(number, question).is_some() {
            return Err(format!("sub-question {number} is there twice"));
        }
    }
    let count = numbered.len() as u32;
    if !numbered.keys().copied().eq(1..=count) {
        return Err(format!("`{KEY}` must be numbered from 1 to {count}"));
    }
    let steps = numbered.into_iter().map(|(number, question)| {
        parse_step(question, number, count, passages).map_err(|reason| format!("sub-question {number}: {reason}"))
    });
    steps.collect()
}

/// The single-hop question with the number `own`, of `count`.
fn parse_step(
    question: &Map<String, Value>,
    own: u32,
    count: u32,
    passages: &[PassageId],
) -> Result<AnnotatedStep, String> {
    let text = |key: &str| match question.get(key) {
        Some(Value::String(text)) if !text.trim().is_empty() => Ok(text.trim().to_owned()),
        Some(value @ (Value::Number(_) | Value::Bool(_))) => Ok(value.to_string()),
        _ => Err(format!("`{key}` must be a string that is not empty")),
    };
    let mut needs = Vec::new();
    let dependencies = match question.get("dependency") {
        None | Some(Value::Null) => &[][..],
        Some(Value::Array(dependencies)) => dependencies.as_slice(),
        Some(_) => return Err("`dependency` must be a list".to_owned()),
    };
    for dependency in dependencies {
        let earlier = parse_number(dependency).filter(|number| (1..own).contains(number));
        needs.push(earlier.ok_or_else(|| format!("`dependency` has {dependency}, which is none before it"))? - 1);
    }
    // References of the text are needed, listed or not.
    let text_of_question = text("sub_question")?;
    for reference in referenced_numbers(&text_of_question).filter(|number| (1..=count).contains(number)) {
        if reference >= own {
            return Err(format!("`sub_question` refers to #{reference}, which is none before it"));
        }
        needs.push(reference - 1);
    }
    needs.sort_unstable();
    needs.dedup();
    let document = question.get("document").and_then(parse_number).and_then(|number| number.checked_sub(1));
    let passage = document.and_then(|at| passages.get(at as usize));
    let passage = passage.ok_or_else(|| format!("`document` must be a number from 1 to {}", passages.len()))?;
    Ok(AnnotatedStep {
        question: text_of_question,
        answer: text("answer")?,
        needs,
        passage: *passage,
        words: String::new(),
    })
}

/// A number, in JSON or as text, with or without `#`.
fn parse_number(value: &Value) -> Option<u32> {
    match value {
        Value::Number(number) => number.as_u64().and_then(|number| u32::try_from(number).ok()),
        Value::String(text) => text.trim().trim_start_matches('#').parse().ok(),
        _ => None,
    }
}

/// The numbers of a text's references, such as `#1`.
fn referenced_numbers(text: &str) -> impl Iterator<Item = u32> {
    text.split('#').skip(1).filter_map(|after| {
        let digits = after.bytes().take_while(u8::is_ascii_digit).count();
        after[..digits].parse().ok()
    })
}

/// A single-hop question with the answers of the needed steps in the place of references.
pub(super) fn resolved_question(step: &AnnotatedStep, steps: &[AnnotatedStep]) -> String {
    let mut text = String::with_capacity(step.question.len());
    let mut rest = step.question.as_str();
    while let Some(at) = rest.find('#') {
        text.push_str(&rest[..at]);
        let digits = rest[at + 1..].bytes().take_while(u8::is_ascii_digit).count();
        let (reference, after) = rest[at..].split_at(1 + digits);
        let needed =
            reference[1..].parse::<u32>().ok().and_then(|n| n.checked_sub(1)).filter(|n| step.needs.contains(n));
        let answer = needed.and_then(|n| steps.get(n as usize));
        // A `#` without a needed step stays.
        text.push_str(answer.map_or(reference, |step| &step.answer));
        rest = after;
    }
    text.push_str(rest);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSAGES: [PassageId; 2] = [PassageId(7), PassageId(3)];

    fn read(questions: &str) -> Result<Vec<AnnotatedStep>, String> {
        let text =
            format!("Here it is:\n```json\n{{\"question\": \"Q?\", \"decomposed_questions\": {questions}}}\n```");
        parse_decomposition(&text, &PASSAGES, 3)
    }

    #[test]
    fn a_decomposition_is_read_in_the_order_of_its_numbers() {
        let steps = read(
            r##"{"2": {"sub_question": "Where was #1 born?", "answer": 1928, "dependency": ["#1", 1], "document": "#2"},
                "1": {"sub_question": "Who directed it? ", "answer": "Kubrick", "dependency": [], "document": 1}}"##,
        )
        .unwrap();
        assert_eq!((steps[0].question.as_str(), steps[0].passage), ("Who directed it?", PassageId(7)));
        assert_eq!((steps[1].answer.as_str(), steps[1].needs.as_slice()), ("1928", &[0][..]));
        assert_eq!(steps[1].passage, PassageId(3));
        assert_eq!(resolved_question(&steps[1], &steps), "Where was Kubrick born?");
    }

    #[test]
    fn references_that_lead_nowhere_stay() {
        let steps = read(r##"{"1": {"sub_question": "#0 # #9 in C#?", "answer": "A", "document": 1}}"##).unwrap();
        assert_eq!(resolved_question(&steps[0], &steps), "#0 # #9 in C#?");
    }

    #[test]
    fn what_the_text_refers_to_is_needed_and_comes_before() {
        let first = r##""1": {"sub_question": "Who?", "answer": "A", "document": 1}"##;
        let read = |second: &str| {
            read(&format!(r##"{{{first}, "2": {{"sub_question": "{second}", "answer": "B", "document": 1}}}}"##))
        };
        let steps = read("Where was #1 born?").unwrap();
        assert_eq!(steps[1].needs, [0]);
        assert_eq!(resolved_question(&steps[1], &steps), "Where was A born?");
        let own = read("Is #2 a town?").unwrap_err();
        assert_eq!(own, "sub-question 2: `sub_question` refers to #2, which is none before it");
    }

    #[test]
    fn what_is_wrong_is_named() {
        let step = |dependency: &str, document: &str| {
            format!(r#"{{"sub_question": "Q", "answer": "A", "dependency": {dependency}, "document": {document}}}"#)
        };
        let one = |dependency: &str, document: &str| read(&format!("{{\"1\": {}}}", step(dependency, document)));
        assert!(one("[]", "2").is_ok() && one("null", "\"1\"").is_ok());
        assert_eq!(one("[]", "3").unwrap_err(), "sub-question 1: `document` must be a number from 1 to 2");
        assert_eq!(one("[]", "0").unwrap_err(), "sub-question 1: `document` must be a number from 1 to 2");
        assert_eq!(one("[1]", "1").unwrap_err(), "sub-question 1: `dependency` has 1, which is none before it");
        assert_eq!(one("\"1\"", "1").unwrap_err(), "sub-question 1: `dependency` must be a list");
        assert_eq!(read("[]").unwrap_err(), "`decomposed_questions` is no object");
        assert_eq!(read("{}").unwrap_err(), "`decomposed_questions` has 0 questions; allowed are 1 to 3");
        assert_eq!(read(r#"{"a": {}}"#).unwrap_err(), "`decomposed_questions` has `a` for a number");
        assert_eq!(read(r#"{"1": 5}"#).unwrap_err(), "sub-question 1 is no object");
        let from_0 = r#"{"0": {"sub_question": "Q", "answer": "A", "document": 1}}"#;
        assert_eq!(read(from_0).unwrap_err(), "`decomposed_questions` must be numbered from 1 to 1");
        assert_eq!(read(r##"{"1": {}, "#1": {}}"##).unwrap_err(), "sub-question 1 is there twice");
        let blank = r#"{"1": {"sub_question": " ", "answer": "A", "document": 1}}"#;
        assert_eq!(read(blank).unwrap_err(), "sub-question 1: `sub_question` must be a string that is not empty");
        assert_eq!(
            parse_decomposition("I cannot do that.", &PASSAGES, 3).unwrap_err(),
            "no JSON object with the key `decomposed_questions`"
        );
    }

    #[test]
    fn words_are_a_string_that_says_something() {
        assert_eq!(parse_string("so {\"extracted_words\": \" New York \"}", "extracted_words").unwrap(), "New York");
        assert_eq!(
            parse_string("{\"extracted_words\": [\"a\"]}", "extracted_words").unwrap_err(),
            "`extracted_words` is [\"a\"]; it must be a string that is not empty"
        );
        assert!(parse_string("{\"filtered_query\": \"  \"}", "filtered_query").is_err());
    }
}
