//! Sweeps of drawn points and of conditional parameters, from the job to the tables.

use crate::harness::{document, hopeval, run, run_of, succeed};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Hops over links. What they are ranked by matters from the second hop on.
const JOB: &str = r#"
name = "points"
[dataset.world]
questions = 20
passages = 400
seed = 7
[service.bm25]
kind = "bm25"
[method.found]
kind = "iterative_title"
retriever = "bm25"
[method.found.sweep]
hops = [1, 2, 3]
query = ["question", "question+title"]
width = [1, 3]
"#;

/// Runs the job with more tables, and returns its document.
fn run_job(dir: &Path, name: &str, more: &str) -> Value {
    let path = dir.join(format!("{name}.toml"));
    std::fs::write(&path, format!("{JOB}{more}")).unwrap();
    document(&mut hopeval(dir, &["run", path.to_str().unwrap(), "--store", "store", "--cache", "cache", "--json"]))
}

/// The rows of a document's measures, by configuration.
fn rows(document: &Value) -> BTreeMap<String, Vec<Value>> {
    let mut found: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for row in document["measures"].as_array().unwrap() {
        found.entry(row["configuration"].as_str().unwrap().to_owned()).or_default().push(row.clone());
    }
    found
}

#[test]
fn drawn_points_have_the_figures_of_the_grid() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path();
    let grid = rows(&run_job(dir, "grid", ""));
    assert_eq!(grid.len(), 12);
    let drawn_job = "[method.found.sweep_draw]\npoints = 5\nseed = 4\n";
    let document = run_job(dir, "drawn", drawn_job);
    let drawn = rows(&document);
    assert_eq!(drawn.len(), 5);
    assert!(drawn.iter().all(|(name, figures)| grid[name] == *figures), "{drawn:?}");
    let other = rows(&run_job(dir, "other", &drawn_job.replace('4', "5")));
    assert!(other.len() == 5 && !other.keys().eq(drawn.keys()));
    // The record has the draw, and the run opens with the same points.
    let shown = succeed(&mut hopeval(dir, &["show", run_of(&document), "--store", "store", "--wide"]));
    let listed = shown.lines().filter(|line| line.contains(" | found ")).count();
    assert_eq!(listed, 5, "{shown}");
}

/// A service with a sweep gives what a service for each pair of values gives.
#[test]
fn a_swept_service_is_one_service_for_each_point() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path();
    let head = &JOB[..JOB.find("[service.bm25]").unwrap()];
    let job = |name: &str, rest: &str| {
        let path = dir.join(format!("{name}.toml"));
        std::fs::write(&path, format!("{head}{rest}")).unwrap();
        let arguments = ["run", path.to_str().unwrap(), "--store", "store", "--cache", "cache", "--json"];
        document(&mut hopeval(dir, &arguments))
    };
    let method = |name: &str, retriever: &str| {
        format!("[method.{name}]\nkind = \"one_step\"\nretriever = \"{retriever}\"\nk = 20\n")
    };
    let (mut single, mut pairs) = (String::new(), Vec::new());
    for (number, (b, k1)) in [(0.0, 0.5), (0.0, 2.0), (1.0, 0.5), (1.0, 2.0)].into_iter().enumerate() {
        single += &format!("[service.s{number}]\nkind = \"bm25\"\nk1 = {k1:?}\nb = {b:?}\n");
        single += &method(&format!("m{number}"), &format!("s{number}"));
        pairs.push((format!("m{number}"), format!("found{{retriever=bm25{{b={b:?},k1={k1:?}}}}}")));
    }
    let single = rows(&job("single", &single));
    let swept_service = "[service.bm25]\nkind = \"bm25\"\n[service.bm25.sweep]\nk1 = [0.5, 2.0]\nb = [0.0, 1.0]\n";
    let document = job("swept", &format!("{swept_service}{}", method("found", "bm25")));
    let swept = rows(&document);
    let values = |rows: &[Value]| rows.iter().map(|row| row["value"].clone()).collect::<Vec<_>>();
    for (one, point) in &pairs {
        assert_eq!(values(&single[one]), values(&swept[point]), "{point}");
    }
    assert!(swept.len() == 4 && values(&single["m0"]) != values(&single["m3"]), "the values matter");
    // The other job has asked the same: nothing is computed, and each service has its own row of costs.
    let costs = document["cost"].as_array().unwrap().iter().filter(|row| row["configuration"].is_null());
    let computed: Vec<&Value> = costs.map(|row| &row["computed"]).collect();
    assert!(computed.len() == 4 && computed.iter().all(|computed| **computed == 0), "{computed:?}");
}

#[test]
fn a_conditional_parameter_is_left_out_where_its_condition_does_not_hold() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path();
    let grid = rows(&run_job(dir, "grid", ""));
    let conditions = "[method.found.sweep_when]\nquery = { hops = [2, 3] }\n";
    let document = run_job(dir, "conditional", conditions);
    let points = rows(&document);
    let mut expected = vec!["found{hops=1,width=1}".to_owned(), "found{hops=1,width=3}".to_owned()];
    let conditional = grid.keys().filter(|name| !name.contains("hops=1"));
    expected.extend(conditional.cloned());
    assert_eq!((points.keys().cloned().collect::<Vec<_>>(), points.len()), (expected, 10));
    // The default of `query` is `question`.
    let values = |rows: &[Value]| rows.iter().map(|row| row["value"].clone()).collect::<Vec<_>>();
    for (name, figures) in &points {
        let whole = name.replace("hops=1,width", "hops=1,query=question,width");
        assert_eq!(values(figures), values(&grid[&whole]), "{name}");
    }
    // Tables show the left-out value as a dash, and the report's page has the points.
    let shown = succeed(&mut hopeval(dir, &["show", run_of(&document), "--store", "store", "--wide"]));
    let dashes = shown.lines().filter(|line| line.contains(" | found ") && line.contains("| –  ")).count();
    assert_eq!(dashes, 2, "{shown}");
    succeed(&mut hopeval(dir, &["report", run_of(&document), "--store", "store", "--out", "page.html"]));
    let page = std::fs::read_to_string(dir.join("page.html")).unwrap();
    assert!(points.keys().all(|name| page.contains(name)));

    // A condition on a value that the sweep has not is refused.
    let path = dir.join("wrong.toml");
    std::fs::write(&path, format!("{JOB}{}", conditions.replace("[2, 3]", "[2, 4]"))).unwrap();
    let output = run(&mut hopeval(dir, &["run", path.to_str().unwrap(), "--store", "store"]));
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(
        message.contains("`method.found.sweep_when.query.hops` = 4, and [sweep] has 1, 2, 3; allowed: values of"),
        "{message}"
    );
}
