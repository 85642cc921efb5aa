//! Methods that read the paragraphs given with a question, against the simulated server over a generated world.

use crate::harness::{document, hopeval, measure};
use hopeval_simulated_llm::{SimulatedServer, SimulationSettings};
use serde_json::Value;

fn job(url: &str) -> String {
    let method = |name: &str, more: &str| {
        format!("[method.{name}]\ngenerator = \"llm\"\nrepetition_penalty = 1.0\nsentence_numbers = false\n{more}\n")
    };
    let methods = [
        method("normal", "kind = \"fsm_baseline\"\nprompt = \"normal\""),
        method("fsm1", "kind = \"fsm\"\nvariant = \"fsm1\""),
        method("fsm2", "kind = \"fsm\""),
        method("support", "kind = \"fsm\"\nsetting = 2"),
    ];
    format!(
        r#"
name = "given"
[dataset.world]
questions = 30
passages = 1000
seed = 5
[service.llm]
kind = "endpoint"
model = "simulated-llm"
base_url = "{url}"
identity = "the simulated model"
{}
[measures]
recall_at = [5]
format = true
[run]
allowed_failed = 1.0
"#,
        methods.concat()
    )
}

/// The figures of a run, by configuration and measure.
fn figure(found: &Value, configuration: &str, name: &str) -> f64 {
    measure(found, configuration, "all", name)["value"].as_f64().expect("a figure")
}

#[test]
fn given_paragraphs_are_read_step_by_step() {
    let server = SimulatedServer::start(SimulationSettings::default()).expect("a server");
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::write(dir.path().join("job.toml"), job(&server.base_url())).expect("the job can be written");
    let found = document(&mut hopeval(dir.path(), &["run", "job.toml", "--json"]));
    for name in ["normal", "fsm1", "fsm2", "support"] {
        // The last review reads the named paragraphs alone, and the simulated search names one paragraph, even for a
        // question that it answers from several.
        let least = if matches!(name, "fsm2" | "support") { 0.3 } else { 0.7 };
        assert!(figure(&found, name, "f1") > least, "{name}: {}", figure(&found, name, "f1"));
        assert_eq!(measure(&found, name, "all", "f1")["context_mode"], "given");
        // Where a fact is missing, it says `unknown`, and a step is given up.
        assert!(figure(&found, name, "format") > 0.9, "{name}: {}", figure(&found, name, "format"));
    }
    assert!(figure(&found, "fsm1", "recall_frac@5") > 0.5, "its searches name the paragraphs of the hops");

    // Half of the texts without their form: they are drawn again, or fail, since the simulated model rewrites nothing.
    // None goes without an outcome.
    let broken = SimulationSettings { format_error_rate: 0.5, ..SimulationSettings::default() };
    server.change(broken).expect("settings");
    let found = document(&mut hopeval(dir.path(), &["run", "job.toml", "--json", "--store", "broken"]));
    for name in ["normal", "fsm1", "fsm2", "support"] {
        assert_eq!(measure(&found, name, "all", "f1")["n"], 30, "{name}");
    }
    assert!(figure(&found, "normal", "format") < 0.8, "{}", figure(&found, "normal", "format"));
}
