//! The totals of a job by a probe of some of its questions.

use super::{UNKNOWN, markdown_table};
use hopeval_jobs::report::probe::{EstimatedTotal, ProbedCosts};

/// Services in rows, totals with their intervals in columns, and what they are.
pub(crate) fn probe_table(probed: &ProbedCosts) -> String {
    let ProbedCosts { run, sampled, questions, drawn, services } = probed;
    let rows = services.iter().map(|(name, totals)| {
        let currency = totals.currency.as_deref().unwrap_or_default();
        let money = match (&totals.money, &totals.price_gap) {
            (Some(money), _) => format!("{} {currency}", total_cell(money, 4)).trim_end().to_owned(),
            (None, Some(gap)) => format!("{UNKNOWN} ({gap})"),
            (None, None) => UNKNOWN.to_owned(),
        };
        let counts = [totals.requests, totals.prompt_tokens, totals.completion_tokens];
        let mut cells = vec![name.clone()];
        cells.extend(counts.iter().map(|total| total_cell(total, 0)));
        cells.push(money);
        cells
    });
    let table = markdown_table(&["service", "requests", "prompt tokens", "written tokens", "money"], rows);
    let sample = if *drawn { "drawn at random" } else { "the first ones, so not a random part of them" };
    format!(
        "all {questions} questions by the probe {run} of {sampled}, {sample}; in brackets 95 % intervals\n\n{table}\n\n\
         equal requests of several questions or configurations are paid for once; what the probe asked is journalled \
         and not paid for again"
    )
}

/// A total with its interval.
fn total_cell(total: &EstimatedTotal, digits: usize) -> String {
    let EstimatedTotal { expected, low, high } = total;
    match low.zip(*high) {
        Some((low, high)) => format!("{expected:.digits$} [{low:.digits$}, {high:.digits$}]"),
        None => format!("{expected:.digits$}"),
    }
}
