//! Relevance of documents to a query: `/rerank` of Cohere's, Jina's and vLLM's form, and of Text Embeddings Inference.

use super::body::{BodyWriter, RequestBody};
use super::envelope::{EnvelopeFields, ReadingFault, ReplyFacts, read_json};
use crate::answer::CallAnswer;
use crate::call::RerankCall;
use crate::dialect::RerankForm;
use crate::settings::EndpointSettings;
use crate::verdict::AttemptCause;
use serde::Deserialize;

/// An answer with its rows below a name.
#[derive(Deserialize)]
struct RerankReply {
    #[serde(default)]
    results: Option<Vec<RelevanceRow>>,
}

#[derive(Deserialize)]
struct RelevanceRow {
    index: usize,
    #[serde(alias = "score")]
    relevance_score: f64,
}

/// The body of a ranking.
pub(super) fn rerank_body(settings: &EndpointSettings, call: &RerankCall) -> RequestBody {
    let room = call.documents.iter().map(|text| text.len() + 4).sum::<usize>() + call.query.len();
    let mut body = BodyWriter::for_model(&settings.model, room);
    body.add("query", &call.query);
    let name = if settings.facts().reranks == RerankForm::RootTexts { "texts" } else { "documents" };
    body.add(name, &call.documents);
    if let Some((field, value)) = settings.facts().own_relevance
        && !settings.body.contains_key(field)
    {
        body.add(field, &value);
    }
    body.finish_body(&settings.body, None)
}

/// The relevance of each of `documents` documents, in their order.
pub(super) fn read_relevance(
    body: &[u8],
    documents: usize,
    model_known: bool,
) -> Result<(CallAnswer, ReplyFacts), ReadingFault> {
    // Text Embeddings Inference and SGLang send the rows alone.
    let (rows, facts) = if body.first() == Some(&b'[') {
        (read_json::<Vec<RelevanceRow>>(body)?, ReplyFacts::default())
    } else {
        let facts = read_json::<EnvelopeFields>(body)?.into_facts(model_known)?;
        (read_json::<RerankReply>(body)?.results.unwrap_or_default(), facts)
    };
    let mut relevance = vec![f64::NAN; documents];
    for row in rows {
        if let Some(place) = relevance.get_mut(row.index) {
            *place = row.relevance_score;
        }
    }
    if relevance.iter().any(|score| !score.is_finite()) {
        let message = format!("not one relevance for each of {documents} documents");
        return Err(ReadingFault::new(AttemptCause::WrongShape, message).with_facts(facts));
    }
    Ok((CallAnswer::Reranked(relevance), facts))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::EndpointDialect;

    #[test]
    fn rows_below_results_or_alone() {
        for body in [
            r#"{"id":"r","results":[{"index":1,"relevance_score":0.9,"document":{"text":"b"}},
                {"index":0,"relevance_score":-2}]}"#,
            r#"[{"index":1,"score":0.9},{"index":0,"score":-2}]"#,
            r#"[{"score":0.9,"document":"b","index":1},{"score":-2,"document":"a","index":0}]"#,
        ] {
            let (answer, _) = read_relevance(body.as_bytes(), 2, false).unwrap();
            assert_eq!(answer, CallAnswer::Reranked(vec![-2.0, 0.9]), "{body}");
        }
        for (body, cause) in [
            (r#"{"results":[{"index":1,"relevance_score":0.9}]}"#, AttemptCause::WrongShape),
            (r#"{"results":null}"#, AttemptCause::WrongShape),
            (r#"{"error":{"message":"x"}}"#, AttemptCause::ErrorInAnswer),
            ("<html>", AttemptCause::NotJson),
        ] {
            assert_eq!(read_relevance(body.as_bytes(), 2, false).unwrap_err().cause, cause, "{body}");
        }
    }

    #[test]
    fn documents_are_texts_elsewhere() {
        let call = RerankCall { query: "q".to_owned(), documents: vec!["a".to_owned()] };
        let mut settings = EndpointSettings::new("m", "http://a/v1");
        settings.dialect = EndpointDialect::Vllm;
        let body = |settings: &EndpointSettings| rerank_body(settings, &call).chunks_for(1, 0).to_bytes();
        assert_eq!(body(&settings), r#"{"model":"m","query":"q","documents":["a"],"use_activation":false}"#);
        settings.body.insert("use_activation".to_owned(), true.into());
        assert_eq!(body(&settings), r#"{"model":"m","query":"q","documents":["a"],"use_activation":true}"#);
        settings.body.clear();
        settings.dialect = EndpointDialect::Tei;
        assert_eq!(body(&settings), r#"{"model":"m","query":"q","texts":["a"],"raw_scores":true}"#);
        settings.dialect = EndpointDialect::Sglang;
        assert_eq!(body(&settings), r#"{"model":"m","query":"q","documents":["a"]}"#);
    }
}
