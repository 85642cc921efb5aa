//! The frame of a plot with two axes: titles, grid and labels.

use crate::canvas::{SvgCanvas, TextLook, fitted};
use crate::palette::{GRID, INK, SOFT_INK};
use crate::scale::AxisScale;

/// The width of every plot, in points: on a phone it is shown at about this width.
pub(crate) const WIDTH: f64 = 420.0;

/// The ends of the area of a plot.
pub(crate) const LEFT: f64 = 46.0;
pub(crate) const RIGHT: f64 = WIDTH - 14.0;
pub(crate) const TOP: f64 = 48.0;
pub(crate) const BOTTOM: f64 = 262.0;

/// The room for the horizontal axis, below the area.
pub(crate) const AXIS: f64 = 42.0;

/// Sizes of texts.
pub(crate) const LABEL: f64 = 11.0;
const TITLE: f64 = 13.0;

/// The words around a plot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlotTitles {
    /// Above the plot.
    pub title: String,
    /// The horizontal axis, with its unit.
    pub x: String,
    /// The vertical axis, with its unit.
    pub y: String,
}

impl PlotTitles {
    /// Draws the title and the name of the vertical axis below it.
    pub(crate) fn draw(&self, canvas: &mut SvgCanvas<'_>) {
        let title = TextLook::of_size(TITLE).bold();
        canvas.text(&fitted(&self.title, TITLE, WIDTH - 12.0), (6.0, 13.0), title);
        canvas.text(&fitted(&self.y, LABEL, WIDTH - 12.0), (6.0, 31.0), TextLook::of_size(LABEL).colored(SOFT_INK));
    }

    /// Draws the name of the horizontal axis.
    pub(crate) fn draw_x(&self, canvas: &mut SvgCanvas<'_>, y: f64) {
        draw_axis_name(canvas, &self.x, y);
    }

    /// Draws the name of the horizontal axis, with the word for its kind unless it is linear.
    pub(crate) fn draw_x_of(&self, canvas: &mut SvgCanvas<'_>, axis: &AxisScale, y: f64) {
        draw_axis_name(canvas, &axis.title_of(&self.x), y);
    }
}

fn draw_axis_name(canvas: &mut SvgCanvas<'_>, name: &str, y: f64) {
    let look = TextLook::of_size(LABEL).colored(SOFT_INK).centered();
    canvas.text(&fitted(name, LABEL, RIGHT - LEFT), ((LEFT + RIGHT) / 2.0, y), look);
}

/// Draws the lines and labels of the vertical axis.
pub(crate) fn draw_vertical_axis(canvas: &mut SvgCanvas<'_>, axis: &AxisScale) {
    for (value, label) in axis.ticks() {
        let y = axis.place(value);
        canvas.line((LEFT, y), (RIGHT, y), GRID, 1.0);
        canvas.text(&label, (LEFT - 5.0, y), TextLook::of_size(LABEL).colored(SOFT_INK).ending());
    }
}

/// Draws the lines and labels of the horizontal axis, over an area from `top` to `bottom`.
pub(crate) fn draw_horizontal_axis(canvas: &mut SvgCanvas<'_>, axis: &AxisScale, top: f64, bottom: f64) {
    let mut free = f64::NEG_INFINITY;
    for (value, label) in axis.ticks() {
        let x = axis.place(value);
        canvas.line((x, top), (x, bottom), GRID, 1.0);
        let width = crate::canvas::text_width(&label, LABEL);
        if x - width / 2.0 > free {
            canvas.text(&label, (x, bottom + 11.0), TextLook::of_size(LABEL).colored(SOFT_INK).centered());
            free = x + width / 2.0 + 4.0;
        }
    }
    canvas.line((axis_start(axis), bottom), (RIGHT, bottom), INK, 1.0);
}

fn axis_start(axis: &AxisScale) -> f64 {
    axis.ticks().first().map_or(LEFT, |(value, _)| axis.place(*value))
}
