//! The server: a thread with a runtime of its own, the routes, and the control over HTTP.

use std::fs::File;
use std::future::IntoFuture;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, DefaultBodyLimit, State};
use axum::http::{HeaderMap, HeaderValue, Response, Uri, header};
use axum::routing::{get, post};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::ledger::{LogEntry, SimulationSummary};
use crate::port::{ConnectionSwitch, SimulatedPort};
use crate::refusal::CallRefusal;
use crate::reply::ReplyKind;
use crate::service::{SharedService, has_key, serve_call};
use crate::settings::{SettingsError, SimulationSettings};
use crate::tokens::{text_of, token_bytes, token_numbers};
use crate::wire::{DetokenizeBody, TokenizeBody, chat_text};

/// A running simulated server. It stops when it is dropped; open calls are cut off.
pub struct SimulatedServer {
    address: SocketAddr,
    service: Arc<SharedService>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// The largest body, in bytes.
const LARGEST_BODY: usize = 64 << 20;
/// The pause between two looks at the schedule.
const SCHEDULE_STEP: Duration = Duration::from_millis(20);

impl SimulatedServer {
    /// Starts a server on a free port of the loopback interface, without a log file.
    ///
    /// # Errors
    /// If a setting is out of range, or there is no port or thread.
    pub fn start(settings: SimulationSettings) -> io::Result<Self> {
        Self::start_at(settings, SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), None)
    }

    /// Starts a server at an address (port 0: a free one) that appends its log to `log`, a line of JSON for each call.
    ///
    /// # Errors
    /// If a setting is out of range, the address is taken, or there is no thread.
    pub fn start_at(settings: SimulationSettings, address: SocketAddr, log: Option<File>) -> io::Result<Self> {
        settings.check().map_err(io::Error::other)?;
        let service = Arc::new(SharedService::new(settings, log));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let port = {
            let _entered = runtime.enter();
            SimulatedPort::open(address, Arc::clone(&service.gate))?
        };
        let address = port.address();
        let (stop, stopped) = oneshot::channel();
        let shared = Arc::clone(&service);
        let thread = std::thread::Builder::new().name("simulated-llm".to_owned()).spawn(move || {
            runtime.block_on(async {
                let routes = routes(Arc::clone(&shared)).into_make_service_with_connect_info::<ConnectionSwitch>();
                tokio::select! {
                    // It runs for ever; only the other two can end it.
                    _ = axum::serve(port, routes).into_future() => {}
                    () = follow_schedule(&shared) => {}
                    _ = stopped => {}
                }
            });
            // Open calls end here, and are noted as such.
            drop(runtime);
        })?;
        Ok(Self { address, service, stop: Some(stop), thread: Some(thread) })
    }

    /// The address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The base URL for clients, as in `http://127.0.0.1:4100/v1`.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// The log's entries that are in memory, in the order in which the calls ended.
    pub fn log(&self) -> Vec<LogEntry> {
        self.service.lock_core().ledger.entries().cloned().collect()
    }

    /// The sums of all calls.
    pub fn summary(&self) -> SimulationSummary {
        summary_of(&self.service)
    }

    /// The settings in force.
    pub fn settings(&self) -> SimulationSettings {
        SimulationSettings::clone(&self.service.lock_core().settings)
    }

    /// Puts other settings in force. The schedule of faults begins anew.
    ///
    /// # Errors
    /// If a setting is out of range.
    pub fn change(&self, settings: SimulationSettings) -> Result<(), SettingsError> {
        settings.check()?;
        self.service.change_settings(settings);
        Ok(())
    }
}

impl Drop for SimulatedServer {
    fn drop(&mut self) {
        // The thread may have ended by itself.
        let _ = self.stop.take().map(|stop| stop.send(()));
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Closes the port as the schedule says, also while no call comes.
async fn follow_schedule(service: &SharedService) {
    loop {
        if let Some(until) = service.scheduled_closing() {
            service.gate.close_until(until);
        }
        tokio::time::sleep(SCHEDULE_STEP).await;
    }
}

type Shared = State<Arc<SharedService>>;

fn routes(service: Arc<SharedService>) -> Router {
    let call = |kind: ReplyKind| {
        post(
            move |State(service): Shared,
                  ConnectInfo(switch): ConnectInfo<ConnectionSwitch>,
                  uri: Uri,
                  headers: HeaderMap,
                  body: Bytes| async move {
                serve_call(service, kind, uri.path(), &headers, &body, switch).await
            },
        )
    };
    Router::new()
        .route("/v1/chat/completions", call(ReplyKind::Chat))
        .route("/v1/completions", call(ReplyKind::Completion))
        .route("/v1/embeddings", call(ReplyKind::Embeddings))
        .route("/v1/rerank", call(ReplyKind::Rerank))
        .route("/rerank", call(ReplyKind::Rerank))
        .route("/v1/models", get(list_models))
        .route("/tokenize", post(tokenize))
        .route("/detokenize", post(detokenize))
        .route("/health", get(|| async { json_response(&json!({"status": "ok", "simulated": true})) }))
        .route("/version", get(|| async { json_response(&json!({"version": "simulated"})) }))
        .route("/simulation/summary", get(show_summary))
        .route("/simulation/log", get(show_log))
        .route("/simulation/settings", get(show_settings).post(change_settings))
        .fallback(|uri: Uri| async move {
            CallRefusal::new(404, "invalid_request_error", None, format!("no such path: {}", uri.path()))
                .into_response()
        })
        .layer(DefaultBodyLimit::max(LARGEST_BODY))
        .with_state(service)
}

fn json_response(value: &Value) -> Response<Body> {
    let mut response = Response::new(Body::from(value.to_string()));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

async fn list_models(State(service): Shared, headers: HeaderMap) -> Response<Body> {
    let settings = Arc::clone(&service.lock_core().settings);
    if !has_key(&settings, &headers) {
        return CallRefusal::unauthorized().into_response();
    }
    let models = settings.models.iter().map(|model| {
        json!({
            "id": model, "object": "model", "created": 0, "owned_by": "simulation",
            "max_model_len": settings.context_tokens
        })
    });
    json_response(&json!({"object": "list", "data": models.collect::<Vec<_>>()}))
}

async fn tokenize(State(service): Shared, body: Bytes) -> Response<Body> {
    let body: TokenizeBody = match serde_json::from_slice(&body) {
        Ok(body) => body,
        Err(error) => return unreadable(&error),
    };
    let text = match (body.prompt.or(body.content), body.messages) {
        (Some(text), _) => text,
        (None, Some(messages)) => chat_text(messages).0,
        (None, None) => {
            return CallRefusal::bad_request("`prompt`, `content` or `messages` is missing").into_response();
        }
    };
    let tokens = token_numbers(&text);
    let context = service.lock_core().settings.context_tokens;
    let mut answer = json!({"count": tokens.len(), "max_model_len": context, "tokens": tokens});
    if body.return_token_strs == Some(true) {
        let words =
            tokens.iter().map(|&token| String::from_utf8_lossy(&token_bytes(token).unwrap_or_default()).into_owned());
        answer["token_strs"] = json!(words.collect::<Vec<_>>());
    }
    json_response(&answer)
}

async fn detokenize(body: Bytes) -> Response<Body> {
    let body: DetokenizeBody = match serde_json::from_slice(&body) {
        Ok(body) => body,
        Err(error) => return unreadable(&error),
    };
    match text_of(&body.tokens) {
        Ok(text) => json_response(&json!({"prompt": text})),
        Err(number) => CallRefusal::bad_request(format!("{number} is no token of this model")).into_response(),
    }
}

fn unreadable(error: &serde_json::Error) -> Response<Body> {
    CallRefusal::bad_request(format!("the body cannot be read: {error}")).into_response()
}

async fn show_summary(State(service): Shared) -> Response<Body> {
    json_response(&json!(summary_of(&service)))
}

fn summary_of(service: &SharedService) -> SimulationSummary {
    let connections = service.gate.accepted();
    SimulationSummary { connections, ..service.lock_core().ledger.summary().clone() }
}

async fn show_log(State(service): Shared) -> Response<Body> {
    let entries: Vec<String> =
        service.lock_core().ledger.entries().map(|entry| json!(entry).to_string() + "\n").collect();
    Response::new(Body::from(entries.concat()))
}

/// The settings without the key.
fn shown_settings(settings: &SimulationSettings) -> Value {
    let key = settings.api_key.as_ref().map(|_| "***".to_owned());
    json!(SimulationSettings { api_key: key, ..settings.clone() })
}

async fn show_settings(State(service): Shared) -> Response<Body> {
    json_response(&shown_settings(&Arc::clone(&service.lock_core().settings)))
}

async fn change_settings(State(service): Shared, body: Bytes) -> Response<Body> {
    let change: Value = match serde_json::from_slice(&body) {
        Ok(change) => change,
        Err(error) => return unreadable(&error),
    };
    let settings = Arc::clone(&service.lock_core().settings);
    match settings.changed_by(&change) {
        Ok(settings) => {
            let shown = shown_settings(&settings);
            service.change_settings(settings);
            json_response(&shown)
        }
        Err(error) => {
            let cause = std::error::Error::source(&error).map_or_else(String::new, |cause| format!(": {cause}"));
            CallRefusal::bad_request(format!("{error}{cause}")).into_response()
        }
    }
}
