//! Questions whose gold is not in the corpus: refused, or left out and counted.

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
}
