//! The driver's own tests over simulated libraries: memory, uploads, launches, products, and a lost device.
//!
//! A process finds its libraries when it begins, so this one runs itself again.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a panic is the report of a test")]

#[path = "../../tests/driver.rs"]
mod driver;

use hopeval_cuda::driver::Driver;
use hopeval_cuda::machine::{CudaFacts, MissingRequirement};
use hopeval_cuda_emulator::libraries::SimulatedLibraries;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

fn libraries() -> SimulatedLibraries {
    SimulatedLibraries::build(Path::new(env!("CARGO_TARGET_TMPDIR"))).unwrap()
}

/// Runs the tests that `arguments` select in a process with these variables, and returns its output.
fn again(arguments: &[&str], found: [(&str, OsString); 3], way: &[(&str, &str)]) -> String {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(arguments).args(["--nocapture", "--test-threads=1"]).envs(found);
    child.envs(way.iter().copied()).env_remove("CUDA_VISIBLE_DEVICES");
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
        let way = [
            ("SIMULATED_CUDA_AT_ONCE", at_once),
            ("SIMULATED_CUDA_POOR_PRODUCTS", poor),
            ("SIMULATED_CUDA_REPORT", report.to_str().unwrap()),
        ];
        let said = again(&["driver::"], libraries().environment_variables(), &way);
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

/// A driver and libraries of CUDA 12.4, with the files that its packages have.
#[test]
fn cuda_12_is_served_from_12_4_on() {
    let dir = tempfile::tempdir().unwrap();
    let found = libraries().named_as_12(dir.path()).unwrap();
    let with = |driver, library, test: &str| {
        let way = [("SIMULATED_CUDA_DRIVER", driver), ("SIMULATED_CUDA_LIBRARIES", library)];
        let said = again(&[test, "--include-ignored"], found.clone(), &way);
        assert!(!said.contains("SKIPPED") && said.contains("1 passed"), "{said}");
        said
    };
    with("12.4", "12.99", "driver::a_rows_product_has_the_same_bits_in_any_batch");
    for (driver, library, refused) in [
        ("12.4", "12.4", ""),
        ("12.3", "12.3", "the driver serves CUDA 12.3, 12.4 or later is needed: install NVIDIA's driver, release 550"),
        ("12.4", "12.3", "libcublasLt is of CUDA 12.3.0, 12.4 or later is needed: LD_LIBRARY_PATH"),
        ("12.4", "13.0", "libcublasLt is of CUDA 13.0.0, the driver serves 12.4: install a newer driver, or a"),
        ("13.0", "12.4", ""),
    ] {
        let said = with(driver, library, "opened_here");
        let expected = if refused.is_empty() { "OPENED".to_owned() } else { format!("REFUSED cuda:0: {refused}") };
        assert!(said.contains(&expected), "CUDA {driver} and {library}: {said}");
    }
}

/// Facts and devices are asked for several times.
#[test]
fn each_library_is_loaded_once() {
    let dir = tempfile::tempdir().unwrap();
    let loads = dir.path().join("loads");
    let way = [("SIMULATED_CUDA_LOADS", loads.to_str().unwrap())];
    again(&["opened_here", "--include-ignored"], libraries().environment_variables(), &way);
    let loads = std::fs::read_to_string(&loads).unwrap();
    let mut loaded: Vec<&str> = loads.lines().collect();
    loaded.sort_unstable();
    assert_eq!(loaded, ["libcublasLt", "libcuda", "libnvrtc"], "{loads}");
}

#[test]
#[ignore = "run by the others, with libraries"]
fn opened_here() {
    let facts = CudaFacts::collect_facts();
    match Driver::open(0, None) {
        Ok(driver) => {
            assert!(facts.is_usable() && CudaFacts::collect_facts().is_usable(), "{facts:#?}");
            println!("OPENED {driver:?}");
        }
        Err(error) => {
            // Doctor says the same.
            let shown = [facts.driver.err(), facts.cublaslt.err()].into_iter().flatten().next().unwrap();
            assert!(!matches!(shown, MissingRequirement::Driver) && error.to_string().contains(&shown.to_string()));
            let text = error.to_string();
            println!("REFUSED {}", &text[text.find("cuda:0").unwrap()..]);
        }
    }
}
