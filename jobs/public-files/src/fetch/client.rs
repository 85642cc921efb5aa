//! HTTP clients: one that honours the environment's proxies, and one for this machine itself.

use crate::error::FetchError;
use reqwest::{Client, ClientBuilder, Url, redirect, retry};
use std::sync::Once;
use std::time::Duration;

/// The longest wait for a connection.
const CONNECT: Duration = Duration::from_secs(30);

/// The longest wait for the next bytes of an answer.
const STALL: Duration = Duration::from_secs(60);

/// The most redirects of one request. Publishers' links lead to storage by one or two.
const MOST_REDIRECTS: usize = 10;

/// The clients of a fetcher.
pub(super) struct HttpClients {
    through_proxies: Client,
    direct: Client,
}

impl HttpClients {
    pub(super) fn build() -> Result<Self, FetchError> {
        install_crypto();
        Ok(Self { through_proxies: build(settings)?, direct: build(|| settings().no_proxy())? })
    }

    /// The client for an address.
    pub(super) fn for_address(&self, url: &Url) -> &Client {
        if is_loopback(url) { &self.direct } else { &self.through_proxies }
    }
}

fn settings() -> ClientBuilder {
    Client::builder()
        .user_agent(concat!("hopeval/", env!("CARGO_PKG_VERSION")))
        .http1_only()
        .redirect(redirect::Policy::limited(MOST_REDIRECTS))
        .retry(retry::never())
        .connect_timeout(CONNECT)
        .read_timeout(STALL)
}

/// A client. A machine without certificates of authorities gets one that refuses every server's, for `http://` alone.
fn build(settings: impl Fn() -> ClientBuilder) -> Result<Client, FetchError> {
    let client = settings().build().or_else(|_| settings().tls_certs_only([]).build());
    client.map_err(|source| FetchError::Client { source })
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// TLS needs a provider of cryptography, one for the process. The first one installed stays.
fn install_crypto() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
}
