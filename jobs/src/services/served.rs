//! Answers on their way through the dataflow, with their times.

use hopeval_methods::{FailureKind, RequestKind, Response, ServiceName};
use hopeval_operators::RequestKey;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A response on its way through the dataflow, with its times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServedResponse {
    /// The response. All askers and the journal's record have the same one.
    pub response: Arc<Response>,
    /// Microseconds of waiting for its service, if it was computed.
    pub queue_us: u64,
    /// Microseconds of service, when it was computed.
    pub service_us: u64,
    /// Its share of its batch's device time, in microseconds. 0 if it was not computed for this request.
    pub device_us: u64,
    /// Whether it came from the journal.
    pub cached: bool,
    /// Whether it is no answer: the request waits for one, which comes while no run is going on. Never recorded.
    pub waits: bool,
}

/// A response to be journalled.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedResponse {
    /// Its route.
    pub bucket: u16,
    /// Its identity.
    pub key: RequestKey,
    /// The service that answered.
    pub service: ServiceName,
    /// The kind of request.
    pub kind: RequestKind,
    /// The response and its times.
    pub served: ServedResponse,
}

impl ServedResponse {
    /// A response with negligible times.
    pub fn without_times(response: Response) -> Self {
        Self { response: Arc::new(response), queue_us: 0, service_us: 0, device_us: 0, cached: false, waits: false }
    }

    /// No answer: the request waits for one.
    pub fn waiting() -> Self {
        let response = Response::failure(FailureKind::Unavailable, "the request waits for a file of results");
        Self { waits: true, ..Self::without_times(response) }
    }

    /// The same response, as from the journal.
    pub fn cached(&self) -> Self {
        Self { queue_us: 0, device_us: 0, cached: true, ..self.clone() }
    }
}
