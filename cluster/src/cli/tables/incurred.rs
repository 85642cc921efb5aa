//! The work of the services of a run.

use super::{UNKNOWN, markdown_table};
use hopeval_results::tables::CostRow;

/// The work of services as a table: the rows that are the whole run's.
pub(crate) fn incurred_table(costs: &[CostRow]) -> String {
    let incurred: Vec<_> = costs.iter().filter(|row| row.configuration.is_none()).collect();
    let models = incurred.iter().any(|row| row.computed_tokens.is_some());
    let counted = incurred.iter().any(|row| row.energy_j.is_some());
    let rows = incurred.iter().map(|row| {
        let count = |n: Option<u64>| n.map_or(UNKNOWN.to_owned(), |n| n.to_string());
        let seconds = |s: Option<f64>| s.map_or(UNKNOWN.to_owned(), |s| format!("{s:.3}"));
        let mut cells = vec![
            row.service.clone(),
            row.kind.clone(),
            row.requests.to_string(),
            count(row.unique),
            count(row.computed),
            seconds(row.service_s),
        ];
        if models {
            let tokens = row.prompt_tokens + row.completion_tokens + row.scored_tokens;
            let tokens = row.computed_tokens.map(|_| tokens);
            let cut = row.cut.filter(|_| row.computed_tokens.is_some());
            cells.extend([count(tokens), count(row.computed_tokens), count(cut), seconds(row.device_s)]);
        }
        if counted {
            cells.push(row.energy_j.map_or(UNKNOWN.to_owned(), |joules| format!("{joules:.1}")));
        }
        cells
    });
    let mut header = vec!["service", "kind", "requests", "unique", "computed", "service seconds"];
    if models {
        header.extend(["tokens", "through the model", "cut to fit", "device seconds"]);
    }
    if counted {
        header.push("joules");
    }
    let table = markdown_table(&header, rows);
    format!("\nincurred by this run\n\n{table}\n")
}
