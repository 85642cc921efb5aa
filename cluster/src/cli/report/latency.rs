//! Distributions of latencies, split in the time of services, of queues, and the whole.

use super::html::HtmlPiece;
use super::page::ReportPage;
use super::page_table::PageTable;
use super::runs::{MOST_SERIES, ReportedRun};
use anyhow::Result;
use hopeval_plots::{CurvePoint, NamedCurve, PlotTitles, curve_plot};
use hopeval_results::Log;
use hopeval_results::tables::{LatencyRow, read_final};
use std::collections::{BTreeSet, HashMap};

/// The shown percentiles. By nearest rank, as in `hopeval costs`: each is a measured time.
const PERCENTS: [usize; 9] = [5, 10, 25, 50, 75, 90, 95, 99, 100];

/// The parts of a latency.
const PARTS: [(&str, &str, TimeOfRow); 3] = [
    ("service", "service: the critical path of requests", |row| row.service_s),
    ("queue", "queue: waiting on that path", |row| row.queue_s),
    ("wall", "wall: from first request to outcome", |row| row.wall_s),
];

type TimeOfRow = fn(&LatencyRow) -> f64;

/// The section's content.
///
/// # Errors
/// A table cannot be read.
pub(super) fn latency_section(page: &mut ReportPage, runs: &[ReportedRun]) -> Result<HtmlPiece> {
    let mut content = HtmlPiece::default();
    for run in runs {
        let log = Log::open(&run.open.places.store, run.open.id())?;
        let Some(finished) = &log.state().finished else { continue };
        let mut rows: HashMap<String, Vec<LatencyRow>> = HashMap::new();
        for row in read_final::<LatencyRow>(&run.open.places.store, run.open.id(), finished)? {
            rows.entry(row.configuration.clone()).or_default().push(row);
        }
        if rows.is_empty() {
            continue;
        }
        let letter = run.letter.map_or(String::new(), |letter| format!("{letter}: "));
        let mode = match run.is_latency_run() {
            true => "one question at a time",
            false => "many questions in flight: these are not the times of a single user",
        };
        content.push(HtmlPiece::paragraph(&format!("{letter}Seconds, {mode}.")));
        let (all, modes) = (rows.len(), run.open.methods.iter().map(|method| method.context_mode().name()));
        let several = modes.collect::<BTreeSet<_>>().len() > 1;
        let shown = (all > MOST_SERIES)
            .then(|| format!("Shown are the first {MOST_SERIES} of {all} configurations; tables have all."));
        let mixed = several.then(|| "Configurations of all context modes are together here.".to_owned());
        let notes: Vec<String> = shown.into_iter().chain(mixed).collect();
        if !notes.is_empty() {
            content.push(HtmlPiece::note(&notes.join(" ")));
        }
        let plots: HtmlPiece = PARTS.iter().map(|part| part_plot(page, run, &rows, part)).collect();
        content.push(HtmlPiece::element("div", &[("class", "plots")], plots));
    }
    Ok(content)
}

fn part_plot(
    page: &mut ReportPage,
    run: &ReportedRun,
    rows: &HashMap<String, Vec<LatencyRow>>,
    (name, title, time): &(&str, &str, TimeOfRow),
) -> HtmlPiece {
    let letter = run.letter.map_or(String::new(), |letter| format!("-{letter}"));
    let name = format!("latency-{name}{letter}");
    let mut table = PageTable::new(&name, &["configuration", "n"]);
    table.columns.extend(PERCENTS.iter().map(|percent| format!("{percent} %")));
    let mut curves = Vec::new();
    for configuration in run.open.configuration_names() {
        let Some(rows) = rows.get(&configuration) else { continue };
        let mut times: Vec<f64> = rows.iter().map(time).collect();
        times.sort_by(f64::total_cmp);
        let n = times.len();
        let points: Vec<(f64, f64)> = PERCENTS
            .iter()
            .map(|&percent| (times[(n * percent).div_ceil(100).clamp(1, n) - 1], percent as f64))
            .collect();
        let figures = points.iter().map(|&(time, _)| HtmlPiece::quantity(Some(time)));
        table.push([HtmlPiece::text(&configuration), HtmlPiece::count(n as u64)].into_iter().chain(figures));
        let points = points.into_iter().map(|(x, y)| CurvePoint { x, y, interval: None }).collect();
        curves.push(NamedCurve { name: configuration, points });
    }
    curves.truncate(MOST_SERIES);
    let y = "percent of questions within the time".to_owned();
    let titles = PlotTitles { title: (*title).to_owned(), x: "seconds".to_owned(), y };
    page.plot(&name, &curve_plot(&titles, &curves), &format!("latency, {title}"), &table)
}
