//! The names of the series below a plot.

use crate::canvas::{SvgCanvas, TextLook, fitted, text_width};
use crate::frame::{LABEL, WIDTH};

/// The height of a line.
const LINE: f64 = 16.0;

/// The room of a mark before its name, and between two names.
const MARK: f64 = 16.0;
const GAP: f64 = 14.0;

/// The names of series with their places, as many on a line as fit.
pub(crate) struct SeriesLegend {
    /// Name, and place from the legend's upper left corner.
    places: Vec<(String, f64, f64)>,
    height: f64,
}

impl SeriesLegend {
    pub(crate) fn new<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        let (mut x, mut y) = (0.0, 0.0);
        let mut places = Vec::new();
        for name in names {
            let name = fitted(name, LABEL, WIDTH - MARK - 16.0);
            let width = MARK + text_width(&name, LABEL);
            if x > 0.0 && x + width > WIDTH - 16.0 {
                (x, y) = (0.0, y + LINE);
            }
            places.push((name, x, y));
            x += width + GAP;
        }
        let height = if places.is_empty() { 0.0 } else { y + LINE + 6.0 };
        Self { places, height }
    }

    pub(crate) fn height(&self) -> f64 {
        self.height
    }

    pub(crate) fn draw(&self, canvas: &mut SvgCanvas<'_>, top: f64) {
        for (series, (name, x, y)) in self.places.iter().enumerate() {
            let (x, y) = (8.0 + x, top + y + LINE / 2.0);
            canvas.mark((x + 5.0, y), series, 4.0);
            canvas.text(name, (x + MARK, y), TextLook::of_size(LABEL));
        }
    }
}
