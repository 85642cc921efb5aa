//! The page: one file without anything from elsewhere, and the plots as files of their own.

use super::html::HtmlPiece;
use super::page_table::PageTable;
use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA256, digest};
use std::collections::BTreeSet;
use std::path::Path;

/// The style sheet. It has the page's colours in light and dark, and shows what the reader chooses: there is no script.
const STYLE: &str = include_str!("style.css");

/// The first characters of every page.
pub(super) const PAGE_START: &str = "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta \
                                     name=\"generator\" content=\"hopeval report\">";

/// A page under way.
#[derive(Default)]
pub(super) struct ReportPage {
    sections: Vec<(&'static str, &'static str, HtmlPiece)>,
    /// Name and SVG.
    plots: Vec<(String, String)>,
    names: BTreeSet<String>,
}

impl ReportPage {
    /// Adds a section, unless it is empty.
    pub(super) fn add_section(&mut self, id: &'static str, title: &'static str, content: HtmlPiece) {
        if !content.is_empty() {
            self.sections.push((id, title, content));
        }
    }

    /// A plot with the table of its figures.
    pub(super) fn plot(&mut self, name: &str, svg: &str, label: &str, table: &PageTable) -> HtmlPiece {
        let file = self.free_name(name);
        self.plots.push((file, svg.to_owned()));
        let behind = [HtmlPiece::element("summary", &[], "The figures of this plot"), table.to_html()];
        let details = HtmlPiece::element("details", &[], behind.into_iter().collect::<HtmlPiece>());
        HtmlPiece::element("figure", &[], [HtmlPiece::plot(svg, label), details].into_iter().collect::<HtmlPiece>())
    }

    /// A plot of figures that stand in a table nearby.
    pub(super) fn plot_of(&mut self, name: &str, svg: &str, label: &str) -> HtmlPiece {
        let file = self.free_name(name);
        self.plots.push((file, svg.to_owned()));
        HtmlPiece::element("figure", &[], HtmlPiece::plot(svg, label))
    }

    /// The name in characters that every file system takes, with a number if it is taken.
    fn free_name(&mut self, name: &str) -> String {
        let kept = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_') { c } else { '-' };
        let plain: String = name.chars().map(kept).take(80).collect();
        let numbered = (2..).map(|number| format!("{plain}-{number}"));
        let free = std::iter::once(plain.clone()).chain(numbered).find(|name| !self.names.contains(name));
        let free = free.unwrap_or(plain);
        self.names.insert(free.clone());
        free
    }

    /// The whole page.
    pub(super) fn to_text(&self, title: &str, lead: HtmlPiece) -> String {
        let hash = STANDARD.encode(digest(&SHA256, STYLE.as_bytes()));
        let policy = format!(
            "default-src 'none'; style-src 'sha256-{hash}'; img-src data:; base-uri 'none'; form-action 'none'"
        );
        let head: HtmlPiece = [
            HtmlPiece::empty_element("meta", &[("charset", "utf-8")]),
            HtmlPiece::empty_element("meta", &[("name", "generator"), ("content", "hopeval report")]),
            HtmlPiece::empty_element("meta", &[("http-equiv", "Content-Security-Policy"), ("content", &policy)]),
            HtmlPiece::empty_element(
                "meta",
                &[("name", "viewport"), ("content", "width=device-width, initial-scale=1")],
            ),
            HtmlPiece::empty_element("meta", &[("name", "color-scheme"), ("content", "light dark")]),
            HtmlPiece::empty_element("link", &[("rel", "icon"), ("href", "data:,")]),
            HtmlPiece::element("title", &[], title),
            HtmlPiece::style(STYLE),
        ]
        .into_iter()
        .collect();
        let link = |(id, title, _): &(&'static str, &'static str, HtmlPiece)| {
            HtmlPiece::element("li", &[], HtmlPiece::element("a", &[("href", &format!("#{id}"))], *title))
        };
        let contents = HtmlPiece::element("ul", &[], self.sections.iter().map(link).collect::<HtmlPiece>());
        let section = |(id, title, content): &(&'static str, &'static str, HtmlPiece)| {
            let parts = [HtmlPiece::element("h2", &[], *title), content.clone()];
            HtmlPiece::element("section", &[("id", id)], parts.into_iter().collect::<HtmlPiece>())
        };
        let header = [HtmlPiece::element("h1", &[], title), lead].into_iter().collect::<HtmlPiece>();
        let body: HtmlPiece = [
            HtmlPiece::element("header", &[], header),
            HtmlPiece::element("nav", &[("aria-label", "sections")], contents),
            HtmlPiece::element("main", &[], self.sections.iter().map(section).collect::<HtmlPiece>()),
        ]
        .into_iter()
        .collect();
        let whole = [HtmlPiece::element("head", &[], head), HtmlPiece::element("body", &[], body)];
        let page = HtmlPiece::element("html", &[("lang", "en")], whole.into_iter().collect::<HtmlPiece>());
        let text = format!("<!DOCTYPE html>\n{}\n", page.as_str());
        debug_assert!(text.starts_with(PAGE_START), "a later page would not replace this one");
        text
    }

    /// The names of the plots' files.
    pub(super) fn plot_names(&self) -> BTreeSet<String> {
        self.plots.iter().map(|(name, _)| format!("{name}.svg")).collect()
    }

    /// Writes each plot to a file of its own.
    pub(super) fn write_plots(&self, folder: &Path) -> Result<()> {
        for (name, svg) in &self.plots {
            let path = folder.join(format!("{name}.svg"));
            std::fs::write(&path, svg).with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }
}
