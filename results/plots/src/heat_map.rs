//! A heat map: a measure over two swept parameters.

use crate::canvas::{TextLook, drawn, fitted, text_width};
use crate::frame::{LABEL, PlotTitles, RIGHT, WIDTH};
use crate::palette::{INK, RgbColor, SOFT_INK, heat_color};

/// A measure over two parameters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeatMap {
    /// The values of the parameter across.
    pub columns: Vec<String>,
    /// The values of the parameter down.
    pub rows: Vec<String>,
    /// By row and column; `None` where there is no point.
    pub cells: Vec<Vec<Option<HeatCell>>>,
}

/// A point of a heat map.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HeatCell {
    /// Its value.
    pub value: f64,
    /// Whether its figure has a star.
    pub is_starred: bool,
}

/// Figures are dark on pale cells, and light on strong ones. Both stay as they are in the dark.
const DARK_FIGURE: RgbColor = (0, 0, 0);
const LIGHT_FIGURE: RgbColor = (0xfe, 0xfe, 0xfe);

/// The share from which cells have light figures: there, both have a contrast of 4.5.
const STRONG: f64 = 0.74;

/// The smallest figure in a cell.
const SMALLEST: f64 = 7.0;

const TOP: f64 = 62.0;
const ROW: f64 = 28.0;

/// Draws a heat map with the figure in each cell, where there is room. The best cell has a frame.
pub fn heat_map(titles: &PlotTitles, map: &HeatMap) -> String {
    let known = || map.cells.iter().flatten().flatten().map(|cell| cell.value);
    let (low, high) = (known().fold(f64::INFINITY, f64::min), known().fold(f64::NEG_INFINITY, f64::max));
    let left = 18.0 + map.rows.iter().map(|row| row.chars().count()).max().unwrap_or(0).clamp(2, 14) as f64 * 6.4;
    let width = (RIGHT - left) / map.columns.len().max(1) as f64;
    let bottom = TOP + ROW * map.rows.len() as f64;
    drawn(WIDTH, bottom + 30.0, |canvas| {
        titles.draw(canvas);
        for (at, name) in map.columns.iter().enumerate() {
            let look = TextLook::of_size(LABEL).colored(SOFT_INK).centered();
            canvas.text(&fitted(name, LABEL, width), (left + width * (at as f64 + 0.5), TOP - 10.0), look);
        }
        for (down, name) in map.rows.iter().enumerate() {
            let top = TOP + ROW * down as f64;
            let look = TextLook::of_size(LABEL).colored(SOFT_INK).ending();
            canvas.text(&fitted(name, LABEL, left - 8.0), (left - 6.0, top + ROW / 2.0), look);
            let cells = map.cells.get(down).into_iter().flatten().enumerate();
            for (across, cell) in cells.filter_map(|(across, cell)| Some((across, (*cell)?))) {
                let HeatCell { value, is_starred } = cell;
                let share = if high > low { (value - low) / (high - low) } else { 1.0 };
                let x = left + width * across as f64;
                canvas.rectangle((x + 0.5, top + 0.5), (x + width - 0.5, top + ROW - 0.5), heat_color(share));
                if value == high {
                    let corners =
                        [(x + 1.0, top + 1.0), (x + width - 1.0, top + 1.0), (x + width - 1.0, top + ROW - 1.0)];
                    let frame: Vec<(f64, f64)> =
                        corners.into_iter().chain([(x + 1.0, top + ROW - 1.0), (x + 1.0, top + 1.0)]).collect();
                    canvas.path(&frame, INK, 1.0);
                }
                let figure = format!("{value:.3}{}", if is_starred { "*" } else { "" });
                let size = LABEL.min((width - 4.0) / text_width(&figure, 1.0));
                if size >= SMALLEST {
                    let color = if share < STRONG { DARK_FIGURE } else { LIGHT_FIGURE };
                    canvas.text(
                        &figure,
                        (x + width / 2.0, top + ROW / 2.0),
                        TextLook::of_size(size).colored(color).centered(),
                    );
                }
            }
        }
        titles.draw_x(canvas, bottom + 14.0);
    })
}
