//! Admission: one owner of an endpoint's limits, which lets attempts begin in the order in which they came.
//!
//! [`FlowState`] decides, without I/O and with times as arguments; [`FlowGate`] keeps the attempts that wait and wakes
//! them. An attempt may begin when a replica takes it, the calls in flight leave room, and both rates allow it.

mod concurrency;
mod failing;
mod outage;
mod rate;
mod replicas;

use crate::exchange::retry_after::RemainingLimit;
use crate::host::EndpointFault;
use crate::settings::EndpointSettings;
use crate::verdict::ServerSignal;
use concurrency::ConcurrencyLimit;
pub(crate) use failing::ServerSign;
use failing::{AnswersSeen, FailingCalls};
use outage::OutageClock;
use rate::RateLimit;
use replicas::{ReplicaChoice, ReplicaSet};
use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

/// Limits without an answer between after which all calls wait, not only the limited one.
const HOLDING_LIMITS: u32 = 3;

/// The longest time that headers may hold all calls of an endpoint without a stated rate; they are hints.
const LONGEST_HOLD: Duration = Duration::from_secs(60);

/// The same where a rate is stated. Headers name the time until a limit is *whole* again, and a server that fills its
/// limit steadily would idle for most of it; of one that fills it at once the first 429 says how long it really is.
const LONGEST_RATE_HOLD: Duration = Duration::from_secs(2);

/// The wish of a call for an attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttemptWish {
    /// The number of the call.
    pub(crate) call: u64,
    /// Tokens to reserve.
    pub(crate) tokens: u64,
    /// A hash of the prompt's beginning.
    pub(crate) prefix: u64,
    /// The replica that failed the call last.
    pub(crate) avoid: Option<usize>,
}

/// An attempt that may begin.
#[derive(Clone, Copy, Debug)]
struct AttemptGrant {
    call: u64,
    replica: usize,
    probe: bool,
    /// The attempt's number.
    number: u64,
    reserved: u64,
    begun: Instant,
}

/// An attempt's end, as the limits see it.
#[derive(Clone, Debug)]
pub(crate) struct AttemptEnd<'a> {
    /// The server's state.
    pub(crate) signal: ServerSignal,
    /// Whether it is the fault of a connection that another attempt has told.
    pub(crate) repeats: bool,
    /// Whether a fault may be the request's own.
    pub(crate) may_be_own: bool,
    /// Tokens that the server counts for it.
    pub(crate) tokens: u64,
    /// The time that the server names for the next attempt.
    pub(crate) named: Option<Duration>,
    /// The rest of the limits by the answer's headers: requests, tokens.
    pub(crate) remaining: [Option<RemainingLimit>; 2],
    /// The reason, for people.
    pub(crate) message: &'a str,
}

/// The effect of an attempt's end on its call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AttemptEffect {
    /// Whether the attempt counts: it does not while the endpoint is suspect.
    pub(crate) counted: bool,
    /// Whether the answers since the call's first fault show that the endpoint works for others.
    pub(crate) saw_answers: bool,
}

enum Admission {
    Now(AttemptGrant),
    NotBefore(Instant),
    AfterAnEnd,
}

/// The state of an endpoint's limits.
struct FlowState {
    concurrency: ConcurrencyLimit,
    requests: Option<RateLimit>,
    tokens: Option<RateLimit>,
    replicas: ReplicaSet,
    outage: OutageClock,
    failing: FailingCalls,
    /// Limits since the last answer.
    limits: u32,
    /// No attempt begins before.
    held: Option<Instant>,
    /// Answers so far.
    answers: u64,
    /// The largest number of an attempt that was answered: one that began after a fault shows more than an older one.
    newest_answer: Option<u64>,
    attempts: u64,
    /// The numbers of the attempts in flight.
    under_way: BTreeSet<u64>,
    closed: bool,
    waiting: VecDeque<(AttemptWish, oneshot::Sender<AttemptPermit>)>,
}

impl FlowState {
    fn new(settings: &EndpointSettings, replicas: usize, now: Instant) -> Self {
        let (first, longest) = (settings.first_pause_s, settings.longest_pause_s);
        let pauses = (Duration::from_secs_f64(first), Duration::from_secs_f64(longest));
        Self {
            concurrency: ConcurrencyLimit::new(settings.concurrency),
            requests: settings.requests_per_minute.map(|limit| RateLimit::per_minute(limit, now)),
            tokens: settings.tokens_per_minute.map(|limit| RateLimit::per_minute(limit, now)),
            replicas: ReplicaSet::new(replicas, pauses.0, pauses.1, now),
            outage: OutageClock::new(settings.patience()),
            failing: FailingCalls::default(),
            limits: 0,
            held: None,
            answers: 0,
            newest_answer: None,
            attempts: 0,
            under_way: BTreeSet::new(),
            closed: false,
            waiting: VecDeque::new(),
        }
    }

    /// Whether an attempt may begin now.
    fn admit(&mut self, wish: AttemptWish, now: Instant) -> Admission {
        let mut ready = self.held.unwrap_or(now);
        if let Some(requests) = &mut self.requests {
            ready = ready.max(requests.ready_at(1.0, now));
        }
        if let Some(tokens) = &mut self.tokens {
            ready = ready.max(tokens.ready_at(wish.tokens as f64, now));
        }
        if ready > now {
            return Admission::NotBefore(ready);
        }
        let full = self.replicas.load(now) >= self.concurrency.current();
        match self.replicas.choose(wish.prefix, wish.avoid, now) {
            ReplicaChoice::NotBefore(time) => Admission::NotBefore(time),
            ReplicaChoice::AllProbed => Admission::AfterAnEnd,
            // A probe needs no room: calls that hang must not keep an endpoint from being probed.
            ReplicaChoice::Take { probe: false, .. } if full => Admission::AfterAnEnd,
            ReplicaChoice::Take { replica, probe } => {
                self.replicas.begin(replica, now);
                if let Some(requests) = &mut self.requests {
                    requests.spend(1.0, now);
                }
                if let Some(tokens) = &mut self.tokens {
                    tokens.spend(wish.tokens as f64, now);
                }
                let number = self.attempts;
                self.attempts += 1;
                self.under_way.insert(number);
                let AttemptWish { call, tokens: reserved, .. } = wish;
                Admission::Now(AttemptGrant { call, replica, probe, number, reserved, begun: now })
            }
        }
    }

    /// An attempt ended with a sign of the server.
    fn settle(&mut self, grant: AttemptGrant, end: &AttemptEnd<'_>, now: Instant) -> AttemptEffect {
        self.under_way.remove(&grant.number);
        if let Some(tokens) = &mut self.tokens {
            tokens.spend(end.tokens as f64 - grant.reserved as f64, now);
        }
        let mut counted = true;
        match end.signal {
            ServerSignal::Alive => {
                self.answers += 1;
                self.newest_answer = self.newest_answer.max(Some(grant.number));
                self.limits = 0;
                self.held = None;
                self.concurrency.increase();
                self.outage.answered();
                self.failing.answered(grant.call);
                if self.replicas.succeed(grant.replica, Some(now.saturating_duration_since(grant.begun)), now) {
                    tracing::info!(replica = grant.replica, "the endpoint answers again");
                }
            }
            ServerSignal::Limited => {
                self.limits += 1;
                // Slow answers need many calls in flight to use a rate: where a rate is stated, it alone gives way.
                match self.requests.is_none() && self.tokens.is_none() {
                    true => self.concurrency.decrease(grant.number, self.attempts),
                    false => self.requests.iter_mut().chain(&mut self.tokens).for_each(|rate| rate.decrease(now)),
                }
                self.outage.limited(end.named, end.message, self.attempts, now);
                // The time of a refusal is no time of an answer.
                self.replicas.succeed(grant.replica, None, now);
                if self.limits >= HOLDING_LIMITS {
                    self.held = end.named.map(|named| now + named).max(self.held);
                }
            }
            // One broken connection of many calls is one fault, and no call's own.
            ServerSignal::Faulty if end.repeats => {
                self.replicas.abandon(grant.replica, grant.probe);
                counted = false;
            }
            ServerSignal::Faulty => {
                self.outage.failed(end.message, now);
                self.failing.failed(grant.call, end.may_be_own, self.answers_seen());
                if self.replicas.fail(grant.replica, grant.probe, now) {
                    tracing::warn!(replica = grant.replica, "the endpoint does not answer: {}", end.message);
                    self.concurrency.decrease(grant.number, self.attempts);
                }
                counted = !self.replicas.is_suspect(grant.replica);
            }
        }
        // Behind the match: an answer ends what was held before, and its headers may hold again.
        self.heed_headers(end, grant.begun);
        AttemptEffect { counted, saw_answers: self.failing.saw_answers(grant.call, self.answers_seen()) }
    }

    /// The answers so far.
    fn answers_seen(&self) -> AnswersSeen {
        AnswersSeen { answers: self.answers, newest: self.newest_answer, begun: self.attempts }
    }

    /// Whether an outage has outlasted the patience.
    fn is_outlasted(&self, now: Instant) -> bool {
        self.outage.is_outlasted(self.replicas.all_suspect(), now)
    }

    /// Takes the rest of the server's limits from the headers of an answer: with nothing left, nothing is sent until
    /// the limit is whole again. Servers count when a call arrives, and the answer may come long after that.
    fn heed_headers(&mut self, end: &AttemptEnd<'_>, begun: Instant) {
        for (remaining, rate) in end.remaining.iter().zip([&mut self.requests, &mut self.tokens]) {
            let Some(remaining) = remaining.filter(|remaining| remaining.remaining == 0) else { continue };
            match rate {
                Some(rate) => rate.hold_until(begun + remaining.reset.min(LONGEST_RATE_HOLD)),
                None => self.held = self.held.max(Some(begun + remaining.reset.min(LONGEST_HOLD))),
            }
        }
    }
}

/// One look at the attempts that wait.
struct GateLook {
    /// Those that may begin, with the places where they wait.
    granted: Vec<(oneshot::Sender<AttemptPermit>, AttemptPermit)>,
    /// The next time at which something happens by itself.
    next: Option<Instant>,
    /// The end of the patience.
    fault: Option<EndpointFault>,
}

/// The attempts that wait for an endpoint, and its limits.
pub(crate) struct FlowGate {
    state: Mutex<FlowState>,
    /// Something changed that the timer must know.
    changed: Notify,
}

impl FlowGate {
    pub(crate) fn new(settings: &EndpointSettings, replicas: usize) -> Arc<Self> {
        let state = Mutex::new(FlowState::new(settings, replicas, Instant::now()));
        Arc::new(Self { state, changed: Notify::new() })
    }

    fn lock(&self) -> MutexGuard<'_, FlowState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until an attempt may begin. `None`: none begins any more, as the endpoint is closed or the call was given
    /// up.
    pub(crate) async fn admit(self: &Arc<Self>, wish: AttemptWish) -> Option<AttemptPermit> {
        let receiver = {
            let mut state = self.lock();
            if state.closed || state.failing.is_given_up(wish.call) {
                return None;
            }
            if state.waiting.is_empty()
                && let Admission::Now(grant) = state.admit(wish, Instant::now())
            {
                return Some(AttemptPermit { gate: self.clone(), grant: Some(grant) });
            }
            let (sender, receiver) = oneshot::channel();
            state.waiting.push_back((wish, sender));
            receiver
        };
        self.changed.notify_one();
        receiver.await.ok()
    }

    /// Lets attempts begin, now and whenever time allows it, until the endpoint is closed or its patience ends. The
    /// fault of that end is returned, for [`Self::give_up`] or [`Self::close`].
    pub(crate) async fn run_timer(self: &Arc<Self>) -> Option<EndpointFault> {
        loop {
            let changed = self.changed.notified();
            let GateLook { granted, next, fault } = self.grant_all(Instant::now());
            for (sender, permit) in granted {
                // A call that is gone drops its permit, which notifies this loop.
                drop(sender.send(permit));
            }
            if fault.is_some() {
                return fault;
            }
            if self.lock().closed {
                return None;
            }
            match next {
                Some(time) => drop(tokio::time::timeout_at(time, changed).await),
                None => changed.await,
            }
        }
    }

    /// The attempts that may begin, the next time at which something happens by itself, and the end of the patience.
    fn grant_all(self: &Arc<Self>, now: Instant) -> GateLook {
        let mut state = self.lock();
        let (all_suspect, oldest) = (state.replicas.all_suspect(), state.under_way.first().copied());
        if let Some(fault) = state.outage.fault_at(all_suspect, oldest, now) {
            return GateLook { granted: Vec::new(), next: None, fault: Some(fault) };
        }
        let mut granted = Vec::new();
        let mut next = state.outage.ends_at(all_suspect, oldest);
        while let Some((wish, _)) = state.waiting.front() {
            let wish = *wish;
            match state.admit(wish, now) {
                Admission::Now(grant) => {
                    if let Some((_, sender)) = state.waiting.pop_front() {
                        granted.push((sender, AttemptPermit { gate: self.clone(), grant: Some(grant) }));
                    }
                }
                Admission::NotBefore(time) => {
                    next = Some(next.map_or(time, |next| next.min(time)));
                    break;
                }
                // A replica may fall silent meanwhile, which makes room.
                Admission::AfterAnEnd => {
                    let look = now + Duration::from_millis(200);
                    next = Some(next.map_or(look, |next| next.min(look)));
                    break;
                }
            }
        }
        GateLook { granted, next, fault: None }
    }

    /// Whether the patience ended in an outage whose failing calls are at fault themselves, if the server gives a sign.
    pub(crate) fn may_give_up(&self, sign: ServerSign) -> bool {
        let state = self.lock();
        state.is_outlasted(Instant::now()) && state.failing.are_at_fault(sign, state.answers_seen())
    }

    /// Gives up the failing calls, if they are at fault themselves by the server's sign, and lets the patience begin
    /// anew. Returns whether it goes on; it does, too, if the server has answered meanwhile.
    pub(crate) fn give_up(&self, sign: ServerSign) -> bool {
        let mut state = self.lock();
        if !state.is_outlasted(Instant::now()) {
            return true;
        }
        if !state.failing.are_at_fault(sign, state.answers_seen()) {
            return false;
        }
        let FlowState { failing, waiting, outage, .. } = &mut *state;
        let calls = failing.give_up();
        if calls > 0 {
            tracing::warn!("{calls} calls fail though the server is there: they are given up");
        }
        waiting.retain(|(wish, _)| !failing.is_given_up(wish.call));
        outage.answered();
        true
    }

    /// Whether a call was given up.
    pub(crate) fn is_given_up(&self, call: u64) -> bool {
        self.lock().failing.is_given_up(call)
    }

    /// A call ended.
    pub(crate) fn forget(&self, call: u64) {
        self.lock().failing.forget(call);
    }

    /// Lets no attempt begin any more. Calls that wait stay without an answer.
    pub(crate) fn close(&self) {
        let waiting = {
            let mut state = self.lock();
            state.closed = true;
            std::mem::take(&mut state.waiting)
        };
        drop(waiting);
        self.changed.notify_one();
    }

    /// Calls in flight, calls that wait, and the most that may be in flight.
    pub(crate) fn load(&self) -> (usize, usize, usize) {
        let state = self.lock();
        (state.replicas.in_flight(), state.waiting.len(), state.concurrency.current())
    }
}

/// The permission for one attempt. Dropped, it says that the attempt ended without a sign of the server.
pub(crate) struct AttemptPermit {
    gate: Arc<FlowGate>,
    grant: Option<AttemptGrant>,
}

impl AttemptPermit {
    /// The replica to ask.
    pub(crate) fn replica(&self) -> usize {
        self.grant.map_or(0, |grant| grant.replica)
    }

    /// The attempt ended with a sign of the server.
    pub(crate) fn settle(mut self, end: &AttemptEnd<'_>) -> AttemptEffect {
        match self.grant.take() {
            Some(grant) => {
                let mut state = self.gate.lock();
                let effect = state.settle(grant, end, Instant::now());
                if !state.waiting.is_empty() || end.signal != ServerSignal::Alive {
                    self.gate.changed.notify_one();
                }
                effect
            }
            None => AttemptEffect { counted: false, saw_answers: false },
        }
    }
}

impl Drop for AttemptPermit {
    fn drop(&mut self) {
        if let Some(grant) = self.grant.take() {
            let mut state = self.gate.lock();
            state.under_way.remove(&grant.number);
            state.replicas.abandon(grant.replica, grant.probe);
            if let Some(tokens) = &mut state.tokens {
                tokens.spend(-(grant.reserved as f64), Instant::now());
            }
            drop(state);
            self.gate.changed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests;
