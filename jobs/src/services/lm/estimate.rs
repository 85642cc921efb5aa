//! Answers for plans: a request's counted work, and an invented answer for its machine to continue.
//!
//! Nothing is computed. Token counts are those of the real prompts. The model's answer is guessed from common words of
//! texts, so that a machine takes about as many rounds as in a real run.

use super::model::{Model, PreparedRequest};
use hopeval_corpus::Corpus;
use hopeval_lm::request as engine;
use hopeval_methods::response::{ChunkLabels, FinishReason, Generation, TargetScores};
use hopeval_methods::{Answer, AnswerWork, Request, RequestPayload, Response};
use hopeval_pytext::words;
use std::collections::BTreeSet;

impl Model {
    /// The response to a request in plans.
    pub fn estimate(&self, corpus: &Corpus, request: &Request) -> Response {
        let PreparedRequest { requests, builder } = match self.prepare(corpus, request) {
            Ok(asked) => asked,
            Err(response) => return *response,
        };
        let mut work = AnswerWork::default();
        requests.iter().for_each(|request| work += request_work(request));
        let answer = self.invented_answer(corpus, request, &requests);
        Response { prompt: builder.report, ..Response::answer(answer, work) }
    }

    fn invented_answer(&self, corpus: &Corpus, request: &Request, asked: &[engine::Request]) -> Answer {
        match &request.ask {
            RequestPayload::Score(score) => {
                let logits = asked.iter().find_map(common_tokens).unwrap_or_default();
                let row = |&temperature: &f64| (temperature, vec![0.0; logits.len()]);
                let log_sum_exps = score.temperatures.iter().map(row).collect();
                Answer::Score(TargetScores { logits, log_sum_exps, ends: false })
            }
            RequestPayload::Label(label) => {
                let chunk = self.content_text(corpus, &label.chunk).unwrap_or_default();
                let common = common_words(&label.query, &chunk);
                let information = words(&chunk).take(3).collect::<Vec<_>>().join(" ");
                // The first tag continues, the second does not: half of the texts with common words continue.
                let tag_logits =
                    (0..self.tag_count()).map(|tag| if tag == 1 { 0.25 } else { common as f32 / (tag + 1) as f32 });
                Answer::Label(ChunkLabels { information, tag_logits: tag_logits.collect() })
            }
            RequestPayload::Filter(filter) => {
                Answer::Filter([&filter.query[..], &filter.information.join(" ")].join(" "))
            }
            RequestPayload::Rerank(rerank) => {
                let item = |item| common_words(&rerank.query, &self.content_text(corpus, item).unwrap_or_default());
                Answer::Rerank(rerank.items.iter().map(item).collect())
            }
            RequestPayload::Entail(_) => Answer::Entail(0.5),
            RequestPayload::Embed(_) => Answer::Embed(vec![0.0; self.vector_width()]),
            RequestPayload::Generate(_) => Answer::Generate(Generation::new("", FinishReason::Length)),
            // The reader's answer ends a question.
            RequestPayload::Read(_)
            | RequestPayload::Retrieve(_)
            | RequestPayload::Passages(_)
            | RequestPayload::Links(_) => Answer::Read(Vec::new()),
        }
    }
}

/// The work of a request alone. A continuation has its greatest length.
pub(in crate::services) fn request_work(request: &engine::Request) -> AnswerWork {
    let (prompt, written, scored) = match request {
        engine::Request::Score(score) => (score.prompt.len(), 0, score.target.len()),
        engine::Request::Encode(encode) => (encode.ids.len(), 0, 0),
        engine::Request::Generate(generate) => (generate.prompt.len(), generate.max_tokens, 0),
    };
    AnswerWork {
        prompt_tokens: prompt as u64,
        completion_tokens: written as u64,
        scored_tokens: scored as u64,
        operations: 0,
    }
}

/// For each token of a target, 0 if the prompt contains it, else -1.
fn common_tokens(request: &engine::Request) -> Option<Vec<f32>> {
    let engine::Request::Score(score) = request else { return None };
    let known: BTreeSet<u32> = score.prompt.iter().copied().collect();
    Some(score.target.iter().map(|id| if known.contains(id) { 0.0 } else { -1.0 }).collect())
}

/// The share of a query's words in a text.
fn common_words(query: &str, text: &str) -> f64 {
    let known: BTreeSet<&str> = words(text).collect();
    let (common, all) =
        words(query).fold((0, 0), |(common, all), word| (common + usize::from(known.contains(word)), all + 1));
    common as f64 / all.max(1) as f64
}
