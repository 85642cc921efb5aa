//! Counts the requests of machines by configuration and round, in one process: the evidence for what is still to come.
//!
//! A machine in round 2 of its configuration will probably send what other machines of the configuration sent after
//! round 2. Requests that others had asked for already cost nothing, so only those that are sent count.

use hopeval_methods::ServiceName;
use serde::ser::SerializeSeq;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::sync::{Mutex, PoisonError};

/// The rounds of all machines of a process, by configuration and round; round 0 is before the first requests.
pub type RoundTable = BTreeMap<(u32, u32), RoundCounts>;

/// The machines of one configuration in one round.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RoundCounts {
    /// Machines that asked this round.
    pub reached: u64,
    /// Machines that ended after this round.
    pub ended: u64,
    /// Their requests, by service.
    pub requests: BTreeMap<ServiceName, RoundRequests>,
}

/// The requests of one configuration's round to one service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RoundRequests {
    /// Sent: without those that others had asked for already.
    pub sent: u64,
    /// Computed answers to machines that completed the round; one that several asked for counts for each.
    pub answered: u64,
    /// Tokens of these, each request by itself.
    pub tokens: u64,
    /// Microseconds of service of these.
    pub busy_us: u64,
}

impl AddAssign for RoundRequests {
    fn add_assign(&mut self, other: Self) {
        let Self { sent, answered, tokens, busy_us } = other;
        self.sent += sent;
        self.answered += answered;
        self.tokens += tokens;
        self.busy_us += busy_us;
    }
}

impl RoundCounts {
    /// Adds requests to a service.
    pub fn add(&mut self, service: &ServiceName, more: RoundRequests) {
        match self.requests.get_mut(service) {
            Some(sum) => *sum += more,
            None => drop(self.requests.insert(service.clone(), more)),
        }
    }
}

/// Counts of the rounds, raised by all workers of a process.
#[derive(Debug, Default)]
pub struct RequestDemand {
    rounds: Mutex<RoundTable>,
}

impl RequestDemand {
    /// Counts a machine that asked `round`, and the number of requests of this round that it sent, by service.
    pub fn count_round<'a>(
        &self,
        configuration: u32,
        round: u32,
        sent: impl IntoIterator<Item = (&'a ServiceName, u64)>,
    ) {
        self.change((configuration, round), |counts| {
            counts.reached += 1;
            for (service, sent) in sent {
                counts.add(service, RoundRequests { sent, ..RoundRequests::default() });
            }
        });
    }

    /// Counts the answers of a completed round, by service.
    pub fn count_answers<'a>(
        &self,
        configuration: u32,
        round: u32,
        answers: impl IntoIterator<Item = (&'a ServiceName, RoundRequests)>,
    ) {
        self.change((configuration, round), |counts| {
            answers.into_iter().for_each(|(service, answers)| counts.add(service, answers));
        });
    }

    /// Counts a machine that ended after `round`.
    pub fn count_end(&self, configuration: u32, round: u32) {
        self.change((configuration, round), |counts| counts.ended += 1);
    }

    fn change(&self, round: (u32, u32), change: impl FnOnce(&mut RoundCounts)) {
        change(self.rounds.lock().unwrap_or_else(PoisonError::into_inner).entry(round).or_default());
    }

    /// The counts as they are now.
    pub fn read(&self) -> RoundTable {
        self.rounds.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Writes rounds as a list, since JSON has no pairs as keys.
pub(super) fn serialize_rounds<S: Serializer>(rounds: &RoundTable, serializer: S) -> Result<S::Ok, S::Error> {
    let mut list = serializer.serialize_seq(Some(rounds.len()))?;
    for ((configuration, round), counts) in rounds {
        list.serialize_element(&(configuration, round, counts))?;
    }
    list.end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_counted_by_configuration() {
        let demand = RequestDemand::default();
        let scorer = ServiceName("scorer".into());
        demand.count_round(0, 1, [(&scorer, 4)]);
        demand.count_round(0, 1, [(&scorer, 3)]);
        demand.count_round(1, 1, []);
        demand.count_answers(0, 1, [(&scorer, RoundRequests { sent: 0, answered: 4, tokens: 80, busy_us: 900 })]);
        demand.count_end(0, 1);
        let rounds = demand.read();
        let requests = RoundRequests { sent: 7, answered: 4, tokens: 80, busy_us: 900 };
        let first = RoundCounts { reached: 2, ended: 1, requests: BTreeMap::from([(scorer, requests)]) };
        assert_eq!(rounds[&(0, 1)], first);
        assert_eq!(rounds[&(1, 1)], RoundCounts { reached: 1, ..RoundCounts::default() });
    }
}
