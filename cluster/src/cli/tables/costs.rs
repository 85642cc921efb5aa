//! The costs of a question under each configuration.
//!
//! The last two tables have the columns of PromptRank's table A2 (Khalifa et al. 2023, appendix D.1) and of
//! EfficientRAG's table 4 (Zhuang et al. 2024, section 5.2). Both time one query at a time, so their times come from
//! runs of the mode `latency` alone. Figures unknown or not measured in this mode are dashes; columns and tables that
//! would be dashes alone are left out.

use super::UNKNOWN;
use super::fitted::FigureTable;
use super::incurred::incurred_table;
use super::money::money_text;
use crate::print;
use hopeval_jobs::mode::TimingMode;
use hopeval_jobs::report::accounting::{
    AttributedCosts, BroughtCosts, ConfigurationCosts, LatencySummary, RunCosts, TimeDistribution,
};
use hopeval_methods::RequestKind;

/// A figure to `digits` places, or a dash if unknown.
fn known_figure(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| UNKNOWN.to_owned(), |value| format!("{value:.digits$}"))
}

/// A number of parameters in the papers' form.
fn parameter_count(parameters: Option<u64>) -> String {
    let scaled = |n: u64| match n {
        1_000_000_000.. => format!("{:.1}B", n as f64 / 1e9),
        1_000_000.. => format!("{:.1}M", n as f64 / 1e6),
        1_000.. => format!("{:.0}K", n as f64 / 1e3),
        _ => n.to_string(),
    };
    parameters.map_or_else(|| UNKNOWN.to_owned(), scaled)
}

/// A figure of hopeval's own work; `None` for a configuration whose outcomes were brought in.
fn own_figure(account: &ConfigurationCosts, figure: f64) -> Option<f64> {
    account.brought.is_none().then_some(figure)
}

/// A configuration's name, with a mark if it is a control.
fn configuration_name(account: &ConfigurationCosts) -> String {
    let suffix = if account.control.is_some() { " (control)" } else { "" };
    format!("{}{suffix}", account.configuration)
}

/// All tables of a run's costs.
pub(crate) fn cost_tables(accounting: &RunCosts) -> String {
    let RunCosts { run, job, title, mode, questions, passages, workers, configurations, incurred: services } =
        accounting;
    let mut text = title.as_ref().map_or_else(String::new, |title| format!("{title}\n\n"));
    text.push_str(&format!(
        "run {run}: {job}\n{questions} questions, {passages} passages, mode {}, workers: {workers}\n",
        mode.name()
    ));
    // Columns, and tables, of which nothing is known are left out.
    let mut section = |heading: &str, table: FigureTable| {
        if let Some(table) = table.known() {
            text.push_str(&format!("\n{}\n\n{}\n", print::wrapped(heading), table.to_text()));
        }
    };
    section("calls, means over a configuration's n questions", calls_table(configurations));
    section("tokens and operations of a question, as if nothing were shared", work_table(configurations));
    section(
        "cost of a question in seconds: attributed (unshared, at this run's rates) and isolated (alone)",
        cost_table(configurations),
    );
    let timed = match mode {
        TimingMode::Latency => "latency in seconds, one question at a time",
        TimingMode::Throughput => "latency in seconds, many questions in flight: not those of a single user",
    };
    section(timed, latency_table(configurations));
    if let Some(table) = endpoint_table(configurations) {
        section("calls of endpoints and their money, means over a configuration's n questions, unshared", table);
    }
    if let Some(table) = brought_table(configurations) {
        section("costs brought with outcomes, as their files give them: means over n questions, not measured", table);
    }
    section("as PromptRank's table A2", table_a2(configurations));
    section("as EfficientRAG's table 4", table_4(configurations));
    if *mode == TimingMode::Throughput {
        let note = "\nquery time, latency and use of the device are measured by `hopeval run --mode latency`\n";
        text.push_str(&print::wrapped(note));
    }
    text.push_str(&incurred_table(services));
    text
}

fn calls_table(accounts: &[ConfigurationCosts]) -> FigureTable {
    let asked = |kind: &RequestKind| accounts.iter().any(|account| account.calls_of(*kind) > 0.0);
    let kinds: Vec<RequestKind> = RequestKind::ALL.into_iter().filter(asked).collect();
    let mut header = vec!["configuration", "n", "coverage", "iterations", "rounds"];
    header.extend(kinds.iter().map(|kind| kind.name()));
    header.extend(["passages retrieved", "passages kept"]);
    let rows = accounts.iter().map(|account| {
        let mut cells = vec![configuration_name(account), account.n.to_string(), known_figure(account.coverage, 3)];
        cells.extend([known_figure(account.iterations, 2), known_figure(account.rounds, 2)]);
        cells.extend(kinds.iter().map(|&kind| known_figure(own_figure(account, account.calls_of(kind)), 2)));
        cells.extend([known_figure(account.passages_retrieved, 2), known_figure(account.passages_kept, 2)]);
        cells
    });
    FigureTable::new(&header, rows)
}

fn work_table(accounts: &[ConfigurationCosts]) -> FigureTable {
    let rows = accounts.iter().map(|account| {
        let needed = &account.attributed;
        let tokens = [needed.prompt_tokens, needed.completion_tokens, needed.scored_tokens];
        let mut cells = vec![configuration_name(account)];
        cells.extend(tokens.map(|tokens| known_figure(own_figure(account, tokens), 1)));
        let operations = own_figure(account, needed.operations);
        cells.push(operations.map_or_else(|| UNKNOWN.to_owned(), |operations| format!("{operations:.3e}")));
        let cut: Option<f64> = account.calls.iter().map(|calls| calls.cut).sum();
        cells.push(known_figure(cut.and_then(|cut| own_figure(account, cut)), 2));
        cells
    });
    let header =
        ["configuration", "prompt tokens", "completion tokens", "scored tokens", "operations", "requests cut to fit"];
    FigureTable::new(&header, rows)
}

fn cost_table(accounts: &[ConfigurationCosts]) -> FigureTable {
    let mut header = vec![
        "configuration",
        "parameters",
        "attributed, services",
        "attributed, device",
        "isolated, wall",
        "isolated, device",
    ];
    let is_priced = |needed: &AttributedCosts| needed.money.is_some() || needed.price_gap.is_some();
    let priced = accounts.iter().any(|account| is_priced(&account.attributed));
    if priced {
        header.extend(["attributed, money", "isolated, money"]);
    }
    let counted = accounts.iter().any(|account| account.attributed.energy_j.is_some());
    if counted {
        header.push("attributed, joules");
    }
    let rows = accounts.iter().map(|account| {
        let (needed, alone) = (&account.attributed, account.isolated);
        let mut cells = vec![configuration_name(account), parameter_count(account.parameters)];
        cells.extend([known_figure(needed.service_s, 6), known_figure(needed.device_s, 6)]);
        cells.extend([
            known_figure(alone.map(|alone| alone.wall_s), 6),
            known_figure(alone.and_then(|alone| alone.device_s), 6),
        ]);
        if priced {
            cells.push(money_text(needed.money, 9, needed.currency.as_deref(), needed.price_gap.as_ref()));
            cells.push(known_figure(alone.and_then(|alone| alone.money), 9));
        }
        if counted {
            cells.push(known_figure(needed.energy_j, 3));
        }
        cells
    });
    FigureTable::new(&header, rows)
}

fn latency_table(accounts: &[ConfigurationCosts]) -> FigureTable {
    let rows = accounts.iter().flat_map(|account| {
        let times =
            |latency: &LatencySummary| [("service", latency.service), ("queue", latency.queue), ("wall", latency.wall)];
        let rows = account.latency.iter().flat_map(move |latency| times(latency).map(|row| (latency.n, row)));
        rows.map(|(n, (what, TimeDistribution { mean, p50, p90, p99 }))| {
            let mut cells = vec![configuration_name(account), n.to_string(), what.to_owned()];
            cells.extend([mean, p50, p90, p99].map(|seconds| format!("{seconds:.6}")));
            cells
        })
    });
    FigureTable { names: 3, ..FigureTable::new(&["configuration", "n", "time", "mean", "p50", "p90", "p99"], rows) }
}

/// Calls of endpoints by service, kind and step; `None` if there are none.
fn endpoint_table(accounts: &[ConfigurationCosts]) -> Option<FigureTable> {
    let called = || accounts.iter().flat_map(|account| account.calls.iter().map(move |calls| (account, calls)));
    let called = || called().filter(|(_, calls)| calls.attempts.is_some());
    called().next()?;
    let rows = called().map(|(account, calls)| {
        let mut cells = vec![configuration_name(account), calls.service.clone(), calls.kind.clone()];
        cells.push(calls.step.clone().unwrap_or_else(|| UNKNOWN.to_owned()));
        cells.extend([known_figure(Some(calls.calls), 2), known_figure(calls.attempts, 2)]);
        cells.extend([known_figure(Some(calls.prompt_tokens), 1), known_figure(calls.cached_prompt_tokens, 1)]);
        cells.extend([known_figure(Some(calls.completion_tokens), 1), known_figure(calls.reasoning_tokens, 1)]);
        cells.push(money_text(calls.money, 9, calls.currency.as_deref(), calls.price_gap.as_ref()));
        cells
    });
    let header = [
        "configuration",
        "service",
        "kind",
        "step",
        "requests",
        "attempts",
        "prompt tokens",
        "cached",
        "completion tokens",
        "reasoning",
        "money",
    ];
    Some(FigureTable::new(&header, rows))
}

/// The costs in files of rankings; `None` if no outcomes were brought in.
fn brought_table(accounts: &[ConfigurationCosts]) -> Option<FigureTable> {
    let brought = || accounts.iter().filter_map(|account| Some((account, account.brought.as_ref()?)));
    brought().next()?;
    let rows = brought().map(|(account, costs)| {
        let BroughtCosts { n, calls, prompt_tokens, completion_tokens, seconds, money, currency } = costs;
        let mut cells = vec![configuration_name(account), n.to_string(), known_figure(*calls, 2)];
        cells.extend([known_figure(*prompt_tokens, 1), known_figure(*completion_tokens, 1)]);
        cells.push(known_figure(*seconds, 6));
        cells.push(money_text(*money, 9, currency.as_deref(), None));
        cells
    });
    let header = ["configuration", "n", "calls", "prompt tokens", "completion tokens", "seconds", "money"];
    Some(FigureTable::new(&header, rows))
}

fn table_a2(accounts: &[ConfigurationCosts]) -> FigureTable {
    let rows = accounts.iter().map(|account| {
        let time = account.isolated.map(|alone| alone.wall_s);
        vec![configuration_name(account), parameter_count(account.parameters), known_figure(time, 4)]
    });
    FigureTable::new(&["system", "#params", "avg. query time (s)"], rows)
}

fn table_4(accounts: &[ConfigurationCosts]) -> FigureTable {
    let rows = accounts.iter().map(|account| {
        let alone = account.isolated;
        let busy = alone.and_then(|alone| alone.device_use).map(|share| 100.0 * share);
        vec![
            configuration_name(account),
            known_figure(own_figure(account, account.calls_of(RequestKind::Generate)), 2),
            known_figure(account.iterations, 2),
            known_figure(alone.map(|alone| alone.wall_s), 4),
            known_figure(busy, 2),
        ]
    });
    FigureTable::new(&["method", "# LLM calls", "# iterations", "latency (s)", "device use (%)"], rows)
}
