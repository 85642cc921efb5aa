//! Races of sweeps that are refused before their first rung: what they need is not known when the job is read.

use super::*;
use crate::cache::Cache;
use crate::choices::selection::Selection;
use crate::choices::selection::tests::selection;
use hopeval_results::Store;
use serde_json::json;

/// The format, and so the names of the measures, is found in the file.
const JOB: &str = r#"
name = "raced"
[dataset]
questions = "q.jsonl"
[corpus]
source = "p.jsonl"
[measures]
chunk_recall = true
[method.m]
kind = "random"
"#;

/// The error of a job with these tables.
fn refused(tables: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    let question = |n: u32| format!("{{\"id\": \"q{n}\", \"question\": \"Word{n}?\", \"gold_titles\": [\"T{n}\"]}}\n");
    let passage = |n: u32| format!("{{\"title\": \"T{n}\", \"text\": \"Word{n} stands here.\"}}\n");
    std::fs::write(dir.path().join("q.jsonl"), (0..30).map(question).collect::<String>()).unwrap();
    std::fs::write(dir.path().join("p.jsonl"), (0..30).map(passage).collect::<String>()).unwrap();
    let cache = Cache::new(dir.path().join("cache"));
    let places = Places { store: Store::open("memory:").unwrap(), cache, threads: 1 };
    let chosen = Selection { parameter: "from".into(), sample: Vec::new(), ..selection(&[json!("corpus")]) };
    chosen.commit(&places.store).unwrap();
    let path = dir.path().join("job.toml");
    let job = Job::parse(&[JOB, tables].concat(), &path, &[]).unwrap();
    let prepared = SweepRaces::prepare((&job, &path), &places, None, &|_| Ok(()), &|_, _| ());
    let said = prepared.err().unwrap_or_else(|| panic!("{tables} was accepted")).to_string();
    said.strip_prefix(&format!("{}: ", path.display())).expect("it names the job's file").to_owned()
}

#[test]
fn counts_decide_no_race() {
    let said = refused("[method.m.sweep]\nk = [1, 2]\n[method.m.race]\nmeasure = \"chunks\"\nfirst = 4\nleast = 1\n");
    assert!(said.starts_with("`method.m.race.measure` = chunks; those that can decide are em"), "{said}");
    assert!(said.contains(", chunk_recall, ") && !said.contains("_answered"), "{said}");
}

#[test]
fn points_whose_mode_a_selection_gives_are_not_mixed() {
    let said = refused(
        "[method.m.sweep]\nfrom = [{ selection = \"x\" }, \"candidates\"]\n\
         [method.m.race]\nmeasure = \"mrr\"\nfirst = 4\nleast = 1\n",
    );
    assert!(said.starts_with("`method.m.race` = configurations of the context modes given, open; allowed"), "{said}");
}
