//! Pieces of a page. A text enters one by [`HtmlPiece::text`] alone, which escapes it.

use hopeval_plots::shown_text;

/// A piece of HTML, in which every tag is the program's own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct HtmlPiece(String);

impl HtmlPiece {
    /// A text from anywhere: a dataset, a model, a job. What could be markup is escaped; marks of direction and
    /// controls are shown by name. The result may stand in an attribute, too.
    pub(super) fn text(text: &str) -> Self {
        let mut escaped = String::with_capacity(text.len() + 8);
        for character in shown_text(text).chars() {
            match character {
                '&' => escaped.push_str("&amp;"),
                '<' => escaped.push_str("&lt;"),
                '>' => escaped.push_str("&gt;"),
                '"' => escaped.push_str("&quot;"),
                '\'' => escaped.push_str("&#39;"),
                other => escaped.push(other),
            }
        }
        Self(escaped)
    }

    /// An element. Names of tags and attributes are literals; values of attributes are escaped.
    pub(super) fn element(name: &'static str, attributes: &[(&'static str, &str)], content: impl Into<Self>) -> Self {
        let Self(opened) = Self::empty_element(name, attributes);
        Self(format!("{opened}{}</{name}>", content.into().0))
    }

    /// An element without content and end.
    pub(super) fn empty_element(name: &'static str, attributes: &[(&'static str, &str)]) -> Self {
        let attribute = |(key, value): &(&'static str, &str)| format!(" {key}=\"{}\"", Self::text(value).0);
        Self(format!("<{name}{}>", attributes.iter().map(attribute).collect::<String>()))
    }

    /// A style sheet of the program's own.
    pub(super) fn style(sheet: &'static str) -> Self {
        Self(format!("<style>{sheet}</style>"))
    }

    /// A plot: SVG of `hopeval-plots`, which escapes its texts. Screen readers read `label` and the table behind it.
    pub(super) fn plot(svg: &str, label: &str) -> Self {
        Self::element("div", &[("class", "plot"), ("role", "img"), ("aria-label", label)], Self(svg.to_owned()))
    }

    /// A number: rounded for people, with all its digits in the attribute `value`.
    pub(super) fn number(value: f64, shown: &str) -> Self {
        Self::element("data", &[("value", &value.to_string())], shown)
    }

    /// A figure that may be unknown: four digits behind the point.
    pub(super) fn share(value: Option<f64>) -> Self {
        value.map_or_else(Self::unknown, |value| Self::number(value, &format!("{value:.4}")))
    }

    /// A quantity that may be unknown: four significant digits.
    pub(super) fn quantity(value: Option<f64>) -> Self {
        value.map_or_else(Self::unknown, |value| Self::number(value, &quantity_text(value)))
    }

    pub(super) fn count(value: u64) -> Self {
        Self::text(&value.to_string())
    }

    /// The dash of an unknown figure.
    pub(super) fn unknown() -> Self {
        Self::text("–")
    }

    pub(super) fn paragraph(text: &str) -> Self {
        Self::element("p", &[], text)
    }

    /// A remark beside figures.
    pub(super) fn note(text: &str) -> Self {
        Self::element("p", &[("class", "note")], text)
    }

    pub(super) fn push(&mut self, more: Self) {
        self.0.push_str(&more.0);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for HtmlPiece {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<&String> for HtmlPiece {
    fn from(text: &String) -> Self {
        Self::text(text)
    }
}

impl FromIterator<HtmlPiece> for HtmlPiece {
    fn from_iter<I: IntoIterator<Item = HtmlPiece>>(pieces: I) -> Self {
        Self(pieces.into_iter().map(|piece| piece.0).collect())
    }
}

/// A quantity with four significant digits.
pub(super) fn quantity_text(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 {
        return "0".to_owned();
    }
    if !(1e-4..1e7).contains(&size) {
        return format!("{value:.3e}");
    }
    let digits = (3 - size.log10().floor() as i32).max(0) as usize;
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_cannot_leave_their_place() {
        let nasty = "</script><img src=x onerror='a()'> & \"b\" \u{202E}";
        let shown = "&lt;/script&gt;&lt;img src=x onerror=&#39;a()&#39;&gt; &amp; &quot;b&quot; [U+202E]";
        assert_eq!(HtmlPiece::text(nasty).as_str(), shown);
        let element = HtmlPiece::element("p", &[("title", "\"><script>")], "<b>");
        assert_eq!(element.as_str(), "<p title=\"&quot;&gt;&lt;script&gt;\">&lt;b&gt;</p>");
        assert_eq!(HtmlPiece::number(0.1 + 0.2, "0.3").as_str(), "<data value=\"0.30000000000000004\">0.3</data>");
    }

    #[test]
    fn quantities_have_four_digits() {
        let shown: Vec<String> = [0.0, 0.012345, 12.345, 123456.7, 3.0e9].into_iter().map(quantity_text).collect();
        assert_eq!(shown, ["0", "0.01235", "12.35", "123457", "3.000e9"]);
    }
}
