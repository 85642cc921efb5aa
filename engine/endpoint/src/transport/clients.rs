//! The HTTP clients of one replica: one for all calls, or one for each connection that calls share.

use crate::EndpointError;
use crate::settings::EndpointSettings;
use reqwest::Client;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The HTTP clients of one replica.
///
/// With HTTP/1.1 one client opens a connection for each call in flight. With HTTP/2 a client has one connection, and
/// would let calls wait where a server allows fewer streams than there are calls. So there are as many clients as the
/// settings' `concurrency` needs, and a call takes one with the fewest calls.
#[derive(Debug)]
pub(crate) struct ReplicaClients {
    clients: Vec<CountedClient>,
    shares_connections: bool,
}

#[derive(Debug)]
struct CountedClient {
    client: Client,
    calls: AtomicUsize,
}

/// A client, taken for one call until this is dropped.
#[derive(Debug)]
pub(crate) struct TakenClient<'a>(&'a CountedClient);

impl ReplicaClients {
    /// The clients for calls of such an endpoint, each made by `build_client`.
    pub(crate) fn build(
        settings: &EndpointSettings,
        build_client: impl Fn() -> Result<Client, EndpointError>,
    ) -> Result<Self, EndpointError> {
        let connections = settings.streams_per_connection.map_or(1, |streams| settings.concurrency.div_ceil(streams));
        let client = || Ok(CountedClient { client: build_client()?, calls: AtomicUsize::new(0) });
        let clients = (0..connections.max(1)).map(|_| client()).collect::<Result<_, EndpointError>>()?;
        Ok(Self { clients, shares_connections: settings.streams_per_connection.is_some() })
    }

    /// Whether several calls are in flight on one connection.
    pub(crate) fn share_connections(&self) -> bool {
        self.shares_connections
    }

    /// The first of the clients with the fewest calls: with few calls in flight few connections are open.
    pub(crate) fn take(&self) -> TakenClient<'_> {
        let fewest = self.clients.iter().min_by_key(|counted| counted.calls.load(Ordering::Relaxed));
        let counted = fewest.expect("a replica has a client; this is a bug");
        counted.calls.fetch_add(1, Ordering::Relaxed);
        TakenClient(counted)
    }
}

impl TakenClient<'_> {
    /// The client.
    pub(crate) fn client(&self) -> &Client {
        &self.0.client
    }
}

impl Drop for TakenClient<'_> {
    fn drop(&mut self) {
        self.0.calls.fetch_sub(1, Ordering::Relaxed);
    }
}
