//! Makes a run whose maker was killed, from its order.

use super::making::MakingOrder;
use super::{judging, make};
use crate::cache::ProgressReporter;
use crate::error::JobError;
use crate::places::Places;
use hopeval_results::layout;

/// Makes `run` if its maker was killed before it was made.
///
/// # Errors
/// As [`make::make_run`] and [`judging::make_judging_run`].
pub fn make_ordered(run: &str, places: &Places, report: ProgressReporter<'_>) -> Result<(), JobError> {
    let store = &places.store;
    let Some(order) = MakingOrder::load(store, run)? else { return Ok(()) };
    if store.exists(&layout::run_record(run))? {
        // The maker was killed after its last step but one.
        return Ok(store.delete(&layout::making_order(run))?);
    }
    let made = match &order.judged {
        Some(judged) => judging::make_from(&order, judged, places, report),
        None => make::make_from(&order, places, report),
    };
    made.map(drop)
}
