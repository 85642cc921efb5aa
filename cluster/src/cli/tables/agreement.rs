//! The agreement of judges with the exact match and with people.

use super::{UNKNOWN, markdown_table};
use hopeval_jobs::report::agreement::{AgreementReport, JudgeAgreement};

/// The agreement of the judges of a run as a Markdown table.
pub(crate) fn agreement_table(report: &AgreementReport) -> String {
    let header = ["judge", "with", "n", "equal", "kappa", "only the judge says yes", "only the other says yes"];
    let mut text = format!(
        "\nagreement of the judges' words: kappa [95 % interval]\n\n{}",
        markdown_table(&header, report.agreements.iter().map(agreement_row))
    );
    if let Some(marks) = report.marks {
        text.push_str(&format!("\n{marks} marks of people; {} of them are of no judged answer", report.unused_marks));
    }
    text
}

fn agreement_row(row: &JudgeAgreement) -> Vec<String> {
    let share = row.share.map_or(UNKNOWN.to_owned(), |share| format!("{share:.4}"));
    let kappa = match (row.kappa, row.low, row.high) {
        (Some(kappa), Some(low), Some(high)) => format!("{kappa:.4} [{low:.4}, {high:.4}]"),
        _ => UNKNOWN.to_owned(),
    };
    let (judge, other) = (row.judge_only.to_string(), row.other_only.to_string());
    vec![row.configuration.clone(), row.with.to_owned(), row.n.to_string(), share, kappa, judge, other]
}
