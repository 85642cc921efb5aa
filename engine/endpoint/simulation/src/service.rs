//! Answers one call: the key, the fault, the limits, the model, the time, the delivery; and notes its end.

use std::fs::File;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::{HeaderMap, Response, header};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::delivery::{ReplyDelivery, fault_fits, spoil_reply};
use crate::draw::{normal_draw, unit_draw};
use crate::fault::FaultKind;
use crate::ledger::{BegunCall, CallLedger, CallOutcome, CallTokens, CallVerdict};
use crate::limits::{RateLimits, ReachedLimit, retry_after};
use crate::model::SimulatedModel;
use crate::pass_through::PassThrough;
use crate::port::{ConnectionSwitch, PortGate};
use crate::refusal::{CallRefusal, add_headers};
use crate::reply::{ReplyKind, SimulatedReply};
use crate::settings::{LatencySettings, RetryAfter, SimulationSettings};

/// The state that all calls share.
pub(crate) struct SharedService {
    core: Mutex<ServiceCore>,
    passing: PassThrough,
    pub(crate) gate: Arc<PortGate>,
}

/// The state behind the lock. No call waits while it holds it.
pub(crate) struct ServiceCore {
    pub(crate) settings: Arc<SimulationSettings>,
    /// The begin of the schedule.
    since: Instant,
    pub(crate) ledger: CallLedger,
    limits: RateLimits,
    model: SimulatedModel,
    slots: Option<Arc<Semaphore>>,
}

impl SharedService {
    pub(crate) fn new(settings: SimulationSettings, log: Option<File>) -> Self {
        let now = Instant::now();
        let core = ServiceCore {
            since: now,
            ledger: CallLedger::new(settings.log, log),
            limits: RateLimits::new(&settings.limits, now),
            model: SimulatedModel::new(),
            slots: settings.limits.slots.map(|slots| Arc::new(Semaphore::new(slots))),
            settings: Arc::new(settings),
        };
        Self { core: Mutex::new(core), passing: PassThrough::default(), gate: Arc::default() }
    }

    pub(crate) fn lock_core(&self) -> MutexGuard<'_, ServiceCore> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts other settings in force. The schedule begins anew; limits begin anew if they changed.
    pub(crate) fn change_settings(&self, settings: SimulationSettings) {
        let now = Instant::now();
        let mut core = self.lock_core();
        if settings.limits != core.settings.limits {
            core.limits = RateLimits::new(&settings.limits, now);
            core.slots = settings.limits.slots.map(|slots| Arc::new(Semaphore::new(slots)));
        }
        core.ledger.set_bounds(settings.log);
        core.since = now;
        core.settings = Arc::new(settings);
        self.gate.open();
    }

    /// The moment until which the schedule closes the port; `None` if it does not now.
    pub(crate) fn scheduled_closing(&self) -> Option<Instant> {
        let core = self.lock_core();
        let elapsed = core.since.elapsed().as_secs_f64();
        let windows = core.settings.faults.schedule.iter().filter(|window| window.kind == FaultKind::Refused);
        let until =
            windows.filter(|window| window.from_s <= elapsed && elapsed < window.to_s).map(|window| window.to_s);
        until.max_by(f64::total_cmp).map(|seconds| core.since + bounded_duration(seconds))
    }
}

/// An answer that the limits admit.
struct AdmittedReply {
    reply: SimulatedReply,
    rate_headers: Vec<(String, String)>,
    slots: Option<Arc<Semaphore>>,
}

impl ServiceCore {
    fn admit_reply(
        &mut self,
        settings: &SimulationSettings,
        reply: Result<SimulatedReply, CallRefusal>,
    ) -> Result<AdmittedReply, (CallOutcome, CallRefusal)> {
        let reply = reply.map_err(|refusal| (CallOutcome::Refused, refusal))?;
        let tokens = reply.tokens.prompt + reply.tokens.completion;
        let taken = self.limits.take_call(tokens, self.ledger.summary(), Instant::now());
        taken.map_err(|reached| (CallOutcome::Limited, limit_refusal(settings, &self.limits, reached)))?;
        Ok(AdmittedReply { reply, rate_headers: self.limits.headers(), slots: self.slots.clone() })
    }
}

/// A call that is open. Its end is noted when it is dropped.
struct OpenCall {
    service: Arc<SharedService>,
    call: BegunCall,
    verdict: CallVerdict,
    _slot: Option<OwnedSemaphorePermit>,
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        let mut core = self.service.lock_core();
        let settings = Arc::clone(&core.settings);
        core.ledger.end_call(&self.call, self.verdict, &settings.price);
    }
}

impl OpenCall {
    fn begin(service: &Arc<SharedService>, path: &str, body: &[u8]) -> Self {
        let hash = *blake3::hash(body).as_bytes();
        let call = service.lock_core().ledger.begin_call(path, hash);
        let verdict = CallVerdict {
            outcome: CallOutcome::CallerGone,
            status: 0,
            fault: None,
            tokens: CallTokens::default(),
            is_billed: false,
        };
        Self { service: Arc::clone(service), call, verdict, _slot: None }
    }

    fn refuse(mut self, outcome: CallOutcome, refusal: CallRefusal) -> Response<Body> {
        self.verdict.outcome = outcome;
        self.verdict.status = refusal.status;
        refusal.into_response()
    }
}

/// Answers a call of one of the four interfaces.
pub(crate) async fn serve_call(
    service: Arc<SharedService>,
    kind: ReplyKind,
    path: &str,
    headers: &HeaderMap,
    body: &[u8],
    switch: ConnectionSwitch,
) -> Response<Body> {
    let mut open = OpenCall::begin(&service, path, body);
    let settings = Arc::clone(&service.lock_core().settings);
    if !has_key(&settings, headers) {
        return open.refuse(CallOutcome::Refused, CallRefusal::unauthorized());
    }
    let fault = choose_fault(&service, &settings, &open.call).filter(|&fault| fault_fits(fault, kind));
    if let Some(fault) = fault {
        service.lock_core().ledger.note_fault(&open.call.body);
        open.verdict.fault = Some(fault);
        if let Some(refusal) = early_fault(&service, &settings, fault, &switch) {
            open.verdict.outcome = CallOutcome::Fault;
            open.verdict.status = fault.row().status;
            return refusal.into_response();
        }
    }
    // The end of a call is noted under the same lock, so it must be free when `open` goes.
    let computed = match &settings.pass_through {
        Some(base) => service.passing.answer(&settings, base, kind, body).await,
        None => service.lock_core().model.answer(&settings, kind, body, &open.call.body),
    };
    let admitted = service.lock_core().admit_reply(&settings, computed);
    let AdmittedReply { mut reply, rate_headers, slots } = match admitted {
        Ok(admitted) => admitted,
        Err((outcome, refusal)) => return open.refuse(outcome, refusal),
    };
    if let Some(slots) = slots {
        // A semaphore that is never closed always gives its permit.
        open._slot = slots.acquire_owned().await.ok();
    }
    open.verdict.tokens = reply.tokens;
    open.verdict.is_billed = fault.is_none_or(|fault| fault.row().billed);
    open.verdict.status = 200;
    if let Some(fault) = fault {
        open.verdict.outcome = CallOutcome::Fault;
        spoil_reply(&mut reply, fault);
        if fault == FaultKind::StallBeforeHeaders {
            tokio::time::sleep(Duration::from_millis(settings.faults.stall_ms)).await;
        }
    }
    let latency = &settings.latency;
    let per_token = bounded_duration(latency.per_token_ms / 1000.0);
    let mut wait = first_token_after(latency, settings.seed, &open.call, reply.tokens.prompt);
    if reply.stream.is_none() {
        wait += per_token * u32::try_from(reply.tokens.completion).unwrap_or(u32::MAX);
    }
    if !wait.is_zero() {
        tokio::time::sleep(wait).await;
    }
    let mut delivery = ReplyDelivery::new(&reply, per_token);
    if let Some(fault) = fault {
        delivery.spoil(fault, &settings.faults);
    }
    let is_answer = fault.is_none_or(reaches_caller);
    let mut response = delivery.into_response(switch, move || {
        if is_answer {
            open.verdict.outcome = CallOutcome::Answered;
        }
        drop(open);
    });
    add_headers(&mut response, rate_headers);
    response
}

/// Whether a caller that waits gets an answer in spite of the fault.
fn reaches_caller(fault: FaultKind) -> bool {
    matches!(
        fault,
        FaultKind::StallBeforeHeaders
            | FaultKind::StallInBody
            | FaultKind::Drip
            | FaultKind::Length
            | FaultKind::ContentFilter
            | FaultKind::WrongModel
    )
}

/// Whether a call has the key, if one is needed.
pub(crate) fn has_key(settings: &SimulationSettings, headers: &HeaderMap) -> bool {
    let Some(key) = &settings.api_key else { return true };
    let value = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let bearer = value(header::AUTHORIZATION.as_str()).and_then(|value| value.strip_prefix("Bearer "));
    [bearer, value("api-key")].contains(&Some(key.as_str()))
}

/// The fault of a call, by schedule or by draw.
fn choose_fault(service: &SharedService, settings: &SimulationSettings, call: &BegunCall) -> Option<FaultKind> {
    let faults = &settings.faults;
    if !faults.schedule.is_empty() {
        let now = service.lock_core().since.elapsed().as_secs_f64();
        let window = faults.schedule.iter().find(|window| window.from_s <= now && now < window.to_s);
        if let Some(window) = window {
            return Some(window.kind);
        }
    }
    if faults.per_body.is_some_and(|most| call.faults_before >= most) {
        return None;
    }
    let attempt = call.attempt.to_le_bytes();
    let draw = unit_draw(settings.seed, "fault", &[&call.body, &attempt]);
    if faults.rates.is_empty() {
        let place = (draw < faults.rate).then(|| (draw / faults.rate * faults.kinds.len() as f64) as usize)?;
        return faults.kinds.get(place.min(faults.kinds.len() - 1)).copied();
    }
    let mut sum = 0.0;
    faults.rates.iter().find_map(|(&kind, rate)| {
        sum += rate;
        (draw < sum).then_some(kind)
    })
}

/// The response of a fault that needs no answer.
fn early_fault(
    service: &SharedService,
    settings: &SimulationSettings,
    fault: FaultKind,
    switch: &ConnectionSwitch,
) -> Option<CallRefusal> {
    let faults = &settings.faults;
    if fault == FaultKind::Refused {
        let until = service.scheduled_closing();
        let until = until.unwrap_or_else(|| Instant::now() + Duration::from_millis(faults.refused_ms));
        service.gate.close_until(until);
    }
    if matches!(fault, FaultKind::Refused | FaultKind::ResetBeforeHeaders) {
        switch.reset();
    }
    let form = match fault {
        FaultKind::LimitSeconds => RetryAfter::Seconds,
        FaultKind::LimitDate => RetryAfter::Date,
        _ => RetryAfter::None,
    };
    let model = settings.models.first().map_or("simulated-llm", String::as_str);
    let value = retry_after(form, Duration::from_secs(faults.retry_after_s));
    CallRefusal::of_fault(fault, settings.context_tokens, model, value)
}

fn limit_refusal(settings: &SimulationSettings, limits: &RateLimits, reached: ReachedLimit) -> CallRefusal {
    let mut refusal = match reached {
        ReachedLimit::Quota => CallRefusal::quota(),
        ReachedLimit::Later { limit, wait_s } => {
            CallRefusal::limited(limit, retry_after(settings.limits.retry_after, bounded_duration(wait_s)))
        }
    };
    refusal.headers.extend(limits.headers());
    refusal
}

/// The time until the first token.
fn first_token_after(latency: &LatencySettings, seed: u64, call: &BegunCall, prompt: u64) -> Duration {
    let spread = match latency.sigma {
        0.0 => 1.0,
        sigma => (sigma * normal_draw(seed, "latency", &[&call.body, &call.attempt.to_le_bytes()])).exp(),
    };
    let ms = latency.first_ms * spread + latency.per_prompt_kilotoken_ms * prompt as f64 / 1000.0;
    bounded_duration(ms / 1000.0)
}

/// At most a year: settings and draws far out in the tail must not overflow a duration.
fn bounded_duration(seconds: f64) -> Duration {
    const YEAR: f64 = 365.0 * 86_400.0;
    Duration::from_secs_f64(seconds.min(YEAR))
}
