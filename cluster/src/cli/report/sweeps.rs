//! Sweeps: heat maps over two parameters, and slices through the best point along one.

use super::html::Html;
use super::page::ReportPage;
use super::page_table::PageTable;
use super::quality::{estimate, named};
use super::runs::{RankedGroup, ReportedSide};
use hopeval_plots::{Curve, CurvePoint, HeatMap, PlotTitles, curve_plot, heat_map};
use std::collections::BTreeMap;

/// The most heat maps of one measure of a sweep.
const MOST_MAPS: usize = 6;

/// The points of a method's sweep.
struct MethodSweep<'a> {
    name: String,
    /// The parameters with the labels of their values, in the job's order.
    parameters: Vec<(String, Vec<String>)>,
    points: Vec<SweepPoint<'a>>,
}

/// A configuration of a sweep.
struct SweepPoint<'a> {
    /// The labels of its values, in the order of the sweep's parameters.
    labels: Vec<String>,
    side: ReportedSide<'a>,
}

/// The section's content.
pub(super) fn sweep_section(page: &mut ReportPage, groups: &[RankedGroup<'_>]) -> Html {
    let mut content = Html::default();
    for group in groups {
        for sweep in method_sweeps(group) {
            for measure in group.headline_measures() {
                let Some(best) = sweep.best_point(&measure) else { continue };
                let title = format!("{}: {measure}, {}", sweep.name, group.title);
                content.push(Html::element("h3", &[], &title));
                content.push(Html::paragraph(&format!(
                    "The best of {} points is {}.",
                    sweep.points.len(),
                    best.side.label()
                )));
                let name = format!("{}-{measure}-{}", sweep.name, group.name);
                let mut plots = sweep.maps(page, &name, &measure, best);
                plots.push(sweep.slices(page, &name, &measure, best));
                content.push(Html::element("div", &[("class", "plots")], plots));
                content.push(sweep.details(&name, &measure));
            }
        }
    }
    content
}

/// The sweeps of a group with at least two points.
fn method_sweeps<'a>(group: &RankedGroup<'a>) -> Vec<MethodSweep<'a>> {
    let mut sweeps: BTreeMap<String, MethodSweep<'a>> = BTreeMap::new();
    for side in &group.sides {
        let Some(swept) = side.swept() else { continue };
        let letter = side.run.letter.map_or(String::new(), |letter| format!("{letter}:"));
        let name = format!("{letter}{}", swept.method);
        let sweep = sweeps.entry(name.clone()).or_insert_with(|| MethodSweep {
            name,
            parameters: swept.values.iter().map(|(parameter, _)| (parameter.clone(), Vec::new())).collect(),
            points: Vec::new(),
        });
        for ((_, labels), (_, label)) in sweep.parameters.iter_mut().zip(&swept.values) {
            if !labels.contains(label) {
                labels.push(label.clone());
            }
        }
        let labels = swept.values.iter().map(|(_, label)| label.clone()).collect();
        sweep.points.push(SweepPoint { labels, side: *side });
    }
    sweeps.into_values().filter(|sweep| sweep.points.len() > 1).collect()
}

impl<'a> MethodSweep<'a> {
    fn best_point(&self, measure: &str) -> Option<&SweepPoint<'a>> {
        let known = self.points.iter().filter_map(|point| Some((point, point.side.value("all", measure)?)));
        known.reduce(|best, next| if next.1 > best.1 { next } else { best }).map(|(point, _)| point)
    }

    fn side_at(&self, labels: &[String]) -> Option<&ReportedSide<'a>> {
        self.points.iter().find(|point| point.labels == labels).map(|point| &point.side)
    }

    /// Heat maps over the two parameters with the most values: one for each combination of the others, at most
    /// [`MOST_MAPS`], else the one with the best point.
    fn maps(&self, page: &mut ReportPage, name: &str, measure: &str, best: &SweepPoint<'a>) -> Html {
        let mut order: Vec<usize> = (0..self.parameters.len()).filter(|&at| self.parameters[at].1.len() > 1).collect();
        order.sort_by_key(|&at| std::cmp::Reverse(self.parameters[at].1.len()));
        let [across, down, ..] = order[..] else { return Html::default() };
        let mut bases: BTreeMap<String, &Vec<String>> = BTreeMap::new();
        for point in &self.points {
            bases.entry(self.fixed(&point.labels, &[across, down])).or_insert(&point.labels);
        }
        if bases.len() > MOST_MAPS {
            bases = BTreeMap::from([(self.fixed(&best.labels, &[across, down]), &best.labels)]);
        }
        let maps = bases.iter().enumerate().map(|(number, (fixed, base))| {
            let name = format!("map-{number}-{name}");
            self.map(page, &name, measure, (across, down), base, fixed)
        });
        maps.collect()
    }

    /// A heat map over two parameters, through the point with the labels `base`.
    fn map(
        &self,
        page: &mut ReportPage,
        name: &str,
        measure: &str,
        (across, down): (usize, usize),
        base: &[String],
        fixed: &str,
    ) -> Html {
        let [(x, columns), (y, rows)] = [&self.parameters[across], &self.parameters[down]];
        let mut table = PageTable::new(name, &[y]);
        table.columns.extend(columns.iter().map(|column| format!("{x}={column}")));
        let mut cells = Vec::new();
        for row in rows {
            let value = |column: &String| {
                let mut labels = base.to_vec();
                (labels[down], labels[across]) = (row.clone(), column.clone());
                self.side_at(&labels)?.value("all", measure)
            };
            let values: Vec<Option<f64>> = columns.iter().map(value).collect();
            table.push([Html::text(row)].into_iter().chain(values.iter().map(|&value| Html::share(value))));
            cells.push(values);
        }
        let title = format!("{measure}{fixed}");
        let titles = PlotTitles { title, x: format!("across: {x}"), y: format!("down: {y}") };
        let map = HeatMap { columns: columns.clone(), rows: rows.clone(), cells };
        page.plot(name, &heat_map(&titles, &map), &titles.title, &table)
    }

    /// The values of the parameters that a plot does not vary.
    fn fixed(&self, labels: &[String], varied: &[usize]) -> String {
        let fixed = self.parameters.iter().zip(labels).enumerate().filter(|(at, _)| !varied.contains(at));
        let fixed: Vec<String> = fixed.map(|(_, ((name, _), label))| format!("{name}={label}")).collect();
        if fixed.is_empty() { String::new() } else { format!(", {}", fixed.join(", ")) }
    }

    /// A curve along each parameter of numbers, through the best point.
    fn slices(&self, page: &mut ReportPage, name: &str, measure: &str, best: &SweepPoint<'a>) -> Html {
        let mut slices = Html::default();
        for (at, (parameter, labels)) in self.parameters.iter().enumerate() {
            let numbers: Option<Vec<f64>> = labels.iter().map(|label| label.parse().ok()).collect();
            let Some(numbers) = numbers.filter(|numbers| numbers.len() > 1) else { continue };
            let file = format!("slice-{parameter}-{name}");
            let mut table = PageTable::new(&file, &[parameter, measure]);
            let mut points: Vec<CurvePoint> = Vec::new();
            for (x, label) in numbers.into_iter().zip(labels) {
                let mut labels = best.labels.clone();
                labels[at].clone_from(label);
                let Some(side) = self.side_at(&labels) else { continue };
                table.push([Html::text(label), estimate(side, "all", measure)]);
                let Some(row) = side.row("all", measure) else { continue };
                points.extend(row.value.map(|y| CurvePoint { x, y, interval: row.low.zip(row.high) }));
            }
            points.sort_by(|a, b| a.x.total_cmp(&b.x));
            let title = format!("{measure} along {parameter}{}", self.fixed(&best.labels, &[at]));
            let titles = PlotTitles { title, x: parameter.clone(), y: measure.to_owned() };
            let curves = [Curve { name: self.name.clone(), points }];
            slices.push(page.plot(&file, &curve_plot(&titles, &curves), &titles.title, &table));
        }
        slices
    }

    /// The table of all points.
    fn details(&self, name: &str, measure: &str) -> Html {
        let mut table = PageTable::new(&format!("sweep-{name}"), &["configuration"]);
        let parameters = self.parameters.iter().map(|(parameter, _)| parameter.clone());
        table.columns.extend(parameters.chain([measure.to_owned()]));
        for SweepPoint { labels, side } in &self.points {
            let cells = labels.iter().map(|label| Html::text(label));
            table.push([named(side)].into_iter().chain(cells).chain([estimate(side, "all", measure)]));
        }
        let behind = [Html::element("summary", &[], "All points"), table.to_html()];
        Html::element("details", &[], behind.into_iter().collect::<Html>())
    }
}
