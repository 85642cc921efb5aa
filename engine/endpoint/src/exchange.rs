//! One HTTP request and the bytes of its reply, bounded in time and size.
//!
//! The body is read to its end, or the attempt has failed: half an answer is none.

mod chunks;
pub(crate) mod retry_after;

pub(crate) use chunks::BodyChunks;

use crate::verdict::AttemptCause;
use bytes::{Bytes, BytesMut};
use reqwest::header::HeaderMap;
use reqwest::{Client, Request, Response};
use std::error::Error;
use std::io::ErrorKind;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// The longest body that is read.
pub(crate) const MOST_BYTES: usize = 256 << 20;

/// The first room for a body of unknown length.
const FIRST_ROOM: usize = 4 << 10;

/// The reply to a request.
#[derive(Debug)]
pub(crate) struct HttpReply {
    /// The status.
    pub(crate) status: u16,
    /// The headers.
    pub(crate) headers: HeaderMap,
    /// The whole body.
    pub(crate) body: Bytes,
}

/// A request without a whole reply.
#[derive(Debug)]
pub(crate) struct BrokenExchange {
    /// The cause.
    pub(crate) cause: AttemptCause,
    /// The reason, for people.
    pub(crate) message: String,
    /// Whether the connection is broken or silent, and not this exchange alone.
    pub(crate) breaks_connection: bool,
}

/// Bounds of one exchange.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExchangeBounds {
    /// The longest time without a byte.
    pub(crate) stall: Duration,
    /// The end of the call's time.
    pub(crate) deadline: Instant,
    /// The longest body.
    pub(crate) most_bytes: usize,
}

/// Sends the request and reads the whole reply. `answered` says whether the client has had an answer before.
pub(crate) fn exchange_once(
    client: &Client,
    answered: bool,
    request: Request,
    bounds: ExchangeBounds,
) -> impl Future<Output = Result<HttpReply, BrokenExchange>> + use<> {
    let sent = Instant::now();
    // Outside of the future, which would keep room for the request while it waits.
    let pending = client.execute(request);
    async move {
        let next = |now: Instant| bounds.deadline.min(now + bounds.stall);
        let mut reply = match timeout_at(next(sent), pending).await {
            Ok(Ok(reply)) => reply,
            Ok(Err(error)) => return Err(broken_before_headers(error, answered)),
            Err(_) => return Err(silent(AttemptCause::StallBeforeHeaders, sent)),
        };
        let (status, headers) = (reply.status().as_u16(), std::mem::take(reply.headers_mut()));
        // Boxed, since most of a call's time passes before: ten thousand futures would have room for it meanwhile.
        let body = Box::pin(read_body(reply, bounds, next)).await?;
        Ok(HttpReply { status, headers, body })
    }
}

/// The body to its end. One chunk stays where it is; several are joined.
async fn read_body(
    mut reply: Response,
    bounds: ExchangeBounds,
    next: impl Fn(Instant) -> Instant,
) -> Result<Bytes, BrokenExchange> {
    let announced = reply.content_length().map_or(FIRST_ROOM, |length| length as usize);
    let mut first = Bytes::new();
    let mut joined = BytesMut::new();
    loop {
        let before = Instant::now();
        let chunk = match timeout_at(next(before), reply.chunk()).await {
            Ok(Ok(Some(chunk))) => chunk,
            Ok(Ok(None)) => return Ok(if joined.is_empty() { first } else { joined.freeze() }),
            Ok(Err(error)) => {
                return Err(BrokenExchange {
                    cause: AttemptCause::CutBody,
                    breaks_connection: !http2_error(&error).is_some_and(h2::Error::is_reset),
                    message: error_chain(&error.without_url()),
                });
            }
            Err(_) if Instant::now() >= bounds.deadline => {
                let message = "the body was not complete within the call's time".to_owned();
                let cause = AttemptCause::DeadlineInBody;
                return Err(BrokenExchange { cause, message, breaks_connection: false });
            }
            Err(_) => return Err(silent(AttemptCause::StallInBody, before)),
        };
        if first.len() + joined.len() + chunk.len() > bounds.most_bytes {
            let message = format!("the body has more than {} bytes", bounds.most_bytes);
            let cause = AttemptCause::AnswerTooLong;
            return Err(BrokenExchange { cause, message, breaks_connection: false });
        }
        if first.is_empty() && joined.is_empty() {
            first = chunk;
            continue;
        }
        if joined.is_empty() {
            joined.reserve(announced.clamp(first.len() + chunk.len(), bounds.most_bytes));
            joined.extend_from_slice(&std::mem::take(&mut first));
        }
        joined.extend_from_slice(&chunk);
    }
}

/// No byte came.
fn silent(cause: AttemptCause, since: Instant) -> BrokenExchange {
    let message = format!("no byte for {:.1} s", since.elapsed().as_secs_f64());
    BrokenExchange { cause, message, breaks_connection: true }
}

/// The cause of a request without a status. `answered` says whether the connection may have had an answer before.
fn broken_before_headers(error: reqwest::Error, answered: bool) -> BrokenExchange {
    let http2 = http2_error(&error);
    // What this side finds wrong at the beginning is a server that answers in HTTP/1.1, or in no HTTP.
    let other_protocol = !answered && http2.is_some_and(h2::Error::is_library);
    let cause = match io_kind(&error) {
        Some(ErrorKind::ConnectionRefused) => AttemptCause::ConnectionRefused,
        _ if error.is_connect() || other_protocol => AttemptCause::Unreachable,
        _ if says_parse(&error) => AttemptCause::NotHttp,
        // The server did nothing: RFC 9113, 8.7.
        _ if http2.and_then(h2::Error::reason) == Some(h2::Reason::REFUSED_STREAM) => AttemptCause::TryAgain,
        _ => AttemptCause::ResetBeforeHeaders,
    };
    let breaks_connection = !http2.is_some_and(h2::Error::is_reset);
    let mut message = error_chain(&error.without_url());
    if other_protocol {
        message += ": the server does not speak HTTP/2 at this address, which `streams_per_connection` asks for";
    }
    BrokenExchange { cause, message, breaks_connection }
}

/// The first error of HTTP/2 among the causes.
fn http2_error(error: &reqwest::Error) -> Option<&h2::Error> {
    let mut cause = error.source();
    while let Some(inner) = cause {
        if let Some(http2) = inner.downcast_ref() {
            return Some(http2);
        }
        cause = inner.source();
    }
    None
}

/// Whether the reply was no HTTP. The error of hyper has no public type here; its words are stable.
fn says_parse(error: &reqwest::Error) -> bool {
    let text = error_chain(error);
    text.contains("invalid HTTP") || text.contains("message head is too large")
}

/// The kind of the first I/O error among the causes.
fn io_kind(error: &reqwest::Error) -> Option<ErrorKind> {
    let mut cause = error.source();
    while let Some(inner) = cause {
        if let Some(io) = inner.downcast_ref::<std::io::Error>() {
            return Some(io.kind());
        }
        cause = inner.source();
    }
    None
}

/// An error with its causes, in one line.
pub(crate) fn error_chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let next = inner.to_string();
        if !text.ends_with(&next) {
            text = format!("{text}: {next}");
        }
        cause = inner.source();
    }
    text
}
