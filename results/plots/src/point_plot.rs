//! Points in a plane, quality against cost, with the front of those that no other one beats.

use crate::canvas::{TextLook, drawn, fitted, text_width};
use crate::frame::{
    AXIS, BOTTOM, LABEL, LEFT, PlotTitles, RIGHT, TOP, WIDTH, draw_horizontal_axis, draw_vertical_axis,
};
use crate::palette::{INK, SOFT_INK};
use crate::scale::AxisScale;

/// A point with its name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlottedPoint {
    /// The name beside it, where there is room.
    pub name: String,
    /// Its place on the horizontal axis.
    pub x: f64,
    /// Its place on the vertical axis.
    pub y: f64,
    /// The interval of `y`.
    pub interval: Option<(f64, f64)>,
    /// Whether it belongs to the front.
    pub is_on_front: bool,
}

/// Points on the front, and the others.
const ON_FRONT: usize = 1;
const BEHIND: usize = 0;

/// Of more points, only those on the front have names.
const MOST_NAMES: usize = 12;

/// The widest name beside a point.
const NAME_WIDTH: f64 = 150.0;

/// Draws points, and the front as steps through its own ones. Names that have no room are left out.
pub fn point_plot(titles: &PlotTitles, points: &[PlottedPoint]) -> String {
    let costs: Vec<f64> = points.iter().map(|point| point.x).collect();
    let x = AxisScale::of_costs(&costs, (LEFT, RIGHT));
    let values =
        points.iter().flat_map(|point| [Some(point.y), point.interval.map(|i| i.0), point.interval.map(|i| i.1)]);
    let y = AxisScale::linear(values.flatten(), (BOTTOM, TOP));
    let place = |point: &PlottedPoint| (x.place(point.x), y.place(point.y));
    let mut front: Vec<&PlottedPoint> = points.iter().filter(|point| point.is_on_front).collect();
    front.sort_by(|a, b| a.x.total_cmp(&b.x).then(a.y.total_cmp(&b.y)));
    drawn(WIDTH, BOTTOM + AXIS, |canvas| {
        titles.draw(canvas);
        draw_vertical_axis(canvas, &y);
        draw_horizontal_axis(canvas, &x, TOP, BOTTOM);
        titles.draw_x_of(canvas, &x, BOTTOM + 30.0);
        for point in points {
            if let Some((low, high)) = point.interval {
                let at = x.place(point.x);
                canvas.line((at, y.place(low)), (at, y.place(high)), SOFT_INK, 0.5);
            }
        }
        let mut steps: Vec<(f64, f64)> = Vec::new();
        for at in front.iter().map(|point| place(point)) {
            steps.extend(steps.last().map(|&(_, before)| (at.0, before)));
            steps.push(at);
        }
        if steps.len() > 1 {
            canvas.path(&steps, crate::palette::SERIES[ON_FRONT], 1.5);
        }
        let mut taken: Vec<(f64, f64, f64)> = Vec::new();
        let (on_front, behind): (Vec<&PlottedPoint>, Vec<&PlottedPoint>) =
            points.iter().partition(|point| point.is_on_front);
        for point in on_front.into_iter().chain(behind) {
            canvas.mark(place(point), if point.is_on_front { ON_FRONT } else { BEHIND }, 4.0);
        }
        let others = points.iter().filter(|point| !point.is_on_front && points.len() <= MOST_NAMES);
        for point in front.iter().copied().chain(others) {
            let name = fitted(&point.name, LABEL, NAME_WIDTH);
            let width = text_width(&name, LABEL);
            let (px, py) = place(point);
            let sides = [
                (px + 8.0, py - 7.0),
                (px - 8.0 - width, py - 7.0),
                (px + 8.0, py + 8.0),
                (px - 8.0 - width, py + 8.0),
            ];
            let free = sides.into_iter().find(|&(left, middle)| {
                let is_inside =
                    left >= 2.0 && left + width <= WIDTH - 2.0 && middle > TOP - 6.0 && middle < BOTTOM - 5.0;
                let is_apart = taken.iter().all(|&(other, other_middle, other_width)| {
                    left > other + other_width || other > left + width || (middle - other_middle).abs() > LABEL
                });
                is_inside && is_apart
            });
            if let Some(at) = free {
                taken.push((at.0, at.1, width));
                let color = if point.is_on_front { INK } else { SOFT_INK };
                canvas.text(&name, at, TextLook::of_size(LABEL).colored(color));
            }
        }
    })
}
