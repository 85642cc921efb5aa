//! `Embed`: a vector of a text, pooled and scaled according to the settings. Dense retrieval uses the same functions.

use super::model::{EngineUsage, Model, PreparedRequest, ResponseBuilder, encoded_answer};
use super::prompts::tokenizer_failure;
use hopeval_corpus::Corpus;
use hopeval_lm::engine::Completion;
use hopeval_lm::request as engine;
use hopeval_methods::request::{EmbedPayload, EmbedRole};
use hopeval_methods::{Answer, Failure, PromptReport, Response};

impl Model {
    pub(super) fn embed(&self, corpus: &Corpus, asked: &EmbedPayload) -> Result<PreparedRequest, Failure> {
        let (request, report) = self.embedding_request(&self.content_text(corpus, &asked.text)?, asked.role)?;
        Ok(PreparedRequest { requests: vec![request], builder: self.vector_builder(Some(report)) })
    }

    /// Dimensions of a vector.
    pub(in crate::services) fn vector_width(&self) -> usize {
        self.session.engine.abilities().sizes.hidden
    }

    /// The request to the engine for a text's vector, and the report on the text.
    pub(in crate::services) fn embedding_request(
        &self,
        text: &str,
        role: EmbedRole,
    ) -> Result<(engine::Request, PromptReport), Failure> {
        let prefix = match role {
            EmbedRole::Query => &self.settings.query_prefix,
            EmbedRole::Passage => &self.settings.passage_prefix,
        };
        let text = [prefix, text].concat();
        let encoded = self.tokenizer.encode(&text, true).map_err(|error| tokenizer_failure(&error))?;
        // Special tokens stay, as transformers' truncation leaves them.
        let over = encoded.ids.len().saturating_sub(self.length_limit(self.settings.max_tokens));
        let cut = encoded.second.end - over.min(encoded.second.len())..encoded.second.end;
        let report = PromptReport::of_texts(encoded.ids.len() - cut.len(), [cut.len()]);
        let kept = |values: Vec<u32>| {
            let left = values.into_iter().enumerate().filter(|(at, _)| !cut.contains(at));
            left.map(|(_, value)| value).collect::<Vec<_>>()
        };
        let request = engine::EncodeRequest {
            ids: kept(encoded.ids).into(),
            type_ids: self.type_ids(kept(encoded.type_ids)),
            want: self.settings.pooling.want(),
        };
        Ok((engine::Request::Encode(request), report))
    }

    /// The response to an embedded text, and its usage of the engine.
    pub(in crate::services) fn vector_response(&self, completion: Completion) -> (Response, EngineUsage) {
        self.vector_builder(None).build_response(vec![completion])
    }

    fn vector_builder(&self, report: Option<PromptReport>) -> ResponseBuilder {
        let normalize = self.settings.normalize;
        ResponseBuilder::for_single_request(report, move |answer| {
            let mut vector = encoded_answer(answer).embedding;
            if normalize {
                normalise(&mut vector);
            }
            Ok(Answer::Embed(vector))
        })
    }
}

/// Divides by the Euclidean length, at least 1e-12 as in PyTorch's `normalize`. Sums in `f64`, in order.
pub(in crate::services) fn normalise(vector: &mut [f32]) {
    let length = vector.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt().max(1e-12);
    vector.iter_mut().for_each(|x| *x = (f64::from(*x) / length) as f32);
}
