//! CUDA on a machine without it: every command with a device option says what is missing and what to do.

use super::{gpt2, said};
use crate::harness::{document, hopeval, run, succeed, world_job};
use hopeval_cuda::machine;

#[expect(clippy::print_stderr, reason = "a test that skips itself says so")]
fn a_device_is_there(test: &str) -> bool {
    let there = machine::device_count().is_ok();
    if there {
        eprintln!("SKIPPED: {test}: this machine has a CUDA device");
    }
    there
}

#[test]
fn without_a_driver_commands_say_so_and_what_to_do() {
    if a_device_is_there("without_a_driver_commands_say_so_and_what_to_do") {
        return;
    }
    let missing = machine::device_count().unwrap_err().to_string();
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("one.jsonl"), r#"{"id":1,"prompt_ids":[1],"target_ids":[2]}"#).unwrap();
    let model = gpt2();
    let score = ["lm", "score", "--model", &model, "--input", "one.jsonl"];
    for (device, named) in
        [("cuda", "no device cuda:0: "), ("cuda:1", "no device cuda:1: "), ("cuda-f32", "no device cuda:0: ")]
    {
        for command in [&[&score[..], &["--device", device]].concat()[..], &["lm", "conformance", "--device", device]] {
            let output = run(&mut hopeval(dir.path(), command));
            assert_eq!(output.status.code(), Some(2), "{command:?}: {}", said(&output));
            assert!(output.stdout.is_empty() && !said(&output).contains("panicked"), "{}", said(&output));
            assert!(said(&output).contains(named) && said(&output).contains(&missing), "{}", said(&output));
        }
    }
}

#[test]
fn without_a_driver_a_run_names_the_service_before_it_begins() {
    if a_device_is_there("without_a_driver_a_run_names_the_service_before_it_begins") {
        return;
    }
    let missing = machine::device_count().unwrap_err().to_string();
    let dir = tempfile::tempdir().unwrap();
    let job = world_job(dir.path());
    let text = std::fs::read_to_string(&job).unwrap();
    let services = "\n[service.scorer]\nkind = \"lm\"\nmodel = \"hopeval:scorer\"\ndevice = \"cuda\"\n";
    std::fs::write(&job, text + services).unwrap();
    let output = run(&mut hopeval(dir.path(), &["run", &job.display().to_string()]));
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("scorer") && said(&output).contains(&missing), "{}", said(&output));
    assert!(!said(&output).contains("panicked"), "{}", said(&output));
}

#[test]
fn the_doctor_shows_what_cuda_needs() {
    let dir = tempfile::tempdir().unwrap();
    let text = succeed(&mut hopeval(dir.path(), &["doctor"]));
    for name in ["CUDA driver", "GPU", "NVRTC", "cuBLASLt", "NVML"] {
        assert!(text.contains(&format!("| {name} ")), "{text}");
    }
    if let Err(missing) = machine::driver_version() {
        assert!(text.contains(&missing.to_string()), "{text}");
    }
}

#[test]
fn the_cpu_conforms_and_an_unknown_device_is_told_what_there_is() {
    let dir = tempfile::tempdir().unwrap();
    let found = document(&mut hopeval(dir.path(), &["lm", "conformance", "--json"]));
    assert_eq!(
        (found["conforms"].as_bool(), found["checks"].as_array().map(Vec::len)),
        (Some(true), Some(13)),
        "{found}"
    );
    let checks = found["checks"].as_array().unwrap();
    assert!(checks.iter().all(|check| check["cases"].as_u64() > Some(0) && check["companies"].as_u64() > Some(0)));
    let some = document(&mut hopeval(dir.path(), &["lm", "conformance", "--json", "--operations", "norm,logprobs"]));
    let names: Vec<_> = some["checks"].as_array().unwrap().iter().map(|check| check["operation"].clone()).collect();
    assert_eq!(names, ["Norm", "LogProbs"]);
    let output = run(&mut hopeval(dir.path(), &["lm", "conformance", "--operations", "norms"]));
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("there are embed, norm, normgroups"), "{}", said(&output));
    let output = run(&mut hopeval(dir.path(), &["lm", "conformance", "--device", "gpu"]));
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("cpu, cpu-avx2, cpu-avx512, cuda, cuda:N"), "{}", said(&output));
}
