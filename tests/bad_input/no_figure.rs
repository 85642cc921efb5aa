//! Figures that would say nothing.

use super::*;

#[test]
fn a_bad_pair_is_named_by_its_line() {
    let bench = Bench::new();
    let score = |name: &str| run(&mut hopeval(bench.dir.path(), &["score", "--pairs", name]));
    let good = r#"{"prediction": "a", "golds": ["a"]}"#;
    bench.write("pairs.jsonl", format!("{good}\n\n{good}\n{{\"prediction\": \"a\"}}\n"));
    let output = score("pairs.jsonl");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("pairs.jsonl:4") && said.contains("golds"), "{said}");
    bench.write("empty.jsonl", "\n");
    refused(&score("empty.jsonl"), &["empty.jsonl"]);
}

#[test]
fn a_measure_that_nothing_has_is_named() {
    let dir = tiny::job();
    let fewer = "[method.fewer]\nkind = \"one_step\"\nretriever = \"sparse\"\nk = 2\n";
    let job = JOB.replace("[method.oracle]\nkind = \"oracle\"\n", fewer);
    assert_ne!(job, JOB);
    std::fs::write(dir.path().join("job.toml"), job).unwrap();
    let of_store = |arguments: &[&str]| {
        let mut command = hopeval(dir.path(), arguments);
        command.args(["--store", "store"]);
        run(&mut command)
    };
    assert_eq!(of_store(&["run", "job.toml"]).status.code(), Some(0));
    let output = of_store(&["show", "latest", "--measure", "em"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("`em` has no value"), "{said}");
    let compared = of_store(&["compare", "latest:bm25", "latest:fewer", "--measure", "em"]);
    refused(&compared, &["no compared pair has a value of `em` on both sides"]);
}
