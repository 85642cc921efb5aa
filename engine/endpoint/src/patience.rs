//! The end of an endpoint's patience: it is down, or a few calls are given up that fail while the server works.
//!
//! `flow/failing.rs` has the rule. Here the server is asked for its sign: `GET {base_url}/models`, or a GET of a
//! retriever's address. That costs nothing and is no attempt. Nothing is asked where no sign would change the end.

use crate::attempt::EndpointShared;
use crate::exchange::{ExchangeBounds, HttpReply, exchange_once};
use crate::flow::ServerSign;
use crate::transport::ReplicaTransport;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The longest wait for a sign.
const LONGEST_LOOK: Duration = Duration::from_secs(10);

/// The longest list of models that is read.
const MOST_BYTES: usize = 16 << 20;

/// Lets attempts begin until the endpoint is closed, and tells the host when it is down.
pub(crate) async fn watch_patience(shared: Arc<EndpointShared>) {
    while let Some(fault) = shared.gate.run_timer().await {
        if !gave_up_calls(&shared).await {
            return shared.raise_fault(fault);
        }
    }
}

/// Whether the calls are at fault and not the endpoint: they are given up then.
async fn gave_up_calls(shared: &EndpointShared) -> bool {
    if !shared.gate.may_give_up(ServerSign::Working) {
        return false;
    }
    // A run that drains begins no request, and leaves as resumable anyway.
    let Some(_under_way) = (shared.host.begin_attempt)() else { return false };
    let mut best = ServerSign::Absent;
    for replica in &shared.replicas {
        best = best.max(ask_sign(shared, replica).await);
        if best == ServerSign::Working {
            break;
        }
    }
    shared.gate.give_up(best)
}

/// The sign of one replica.
async fn ask_sign(shared: &EndpointShared, replica: &ReplicaTransport) -> ServerSign {
    let bounds = ExchangeBounds {
        stall: shared.settings.stall_timeout(),
        deadline: Instant::now() + LONGEST_LOOK,
        most_bytes: MOST_BYTES,
    };
    let taken = replica.clients.take();
    match exchange_once(taken.client(), taken.has_answered(), replica.get_sign(), bounds).await {
        Ok(reply) => sign_of(&reply),
        Err(_) => ServerSign::Absent,
    }
}

fn sign_of(reply: &HttpReply) -> ServerSign {
    match reply.status {
        // A page with 200 is a proxy's, or asks to sign in.
        200..=299 if serde_json::from_slice(&reply.body).is_ok_and(|json: Value| json.is_object()) => {
            ServerSign::Working
        }
        400..=499 => ServerSign::Present,
        _ => ServerSign::Absent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::header::HeaderMap;

    #[test]
    fn signs_of_replies() {
        for (status, body, sign) in [
            (200, r#"{"object":"list","data":[]}"#, ServerSign::Working),
            (200, "<html>Sign in</html>", ServerSign::Absent),
            (204, "", ServerSign::Absent),
            (302, "", ServerSign::Absent),
            (401, "", ServerSign::Present),
            (404, "", ServerSign::Present),
            (500, "{}", ServerSign::Absent),
            (503, "", ServerSign::Absent),
        ] {
            let reply = HttpReply { status, headers: HeaderMap::new(), body: body.into() };
            assert_eq!(sign_of(&reply), sign, "{status} {body}");
        }
    }
}
