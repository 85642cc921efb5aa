//! The thinnest slice: a job in, two workers, tables out.

use crate::harness::{final_tables, hopeval, succeed, world_job};

#[test]
fn a_job_ends_with_tables() {
    let dir = tempfile::tempdir().unwrap();
    let job = world_job(dir.path());
    let out =
        succeed(&mut hopeval(dir.path(), &["run", job.to_str().unwrap(), "--workers", "2", "--json", "--store", "s"]));
    let document: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(document["questions"], 300);
    let measures = document["measures"].as_array().unwrap();
    let oracle = measures
        .iter()
        .find(|m| m["configuration"] == "oracle" && m["stratum"] == "all" && m["measure"] == "recall_frac@10")
        .unwrap();
    assert_eq!(oracle["value"], 1.0);
    assert_eq!(oracle["n"], 300);
    assert_eq!(oracle["coverage"], 1.0);
    let tables = final_tables(&dir.path().join("s"), document["run"].as_str().unwrap());
    assert!(tables.iter().all(|table| table.starts_with(b"PAR1")));
}
