//! Vectors of texts: `/embeddings`.

use super::body::{BodyWriter, RequestBody};
use super::envelope::{EnvelopeFields, ReadingFault, ReplyFacts, read_json};
use crate::answer::CallAnswer;
use crate::call::EmbedCall;
use crate::settings::EndpointSettings;
use crate::verdict::AttemptCause;
use serde::Deserialize;

#[derive(Deserialize)]
struct EmbedReply {
    #[serde(default)]
    data: Option<Vec<EmbedRow>>,
}

#[derive(Deserialize)]
struct EmbedRow {
    index: usize,
    embedding: Vec<f32>,
}

/// The body of an embedding.
pub(super) fn embed_body(settings: &EndpointSettings, call: &EmbedCall) -> RequestBody {
    let mut body = BodyWriter::for_model(&settings.model, call.texts.iter().map(|text| text.len() + 4).sum());
    body.add("input", &call.texts);
    body.add("encoding_format", "float");
    body.finish_body(&settings.body, None)
}

/// A vector for each of `texts` texts, all of one length.
pub(super) fn read_vectors(
    body: &[u8],
    texts: usize,
    model_known: bool,
) -> Result<(CallAnswer, ReplyFacts), ReadingFault> {
    let facts = read_json::<EnvelopeFields>(body)?.into_facts(model_known)?;
    let reply: EmbedReply = read_json(body)?;
    let rows = reply.data.unwrap_or_default();
    let length = rows.first().map_or(0, |row| row.embedding.len());
    let mut vectors = vec![Vec::new(); texts];
    for row in rows {
        let whole = row.embedding.len() == length && row.embedding.iter().all(|number| number.is_finite());
        match vectors.get_mut(row.index) {
            Some(place) if whole && place.is_empty() => *place = row.embedding,
            _ => return Err(wrong_vectors(texts).with_facts(facts)),
        }
    }
    if length == 0 || vectors.iter().any(Vec::is_empty) {
        return Err(wrong_vectors(texts).with_facts(facts));
    }
    Ok((CallAnswer::Embedded(vectors), facts))
}

fn wrong_vectors(texts: usize) -> ReadingFault {
    ReadingFault::new(AttemptCause::WrongShape, format!("not one vector of numbers for each of {texts} texts"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(rows: &str) -> Result<CallAnswer, AttemptCause> {
        let body = format!("{{\"object\":\"list\",\"data\":{rows},\"usage\":{{\"prompt_tokens\":4}}}}");
        read_vectors(body.as_bytes(), 2, false).map(|(answer, _)| answer).map_err(|fault| fault.cause)
    }

    #[test]
    fn vectors_by_index() {
        let rows = r#"[{"index":1,"embedding":[3,4.5]},{"index":0,"embedding":[1e0,-2]}]"#;
        assert_eq!(read(rows).unwrap(), CallAnswer::Embedded(vec![vec![1.0, -2.0], vec![3.0, 4.5]]));
        for wrong in [
            "null",
            "[]",
            r#"[{"index":0,"embedding":[1]}]"#,
            r#"[{"index":0,"embedding":[1]},{"index":0,"embedding":[1]}]"#,
            r#"[{"index":0,"embedding":[1]},{"index":2,"embedding":[1]}]"#,
            r#"[{"index":0,"embedding":[1]},{"index":1,"embedding":[1,2]}]"#,
            r#"[{"index":0,"embedding":[]},{"index":1,"embedding":[]}]"#,
            r#"[{"index":0,"embedding":"AAAA"},{"index":1,"embedding":[1,2]}]"#,
        ] {
            assert_eq!(read(wrong), Err(AttemptCause::WrongShape), "{wrong}");
        }
    }
}
