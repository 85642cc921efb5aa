//! Embeds the queries of a batch together, and counts the usage of the encoder's device.

use crate::error::JobError;
use crate::services::corpus;
use crate::services::lm::LmService;
use crate::services::lm::model::{EngineUsage, Model};
use crate::services::service::refuse_kind;
use crate::services::timing::microseconds;
use crate::services::usage::{UsageCounters, add};
use hopeval_corpus::Corpus;
use hopeval_index::DenseQuery;
use hopeval_lm::request as engine;
use hopeval_methods::request::{EmbedRole, RetrievePayload};
use hopeval_methods::{AnswerWork, FailureKind, PromptReport, Request, RequestPayload, Response};

/// A query with its vector.
pub(in crate::services) struct EmbeddedQuery {
    pub(in crate::services) vector: Vec<f32>,
    /// The work of embedding it.
    pub(in crate::services) work: AnswerWork,
    pub(in crate::services) report: Option<PromptReport>,
    pub(in crate::services) k: usize,
    /// Searches only these passages; all if `None`.
    pub(in crate::services) within: Option<Vec<u32>>,
}

impl EmbeddedQuery {
    pub(super) fn as_dense_query(&self) -> DenseQuery<'_> {
        DenseQuery { vector: &self.vector, k: self.k, within: self.within.as_deref() }
    }
}

/// Embeds the queries of a batch together. Returns, in the batch's order, each query with its vector or a response
/// instead, and the device time in microseconds. The time also goes to `usage`. The device of `worker` embeds.
pub(super) fn embed_queries(
    encoder: &LmService,
    corpus: &Corpus,
    requests: &[&Request],
    usage: Option<&UsageCounters>,
    worker: usize,
) -> (Vec<Result<EmbeddedQuery, Box<Response>>>, u64) {
    let model = match encoder.model() {
        Ok(model) => model,
        Err(error) => {
            return (
                unavailable_responses(requests, &error).into_iter().map(|response| Err(Box::new(response))).collect(),
                0,
            );
        }
    };
    let tokenised: Vec<_> = requests.iter().map(|request| TokenisedQuery::from_request(model, request)).collect();
    let embeddings: Vec<_> = tokenised.iter().flatten().map(|query| query.embedding.clone()).collect();
    let engine = encoder.engine(worker);
    let mut completions = engine.map_or_else(Vec::new, |engine| engine.ask(embeddings)).into_iter();
    let mut batch_usage = BatchUsage::default();
    let embedded = tokenised.into_iter().map(|query| {
        let query = query?;
        let lost = || Box::new(Response::failure(FailureKind::Dropped, "the engine gave no answer"));
        let (response, engine_usage) = model.vector_response(completions.next().ok_or_else(lost)?);
        batch_usage.add(engine_usage);
        query.with_vector(corpus, response)
    });
    let embedded = embedded.collect();
    (embedded, batch_usage.count_usage(usage))
}

/// The responses to a batch if the encoder or the index cannot be opened.
pub(super) fn unavailable_responses(requests: &[&Request], error: &JobError) -> Vec<Response> {
    requests.iter().map(|_| Response::failure(FailureKind::Unavailable, error.to_string())).collect()
}

/// A tokenised query, ready for the encoder.
struct TokenisedQuery<'a> {
    asked: &'a RetrievePayload,
    embedding: engine::Request,
    report: PromptReport,
}

impl<'a> TokenisedQuery<'a> {
    fn from_request(model: &Model, request: &'a Request) -> Result<Self, Box<Response>> {
        let RequestPayload::Retrieve(asked) = &request.ask else { return Err(Box::new(refuse_kind(request))) };
        match model.embedding_request(&asked.query, EmbedRole::Query) {
            Ok((embedding, report)) => Ok(Self { asked, embedding, report }),
            Err(failure) => Err(Box::new(Response::from_failure(failure))),
        }
    }

    /// Adds the vector of the encoder's response.
    fn with_vector(self, corpus: &Corpus, response: Response) -> Result<EmbeddedQuery, Box<Response>> {
        let Self { asked, report, .. } = self;
        let work = response.work;
        match response.vector() {
            Ok(vector) => {
                let within = asked.within.as_ref().map(|within| corpus::index_restriction(corpus, within).ids);
                Ok(EmbeddedQuery { vector, work, report: Some(report), k: asked.k as usize, within })
            }
            Err(failure) => {
                let failed = Response::failure(failure.kind, failure.message);
                Err(Box::new(Response { work, prompt: Some(report), ..failed }))
            }
        }
    }
}

/// The usage of the engine by a batch's embeddings.
#[derive(Default)]
struct BatchUsage {
    device_s: f64,
    /// Seconds of the device with metered energy.
    metered_s: f64,
    energy_j: f64,
    computed_tokens: u64,
}

impl BatchUsage {
    fn add(&mut self, usage: EngineUsage) {
        self.device_s += usage.device_s;
        self.metered_s += usage.metered_s;
        self.energy_j += usage.energy_j;
        self.computed_tokens += usage.computed_tokens;
    }

    /// Adds its figures to `usage`, and returns the device time in microseconds.
    fn count_usage(&self, usage: Option<&UsageCounters>) -> u64 {
        let device_us = microseconds(self.device_s);
        if let Some(usage) = usage {
            // The engine computes equal queries once, so these tokens are fewer than the sum over queries.
            usage.count_shared(self.computed_tokens, self.energy_j, self.metered_s);
            add(&usage.device_us, device_us);
        }
        device_us
    }
}
