//! The driver's own tests over simulated libraries: memory, uploads, launches, products, and a lost device.
//!
//! A process finds its libraries when it begins, so this one runs itself again.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a panic is the report of a test")]

#[path = "../../tests/driver.rs"]
mod driver;

use hopeval_cuda_emulator::libraries::SimulatedLibraries;
use std::path::Path;
use std::process::Command;

/// Runs the tests of `driver` in a process whose devices work in this way, and returns its output.
fn again(report: &Path, way: [(&str, &str); 2]) -> String {
    let libraries = SimulatedLibraries::build(Path::new(env!("CARGO_TARGET_TMPDIR"))).unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["driver::", "--nocapture", "--test-threads=1"]).envs(libraries.environment_variables());
    child.env("SIMULATED_CUDA_REPORT", report).envs(way).env_remove("CUDA_VISIBLE_DEVICES");
    let output = child.output().unwrap();
    let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert!(output.status.success(), "{child:?}: {}\n{said}", output.status);
    said
}

/// Results are absent until someone waits for them; bytes are copied as they were when the copy was requested. Products
/// are equally right if the library has no algorithm of the better kind.
#[test]
fn the_driver_keeps_its_promises_over_simulated_libraries() {
    for (at_once, poor) in [("0", "0"), ("1", "0"), ("0", "1")] {
        let dir = tempfile::tempdir().unwrap();
        let report = dir.path().join("report");
        let said = again(&report, [("SIMULATED_CUDA_AT_ONCE", at_once), ("SIMULATED_CUDA_POOR_PRODUCTS", poor)]);
        println!("{said}");
        assert!(!said.contains("SKIPPED"), "{said}");
        assert!(said.contains("Simulated CUDA device (cuda:0)"), "{said}");
        let report = std::fs::read_to_string(&report).unwrap();
        println!("{report}");
        // The process with the lost device frees nothing, the other one everything.
        let (lost, whole): (Vec<&str>, Vec<&str>) = report.lines().partition(|line| line.contains("\"contexts\":1"));
        assert_eq!((lost.len(), whole.len()), (1, 1), "{report}");
        let left = whole[0].split_once("\"left\":").unwrap().1;
        let counts = left.trim_matches(['{', '}']).split(',').map(|kind| kind.rsplit_once(':').unwrap());
        let left: Vec<_> = counts.filter(|(_, count)| *count != "0").collect();
        assert!(left.is_empty(), "{left:?} of {report}");
    }
}
