//! Sweeps: heat maps over two parameters, and slices through the best point along one.

use super::html::HtmlPiece;
use super::page::ReportPage;
use super::page_table::PageTable;
use super::quality::estimate;
use super::runs::{RankedGroup, ReportedSide};
use crate::cli::tables::{SHORT_MARK, UNKNOWN};
use hopeval_jobs::job::race_record::{RacedSweep, StoppedPoint};
use hopeval_plots::{CurvePoint, HeatCell, HeatMap, NamedCurve, PlotTitles, curve_plot, heat_map};
use std::collections::BTreeMap;

/// The most heat maps of one measure of a sweep.
const MOST_MAPS: usize = 6;

/// The most names of equal points.
const MOST_NAMES: usize = 4;

/// The points of a method's sweep.
struct MethodSweep<'a> {
    name: String,
    /// The decisions of its race, if it has one.
    raced: Option<&'a RacedSweep>,
    /// The parameters with the labels of their values, in the job's order.
    parameters: Vec<(String, Vec<String>)>,
    points: Vec<SweepPoint<'a>>,
}

/// A configuration of a sweep.
struct SweepPoint<'a> {
    /// The labels of its values, in the order of the sweep's parameters; a dash where one is left out.
    labels: Vec<String>,
    side: ReportedSide<'a>,
}

/// The section's content.
pub(super) fn sweep_section(page: &mut ReportPage, groups: &[RankedGroup<'_>]) -> HtmlPiece {
    let mut content = HtmlPiece::default();
    for group in groups {
        for sweep in method_sweeps(group) {
            content.push(sweep.race());
            for measure in group.headline_measures() {
                let best_points = sweep.best_points(&measure);
                let Some(best) = best_points.first() else { continue };
                let title = format!("{}: {measure}, {}", sweep.name, group.title);
                content.push(HtmlPiece::element("h3", &[], &title));
                content.push(HtmlPiece::paragraph(&sweep.best_text(&best_points)));
                let short = sweep.points.iter().filter(|point| point.side.is_short(&measure)).count();
                if short > 0 {
                    let points = sweep.points.len();
                    content.push(HtmlPiece::note(&format!(
                        "{short} of {points} points rank fewer passages than the cut-off of {measure} (*)."
                    )));
                }
                let name = format!("{}-{measure}-{}", sweep.name, group.name);
                let (mut plots, left_out) = sweep.maps(page, &name, &measure, best);
                left_out.iter().for_each(|text| content.push(HtmlPiece::note(text)));
                plots.push(sweep.slices(page, &name, &measure, best));
                content.push(HtmlPiece::element("div", &[("class", "plots")], plots));
                content.push(sweep.details(&name, &measure));
            }
        }
    }
    content
}

/// The sweeps of a group with at least two points.
fn method_sweeps<'a>(group: &RankedGroup<'a>) -> Vec<MethodSweep<'a>> {
    let mut sweeps: BTreeMap<String, MethodSweep<'a>> = BTreeMap::new();
    let swept_sides = || group.sides.iter().filter_map(|side| Some((side, side.swept()?)));
    for (side, swept) in swept_sides() {
        let letter = side.run.letter.map_or(String::new(), |letter| format!("{letter}:"));
        let name = format!("{letter}{}", swept.method);
        let raced = side.run.open.resolved.job.method.get(&swept.method).and_then(|method| method.raced.as_ref());
        let new = || MethodSweep { name: name.clone(), raced, parameters: Vec::new(), points: Vec::new() };
        let sweep = sweeps.entry(name.clone()).or_insert_with(new);
        for (parameter, label) in &swept.values {
            let at = sweep.parameters.iter().position(|(known, _)| known == parameter).unwrap_or_else(|| {
                sweep.parameters.push((parameter.clone(), Vec::new()));
                sweep.parameters.len() - 1
            });
            let labels = &mut sweep.parameters[at].1;
            if !labels.contains(label) {
                labels.push(label.clone());
            }
        }
        sweep.points.push(SweepPoint { labels: Vec::new(), side: *side });
    }
    for sweep in sweeps.values_mut() {
        // Points have the parameters whose conditions hold, so the first one need not have all.
        sweep.parameters.sort_by(|(a, _), (b, _)| a.cmp(b));
        for point in &mut sweep.points {
            let values = point.side.swept().map_or(&[][..], |swept| &swept.values);
            let label = |(parameter, _): &(String, Vec<String>)| {
                let value = values.iter().find(|(name, _)| name == parameter);
                value.map_or_else(|| UNKNOWN.to_owned(), |(_, label)| label.clone())
            };
            point.labels = sweep.parameters.iter().map(label).collect();
        }
    }
    sweeps.into_values().filter(|sweep| sweep.points.len() > 1 || sweep.raced.is_some()).collect()
}

/// The figure of a cell in the table behind a heat map.
fn heat_figure(cell: Option<HeatCell>) -> HtmlPiece {
    let mut figure = HtmlPiece::share(cell.map(|cell| cell.value));
    if cell.is_some_and(|cell| cell.is_starred) {
        figure.push(HtmlPiece::text(SHORT_MARK));
    }
    figure
}

impl<'a> MethodSweep<'a> {
    /// The points that the sweep's race stopped.
    fn race(&self) -> HtmlPiece {
        let Some(raced) = self.raced else { return HtmlPiece::default() };
        let mut table = PageTable::new(&format!("race-{}", self.name), &["stopped point", "questions", "mean", "cut"]);
        table.columns.extend(["paired difference", "standard error"].map(ToOwned::to_owned));
        for StoppedPoint { configuration, stopped } in &raced.stopped {
            let shares = [stopped.mean, Some(stopped.cut), Some(stopped.difference), Some(stopped.difference_stderr)];
            let names = [HtmlPiece::text(configuration), HtmlPiece::text(&stopped.questions.to_string())];
            table.push(names.into_iter().chain(shares.map(HtmlPiece::share)));
        }
        let rungs: Vec<String> = raced.race.rungs.iter().map(|rung| rung.questions.to_string()).collect();
        let said = format!(
            "A race stopped {} points of {} after rungs of {} questions. Their figures are of these questions, and \
             stand in no other table and in no plot.",
            raced.stopped.len(),
            self.name,
            rungs.join(", ")
        );
        [HtmlPiece::note(&said), table.to_html()].into_iter().collect()
    }

    /// The points with the highest value, those measured to the cut-off of the measure first, then in the job's order.
    fn best_points(&self, measure: &str) -> Vec<&SweepPoint<'a>> {
        let value = |point: &&SweepPoint<'_>| point.side.value("all", measure);
        let Some(highest) = self.points.iter().filter_map(|point| value(&point)).reduce(f64::max) else {
            return Vec::new();
        };
        let mut best: Vec<&SweepPoint<'a>> = self.points.iter().filter(|point| value(point) == Some(highest)).collect();
        best.sort_by_key(|point| point.side.is_short(measure));
        best
    }

    /// A sentence about the best points.
    fn best_text(&self, best: &[&SweepPoint<'a>]) -> String {
        let (all, names) = (self.points.len(), best.iter().map(|point| point.side.label()));
        let names: Vec<String> = names.take(MOST_NAMES).collect();
        match best.len() {
            1 => format!("The best of {all} points is {}.", names.join("")),
            count => {
                let more = if count > MOST_NAMES { format!(" and {} more", count - MOST_NAMES) } else { String::new() };
                format!(
                    "The best of {all} points are {count} with the same value: {}{more}. Maps and slices go through \
                     the first one.",
                    names.join(", ")
                )
            }
        }
    }

    fn side_at(&self, labels: &[String]) -> Option<&ReportedSide<'a>> {
        self.points.iter().find(|point| point.labels == labels).map(|point| &point.side)
    }

    /// Heat maps over the two parameters with the most values: one for each combination of the others, at most
    /// [`MOST_MAPS`], else the one with the best point; and a remark if maps are left out.
    fn maps(
        &self,
        page: &mut ReportPage,
        name: &str,
        measure: &str,
        best: &SweepPoint<'a>,
    ) -> (HtmlPiece, Option<String>) {
        let mut order: Vec<usize> = (0..self.parameters.len()).filter(|&at| self.parameters[at].1.len() > 1).collect();
        order.sort_by_key(|&at| std::cmp::Reverse(self.parameters[at].1.len()));
        let [across, down, ..] = order[..] else { return (HtmlPiece::default(), None) };
        let mut counted: BTreeMap<String, (&Vec<String>, usize)> = BTreeMap::new();
        for point in &self.points {
            counted.entry(self.fixed(&point.labels, &[across, down])).or_insert((&point.labels, 0)).1 += 1;
        }
        // Of points drawn at random, many stand alone.
        let mut bases: BTreeMap<String, &Vec<String>> = counted
            .into_iter()
            .filter(|(_, (_, points))| *points > 1)
            .map(|(fixed, (base, _))| (fixed, base))
            .collect();
        let all = bases.len();
        let left_out = (all > MOST_MAPS).then(|| {
            format!("The heat map is 1 of {all}, that of the best point; the table of all points has the others.")
        });
        if left_out.is_some() {
            bases = BTreeMap::from([(self.fixed(&best.labels, &[across, down]), &best.labels)]);
        }
        let maps = bases.iter().enumerate().map(|(number, (fixed, base))| {
            let name = format!("map-{number}-{name}");
            self.map(page, &name, measure, (across, down), base, fixed)
        });
        (maps.collect(), left_out)
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
    ) -> HtmlPiece {
        let [(x, columns), (y, rows)] = [&self.parameters[across], &self.parameters[down]];
        let mut table = PageTable::new(name, &[y]);
        table.columns.extend(columns.iter().map(|column| format!("{x}={column}")));
        let mut cells = Vec::new();
        for row in rows {
            let value = |column: &String| {
                let mut labels = base.to_vec();
                (labels[down], labels[across]) = (row.clone(), column.clone());
                let side = self.side_at(&labels)?;
                Some(HeatCell { value: side.value("all", measure)?, is_starred: side.is_short(measure) })
            };
            let values: Vec<Option<HeatCell>> = columns.iter().map(value).collect();
            table.push([HtmlPiece::text(row)].into_iter().chain(values.iter().map(|cell| heat_figure(*cell))));
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
    fn slices(&self, page: &mut ReportPage, name: &str, measure: &str, best: &SweepPoint<'a>) -> HtmlPiece {
        let mut slices = HtmlPiece::default();
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
                table.push([HtmlPiece::text(label), estimate(side, "all", measure)]);
                let Some(row) = side.row("all", measure) else { continue };
                points.extend(row.value.map(|y| CurvePoint { x, y, interval: row.low.zip(row.high) }));
            }
            if points.len() < 2 {
                continue;
            }
            points.sort_by(|a, b| a.x.total_cmp(&b.x));
            let title = format!("{measure} along {parameter}{}", self.fixed(&best.labels, &[at]));
            let titles = PlotTitles { title, x: parameter.clone(), y: measure.to_owned() };
            let curves = [NamedCurve { name: self.name.clone(), points }];
            slices.push(page.plot(&file, &curve_plot(&titles, &curves), &titles.title, &table));
        }
        slices
    }

    /// The table of all points.
    fn details(&self, name: &str, measure: &str) -> HtmlPiece {
        let mut table = PageTable::new(&format!("sweep-{name}"), &["configuration"]);
        let parameters = self.parameters.iter().map(|(parameter, _)| parameter.clone());
        table.columns.extend(parameters.chain([measure.to_owned()]));
        for SweepPoint { labels, side } in &self.points {
            let cells = labels.iter().map(|label| HtmlPiece::text(label));
            table.push(
                [HtmlPiece::text(&side.label())].into_iter().chain(cells).chain([estimate(side, "all", measure)]),
            );
        }
        let behind = [HtmlPiece::element("summary", &[], "All points"), table.to_html()];
        HtmlPiece::element("details", &[], behind.into_iter().collect::<HtmlPiece>())
    }
}
