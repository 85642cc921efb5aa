//! A table that fits the terminal: its first columns, and a line that names the others.

use super::{UNKNOWN, markdown_table};
use crate::print;

/// The fewest characters of a name that is cut.
const SHORTEST_NAME: usize = 8;

/// A table with names in the first columns and figures in the others, the most important ones first.
#[derive(Clone, Debug, Default)]
pub(crate) struct FigureTable {
    /// The heading of each column.
    pub(crate) header: Vec<String>,
    /// The number of columns with names; they are always shown.
    pub(crate) names: usize,
    /// The cells of each row.
    pub(crate) rows: Vec<Vec<String>>,
}

impl FigureTable {
    /// A table with one column of names.
    pub(crate) fn new(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> Self {
        let header = header.iter().map(|&title| title.to_owned()).collect();
        Self { header, names: 1, rows: rows.into_iter().collect() }
    }

    /// Adds a column with a cell for each row.
    pub(crate) fn push_column(&mut self, title: &str, cells: Vec<String>) {
        self.header.push(title.to_owned());
        self.rows.iter_mut().zip(cells).for_each(|(row, cell)| row.push(cell));
    }

    /// The table without the columns of figures that are unknown in every row; `None` without any figure.
    pub(crate) fn known(mut self) -> Option<Self> {
        let is_known = |column: usize| column < self.names || self.rows.iter().any(|row| row[column] != UNKNOWN);
        let kept: Vec<usize> = (0..self.header.len()).filter(|&column| is_known(column)).collect();
        if self.rows.is_empty() || kept.len() <= self.names {
            return None;
        }
        self.header = kept.iter().map(|&column| self.header[column].clone()).collect();
        for row in &mut self.rows {
            *row = kept.iter().map(|&column| row[column].clone()).collect();
        }
        Some(self)
    }

    /// The table as Markdown, as wide as the terminal allows.
    pub(crate) fn to_text(&self) -> String {
        self.within(print::line_width())
    }

    /// The table as Markdown in lines of at most `space` characters: the first columns that fit, at least one of
    /// figures, and a line that names the others. Long names are cut in the middle where nothing else helps.
    fn within(&self, space: Option<usize>) -> String {
        let header: Vec<&str> = self.header.iter().map(String::as_str).collect();
        let Some(space) = space else { return markdown_table(&header, self.rows.iter().cloned()) };
        let widths: Vec<usize> = (0..header.len()).map(|column| self.width_of(column)).collect();
        let line = |columns: usize| 1 + widths[..columns].iter().map(|width| width + 3).sum::<usize>();
        let least = (self.names + 1).min(header.len());
        let shown = (least..=header.len()).rev().find(|&columns| line(columns) <= space).unwrap_or(least);
        let mut rows: Vec<Vec<String>> = self.rows.iter().map(|row| row[..shown].to_vec()).collect();
        let mut excess = line(shown).saturating_sub(space);
        let mut longest_first: Vec<usize> = (0..self.names).collect();
        longest_first.sort_by_key(|&column| usize::MAX - widths[column]);
        for column in longest_first {
            let least = SHORTEST_NAME.max(self.header[column].chars().count());
            let most = widths[column].saturating_sub(excess).max(least);
            if excess > 0 && most < widths[column] {
                rows.iter_mut().for_each(|row| row[column] = shortened(&row[column], most));
                excess -= widths[column] - most;
            }
        }
        let table = markdown_table(&header[..shown], rows);
        if shown == header.len() { table } else { format!("{table}\n{}", hidden_line(&header[shown..], space)) }
    }

    /// The characters of the widest cell of a column.
    fn width_of(&self, column: usize) -> usize {
        let cells = self.rows.iter().map(|row| &row[column]).chain([&self.header[column]]);
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    }
}

/// A name of at most `most` characters: its beginning and its end.
fn shortened(name: &str, most: usize) -> String {
    let characters: Vec<char> = name.chars().collect();
    if characters.len() <= most {
        return name.to_owned();
    }
    let kept = most - 1;
    let (begin, end) = (kept - kept / 2, kept / 2);
    let begin: String = characters[..begin].iter().collect();
    let end: String = characters[characters.len() - end..].iter().collect();
    format!("{begin}…{end}")
}

/// Names the columns that are not shown, as many as a line holds.
fn hidden_line(hidden: &[&str], space: usize) -> String {
    let columns = if hidden.len() == 1 { "column is" } else { "columns are" };
    let mut line = format!("{} {columns} not shown (--wide): {}", hidden.len(), hidden[0]);
    for name in &hidden[1..] {
        if line.chars().count() + name.chars().count() + 5 > space {
            return line + ", …";
        }
        line.push_str(&format!(", {name}"));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> FigureTable {
        let row = |name: &str| vec![name.to_owned(), "0.5000".to_owned(), "0.2500".to_owned()];
        FigureTable::new(&["configuration", "em", "f1"], [row("bm25{k=20,retriever=sparse}"), row("tfidf")])
    }

    #[test]
    fn the_first_columns_that_fit_are_shown() {
        let widest = |text: &str| text.lines().map(|line| line.chars().count()).max().unwrap();
        let all = table().within(None);
        assert_eq!((all.lines().count(), widest(&all)), (4, 49));
        assert_eq!(table().within(Some(49)), all);
        let narrow = table().within(Some(48));
        assert!(narrow.contains("em") && narrow.ends_with("\n1 column is not shown (--wide): f1"), "{narrow}");
        let cut = table().within(Some(34));
        assert!(cut.contains("…"), "{cut}");
        assert_eq!(widest(&cut.lines().take(4).collect::<Vec<_>>().join("\n")), 34, "{cut}");
    }

    #[test]
    fn columns_without_a_figure_are_left_out() {
        let row = |name: &str, em: &str| vec![name.to_owned(), em.to_owned(), UNKNOWN.to_owned()];
        let table = FigureTable::new(&["configuration", "em", "f1"], [row("a", UNKNOWN), row("b", "0.5000")]);
        let known = table.known().unwrap();
        assert_eq!((known.header, known.rows[1].len()), (vec!["configuration".to_owned(), "em".to_owned()], 2));
        assert!(FigureTable::new(&["configuration", "em", "f1"], [row("a", UNKNOWN)]).known().is_none());
        assert!(FigureTable::new(&["configuration", "em"], []).known().is_none());
    }

    #[test]
    fn a_cut_name_has_its_beginning_and_its_end() {
        assert_eq!(shortened("promptrank{k=2,pool=30}", 12), "prompt…l=30}");
        assert_eq!(shortened("bm25", 4), "bm25");
    }
}
