//! The evaluated runs and their settings: jobs, digests, context modes, coverage.

use super::html::HtmlPiece;
use super::page_table::PageTable;
use super::runs::ReportedRun;
use crate::cli::tables::measures::run_heading;

/// The section's content.
pub(super) fn setup_section(runs: &[ReportedRun]) -> HtmlPiece {
    runs.iter().map(of_run).collect()
}

fn of_run(run: &ReportedRun) -> HtmlPiece {
    let (open, resolved) = (&run.open, &run.open.resolved);
    let title = match run.letter {
        Some(letter) => format!("{letter}: run {}", open.id()),
        None => format!("run {}", open.id()),
    };
    let mut content = HtmlPiece::element("h3", &[], &title);
    for line in run_heading(open, &run.figures, "all").lines().filter(|line| !line.is_empty()) {
        content.push(HtmlPiece::paragraph(line));
    }
    let devices: Vec<String> = run.devices().into_iter().collect();
    let price = resolved.job.run.price_per_device_hour.map_or("unknown".to_owned(), |price| price.to_string());
    let facts = [
        ("job", open.record.job.clone()),
        ("digest of the job", open.record.job_digest.clone()),
        ("dataset", format!("{}, digest {}", resolved.format(), resolved.dataset_digest)),
        ("corpus", format!("{} passages, digest {}", resolved.passages, resolved.corpus_digest)),
        ("timing", format!("mode {}", resolved.job.run.mode.name())),
        ("devices", if devices.is_empty() { "none named".to_owned() } else { devices.join(", ") }),
        ("price of a device hour", price),
        ("outcomes", format!("{} of {}", run.figures.outcomes, run.figures.expected)),
        ("tables", run.folder()),
    ];
    let pairs = facts
        .iter()
        .flat_map(|(name, fact)| [HtmlPiece::element("dt", &[], *name), HtmlPiece::element("dd", &[], fact)]);
    content.push(HtmlPiece::element("dl", &[], pairs.collect::<HtmlPiece>()));
    let behind = [HtmlPiece::element("summary", &[], "Configurations"), configurations(run)];
    content.push(HtmlPiece::element("details", &[], behind.into_iter().collect::<HtmlPiece>()));
    let services = [HtmlPiece::element("summary", &[], "Fingerprints of services"), fingerprints(run)];
    content.push(HtmlPiece::element("details", &[], services.into_iter().collect::<HtmlPiece>()));
    content
}

fn configurations(run: &ReportedRun) -> HtmlPiece {
    let letter = run.letter.map_or(String::new(), |letter| format!("-{letter}"));
    let columns = ["configuration", "method", "version", "context mode", "control", "parameters"];
    let mut table = PageTable::new(&format!("configurations{letter}"), &columns);
    for (configuration, method) in run.open.resolved.configurations.iter().zip(&run.open.methods) {
        table.push([
            HtmlPiece::text(&configuration.name),
            HtmlPiece::text(&configuration.kind),
            HtmlPiece::count(method.version().into()),
            HtmlPiece::text(method.context_mode().name()),
            configuration.control.as_deref().map_or_else(HtmlPiece::unknown, HtmlPiece::text),
            HtmlPiece::text(&configuration.parameters.to_string()),
        ]);
    }
    table.to_html()
}

fn fingerprints(run: &ReportedRun) -> HtmlPiece {
    let letter = run.letter.map_or(String::new(), |letter| format!("-{letter}"));
    let mut table = PageTable::new(&format!("services{letter}"), &["service", "fingerprint"]);
    for (name, fingerprint) in &run.open.resolved.services {
        table.push([HtmlPiece::text(name), HtmlPiece::text(fingerprint)]);
    }
    table.to_html()
}
