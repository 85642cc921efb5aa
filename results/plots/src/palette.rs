//! The colours of plots.

use plotters_backend::BackendColor;

/// Red, green and blue.
pub type RgbColor = (u8, u8, u8);

/// Texts, axes and marks without a series.
pub const INK: RgbColor = (0x1a, 0x1c, 0x20);

/// Labels of axes.
pub const SOFT_INK: RgbColor = (0x55, 0x5b, 0x66);

/// Lines of the grid.
pub const GRID: RgbColor = (0xdf, 0xe2, 0xe7);

/// Series, in their order: told apart by people who see few colours (after Okabe and Ito 2008), on light and dark.
pub const SERIES: [RgbColor; 8] = [
    (0x1f, 0x77, 0xb4),
    (0xd5, 0x5e, 0x00),
    (0x00, 0x96, 0x6e),
    (0xc0, 0x63, 0x95),
    (0xb0, 0x82, 0x0a),
    (0x4a, 0xa3, 0xd8),
    (0x80, 0x86, 0x92),
    (0x9a, 0x60, 0x44),
];

/// The series' colour; after the last one they begin again.
pub(crate) fn series_color(series: usize) -> RgbColor {
    SERIES[series % SERIES.len()]
}

/// A colour as an attribute has it.
pub fn css_color((red, green, blue): RgbColor) -> String {
    format!("#{red:02X}{green:02X}{blue:02X}")
}

pub(crate) fn backend_color(rgb: RgbColor, alpha: f64) -> BackendColor {
    BackendColor { alpha, rgb }
}

/// The colour of a share on the way from pale to strong, in a heat map.
pub(crate) fn heat_color(share: f64) -> RgbColor {
    let mixed = |pale: u8, strong: u8| {
        (f64::from(pale) + (f64::from(strong) - f64::from(pale)) * share.clamp(0.0, 1.0)).round() as u8
    };
    (mixed(0xf4, 0x0b), mixed(0xf1, 0x4f), mixed(0xdc, 0x8a))
}
