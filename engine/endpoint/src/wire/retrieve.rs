//! Passages for a query: hopeval's own contract with a retriever behind HTTP.
//!
//! ```text
//!   {"query": "text", "k": 20}  -->  {"results": [{"id": "p7", "score": 12.5}, ..]}
//! ```
//!
//! The first result is the best one. An id is a text, or a whole number that stands for its digits. Fewer than `k`
//! results are the whole ranking. Other fields, of the answer or of a result, have no meaning. `ops/docs/retrievers.md`
//! has the contract for users.

use super::body::{BodyWriter, RequestBody};
use super::envelope::{ReadingFault, ReplyFacts};
use crate::answer::{CallAnswer, FoundPassage};
use crate::call::RetrieveCall;
use crate::classify::{classify_error, shorten_text};
use crate::settings::EndpointSettings;
use crate::verdict::AttemptCause;
use serde_json::Value;
use std::collections::HashMap;

/// The longest body of an answer, in bytes: 10,000 results have less than 1 MiB, and servers may add their texts.
pub(super) const MOST_BYTES: usize = 16 << 20;

/// The bytes of a wrong body that a message begins with.
const SHOWN_BYTES: usize = 400;

/// The body of a retrieval.
pub(super) fn retrieval_body(settings: &EndpointSettings, call: &RetrieveCall) -> RequestBody {
    let within = call.within.as_ref().map_or(0, |ids| ids.iter().map(|id| id.len() + 4).sum());
    let mut body = BodyWriter::without_model(call.query.len() + within);
    body.add("query", &call.query);
    body.add("k", &call.k);
    body.add_some("within", call.within.as_ref());
    body.finish_body(&settings.body, None)
}

/// The passages of an answer, `most` of them at most.
pub(super) fn read_results(
    body: &[u8],
    most: usize,
    model_known: bool,
) -> Result<(CallAnswer, ReplyFacts), ReadingFault> {
    let reply: Value = serde_json::from_slice(body).map_err(|error| unreadable(body, &error))?;
    if let Some(error) = reply.get("error").filter(|error| !error.is_null()) {
        let found = classify_error(error, model_known);
        return Err(ReadingFault::new(found.cause, found.message));
    }
    let results = match reply.get("results") {
        Some(Value::Array(results)) => results,
        other => return Err(wrong_field("results", other, "a list of objects with `id` and `score`, best first")),
    };
    if results.len() > most {
        let found = format!("{} of them", results.len());
        return Err(wrong_shape("results", &found, &format!("at most `k`, which is {most}")));
    }
    let mut found: Vec<FoundPassage> = Vec::with_capacity(results.len());
    let mut places: HashMap<String, usize> = HashMap::with_capacity(results.len());
    for (place, result) in results.iter().enumerate() {
        let passage = read_result(place, result)?;
        if let Some(earlier) = places.insert(passage.id.clone(), place) {
            let message = format!("`{}`, which is `results[{earlier}].id`", passage.id);
            return Err(wrong_shape(&format!("results[{place}].id"), &message, "each passage once"));
        }
        if let Some(before) = found.last().filter(|before| before.score < passage.score) {
            let message = format!("{} after {}", passage.score, before.score);
            let allowed = "scores that do not rise: the best result is first, and a distance is sent as its negative";
            return Err(wrong_shape(&format!("results[{place}].score"), &message, allowed));
        }
        found.push(passage);
    }
    Ok((CallAnswer::Retrieved(found), ReplyFacts::default()))
}

fn read_result(place: usize, result: &Value) -> Result<FoundPassage, ReadingFault> {
    if !result.is_object() {
        let allowed = "an object with `id` and `score`";
        return Err(wrong_field(&format!("results[{place}]"), Some(result), allowed));
    }
    let id = match result.get("id") {
        Some(Value::String(id)) => id.clone(),
        Some(Value::Number(number)) if number.is_i64() || number.is_u64() => number.to_string(),
        other => {
            let allowed = "the id of a passage of the corpus: a text or a whole number";
            return Err(wrong_field(&format!("results[{place}].id"), other, allowed));
        }
    };
    let score = result.get("score");
    match score.and_then(Value::as_f64).filter(|score| score.is_finite()) {
        Some(score) => Ok(FoundPassage { id, score }),
        None => Err(wrong_field(&format!("results[{place}].score"), score, "a finite number")),
    }
}

/// The fault of bytes that are no JSON. Python writes `NaN` and `Infinity` into an object that is JSON otherwise: such
/// a server works.
fn unreadable(body: &[u8], error: &serde_json::Error) -> ReadingFault {
    let text = String::from_utf8_lossy(&body[..body.len().min(SHOWN_BYTES)]);
    if let Some(word) = written_non_number(body) {
        return wrong_shape("results[..].score", word, "a finite number; JSON has no other");
    }
    let message = format!("an answer of {} bytes that is no JSON: {error} in: {}", body.len(), shorten_text(&text));
    ReadingFault::new(AttemptCause::NotJson, message)
}

/// Python's word for a score that is no finite number, if the body has one.
fn written_non_number(body: &[u8]) -> Option<&'static str> {
    let (body, key) = (String::from_utf8_lossy(body), "\"score\":");
    let scores = body.match_indices(key).map(|(place, _)| body[place + key.len()..].trim_start());
    let words = ["NaN", "Infinity", "-Infinity"];
    scores.into_iter().find_map(|score| words.into_iter().find(|word| score.starts_with(word)))
}

fn wrong_field(field: &str, found: Option<&Value>, allowed: &str) -> ReadingFault {
    let found = found.map_or_else(|| "nothing".to_owned(), |value| shorten_text(&value.to_string()));
    wrong_shape(field, &found, allowed)
}

fn wrong_shape(field: &str, found: &str, allowed: &str) -> ReadingFault {
    ReadingFault::new(AttemptCause::WrongShape, format!("field `{field}`: found {found}; allowed: {allowed}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> Result<Vec<(String, f64)>, (AttemptCause, String)> {
        match read_results(body.as_bytes(), 3, false) {
            Ok((CallAnswer::Retrieved(found), _)) => {
                Ok(found.into_iter().map(|found| (found.id, found.score)).collect())
            }
            Ok(other) => panic!("{other:?}"),
            Err(fault) => Err((fault.cause, fault.message)),
        }
    }

    #[test]
    fn bodies_are_those_of_the_contract() {
        let mut settings = EndpointSettings::for_retriever("wiki", vec!["http://a".to_owned()]);
        let call = RetrieveCall { query: "who \"x\"?".to_owned(), k: 20, within: None };
        let body = |settings: &EndpointSettings, call: &RetrieveCall| {
            retrieval_body(settings, call).chunks_for(1, 0).to_bytes()
        };
        assert_eq!(body(&settings, &call), r#"{"query":"who \"x\"?","k":20}"#);
        settings.body = serde_json::from_str(r#"{"ef":100}"#).unwrap();
        let within = RetrieveCall { within: Some(vec!["a".to_owned(), "b".to_owned()]), ..call };
        assert_eq!(body(&settings, &within), r#"{"query":"who \"x\"?","k":20,"within":["a","b"],"ef":100}"#);
    }

    #[test]
    fn accepted_answers() {
        let rank = |rows: &[(&str, f64)]| Ok(rows.iter().map(|(id, score)| ((*id).to_owned(), *score)).collect());
        assert_eq!(read(r#"{"results":[]}"#), rank(&[]));
        let fewer = r#"{"took":3,"results":[{"id":"b","score":2,"text":"more"},{"id":7,"score":-1.5e0}]}"#;
        assert_eq!(
            read(fewer),
            rank(&[("b", 2.0), ("7", -1.5)]),
            "an id may be a whole number; other fields may stand"
        );
        let ties = r#"{"error":null,"results":[{"id":"b","score":1},{"id":"a","score":1},{"id":"c","score":1}]}"#;
        assert_eq!(read(ties), rank(&[("b", 1.0), ("a", 1.0), ("c", 1.0)]), "ties keep the server's order");
    }

    #[test]
    fn wrong_answers_are_named_by_field() {
        for (body, says) in [
            ("{}", "field `results`: found nothing; allowed: a list"),
            ("[]", "field `results`: found nothing"),
            (r#"{"results":null}"#, "field `results`: found null"),
            (r#"{"results":{"a":1}}"#, "field `results`: found {\"a\":1}"),
            (r#"{"results":["a"]}"#, "field `results[0]`: found \"a\"; allowed: an object"),
            (r#"{"results":[{"id":"a","score":1},{"score":1}]}"#, "field `results[1].id`: found nothing"),
            (r#"{"results":[{"id":1.5,"score":1}]}"#, "field `results[0].id`: found 1.5; allowed: the id"),
            (r#"{"results":[{"id":null,"score":1}]}"#, "field `results[0].id`: found null"),
            (r#"{"results":[{"id":"a"}]}"#, "field `results[0].score`: found nothing; allowed: a finite number"),
            (r#"{"results":[{"id":"a","score":"2"}]}"#, "field `results[0].score`: found \"2\""),
            (r#"{"results":[{"id":"a","score":null}]}"#, "field `results[0].score`: found null"),
            (r#"{"results": [{"id": "a", "score": NaN}]}"#, "field `results[..].score`: found NaN"),
            (r#"{"results": [{"id": "a", "score": -Infinity}]}"#, "field `results[..].score`: found -Infinity"),
            (
                r#"{"results":[{"id":"a","score":1},{"id":"b","score":2}]}"#,
                "field `results[1].score`: found 2 after 1; allowed: scores that do not rise",
            ),
            (
                r#"{"results":[{"id":"1","score":2},{"id":1,"score":1}]}"#,
                "field `results[1].id`: found `1`, which is `results[0].id`; allowed: each passage once",
            ),
            (
                r#"{"results":[{"id":1,"score":1},{"id":2,"score":1},{"id":3,"score":1},{"id":4,"score":1}]}"#,
                "field `results`: found 4 of them; allowed: at most `k`, which is 3",
            ),
        ] {
            let (cause, message) = read(body).unwrap_err();
            assert!(message.starts_with(says), "{body}: {message}");
            assert_eq!(cause, AttemptCause::WrongShape, "{body}");
        }
    }

    #[test]
    fn other_bytes_are_no_answer() {
        for body in ["", "<html>502</html>", r#"{"results":[{"id":"a","#, r#"{"results":[{"id":"a","score":1e999}]}"#] {
            let (cause, message) = read(body).unwrap_err();
            assert_eq!(cause, AttemptCause::NotJson, "{body}: {message}");
            assert!(message.starts_with(&format!("an answer of {} bytes that is no JSON", body.len())), "{message}");
        }
        assert_eq!(read(r#"{"error":"the index is loading"}"#).unwrap_err().0, AttemptCause::ErrorInAnswer);
    }
}
