//! Hands an answer over: whole or in pieces, in time or not, complete or spoilt by a fault.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, Response, header};
use bytes::Bytes;
use futures::stream;
use serde_json::Value;

use crate::fault::FaultKind;
use crate::port::ConnectionSwitch;
use crate::reply::{ReplyKind, SimulatedReply};
use crate::settings::FaultSettings;

/// A step of handing over a body.
enum DeliveryStep {
    Bytes(Bytes),
    Pause(Duration),
    /// The connection is reset.
    Reset,
    /// The connection is closed in order, although more was announced.
    Cut,
}

/// An answer's body, ready to be sent.
pub(crate) struct ReplyDelivery {
    steps: VecDeque<DeliveryStep>,
    content_type: &'static str,
    /// The announced length; `None` for a stream.
    length: Option<usize>,
}

/// Before a connection is broken, what was sent has to leave.
const LAST_BYTES: Duration = Duration::from_millis(10);
/// Tokens in an event of a stream without a time for each token.
const TOKENS_AT_ONCE: usize = 16;

/// Whether a fault of this kind can spoil an answer of this interface.
pub(crate) fn fault_fits(fault: FaultKind, kind: ReplyKind) -> bool {
    let is_generated = matches!(kind, ReplyKind::Chat | ReplyKind::Completion);
    is_generated || !matches!(fault, FaultKind::ContentFilter | FaultKind::Length)
}

/// Changes an answer as a fault of its content does.
pub(crate) fn spoil_reply(reply: &mut SimulatedReply, fault: FaultKind) {
    let choices = &mut reply.choices;
    match fault {
        FaultKind::NoChoices => {
            choices.clear();
            reply.items.clear();
        }
        FaultKind::FewerChoices => {
            choices.pop();
            reply.items.pop();
        }
        FaultKind::NullContent => {
            choices.iter_mut().for_each(|choice| choice.text = None);
            for item in &mut reply.items {
                for field in ["embedding", "relevance_score"] {
                    if let Some(value) = item.get_mut(field) {
                        *value = Value::Null;
                    }
                }
            }
        }
        FaultKind::ContentFilter => {
            for choice in choices {
                choice.text = Some(String::new());
                choice.reasoning = None;
                choice.finish = "content_filter";
            }
        }
        FaultKind::Length => {
            for choice in choices {
                if let Some(text) = &mut choice.text {
                    text.truncate(text.floor_char_boundary(text.len() / 2));
                }
                choice.finish = "length";
                choice.stop_reason = None;
            }
        }
        FaultKind::WrongModel => reply.model = format!("{}-other", reply.model),
        _ => {}
    }
}

impl ReplyDelivery {
    /// The delivery of an answer; each token of a stream takes `per_token`.
    pub(crate) fn new(reply: &SimulatedReply, per_token: Duration) -> Self {
        let Some(usage) = reply.stream else {
            let bytes = Bytes::from(reply.document().to_string());
            let length = Some(bytes.len());
            return Self {
                steps: VecDeque::from([DeliveryStep::Bytes(bytes)]),
                content_type: "application/json",
                length,
            };
        };
        let group = if per_token.is_zero() { TOKENS_AT_ONCE } else { 1 };
        let mut steps = VecDeque::new();
        for piece in reply.stream_pieces(usage, group) {
            let pause = per_token * piece.tokens as u32;
            if !pause.is_zero() {
                steps.push_back(DeliveryStep::Pause(pause));
            }
            steps.push_back(DeliveryStep::Bytes(piece.bytes));
        }
        Self { steps, content_type: "text/event-stream", length: None }
    }

    /// Changes the delivery as a fault of it does.
    pub(crate) fn spoil(&mut self, fault: FaultKind, settings: &FaultSettings) {
        match fault {
            FaultKind::ResetAfterHeaders => {
                self.keep_half();
                self.steps.extend([DeliveryStep::Pause(LAST_BYTES), DeliveryStep::Reset]);
            }
            FaultKind::CutBody => {
                self.keep_half();
                self.steps.extend([DeliveryStep::Pause(LAST_BYTES), DeliveryStep::Cut]);
            }
            FaultKind::BadJson => {
                self.keep_half();
                self.length = self.length.map(|_| self.byte_count());
            }
            FaultKind::StallInBody => {
                let rest = self.keep_half();
                self.steps.push_back(DeliveryStep::Pause(Duration::from_millis(settings.stall_ms)));
                self.steps.extend(rest);
            }
            FaultKind::Drip => {
                let pause = Duration::from_millis(settings.drip_ms);
                let pieces: Vec<Bytes> = self.steps.drain(..).filter_map(step_bytes).collect();
                for whole in pieces {
                    for start in (0..whole.len()).step_by(settings.drip_bytes) {
                        let end = whole.len().min(start + settings.drip_bytes);
                        self.steps.push_back(DeliveryStep::Bytes(whole.slice(start..end)));
                        self.steps.push_back(DeliveryStep::Pause(pause));
                    }
                }
            }
            _ => {}
        }
    }

    fn byte_count(&self) -> usize {
        self.steps.iter().map(|step| if let DeliveryStep::Bytes(bytes) = step { bytes.len() } else { 0 }).sum()
    }

    /// Keeps the first half of the bytes, and returns the steps of the second.
    fn keep_half(&mut self) -> VecDeque<DeliveryStep> {
        let mut left = self.byte_count() / 2;
        let mut place = 0;
        while let Some(step) = self.steps.get_mut(place) {
            place += 1;
            let DeliveryStep::Bytes(bytes) = step else { continue };
            if bytes.len() <= left {
                left -= bytes.len();
                continue;
            }
            let rest = bytes.split_off(left);
            let mut second = self.steps.split_off(place);
            second.push_front(DeliveryStep::Bytes(rest));
            return second;
        }
        VecDeque::new()
    }

    /// The response. `delivered` runs when all was handed over; it is dropped without running if the caller goes away
    /// or the connection is broken first.
    pub(crate) fn into_response(
        self,
        switch: ConnectionSwitch,
        delivered: impl FnOnce() + Send + 'static,
    ) -> Response<Body> {
        let Self { steps, content_type, length } = self;
        // Most answers are one piece, which needs no stream.
        let whole = match steps.front() {
            Some(DeliveryStep::Bytes(bytes)) if steps.len() == 1 => Some(bytes.clone()),
            _ => None,
        };
        let body = match whole {
            Some(bytes) => {
                delivered();
                Body::from(bytes)
            }
            None => Body::from_stream(stream::unfold((steps, switch, Some(delivered)), hand_over)),
        };
        let mut response = Response::new(body);
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        if let Some(length) = length {
            response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(length));
        }
        response
    }
}

type HandOver<F> = (VecDeque<DeliveryStep>, ConnectionSwitch, Option<F>);

/// The next bytes of a body.
async fn hand_over<F: FnOnce()>(state: HandOver<F>) -> Option<(io::Result<Bytes>, HandOver<F>)> {
    let (mut steps, switch, mut delivered) = state;
    let broken = io::Error::from(io::ErrorKind::ConnectionAborted);
    while let Some(step) = steps.pop_front() {
        match step {
            DeliveryStep::Pause(pause) => tokio::time::sleep(pause).await,
            DeliveryStep::Bytes(bytes) => {
                // With the last bytes the caller has everything: whoever counts answers must not be behind it.
                let is_last = !steps.iter().any(|step| !matches!(step, DeliveryStep::Pause(_)));
                if let Some(delivered) = delivered.take_if(|_| is_last) {
                    delivered();
                }
                return Some((Ok(bytes), (steps, switch, delivered)));
            }
            // The call ends before the caller can see it.
            DeliveryStep::Reset => {
                switch.reset();
                return Some((Err(broken), (VecDeque::new(), switch, None)));
            }
            DeliveryStep::Cut => return Some((Err(broken), (VecDeque::new(), switch, None))),
        }
    }
    None
}

fn step_bytes(step: DeliveryStep) -> Option<Bytes> {
    if let DeliveryStep::Bytes(bytes) = step { Some(bytes) } else { None }
}
