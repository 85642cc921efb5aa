//! Questions whose gold is not in the corpus: refused, left out and counted, or kept and counted.

use super::*;

#[test]
fn questions_without_gold_are_left_out_where_asked_and_counted() {
    let bench = Bench::new();
    let mut rows = questions();
    rows[5]["supporting_facts"][0][0] = json!("Nowhere");
    rows[5]["context"].as_array_mut().unwrap().push(json!(["Nowhere", ["It is not there."]]));
    bench.write("gold.json", array(&rows));
    let mut wrong = bench.run_with("dataset.questions=gold.json");
    wrong.args(["--set", "dataset.missing_gold=drop"]);
    bench.refuses(&mut wrong, &["missing_gold", "unknown variant `drop`", "`leave_out`"]);
    for policy in ["leave_out", "leave_out_as_promptrank"] {
        let mut command = bench.run_with("dataset.questions=gold.json");
        let out = succeed(command.args(["--set", &format!("dataset.missing_gold={policy}")]));
        let says = ["5 questions, ", "; 1 questions left out, their gold missing"];
        assert!(says.iter().all(|part| out.contains(part)), "{policy}: {out}");
    }
    // Their answers count, and no retrieval is measured for them.
    let mut command = bench.run_with("dataset.questions=gold.json");
    let out = succeed(command.args(["--set", "dataset.missing_gold=keep", "--json"]));
    let document: Value = serde_json::from_str(&out).expect("a document");
    assert_eq!((&document["questions"], &document["kept_without_gold"]), (&json!(6), &json!(1)), "{out}");
    let recalls = document["measures"].as_array().expect("measures").iter();
    let recalls: Vec<_> = recalls.filter(|m| m["measure"] == "recall_all@2" && m["stratum"] == "all").collect();
    assert!(!recalls.is_empty() && recalls.iter().all(|m| m["n"] == 5), "{recalls:?}");
}
