//! One round of a configuration, with what is known of it.

use super::super::demand::RoundCounts;
use hopeval_methods::ServiceName;

/// One round of a configuration.
pub(super) struct RoundStage<'a> {
    /// The configuration and the round.
    pub(super) round: (u32, u32),
    pub(super) counts: Option<&'a RoundCounts>,
    pub(super) rehearsed: Option<&'a RoundCounts>,
    /// Machines in the round; in round 0 those to be opened.
    pub(super) active: f64,
    /// The share of its machines that ask a further round.
    pub(super) goes_on: f64,
    /// Requests of a machine, by service.
    pub(super) means: Vec<(&'a ServiceName, f64)>,
}
