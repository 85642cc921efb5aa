//! The commands that say what there is: methods with their parameters, models of this machine.

use crate::harness::{document, hopeval, run, succeed};
use hopeval_methods::{judge_kinds, method_kinds};
use std::path::Path;

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn every_method_is_listed_on_a_line() {
    let listed = succeed(&mut hopeval(here(), &["methods", "--wide"]));
    for info in method_kinds().iter().chain(judge_kinds()) {
        let line = listed.lines().find(|line| line.split(' ').next() == Some(info.kind));
        let line = line.unwrap_or_else(|| panic!("{} is not listed:\n{listed}", info.kind));
        assert!(line.ends_with(info.description), "{line}");
    }
    let narrow = succeed(hopeval(here(), &["methods"]).env("COLUMNS", "100"));
    assert!(narrow.lines().all(|line| line.chars().count() <= 100), "{narrow}");
    let names = method_kinds().iter().map(|info| format!("\n{} ", info.kind));
    names.for_each(|name| assert!(narrow.contains(&name), "{name} is cut:\n{narrow}"));
}

#[test]
fn a_method_is_shown_with_its_parameters() {
    let shown = succeed(&mut hopeval(here(), &["methods", "one_step", "promptrank"]));
    for kind in ["one_step", "promptrank"] {
        let info = method_kinds().iter().find(|info| info.kind == kind).unwrap();
        for parameter in info.parameters {
            let heading = format!("\n{}: {}; ", parameter.name, parameter.values);
            assert!(shown.contains(&heading), "{heading}: {shown}");
            assert!(shown.contains(parameter.documentation), "{}", parameter.name);
        }
    }
    assert!(shown.contains("\nretriever: name of a retriever; must be given\n"), "{shown}");
    assert!(shown.contains("\nas: \"paper\" or \"code\"; default: \"paper\"\n"), "{shown}");

    let document = document(&mut hopeval(here(), &["methods", "one_step", "--json"]));
    let [method] = document["methods"].as_array().unwrap().as_slice() else { panic!("{document}") };
    assert_eq!((method["kind"].as_str(), document["judges"].as_array().unwrap().len()), (Some("one_step"), 0));
    let parameters = method["parameters"].as_array().unwrap();
    assert_eq!(parameters[0]["name"], "retriever");
    assert_eq!((&parameters[0]["required"], parameters[0]["default"].is_null()), (&true.into(), true));
    let k = parameters.iter().find(|parameter| parameter["name"] == "k").unwrap();
    assert_eq!((&k["required"], &k["default"]), (&false.into(), &10.into()));

    let wrong = run(&mut hopeval(here(), &["methods", "bm42"]));
    let error = String::from_utf8(wrong.stderr).unwrap();
    assert_eq!(wrong.status.code(), Some(2));
    assert!(error.contains("no method or judge is called `bm42`; allowed: alce, "), "{error}");
}

#[test]
fn all_methods_are_in_the_document() {
    let document = document(&mut hopeval(here(), &["methods", "--json"]));
    let kinds =
        |part: &str| document[part].as_array().unwrap().iter().map(|info| info["kind"].clone()).collect::<Vec<_>>();
    let known = |infos: &[hopeval_methods::MethodInfo]| {
        infos.iter().map(|info| info.kind.into()).collect::<Vec<serde_json::Value>>()
    };
    assert_eq!(kinds("methods"), known(method_kinds()));
    assert_eq!(kinds("judges"), known(judge_kinds()));
}

#[test]
fn models_of_this_machine_are_listed() {
    let hub = tempfile::tempdir().unwrap();
    let broken = hub.path().join("models--lab--speech/snapshots/abc");
    std::fs::create_dir_all(&broken).unwrap();
    std::fs::write(broken.join("config.json"), "{\"model_type\": \"wav2vec2\"}").unwrap();
    std::fs::write(broken.join("README.md"), "---\nlicense: mit\n---\n").unwrap();
    let command = |arguments: &[&str]| {
        let mut command = hopeval(here(), arguments);
        command.env("HF_HUB_CACHE", hub.path());
        command
    };
    let listed = succeed(&mut command(&["model", "list", "--wide"]));
    for name in ["encoder", "filter", "labeler", "reader", "reranker", "scorer", "writer"] {
        let line = listed.lines().find(|line| line.starts_with(&format!("| hopeval:{name} ")));
        assert!(line.is_some_and(|line| line.contains("Apache-2.0") && line.contains("in the program")), "{listed}");
    }
    assert!(listed.contains("| lab/speech "), "{listed}");
    assert!(listed.contains("lab/speech cannot be used: "), "{listed}");

    let document = document(&mut command(&["model", "list", "--json"]));
    let models = document["models"].as_array().unwrap();
    let scorer = models.iter().find(|model| model["name"] == "hopeval:scorer").unwrap();
    assert_eq!(scorer["answers"], serde_json::json!(["score", "generate"]));
    assert!(scorer["bytes"].as_u64().unwrap() > 100_000 && scorer["path"].is_null(), "{scorer}");
    let speech = models.last().unwrap();
    assert_eq!((&speech["name"], &speech["licence"]), (&"lab/speech".into(), &"mit".into()));
    assert_eq!(speech["path"], broken.display().to_string());
    assert!(speech["problem"].is_string(), "{speech}");
}
