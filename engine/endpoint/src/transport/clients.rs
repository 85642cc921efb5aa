//! The HTTP clients of one replica: one for all calls, or one for each connection that calls share.

use crate::EndpointError;
use crate::settings::EndpointSettings;
use reqwest::Client;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Makes a client.
type ClientBuilder = Box<dyn Fn() -> Result<Client, EndpointError> + Send + Sync>;

/// The HTTP clients of one replica.
///
/// With HTTP/1.1 one client opens a connection for each call in flight. With HTTP/2 a client has one connection, and
/// would let calls wait where a server allows fewer streams than there are calls. So there are as many clients as the
/// settings' `concurrency` needs, and a call takes one with the fewest calls. A client whose connection broke or fell
/// silent is replaced for later calls: it would give them the same connection.
pub(crate) struct ReplicaClients {
    slots: Vec<ClientSlot>,
    build: ClientBuilder,
    shares_connections: bool,
}

/// The place of one client.
#[derive(Debug)]
struct ClientSlot {
    calls: AtomicUsize,
    /// `None` until a call needs it.
    client: Mutex<Option<Arc<HttpClient>>>,
}

/// A client, with what is known of its connection if calls share it.
#[derive(Debug)]
struct HttpClient {
    client: Client,
    has_answered: AtomicBool,
    is_broken: AtomicBool,
}

/// A client, taken for one call until this is dropped.
#[derive(Debug)]
pub(crate) struct TakenClient<'a> {
    slot: &'a ClientSlot,
    client: Arc<HttpClient>,
    shares_connection: bool,
}

impl ReplicaClients {
    /// The clients of such an endpoint, each made by `build` when a call needs it; the first one is made at once.
    pub(crate) fn open(
        settings: &EndpointSettings,
        build: impl Fn() -> Result<Client, EndpointError> + Send + Sync + 'static,
    ) -> Result<Self, EndpointError> {
        let connections = settings.streams_per_connection.map_or(1, |streams| settings.concurrency.div_ceil(streams));
        let slots =
            (0..connections.max(1)).map(|_| ClientSlot { calls: AtomicUsize::new(0), client: Mutex::default() });
        let shares_connections = settings.streams_per_connection.is_some();
        let clients = Self { slots: slots.collect(), build: Box::new(build), shares_connections };
        *clients.slots[0].lock() = Some(HttpClient::shared((clients.build)()?));
        Ok(clients)
    }

    /// Whether several calls are in flight on one connection.
    pub(crate) fn shares_connections(&self) -> bool {
        self.shares_connections
    }

    /// The first of the clients with the fewest calls: with few calls in flight few connections are open.
    pub(crate) fn take(&self) -> TakenClient<'_> {
        let fewest = self.slots.iter().min_by_key(|slot| slot.calls.load(Ordering::Relaxed));
        let slot = fewest.expect("a replica has a client; this is a bug");
        slot.calls.fetch_add(1, Ordering::Relaxed);
        let mut place = slot.lock();
        let client = match &*place {
            Some(client) if !client.is_broken.load(Ordering::Relaxed) => Arc::clone(client),
            before => match ((self.build)(), before) {
                (Ok(client), _) => HttpClient::shared(client),
                // Certificates were readable when the endpoint was opened: a client is better than none.
                (Err(_), Some(before)) => Arc::clone(before),
                (Err(error), None) => {
                    tracing::warn!("no further HTTP client can be made, so calls share the first one: {error}");
                    drop(place);
                    return TakenClient { slot, client: self.first(), shares_connection: true };
                }
            },
        };
        *place = Some(Arc::clone(&client));
        TakenClient { slot, client, shares_connection: self.shares_connections }
    }

    fn first(&self) -> Arc<HttpClient> {
        self.slots[0].lock().clone().expect("the first client is made when the endpoint is opened; this is a bug")
    }
}

impl fmt::Debug for ReplicaClients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplicaClients").field("slots", &self.slots).finish_non_exhaustive()
    }
}

impl ClientSlot {
    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Arc<HttpClient>>> {
        // A panic elsewhere leaves a whole client or none.
        self.client.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HttpClient {
    fn shared(client: Client) -> Arc<Self> {
        Arc::new(Self { client, has_answered: AtomicBool::new(false), is_broken: AtomicBool::new(false) })
    }
}

impl TakenClient<'_> {
    /// The client.
    pub(crate) fn client(&self) -> &Client {
        &self.client.client
    }

    /// Notes an answer.
    pub(crate) fn note_answer(&self) {
        self.client.has_answered.store(true, Ordering::Relaxed);
    }

    /// Whether the client has had an answer.
    pub(crate) fn has_answered(&self) -> bool {
        self.client.has_answered.load(Ordering::Relaxed)
    }

    /// Notes that the connection is broken or silent. Returns whether another call has said so before: then this is
    /// the same fault once more.
    pub(crate) fn note_broken(&self) -> bool {
        self.shares_connection && self.client.is_broken.swap(true, Ordering::Relaxed)
    }
}

impl Drop for TakenClient<'_> {
    fn drop(&mut self) {
        self.slot.calls.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clients(concurrency: usize, streams: Option<usize>) -> ReplicaClients {
        let settings = EndpointSettings {
            concurrency,
            streams_per_connection: streams,
            ..EndpointSettings::new("m", "http://a/v1")
        };
        let build = || Ok(Client::builder().no_proxy().tls_certs_only([]).build().expect("a client without TLS"));
        crate::transport::install_crypto();
        ReplicaClients::open(&settings, build).expect("clients")
    }

    fn calls(clients: &ReplicaClients) -> Vec<usize> {
        clients.slots.iter().map(|slot| slot.calls.load(Ordering::Relaxed)).collect()
    }

    #[test]
    fn calls_are_spread_and_given_back() {
        let clients = clients(7, Some(3));
        let made = || clients.slots.iter().filter(|slot| slot.lock().is_some()).count();
        assert_eq!((clients.slots.len(), made()), (3, 1), "others are made when they are needed");
        let mut taken: Vec<TakenClient<'_>> = (0..7).map(|_| clients.take()).collect();
        assert_eq!((calls(&clients), made()), (vec![3, 2, 2], 3));
        taken.swap_remove(1);
        assert_eq!(calls(&clients), [3, 1, 2]);
        let _next = clients.take();
        assert_eq!(calls(&clients), [3, 2, 2]);
    }

    #[test]
    fn a_broken_connection_is_told_once_and_left() {
        let shared = clients(2, Some(2));
        let (first, second) = (shared.take(), shared.take());
        assert!(Arc::ptr_eq(&first.client, &second.client));
        first.note_answer();
        assert!(second.has_answered());
        assert!(!first.note_broken() && second.note_broken());
        let third = shared.take();
        assert!(!Arc::ptr_eq(&first.client, &third.client) && !third.has_answered());
        assert!(!third.note_broken());
        let alone = clients(2, None);
        let (first, second) = (alone.take(), alone.take());
        assert!(!first.note_broken() && !second.note_broken(), "each call has a connection of its own");
    }
}
