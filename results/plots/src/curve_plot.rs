//! Curves with bands: a measure along a cut-off, or along a swept parameter.

use crate::canvas::drawn;
use crate::frame::{AXIS, BOTTOM, LEFT, PlotTitles, RIGHT, TOP, WIDTH, draw_horizontal_axis, draw_vertical_axis};
use crate::legend::SeriesLegend;
use crate::palette::series_color;
use crate::scale::AxisScale;

/// A curve with its name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NamedCurve {
    /// The name in the legend.
    pub name: String,
    /// Its points, from left to right.
    pub points: Vec<CurvePoint>,
}

/// A point of a curve.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CurvePoint {
    /// Its place on the horizontal axis.
    pub x: f64,
    /// Its value.
    pub y: f64,
    /// The interval of the value; the band has the intervals of a curve's points.
    pub interval: Option<(f64, f64)>,
}

/// Draws curves, each with the band of its intervals.
pub fn curve_plot(titles: &PlotTitles, curves: &[NamedCurve]) -> String {
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let x = AxisScale::linear(points().map(|point| point.x), (LEFT, RIGHT));
    let values = points().flat_map(|point| [Some(point.y), point.interval.map(|i| i.0), point.interval.map(|i| i.1)]);
    let y = AxisScale::linear(values.flatten(), (BOTTOM, TOP));
    let legend = SeriesLegend::new(curves.iter().map(|curve| curve.name.as_str()));
    drawn(WIDTH, BOTTOM + AXIS + legend.height(), |canvas| {
        titles.draw(canvas);
        draw_vertical_axis(canvas, &y);
        draw_horizontal_axis(canvas, &x, TOP, BOTTOM);
        titles.draw_x(canvas, BOTTOM + 30.0);
        for (series, curve) in curves.iter().enumerate() {
            let banded = || curve.points.iter().filter_map(|point| Some((point.x, point.interval?)));
            let upper = banded().map(|(at, interval)| (x.place(at), y.place(interval.1)));
            let lower = banded().map(|(at, interval)| (x.place(at), y.place(interval.0)));
            let band: Vec<(f64, f64)> = upper.chain(lower.collect::<Vec<_>>().into_iter().rev()).collect();
            if band.len() > 2 {
                canvas.area(&band, series_color(series), 0.13);
            }
        }
        for (series, curve) in curves.iter().enumerate() {
            let line: Vec<(f64, f64)> = curve.points.iter().map(|point| (x.place(point.x), y.place(point.y))).collect();
            canvas.path(&line, series_color(series), 1.5);
            line.iter().for_each(|&at| canvas.mark(at, series, 3.0));
        }
        legend.draw(canvas, BOTTOM + AXIS);
    })
}
