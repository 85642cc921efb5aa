//! Configurations: the points of a job's sweeps, named.
//!
//! A method without a sweep is one configuration with the method's name. With a sweep each point is named
//! `method{a=1,b=x}`, keys sorted. The points come in the order of the keys; the last key varies fastest. A draw takes
//! some of them, in the same order. Replicates of a configuration have its name and a number: `method#1`,
//! `method{a=1}#2`.

use super::file::{Job, MethodEntry};
use super::parameter_files;
use super::sweep_conditions::left_out;
use crate::error::JobError;
use hopeval_methods::{ContextMode, Method, MethodSetting, registry};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, HashMap, HashSet};

/// One point of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Configuration {
    /// Its unique name.
    pub name: String,
    /// The method's kind.
    pub kind: String,
    /// All parameters, the sweep's included.
    pub parameters: Value,
    /// For a control: the controlled effect, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<String>,
    /// The number of the replicate, from 1; `None` without replicates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicate: Option<u32>,
}

impl Configuration {
    /// Its name without the replicate's number: the common name of all replicates.
    pub fn replicated_name(&self) -> &str {
        match (self.replicate, self.name.rsplit_once('#')) {
            (Some(_), Some((name, _))) => name,
            _ => &self.name,
        }
    }
}

/// The position of the configuration that a text numbers in a run's tables, from 0: `3` or `#3` is 2.
pub fn numbered_position(text: &str) -> Option<usize> {
    text.strip_prefix('#').unwrap_or(text).parse::<usize>().ok()?.checked_sub(1)
}

/// The names of a method's configurations, in the order of its sweep.
pub(crate) fn method_configurations(job: &Job, method: &str) -> Vec<String> {
    let entry = job.method.get(method);
    entry.into_iter().flat_map(|entry| points_of(method, entry)).map(|point| point.name).collect()
}

/// The configurations of a job, in the order of their methods' names.
pub fn configurations(job: &Job) -> Vec<Configuration> {
    job.method.iter().flat_map(|(name, method)| points_of(name, method)).collect()
}

/// A configuration to be judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JudgedConfiguration {
    /// The configuration.
    pub name: String,
    /// Its name without the replicate's number.
    pub replicated_name: String,
    /// The number of the replicate; `None` without replicates.
    pub replicate: Option<u32>,
    /// For a control: the controlled effect, in words.
    pub control: Option<String>,
    /// The source of its passages.
    pub context_mode: ContextMode,
}

/// The configurations of a job's judges over those to be judged: each judge with each of them, named `judge(judged)`.
/// The replicates of either, but not of both, are replicates here.
pub fn judge_configurations(job: &Job, judged: &[JudgedConfiguration]) -> Vec<Configuration> {
    let points: Vec<Configuration> = job.judge.iter().flat_map(|(name, judge)| points_of(name, judge)).collect();
    let pairs = points.iter().flat_map(|judge| judged.iter().map(move |judged| (judge, judged)));
    pairs.map(|(judge, judged)| judge_over(judge, judged)).collect()
}

fn judge_over(judge: &Configuration, judged: &JudgedConfiguration) -> Configuration {
    let (name, replicate) = match (judged.replicate, judge.replicate) {
        (Some(number), _) => (format!("{}({})#{number}", judge.name, judged.replicated_name), Some(number)),
        (None, Some(number)) => (format!("{}({})#{number}", judge.replicated_name(), judged.name), Some(number)),
        (None, None) => (format!("{}({})", judge.name, judged.name), None),
    };
    let mut parameters = judge.parameters.clone();
    parameters["configuration"] = judged.name.clone().into();
    parameters["context_mode"] = judged.context_mode.name().into();
    let control = judge.control.clone().or_else(|| judged.control.clone());
    Configuration { name, kind: judge.kind.clone(), parameters, control, replicate }
}

/// A configuration's name in its parts: `bm25{b=0.4,k=5}#2` is `bm25#2`, with two swept values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SweptName {
    /// The method's name in the job, with the replicate's number if it has one.
    pub method: String,
    /// The swept parameters in sorted order, with the labels of their values.
    pub values: Vec<(String, String)>,
}

/// The parts of the names of a job's configurations, by name.
pub fn swept_names(job: &Job) -> HashMap<String, SweptName> {
    let of_method = |(name, method): (&String, &MethodEntry)| {
        let labels = |point: &SweepPoint| vec![point.labels.clone(); replicate_count(method).max(1)];
        let labels = sweep_points(name, method).iter().flat_map(labels).collect::<Vec<_>>();
        let in_parts = |(configuration, values): (Configuration, _)| {
            let number = configuration.replicate.map_or(String::new(), |number| format!("#{number}"));
            (configuration.name, SweptName { method: format!("{name}{number}"), values })
        };
        points_of(name, method).into_iter().zip(labels).map(in_parts).collect::<Vec<_>>()
    };
    job.method.iter().flat_map(of_method).collect()
}

/// A point of a sweep.
#[derive(Clone)]
struct SweepPoint {
    /// The name of its configuration, without the replicate's number.
    name: String,
    /// Swept parameters with the labels of their values.
    labels: Vec<(String, String)>,
    /// All parameters.
    parameters: Map<String, Value>,
}

/// The points of one table's sweep in their replicates.
pub(super) fn points_of(name: &str, method: &MethodEntry) -> Vec<Configuration> {
    let replicated = |point: SweepPoint| replicate_point(method, point.name, point.parameters);
    sweep_points(name, method).into_iter().flat_map(replicated).collect()
}

/// The points of one table's sweep, without those that a race has stopped.
fn sweep_points(name: &str, method: &MethodEntry) -> Vec<SweepPoint> {
    let stopped: HashSet<&str> =
        method.raced.iter().flat_map(|raced| &raced.stopped).map(|point| point.configuration.as_str()).collect();
    let points = sweep_positions(method).into_iter().map(|position| sweep_point(name, method, position));
    points.filter(|point| !stopped.contains(point.name.as_str())).collect()
}

/// The positions of the points in the whole grid, in order.
fn sweep_positions(method: &MethodEntry) -> Vec<u64> {
    let size = grid_size(method).unwrap_or(u64::MAX);
    match (&method.sweep_draw, method.sweep_when.is_empty()) {
        (None, true) => (0..size).collect(),
        (Some(draw), true) => draw.positions(size).into_iter().collect(),
        (None, false) => distinct_positions(method),
        (Some(draw), false) => {
            let distinct = distinct_positions(method);
            draw.positions(distinct.len() as u64).into_iter().map(|at| distinct[at as usize]).collect()
        }
    }
}

/// The number of points of a method's sweep before a draw; 1 without a sweep. `None` beyond all counting.
pub(super) fn point_count(method: &MethodEntry) -> Option<u64> {
    if method.sweep_when.is_empty() { grid_size(method) } else { Some(distinct_positions(method).len() as u64) }
}

/// The number of points of a method's whole grid; 1 without a sweep. `None` beyond all counting.
pub(super) fn grid_size(method: &MethodEntry) -> Option<u64> {
    method.sweep.values().try_fold(1u64, |size, values| size.checked_mul(values.len() as u64))
}

/// The first position of each point of a grid with conditions: positions that differ in values that are left out alone
/// are one point.
fn distinct_positions(method: &MethodEntry) -> Vec<u64> {
    let mut seen = HashSet::new();
    let is_new = |position: &u64| {
        let values = swept_values(method, *position);
        seen.insert(values.iter().map(|(key, value)| format!("{key}={value};")).collect::<String>())
    };
    (0..grid_size(method).unwrap_or(0)).filter(is_new).collect()
}

/// The swept values at a position of the whole grid, in the order of their keys: those whose conditions hold. The last
/// key varies fastest.
fn swept_values(method: &MethodEntry, mut position: u64) -> Vec<(&String, &Value)> {
    let mut values = Vec::new();
    for (key, all) in method.sweep.iter().rev() {
        let count = all.len() as u64;
        values.push((key, &all[(position % count) as usize]));
        position /= count;
    }
    values.reverse();
    if !method.sweep_when.is_empty() {
        let point: BTreeMap<&str, &Value> = values.iter().map(|(key, value)| (key.as_str(), *value)).collect();
        let left_out = left_out(&method.sweep_when, &point);
        values.retain(|(key, _)| !left_out.contains(key.as_str()));
    }
    values
}

/// The point at a position of the whole grid.
fn sweep_point(name: &str, method: &MethodEntry, position: u64) -> SweepPoint {
    let (mut labels, mut parameters) = (Vec::new(), method.parameters.clone());
    for (key, value) in swept_values(method, position) {
        labels.push((key.clone(), value_label(value)));
        parameters.insert(key.clone(), parameter_files::swept_value(value).clone());
    }
    let named: Vec<String> = labels.iter().map(|(key, label)| format!("{key}={label}")).collect();
    let name = if named.is_empty() { name.to_owned() } else { format!("{name}{{{}}}", named.join(",")) };
    SweepPoint { name, labels, parameters: parameters.into_iter().collect() }
}

/// The replicates of each point; 0 without replicates.
fn replicate_count(method: &MethodEntry) -> usize {
    method.replicates.values().map(Vec::len).max().unwrap_or(0)
}

/// One point of a sweep in each of its replicates.
fn replicate_point(method: &MethodEntry, name: String, parameters: Map<String, Value>) -> Vec<Configuration> {
    let count = replicate_count(method);
    let one = |name: String, parameters: Map<String, Value>, replicate| {
        let (kind, parameters) = (method.kind.clone(), Value::Object(parameters));
        Configuration { name, kind, parameters, control: method.control.clone(), replicate }
    };
    if count == 0 {
        return vec![one(name, parameters, None)];
    }
    let replicate = |n: usize| {
        let value = |values: &Vec<Value>| Some(parameter_files::swept_value(values.get(n)?).clone());
        let values = method.replicates.iter().filter_map(|(key, values)| Some((key.clone(), value(values)?)));
        let mut parameters = parameters.clone();
        parameters.extend(values);
        one(format!("{name}#{}", n + 1), parameters, Some(n as u32 + 1))
    };
    (0..count).map(replicate).collect()
}

/// A value's label in a name: for a selection or a file its name, else the value itself.
fn value_label(value: &Value) -> String {
    if let Some(file) = parameter_files::file_name(value) {
        return file.to_owned();
    }
    if let Some(selection) = value.get("selection").and_then(Value::as_str) {
        return match value.get("best") {
            Some(best) => format!("{selection}:{best}"),
            None => selection.to_owned(),
        };
    }
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The methods of `configurations`, in their order.
///
/// # Errors
/// [`JobError::Method`] names the configuration with a wrong kind or parameter.
pub fn build_methods(
    configurations: &[Configuration],
    setting: &MethodSetting,
) -> Result<Vec<Box<dyn Method>>, JobError> {
    let build = |c: &Configuration| {
        registry::build_method(&c.kind, &c.parameters, setting)
            .map_err(|source| JobError::Method { configuration: c.name.clone(), source })
    };
    configurations.iter().map(build).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(method: &str) -> Job {
        let text = format!("name = \"t\"\n[dataset]\nquestions = \"q\"\n[corpus]\nsource = \"c\"\n{method}");
        toml::from_str(&text).unwrap()
    }

    #[test]
    fn sweeps_multiply_in_sorted_order() {
        let job = job("[method.bm25]\nkind = \"one_step\"\nretriever = \"s\"\n\
             [method.bm25.sweep]\nk = [5, 20]\nb = [\"x\", \"y\"]");
        let names: Vec<_> = configurations(&job).into_iter().map(|c| c.name).collect();
        assert_eq!(names, ["bm25{b=x,k=5}", "bm25{b=x,k=20}", "bm25{b=y,k=5}", "bm25{b=y,k=20}"]);
    }

    #[test]
    fn drawn_points_are_points_of_the_grid_in_its_order() {
        let grid = "[method.m]\nkind = \"one_step\"\n[method.m.sweep]\nk = [1, 2, 3, 4]\nb = [\"x\", \"y\", \"z\"]\n";
        let all = configurations(&job(grid));
        let drawn = configurations(&job(&format!("{grid}[method.m.sweep_draw]\npoints = 5\nseed = 2\n")));
        let places: Vec<usize> =
            drawn.iter().map(|drawn| all.iter().position(|point| point == drawn).unwrap()).collect();
        assert!(places.len() == 5 && places.is_sorted(), "{places:?}");
        let other = configurations(&job(&format!("{grid}[method.m.sweep_draw]\npoints = 5\nseed = 3\n")));
        assert_ne!(other, drawn);
        // Replicates are of each drawn point.
        let replicated = format!("{grid}[method.m.sweep_draw]\npoints = 2\n[method.m.replicates]\ndraw = [0, 1]\n");
        assert_eq!(configurations(&job(&replicated)).len(), 4);
        assert_eq!(swept_names(&job(&replicated)).len(), 4);
    }

    #[test]
    fn values_are_left_out_where_their_condition_does_not_hold() {
        let table = "[method.m]\nkind = \"one_step\"\n[method.m.sweep]\nk = [5, 20]\nreader = [\"none\", \"spans\"]\n\
             weight = [0.1, 0.5, 0.9]\n[method.m.sweep_when]\nweight = { reader = [\"spans\"] }\n";
        let all = configurations(&job(table));
        let names: Vec<&str> = all.iter().map(|c| c.name.as_str()).collect();
        let of_k = |k: u32| {
            let with = |weight: &str| format!("m{{k={k},reader=spans,weight={weight}}}");
            [format!("m{{k={k},reader=none}}"), with("0.1"), with("0.5"), with("0.9")]
        };
        assert_eq!(names, [of_k(5), of_k(20)].concat());
        assert_eq!(all[0].parameters, serde_json::json!({"k": 5, "reader": "none"}));
        assert_eq!(swept_names(&job(table))["m{k=5,reader=none}"].values.len(), 2);
        // A draw is of the points, and not of the grid, in which the first one stands three times.
        let drawn = configurations(&job(&format!("{table}[method.m.sweep_draw]\npoints = 8\n")));
        assert_eq!(drawn, all);
    }

    #[test]
    fn stopped_points_are_no_configurations() {
        let mut job = job("[method.m]\nkind = \"one_step\"\n[method.m.sweep]\nk = [1, 2, 3]\n");
        let stopped = serde_json::json!({"race": {"rungs": []}, "stopped": [{"configuration": "m{k=2}", "stopped":
            {"questions": 2, "mean": 0.0, "stderr": null, "n": 2, "cut": 0.5, "difference": -0.5,
             "difference_stderr": 0.1}}]});
        job.method.get_mut("m").unwrap().raced = Some(serde_json::from_value(stopped).unwrap());
        let names: Vec<_> = configurations(&job).into_iter().map(|c| c.name).collect();
        assert_eq!(names, ["m{k=1}", "m{k=3}"]);
        assert_eq!(swept_names(&job).len(), 2);
    }

    #[test]
    fn replicates_are_numbered_under_each_point() {
        let job = job("[method.r]\nkind = \"random\"\n[method.r.sweep]\nk = [5, 20]\n\
             [method.r.replicates]\ndraw = [0, 1]\nseed = [7, 9]");
        let found = configurations(&job);
        let names: Vec<_> = found.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, ["r{k=5}#1", "r{k=5}#2", "r{k=20}#1", "r{k=20}#2"]);
        assert_eq!(found[1].parameters, serde_json::json!({"k": 5, "draw": 1, "seed": 9}));
        assert_eq!((found[1].replicated_name(), found[1].replicate), ("r{k=5}", Some(2)));
    }

    #[test]
    fn names_have_parts() {
        let job = job("[method.r]\nkind = \"random\"\n[method.r.sweep]\nk = [5, 20]\n\
             [method.r.replicates]\ndraw = [0, 1]\n[method.o]\nkind = \"oracle\"");
        let found = swept_names(&job);
        assert_eq!(found.len(), configurations(&job).len());
        let part = |method: &str, values: &[(&str, &str)]| SweptName {
            method: method.to_owned(),
            values: values.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
        };
        assert_eq!(found["r{k=20}#1"], part("r#1", &[("k", "20")]));
        assert_eq!(found["o"], part("o", &[]));
    }

    #[test]
    fn judges_judge_each_configuration() {
        let job = job("[method.m]\nkind = \"oracle\"\n[judge.a]\nkind = \"yes_no\"\nrule = \"migres\"\n\
             [judge.b]\nkind = \"yes_no\"\n[judge.b.sweep]\nrule = [\"migres\", \"efficientrag\"]\n\
             [judge.c]\nkind = \"yes_no\"\n[judge.c.replicates]\ndraw = [0, 1]");
        let judged = |name: &str, replicate| JudgedConfiguration {
            name: name.to_owned(),
            replicated_name: "m".to_owned(),
            replicate,
            control: None,
            context_mode: ContextMode::Given,
        };
        let found = judge_configurations(&job, &[judged("m", None)]);
        let names: Vec<&str> = found.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, ["a(m)", "b{rule=migres}(m)", "b{rule=efficientrag}(m)", "c(m)#1", "c(m)#2"]);
        let parameters = serde_json::json!({"rule": "migres", "configuration": "m", "context_mode": "given"});
        assert_eq!(found[0].parameters, parameters);
        assert_eq!((found[4].replicated_name(), found[4].replicate), ("c(m)", Some(2)));
        let found = judge_configurations(&job, &[judged("m#1", Some(1)), judged("m#2", Some(2))]);
        assert_eq!((found[1].name.as_str(), found[1].replicated_name()), ("a(m)#2", "a(m)"));
        assert_eq!(found[1].parameters["configuration"], "m#2");
    }

    #[test]
    fn a_selection_is_named_in_a_sweep() {
        let job = job("[method.m]\nkind = \"promptrank\"\n\
             [method.m.sweep]\ninstructions = [{selection = \"x\"}, {selection = \"x\", best = 5}]");
        let names: Vec<_> = configurations(&job).into_iter().map(|c| c.name).collect();
        assert_eq!(names, ["m{instructions=x}", "m{instructions=x:5}"]);
    }

    #[test]
    fn without_a_sweep_the_method_s_name_is_the_configuration_s() {
        let found = configurations(&job("[method.a]\nkind = \"given\"\nk = 3"));
        assert_eq!((found.len(), found[0].name.as_str()), (1, "a"));
        assert_eq!(found[0].parameters, serde_json::json!({"k": 3}));
    }
}
