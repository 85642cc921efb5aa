//! `lm conformance`: does a device compute what the reference does, and the same in any company?

use crate::print;
use anyhow::{Context, Result};
use clap::Args;
use hopeval_cluster::exit;
use hopeval_lm::devices::DeviceName;

#[derive(Debug, Args)]
pub(crate) struct ConformanceArguments {
    /// The device: cpu, cpu-avx2, cpu-avx512, cuda, cuda:N, cuda-f32 or cuda-f32:N.
    #[arg(long, default_value = "cpu")]
    device: DeviceName,
    /// Prints one JSON document.
    #[arg(long)]
    json: bool,
}

pub(crate) fn conformance(arguments: &ConformanceArguments, threads: Option<usize>) -> Result<u8> {
    let found = arguments.device.conformance(threads);
    let (device, outcome) = found.with_context(|| format!("cannot open the device {}", arguments.device))?;
    let checks = match outcome {
        Ok(report) => report.checks,
        Err(failure) if arguments.json => {
            let document = serde_json::json!({"device": device, "conforms": false, "failure": failure.to_string()});
            print::line(&document.to_string());
            return Ok(exit::FAILED_QUESTIONS);
        }
        Err(failure) => {
            print::error(&failure);
            print::line(&format!("{device} does NOT conform"));
            return Ok(exit::FAILED_QUESTIONS);
        }
    };
    if arguments.json {
        let one = |check: &hopeval_device::conformance::Check| {
            serde_json::json!({
                "operation": format!("{:?}", check.operation), "cases": check.cases, "largest": check.largest,
                "companies": check.companies,
            })
        };
        let checks = checks.iter().map(one).collect::<Vec<_>>();
        print::line(&serde_json::json!({"device": device, "conforms": true, "checks": checks}).to_string());
        return Ok(exit::DONE);
    }
    let rows = checks.iter().map(|check| {
        [
            format!("{:?}", check.operation),
            check.cases.to_string(),
            format!("{:.3}", check.largest),
            check.companies.to_string(),
        ]
        .to_vec()
    });
    let header =
        ["operation", "cases", "largest difference, as a part of the tolerated", "in other company, bit for bit"];
    print::line(&print::markdown(&header, rows));
    print::line(&format!("{device} conforms"));
    Ok(exit::DONE)
}
