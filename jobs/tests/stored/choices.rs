//! Pins the record of a selection and its digest.

use crate::golden;
use hopeval_jobs::choices::overlap::SampledQuestion;
use hopeval_jobs::choices::selection::{RankedCandidate, Selection};
use hopeval_jobs::job::race_record::{RaceRecord, RungRecord, StoppedCandidate};
use hopeval_results::{FileRemedy, Store, layout, seal};
use serde_json::json;
use std::collections::BTreeMap;

/// The best of two lengths of a ranking.
pub(crate) fn selection() -> Selection {
    let ranked = |value, score: Option<f64>| RankedCandidate {
        value,
        score,
        stderr: score.map(|score| score / 10.0),
        n: 2,
        coverage: score.map(|_| 1.0),
        draws: 0,
        stopped: None,
    };
    Selection {
        schema_version: Selection::version(),
        name: "length".to_owned(),
        parameter: "k".to_owned(),
        parameters: Vec::new(),
        measure: "recall_all@2".to_owned(),
        measure_version: "world 1".to_owned(),
        settings: json!({"method": {"kind": "one_step"}, "sample": {"questions": 2, "seed": 0}}),
        dataset_digest: "d".to_owned(),
        corpus_digest: "c".to_owned(),
        services: BTreeMap::from([("sparse".to_owned(), "f".to_owned())]),
        sample: vec![SampledQuestion::new("t1", "Whose \"castle\"?"), SampledQuestion::new("nq-3", "who  sang it")],
        candidates: vec![
            ranked(json!(3), Some(0.1 + 0.2)),
            RankedCandidate { draws: 4, ..ranked(json!({"text": "t"}), None) },
        ],
        race: None,
    }
}

/// The end of a candidate in a race.
pub(crate) fn stopped_candidate() -> StoppedCandidate {
    StoppedCandidate {
        questions: 16,
        mean: Some(0.25),
        stderr: Some(0.125),
        n: 16,
        cut: 0.5,
        difference: -0.25,
        difference_stderr: 0.1 + 0.2,
    }
}

/// A rung of a race.
pub(crate) fn rung() -> RungRecord {
    RungRecord { questions: 16, candidates: 2, ranked: 1, spared: 0, stopped: 1, cut: Some(0.5) }
}

/// The same as a race, which stopped the second one.
fn raced_selection() -> Selection {
    let mut raced = selection();
    raced.candidates[1].stopped = Some(stopped_candidate());
    Selection { race: Some(RaceRecord { rungs: vec![rung()] }), ..raced }
}

#[test]
fn raced_selections_are_those_of_the_golden_file() {
    let store = Store::open("memory:").unwrap();
    let raced = raced_selection();
    raced.commit(&store).unwrap();
    let bytes = store.get(&layout::selection_record("length")).unwrap();
    let document = seal::remove_seal(&store, &layout::selection_record("length"), &bytes, FileRemedy::Tune).unwrap();
    let text = String::from_utf8(document.json).unwrap();
    golden::check("selection-raced", [text.as_str(), &raced.digest()]);
    assert_eq!(Selection::load(&store, "length").unwrap(), raced);
}

#[test]
fn selections_are_those_of_the_golden_file() {
    let store = Store::open("memory:").unwrap();
    let selection = selection();
    selection.commit(&store).unwrap();
    let bytes = store.get(&layout::selection_record("length")).unwrap();
    let document = seal::remove_seal(&store, &layout::selection_record("length"), &bytes, FileRemedy::Tune).unwrap();
    assert!(document.sealed);
    let text = String::from_utf8(document.json).unwrap();
    golden::check("selection", [text.as_str(), &selection.digest()]);
    // Earlier versions wrote it without a seal, and with an empty line at the end.
    let earlier = Store::open("memory:").unwrap();
    earlier.put(&layout::selection_record("length"), format!("{text}\n").into()).unwrap();
    assert_eq!(Selection::load(&earlier, "length").unwrap(), selection);
    assert!(!selection.commit(&earlier).unwrap(), "it is there");
}
