//! The calls that fail, and whose fault that is when the patience ends: their own, or the endpoint's.
//!
//! ```text
//!   attempt fails --> failing --its call ends--> forgotten
//!                        |
//!                        +-- the patience ends, all failing calls are at fault themselves --> given up: they fail
//!                        +-- the patience ends otherwise --> the endpoint is down, no call ends
//! ```
//!
//! | answers after the call's first fault | sign of the server now | last fault | failing calls | at fault is |
//! | --- | --- | --- | --- | --- |
//! | some | works, or is there | any | any number | the call |
//! | none | works | may be the request's own | few | the call |
//! | of given up calls alone | works | | few | the call |
//! | else | | | | the endpoint |
//!
//! An answer of long ago does not show that a server is there: the sign is asked for when the patience ends. *Few* are
//! fewer than make a server suspect ([`SUSPICION`]), together with those that were given up since the last answer: a
//! server that answers no call may list its models still.

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
    /// The answers of the endpoint before the call's first fault.
    answers_before: u64,
    /// Whether the last fault may be the request's own.
    may_be_own: bool,
}

impl FailingCalls {
    /// An attempt of a call failed, after so many answers of the endpoint.
    pub(super) fn failed(&mut self, call: u64, may_be_own: bool, answers: u64) {
        if !self.given_up.contains(&call) {
            let first = FailingCall { answers_before: answers, may_be_own };
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

    /// Whether the endpoint has answered since a call's first fault.
    pub(super) fn saw_answers(&self, call: u64, answers: u64) -> bool {
        self.failing.get(&call).is_some_and(|failing| answers > failing.answers_before)
    }

    /// Whether a call was given up.
    pub(super) fn is_given_up(&self, call: u64) -> bool {
        self.given_up.contains(&call)
    }

    /// Whether all failing calls are at fault themselves, by the server's sign and its number of answers. Without a
    /// failing call the last faults were of calls that were given up before.
    pub(super) fn are_at_fault(&self, sign: ServerSign, answers: u64) -> bool {
        let few = self.failing.len() + self.given_up_in_row < SUSPICION as usize;
        if self.failing.is_empty() {
            return sign == ServerSign::Working && few;
        }
        self.failing.values().all(|call| match answers > call.answers_before {
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

    /// Calls that fail after `answers` answers.
    fn failing(calls: u64, may_be_own: bool, answers: u64) -> FailingCalls {
        let mut found = FailingCalls::default();
        (0..calls).for_each(|call| found.failed(call, may_be_own, answers));
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
            let found = failing(calls, may_be_own, before).are_at_fault(sign, 3);
            assert_eq!(found, at_fault, "{calls} calls, {may_be_own}, {before} of 3 answers, {sign:?}");
        }
    }

    #[test]
    fn one_call_of_the_endpoints_fault_keeps_the_others() {
        let mut calls = failing(2, true, 2);
        assert!(calls.are_at_fault(Present, 3));
        calls.failed(7, true, 3);
        assert!(!calls.are_at_fault(Present, 3));
        calls.forget(7);
        calls.failed(1, false, 3);
        assert!(calls.are_at_fault(Present, 3), "the first fault counts, not the last one");
        assert!(calls.saw_answers(1, 3) && !calls.saw_answers(7, 3));
    }

    #[test]
    fn a_part_of_its_own_is_no_sign_of_other_calls() {
        let mut calls = failing(1, true, 0);
        calls.answered(0);
        calls.failed(0, true, 1);
        assert!(!calls.saw_answers(0, 1) && !calls.are_at_fault(Present, 1));
        assert!(calls.are_at_fault(Present, 2), "another call was answered");
    }

    #[test]
    fn faults_of_given_up_calls_are_theirs_while_the_server_works() {
        let mut calls = failing(1, true, 0);
        calls.give_up();
        assert_eq!([Absent, Present, Working].map(|sign| calls.are_at_fault(sign, 0)), [false, false, true]);
    }

    #[test]
    fn few_are_given_up_without_an_answer_between() {
        let mut calls = FailingCalls::default();
        for call in 0..u64::from(SUSPICION) - 1 {
            calls.failed(call, true, 0);
            assert!(calls.are_at_fault(Working, 0));
            assert_eq!(calls.give_up(), 1);
            calls.failed(call, true, 0);
            assert!(calls.is_given_up(call) && calls.failing.is_empty(), "its last attempt was in flight");
        }
        calls.failed(100, true, 0);
        assert!(!calls.are_at_fault(Working, 0), "it answers nothing");
        calls.answered(0);
        assert!(calls.are_at_fault(Working, 1));
        assert!(!calls.is_given_up(0) && calls.is_given_up(1), "it was answered after all");
        calls.forget(1);
        assert!(!calls.is_given_up(1));
    }
}
