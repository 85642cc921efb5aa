//! The work of the services of a run.

use super::UNKNOWN;
use super::fitted::FigureTable;
use super::money::money_text;
use hopeval_jobs::report::paid::drifting_models;
use hopeval_jobs::report::price_gap::PriceGap;
use hopeval_results::tables::CostRow;

/// The work of services as a table: the rows that are the whole run's.
pub(crate) fn incurred_table(costs: &[CostRow]) -> String {
    let incurred: Vec<_> = costs.iter().filter(|row| row.configuration.is_none()).collect();
    let models = incurred.iter().any(|row| row.computed_tokens.is_some());
    let counted = incurred.iter().any(|row| row.energy_j.is_some());
    let paid = incurred.iter().any(|row| row.currency.is_some());
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
        if paid {
            let currency = row.currency.as_deref();
            cells.push(money_text(row.money, 6, currency, PriceGap::of_row(row).as_ref()));
            cells.push(money_text(row.unanswered_money, 6, currency, None));
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
    if paid {
        header.extend(["money", "unanswered, at most"]);
    }
    let table = FigureTable { names: 2, ..FigureTable::new(&header, rows) }.to_text();
    format!("\nincurred by this run\n\n{table}\n{}", drift_lines(&incurred))
}

/// A warning for each endpoint whose model or system changed.
fn drift_lines(incurred: &[&CostRow]) -> String {
    let drifting = incurred.iter().filter_map(|row| Some((&row.service, drifting_models(row)?)));
    let line = |(service, models): (&String, Vec<&str>)| {
        let models = models.join(", ");
        format!("\nwarning: `{service}` answered as several models (model, fingerprint, answers): {models}\n")
    };
    drifting.map(line).collect()
}
