//! The CPU passes the conformance suite with every instruction set of the processor, on any number of threads.

#![expect(clippy::print_stderr, reason = "what is skipped is said, and a failed test's log says how far it was")]

use hopeval_device::conformance::{Arithmetic, Operation, check_device};
use hopeval_device::cpu::{Cpu, InstructionSet};

fn conforms(isa: InstructionSet, threads: usize) {
    if !InstructionSet::available().contains(&isa) {
        eprintln!("SKIPPED: the processor lacks {}", isa.name());
        return;
    }
    let cpu = Cpu::with_isa(isa, Some(threads)).expect("instructions that are there");
    let report = check_device(&cpu, Arithmetic::F32, &Operation::ALL);
    assert!(report.conforms(), "{} on {threads} threads: {:?}", isa.name(), report.findings);
    for finding in report.findings {
        assert!(finding.check.cases > 0 && finding.check.companies > 0, "{finding:?}");
        eprintln!("{} on {threads}: {:?}", isa.name(), finding.check);
    }
}

#[test]
fn avx2_on_one_thread() {
    conforms(InstructionSet::Avx2, 1);
}

#[test]
fn avx2_on_two_threads() {
    conforms(InstructionSet::Avx2, 2);
}

#[test]
fn avx2_on_three_threads() {
    conforms(InstructionSet::Avx2, 3);
}

#[test]
fn avx512_on_one_thread() {
    conforms(InstructionSet::Avx512, 1);
}

#[test]
fn avx512_on_two_threads() {
    conforms(InstructionSet::Avx512, 2);
}

#[test]
fn avx512_on_three_threads() {
    conforms(InstructionSet::Avx512, 3);
}
