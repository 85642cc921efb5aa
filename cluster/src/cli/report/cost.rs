//! Quality against the cost of a question, with the Pareto front; the reader chooses the kind of cost.
//!
//! Costs are attributed, as `hopeval costs` shows them: a configuration's own work, as if nothing were shared.

use super::front::pareto_front;
use super::html::HtmlPiece;
use super::page::ReportPage;
use super::page_table::PageTable;
use super::quality::estimate;
use super::runs::{RankedGroup, ReportedRun, ReportedSide};
use hopeval_jobs::report::accounting::AttributedCosts;
use hopeval_jobs::report::price_gap::PriceGap;
use hopeval_plots::{PlotTitles, PlottedPoint, point_plot};
use std::collections::{BTreeMap, BTreeSet};

/// The words for configurations that use nothing of a kind.
const NO_MODEL: &str = "uses no model: left out";
const NO_SERVICE: &str = "asks no service: left out";

/// A kind of cost that the reader can choose.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CostAxis {
    DeviceSeconds,
    ServiceSeconds,
    Joules,
    Money,
    Tokens,
    Latency,
}

impl CostAxis {
    const ALL: [Self; 6] =
        [Self::DeviceSeconds, Self::ServiceSeconds, Self::Joules, Self::Money, Self::Tokens, Self::Latency];

    /// The name in ids and in the style sheet.
    fn name(self) -> &'static str {
        match self {
            Self::DeviceSeconds => "device-seconds",
            Self::ServiceSeconds => "service-seconds",
            Self::Joules => "joules",
            Self::Money => "money",
            Self::Tokens => "tokens",
            Self::Latency => "latency",
        }
    }

    /// The title over the configurations of a group, whose money is in one currency.
    fn title_in(self, group: &RankedGroup<'_>) -> String {
        match self {
            Self::Money => money_title(attributed(group)),
            _ => self.title().to_owned(),
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::DeviceSeconds => "device seconds",
            Self::ServiceSeconds => "service seconds",
            Self::Joules => "joules",
            Self::Money => "money",
            Self::Tokens => "tokens",
            Self::Latency => "latency in seconds",
        }
    }

    /// The mean cost of a question; `None` if it is not known.
    fn of(self, side: &ReportedSide<'_>) -> Option<f64> {
        let costs = side.costs().filter(|costs| costs.brought.is_none())?;
        let needed = &costs.attributed;
        match self {
            Self::DeviceSeconds => needed.device_s,
            Self::ServiceSeconds => needed.service_s,
            Self::Joules => needed.energy_j,
            Self::Money => needed.money.filter(|_| needed.price_gap.is_none()),
            Self::Tokens => Some(needed.prompt_tokens + needed.completion_tokens + needed.scored_tokens),
            Self::Latency => match costs.isolated {
                Some(alone) => Some(alone.wall_s),
                None => costs.latency.map(|latency| latency.wall.mean),
            },
        }
    }

    /// The words for a cost that a configuration does not have.
    fn absence(self, side: &ReportedSide<'_>) -> &'static str {
        let Some(costs) = side.costs() else { return "cost unknown: left out" };
        let needed = &costs.attributed;
        let has_tokens = needed.prompt_tokens + needed.completion_tokens + needed.scored_tokens > 0.0;
        match self {
            _ if costs.brought.is_some() => "brought in, not measured: left out",
            Self::DeviceSeconds | Self::Joules | Self::Money if !has_tokens => NO_MODEL,
            Self::ServiceSeconds if costs.calls.is_empty() => NO_SERVICE,
            Self::Money => match &needed.price_gap {
                Some(PriceGap::Unpriced { .. }) => "not all answers priced: left out",
                Some(PriceGap::Currencies(_)) => "prices in several currencies: left out",
                Some(PriceGap::Uncounted) => "answers without a price not counted: left out",
                None => "cost unknown: left out",
            },
            _ => "cost unknown: left out",
        }
    }

    /// The reason why the runs of a group do not stand on one axis.
    fn refusal(self, group: &RankedGroup<'_>) -> Option<String> {
        let mut runs: Vec<&ReportedRun> = Vec::new();
        for side in &group.sides {
            if !runs.iter().any(|run| run.open.id() == side.run.open.id()) {
                runs.push(side.run);
            }
        }
        match self {
            Self::DeviceSeconds | Self::ServiceSeconds | Self::Joules => {
                let devices: BTreeSet<String> =
                    runs.iter().map(|run| run.devices().into_iter().collect::<Vec<_>>().join(", ")).collect();
                (devices.len() > 1).then(|| "The runs used different devices: compare them by money.".to_owned())
            }
            Self::Money => refuse_currencies(attributed(group)),
            Self::Latency => {
                let modes: BTreeSet<bool> = runs.iter().map(|run| run.is_latency_run()).collect();
                let is_mixed = runs.len() > 1 && modes.contains(&false);
                is_mixed.then(|| {
                    "With many questions in flight, times say how busy each run was: runs are compared by latency in \
                     the mode latency alone."
                        .to_owned()
                })
            }
            Self::Tokens => None,
        }
    }

    /// The meaning of the figures, where it is not plain.
    fn note(self, group: &RankedGroup<'_>) -> &'static str {
        let is_alone = group.sides.iter().all(|side| side.run.is_latency_run());
        match self {
            Self::Tokens => "Tokens of prompts, generated and scored tokens.",
            Self::Latency if !is_alone => "Many questions were in flight: these are not the times of a single user.",
            Self::Latency => "One question at a time.",
            _ => "Attributed: a configuration's own work, as if nothing were shared.",
        }
    }
}

/// The attributed costs of a group's configurations, without those that were brought in.
fn attributed<'a>(group: &'a RankedGroup<'_>) -> impl Iterator<Item = &'a AttributedCosts> {
    let costs = group.sides.iter().filter_map(ReportedSide::costs).filter(|costs| costs.brought.is_none());
    costs.map(|costs| &costs.attributed)
}

/// The currencies of the amounts that are drawn: configurations without an amount are not.
fn currencies<'a>(costs: impl Iterator<Item = &'a AttributedCosts>) -> BTreeSet<Option<&'a str>> {
    let priced = costs.filter(|costs| costs.money.is_some() && costs.price_gap.is_none());
    priced.map(|costs| costs.currency.as_deref()).collect()
}

/// The reason why amounts of money do not stand on one axis.
fn refuse_currencies<'a>(costs: impl Iterator<Item = &'a AttributedCosts>) -> Option<String> {
    (currencies(costs).len() > 1).then(|| "The prices are in several currencies.".to_owned())
}

/// The title of amounts of money, with their currency if it has a name and is the only one.
fn money_title<'a>(costs: impl Iterator<Item = &'a AttributedCosts>) -> String {
    let found = currencies(costs);
    match (found.len(), found.first()) {
        (1, Some(Some(currency))) => format!("money in {currency}"),
        _ => "money".to_owned(),
    }
}

/// The section's content.
pub(super) fn cost_section(page: &mut ReportPage, groups: &[RankedGroup<'_>]) -> HtmlPiece {
    let costs = |axis: &CostAxis| {
        let costs = groups.iter().flat_map(|group| &group.sides).filter_map(|side| axis.of(side));
        costs.reduce(f64::max)
    };
    let titles = |is_meant: &dyn Fn(Option<f64>) -> bool| {
        let titles = CostAxis::ALL.iter().filter(|axis| is_meant(costs(axis))).map(|axis| axis.title());
        titles.collect::<Vec<&str>>().join(", ")
    };
    let (missing, unused) = (titles(&|most| most.is_none()), titles(&|most| most == Some(0.0)));
    let axes: Vec<CostAxis> =
        CostAxis::ALL.into_iter().filter(|axis| costs(axis).is_some_and(|most| most > 0.0)).collect();
    let (of_missing, of_unused) = ("Not known of any configuration", "0 for all configurations with a known cost");
    let told = [(of_missing, &missing), (of_unused, &unused)].into_iter().filter(|(_, titles)| !titles.is_empty());
    let notes: HtmlPiece = told.map(|(words, titles)| HtmlPiece::note(&format!("{words}: {titles}."))).collect();
    let Some(first) = axes.first() else { return if unused.is_empty() { HtmlPiece::default() } else { notes } };
    let mut chooser = HtmlPiece::element("legend", &[], "Cost of a question");
    for axis in &axes {
        let id = format!("cost-{}", axis.name());
        let mut attributes = vec![("type", "radio"), ("name", "cost"), ("id", id.as_str())];
        if axis == first {
            attributes.push(("checked", "checked"));
        }
        chooser.push(HtmlPiece::empty_element("input", &attributes));
        chooser.push(HtmlPiece::element("label", &[("for", &id)], axis.title()));
    }
    let panels: HtmlPiece = axes.iter().map(|&axis| panel(page, axis, groups)).collect();
    chooser.push(HtmlPiece::element("div", &[("class", "panels")], panels));
    let mut content = HtmlPiece::paragraph(
        "On the front is every configuration that no other one beats: none costs at most as much and is at least as \
         good, and better in one of the two. Equal ones are on it together. Controls are not on it.",
    );
    content.push(notes);
    content.push(HtmlPiece::element("fieldset", &[("class", "chooser")], chooser));
    content
}

fn panel(page: &mut ReportPage, axis: CostAxis, groups: &[RankedGroup<'_>]) -> HtmlPiece {
    let mut content = HtmlPiece::default();
    for group in groups {
        let plots: Vec<HtmlPiece> = match axis.refusal(group) {
            Some(reason) => vec![HtmlPiece::paragraph(&reason)],
            None => {
                group.headline_measures().iter().filter_map(|measure| front_plot(page, axis, group, measure)).collect()
            }
        };
        content.push(HtmlPiece::element("h3", &[], &format!("{}, {}", axis.title_in(group), group.title)));
        content.push(HtmlPiece::note(axis.note(group)));
        if plots.is_empty() {
            content.push(HtmlPiece::paragraph("Not known of any configuration here."));
        }
        content.push(HtmlPiece::element("div", &[("class", "plots")], plots.into_iter().collect::<HtmlPiece>()));
    }
    HtmlPiece::element("div", &[("class", &format!("panel {}", axis.name()))], content)
}

fn front_plot(page: &mut ReportPage, axis: CostAxis, group: &RankedGroup<'_>, measure: &str) -> Option<HtmlPiece> {
    let sides: Vec<&ReportedSide<'_>> =
        group.sides.iter().filter(|side| side.value("all", measure).is_some()).collect();
    let ranked = |side: &&ReportedSide<'_>| match side.is_control() {
        true => (None, None),
        false => (axis.of(side), side.value("all", measure)),
    };
    let front = pareto_front(&sides.iter().map(ranked).collect::<Vec<_>>());
    let points = sides.iter().zip(&front).filter_map(|(side, &is_on_front)| {
        let row = side.row("all", measure)?;
        let (x, y, interval) = (axis.of(side)?, row.value?, row.low.zip(row.high));
        Some(PlottedPoint { name: side.label_of(measure), x, y, interval, is_on_front })
    });
    let points: Vec<PlottedPoint> = points.collect();
    if points.is_empty() {
        return None;
    }
    let name = format!("front-{}-{measure}-{}", axis.name(), group.name);
    let cost = axis.title_in(group);
    let mut table = PageTable::new(&name, &["configuration", &cost, measure, "front"]);
    for (side, is_on_front) in sides.iter().zip(&front) {
        let front = match (axis.of(side), is_on_front) {
            (None, _) => axis.absence(side),
            (_, true) => "yes",
            (_, false) if side.is_control() => "control: left out",
            (_, false) => "no",
        };
        table.push([
            HtmlPiece::text(&side.label()),
            HtmlPiece::quantity(axis.of(side)),
            estimate(side, "all", measure),
            HtmlPiece::text(front),
        ]);
    }
    let x = format!("{cost} of a question");
    let titles = PlotTitles { title: format!("{measure} against {cost}"), x, y: measure.to_owned() };
    let label = format!("{measure} against {cost}, with the Pareto front");
    let mut shown = page.plot(&name, &point_plot(&titles, &points), &label, &table);
    let mut absent: BTreeMap<&str, usize> = BTreeMap::new();
    for side in sides.iter().filter(|side| axis.of(side).is_none()) {
        *absent.entry(axis.absence(side)).or_default() += 1;
    }
    if !absent.is_empty() {
        let counted = absent.iter().map(|(words, count)| format!("{} ({count})", words.trim_end_matches(": left out")));
        let counted: Vec<String> = counted.collect();
        let text =
            format!("Of {} configurations, not drawn and not on the front: {}.", sides.len(), counted.join(", "));
        shown = [shown, HtmlPiece::note(&text)].into_iter().collect();
        shown = HtmlPiece::element("div", &[], shown);
    }
    Some(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(money: Option<f64>, currency: Option<&str>) -> AttributedCosts {
        AttributedCosts { money, currency: currency.map(str::to_owned), ..AttributedCosts::default() }
    }

    #[test]
    fn the_axis_of_money_names_the_currency() {
        let title = |costs: &[AttributedCosts]| money_title(costs.iter());
        let (euros, dollars, device) = (of(Some(1.0), Some("EUR")), of(Some(2.0), Some("USD")), of(Some(3.0), None));
        assert_eq!(title(&[euros.clone(), of(None, Some("USD")), euros.clone()]), "money in EUR");
        assert_eq!(title(&[device]), "money", "a device's price is in a currency without a name");
        assert_eq!((title(&[]).as_str(), title(&[euros, dollars]).as_str()), ("money", "money"));
    }

    #[test]
    fn two_currencies_have_no_axis() {
        let refused = |costs: &[AttributedCosts]| refuse_currencies(costs.iter()).is_some();
        let (euros, dollars, device) = (of(Some(1.0), Some("EUR")), of(Some(2.0), Some("USD")), of(Some(3.0), None));
        assert!(!refused(&[euros.clone(), euros.clone()]) && !refused(&[]));
        assert!(refused(&[euros.clone(), dollars]));
        assert!(refused(&[euros.clone(), device]), "a device's price is in a currency without a name");
        assert!(!refused(&[euros, of(None, Some("USD"))]), "what is not known is not drawn");
    }
}
