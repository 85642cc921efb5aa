//! Tables of a page.

use super::html::Html;

/// A table: the first cell of each row names it.
#[derive(Clone, Debug, Default)]
pub(super) struct PageTable {
    /// Its id in the page.
    pub(super) id: String,
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<Vec<Html>>,
}

impl PageTable {
    pub(super) fn new(id: &str, columns: &[&str]) -> Self {
        let columns = columns.iter().map(|name| (*name).to_owned()).collect();
        Self { id: id.to_owned(), columns, rows: Vec::new() }
    }

    pub(super) fn push(&mut self, row: impl IntoIterator<Item = Html>) {
        self.rows.push(row.into_iter().collect());
    }

    /// The table, in a frame that scrolls by itself where it is wider than the page.
    pub(super) fn to_html(&self) -> Html {
        let heading = |name: &String| Html::element("th", &[("scope", "col")], name);
        let head = Html::element("tr", &[], self.columns.iter().map(heading).collect::<Html>());
        let row = |cells: &Vec<Html>| {
            let cell = |(at, cell): (usize, &Html)| match at {
                0 => Html::element("th", &[("scope", "row")], cell.clone()),
                _ => Html::element("td", &[], cell.clone()),
            };
            Html::element("tr", &[], cells.iter().enumerate().map(cell).collect::<Html>())
        };
        let body = Html::element("tbody", &[], self.rows.iter().map(row).collect::<Html>());
        let whole = [Html::element("thead", &[], head), body].into_iter().collect::<Html>();
        let table = Html::element("table", &[("id", &self.id)], whole);
        let label = format!("table {}", self.id);
        Html::element(
            "div",
            &[("class", "scroll"), ("tabindex", "0"), ("role", "group"), ("aria-label", &label)],
            table,
        )
    }
}
