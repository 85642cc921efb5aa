//! Rows of points with intervals along one axis: differences as a forest plot.

use crate::canvas::{TextLook, drawn, fitted};
use crate::frame::{AXIS, LABEL, PlotTitles, RIGHT, WIDTH, draw_horizontal_axis};
use crate::palette::{INK, SOFT_INK, series_color};
use crate::scale::AxisScale;

/// A row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IntervalRow {
    /// The name above the row's line.
    pub name: String,
    /// The figures at the row's end.
    pub figures: String,
    /// The point.
    pub value: f64,
    /// The ends of the line through the point.
    pub interval: Option<(f64, f64)>,
    /// Whether the row stands out, as a difference that is significant.
    pub is_marked: bool,
}

/// The height of a row, and where the rows begin.
const ROW: f64 = 30.0;
const FIRST: f64 = 42.0;
const LEFT: f64 = 14.0;

/// Draws rows of points with their intervals. The axis always has 0.
pub fn interval_plot(titles: &PlotTitles, rows: &[IntervalRow]) -> String {
    let values = rows.iter().flat_map(|row| [Some(row.value), row.interval.map(|i| i.0), row.interval.map(|i| i.1)]);
    let x = AxisScale::from_zero(values.flatten(), (LEFT, RIGHT));
    let bottom = FIRST + ROW * rows.len() as f64;
    drawn(WIDTH, bottom + AXIS, |canvas| {
        titles.draw(canvas);
        draw_horizontal_axis(canvas, &x, FIRST, bottom);
        titles.draw_x(canvas, bottom + 30.0);
        if x.has(0.0) {
            canvas.line((x.place(0.0), FIRST), (x.place(0.0), bottom), SOFT_INK, 1.0);
        }
        for (at, row) in rows.iter().enumerate() {
            let top = FIRST + ROW * at as f64;
            let (series, y) = (usize::from(row.is_marked), top + 21.0);
            let name = fitted(&row.name, LABEL, WIDTH * 0.58);
            canvas.text(&name, (LEFT, top + 9.0), TextLook::of_size(LABEL).colored(INK));
            let figures = TextLook::of_size(LABEL).colored(SOFT_INK).ending();
            canvas.text(&fitted(&row.figures, LABEL, WIDTH * 0.4), (RIGHT, top + 9.0), figures);
            if let Some((low, high)) = row.interval {
                canvas.line((x.place(low), y), (x.place(high), y), series_color(series), 1.5);
            }
            canvas.mark((x.place(row.value), y), series, 3.5);
        }
    })
}
