//! Searches before their first run: what refuses them, and the questions of a race's first rung.

use super::*;
use crate::cache::Cache;
use crate::choices::selection::tests::selection;
use crate::run::make::make_run;

/// Of every third question the gold is in the corpus: the others are left out.
const JOB: &str = r#"
name = "sparse"
[dataset]
format = "fields"
questions = "q.jsonl"
gold = "title"
missing_gold = "leave_out"
[corpus]
source = "p.jsonl"
[service.s]
kind = "bm25"
[service.lm]
kind = "lm"
model = "hopeval:reader"
[method.m]
kind = "one_step"
retriever = "s"
[method.reads]
kind = "one_step_qa"
retriever = "s"
generator = { selection = "model" }
[tune]
sample = 60
seed = 3
measure = "mrr"
[[tune.select]]
name = "k"
method = "m"
parameter = "k"
candidates = [1, 2, 3, 4]
"#;

const RACE: &str = "[tune.select.race]\nfirst = 4\nfactor = 2\nleast = 1\nmargin = 0.0\n";

/// The places of searches, and their files: a corpus of these passages.
fn places(dir: &Path, passages: impl Iterator<Item = u32>) -> Places {
    let question = |n: u32| format!("{{\"id\": \"q{n}\", \"question\": \"Word{n}?\", \"gold_titles\": [\"T{n}\"]}}\n");
    let passage = |n: u32| format!("{{\"title\": \"T{n}\", \"text\": \"Word{n} stands here.\"}}\n");
    std::fs::write(dir.join("q.jsonl"), (0..90).map(question).collect::<String>()).unwrap();
    std::fs::write(dir.join("p.jsonl"), passages.map(passage).collect::<String>()).unwrap();
    Places { store: Store::open("memory:").unwrap(), cache: Cache::new(dir.join("cache")), threads: 1 }
}

fn search(dir: &Path, more: &str, places: &Places) -> Result<ParameterSearch, JobError> {
    let path = dir.join("job.toml");
    let job = Job::parse(&[JOB, more].concat(), &path, &[]).unwrap();
    let step = job.tune.as_ref().unwrap().select.len() - 1;
    ParameterSearch::prepare((&job, &path), step, None, places, &|_, _| ())
}

#[test]
fn rungs_have_as_many_evaluated_questions_as_they_say() {
    let dir = tempfile::tempdir().unwrap();
    let places = places(dir.path(), (0..90).step_by(3));
    let search = search(dir.path(), RACE, &places).unwrap();
    let job = search.next_job();
    let run = make_run(&job, &places, None, &|_| Ok(()), &|_, _| ()).unwrap();
    let run = OpenRun::open(&places, &run, &|_, _| ()).unwrap();
    assert_eq!(search.race.as_ref().unwrap().next_rung(), Some(4));
    assert_eq!(run.resolved.prepared.questions, 4);
    assert!(job.dataset.draw.unwrap().questions > 4, "questions without gold are drawn, too");
}

#[test]
fn the_name_of_another_selection_is_refused_before_the_search() {
    let dir = tempfile::tempdir().unwrap();
    let places = places(dir.path(), (0..90).step_by(3));
    let prepared = search(dir.path(), "", &places).unwrap();
    let run = make_run(&prepared.next_job(), &places, None, &|_| Ok(()), &|_, _| ()).unwrap();
    let run = OpenRun::open(&places, &run, &|_, _| ()).unwrap();
    assert!(prepared.commit(&run, &[]).unwrap().new);
    // The same search again.
    assert!(search(dir.path(), "", &places).is_ok());
    let other_corpus = Places { store: places.store.clone(), ..self::places(dir.path(), (0..90).step_by(2)) };
    let refused = search(dir.path(), "", &other_corpus).err();
    assert!(matches!(&refused, Some(JobError::SelectionTaken { name, .. }) if name == "k"), "{refused:?}");
}

#[test]
fn candidates_whose_mode_depends_on_a_selection_are_not_mixed() {
    let dir = tempfile::tempdir().unwrap();
    let places = places(dir.path(), 0..90);
    // Without its generator the method cannot be built at job check.
    let select = "[[tune.select]]\nname = \"context\"\nmethod = \"reads\"\nparameter = \"context\"\n\
                  candidates = [\"open\", \"oracle\"]\n";
    let model = Selection { name: "model".into(), parameter: "generator".into(), ..selection(&[json!("lm")]) };
    model.commit(&places.store).unwrap();
    let refused = search(dir.path(), select, &places).err().unwrap().to_string();
    let path = dir.path().join("job.toml");
    let expected = "`tune.select[1].candidates` = configurations of the context modes open, oracle; allowed";
    assert!(refused.starts_with(&format!("{}: {expected}", path.display())), "{refused}");
}

#[test]
fn a_choice_that_does_not_fit_names_the_file_of_the_job() {
    let dir = tempfile::tempdir().unwrap();
    let places = places(dir.path(), 0..90);
    let select = "[[tune.select]]\nname = \"context\"\nmethod = \"reads\"\nparameter = \"context\"\n\
                  candidates = [\"open\", \"mixed\"]\n";
    // Chosen as a retriever, and named for the generator.
    let model = Selection { name: "model".into(), parameter: "retriever".into(), ..selection(&[json!("lm")]) };
    model.commit(&places.store).unwrap();
    let refused = search(dir.path(), select, &places).err().unwrap().to_string();
    let path = dir.path().join("job.toml");
    assert!(refused.starts_with(&format!("{}: configuration `reads`: `generator`: ", path.display())), "{refused}");
}
