//! A server that plays exact bytes: each request gets the steps that a script gives it.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct ServedRequest {
    /// Its number, from 0.
    pub(crate) number: usize,
    /// The request line and the headers, in lower case.
    pub(crate) head: String,
    pub(crate) body: String,
}

/// A step of a reply.
#[derive(Clone, Debug)]
pub(crate) enum ServerStep {
    /// Sends bytes.
    Send(Vec<u8>),
    /// Sends nothing for a while.
    Wait(Duration),
    /// Ends the connection with FIN.
    Close,
    /// Ends the connection with RST.
    Reset,
}

type ServerScript = dyn Fn(&ServedRequest) -> Vec<ServerStep> + Send + Sync;

struct ServerState {
    script: Box<ServerScript>,
    requests: Mutex<Vec<ServedRequest>>,
    open: AtomicUsize,
    most_open: AtomicUsize,
    connections: AtomicUsize,
}

/// The server, on a thread of its own. Dropped, it is gone.
pub(crate) struct ScriptedServer {
    pub(crate) address: SocketAddr,
    state: Arc<ServerState>,
    runtime: Option<Runtime>,
}

impl ScriptedServer {
    /// A server on a free port.
    pub(crate) fn start(script: impl Fn(&ServedRequest) -> Vec<ServerStep> + Send + Sync + 'static) -> Self {
        Self::start_at(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), script)
    }

    /// A server on a port that was free a moment ago.
    pub(crate) fn start_at(
        address: SocketAddr,
        script: impl Fn(&ServedRequest) -> Vec<ServerStep> + Send + Sync + 'static,
    ) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind(address)).unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(ServerState {
            script: Box::new(script),
            requests: Mutex::new(Vec::new()),
            open: AtomicUsize::new(0),
            most_open: AtomicUsize::new(0),
            connections: AtomicUsize::new(0),
        });
        let served = state.clone();
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                served.connections.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(serve_connection(stream, served.clone()));
            }
        });
        Self { address, state, runtime: Some(runtime) }
    }

    /// The address for settings.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// All requests so far.
    pub(crate) fn requests(&self) -> Vec<ServedRequest> {
        self.state.requests.lock().unwrap().clone()
    }

    /// The connections so far.
    pub(crate) fn connections(&self) -> usize {
        self.state.connections.load(Ordering::SeqCst)
    }

    /// The most requests that were open at once.
    pub(crate) fn most_open(&self) -> usize {
        self.state.most_open.load(Ordering::SeqCst)
    }
}

impl Drop for ScriptedServer {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Counts a request as open until it is dropped.
struct OpenRequest(Arc<ServerState>);

impl OpenRequest {
    fn count(state: &Arc<ServerState>) -> Self {
        let now = state.open.fetch_add(1, Ordering::SeqCst) + 1;
        state.most_open.fetch_max(now, Ordering::SeqCst);
        Self(state.clone())
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn serve_connection(mut stream: TcpStream, state: Arc<ServerState>) {
    let mut buffer = Vec::new();
    while let Some((head, body)) = read_request(&mut stream, &mut buffer).await {
        let open = OpenRequest::count(&state);
        let request = {
            let mut requests = state.requests.lock().unwrap();
            let request = ServedRequest { number: requests.len(), head, body };
            requests.push(request.clone());
            request
        };
        for step in (state.script)(&request) {
            match step {
                ServerStep::Send(bytes) => {
                    if stream.write_all(&bytes).await.is_err() {
                        return;
                    }
                }
                ServerStep::Wait(time) => tokio::time::sleep(time).await,
                ServerStep::Close => return,
                ServerStep::Reset => {
                    stream.set_zero_linger().unwrap();
                    return;
                }
            }
        }
        drop(open);
    }
}

/// The next request of a connection: its head and its body.
async fn read_request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<(String, String)> {
    loop {
        if let Some(end) = buffer.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&buffer[..end]).to_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.trim().parse().ok());
            let whole = end + 4 + length.unwrap_or(0);
            if buffer.len() >= whole {
                let body = String::from_utf8_lossy(&buffer[end + 4..whole]).into_owned();
                buffer.drain(..whole);
                return Some((head, body));
            }
        }
        let mut chunk = [0; 16 << 10];
        match stream.read(&mut chunk).await {
            Ok(0) | Err(_) => return None,
            Ok(count) => buffer.extend_from_slice(&chunk[..count]),
        }
    }
}

/// A whole reply.
pub(crate) fn reply(status: u16, headers: &str, body: &str) -> Vec<ServerStep> {
    let length = body.len();
    let text = format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n{headers}\r\n{body}");
    vec![ServerStep::Send(text.into_bytes())]
}

/// A chat's answer.
pub(crate) fn chat(text: &str) -> Vec<ServerStep> {
    reply(200, "", &chat_body(text))
}

/// The body of a chat's answer: 7 tokens read, 3 written.
pub(crate) fn chat_body(text: &str) -> String {
    format!(
        r#"{{"id":"c","model":"m-1","system_fingerprint":"fp-1",
        "choices":[{{"index":0,"message":{{"role":"assistant","content":"{text}"}},
        "finish_reason":"stop"}}],
        "usage":{{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}}}}"#
    )
}

/// Milliseconds.
pub(crate) fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}
