//! Pins the rows of questions with their details, and the digest of their gold.

use super::tiny::{METHOD, Tiny};
use crate::golden;
use hopeval_jobs::prepare::questions::prepare_questions;

#[test]
fn rows_are_those_of_the_golden_file() {
    let tiny = Tiny::new();
    let mut lines = Vec::new();
    for gold in ["id", "title"] {
        let mut job = tiny.job(METHOD);
        job.dataset.gold = serde_json::from_value(gold.into()).unwrap();
        job.dataset.limit = (gold == "title").then_some(1);
        let (prepared, errors) = prepare_questions(&job, &tiny.corpus(&job), false, None, &mut |row| {
            lines.push(format!("{gold} {}", serde_json::to_string(&row).unwrap()));
            Ok(())
        })
        .unwrap();
        assert!(errors.is_empty());
        lines.push(format!("{gold} {}", serde_json::to_string(&prepared).unwrap()));
    }
    golden::check("questions", lines);
}
