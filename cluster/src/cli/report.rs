//! `report`: one page about runs, with plots, tables, the front of quality against cost, and transcripts.
//!
//! ```text
//!   RUN ... --> ReportedRun (figures of `show`, `costs`) --> RankedGroup: one context mode, the same questions
//!     --> a section each: HtmlPiece, and plots of hopeval-plots --> ReportPage --> the file, and --plots DIR
//! ```
//!
//! Figures come from the functions behind `show`, `costs`, `compare` and `reproduce`. Computed here are only the front
//! ([`front`]) and the percentiles of latencies ([`latency`]).

mod cost;
mod differences;
mod front;
mod html;
mod latency;
mod page;
mod page_file;
mod page_table;
mod papers;
mod quality;
mod questions;
mod runs;
mod setup;
mod steps;
mod strata;
mod sweeps;

use self::html::HtmlPiece;
use self::page::ReportPage;
use self::page_file::{PageFile, plot_folder};
use self::runs::{RankedGroup, ReportedRun, open_runs, ranked_groups};
use super::options::PlaceArguments;
use super::tables::SHORT_NOTE;
use super::tables::measures::unfinished_note;
use crate::print;
use anyhow::Result;
use clap::Args;
use hopeval_cluster::exit;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct ReportArguments {
    /// The runs: ids or their beginnings, jobs, `latest`, or `latest~1`. Several must be over one corpus and share
    /// questions.
    #[arg(required = true, num_args = 1..=26, value_name = "RUN")]
    runs: Vec<String>,
    /// The page to write.
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    out: PathBuf,
    /// Writes each plot as an SVG file into this folder, too.
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
}

pub(crate) fn report(places: &PlaceArguments, arguments: &ReportArguments) -> Result<u8> {
    let places = places.open_existing()?;
    let runs = open_runs(&places, &arguments.runs)?;
    let file = PageFile::new(&arguments.out)?;
    let earlier = arguments.plots.as_deref().map(plot_folder).transpose()?;
    let groups = ranked_groups(&runs);
    let page = written_page(&runs, &groups)?;
    file.write(&page.to_text(&page_title(&runs), lead(&runs, &groups)))?;
    if let Some(folder) = &arguments.plots {
        page.write_plots(folder)?;
        let names = page.plot_names();
        let others = earlier.iter().flatten().filter(|name| !names.contains(*name)).count();
        if others > 0 {
            let text = format!("{} has {others} other SVG files, which are not of this page", folder.display());
            print::note(&text);
        }
    }
    print::line(&arguments.out.display().to_string());
    Ok(exit::DONE)
}

fn written_page(runs: &[ReportedRun], groups: &[RankedGroup<'_>]) -> Result<ReportPage> {
    let mut page = ReportPage::default();
    page.add_section("setup", "What was evaluated", setup::setup_section(runs));
    page.add_section("measures", "Measures", quality::measures_section(runs, groups));
    let recall = quality::recall_section(&mut page, groups);
    page.add_section("recall", "Recall at k", recall);
    let cost = cost::cost_section(&mut page, groups);
    page.add_section("cost", "Quality against cost", cost);
    let strata = strata::strata_section(&mut page, groups);
    page.add_section("strata", "By hops and type", strata);
    let sweeps = sweeps::sweep_section(&mut page, groups);
    page.add_section("sweeps", "Sweeps", sweeps);
    let differences = differences::difference_section(&mut page, runs, groups)?;
    page.add_section("differences", "Paired differences", differences);
    let latency = latency::latency_section(&mut page, runs)?;
    page.add_section("latency", "Latency", latency);
    let steps = steps::step_section(&mut page, groups);
    page.add_section("steps", "Calls and tokens by step", steps);
    page.add_section("papers", "Published figures", papers::paper_section(runs)?);
    page.add_section("questions", "Questions won and lost", questions::question_section(groups)?);
    Ok(page)
}

fn page_title(runs: &[ReportedRun]) -> String {
    let title = |run: &ReportedRun| run.open.resolved.job.title.clone().unwrap_or_else(|| run.open.record.job.clone());
    let mut titles: Vec<String> = runs.iter().map(title).collect();
    titles.dedup();
    format!("hopeval: {}", titles.join(", "))
}

/// The lines below the title: what is not finished is said first, then what a star means, if there is one.
fn lead(runs: &[ReportedRun], groups: &[RankedGroup<'_>]) -> HtmlPiece {
    let unfinished = runs.iter().filter_map(|run| {
        let note = unfinished_note(&run.figures)?;
        let text =
            format!("Run {} is {note}. Costs, differences and questions are told of finished runs.", run.open.id());
        Some(HtmlPiece::element("p", &[], HtmlPiece::element("strong", &[], &text)))
    });
    let mut measures = groups.iter().flat_map(|group| group.measures().into_iter().map(move |name| (group, name)));
    let has_short = measures.any(|(group, name)| group.sides.iter().any(|side| side.is_short(&name)));
    unfinished.chain(has_short.then(|| HtmlPiece::note(&format!("{SHORT_NOTE}.")))).collect()
}
