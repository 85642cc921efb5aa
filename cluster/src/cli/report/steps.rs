//! Calls and tokens of a question by step of the method.

use super::html::HtmlPiece;
use super::page::ReportPage;
use super::page_table::PageTable;
use super::runs::{RankedGroup, ReportedSide};
use hopeval_jobs::report::accounting::MeanCalls;
use hopeval_plots::{BarGroup, PlotTitles, PlottedBar, bar_plot};

/// The section's content.
pub(super) fn step_section(page: &mut ReportPage, groups: &[RankedGroup<'_>]) -> HtmlPiece {
    let mut content = HtmlPiece::default();
    for group in groups.iter().filter(|group| group.sides.iter().any(|side| side.costs().is_some())) {
        let Some(measure) = group.headline_measures().into_iter().next() else { continue };
        let table = step_table(group);
        if table.rows.is_empty() {
            continue;
        }
        let sides = group.best_sides(&measure);
        let calls = step_plot(page, group, &sides, "calls", |calls| calls.calls);
        let tokens = step_plot(page, group, &sides, "tokens", tokens_of);
        content.push(HtmlPiece::element("h3", &[], &group.title));
        let note = group.choice_note(&measure);
        if !note.is_empty() {
            content.push(HtmlPiece::note(&note));
        }
        content.push(HtmlPiece::element(
            "div",
            &[("class", "plots")],
            [calls, tokens].into_iter().collect::<HtmlPiece>(),
        ));
        let behind = [HtmlPiece::element("summary", &[], "The figures of these plots"), table.to_html()];
        content.push(HtmlPiece::element("details", &[], behind.into_iter().collect::<HtmlPiece>()));
    }
    if content.is_empty() {
        return content;
    }
    let lead = HtmlPiece::paragraph("Means over a configuration's questions, as if nothing were shared.");
    [lead, content].into_iter().collect()
}

fn tokens_of(calls: &MeanCalls) -> f64 {
    calls.prompt_tokens + calls.completion_tokens + calls.scored_tokens
}

/// The name of a row of calls: the step, or else the kind of request, and the service.
fn step_name(calls: &MeanCalls) -> String {
    format!("{} ({})", calls.step.as_deref().unwrap_or(&calls.kind), calls.service)
}

/// Money with its currency, and what is lacking in its prices.
fn money(calls: &MeanCalls) -> HtmlPiece {
    let amount = HtmlPiece::quantity(calls.money);
    let currency = calls.currency.as_ref().filter(|_| calls.money.is_some()).map(|name| format!(" {name}"));
    let gap = calls.price_gap.as_ref().map(|gap| format!(" ({gap})"));
    let words = currency.into_iter().chain(gap).map(|text| HtmlPiece::text(&text));
    std::iter::once(amount).chain(words).collect()
}

fn step_table(group: &RankedGroup<'_>) -> PageTable {
    let columns = [
        "configuration",
        "step",
        "service",
        "kind",
        "calls",
        "prompt tokens",
        "completion tokens",
        "scored tokens",
        "device seconds",
        "joules",
        "money",
    ];
    let mut table = PageTable::new(&format!("steps-{}", group.name), &columns);
    for side in &group.sides {
        for calls in side.costs().into_iter().flat_map(|costs| &costs.calls) {
            let texts = [calls.step.as_deref().unwrap_or_default(), &calls.service, &calls.kind].map(HtmlPiece::text);
            let counts = [calls.calls, calls.prompt_tokens, calls.completion_tokens, calls.scored_tokens].map(Some);
            let costs = [calls.device_s, calls.energy_j];
            let figures = counts.into_iter().chain(costs).map(HtmlPiece::quantity);
            table.push([HtmlPiece::text(&side.label())].into_iter().chain(texts).chain(figures).chain([money(calls)]));
        }
    }
    table
}

fn step_plot(
    page: &mut ReportPage,
    group: &RankedGroup<'_>,
    sides: &[ReportedSide<'_>],
    unit: &str,
    amount: fn(&MeanCalls) -> f64,
) -> HtmlPiece {
    let calls = |side: &ReportedSide<'_>| side.costs().map_or(&[][..], |costs| &costs.calls).to_vec();
    let mut steps: Vec<String> = Vec::new();
    for call in sides.iter().flat_map(calls).filter(|call| amount(call) > 0.0) {
        let name = step_name(&call);
        if !steps.contains(&name) {
            steps.push(name);
        }
    }
    if steps.is_empty() {
        return HtmlPiece::default();
    }
    let bars = sides.iter().map(|side| {
        let calls = calls(side);
        let of_step = |step: &String| {
            let found = calls.iter().filter(|call| step_name(call) == *step && amount(call) > 0.0);
            found.map(amount).reduce(|sum, next| sum + next).map(|value| PlottedBar { value, interval: None })
        };
        BarGroup { name: side.label(), bars: steps.iter().map(of_step).collect() }
    });
    let titles = PlotTitles {
        title: format!("{unit} of a question by step"),
        x: String::new(),
        y: format!("{unit}, mean of a question"),
    };
    let svg = bar_plot(&titles, &steps, &bars.collect::<Vec<_>>());
    page.plot_of(&format!("steps-{unit}-{}", group.name), &svg, &titles.title)
}
