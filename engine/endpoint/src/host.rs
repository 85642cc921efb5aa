//! The run's side of an endpoint: permission for each attempt, and faults that end the run.

use crate::spending::{SpendingPermit, SpendingRequest};
use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The run's proof that an attempt is under way; dropping it says that the attempt has ended or is recorded.
pub type AttemptGuard = Box<dyn Any + Send>;

/// The run, as an endpoint sees it.
#[derive(Clone)]
pub struct EndpointHost {
    /// Asked before each HTTP request, and before a call that was given up ends. `None`: the run drains; the call is
    /// kept, and never sent again.
    pub begin_attempt: Arc<dyn Fn() -> Option<AttemptGuard> + Send + Sync>,
    /// Asked before that for the attempt's bound.
    pub reserve: SpendingRequest,
    /// Given the endpoint's fault, once. After it no attempt begins; calls stay unanswered.
    pub fault: Arc<dyn Fn(EndpointFault) + Send + Sync>,
    /// Whether the model has answered before this client was opened: then a 404 is an outage, unless other paths of the
    /// server answer. Asked at each reply.
    pub model_known: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl EndpointHost {
    /// A host that lets every attempt begin, and gives faults to `fault`.
    pub fn open_host(fault: impl Fn(EndpointFault) + Send + Sync + 'static) -> Self {
        Self {
            begin_attempt: Arc::new(|| Some(Box::new(()) as AttemptGuard)),
            reserve: Self::unlimited(),
            fault: Arc::new(fault),
            model_known: Arc::new(|| false),
        }
    }

    /// Permits every bound.
    pub fn unlimited() -> SpendingRequest {
        Arc::new(|_, receiver| receiver(SpendingPermit::new(drop)))
    }
}

impl fmt::Debug for EndpointHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EndpointHost").field("model_known", &(self.model_known)()).finish_non_exhaustive()
    }
}

/// Something is wrong with the endpoint itself: this is no call's answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointFault {
    /// Unreachable, failing, or without the model that it had, for longer than the patience.
    #[error("the endpoint has given no answer for {} s; at last: {last}", unanswered.as_secs())]
    Down {
        /// The time since the first fault after the last answer.
        unanswered: Duration,
        /// The last fault.
        last: String,
    },
    /// The server does not take the key (401, 403).
    #[error("the server does not take the key: {message}")]
    Unauthorized {
        /// The status and the server's words.
        message: String,
    },
    /// The server does not have the model or the path, and never had (404, 405, redirects).
    #[error("the server has no such model or path: {message}")]
    UnknownModel {
        /// The status, the address and the server's words.
        message: String,
    },
    /// The account's money or quota is used up (402, 429 with `insufficient_quota`).
    #[error("the quota is used up: {message}")]
    QuotaUsedUp {
        /// The status and the server's words.
        message: String,
    },
}

impl EndpointFault {
    /// Whether it may pass by itself: the run can go on later without a change.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Down { .. })
    }
}
