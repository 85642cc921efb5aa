//! Refuses nonsensical races of sweeps: `[method.NAME.race]`.

use super::tune::{check_measure_name, check_rule};
use crate::bad_value::{BadValue, ensure};
use crate::job::file::{Job, MethodEntry};
use crate::job::sweep::point_count;
use hopeval_datasets::Format;

/// Checks the race of the sweep in `table`, if it has one.
///
/// # Errors
/// The first nonsensical value.
pub(super) fn check_sweep_race(table: &str, method: &MethodEntry, job: &Job) -> Result<(), BadValue> {
    ensure(method.raced.is_none(), || {
        BadValue::new("raced", "decisions", "nothing: a run writes its decisions there")
    })?;
    let Some(race) = &method.race else { return Ok(()) };
    ensure(table.starts_with("method."), || BadValue::new("race", "a race of judges", "a race of a method's sweep"))?;
    ensure(!method.sweep.is_empty(), || {
        BadValue::new("race", "a race without [sweep]", "a race of the points of [sweep]")
    })?;
    ensure(method.replicates.is_empty(), || {
        BadValue::new("race", "a race of replicates", "a race of a sweep without [replicates]")
    })?;
    let points = method.sweep_draw.map_or_else(|| point_count(method), |draw| Some(draw.points));
    ensure(race.first.is_none_or(|first| first >= 2), || {
        BadValue::new("race.first", race.first.unwrap_or_default().to_string(), "at least 2")
    })?;
    check_rule(&race.rule(), points.unwrap_or(u64::MAX)).map_err(|bad| bad.within_table("race"))?;
    // The measures of a format that is not named are known when the race begins.
    let format = job.dataset.format.or(job.dataset.world.as_ref().map(|_| Format::World));
    let checked = format.map_or(Ok(()), |format| check_measure_name(&race.measure, format, job));
    checked.map_err(|bad| bad.within_table("race"))
}
