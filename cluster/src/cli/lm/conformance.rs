//! `lm conformance`: compares a device's results with the reference, and with its own in other batches.

use crate::cli::tables::markdown_table;
use crate::print;
use anyhow::{Context, Error, Result};
use clap::Args;
use hopeval_cluster::exit;
use hopeval_device::conformance::{Operation, OperationFinding};
use hopeval_lm::devices::DeviceName;

/// Most failures shown of an operation: of thousands of cases many fail alike.
const TOLD: usize = 20;

#[derive(Debug, Args)]
pub(crate) struct ConformanceArguments {
    /// The device: cpu, cpu-avx2, cpu-avx512, cuda, cuda:N, cuda-f32 or cuda-f32:N.
    #[arg(long, default_value = "cpu")]
    device: DeviceName,
    /// Operations to check, comma-separated, such as attention,norm: a sanitizer may not take a library's kernels
    /// [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = operation_named)]
    operations: Vec<Operation>,
    /// Prints one JSON document.
    #[arg(long)]
    json: bool,
}

pub(crate) fn conformance(arguments: &ConformanceArguments, threads: Option<usize>) -> Result<u8> {
    let operations = if arguments.operations.is_empty() { &Operation::ALL[..] } else { &arguments.operations };
    let found = arguments.device.conformance(threads, operations);
    let (device, report) = found.with_context(|| format!("cannot open the device {}", arguments.device))?;
    let conforms = report.conforms();
    if arguments.json {
        let checks: Vec<_> = report.findings.into_iter().map(finding_document).collect();
        print::line(&serde_json::json!({"device": device, "conforms": conforms, "checks": checks}).to_string());
    } else {
        print_findings(report.findings);
        print::line(&format!("{device} {}", if conforms { "conforms" } else { "does NOT conform" }));
    }
    Ok(if conforms { exit::DONE } else { exit::FAILED_QUESTIONS })
}

fn operation_named(name: &str) -> Result<Operation, String> {
    let names = Operation::ALL.map(|operation| format!("{operation:?}").to_lowercase());
    let found = names.iter().position(|known| *known == name.to_lowercase());
    found.map(|at| Operation::ALL[at]).ok_or_else(|| format!("there are {}", names.join(", ")))
}

fn finding_document(finding: OperationFinding) -> serde_json::Value {
    let (check, failed) = (finding.check, finding.failures.len());
    let told = finding.failures.into_iter().take(TOLD).map(|failure| format!("{:#}", Error::new(failure)));
    // JSON has no infinity, the error of a NaN.
    let largest = check.largest.min(f64::MAX);
    serde_json::json!({
        "operation": format!("{:?}", check.operation), "cases": check.cases, "largest": largest,
        "companies": check.companies, "failed": failed, "failures": told.collect::<Vec<_>>(),
    })
}

fn print_findings(findings: Vec<OperationFinding>) {
    let header = [
        "operation",
        "cases",
        "largest difference, as a part of the tolerated",
        "in other company, bit for bit",
        "failed cases",
    ];
    let row = |finding: &OperationFinding| {
        let check = &finding.check;
        [
            format!("{:?}", check.operation),
            check.cases.to_string(),
            format!("{:.3}", check.largest),
            check.companies.to_string(),
            finding.failures.len().to_string(),
        ]
        .to_vec()
    };
    print::line(&markdown_table(&header, findings.iter().map(row)));
    for finding in &findings {
        finding.failures.iter().take(TOLD).for_each(|failure| print::error(failure));
        if finding.failures.len() > TOLD {
            let more = finding.failures.len() - TOLD;
            print::note(&format!("{more} more cases of {:?} failed", finding.check.operation));
        }
    }
}
