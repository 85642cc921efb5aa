//! The calls that fail, and whose fault that is when the patience ends: their own, or the endpoint's.
//!
//! ```text
//!   attempt fails --> failing --its call ends--> forgotten
//!                        |
//!                        +-- the patience ends, all failing calls are at fault themselves --> given up: they fail
//!                        +-- the patience ends otherwise --> the endpoint is down, no call ends
//! ```
//!
//! | answers since the call's first fault | sign of the server now | last fault | failing calls | at fault is |
//! | --- | --- | --- | --- | --- |
//! | some | works, or is there | may be the request's own | any number | the call |
//! | some, of an attempt that began since then | works, or is there | any | any number | the call |
//! | none | works | may be the request's own | few | the call |
//! | of given up calls alone | works | | few | the call |
//! | else | | | | the endpoint |
//!
//! A server that goes down may still end what it has begun, so such an answer says nothing about a fault that comes
//! from no request (`verdict.rs` has which). An answer of long ago does not show that a server is there: the sign is
//! asked for when the patience ends. *Few* are fewer than make a server suspect ([`SUSPICION`]), together with those
//! that were given up since the last answer: a server that answers no call may list its models still.

use super::replicas::SUSPICION;
use std::collections::{BTreeMap, BTreeSet};

/// A server's sign of life: its reply to a request that costs nothing. The better one is the larger one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ServerSign {
    /// No reply, or one that shows no server at work: 5xx, a page.
    Absent,
    /// A refusal: 4xx. It is there, and that is all.
    Present,
    /// The wanted reply.
    Working,
}

/// The open calls whose attempts fail.
#[derive(Debug, Default)]
pub(super) struct FailingCalls {
    /// By the number of the call.
    failing: BTreeMap<u64, FailingCall>,
    /// Calls that were given up, until they end.
    given_up: BTreeSet<u64>,
    /// How many were given up since the last answer.
    given_up_in_row: usize,
}

#[derive(Clone, Copy, Debug)]
struct FailingCall {
    /// The endpoint's answers before the call's first fault.
    before: AnswersSeen,
    /// Whether the last fault may be the request's own.
    may_be_own: bool,
}

/// The answers of an endpoint until a time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AnswersSeen {
    /// Their number.
    pub(super) answers: u64,
    /// The largest number of an attempt that was answered.
    pub(super) newest: Option<u64>,
    /// The attempts that had begun: the least number of a later one.
    pub(super) begun: u64,
}

impl FailingCall {
    /// Whether the answers since the call's first fault show that the server works for others.
    fn saw_answers(self, now: AnswersSeen) -> bool {
        match self.may_be_own {
            true => now.answers > self.before.answers,
            false => now.newest.is_some_and(|newest| newest >= self.before.begun),
        }
    }
}

impl FailingCalls {
    /// An attempt of a call failed, after `before`.
    pub(super) fn failed(&mut self, call: u64, may_be_own: bool, before: AnswersSeen) {
        if !self.given_up.contains(&call) {
            let first = FailingCall { before, may_be_own };
            self.failing.entry(call).or_insert(first).may_be_own = may_be_own;
        }
    }

    /// The endpoint answered an attempt of a call. If the call was given up meanwhile, it goes on. Such an answer, with
    /// a part of its choices, does not show that a later fault is the call's.
    pub(super) fn answered(&mut self, call: u64) {
        self.given_up_in_row = 0;
        self.failing.remove(&call);
        self.given_up.remove(&call);
    }

    /// A call ended.
    pub(super) fn forget(&mut self, call: u64) {
        self.failing.remove(&call);
        self.given_up.remove(&call);
    }

    /// Whether the answers since a call's first fault show that the server works for others.
    pub(super) fn saw_answers(&self, call: u64, now: AnswersSeen) -> bool {
        self.failing.get(&call).is_some_and(|failing| failing.saw_answers(now))
    }

    /// Whether a call was given up.
    pub(super) fn is_given_up(&self, call: u64) -> bool {
        self.given_up.contains(&call)
    }

    /// Whether all failing calls are at fault themselves, by the server's sign and its answers. Without a failing call
    /// the last faults were of calls that were given up before.
    pub(super) fn are_at_fault(&self, sign: ServerSign, now: AnswersSeen) -> bool {
        let few = self.failing.len() + self.given_up_in_row < SUSPICION as usize;
        if self.failing.is_empty() {
            return sign == ServerSign::Working && few;
        }
        self.failing.values().all(|call| match call.saw_answers(now) {
            true => sign >= ServerSign::Present,
            false => sign == ServerSign::Working && call.may_be_own && few,
        })
    }

    /// Gives up all failing calls. Their number.
    pub(super) fn give_up(&mut self) -> usize {
        let calls = self.failing.len();
        self.given_up.extend(std::mem::take(&mut self.failing).into_keys());
        self.given_up_in_row += calls;
        calls
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ServerSign::{Absent, Present, Working};

    /// After so many answers; each answered the attempt that had begun last.
    fn seen(answers: u64) -> AnswersSeen {
        AnswersSeen { answers, newest: answers.checked_sub(1), begun: answers }
    }

    /// Calls that fail after `answers` answers.
    fn failing(calls: u64, may_be_own: bool, answers: u64) -> FailingCalls {
        let mut found = FailingCalls::default();
        (0..calls).for_each(|call| found.failed(call, may_be_own, seen(answers)));
        found
    }

    #[test]
    fn the_table_of_faults() {
        let few = u64::from(SUSPICION) - 1;
        for (calls, may_be_own, before, sign, at_fault) in [
            (1, true, 2, Present, true),
            (100, false, 2, Working, true),
            (1, true, 2, Absent, false),
            (few, true, 3, Working, true),
            (few + 1, true, 3, Working, false),
            (1, false, 3, Working, false),
            (1, true, 3, Present, false),
            (1, true, 3, Absent, false),
        ] {
            let found = failing(calls, may_be_own, before).are_at_fault(sign, seen(3));
            assert_eq!(found, at_fault, "{calls} calls, {may_be_own}, {before} of 3 answers, {sign:?}");
        }
    }

    #[test]
    fn an_answer_that_was_begun_before_a_fault_of_the_server_shows_nothing() {
        let before = AnswersSeen { answers: 7, newest: Some(20), begun: 30 };
        for (may_be_own, newest, shows) in [(false, 29, false), (false, 30, true), (true, 29, true)] {
            let mut calls = FailingCalls::default();
            (0..20).for_each(|call| calls.failed(call, may_be_own, before));
            let now = AnswersSeen { answers: 8, newest: Some(newest), begun: 60 };
            assert_eq!((calls.are_at_fault(Working, now), calls.saw_answers(0, now)), (shows, shows), "{newest}");
        }
    }

    #[test]
    fn one_call_of_the_endpoints_fault_keeps_the_others() {
        let mut calls = failing(2, true, 2);
        assert!(calls.are_at_fault(Present, seen(3)));
        calls.failed(7, true, seen(3));
        assert!(!calls.are_at_fault(Present, seen(3)));
        calls.forget(7);
        calls.failed(1, false, seen(3));
        assert!(calls.are_at_fault(Present, seen(3)), "the first fault counts, not the last one");
        assert!(calls.saw_answers(1, seen(3)) && !calls.saw_answers(7, seen(3)));
    }

    #[test]
    fn a_part_of_its_own_is_no_sign_of_other_calls() {
        let mut calls = failing(1, true, 0);
        calls.answered(0);
        calls.failed(0, true, seen(1));
        assert!(!calls.saw_answers(0, seen(1)) && !calls.are_at_fault(Present, seen(1)));
        assert!(calls.are_at_fault(Present, seen(2)), "another call was answered");
    }

    #[test]
    fn faults_of_given_up_calls_are_theirs_while_the_server_works() {
        let mut calls = failing(1, true, 0);
        calls.give_up();
        assert_eq!([Absent, Present, Working].map(|sign| calls.are_at_fault(sign, seen(0))), [false, false, true]);
    }

    #[test]
    fn few_are_given_up_without_an_answer_between() {
        let mut calls = FailingCalls::default();
        for call in 0..u64::from(SUSPICION) - 1 {
            calls.failed(call, true, seen(0));
            assert!(calls.are_at_fault(Working, seen(0)));
            assert_eq!(calls.give_up(), 1);
            calls.failed(call, true, seen(0));
            assert!(calls.is_given_up(call) && calls.failing.is_empty(), "its last attempt was in flight");
        }
        calls.failed(100, true, seen(0));
        assert!(!calls.are_at_fault(Working, seen(0)), "it answers nothing");
        calls.answered(0);
        // Without an answer since the call's first fault: they are few again.
        assert!(calls.are_at_fault(Working, seen(0)));
        assert!(!calls.is_given_up(0) && calls.is_given_up(1), "it was answered after all");
        calls.forget(1);
        assert!(!calls.is_given_up(1));
    }
}
