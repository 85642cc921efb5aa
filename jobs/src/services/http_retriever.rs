//! `kind = "http_retriever"`: a retriever of any make behind a server that speaks hopeval's own HTTP contract.
//!
//! ```text
//!   request --prepare_call--> {"query", "k"} --(hopeval-endpoint)--> {"results": [{"id", "score"}, ..]} --> ranking
//! ```
//!
//! The client, its limits, its retries and its verdicts are those of [`super::endpoint`], and so is the owner's thread.
//! This file has the settings, and what can change a ranking: the name of the index, `body` and `headers`. The address
//! is not part of it. `ops/docs/retrievers.md` has the contract.

use super::endpoint::EndpointService;
use super::service::{Availability, OpeningContext, OtherSettings, Service, ServiceSettings, SettingsError};
use super::thread::{ServiceTask, ServiceThread};
use crate::bad_value::{BadValue, ensure};
use crate::cache::ProgressReporter;
use crate::error::JobError;
use hopeval_corpus::Corpus;
use hopeval_endpoint::settings::{
    default_connect_timeout, default_first_pause, default_longest_pause, default_patience, one_or_many,
};
use hopeval_endpoint::{EndpointError, EndpointSettings};
use hopeval_methods::{Request, RequestKind, Response};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Receiver;

/// Version of the contract. It rises when an answer is read in another way.
const CONTRACT: &str = "http_retriever 1";

/// Fields of a request that belong to the contract: `body` must not set them.
const OWN_FIELDS: [&str; 3] = ["query", "k", "within"];

/// The keys of a `kind = "http_retriever"` service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpRetrieverSettings {
    /// The address that takes the requests, or those of several servers with the same index.
    #[serde(deserialize_with = "one_or_many")]
    pub url: Vec<String>,
    /// The name and version of the index: everything at the server that can change a ranking.
    pub index: String,
    /// The variable with the server's key, which is sent as `Authorization: Bearer KEY`.
    #[serde(default)]
    pub key_env: Option<String>,
    /// A file with the key.
    #[serde(default)]
    pub key_file: Option<PathBuf>,
    /// Further fields of every request, as JSON. They are part of the fingerprint.
    #[serde(default)]
    pub body: Map<String, Value>,
    /// Further headers, none of them secret. They are part of the fingerprint.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// The most requests in flight, over all addresses.
    #[serde(default = "default_concurrency")]
    pub concurrency: usize,
    /// The server's limit of requests a minute.
    #[serde(default)]
    pub requests_per_minute: Option<f64>,
    /// The longest time of a request at the server over all its attempts, in seconds.
    #[serde(default = "default_call_timeout")]
    pub call_timeout_s: f64,
    /// The longest time without a byte, in seconds.
    #[serde(default = "default_stall")]
    pub stall_s: f64,
    /// The longest time to connect, in seconds.
    #[serde(default = "default_connect_timeout")]
    pub connect_timeout_s: f64,
    /// The longest outage that is waited out, in seconds.
    #[serde(default = "default_patience")]
    pub patience_s: f64,
    /// The most attempts of a request that fail while the server answers others.
    #[serde(default = "default_attempts")]
    pub attempts: u32,
    /// The first pause before another attempt, in seconds; it doubles each time.
    #[serde(default = "default_first_pause")]
    pub first_pause_s: f64,
    /// The longest pause, in seconds, unless the server names a longer one.
    #[serde(default = "default_longest_pause")]
    pub longest_pause_s: f64,
}

fn default_concurrency() -> usize {
    16
}

fn default_call_timeout() -> f64 {
    120.0
}

fn default_stall() -> f64 {
    60.0
}

fn default_attempts() -> u32 {
    4
}

impl HttpRetrieverSettings {
    /// The settings of the client.
    fn endpoint_settings(&self) -> EndpointSettings {
        EndpointSettings {
            key_env: self.key_env.clone(),
            key_file: self.key_file.clone(),
            body: self.body.clone(),
            headers: self.headers.clone(),
            concurrency: self.concurrency,
            requests_per_minute: self.requests_per_minute,
            call_timeout_s: self.call_timeout_s,
            stall_s: Some(self.stall_s),
            connect_timeout_s: self.connect_timeout_s,
            patience_s: self.patience_s,
            attempts: self.attempts,
            first_pause_s: self.first_pause_s,
            longest_pause_s: self.longest_pause_s,
            ..EndpointSettings::for_retriever(&self.index, self.url.clone())
        }
    }
}

/// A refusal of the client's settings, under the key of this kind.
fn under_own_key(error: EndpointError) -> EndpointError {
    let EndpointError::Setting { key, found, allowed } = error else { return error };
    let (key, allowed) = match key.as_str() {
        "model" => ("index".to_owned(), "the name and version of the server's index".to_owned()),
        "base_url" => ("url".to_owned(), "http://HOST:PORT/PATH and https://HOST/PATH, each once".to_owned()),
        _ => (key, allowed),
    };
    EndpointError::Setting { key, found, allowed }
}

impl ServiceSettings for HttpRetrieverSettings {
    fn resolve_paths(&mut self, base: &Path) {
        if let Some(path) = &mut self.key_file {
            *path = base.join(&*path);
        }
    }

    fn check(&self, _: OtherSettings<'_>) -> Result<(), SettingsError> {
        ensure(!self.url.is_empty(), || BadValue::new("url", "empty", "the address that takes the requests"))?;
        if let Some(field) = self.body.keys().find(|field| OWN_FIELDS.contains(&field.as_str())) {
            let allowed = "fields that the requests do not write themselves";
            return Err(BadValue::new(format!("body.{field}"), "set", allowed).into());
        }
        Ok(self.endpoint_settings().check().map_err(under_own_key)?)
    }

    fn may_answer(&self, kind: RequestKind) -> bool {
        kind == RequestKind::Retrieve
    }

    /// A server is slow to ask again, and cannot be reached from everywhere, like a model.
    fn has_model(&self) -> bool {
        true
    }

    fn has_one_owner(&self) -> bool {
        true
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn open(&self, opening: &OpeningContext<'_>) -> Result<Arc<dyn Service>, JobError> {
        let settings = self.endpoint_settings();
        Ok(Arc::new(HttpRetriever(EndpointService::new(opening.name, settings, opening.fragments.clone()))))
    }
}

/// The opened service.
struct HttpRetriever(EndpointService);

impl Service for HttpRetriever {
    /// Asks the server nothing: a plan and a table cost nothing.
    fn probe(&self, corpus: &Corpus, report: ProgressReporter<'_>) -> Result<Availability, JobError> {
        let mut availability = self.0.probe(corpus, report)?;
        availability.identity.push(CONTRACT.to_owned());
        Ok(availability)
    }

    fn serve(&self, thread: &ServiceThread, tasks: &Receiver<ServiceTask>) {
        self.0.serve(thread, tasks);
    }

    fn answer(&self, corpus: &Corpus, request: &Request) -> Response {
        self.0.answer(corpus, request)
    }

    fn estimate(&self, corpus: &Corpus, request: &Request) -> Response {
        self.0.estimate(corpus, request)
    }
}

#[cfg(test)]
#[path = "../../../tests/support/ranking_server.rs"]
mod ranking_server;

#[cfg(test)]
mod tests {
    use super::ranking_server::{RankingServer, ranking, reply};
    use super::*;
    use crate::services::conformance::{self, Effect, ServiceKind, check_kind, settings};
    use crate::services::fragments::FragmentTexts;
    use hopeval_methods::FailureKind;
    use hopeval_methods::request::{PassageId, RetrievePayload, Statistics};

    /// Ranks the passages 7 to 0, or those of `within`, as many as are wanted.
    fn counting_server() -> RankingServer {
        RankingServer::start(|request, _| {
            let allowed = |id: &&str| match request.body["within"].as_array() {
                Some(within) => within.iter().any(|allowed| allowed == *id),
                None => true,
            };
            let ids = ["7", "6", "5", "4", "3", "2", "1", "0"].into_iter().filter(allowed);
            let wanted = request.body["k"].as_u64().expect("a request has k") as usize;
            ranking(ids.take(wanted).map(|id| (id, id.parse().expect("a digit"))))
        })
    }

    #[test]
    fn http_retriever_conforms() {
        let server = counting_server();
        let table = format!("url = {:?}\nindex = \"towns 1\"", server.url);
        let mut cases = settings(
            Effect::Answers,
            &["index = \"towns 2\"", "body = { ef_search = 100 }", "headers = { x-index = \"towns\" }"],
        );
        // The address, keys, limits and times change no ranking.
        cases.extend(settings(
            Effect::None,
            &[
                "url = [\"http://127.0.0.1:9/search\", \"http://127.0.0.1:10/search\"]",
                "key_env = \"A_KEY\"",
                "key_file = \"key\"",
                "concurrency = 3",
                "requests_per_minute = 60.0",
                "call_timeout_s = 5.0",
                "stall_s = 5.0",
                "connect_timeout_s = 5.0",
                "patience_s = 5.0",
                "attempts = 3",
                "first_pause_s = 0.1",
                "longest_pause_s = 40.0",
            ],
        ));
        let within = |ids: Vec<u32>| ids.into_iter().map(PassageId).collect();
        check_kind(&ServiceKind {
            kind: "http_retriever",
            table,
            asks: vec![
                RetrievePayload::new("bridges", 2).into(),
                RetrievePayload::new("bridges", 20).into(),
                RetrievePayload::new("bridges", 3).within(within(vec![1, 5]), Statistics::Corpus).into(),
                RetrievePayload::new("bridges", 3).within(within(Vec::new()), Statistics::Corpus).into(),
            ],
            settings: cases,
            ..ServiceKind::default()
        });
    }

    fn opened(url: &str, more: &str) -> HttpRetriever {
        let table = format!("url = {url:?}\nindex = \"towns\"\nfirst_pause_s = 0.01\nattempts = 2\n{more}");
        let settings: HttpRetrieverSettings = toml::from_str(&table).expect("a table");
        HttpRetriever(EndpointService::new("http", settings.endpoint_settings(), FragmentTexts::default()))
    }

    fn found(service: &HttpRetriever, corpus: &Corpus, ask: RetrievePayload) -> Result<Vec<(u32, f64)>, String> {
        let response = service.answer(corpus, &Request::new(&"http".into(), ask));
        let run_only = response.run_only;
        let hits = response.hits().map(|hits| hits.iter().map(|hit| (hit.passage.0, hit.score)).collect());
        hits.map_err(|failure| {
            assert!(run_only || failure.kind == FailureKind::Refused, "{failure:?} holds for its run alone");
            failure.message
        })
    }

    #[test]
    fn rankings_are_those_of_the_server() {
        let dir = tempfile::tempdir().expect("a folder");
        let corpus = conformance::corpus(dir.path());
        let server = counting_server();
        let service = opened(&server.url, "");
        let ask = || RetrievePayload::new("bridges", 2);
        assert_eq!(found(&service, &corpus, ask()), Ok(vec![(7, 7.0), (6, 6.0)]));
        let within = vec![PassageId(5), PassageId(1)];
        assert_eq!(
            found(&service, &corpus, ask().within(within.clone(), Statistics::Corpus)),
            Ok(vec![(5, 5.0), (1, 1.0)])
        );
        let refused = found(&service, &corpus, ask().within(within, Statistics::Restriction)).unwrap_err();
        assert!(refused.contains("`statistics = \"corpus\"`"), "{refused}");
        let requests = server.requests();
        assert!(requests.iter().all(|request| request.head.contains("content-type: application/json")), "{requests:?}");
        let bodies: Vec<String> = requests.iter().map(|request| request.body.to_string()).collect();
        assert_eq!(
            bodies,
            [r#"{"k":2,"query":"bridges"}"#, r#"{"k":2,"query":"bridges","within":["1","5"]}"#],
            "what is refused is not sent"
        );
    }

    #[test]
    fn wrong_passages_are_named_by_field() {
        let dir = tempfile::tempdir().expect("a folder");
        let corpus = conformance::corpus(dir.path());
        let wrong = |body: &'static str, within: bool| {
            let server = RankingServer::start(move |_, _| reply("200 OK", body));
            let ask = RetrievePayload::new("bridges", 2);
            let ask = if within { ask.within(vec![PassageId(1)], Statistics::Corpus) } else { ask };
            let message = found(&opened(&server.url, ""), &corpus, ask).unwrap_err();
            (message, server.requests().len())
        };
        let unknown = r#"{"results":[{"id":"1","score":2},{"id":"town 9","score":1}]}"#;
        let says = "field `results[1].id`: found `town 9`; allowed: ids of the corpus's passages";
        assert_eq!(wrong(unknown, false), (says.to_owned(), 1), "another attempt would not help");
        let outside = r#"{"results":[{"id":"3","score":2}]}"#;
        let says = "field `results[0].id`: found `3`; allowed: ids of the request's `within`";
        assert_eq!(wrong(outside, true), (says.to_owned(), 1));
        let (message, attempts) = wrong(r#"{"results":[{"id":"1","score":"high"}]}"#, false);
        assert!(message.contains("field `results[0].score`: found \"high\"") && attempts == 2, "{message}");
    }

    #[test]
    fn wrong_settings_are_named_by_their_own_keys() {
        let refused = |table: &str| {
            let settings: HttpRetrieverSettings = toml::from_str(table).expect("a table");
            match settings.check(&|_| None) {
                Err(SettingsError::Value(bad)) => format!("`{}` is {}", bad.key, bad.found),
                Err(SettingsError::Endpoint(error)) => error.to_string(),
                other => panic!("{table}: {other:?}"),
            }
        };
        for (table, says) in [
            ("url = []\nindex = \"a\"", "`url` is empty"),
            ("url = \"ftp://a\"\nindex = \"a\"", "`url` is `ftp://a`: it does not begin with http:// or https://"),
            ("url = \"http://a?key=b\"\nindex = \"a\"", "`url` is"),
            ("url = [\"http://a\", \"http://a/\"]\nindex = \"a\"", "`url` is http://a/ twice; allowed: http://HOST"),
            ("url = \"http://a\"\nindex = \" \"", "`index` is empty; allowed: the name and version"),
            ("url = \"http://a\"\nindex = \"a\"\nbody = { k = 3 }", "`body.k` is set"),
            ("url = \"http://a\"\nindex = \"a\"\nbody = { api_key = \"s\" }", "`body.api_key` is set"),
            (
                "url = \"http://a\"\nindex = \"a\"\nheaders = { Authorization = \"s\" }",
                "`headers.Authorization` is set",
            ),
            ("url = \"http://a\"\nindex = \"a\"\nattempts = 0", "`attempts` is 0; allowed: 1 to 1000"),
            ("url = \"http://a\"\nindex = \"a\"\nstall_s = 0.0", "`stall_s` is 0"),
        ] {
            let error = refused(table);
            assert!(error.starts_with(says), "{table}: {error}");
        }
    }
}
