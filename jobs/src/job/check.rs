//! Refuses nonsensical values of a job before anything is built.

mod sweep_race;
mod tune;

pub(crate) use tune::ensure_decides;

use super::file::{Job, MethodEntry, RunSettings};
use super::paths::CONTEXTS;
use super::sweep::{grid_size, point_count, points_of};
use super::sweep_conditions::check_conditions;
use crate::bad_value::{BadValue, ensure};
use crate::error::JobError;
use crate::services::corpus::CORPUS;
use crate::services::service::SettingsError;
use hopeval_datasets::{Format, FormatError};
use std::collections::HashSet;
use std::path::Path;

/// Refuses the first nonsensical value of `job`.
///
/// # Errors
/// [`JobError::Value`] and [`JobError::Service`] name the file `path` and the key.
pub(super) fn check_values(job: &Job, path: &Path) -> Result<(), JobError> {
    let wrong = |BadValue { key, found, allowed }| JobError::Value { path: path.into(), key, found, allowed };
    check_dataset(job).map_err(wrong)?;
    tune::check_searches(job).map_err(wrong)?;
    check_tables(job, path)
}

/// Refuses the first nonsensical value of the tables of methods, judges and services, and of `[run]`.
///
/// # Errors
/// As [`check_values`].
pub(super) fn check_tables(job: &Job, path: &Path) -> Result<(), JobError> {
    let wrong = |BadValue { key, found, allowed }| JobError::Value { path: path.into(), key, found, allowed };
    for (table, method) in job.method_tables() {
        check_sweep(&table, method)
            .and_then(|()| check_replicates(method))
            .and_then(|()| check_grid(method))
            .and_then(|()| check_draw(method))
            .and_then(|()| check_count(method))
            .and_then(|()| sweep_race::check_sweep_race(&table, method, job))
            .map_err(|bad| wrong(bad.within_table(&table)))?;
    }
    check_names(job).map_err(wrong)?;
    check_run(&job.run).map_err(|bad| wrong(bad.within_table("run")))?;
    check_cap(job).map_err(wrong)?;
    check_services(job, path)
}

fn check_dataset(job: &Job) -> Result<(), BadValue> {
    ensure(!job.method.is_empty(), || BadValue::new("method", "no method", "at least one [method.NAME]"))?;
    let dataset = &job.dataset;
    match (&dataset.world, dataset.questions.paths()) {
        (None, []) => {
            return Err(BadValue::new("dataset.questions", "nothing", "a file, several, or [dataset.world]"));
        }
        (Some(_), [_, ..]) => {
            return Err(BadValue::new("dataset", "both `questions` and `world`", "one of `questions` and `world`"));
        }
        _ => {}
    }
    ensure(dataset.world.is_some() || !job.corpus.source.paths().is_empty(), || {
        BadValue::new("corpus.source", "nothing", "files, folders, \"contexts\" or a built corpus")
    })?;
    check_mappings(job)?;
    if let Some(world) = &dataset.world {
        world.check_values().map_err(|bad| bad.within_table("dataset.world"))?;
    }
    ensure(dataset.only.as_ref().is_none_or(|only| only.file_name().is_some()), || {
        BadValue::new("dataset.only", "no file", "a file of ids")
    })?;
    ensure(dataset.limit != Some(0), || BadValue::new("dataset.limit", "0", "at least 1"))?;
    ensure(dataset.draw.is_none_or(|draw| !draw.rest || draw.after == 0), || {
        let after = dataset.draw.map_or(0, |draw| draw.after);
        BadValue::new("dataset.draw.after", after.to_string(), "0 with `rest`")
    })?;
    ensure(dataset.draw.is_none_or(|draw| draw.questions > 0), || {
        BadValue::new("dataset.draw.questions", "0", "at least 1")
    })
}

/// Checks the mappings of fields, of questions and of passages.
fn check_mappings(job: &Job) -> Result<(), BadValue> {
    let dataset = &job.dataset;
    if let Some(fields) = &dataset.fields {
        ensure(dataset.world.is_none(), || {
            BadValue::new("dataset.fields", "a mapping beside a generated world", "a mapping of files' fields")
        })?;
        ensure(dataset.format.is_none_or(|format| format == Format::Fields), || {
            let found = format!("a mapping beside `format = \"{}\"`", dataset.format.map_or("", Format::name));
            BadValue::new("dataset.fields", found, "`format = \"fields\"`, or no format")
        })?;
        if let Err(FormatError::Mapping { found, allowed }) = fields.check() {
            return Err(BadValue::new("dataset.fields", found, allowed));
        }
    }
    let files = job.corpus.source.paths().iter().filter(|path| path.as_os_str() != CONTEXTS).count();
    ensure(job.corpus.fields.is_none() || files > 0, || {
        BadValue::new("corpus.fields", "a mapping without files of passages", "`source` with files")
    })
}

/// The most configurations of a method: points of its sweep, in all replicates. Each costs memory before the first
/// question.
const MOST_CONFIGURATIONS: u64 = 10_000;

/// The most points of a grid that points are drawn from: of as many a draw from 64 random bits is even.
const LARGEST_GRID: u64 = 1 << 53;

/// Checks the number of configurations of a method.
fn check_count(method: &MethodEntry) -> Result<(), BadValue> {
    let replicates = method.replicates.values().map(Vec::len).max().unwrap_or(1).max(1);
    let points = match &method.sweep_draw {
        Some(draw) => Some(draw.points),
        None => point_count(method),
    };
    let count = points.and_then(|points| points.checked_mul(replicates as u64));
    ensure(count.is_some_and(|count| count <= MOST_CONFIGURATIONS), || {
        let lengths: Vec<String> = method.sweep.values().map(|values| values.len().to_string()).collect();
        let drawn = method.sweep_draw.map_or_else(String::new, |draw| format!("{} drawn points of ", draw.points));
        let found = format!("{drawn}{} values in {replicates} replicates", lengths.join(" x "));
        BadValue::new("sweep", found, "at most 10000 configurations of a method")
    })
}

/// The most points of a grid with conditions: they are all looked at.
const LARGEST_CONDITIONAL_GRID: u64 = 100_000;

/// Checks the size of a method's grid, and the conditions of its parameters.
fn check_grid(method: &MethodEntry) -> Result<(), BadValue> {
    check_conditions(&method.sweep_when, &method.sweep)?;
    let size = grid_size(method);
    ensure(method.sweep_draw.is_none() || size.is_some_and(|size| size <= LARGEST_GRID), || {
        BadValue::new("sweep", "more than 2^53 points", "at most 2^53 points, of which a draw is even")
    })?;
    ensure(method.sweep_when.is_empty() || size.is_some_and(|size| size <= LARGEST_CONDITIONAL_GRID), || {
        let found = size.map_or_else(|| "no countable number of points".to_owned(), |size| format!("{size} points"));
        BadValue::new("sweep", found, "at most 100000 points of a grid with [sweep_when]")
    })
}

/// Checks the draw of a method's sweep, if it has one.
fn check_draw(method: &MethodEntry) -> Result<(), BadValue> {
    let Some(draw) = &method.sweep_draw else { return Ok(()) };
    ensure(!method.sweep.is_empty(), || {
        BadValue::new("sweep_draw", "a draw without [sweep]", "a draw of the points of [sweep]")
    })?;
    let size = point_count(method);
    ensure(draw.points >= 1 && size.is_none_or(|size| draw.points <= size), || {
        let found = size.map_or_else(|| draw.points.to_string(), |size| format!("{} of {size}", draw.points));
        BadValue::new("sweep_draw.points", found, "at least 1 and at most the points of [sweep]")
    })
}

/// Checks the sweep of the method in `table`.
fn check_sweep(table: &str, method: &MethodEntry) -> Result<(), BadValue> {
    for (parameter, values) in &method.sweep {
        let key = || format!("sweep.{parameter}");
        if let Some(fixed) = method.parameters.get(parameter) {
            let allowed = "a value in `method.NAME` or values in `method.NAME.sweep`, not both";
            return Err(BadValue::new(key(), format!("swept, and {fixed} in `{table}`"), allowed));
        }
        ensure(!values.is_empty(), || BadValue::new(key(), "[]", "at least one value"))?;
        if let Some(twice) = values.iter().enumerate().find_map(|(i, v)| values[..i].contains(v).then_some(v)) {
            return Err(BadValue::new(key(), format!("{twice} twice"), "values that each occur once"));
        }
    }
    Ok(())
}

/// Checks that configurations have names of their own: all figures are found by them. Different values may have one
/// name, as a file and the text of its name.
fn check_names(job: &Job) -> Result<(), BadValue> {
    for (kind, methods) in [("method", &job.method), ("judge", &job.judge)] {
        let mut known = HashSet::new();
        for (name, method) in methods {
            let mut points = points_of(name, method).into_iter().map(|point| point.name);
            if let Some(twice) = points.find(|point| !known.insert(point.clone())) {
                let key = format!("{kind}.{name}{}", if method.sweep.is_empty() { "" } else { ".sweep" });
                let allowed = "values, and names of methods, that give each configuration a name of its own";
                return Err(BadValue::new(key, format!("two configurations of the name `{twice}`"), allowed));
            }
        }
    }
    Ok(())
}

fn check_replicates(method: &MethodEntry) -> Result<(), BadValue> {
    let Some((parameter, values)) = method.replicates.first_key_value() else { return Ok(()) };
    let bad =
        |parameter: &str, found: String, allowed| BadValue::new(format!("replicates.{parameter}"), found, allowed);
    let count = values.len();
    ensure(count >= 2, || bad(parameter, format!("{count} values"), "at least two values, one for each replicate"))?;
    if let Some((other, values)) = method.replicates.iter().find(|(_, values)| values.len() != count) {
        let allowed = "as many values as the other parameters of [replicates]";
        return Err(bad(other, format!("{} values", values.len()), allowed));
    }
    match method.replicates.keys().find(|parameter| method.sweep.contains_key(*parameter)) {
        Some(parameter) => Err(bad(parameter, "a swept parameter".to_owned(), "parameters that are not in [sweep]")),
        None => Ok(()),
    }
}

fn check_run(run: &RunSettings) -> Result<(), BadValue> {
    ensure(run.chunk != Some(0), || BadValue::new("chunk", "0", "at least 1"))?;
    ensure(run.in_flight != Some(0), || BadValue::new("in_flight", "0", "at least 1"))?;
    ensure(run.batch != 0, || BadValue::new("batch", "0", "at least 1"))?;
    if let Some(bad) = run.temperatures.iter().find(|t| !(t.is_finite() && **t > 0.0)) {
        return Err(BadValue::new("temperatures", bad.to_string(), "numbers above 0"));
    }
    let share = run.allowed_failed;
    ensure((0.0..=1.0).contains(&share), || {
        BadValue::new("allowed_failed", share.to_string(), "a share between 0 and 1")
    })?;
    match run.price_per_device_hour.filter(|price| !(price.is_finite() && *price >= 0.0)) {
        Some(price) => Err(BadValue::new("price_per_device_hour", price.to_string(), "a number, at least 0")),
        None => Ok(()),
    }
}

/// A cap in money needs prices in one currency.
fn check_cap(job: &Job) -> Result<(), BadValue> {
    let cap = &job.run.cap;
    cap.check_values().map_err(|bad| bad.within_table("run.cap"))?;
    if cap.money.is_none() {
        return Ok(());
    }
    let mut known: Option<&str> = None;
    for (name, service) in job.service.iter().filter(|(_, service)| service.settings().is_paid()) {
        let currency = service.settings().price().map(|price| price.currency.as_str());
        ensure(currency.is_some(), || {
            let allowed = "prices of every endpoint, if [run.cap] has `money`; a free one has `price = {}`";
            BadValue::new(format!("service.{name}.price"), "nothing", allowed)
        })?;
        ensure(known.is_none() || known == currency, || {
            let found = format!("{}, and {}", known.unwrap_or_default(), currency.unwrap_or_default());
            BadValue::new(format!("service.{name}.price.currency"), found, "one currency, if [run.cap] has `money`")
        })?;
        known = currency;
    }
    Ok(())
}

fn check_services(job: &Job, path: &Path) -> Result<(), JobError> {
    for (name, service) in &job.service {
        let table = format!("service.{name}");
        let wrong = |BadValue { key, found, allowed }| JobError::Value { path: path.into(), key, found, allowed };
        if name == CORPUS {
            return Err(wrong(BadValue::new(table, name, "another name: `corpus` is the corpus itself")));
        }
        let others = |other: &str| job.service.get(other).map(|service| service.settings());
        service.settings().check(&others).map_err(|error| match error {
            SettingsError::Value(bad) => wrong(bad.within_table(&table)),
            SettingsError::Endpoint(source) => {
                JobError::EndpointSettings { path: path.into(), name: name.clone(), source }
            }
            SettingsError::Index(source) => JobError::Service { path: path.into(), name: name.clone(), source },
        })?;
    }
    Ok(())
}
