//! HTTP clients of each replica: their connections, addresses and headers.

mod clients;

pub(crate) use clients::ReplicaClients;

use crate::EndpointError;
use crate::dialect::{EndpointDialect, RerankForm};
use crate::exchange::BodyChunks;
use crate::key::ApiKey;
use crate::settings::EndpointSettings;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use reqwest::{Client, Method, Request, Url, redirect, retry};
use std::sync::Once;
use std::time::Duration;

/// The longest time that an idle connection of HTTP/1.1 is kept. Servers close theirs after 5 s (uvicorn) to 75 s
/// (nginx); a request on a connection that was just closed is a fault, so the client closes first.
const IDLE_TIME: Duration = Duration::from_secs(4);

/// Keepalive probes of TCP and pings of HTTP/2, for hosts that vanish while a call waits.
const KEEPALIVE: Duration = Duration::from_secs(20);

/// This program, for servers' logs.
const PROGRAM: &str = concat!("hopeval/", env!("CARGO_PKG_VERSION"));

/// A path of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ApiRoute {
    Chat,
    Completions,
    Embeddings,
    Rerank,
    /// The address itself: a retriever has one path, and the settings name it.
    Retrieve,
}

impl ApiRoute {
    /// How many there are.
    pub(crate) const COUNT: usize = Self::Retrieve as usize + 1;
}

/// One replica of a server.
#[derive(Debug)]
pub(crate) struct ReplicaTransport {
    /// The clients with the replica's connections.
    pub(crate) clients: ReplicaClients,
    /// The address, for messages.
    pub(crate) address: String,
    chat: Url,
    completions: Url,
    embeddings: Url,
    rerank: Url,
    retrieve: Url,
    sign: Url,
    headers: HeaderMap,
}

impl ReplicaTransport {
    /// A client for the replica at `address`.
    pub(crate) fn build(
        settings: &EndpointSettings,
        address: &Url,
        key: Option<&ApiKey>,
    ) -> Result<Self, EndpointError> {
        install_crypto();
        let path = |route| route_address(settings, address, route);
        Ok(Self {
            clients: open_clients(settings, address)?,
            address: address.to_string(),
            chat: path(ApiRoute::Chat),
            completions: path(ApiRoute::Completions),
            embeddings: path(ApiRoute::Embeddings),
            rerank: path(ApiRoute::Rerank),
            retrieve: path(ApiRoute::Retrieve),
            sign: sign_address(settings, address),
            headers: build_headers(settings, key),
        })
    }

    /// A request with a body of JSON.
    pub(crate) fn post_request(&self, route: ApiRoute, body: BodyChunks) -> Request {
        let url = match route {
            ApiRoute::Chat => &self.chat,
            ApiRoute::Completions => &self.completions,
            ApiRoute::Embeddings => &self.embeddings,
            ApiRoute::Rerank => &self.rerank,
            ApiRoute::Retrieve => &self.retrieve,
        };
        let mut request = Request::new(Method::POST, url.clone());
        *request.headers_mut() = self.headers.clone();
        *request.body_mut() = Some(body.into_body(self.clients.shares_connections()));
        request
    }

    /// A request for a sign of life, which costs nothing.
    pub(crate) fn get_sign(&self) -> Request {
        let mut request = Request::new(Method::GET, self.sign.clone());
        *request.headers_mut() = self.headers.clone();
        request
    }
}

/// The headers of every request.
pub(crate) fn build_headers(settings: &EndpointSettings, key: Option<&ApiKey>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
    // The client has it, too, for proxies. Here it keeps the client from enlarging the map of each request.
    headers.insert(USER_AGENT, HeaderValue::from_static(PROGRAM));
    for (name, value) in &settings.headers {
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value)) {
            headers.insert(name, value);
        }
    }
    headers
        .extend(key.and_then(|key| key.header(settings.facts().key_header)).map(|(name, value)| (Some(name), value)));
    headers
}

/// A client with the settings' bounds.
///
/// It speaks HTTP/1.1 alone, with one call a connection, so that a broken connection breaks one call; or HTTP/2 alone,
/// if the settings want it. It follows no redirects, which could carry the key elsewhere, and repeats nothing by
/// itself, so that every attempt is counted. Proxies of the environment count, but not for this machine itself.
pub(crate) fn build_client(settings: &EndpointSettings, address: &Url) -> Result<Client, EndpointError> {
    let mut builder = Client::builder()
        .user_agent(PROGRAM)
        .redirect(redirect::Policy::none())
        .retry(retry::never())
        .referer(false)
        .tcp_nodelay(true)
        .tcp_keepalive(KEEPALIVE)
        .connect_timeout(Duration::from_secs_f64(settings.connect_timeout_s))
        .pool_max_idle_per_host(settings.concurrency);
    builder = match settings.streams_per_connection {
        None => builder.http1_only().pool_idle_timeout(IDLE_TIME),
        // The pool takes the time since the last new call for idle, though calls are open; and a server says when it
        // closes a connection. Pings find one that is gone.
        Some(_) => builder
            .http2_prior_knowledge()
            .pool_idle_timeout(None)
            .http2_keep_alive_interval(KEEPALIVE)
            .http2_keep_alive_timeout(KEEPALIVE),
    };
    if is_loopback(address) {
        builder = builder.no_proxy();
    }
    if address.scheme() == "http" && std::env::var_os("HTTPS_PROXY").is_none() {
        // Without TLS no certificates are needed: a machine may have none.
        builder = builder.tls_certs_only([]);
    }
    builder.build().map_err(|source| EndpointError::Client { url: address.to_string(), source })
}

/// The clients for calls to `address`.
fn open_clients(settings: &EndpointSettings, address: &Url) -> Result<ReplicaClients, EndpointError> {
    let (owned, address) = (settings.clone(), address.clone());
    ReplicaClients::open(settings, move || build_client(&owned, &address))
}

/// Whether an address is this machine.
fn is_loopback(address: &Url) -> bool {
    let host = address.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// The address of a route.
pub(crate) fn route_address(settings: &EndpointSettings, address: &Url, route: ApiRoute) -> Url {
    let path = match route {
        ApiRoute::Chat => "chat/completions",
        ApiRoute::Completions => "completions",
        ApiRoute::Embeddings => "embeddings",
        ApiRoute::Rerank if settings.facts().reranks == RerankForm::RootTexts => {
            return root_address(address, "rerank");
        }
        ApiRoute::Rerank => "rerank",
        ApiRoute::Retrieve => return address.clone(),
    };
    match &settings.api_version {
        Some(version) if settings.dialect == EndpointDialect::Azure => {
            let mut url = extend_path(address, &["openai", "deployments", &settings.model]);
            url = extend_path(&url, &path.split('/').collect::<Vec<_>>());
            url.query_pairs_mut().append_pair("api-version", version);
            url
        }
        _ => extend_path(address, &path.split('/').collect::<Vec<_>>()),
    }
}

/// The address that lists a server's models; a retriever has none but its own.
fn sign_address(settings: &EndpointSettings, address: &Url) -> Url {
    match &settings.api_version {
        _ if settings.is_retriever() => address.clone(),
        Some(version) if settings.dialect == EndpointDialect::Azure => {
            let mut url = extend_path(address, &["openai", "models"]);
            url.query_pairs_mut().append_pair("api-version", version);
            url
        }
        _ => extend_path(address, &["models"]),
    }
}

/// The address with further segments.
pub(crate) fn extend_path(address: &Url, segments: &[&str]) -> Url {
    let mut url = address.clone();
    if let Ok(mut path) = url.path_segments_mut() {
        path.pop_if_empty().extend(segments);
    }
    url
}

/// A path at the server's root: beside `/v1`, not below it.
pub(crate) fn root_address(address: &Url, path: &str) -> Url {
    let mut url = address.clone();
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.pop_if_empty();
    }
    if let Some(root) = url.path().strip_suffix("/v1").map(str::to_owned) {
        url.set_path(&root);
    }
    extend_path(&url, &[path])
}

/// TLS needs a provider of cryptography, one for the process. The first one installed stays.
pub(crate) fn install_crypto() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_lie_below_the_address() {
        let mut settings = EndpointSettings::new("my model", "http://a/v1");
        let route = |settings: &EndpointSettings, address: &str, route| {
            route_address(settings, &Url::parse(address).unwrap(), route).to_string()
        };
        assert_eq!(route(&settings, "http://a/v1", ApiRoute::Chat), "http://a/v1/chat/completions");
        assert_eq!(route(&settings, "http://a/", ApiRoute::Completions), "http://a/completions");
        settings.dialect = EndpointDialect::Tei;
        assert_eq!(route(&settings, "http://a/x/v1", ApiRoute::Rerank), "http://a/x/rerank");
        settings.dialect = EndpointDialect::Azure;
        assert_eq!(route(&settings, "https://a/openai/v1", ApiRoute::Embeddings), "https://a/openai/v1/embeddings");
        settings.api_version = Some("2024-10-21".to_owned());
        assert_eq!(
            route(&settings, "https://a", ApiRoute::Chat),
            "https://a/openai/deployments/my%20model/chat/completions?api-version=2024-10-21"
        );
        let address = Url::parse("https://a/v1").unwrap();
        let sign = |settings: &EndpointSettings| sign_address(settings, &address).to_string();
        assert_eq!(sign(&settings), "https://a/v1/openai/models?api-version=2024-10-21");
        assert_eq!(sign(&EndpointSettings::new("m", "")), "https://a/v1/models");
        assert_eq!(sign(&EndpointSettings::for_retriever("index", Vec::new())), "https://a/v1");
        assert_eq!(root_address(&Url::parse("http://a/v1").unwrap(), "tokenize").as_str(), "http://a/tokenize");
    }

    #[test]
    fn the_settings_own_headers_win() {
        let mut settings = EndpointSettings::new("m", "http://a/v1");
        assert_eq!(build_headers(&settings, None)[USER_AGENT], PROGRAM);
        settings.headers.insert("user-agent".to_owned(), "mine".to_owned());
        assert_eq!(build_headers(&settings, None).get_all(USER_AGENT).iter().collect::<Vec<_>>(), ["mine"]);
    }

    #[test]
    fn this_machine_needs_no_proxy() {
        for (url, local) in [("http://127.0.0.1:1/v1", true), ("http://[::1]/", true), ("http://localhost", true)] {
            assert_eq!(is_loopback(&Url::parse(url).unwrap()), local);
        }
        assert!(!is_loopback(&Url::parse("http://10.0.0.1").unwrap()));
    }
}
