//! Draws shapes and texts by the SVG backend of plotters, in points and not in whole pixels.

use crate::palette::{INK, RgbColor, backend_color, series_color};
use crate::shown_text::shown_text;
use plotters_backend::text_anchor::{HPos, Pos, VPos};
use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingBackend, DrawingErrorKind, FontFamily, FontStyle,
};
use plotters_svg::SVGBackend;
use std::convert::Infallible;

/// Units of the picture in a point: the backend takes whole numbers.
const UNITS: f64 = 2.0;

/// The backend multiplies sizes of texts by this.
const BACKEND_FONT: f64 = 1.24;

/// The average width of a character by the size of its text.
const CHARACTER: f64 = 0.54;

/// A picture under way. Positions are in points, from the upper left corner.
pub(crate) struct SvgCanvas<'a> {
    backend: SVGBackend<'a>,
}

/// The look of a text.
#[derive(Clone, Copy)]
pub(crate) struct TextLook {
    pub(crate) size: f64,
    pub(crate) color: RgbColor,
    pub(crate) horizontal: HPos,
    pub(crate) is_bold: bool,
}

impl TextLook {
    /// In ink, beginning at its position.
    pub(crate) fn of_size(size: f64) -> Self {
        Self { size, color: INK, horizontal: HPos::Left, is_bold: false }
    }

    pub(crate) fn colored(self, color: RgbColor) -> Self {
        Self { color, ..self }
    }

    pub(crate) fn centered(self) -> Self {
        Self { horizontal: HPos::Center, ..self }
    }

    pub(crate) fn ending(self) -> Self {
        Self { horizontal: HPos::Right, ..self }
    }

    pub(crate) fn bold(self) -> Self {
        Self { is_bold: true, ..self }
    }
}

/// Draws a picture of a size in points.
pub(crate) fn drawn(width: f64, height: f64, draw: impl FnOnce(&mut SvgCanvas<'_>)) -> String {
    let mut text = String::new();
    let mut canvas =
        SvgCanvas { backend: SVGBackend::with_string(&mut text, (units(width) as u32, units(height) as u32)) };
    draw(&mut canvas);
    written(canvas.backend.present());
    drop(canvas);
    text
}

/// The width of a text, about.
pub(crate) fn text_width(text: &str, size: f64) -> f64 {
    text.chars().count() as f64 * size * CHARACTER
}

/// A text cut to a width; an ellipsis marks the cut, which is in the middle: names of a sweep differ at their ends.
pub(crate) fn fitted(text: &str, size: f64, width: f64) -> String {
    let text = shown_text(text).replace(['\n', '\t'], " ");
    let most = (width / (size * CHARACTER)).floor().max(2.0) as usize;
    let more = text.chars().count().saturating_sub(most);
    if more == 0 {
        return text;
    }
    let begins = most / 2;
    text.chars().take(begins).chain(['…']).chain(text.chars().skip(begins + more + 1)).collect()
}

impl SvgCanvas<'_> {
    pub(crate) fn line(&mut self, from: (f64, f64), to: (f64, f64), color: RgbColor, width: f64) {
        written(self.backend.draw_line(coordinate(from), coordinate(to), &ShapeLook::solid(color, width)));
    }

    pub(crate) fn path(&mut self, points: &[(f64, f64)], color: RgbColor, width: f64) {
        written(self.backend.draw_path(points.iter().copied().map(coordinate), &ShapeLook::solid(color, width)));
    }

    /// A filled area; `alpha` is its opacity.
    pub(crate) fn area(&mut self, points: &[(f64, f64)], color: RgbColor, alpha: f64) {
        let look = ShapeLook { color: backend_color(color, alpha), width: 0 };
        written(self.backend.fill_polygon(points.iter().copied().map(coordinate), &look));
    }

    pub(crate) fn rectangle(&mut self, from: (f64, f64), to: (f64, f64), color: RgbColor) {
        written(self.backend.draw_rect(coordinate(from), coordinate(to), &ShapeLook::solid(color, 0.0), true));
    }

    /// A series' mark. Series differ in form and in colour.
    pub(crate) fn mark(&mut self, (x, y): (f64, f64), series: usize, radius: f64) {
        let color = series_color(series);
        match series % 4 {
            0 => written(self.backend.draw_circle(
                coordinate((x, y)),
                units(radius) as u32,
                &ShapeLook::solid(color, 1.0),
                true,
            )),
            1 => self.rectangle((x - radius * 0.9, y - radius * 0.9), (x + radius * 0.9, y + radius * 0.9), color),
            2 => {
                let r = radius * 1.3;
                self.area(&[(x, y - r), (x + r, y), (x, y + r), (x - r, y)], color, 1.0);
            }
            _ => {
                let r = radius * 1.2;
                self.area(&[(x, y - r), (x + r, y + r * 0.8), (x - r, y + r * 0.8)], color, 1.0);
            }
        }
    }

    /// A line of text; `at` is in the middle of its height.
    pub(crate) fn text(&mut self, text: &str, at: (f64, f64), look: TextLook) {
        let text = shown_text(text).replace(['\n', '\t'], " ");
        written(self.backend.draw_text(&text, &look, coordinate(at)));
    }
}

/// The look of a shape.
struct ShapeLook {
    color: BackendColor,
    width: u32,
}

impl ShapeLook {
    fn solid(color: RgbColor, width: f64) -> Self {
        Self { color: backend_color(color, 1.0), width: units(width) as u32 }
    }
}

impl BackendStyle for ShapeLook {
    fn color(&self) -> BackendColor {
        self.color
    }

    fn stroke_width(&self) -> u32 {
        self.width
    }
}

impl BackendTextStyle for TextLook {
    type FontError = Infallible;

    fn color(&self) -> BackendColor {
        backend_color(self.color, 1.0)
    }

    fn size(&self) -> f64 {
        self.size * UNITS * BACKEND_FONT
    }

    fn style(&self) -> FontStyle {
        if self.is_bold { FontStyle::Bold } else { FontStyle::Normal }
    }

    fn anchor(&self) -> Pos {
        Pos::new(self.horizontal, VPos::Center)
    }

    fn family(&self) -> FontFamily<'_> {
        FontFamily::SansSerif
    }

    fn layout_box(&self, text: &str) -> Result<((i32, i32), (i32, i32)), Infallible> {
        Ok(((0, 0), (units(text_width(text, self.size)), units(self.size))))
    }

    fn draw<E, F: FnMut(i32, i32, BackendColor) -> Result<(), E>>(
        &self,
        _: &str,
        _: BackendCoord,
        _: F,
    ) -> Result<Result<(), E>, Infallible> {
        // An SVG has texts, not their pixels.
        Ok(Ok(()))
    }
}

fn units(points: f64) -> i32 {
    (points * UNITS).round() as i32
}

fn coordinate((x, y): (f64, f64)) -> BackendCoord {
    (units(x), units(y))
}

/// A picture goes into a text, which takes everything.
fn written(result: Result<(), DrawingErrorKind<std::io::Error>>) {
    result.expect("a text takes every shape; this is a bug");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped_and_cut() {
        let svg = drawn(100.0, 50.0, |canvas| {
            canvas.text("</text><script>alert(1)</script>&\u{202E}", (1.0, 1.0), TextLook::of_size(10.0));
        });
        assert!(svg.contains("&lt;/text&gt;&lt;script&gt;") && svg.contains("&amp;[U+202E]"), "{svg}");
        assert!(!svg.contains("<script"), "{svg}");
        assert_eq!(fitted("a long name", 10.0, 27.0), "a …me");
        assert_eq!(fitted("short", 10.0, 27.0), "short");
    }
}
