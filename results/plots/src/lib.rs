//! Draws plots of evaluations as SVG: curves with bands, points with a front, bars, heat maps, intervals.
//!
//! A plot is a function from figures to a text. Nothing here reads a file, knows a table or computes a figure: what is
//! drawn is what was given, and a figure that is not known is left out. Every label may come from a dataset or a model,
//! so [`shown_text`] replaces what would not be seen, and the library escapes the rest.
//!
//! Colours are few and fixed ([`INK`], [`GRID`], [`SERIES`]), so that a page can give them other values in the dark by
//! rules for the attributes `fill` and `stroke`.

mod bar_plot;
mod canvas;
mod curve_plot;
mod frame;
mod heat_map;
mod interval_plot;
mod legend;
mod palette;
mod point_plot;
mod scale;
mod shown_text;

pub use bar_plot::{BarGroup, PlottedBar, bar_plot};
pub use curve_plot::{CurvePoint, NamedCurve, curve_plot};
pub use frame::PlotTitles;
pub use heat_map::{HeatCell, HeatMap, heat_map};
pub use interval_plot::{IntervalRow, interval_plot};
pub use palette::{GRID, INK, RgbColor, SERIES, SOFT_INK, css_color};
pub use point_plot::{PlottedPoint, point_plot};
pub use shown_text::shown_text;
