//! Tables of a page.

use super::html::HtmlPiece;

/// A table: the first cell of each row names it.
#[derive(Clone, Debug, Default)]
pub(super) struct PageTable {
    /// Its id in the page.
    pub(super) id: String,
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<Vec<HtmlPiece>>,
}

impl PageTable {
    pub(super) fn new(id: &str, columns: &[&str]) -> Self {
        let columns = columns.iter().map(|name| (*name).to_owned()).collect();
        Self { id: id.to_owned(), columns, rows: Vec::new() }
    }

    pub(super) fn push(&mut self, row: impl IntoIterator<Item = HtmlPiece>) {
        self.rows.push(row.into_iter().collect());
    }

    /// The table, in a frame that scrolls by itself where it is wider than the page.
    pub(super) fn to_html(&self) -> HtmlPiece {
        let heading = |name: &String| HtmlPiece::element("th", &[("scope", "col")], name);
        let head = HtmlPiece::element("tr", &[], self.columns.iter().map(heading).collect::<HtmlPiece>());
        let row = |cells: &Vec<HtmlPiece>| {
            let cell = |(at, cell): (usize, &HtmlPiece)| match at {
                0 => HtmlPiece::element("th", &[("scope", "row")], cell.clone()),
                _ => HtmlPiece::element("td", &[], cell.clone()),
            };
            HtmlPiece::element("tr", &[], cells.iter().enumerate().map(cell).collect::<HtmlPiece>())
        };
        let body = HtmlPiece::element("tbody", &[], self.rows.iter().map(row).collect::<HtmlPiece>());
        let whole = [HtmlPiece::element("thead", &[], head), body].into_iter().collect::<HtmlPiece>();
        let table = HtmlPiece::element("table", &[("id", &self.id)], whole);
        let label = format!("table {}", self.id);
        HtmlPiece::element(
            "div",
            &[("class", "scroll"), ("tabindex", "0"), ("role", "group"), ("aria-label", &label)],
            table,
        )
    }
}
