//! Replicas of one server: which of them takes the next call, and which are left out.
//!
//! ```text
//!   Open --several faults without an answer between--> Suspect --answer--> Open
//!                                                       | ^
//!                                                       +-+ one call at a time probes it, after growing pauses
//! ```
//!
//! An open replica that has been silent for much longer than its answers take is passed over until it answers, and its
//! calls do not count as load of the others.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;
use tokio::time::Instant;

/// Faults without an answer between after which a replica is suspect. Single faults among answers are the calls' own.
pub(super) const SUSPICION: u32 = 5;

/// A replica is silent when it has given no answer for this many times an answer's usual time, ..
const SILENCE_FACTOR: u32 = 8;

/// .. and for at least this long.
const LEAST_SILENCE: Duration = Duration::from_millis(500);

/// The weight of the newest answer's time in the mean.
const NEWEST_WEIGHT: f64 = 0.1;

/// The set of replicas.
#[derive(Debug)]
pub(crate) struct ReplicaSet {
    replicas: Vec<ReplicaState>,
    first_pause: Duration,
    longest_pause: Duration,
    /// The mean time of an answer over all replicas, in seconds.
    usual_time: Option<f64>,
}

#[derive(Debug)]
struct ReplicaState {
    in_flight: usize,
    faults: u32,
    /// The mean time of an answer, in seconds.
    usual_time: Option<f64>,
    /// The time of the last answer, or of the first attempt since nothing was in flight.
    last_sign: Instant,
    suspect: Option<SuspectState>,
}

#[derive(Clone, Copy, Debug)]
struct SuspectState {
    probing: bool,
    next_probe: Instant,
    pause: Duration,
}

/// The replica for an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplicaChoice {
    /// This one; whether the attempt probes a suspect one.
    Take { replica: usize, probe: bool },
    /// None before this time.
    NotBefore(Instant),
    /// None before an attempt ends.
    AllProbed,
}

impl ReplicaSet {
    pub(crate) fn new(replicas: usize, first_pause: Duration, longest_pause: Duration, now: Instant) -> Self {
        let state = |_| ReplicaState { in_flight: 0, faults: 0, usual_time: None, last_sign: now, suspect: None };
        Self { replicas: (0..replicas).map(state).collect(), first_pause, longest_pause, usual_time: None }
    }

    /// Calls in flight at replicas that answer. Calls that hang with one of several do not keep others from work; where
    /// no open replica answers, all calls count.
    pub(crate) fn load(&self, now: Instant) -> usize {
        let answers = |replica: &ReplicaState| !self.is_silent(replica, now);
        let one_answers = self.replicas.iter().any(|replica| replica.suspect.is_none() && answers(replica));
        let counted = self.replicas.iter().filter(|replica| !one_answers || answers(replica));
        counted.map(|replica| replica.in_flight).sum()
    }

    /// Calls in flight in all.
    pub(crate) fn in_flight(&self) -> usize {
        self.replicas.iter().map(|replica| replica.in_flight).sum()
    }

    /// Whether no replica is open.
    pub(crate) fn all_suspect(&self) -> bool {
        self.replicas.iter().all(|replica| replica.suspect.is_some())
    }

    /// Whether one replica is suspect.
    pub(crate) fn is_suspect(&self, replica: usize) -> bool {
        self.replicas[replica].suspect.is_some()
    }

    fn is_silent(&self, replica: &ReplicaState, now: Instant) -> bool {
        let Some(usual) = replica.usual_time.or(self.usual_time) else { return false };
        let bound = Duration::from_secs_f64(usual * f64::from(SILENCE_FACTOR)).max(LEAST_SILENCE);
        self.replicas.len() > 1 && replica.in_flight > 0 && now.saturating_duration_since(replica.last_sign) > bound
    }

    /// The replica for the next attempt: a suspect one whose probe is due; else the least busy open one that is not
    /// silent, and among equals the one that the prompt's beginning belongs to. A call goes to the replica that failed
    /// it last, `avoid`, only if no other is open.
    pub(crate) fn choose(&self, prefix: u64, avoid: Option<usize>, now: Instant) -> ReplicaChoice {
        let all_suspect = self.all_suspect();
        let due = |(place, replica): (usize, &ReplicaState)| {
            let is_due = replica.suspect.is_some_and(|suspect| !suspect.probing && suspect.next_probe <= now);
            is_due && (all_suspect || avoid != Some(place))
        };
        if let Some(replica) = self.replicas.iter().enumerate().position(due) {
            return ReplicaChoice::Take { replica, probe: true };
        }
        let open = self.replicas.iter().enumerate().filter(|(_, replica)| replica.suspect.is_none());
        let best = open.min_by_key(|(place, replica)| {
            let shunned = self.is_silent(replica, now) || avoid == Some(*place);
            (shunned, replica.in_flight, affinity(prefix, *place), *place)
        });
        if let Some((replica, _)) = best {
            return ReplicaChoice::Take { replica, probe: false };
        }
        let probes = self.replicas.iter().filter_map(|replica| replica.suspect);
        match probes.filter(|suspect| !suspect.probing).map(|suspect| suspect.next_probe).min() {
            Some(time) => ReplicaChoice::NotBefore(time),
            None => ReplicaChoice::AllProbed,
        }
    }

    /// An attempt begins.
    pub(crate) fn begin(&mut self, replica: usize, now: Instant) {
        let state = &mut self.replicas[replica];
        if state.in_flight == 0 {
            state.last_sign = now;
        }
        state.in_flight += 1;
        if let Some(suspect) = &mut state.suspect {
            suspect.probing = true;
        }
    }

    /// An attempt ended without a word about the server.
    pub(crate) fn abandon(&mut self, replica: usize, probe: bool) {
        let state = &mut self.replicas[replica];
        state.in_flight -= 1;
        if let (Some(suspect), true) = (&mut state.suspect, probe) {
            suspect.probing = false;
        }
    }

    /// The server answered an attempt after `took`. Returns whether the replica was suspect.
    pub(crate) fn succeed(&mut self, replica: usize, took: Option<Duration>, now: Instant) -> bool {
        let mean = |before: Option<f64>| {
            let Some(newest) = took.map(|took| took.as_secs_f64()) else { return before };
            Some(before.map_or(newest, |before| before + NEWEST_WEIGHT * (newest - before)))
        };
        self.usual_time = mean(self.usual_time);
        let state = &mut self.replicas[replica];
        state.usual_time = mean(state.usual_time);
        state.in_flight -= 1;
        state.faults = 0;
        state.last_sign = now;
        state.suspect.take().is_some()
    }

    /// An attempt failed. Returns whether the replica is suspect from now on, and was not before.
    pub(crate) fn fail(&mut self, replica: usize, probe: bool, now: Instant) -> bool {
        let (first, longest) = (self.first_pause, self.longest_pause);
        let silent = self.is_silent(&self.replicas[replica], now);
        let state = &mut self.replicas[replica];
        state.in_flight -= 1;
        state.faults = state.faults.saturating_add(1);
        match &mut state.suspect {
            Some(suspect) if probe => {
                suspect.probing = false;
                suspect.pause = (suspect.pause * 2).min(longest);
                suspect.next_probe = now + suspect.pause;
                false
            }
            // An attempt that began before the suspicion.
            Some(_) => false,
            // A silent replica's calls end one by one: the first one tells enough.
            None if silent || state.faults >= SUSPICION => {
                state.suspect = Some(SuspectState { probing: false, next_probe: now + first, pause: first });
                true
            }
            None => false,
        }
    }
}

/// The order of replicas for one beginning of a prompt (rendezvous hashing): a replica that leaves moves only its own.
fn affinity(prefix: u64, replica: usize) -> u64 {
    let mut hasher = DefaultHasher::new();
    (prefix, replica).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn set(replicas: usize, now: Instant) -> ReplicaSet {
        ReplicaSet::new(replicas, SECOND, 4 * SECOND, now)
    }

    fn taken(choice: ReplicaChoice) -> usize {
        match choice {
            ReplicaChoice::Take { replica, .. } => replica,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn least_busy_first_and_prefixes_stay() {
        let now = Instant::now();
        let mut replicas = set(3, now);
        let homes: Vec<usize> = (0..30).map(|prefix| taken(replicas.choose(prefix, None, now))).collect();
        assert!((0..3).all(|replica| homes.contains(&replica)), "{homes:?}");
        assert_eq!(homes, (0..30).map(|prefix| taken(replicas.choose(prefix, None, now))).collect::<Vec<_>>());
        replicas.begin(homes[0], now);
        assert_ne!(taken(replicas.choose(0, None, now)), homes[0], "another is less busy");
        let chosen: Vec<usize> = (0..8)
            .map(|_| {
                let replica = taken(replicas.choose(0, None, now));
                replicas.begin(replica, now);
                replica
            })
            .collect();
        assert!((0..3).all(|replica| chosen.iter().filter(|found| **found == replica).count() >= 2), "{chosen:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn suspects_are_probed_by_one_call() {
        let mut now = Instant::now();
        let mut replicas = set(1, now);
        for fault in 1..=SUSPICION {
            replicas.begin(0, now);
            assert_eq!(replicas.fail(0, false, now), fault == SUSPICION);
        }
        assert!(replicas.all_suspect());
        assert_eq!(replicas.choose(0, None, now), ReplicaChoice::NotBefore(now + SECOND));
        for pause in [2, 4, 4] {
            now += 4 * SECOND;
            assert_eq!(replicas.choose(0, None, now), ReplicaChoice::Take { replica: 0, probe: true });
            replicas.begin(0, now);
            assert_eq!(replicas.choose(0, None, now), ReplicaChoice::AllProbed);
            replicas.fail(0, true, now);
            assert_eq!(replicas.choose(0, None, now), ReplicaChoice::NotBefore(now + pause * SECOND));
        }
        now += 4 * SECOND;
        replicas.begin(0, now);
        assert!(replicas.succeed(0, Some(SECOND), now));
        assert_eq!(replicas.choose(0, None, now), ReplicaChoice::Take { replica: 0, probe: false });
    }

    #[tokio::test(start_paused = true)]
    async fn single_faults_make_no_suspect() {
        let now = Instant::now();
        let mut replicas = set(1, now);
        for _ in 0..100 {
            for _ in 1..SUSPICION {
                replicas.begin(0, now);
                assert!(!replicas.fail(0, false, now));
            }
            replicas.begin(0, now);
            replicas.succeed(0, Some(SECOND), now);
        }
        assert!(!replicas.all_suspect());
    }

    #[tokio::test(start_paused = true)]
    async fn silent_replicas_are_passed_over() {
        let mut now = Instant::now();
        let mut replicas = set(2, now);
        replicas.begin(0, now);
        replicas.begin(1, now);
        replicas.begin(1, now);
        for _ in 0..12 {
            now += SECOND;
            replicas.succeed(0, Some(SECOND), now);
            replicas.begin(0, now);
        }
        replicas.begin(0, now);
        replicas.begin(0, now);
        assert_eq!(taken(replicas.choose(0, None, now)), 0, "3 calls where answers come, 2 where none does");
        assert_eq!((replicas.load(now), replicas.in_flight()), (3, 5));
        assert_eq!(replicas.load(now + 12 * SECOND), 5, "both are silent: no room for more");
        replicas.succeed(1, Some(12 * SECOND), now);
        assert_eq!(taken(replicas.choose(0, None, now)), 1, "it answers again");
        replicas.begin(1, now);
        assert!(replicas.fail(1, false, now + 200 * SECOND), "the first fault after a long silence is enough");
    }
}
