//! `kind = "endpoint"`: a language model behind a server with OpenAI's HTTP interface.
//!
//! ```text
//!   request --prompts, calls--> EndpointCall --(hopeval-endpoint, one runtime a process)--> CallEnd
//!      |                                                                                       |
//!      +-- requests of one payload with several draws become one call              answers: responses --> tickets
//! ```
//!
//! All requests for an endpoint go to one worker ([`super::key::request_bucket`]), so a run has one owner of its
//! limits, its prices and its key. The owner is a worker of process 0: other processes need no key.
//!
//! | module | content |
//! | --- | --- |
//! | `open` | the service: settings, tokenizer, client |
//! | `prompts`, `rough` | prompts in parts, put together by the model's tokenizer, or by a stated rule without it |
//! | `calls` | a request's call, or its refusal |
//! | `answers` | a call's responses, with its measured facts |
//! | `rankings` | the calls and answers of retrievers ([`super::http_retriever`]) |
//! | `serve` | the owner's thread |
//! | `batch`, `desk` | the same without a network: requests as batch files, answers from files of results |
//! | `estimate` | responses for plans: they cost nothing |
//!
//! A fault of the endpoint is no answer: it ends the run ([`crate::JobError::EndpointFault`]), and nothing is
//! journalled for it. A failure of one call depends on the server's settings, which no fingerprint knows, so it holds
//! for its run.

mod answers;
mod batch;
mod calls;
mod desk;
mod estimate;
mod open;
mod part_text;
mod prompts;
mod rankings;
mod rough;
mod serve;

use self::answers::AnswerReader;
use self::desk::BatchDesk;
pub(super) use self::open::EndpointService;
use super::service::{
    Availability, OpeningContext, OtherSettings, Service, ServiceSettings, SettingsError, WaitingBatch,
};
use super::thread::{ServiceTask, ServiceThread};
use crate::cache::ProgressReporter;
use crate::error::JobError;
use crate::mode::TimingMode;
use hopeval_corpus::Corpus;
use hopeval_endpoint::{AnswerKind, EndpointError, EndpointHost, EndpointSettings, PriceSettings};
use hopeval_methods::{FailureKind, Request, RequestKind, Response};
use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, PoisonError};

impl ServiceSettings for EndpointSettings {
    fn resolve_paths(&mut self, base: &Path) {
        for path in [&mut self.key_file, &mut self.tokenizer, &mut self.batch].into_iter().flatten() {
            *path = base.join(&*path);
        }
    }

    fn check(&self, _: OtherSettings<'_>) -> Result<(), SettingsError> {
        Ok(EndpointSettings::check(self)?)
    }

    fn may_answer(&self, kind: RequestKind) -> bool {
        self.answers.iter().any(|answer| request_kind(*answer) == kind)
    }

    fn model_name(&self) -> Option<&str> {
        Some(&self.model)
    }

    fn has_model(&self) -> bool {
        true
    }

    fn has_one_owner(&self) -> bool {
        true
    }

    fn is_paid(&self) -> bool {
        true
    }

    fn price(&self) -> Option<&PriceSettings> {
        self.price.as_ref()
    }

    fn open(&self, opening: &OpeningContext<'_>) -> Result<Arc<dyn Service>, JobError> {
        if self.batch.is_some() && opening.mode == TimingMode::Latency {
            let allowed = "the mode `throughput`: answers of batch files come in no time of their own";
            let (key, found) = ("batch".to_owned(), "set in the mode `latency`".to_owned());
            let source = EndpointError::Setting { key, found, allowed: allowed.to_owned() };
            return Err(JobError::Endpoint { service: opening.name.to_owned(), source });
        }
        Ok(Arc::new(EndpointService::new(opening.name, self.clone(), opening.fragments.clone())))
    }
}

/// The kind of request behind a kind of answer.
fn request_kind(answer: AnswerKind) -> RequestKind {
    match answer {
        AnswerKind::Generate => RequestKind::Generate,
        AnswerKind::Score => RequestKind::Score,
        AnswerKind::Embed => RequestKind::Embed,
        AnswerKind::Rerank => RequestKind::Rerank,
        AnswerKind::Entail => RequestKind::Entail,
        AnswerKind::Retrieve => RequestKind::Retrieve,
    }
}

impl Service for EndpointService {
    /// Asks the server nothing: a plan and a table cost nothing.
    fn probe(&self, _: &Corpus, _: ProgressReporter<'_>) -> Result<Availability, JobError> {
        let failed = |source: EndpointError| JobError::Endpoint { service: self.name.clone(), source };
        let mut identity = self.settings.identity().map_err(failed)?;
        identity.extend(self.tokenizer()?.map(|(_, digest)| format!("tokenizer={digest}")));
        let answers = self.settings.answers.iter().map(|answer| request_kind(*answer)).collect();
        Ok(Availability { answers, identity, index: None, abilities: self.abilities() })
    }

    fn serve(&self, thread: &ServiceThread, tasks: &Receiver<ServiceTask>) {
        match &self.settings.batch {
            Some(root) => batch::serve_tasks(thread, self, root, tasks),
            None => serve::serve_tasks(thread, self, tasks),
        }
    }

    fn close_batches(&self) -> Result<Option<WaitingBatch>, JobError> {
        let desk = self.desk.lock().unwrap_or_else(PoisonError::into_inner).take();
        desk.map(BatchDesk::close).transpose()
    }

    /// Calls the server, and pays for it. Transcripts and plans do not come here.
    fn answer(&self, corpus: &Corpus, request: &Request) -> Response {
        let call = match self.prepare_call(corpus, request) {
            Ok(call) => call,
            Err(response) => return *response,
        };
        let (sender, receiver) = sync_channel(2);
        let fault = sender.clone();
        let host = || EndpointHost::open_host(move |fault_found| drop(fault.try_send(Err(fault_found.to_string()))));
        let endpoint = match self.endpoint(host) {
            Ok(endpoint) => endpoint,
            Err(error) => return Response::failure(FailureKind::Unavailable, error.to_string()),
        };
        endpoint.call(call.call, Box::new(move |end| drop(sender.try_send(Ok(end)))));
        match receiver.recv() {
            Ok(Ok(end)) => AnswerReader::of_settings(&self.settings)
                .read_responses(corpus, call.report.as_ref(), &[request], end)
                .responses
                .remove(0),
            Ok(Err(message)) => Response::failure(FailureKind::Unavailable, message),
            Err(_) => Response::failure(FailureKind::Unavailable, "the endpoint has an earlier fault"),
        }
    }

    fn estimate(&self, corpus: &Corpus, request: &Request) -> Response {
        self.estimate_response(corpus, request)
    }
}

#[cfg(test)]
mod tests {
    use crate::services::conformance::{Effect, ServiceKind, check_kind, settings, tiny_model};
    use hopeval_methods::request::{EmbedPayload, EmbedRole, GeneratePayload, Sampling, TextFormat};
    use hopeval_methods::{Content, Prompt, RequestPayload};
    use hopeval_simulated_llm::{SimulatedServer, SimulationSettings};

    fn generate(sampling: Sampling) -> RequestPayload {
        let (prompt, format) = (Prompt::text("Passages: none. Question: who?"), TextFormat::Text);
        GeneratePayload { prompt, max_tokens: 20, stop: Vec::new(), sampling, format, logprobs: false }.into()
    }

    #[test]
    fn endpoint_conforms() {
        let server = SimulatedServer::start(SimulationSettings::default()).expect("a simulated server");
        let dir = tempfile::tempdir().expect("a temporary folder");
        // Azure's dialect, since `api_version` is for it alone.
        let table = format!(
            "model = \"simulated-llm\"\nbase_url = \"{}\"\nanswers = [\"generate\", \"embed\"]\ndialect = \"azure\"",
            server.base_url()
        );
        let embed = EmbedPayload { text: Content::Text("bridges".into()), role: EmbedRole::Query };
        let asks = vec![generate(Sampling::Greedy), generate(Sampling::Server), embed.into()];
        let mut kind = ServiceKind { kind: "endpoint", table, asks, ..ServiceKind::default() };
        let tokenizer = format!("tokenizer = {:?}", tiny_model("gpt2", dir.path()));
        kind.settings = settings(
            Effect::Answers,
            &[
                "model = \"other\"",
                "base_url = \"http://127.0.0.1:9/v1\"",
                "api = \"completions\"",
                "dialect = \"vllm\"",
                "identity = \"a model\"",
                "revision = \"2\"",
                "api_version = \"2026-01-01\"",
                "score_by = \"echo\"",
                "entail_by = \"generate\"",
                "reasoning = \"keep\"",
                "body = { top_k = 3 }",
                "headers = { x-team = \"a\" }",
                "context_tokens = 100",
                "seed = 4",
                &tokenizer,
            ],
        );
        // Keys, limits, times and prices change no answer.
        kind.settings.extend(settings(
            Effect::None,
            &[
                "answers = [\"generate\"]",
                "key_env = \"A_KEY\"",
                "key_file = \"key\"",
                "stream = true",
                "concurrency = 3",
                "streams_per_connection = 8",
                "requests_per_minute = 60.0",
                "tokens_per_minute = 6000.0",
                "call_timeout_s = 5.0",
                "stall_s = 5.0",
                "connect_timeout_s = 5.0",
                "patience_s = 5.0",
                "attempts = 3",
                "first_pause_s = 0.1",
                "longest_pause_s = 40.0",
                "price = { input = 1.0 }",
                "batch = \"batches\"",
            ],
        ));
        check_kind(&kind);
    }
}
