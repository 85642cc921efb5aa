//! Bars in groups, with intervals.

use crate::canvas::{TextLook, drawn, fitted};
use crate::frame::{AXIS, BOTTOM, LABEL, LEFT, PlotTitles, RIGHT, TOP, WIDTH, draw_vertical_axis};
use crate::legend::SeriesLegend;
use crate::palette::{INK, SOFT_INK, series_color};
use crate::scale::AxisScale;

/// A group of bars beside each other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BarGroup {
    /// The name below it.
    pub name: String,
    /// A bar for each series; `None` where the series has no value.
    pub bars: Vec<Option<PlottedBar>>,
}

/// A bar.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PlottedBar {
    /// Its value.
    pub value: f64,
    /// The interval of the value.
    pub interval: Option<(f64, f64)>,
}

/// Draws a bar for each series in each group.
pub fn bar_plot(titles: &PlotTitles, series: &[String], groups: &[BarGroup]) -> String {
    let bars = || groups.iter().flat_map(|group| group.bars.iter().flatten());
    let values = bars().flat_map(|bar| [Some(bar.value), bar.interval.map(|i| i.1)]).flatten();
    let y = AxisScale::from_zero(values, (BOTTOM, TOP));
    let legend = SeriesLegend::new(series.iter().map(String::as_str));
    let room = (RIGHT - LEFT) / groups.len().max(1) as f64;
    let width = (room * 0.84 / series.len().max(1) as f64).min(34.0);
    drawn(WIDTH, BOTTOM + AXIS + legend.height(), |canvas| {
        titles.draw(canvas);
        draw_vertical_axis(canvas, &y);
        for (at, group) in groups.iter().enumerate() {
            let middle = LEFT + room * (at as f64 + 0.5);
            let first = middle - width * series.len() as f64 / 2.0;
            for (series, bar) in group.bars.iter().enumerate().filter_map(|(series, bar)| Some((series, bar.as_ref()?)))
            {
                let left = first + width * series as f64;
                canvas.rectangle((left, y.place(bar.value)), (left + width * 0.9, BOTTOM), series_color(series));
                if let Some((low, high)) = bar.interval {
                    let x = left + width * 0.45;
                    canvas.line((x, y.place(low)), (x, y.place(high)), INK, 0.5);
                }
            }
            let name = fitted(&group.name, LABEL, room);
            canvas.text(&name, (middle, BOTTOM + 11.0), TextLook::of_size(LABEL).colored(SOFT_INK).centered());
        }
        canvas.line((LEFT, BOTTOM), (RIGHT, BOTTOM), INK, 1.0);
        titles.draw_x(canvas, BOTTOM + 30.0);
        legend.draw(canvas, BOTTOM + AXIS);
    })
}
